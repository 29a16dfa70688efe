"""The self-tests of a rule: calls that it must match, and calls that it must not."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

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
        return [Call(written["tool"], arguments, project=project, complete=False)]
    tool, texts = read_call(written)
    typed = {name: _typed(text) for name, text in texts.items()}
    return [Call(tool, values, project=project, complete=False) for values in (texts, typed)]


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
