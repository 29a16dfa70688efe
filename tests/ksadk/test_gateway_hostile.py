"""The one door under functions, arguments and settings that nobody expects."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest
from recorder import Asked, Recorder, refused

from ksadk.tools.approvals import Decision
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.registry import ToolPolicy
from ksadk.tools.rules import Rule


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, text: str) -> str:
        return text


class Keyed(dict[str, Any]):
    def __call__(self, text: str) -> str:
        return text


def pair(left: str, right: str) -> str:
    return left + right


@pytest.mark.parametrize(
    ("func", "given"),
    [
        (Unhashable(), "a"),
        (Keyed(), "a"),
        (functools.partial(pair, "b"), "ba"),
        (functools.partial(pair, right="b"), "ab"),
        (functools.partial(Unhashable()), "a"),
    ],
    ids=["unhashable", "dict", "partial", "partial by name", "partial of unhashable"],
)
def test_whatever_can_be_called_can_be_invoked(risky: Recorder, func: Any, given: str) -> None:
    for mode in ("off", "strict"):
        gateway = ToolGateway({"t": ToolPolicy("high")}, approval_mode=mode, store=risky.store)
        assert gateway.invoke("t", func, "a", approval={"approved": True}) == given
        assert gateway.invoke("t", func, wrong=1)["error_type"] == "invalid_arguments"
        assert gateway.invoke("t", func, 5)["error_type"] == "invalid_arguments", "its types are known"


@pytest.mark.parametrize("func", [dict, int, 5, None, "text", print, [].append], ids=range(7))
def test_what_has_no_parameters_to_offer_is_refused(func: Any) -> None:
    assert ToolGateway().invoke("t", func, "a")["error_type"] == "invalid_tool"


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [10**5000, -(10**5000), [10**5000], deep(101), deep(490), deep(10_000)],
    ids=["large", "small", "large inside", "deep", "at the edge of the stack", "beyond the stack"],
)
def test_arguments_that_nobody_can_be_shown_are_refused_before_anyone_is_asked(
    risky: Recorder, value: Any
) -> None:
    def anything(v: Any) -> str:
        return "ran"

    asked = Asked()
    gateway = ToolGateway({"t": ToolPolicy("high")}, approval_mode="strict", store=risky.store, ask=asked)
    assert gateway.invoke("t", anything, value)["error_type"] == "invalid_arguments"
    assert asked.requests == []
    assert ToolGateway().invoke("t", anything, value) == "ran", "where nobody is asked, nothing is shown"


@pytest.mark.parametrize(
    "value",
    [b"\xff\xfe", bytearray(b"\xff"), "\udc80", float("nan"), {1, "a"}, {1: 2}, object(), Keyed, deep(90)],
    ids=["bytes", "bytearray", "surrogate", "nan", "set", "keys", "object", "class", "deep"],
)
def test_an_argument_of_any_kind_can_be_asked_about(risky: Recorder, value: Any) -> None:
    def anything(v: Any) -> str:
        return "ran"

    asked = Asked(Decision("approve"))
    gateway = ToolGateway({"t": ToolPolicy("high")}, approval_mode="strict", store=risky.store, ask=asked)
    assert gateway.invoke("t", anything, value) == "ran"
    [kept] = risky.store.list(every=True)
    assert kept.state == "used"
    assert list(kept.arguments) == ["v"]


@pytest.mark.parametrize("variable", ["MAX_CHARS", "PREVIEW_CHARS", "PERSIST_THRESHOLD_CHARS"])
def test_a_limit_of_results_that_cannot_be_used_is_said_before_the_call_runs(
    risky: Recorder, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(f"KSADK_TOOL_RESULT_{variable}", "many")
    result = ToolGateway().call(replace(risky.tool, large_fields=("path",)), (), {"path": "a"})
    assert result["error_type"] == "invalid_setting"
    assert f"KSADK_TOOL_RESULT_{variable}" in result["error_message"]
    assert risky.ran == []


def test_what_a_rule_denies_has_no_preview(risky: Recorder) -> None:
    denying = risky.gateway(rules=[Rule("deny", "risky")])
    assert refused(denying.preview(risky.tool, {"path": "a"}), "denied_by_rule", "denied_by_rule")
    assert risky.ran == []
    assert risky.gateway().preview(risky.tool, {"path": "a"})["summary"] == "touch a"
