"""What name, policy and mode a call is judged by, and how approval may be passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ksadk.runtime_context import PlatformInvocationContext, platform_invocation_scope
from ksadk.tools.gateway import (
    ToolGateway,
    ToolPolicy,
    normalize_tool_approval_mode,
    tool_approval_capability,
    tool_policy_requires_approval,
)
from ksadk.tools.rules import Rule
from ksadk.toolsets.workspace import delete_workspace_file, workspace_root, write_workspace_file


def note(path: str) -> dict[str, Any]:
    """Do something of the caller's own."""
    return {"ok": True, "path": path}


def test_a_policy_for_a_name_holds_for_whatever_is_called_by_it() -> None:
    gateway = ToolGateway({"my_write": ToolPolicy("high")}, approval_mode="strict")
    for func in (note, write_workspace_file):
        arguments = {"path": "a"} if func is note else {"path": "a", "content": ""}
        assert gateway.invoke("my_write", func, **arguments)["type"] == "approval_required"
    assert gateway.invoke("note", note, path="a")["ok"]


def test_a_function_under_a_built_in_tools_name_is_as_risky_as_that_tool() -> None:
    gateway = ToolGateway(approval_mode="strict")
    assert gateway.invoke("delete_workspace_file", note, "a")["type"] == "approval_required"


def test_a_rule_for_a_name_holds_for_whatever_is_called_by_it() -> None:
    gateway = ToolGateway(rules=[Rule("deny", "mine")])
    assert gateway.invoke("mine", note, "a")["type"] == "denied_by_rule"


def test_a_tools_own_parameters_may_be_called_as_the_gateways_are() -> None:
    def named(tool_name: str, func: str) -> dict[str, Any]:
        """Takes the names that invoke has."""
        return {"ok": True, "said": [tool_name, func]}

    assert ToolGateway().invoke("named", named, tool_name="x", func="y")["said"] == ["x", "y"]


def test_a_callable_without_a_hash_is_called_too() -> None:
    class Unhashable:
        """Says its path."""

        __hash__ = None  # type: ignore[assignment]

        def __call__(self, path: str) -> dict[str, Any]:
            return {"ok": True, "path": path}

    assert ToolGateway().invoke("u", Unhashable(), "a")["path"] == "a"


def test_the_requests_mode_is_the_one_that_every_function_tells() -> None:
    assert normalize_tool_approval_mode() == "off"
    with platform_invocation_scope(PlatformInvocationContext(tool_approval_mode="risk")):
        assert normalize_tool_approval_mode() == "strict"
        assert tool_approval_capability()["mode"] == "strict"
        assert tool_policy_requires_approval(ToolPolicy("high"))
        assert write_workspace_file("a", "x")["type"] == "approval_required"


def test_approval_may_also_come_last_by_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "strict")
    file = workspace_root() / "a"
    file.write_text("x")
    assert delete_workspace_file("a", {"approved": "true"})["error_type"] == "invalid_approval"
    assert file.exists()
    assert delete_workspace_file("a", {"approved": True})["ok"]
    assert not file.exists()


def test_an_approval_by_position_is_not_taken_for_one_that_is_named() -> None:
    result = delete_workspace_file("a", {"approved": True}, approval={"approved": True})
    assert result["error_type"] == "invalid_arguments"


def test_a_preview_of_a_call_that_a_rule_denies_says_so(tmp_path: Path) -> None:
    from ksadk.tools.registry import find

    gateway = ToolGateway(rules=[Rule("deny", "write_*", reason="frozen")])
    shown = gateway.preview(find("write_workspace_file"), {"path": "a", "content": "x"})
    assert shown["type"] == "denied_by_rule"
    assert shown["reason"] == "frozen"
