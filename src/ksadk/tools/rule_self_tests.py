"""The self-tests of a rule: calls that it must match, and calls that it must not."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ksadk.errors import KsadkError
from ksadk.runtime_context import workspace_root_scope
from ksadk.tools.registry import Target, Tool, registered
from ksadk.tools.rule_conditions import BadRule
from ksadk.tools.rules import Call, Rule


def self_test(rule: Rule, tests: Mapping[str, Iterable[Any]]) -> None:
    """Raise when the rule matches a call that it should not, or does not match one that it should."""
    for kind, calls in tests.items():
        for written in calls:
            matches = any(rule.covers(call) for call in _readings(written, rule.project))
            if matches != (kind == "match"):
                what = "does not match" if kind == "match" else "matches"
                raise BadRule(f"its self-test fails: it {what} {_shown(written)}")


def _readings(written: Any, project: str) -> list[Call]:
    """A call of a self-test; one in words is read with its values as text, and as JSON where they are."""
    if isinstance(written, dict):
        if written.keys() - {"tool", "arguments"} or not isinstance(written.get("tool"), str):
            raise BadRule("a call of match or not_match has tool and arguments")
        arguments = written.get("arguments", {})
        if not isinstance(arguments, dict):
            raise BadRule("the arguments of a call are keys and values")
        return _calls(written["tool"], [arguments], project)
    tool, texts = read_call(written)
    typed = {name: _typed(text) for name, text in texts.items()}
    return _calls(tool, [texts, typed], project)


def _calls(name: str, readings: Iterable[dict[str, Any]], project: str) -> list[Call]:
    """The calls that may be meant: with arguments as they are, and with what the tool finds in them."""
    calls = []
    tool = registered(name)
    for arguments in readings:
        calls.append(Call(name, arguments, project=project, complete=False))
        found = _targets(tool, arguments, project) if tool is not None else {}
        if found:
            calls.append(Call(name, arguments, partial(_given, found), project, complete=False))
    return calls


def _targets(tool: Tool, arguments: Mapping[str, Any], project: str) -> dict[str, Target]:
    """What a call acts on, as named. What the links of this machine lead to must not decide about a test: it
    would hold in one workspace and fail in the next."""
    if tool.targets is None:
        return {}
    try:
        with workspace_root_scope(Path("/")):
            targets = tool.targets(arguments)
    except (KeyError, KsadkError):  # the test leaves out what it acts on, or names what no call reaches
        return {}
    return {
        name: Target(target.kind, tuple(names[:1] for names in target.items), project or target.root)
        for name, target in targets.items()
    }


def _given(found: Mapping[str, Target], _: Mapping[str, Any]) -> Mapping[str, Target]:
    return found


def read_call(written: Any) -> tuple[str, dict[str, str]]:
    """The tool and the arguments, as text, of a call in the words `TOOL key=value ...`, quoted as in a
    shell; `ValueError` for what is none."""
    if not isinstance(written, str):
        raise BadRule("a call is TOOL key=value ..., or has tool and arguments")
    try:
        tool, *pairs = shlex.split(written) or [""]
    except ValueError as error:
        raise BadRule(f"{_shown(written)} is no call: {error}") from None
    arguments = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise BadRule(f"{_shown(written)} is no call: {pair!r} is not KEY=VALUE")
        arguments[name] = value
    if not tool:
        raise BadRule("a call names its tool")
    return tool, arguments


def _typed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _shown(written: Any) -> str:
    text = str(written)
    return text if len(text) <= 120 else text[:117] + "..."
