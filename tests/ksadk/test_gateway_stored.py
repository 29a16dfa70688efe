"""Stored requests when they are used: everything is compared again. And what hosts make of an envelope."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorder import Recorder, refused

from ksadk.runtime_context import (
    PlatformInvocationContext,
    get_current_session_id,
    get_current_workspace_root,
    platform_invocation_scope,
    tool_execution_scope,
    workspace_root_scope,
)
from ksadk.tools import registry
from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.approvals import (
    StoredApproval,
    approval_interrupt_info_from_result,
    build_tool_receipt_idempotency_key,
)
from ksadk.tools.gateway import (
    ToolGateway,
)
from ksadk.tools.rules import Rule

# Stored requests at dispatch


def other_account(_: Path) -> AbstractContextManager[Any]:
    return platform_invocation_scope(PlatformInvocationContext(account_id="other"))


def other_session(_: Path) -> AbstractContextManager[Any]:
    return tool_execution_scope("other")


def other_root(directory: Path) -> AbstractContextManager[Any]:
    return workspace_root_scope(directory / "elsewhere")


@pytest.mark.parametrize("kind", ["stored", "id"])
@pytest.mark.parametrize("scope", [other_account, other_root, other_session])
def test_a_request_of_another_account_root_or_session_is_for_another_call(
    risky: Recorder, tmp_path: Path, scope: Callable[[Path], AbstractContextManager[Any]], kind: str
) -> None:
    request_id = risky.approved()
    approval = StoredApproval(request_id) if kind == "stored" else {"approved": True, "id": request_id}
    with scope(tmp_path):
        assert refused(risky.call(approval=approval), "approval_rejected", "approval_mismatch")
    assert not risky.ran_it
    assert risky.store.get(request_id).state == "approved"


def test_a_request_of_another_project_is_for_another_call_and_says_which(
    risky: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_id = risky.approved()
    here = Path.cwd()
    monkeypatch.setenv("KSADK_PROJECT_DIR", str(tmp_path))
    result = risky.call(approval=StoredApproval(request_id))
    assert refused(result, "approval_rejected", "approval_mismatch")
    assert str(here) in result["hint"]


def test_a_request_of_another_tool_is_for_another_call(risky: Recorder) -> None:
    request_id = risky.approved()
    other = replace(risky.tool, name="other")
    result = risky.gateway().call(other, (), {"path": "a"}, StoredApproval(request_id))
    assert (result["error_type"], result["tool_name"]) == ("approval_mismatch", "other")
    assert not risky.ran_it


@pytest.mark.parametrize("arguments", [{"path": "b"}, {"path": "a", "count": 2}, {"path": "a "}])
def test_other_arguments_are_another_call(risky: Recorder, arguments: dict[str, Any]) -> None:
    request_id = risky.approved()
    result = risky.call(approval=StoredApproval(request_id), **arguments)
    assert refused(result, "approval_rejected", "approval_mismatch")
    assert not risky.ran_it


def test_a_default_that_is_spelled_out_is_the_same_call(risky: Recorder) -> None:
    request_id = risky.approved()
    assert risky.call(approval=StoredApproval(request_id), path="a", count=1)["ok"]


def test_content_that_changed_since_approval_makes_it_stale(risky: Recorder) -> None:
    request_id = risky.approved()
    risky.content = "after"
    assert refused(risky.call(approval=StoredApproval(request_id)), "approval_rejected", "approval_stale")
    assert not risky.ran_it


def test_an_approved_request_expires(risky: Recorder) -> None:
    request_id = risky.approved()
    risky.time += 900
    assert refused(risky.call(approval=StoredApproval(request_id)), "approval_expired", "approval_expired")
    assert not risky.ran_it


@pytest.mark.parametrize(("back", "usable"), [(10, True), (3600, False), (10**9, False)])
def test_a_request_from_the_future_is_not_used_though_a_clock_may_step_back(
    risky: Recorder, back: float, usable: bool
) -> None:
    request_id = risky.approved()
    risky.time -= back
    result = risky.call(approval=StoredApproval(request_id))
    assert result["ok"] is usable
    assert risky.ran_it is usable
    if not usable:
        assert refused(result, "approval_expired", "approval_expired")


def test_a_stored_request_that_still_waits_needs_approval(risky: Recorder) -> None:
    request_id = risky.waiting()
    result = risky.call(approval=StoredApproval(request_id))
    assert result["approval_request"]["id"] == request_id
    assert not risky.ran_it


def test_a_stored_request_that_was_denied_gives_the_persons_words(risky: Recorder) -> None:
    request_id = risky.waiting()
    risky.store.decide(request_id, "denied", by="me", reason="wrong file")
    result = risky.call(approval=StoredApproval(request_id))
    assert refused(result, "approval_rejected", "approval_rejected")
    assert result["reason"] == "wrong file"


def test_an_approved_request_runs_with_its_stored_arguments_session_and_root_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def stored_call(path: str) -> dict[str, Any]:
        """Do it."""
        seen.append((path, get_current_session_id(), get_current_workspace_root()))
        return {"ok": True}

    monkeypatch.setattr(registry, "_builtin", {})
    monkeypatch.setattr(registry, "_public", {})
    registry.builtin(group="g", boundary="b", risk="high")(stored_call)
    gateway = ToolGateway(approval_mode="strict", store=ApprovalStore(tmp_path / "state" / "a.sqlite3"))
    with tool_execution_scope("s"), workspace_root_scope(tmp_path):
        result = gateway.call(registry.find("stored_call"), (), {"path": "a"})
    request_id = result["approval_request"]["id"]
    assert gateway.run_approved(request_id)["approval_required"] is True
    gateway.store.decide(request_id, "approved", by="me")
    assert gateway.run_approved(request_id) == {"ok": True}
    assert gateway.run_approved(request_id)["error_type"] == "approval_used"
    assert gateway.run_approved("appr_x")["error_type"] == "approval_not_found"
    assert seen == [("a", "s", tmp_path)]


def test_a_rule_that_came_while_the_request_waited_holds_when_it_is_used(risky: Recorder) -> None:
    request_id = risky.approved()
    stricter = risky.gateway(rules=[Rule("deny", "risky", reason="new rule")])
    result = risky.call(stricter, approval=StoredApproval(request_id))
    assert refused(result, "denied_by_rule", "denied_by_rule")
    assert risky.ran == []
    assert risky.store.get(request_id).state == "approved"


# The two helpers of hosts

CALL: dict[str, Any] = {"session_id": "s", "run_id": "r", "tool_name": "t"}


def test_a_receipts_key_is_one_for_one_call_whatever_the_order_of_arguments() -> None:
    key = build_tool_receipt_idempotency_key(**CALL, tool_args={"a": 1, "b": {"c": [1], "d": None}})
    assert re.fullmatch(r"tool_receipt:[0-9a-f]{64}", key)
    assert key == build_tool_receipt_idempotency_key(**CALL, tool_args={"b": {"d": None, "c": [1]}, "a": 1})


@pytest.mark.parametrize(
    "change",
    [
        {"session_id": "x"}, {"run_id": "x"}, {"tool_name": "x"}, {"checkpoint_id": "x"},
        {"tool_call_id": "x"}, {"tool_args": {}}, {"tool_args": {"a": "1"}}, {"tool_args": {"a": 2}},
    ],
)  # fmt: skip
def test_a_receipts_key_differs_when_anything_does(change: dict[str, Any]) -> None:
    base: dict[str, Any] = CALL | {"tool_args": {"a": 1}}
    changed: dict[str, Any] = base | change
    assert build_tool_receipt_idempotency_key(**base) != build_tool_receipt_idempotency_key(**changed)


def test_an_envelope_becomes_what_a_host_interrupts_with(risky: Recorder) -> None:
    envelope = risky.call()
    request_id = envelope["approval_request"]["id"]
    info = approval_interrupt_info_from_result(envelope, tool_args={"path": "a"}, run_id="r")
    assert info == {
        "id": request_id, "approval_request_id": request_id, "tool_name": "risky", "arguments": {"path": "a"},
        "risk_level": "medium", "side_effects": ["disk"], "server_label": "ksadk", "run_id": "r",
    }  # fmt: skip


def test_the_json_text_of_an_envelope_is_read_too_and_gaps_are_filled() -> None:
    text = '{"approval_required": true, "approval_request": {"id": "appr_1", "server_label": "x"}}'
    assert approval_interrupt_info_from_result(text, fallback_tool_name="f") == {
        "id": "appr_1", "approval_request_id": "appr_1", "tool_name": "f", "arguments": {},
        "risk_level": None, "side_effects": [], "server_label": "x",
    }  # fmt: skip


@pytest.mark.parametrize(
    "result",
    [
        None, 5, "", "not json", "[" * 100_000, "[]", {}, {"ok": True}, {"approval_required": False},
        {"approval_required": "true"}, {"approval_required": True},
        {"approval_required": True, "approval_request": "appr_1"},
    ],
    ids=lambda result: repr(result)[:40],
)  # fmt: skip
def test_a_result_that_asks_for_nothing_interrupts_nothing(result: Any) -> None:
    assert approval_interrupt_info_from_result(result) is None
