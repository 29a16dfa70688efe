"""Rules that the decision log suggests: what a person has approved again and again, and never denied."""

from __future__ import annotations

import glob
import json
import posixpath
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ksadk.errors import KsadkError
from ksadk.tools.approvals import ApprovalRequest, canonical_json
from ksadk.tools.consent import maker_of
from ksadk.tools.registry import Target, Tool, registered

MAX_EXACT = 300
"""Characters of the JSON of arguments that a rule about one exact call may repeat."""

NOT_A_PERSON = frozenset({"", "--yes", "the caller", "nobody", "a yes for the session", "a rule"})
"""What `by` says of a call that no person looked at."""

_PLAIN_PATH = re.compile(r"[^\\\x00-\x1f\x7f]+")

RequestOf = Callable[[str], ApprovalRequest | None]
"""A request by its id, or None where it is not kept any more."""


class PlaceUnknown(Exception):
    """Which files a call was about cannot be said: no workspace is kept of it, or a link is in its path."""


class Suggestion(NamedTuple):
    """A rule that would have let through what was approved. `where` holds the rule's conditions."""

    tool: str
    where: dict[str, Any]
    project: str
    approved: int

    @property
    def reason(self) -> str:
        """Why it is suggested."""
        return f"approved {self.approved} times, denied 0"

    def command(self) -> str:
        """The command line that adds it."""
        conditions = [
            f"{name}={value if isinstance(value, str) else canonical_json(value)}"
            for name, value in self.where.items()
        ]
        words = ["agentengine", "approvals", "rules", "add", "allow", self.tool, *conditions]
        return shlex.join([*words, "--project", self.project, "--reason", self.reason])

    def yaml(self) -> str:
        """The same as an entry of a file of rules."""
        lines = [f"- allow: {json.dumps(self.tool)}"]
        if self.where:
            lines.append("  where:")
            lines += [f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in self.where.items()]
        lines.append(f"  project: {json.dumps(self.project)}")
        lines.append(f"  reason: {json.dumps(self.reason)}")
        return "\n".join(lines) + "\n"


@dataclass
class Suggestions:
    """What a log suggests. Approved calls that are left out are counted by tool: in `unknown` where their
    arguments are known no more, in `placeless` where it is not known which files they were about. In
    `held_back` are tools of which such a call was denied, so that nothing is suggested for them."""

    found: list[Suggestion] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    placeless: dict[str, int] = field(default_factory=dict)
    held_back: list[str] = field(default_factory=list)

    def leave_out(self, tool: str, counted: dict[str, int], approved: bool) -> None:
        if approved:
            counted[tool] = counted.get(tool, 0) + 1
        elif tool not in self.held_back:
            self.held_back.append(tool)


def suggest(lines: Iterable[Mapping[str, Any]], request_of: RequestOf, at_least: int) -> Suggestions:
    """The rules that the decisions in a log suggest: those approved `at_least` times, the most often first.

    A log holds digests of arguments. The arguments themselves are taken from the requests that the store
    still has, else from the log where they were kept (`--audit-args`).
    """
    approved: dict[tuple[str, str, str], int] = defaultdict(int)
    denied: set[tuple[str, str, str]] = set()
    suggestions = Suggestions()
    for line, yes in _answers(lines):
        tool, project = str(line.get("tool")), str(line.get("project"))
        request = request_of(str(line["request"]))
        arguments = line.get("arguments") if request is None else request.arguments
        if not isinstance(arguments, Mapping):
            suggestions.leave_out(tool, suggestions.unknown, yes)
            continue
        try:
            where = canonical_json(conditions_for(line, arguments, request))
        except PlaceUnknown:
            suggestions.leave_out(tool, suggestions.placeless, yes)
            continue
        if not yes:
            denied.add((tool, project, where))
        else:
            approved[tool, project, where] += 1
    for (tool, project, where), count in sorted(approved.items(), key=lambda item: -item[1]):
        rule = json.loads(where)
        clear = (tool, project, where) not in denied and tool not in suggestions.held_back
        no = [json.loads(other) for name, _, other in denied if name == tool]
        if count >= at_least and clear and len(where) <= MAX_EXACT and not any(_inside(rule, o) for o in no):
            suggestions.found.append(Suggestion(tool, rule, project, count))
    return suggestions


def _inside(rule: Mapping[str, Any], denied: Mapping[str, Any]) -> bool:
    """Whether a rule about a directory would allow something of what was denied below it."""
    directory = rule.get("path")
    if not isinstance(directory, str) or not directory.endswith("/**"):
        return False
    path = denied.get("path")
    paths = path.get("any", []) if isinstance(path, Mapping) else [path]
    return any(str(one).startswith(directory.removesuffix("**")) for one in paths)


def conditions_for(
    line: Mapping[str, Any], arguments: Mapping[str, Any], request: ApprovalRequest | None
) -> dict[str, Any]:
    """What a rule would ask of calls like this one: of a file in a directory, to be in that directory; of a
    file in the root, to be that file; of any other call, and of any of high risk, to have exactly its
    arguments. A path is written from the root of the machine: it is for one workspace.

    request: what was asked, where it is still kept. Raises `PlaceUnknown`.
    """
    tool = registered(str(line.get("tool")))
    target = None if tool is None else _files(tool, arguments, request)
    if target is None:
        return {name: {"equals": value} for name, value in arguments.items()}
    files = [glob.escape(posixpath.join(target.root, names[0])) for names in target.items]
    here = {"path": files[0] if len(files) == 1 else {"any": files}}
    risk = line.get("risk") if request is None else request.risk_level
    if risk not in ("low", "medium"):
        rest = {name: {"equals": value} for name, value in arguments.items() if name != "path"}
        return {**here, **rest}
    directory = posixpath.commonpath([posixpath.dirname(names[0]) for names in target.items])
    inside = glob.escape(posixpath.join(target.root, directory))
    return {"path": f"{inside}/**"} if directory else here


def _files(tool: Tool, arguments: Mapping[str, Any], request: ApprovalRequest | None) -> Target | None:
    """The files that a call was about, in its own workspace; None where it was about none."""
    if tool.targets is None:
        return None
    if request is None or not request.workspace_root.startswith("/"):
        raise PlaceUnknown
    try:
        with maker_of(request):
            target = tool.targets(arguments).get("path")
    except KsadkError as error:  # the workspace is gone, or the path leads out of it by now
        raise PlaceUnknown from error
    if target is None:
        return None
    names = {name for item in target.items for name in (target.root, *item)}
    if any(len(set(item)) > 1 for item in target.items) or not all(map(_PLAIN_PATH.fullmatch, names)):
        raise PlaceUnknown
    return target


def _answers(lines: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], bool]]:
    """What people said, by request: its line, and whether it was yes. A no stands, whatever followed."""
    answers: dict[str, tuple[Mapping[str, Any], bool]] = {}
    for line in lines:
        request = line.get("request")
        if not isinstance(request, str) or line.get("event") != "decision":
            continue
        if line.get("outcome") == "approval_rejected" and "code" not in line:
            answers[request] = (line, False)
        elif line.get("outcome") == "allowed" and line.get("by") not in NOT_A_PERSON:
            answers.setdefault(request, (line, True))
    return list(answers.values())
