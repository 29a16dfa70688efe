"""The one door: the order of a call, its modes and rules, and what any function may be."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorder import Asked, Recorder, refused

from ksadk.errors import KsadkError, SettingsError
from ksadk.runtime_context import (
    PlatformInvocationContext,
    platform_invocation_scope,
    tool_execution_scope,
    workspace_root_scope,
)
from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.approvals import (
    ApprovalRequest,
    Decision,
    arguments_digest,
)
from ksadk.tools.gateway import (
    ToolGateway,
    current_gateway,
    default_tool_gateway,
    gateway_scope,
    normalize_tool_approval_mode,
    tool_approval_capability,
    tool_policy_requires_approval,
)
from ksadk.tools.registry import Tool, ToolPolicy
from ksadk.tools.rules import Rule

# The order of one call


def test_wrong_arguments_end_before_rules_preview_and_question(risky: Recorder) -> None:
    asked = Asked()
    result = risky.call(risky.gateway(ask=asked, rules=[Rule("deny", "*")]), path=5)
    assert result["error_type"] == "invalid_arguments"
    assert (risky.ran, asked.requests) == ([], [])


def test_a_denied_call_ends_before_its_preview_and_the_question(risky: Recorder) -> None:
    asked = Asked()
    result = risky.call(risky.gateway(ask=asked, rules=[Rule("deny", "risky", reason="not here")]))
    assert refused(result, "denied_by_rule", "denied_by_rule")
    assert result["reason"] == "not here"
    assert (risky.ran, asked.requests) == ([], [])


def test_a_call_that_cannot_work_ends_before_anyone_is_asked(risky: Recorder) -> None:
    asked = Asked()
    result = risky.call(risky.gateway(ask=asked), path="absent")
    assert result == {
        "ok": False, "error_type": "file_exists", "error_message": "there is no such file",
        "hint": "Look first.", "path": "absent",
    }  # fmt: skip
    assert (risky.ran, asked.requests) == ([("plan", "absent", 1)], [])
    assert risky.store.list(every=True) == []


def test_an_approved_call_is_previewed_asked_about_previewed_again_and_run(risky: Recorder) -> None:
    def ask(request: ApprovalRequest, note: str = "") -> Decision:
        risky.ran.append("ask")
        return Decision("approve", by="me")

    assert risky.call(risky.gateway(ask=ask)) == {"ok": True, "path": "a"}
    assert risky.ran == [("plan", "a", 1), "ask", ("plan", "a", 1), ("run", "a", 1)]
    [kept] = risky.store.list(every=True)
    assert (kept.state, kept.decided_by) == ("used", "me")


def test_a_call_that_needs_no_approval_is_neither_previewed_nor_kept(risky: Recorder) -> None:
    assert risky.call(risky.gateway("off")) == {"ok": True, "path": "a"}
    assert risky.ran == [("run", "a", 1)]
    assert risky.store.list(every=True) == []


# Nobody to ask


def test_with_nobody_to_ask_the_result_is_the_envelope_and_nothing_runs(risky: Recorder) -> None:
    result = risky.call()
    request = result["approval_request"]
    assert re.fullmatch(r"appr_[0-9a-f]{32}", request["id"])
    assert result == {
        "ok": False,
        "type": "approval_required",
        "approval_required": True,
        "approval_request": {
            "id": request["id"],
            "tool_name": "risky",
            "risk_level": "medium",
            "side_effects": ["disk"],
            "expires_at": "2027-01-15T08:15:00Z",
            "arguments_digest": arguments_digest({"path": "a", "count": 1}),
        },
    }
    assert not risky.ran_it
    assert [kept.id for kept in risky.store.list()] == [request["id"]]


def test_the_lifetime_of_a_request_is_configured(risky: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_TTL_SECONDS", "60")
    assert risky.call()["approval_request"]["expires_at"] == "2027-01-15T08:01:00Z"


@pytest.mark.parametrize("seconds", ["0", "-1", "31536001", "1" + "0" * 400, "1e3", "soon"])
def test_a_lifetime_that_is_none_leaves_no_request(
    risky: Recorder, monkeypatch: pytest.MonkeyPatch, seconds: str
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_TTL_SECONDS", seconds)
    result = risky.call(risky.gateway(ask=Asked(Decision("approve"))))
    assert result["error_type"] == "invalid_setting"
    assert "KSADK_TOOL_APPROVAL_TTL_SECONDS" in result["error_message"]
    assert not risky.ran_it
    assert risky.store.list(every=True) == []


def test_a_request_keeps_where_it_was_made(risky: Recorder, tmp_path: Path) -> None:
    with (
        platform_invocation_scope(PlatformInvocationContext(account_id="acme")),
        tool_execution_scope("session"),
        workspace_root_scope(tmp_path),
    ):
        request_id = risky.waiting()
    kept = risky.store.get(request_id)
    assert (kept.account_id, kept.session_id, kept.workspace_root) == ("acme", "session", str(tmp_path))
    assert (kept.project, kept.arguments) == (str(Path.cwd()), {"path": "a", "count": 1})


# Rules, modes and policies


@pytest.mark.parametrize(
    ("verdict", "mode", "asks"),
    [("allow", "strict", False), ("ask", "strict", True), ("ask", "off", False), ("allow", "ask", False)],
)
def test_ask_and_allow_rules_matter_where_questions_are_asked(
    risky: Recorder, verdict: str, mode: str, asks: bool
) -> None:
    result = risky.call(risky.gateway(mode, rules=[Rule(verdict, "risky")]))  # type: ignore[arg-type]
    assert (result.get("approval_required") is True) is asks


def test_a_rule_sees_the_defaults_too(risky: Recorder) -> None:
    result = risky.call(risky.gateway(rules=[Rule("deny", "risky", {"count": 1})]))
    assert result["type"] == "denied_by_rule"


LOW, MEDIUM, HIGH, CRITICAL = (ToolPolicy(risk) for risk in ("low", "medium", "high", "critical"))  # type: ignore[arg-type]
NET = ToolPolicy(approval_scopes=("public_network",))


@pytest.mark.parametrize(
    ("policy", "asks_in"),
    [
        (LOW, set()),
        (MEDIUM, {"strict", "ask"}),
        (HIGH, {"strict", "ask"}),
        (CRITICAL, {"strict", "ask"}),
        (NET, {"ask"}),
        (replace(NET, approval_exempt=True), {"ask"}),
        (replace(HIGH, approval_exempt=True), set()),
        (replace(LOW, requires_approval=True), {"strict", "ask"}),
        (replace(HIGH, requires_approval=False), set()),
        (replace(NET, requires_approval=False), {"ask"}),
    ],
)
def test_a_policy_asks_in_these_modes(policy: ToolPolicy, asks_in: set[str]) -> None:
    asks = {m for m in ("off", "strict", "ask") if tool_policy_requires_approval(policy, approval_mode=m)}
    assert asks == asks_in


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("off", "off"),
        ("full", "off"),
        ("permissive", "off"),
        ("strict", "strict"),
        ("risk", "strict"),
        ("ASK", "ask"),
    ],
)
def test_a_mode_has_aliases(word: str, mode: str) -> None:
    assert normalize_tool_approval_mode(word) == mode


def test_the_default_mode_never_asks_and_the_environment_changes_it(
    risky: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert normalize_tool_approval_mode() == "off"
    assert risky.call(ToolGateway(store=risky.store))["ok"]
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "risk")
    assert normalize_tool_approval_mode() == "strict"
    assert risky.call(ToolGateway(store=risky.store))["approval_required"] is True


@pytest.mark.parametrize("word", ["of", "none", "true", "strict!"])
def test_an_unknown_mode_names_the_variable_and_nothing_runs(
    risky: Recorder, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", word)
    result = risky.call(approval={"approved": True})
    assert result["error_type"] == "invalid_setting"
    assert "KSADK_TOOL_APPROVAL_MODE" in result["error_message"]
    assert word in result["error_message"]
    assert risky.ran == []
    with pytest.raises(SettingsError, match="KSADK_TOOL_APPROVAL_MODE"):
        normalize_tool_approval_mode()
    with pytest.raises(SettingsError, match="tool_approval_mode"):
        normalize_tool_approval_mode(word)


def test_what_a_host_can_rely_on_is_told() -> None:
    assert tool_approval_capability() == {
        "mode": "off", "modes": ["off", "strict", "ask"],
        "aliases": {"full": "off", "permissive": "off", "risk": "strict"},
        "binding": "optional", "ttl_seconds": 900,
    }  # fmt: skip


def test_a_gateways_policies_are_over_those_of_the_tools(risky: Recorder) -> None:
    lax = risky.gateway(policies={"risky": ToolPolicy("low")})
    assert risky.call(lax) == {"ok": True, "path": "a"}
    strict = risky.gateway(policies={"risky": ToolPolicy("critical", ("world",))})
    request = risky.call(strict)["approval_request"]
    assert (request["risk_level"], request["side_effects"]) == ("critical", ["world"])
    assert strict.requires_approval(risky.tool)
    assert not lax.requires_approval(risky.tool)
    assert default_tool_gateway() is default_tool_gateway()
    assert default_tool_gateway({"risky": ToolPolicy("low")}) is not default_tool_gateway()


# Any function, and what functions do


def test_any_function_can_be_invoked_as_a_tool_of_a_name(risky: Recorder) -> None:
    def add(a: int, b: int = 2) -> int:
        return a + b

    assert ToolGateway().invoke("add", add, 1, b=5) == 6
    assert ToolGateway().invoke("add", add, "1")["error_type"] == "invalid_arguments"
    asking = ToolGateway({"add": ToolPolicy("high")}, approval_mode="strict", store=risky.store)
    assert asking.invoke("add", add, 1)["approval_request"]["tool_name"] == "add"
    assert asking.invoke("add", add, 1, approval={"approved": True}) == 3


def test_an_error_raised_on_purpose_is_a_result_and_any_other_travels_on() -> None:
    def fails(on_purpose: bool) -> None:
        raise (
            KsadkError("no luck", code="file_exists", hint="Try.", extra=1)
            if on_purpose
            else ZeroDivisionError
        )

    assert ToolGateway().invoke("fails", fails, True) == {
        "ok": False, "error_type": "file_exists", "error_message": "no luck", "hint": "Try.", "extra": 1,
    }  # fmt: skip
    with pytest.raises(ZeroDivisionError):
        ToolGateway().invoke("fails", fails, False)


def test_a_function_that_cannot_be_a_tool_is_refused_before_it_runs() -> None:
    def sneaky(path: str, approval: Any = None) -> str:
        return path

    assert ToolGateway().invoke("sneaky", sneaky, "a")["error_type"] == "invalid_tool"


def test_a_coroutine_function_gives_an_awaitable_of_the_same(risky: Recorder) -> None:
    async def work(fail: bool) -> dict[str, Any]:
        await asyncio.sleep(0)
        if fail:
            raise KsadkError("no luck", code="file_exists")
        return {"ok": True}

    gateway = ToolGateway({"work": ToolPolicy("high")}, approval_mode="strict", store=risky.store)
    yes = {"approved": True}
    assert asyncio.run(gateway.invoke("work", work, False, approval=yes)) == {"ok": True}
    assert asyncio.run(gateway.invoke("work", work, True, approval=yes))["error_type"] == "file_exists"
    assert gateway.invoke("work", work, False)["approval_required"] is True


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_large_field_is_trimmed_and_kept(
    asynchronous: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_TOOL_RESULT_DIR", str(tmp_path / "results"))

    def much() -> dict[str, Any]:
        return {"ok": True, "stdout": "x" * 60_000, "other": "y" * 60_000}

    async def much_later() -> dict[str, Any]:
        return much()

    result = ToolGateway().call(
        Tool("much", much_later if asynchronous else much, "g", "b", large_fields=("stdout",)), (), {}
    )
    result = asyncio.run(result) if asynchronous else result
    assert (len(result["stdout"]), result["stdout_original_chars"], result["stdout_truncated"]) == (
        8000,
        60_000,
        True,
    )
    assert Path(result["persisted_outputs"]["stdout"]["path"]).read_text() == "x" * 60_000
    assert len(result["other"]) == 60_000


def test_a_scope_makes_a_gateway_current_inside_its_block() -> None:
    mine = ToolGateway()
    with gateway_scope(mine):
        assert current_gateway() is mine
    assert current_gateway() is default_tool_gateway()


def test_when_the_decision_cannot_be_written_down_the_call_does_not_start(
    risky: Recorder, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    gateway = ToolGateway(
        approval_mode="strict",
        ask=Asked(Decision("approve")),
        store=ApprovalStore(tmp_path / "file" / "a.sqlite3"),
    )
    assert risky.call(gateway)["error_type"] == "log_unavailable"
    assert not risky.ran_it
