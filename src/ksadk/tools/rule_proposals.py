"""Rules that would let a call through that somebody is asked about, from the narrowest on, and what else
each of them would let through."""

from __future__ import annotations

import os
import posixpath
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ksadk.errors import KsadkError
from ksadk.tools.approvals import ApprovalRequest, canonical_json
from ksadk.tools.consent import maker_of
from ksadk.tools.registry import Target, Tool, registered
from ksadk.tools.rule_conditions import hosts_of
from ksadk.tools.rule_edits import rule_text
from ksadk.tools.rule_files import standing_rules
from ksadk.tools.rule_reader import read_rules
from ksadk.tools.rules import Call, Rule, decide_call

MAX_TEXT = 1_000
"""Characters of a rule that a person can be expected to read."""

MOST_OTHERS = 3
_SHOWN = 60


class Proposal(NamedTuple):
    """One rule: how wide it is in words, the rule as a file has it, as YAML, and as it would be judged."""

    width: str
    written: dict[str, Any]
    text: str
    rule: Rule


def asking_rule(request: ApprovalRequest) -> Rule | None:
    """The rule that asks about this call, if one does: no rule that allows would lift it."""
    with maker_of(request):
        found = decide_call(standing_rules(), _call(request, request.arguments))
    return found if found is not None and found.verdict == "ask" else None


def proposals(request: ApprovalRequest) -> list[Proposal]:
    """Rules that would let this call through. None for what cannot be said simply: a long text, or a tool
    whose name would be read as a pattern. Of a call of high or critical risk only the one for just this
    call."""
    if any(character in "*?[" for character in request.tool_name):
        return []
    with maker_of(request):
        call = _call(request, request.arguments)
        tool = registered(request.tool_name)
        made = []
        for width, written in _written(request, _targets(tool, request.arguments)):
            text = rule_text(written)
            [entry] = read_rules("", f"rules:\n{text}".encode("utf-8", "surrogatepass"), "user").entries
            if entry.rule is not None and len(text) <= MAX_TEXT and entry.rule.covers(call):
                made.append(Proposal(width, written, text, entry.rule))
        return made


def others(request: ApprovalRequest, rule: Rule, asked: Iterable[ApprovalRequest]) -> list[str]:
    """Up to three other calls that a rule would let through: some that were `asked` about, then made up."""
    found: dict[str, None] = {}
    with maker_of(request):
        for arguments in _others(request, asked):
            if arguments != request.arguments and _covers(rule, _call(request, arguments)):
                found[_shown(request.tool_name, arguments)] = None
            if len(found) == MOST_OTHERS:
                break
    return list(found)


def _covers(rule: Rule, call: Call) -> bool:
    try:
        return rule.covers(call)
    except KsadkError:  # a path that leads out, say
        return False


def _call(request: ApprovalRequest, arguments: Mapping[str, Any]) -> Call:
    project = os.path.realpath(request.project)
    tool = registered(request.tool_name)
    return Call.of(tool, arguments, project) if tool else Call(request.tool_name, arguments, project=project)


def _targets(tool: Tool | None, arguments: Mapping[str, Any]) -> Mapping[str, Target]:
    return tool.targets(arguments) if tool is not None and tool.targets is not None else {}


def _written(request: ApprovalRequest, targets: Mapping[str, Target]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each width in words, and the rule."""
    allow = {"allow": request.tool_name}
    narrow = request.risk_level in ("high", "critical")
    url = request.arguments.get("url")
    if "path" in targets:
        yield from _about_paths(request, targets["path"], narrow=narrow)
    else:
        project = {"project": os.path.realpath(request.project)}
        exact = {name: _exactly(name, value) for name, value in request.arguments.items()}
        where: dict[str, Any] = {"where": exact} if exact else {}
        yield "exactly this call, in this project", allow | where | project
        hosts = {host for host, _ in hosts_of(url)} if isinstance(url, str) and not narrow else set()
        if len(hosts) == 1 and "*" not in (host := hosts.pop()):
            yield f"this tool for {host}", allow | {"where": {"url": host}}
        if exact and not narrow:
            yield "this tool, anything, in this project", allow | project
    if not narrow:
        yield "this tool, anything, anywhere", allow


def _about_paths(
    request: ApprovalRequest, target: Target, *, narrow: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Widths for files. A path is written from the root of the machine: it is for this workspace alone."""
    allow = {"allow": request.tool_name}
    named = [names[0] for names in target.items]
    real = [names[-1] for names in target.items]  # where a link on the way leads
    files = list(dict.fromkeys(_literal(posixpath.join(target.root, name)) for name in [*named, *real]))
    here = _one_or_any(files)
    rest = {name: _exactly(name, value) for name, value in request.arguments.items() if name != "path"}
    yield "exactly this call", allow | {"where": {"path": here, **rest}}
    if narrow:
        return
    if rest:
        yield (
            "this tool, on this file" if len(named) == 1 else "this tool, on these files",
            (allow | {"where": {"path": here}}),
        )
    directories = list(
        dict.fromkeys(posixpath.commonpath(list(map(posixpath.dirname, names))) for names in (named, real))
    )
    inside = [_literal(posixpath.join(target.root, name).rstrip("/")) + "/**" for name in directories]
    shown = " and ".join(f"{name}/" for name in directories)
    width = f"this tool, in {shown}" if all(directories) else "this tool, in this workspace"
    yield width, allow | {"where": {"path": _one_or_any(inside)}}


def _one_or_any(patterns: list[str]) -> Any:
    return patterns[0] if len(patterns) == 1 else {"any": patterns}


def _exactly(name: str, value: Any) -> Any:
    """The condition that an argument is just this value."""
    is_plain = name not in ("path", "url") and not isinstance(value, (list, dict))
    return value if is_plain else {"equals": value}


def _literal(path: str) -> str:
    """A glob that only this path fits."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in path)


def _others(request: ApprovalRequest, asked: Iterable[ApprovalRequest]) -> Iterator[dict[str, Any]]:
    for earlier in asked:
        if (earlier.tool_name, earlier.workspace_root) == (request.tool_name, request.workspace_root):
            yield earlier.arguments
    tool = registered(request.tool_name)
    target = _targets(tool, request.arguments).get("path")
    if target is not None:
        for other in _other_paths(target):
            yield _with_path(request.arguments, other)
    url = request.arguments.get("url")
    if isinstance(url, str):
        for host, _ in sorted(hosts_of(url), key=str):
            yield request.arguments | {"url": f"https://{host}/something/else?with=anything"}
        yield request.arguments | {"url": "https://example.org/anything"}
    for name, value in request.arguments.items():
        if isinstance(value, str) and name not in ("path", "url"):
            yield request.arguments | {name: "something else"}


def _other_paths(target: Target) -> Iterator[str]:
    """Paths near the first one: its neighbours that are there, then made up."""
    first = target.items[0][0]
    directory = posixpath.dirname(first)
    near: list[str] = []
    if os.path.isdir(Path(target.root, directory)):  # noqa: PTH112  # a path that is none is no error
        with os.scandir(Path(target.root, directory)) as entries:
            near = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    for name in (*near[: MOST_OTHERS + 1], "another.txt", "deeper/down/another.txt"):
        if posixpath.join(directory, name) != first:
            yield posixpath.join(directory, name)
    yield from ("setup.py", ".github/workflows/build.yml")


def _with_path(value: Any, other: str) -> Any:
    """Arguments with another path in the place of each that they have."""
    if isinstance(value, Mapping):
        return {
            key: other if key == "path" and isinstance(item, str) else _with_path(item, other)
            for key, item in value.items()
        }
    return [_with_path(item, other) for item in value] if isinstance(value, list) else value


def _shown(tool_name: str, arguments: Mapping[str, Any]) -> str:
    """A call in the words of a shell, each value cut to what fits a line."""
    words = [tool_name]
    for name, value in arguments.items():
        text = value if isinstance(value, str) else canonical_json(value)
        words.append(f"{name}={text if len(text) <= _SHOWN else text[:_SHOWN] + '...'}")
    return shlex.join(words)
