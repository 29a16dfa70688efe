"""Rules that the decision log suggests: what a person has approved again and again, and never denied."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ksadk.tools.approvals import canonical_json

MAX_EXACT = 300
"""Characters of the JSON of arguments that a rule about one exact call may repeat."""

NOT_A_PERSON = frozenset({"", "--yes", "the caller", "nobody", "a yes for the session", "a rule"})
"""What `by` says of a call that no person looked at."""

_PLAIN_PATH = re.compile(r"[^*?\[\]{}!\\\x00-\x1f]+")

ArgumentsOf = Callable[[str], Mapping[str, Any] | None]
"""The arguments of a request by its id, or None where they are not kept any more."""


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
    """What a log suggests. `unknown` counts, by tool, approved calls whose arguments are known no more; in
    `held_back` are tools that a person denied with arguments that are known no more, so that nothing is
    suggested for them."""

    found: list[Suggestion] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    held_back: list[str] = field(default_factory=list)


def suggest(lines: Iterable[Mapping[str, Any]], arguments_of: ArgumentsOf, at_least: int) -> Suggestions:
    """The rules that the decisions in a log suggest: those approved `at_least` times, the most often first.

    A log holds digests of arguments. The arguments themselves are taken from it where they were kept
    (`--audit-args`), else from the requests that the store still has.
    """
    approved: dict[tuple[str, str, str], int] = defaultdict(int)
    denied: set[tuple[str, str, str]] = set()
    suggestions = Suggestions()
    for line, yes in _answers(lines):
        tool, project = str(line.get("tool")), str(line.get("project"))
        arguments = line.get("arguments") or arguments_of(str(line["request"]))
        if arguments is None:
            if yes:
                suggestions.unknown[tool] = suggestions.unknown.get(tool, 0) + 1
            elif tool not in suggestions.held_back:
                suggestions.held_back.append(tool)
            continue
        where = canonical_json(conditions_for(arguments))
        if not yes:
            denied.add((tool, project, where))
        else:
            approved[tool, project, where] += 1
    for (tool, project, where), count in sorted(approved.items(), key=lambda item: -item[1]):
        clear = (tool, project, where) not in denied and tool not in suggestions.held_back
        if count >= at_least and clear and len(where) <= MAX_EXACT:
            suggestions.found.append(Suggestion(tool, json.loads(where), project, count))
    return suggestions


def conditions_for(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a rule would ask of calls like this one: of a file in a directory, to be in that directory; of a
    file in the root, to be that file; of any other call, to have exactly its arguments."""
    path = arguments.get("path")
    if isinstance(path, str) and _PLAIN_PATH.fullmatch(path) and not path.startswith(("/", "~")):
        clean = posixpath.normpath(path)
        directory = posixpath.dirname(clean)
        if not clean.startswith(".."):
            return {"path": f"{directory}/**" if directory else clean}
    return {name: {"equals": value} for name, value in arguments.items()}


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
