"""What the decision log holds of a call, and what happens to a call whose lines cannot be written."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recorder import Asked, Recorder

from ksadk.errors import KsadkError
from ksadk.runtime_context import (
    PlatformInvocationContext,
    platform_invocation_scope,
    tool_execution_scope,
)
from ksadk.tools import call_log, decision_log
from ksadk.tools.approvals import ApprovalRequest, Decision, StoredApproval, arguments_digest
from ksadk.tools.decision_log import DecisionLog
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.log_check import verify
from ksadk.tools.log_reader import last_lines
from ksadk.tools.registry import Tool, ToolPolicy
from ksadk.tools.rules import Rule

LINE = {"n", "time", "event", "call", "tool", "risk", "prev", "hash"}
DECISION = LINE | {
    "arguments_digest", "outcome", "by", "account", "session", "project", "invocation_id",
}  # fmt: skip
RESULT = LINE | {"ok", "ms"}


def lines_of(risky: Recorder) -> list[dict[str, Any]]:
    return last_lines(DecisionLog(risky.store).directory, None, lambda _: True).lines


def said(risky: Recorder) -> list[tuple[Any, ...]]:
    """Each line in short."""
    return [
        (line["outcome"], line.get("code"), line["by"], line.get("rule"))
        if line["event"] == "decision"
        else ("done" if line["ok"] else line["error_type"],)
        for line in lines_of(risky)
    ]


def yes(by: str = "me", **more: Any) -> Asked:
    return Asked(Decision("approve", by=by, **more))


def test_a_call_has_a_decision_and_a_result(risky: Recorder) -> None:
    account = PlatformInvocationContext(account_id="acme")
    with platform_invocation_scope(account), tool_execution_scope("s1", invocation_id="i1"):
        assert risky.call(risky.gateway(ask=yes()), path="a", count=2)["ok"]
    decision, result = lines_of(risky)
    assert decision.keys() == DECISION | {"request"}
    assert result.keys() == RESULT
    assert decision["call"] == result["call"]
    assert (decision["tool"], decision["risk"]) == ("risky", "medium")
    assert decision["arguments_digest"] == arguments_digest({"path": "a", "count": 2})
    assert decision["request"].startswith("appr_")
    assert (decision["account"], decision["session"], decision["invocation_id"]) == ("acme", "s1", "i1")
    assert decision["project"] == str(Path.cwd())
    assert 0 <= result["ms"] < 60_000
    assert verify(DecisionLog(risky.store)).ok


def test_the_decision_is_there_before_the_call_runs(risky: Recorder) -> None:
    seen: list[Any] = []

    def risky_look() -> dict[str, Any]:
        seen.extend(said(risky))
        return {"ok": True}

    tool = Tool("look", risky_look, "g", "b", ToolPolicy("high"))
    risky.gateway(ask=yes()).call(tool, (), {})
    assert seen == [("allowed", None, "me", None)]


ALLOW = Rule("allow", "risky")
DENY = Rule("deny", "risky", reason="never")
ASK_EVERY = Rule("ask", "risky")
CALLS: dict[str, tuple[Callable[[Recorder], Any], list[tuple[Any, ...]]]] = {
    "mode off": (
        lambda r: r.call(r.gateway("off")),
        [("allowed", None, "mode off", None), ("done",)],
    ),
    "a yes": (
        lambda r: r.call(r.gateway(ask=yes())),
        [("allowed", None, "me", None), ("done",)],
    ),
    "a no": (
        lambda r: r.call(r.gateway(ask=Asked(Decision("deny", by="me", reason="no")))),
        [("approval_rejected", None, "me", None)],
    ),
    "nobody": (lambda r: r.call(), [("approval_required", None, "nobody", None)]),
    "too late": (
        lambda r: r.call(r.gateway(ask=Asked(Decision("expired")))),
        [("approval_expired", None, "nobody", None)],
    ),
    "a trusted caller": (
        lambda r: r.call(approval={"approved": True}),
        [("allowed", None, "the caller", None), ("done",)],
    ),
    "no approval at all": (
        lambda r: r.call(approval={"approved": "yes"}),
        [("approval_rejected", "invalid_approval", "the caller", None)],
    ),
    "an id that is not known": (
        lambda r: r.call(approval={"approved": True, "id": "appr_0"}),
        [("approval_rejected", "approval_not_found", "the caller", None)],
    ),
    "an allow rule": (
        lambda r: r.call(r.gateway(rules=[ALLOW])),
        [("allowed", None, "a rule", "allow risky"), ("done",)],
    ),
    "a deny rule": (
        lambda r: r.call(r.gateway("off", rules=[DENY])),
        [("denied_by_rule", None, "a rule", "deny risky")],
    ),
    "an ask rule": (
        lambda r: r.call(r.gateway(rules=[ASK_EVERY], ask=yes())),
        [("allowed", None, "me", "ask risky"), ("done",)],
    ),
    "a plan that cannot work": (
        lambda r: r.call(path="absent"),
        [("not_started", "file_exists", "", None)],
    ),
    "arguments that are none": (lambda r: r.call(r.gateway("off"), count="x"), []),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_each_outcome_is_a_line_that_says_who_decided(risky: Recorder, call: str) -> None:
    do, lines = CALLS[call]
    do(risky)
    assert said(risky) == lines


def test_a_yes_for_the_session_is_named_as_such(risky: Recorder) -> None:
    gateway = risky.gateway(ask=yes(for_session=True), session_key="k")
    risky.call(gateway)
    risky.call(gateway)
    assert said(risky)[2] == ("allowed", None, "a yes for the session", None)


def test_who_approved_elsewhere_is_named(risky: Recorder) -> None:
    request_id = risky.approved()
    assert risky.call(approval={"approved": True, "id": request_id})["ok"]
    assert said(risky)[1:] == [("allowed", None, "a test", None), ("done",)]


def test_edited_arguments_are_those_of_the_line(risky: Recorder) -> None:
    ask = Asked(Decision("edit", by="me", arguments={"path": "b"}), Decision("approve", by="me"))
    risky.call(risky.gateway(ask=ask), path="a")
    assert lines_of(risky)[0]["arguments_digest"] == arguments_digest({"path": "b", "count": 1})


def boom() -> None:
    """Break."""
    raise RuntimeError("a bug")


def fail() -> None:
    """Fail."""
    raise KsadkError("no", code="not_found")


async def later() -> dict[str, Any]:
    """Do it later."""
    await asyncio.sleep(0)
    return {"ok": False, "error_type": "not_found"}


async def later_boom() -> None:
    """Break later."""
    await asyncio.sleep(0)
    boom()


def run(gateway: ToolGateway, func: Callable[..., Any]) -> Any:
    result = gateway.call(Tool("t", func, "g", "b", ToolPolicy("high")), (), {})
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


@pytest.mark.parametrize(
    ("func", "end"),
    [(fail, "not_found"), (boom, "RuntimeError"), (later, "not_found"), (later_boom, "RuntimeError")],
)
def test_however_a_call_ends_its_result_is_a_line(
    risky: Recorder, func: Callable[..., Any], end: str
) -> None:
    try:
        run(risky.gateway("off"), func)
    except RuntimeError:
        assert end == "RuntimeError"
    assert said(risky) == [("allowed", None, "mode off", None), (end,)]


def harmless(text: str) -> dict[str, Any]:
    """Look."""
    return {"ok": True, "text": text}


HARMLESS = Tool("harmless", harmless, "g", "b")


def test_a_low_risk_call_is_no_line_unless_all_are(risky: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    risky.gateway().call(HARMLESS, (), {"text": "x"})
    assert not DecisionLog(risky.store).directory.exists()
    risky.gateway(log_all=True).call(HARMLESS, (), {"text": "x"})
    assert said(risky) == [("allowed", None, "the policy", None), ("done",)]
    monkeypatch.setenv("KSADK_TOOL_LOG_ALL", "1")
    risky.gateway().call(HARMLESS, (), {"text": "x"})
    assert len(lines_of(risky)) == 4


def test_a_low_risk_call_that_a_rule_is_about_is_a_line(risky: Recorder) -> None:
    risky.gateway(rules=[Rule("allow", "harmless")]).call(HARMLESS, (), {"text": "x"})
    risky.gateway(rules=[Rule("deny", "harmless")]).call(HARMLESS, (), {"text": "x"})
    assert [line[0] for line in said(risky)] == ["allowed", "done", "denied_by_rule"]


def bytes_of(risky: Recorder) -> bytes:
    return b"".join(path.read_bytes() for path in DecisionLog(risky.store).directory.iterdir())


def test_arguments_are_not_in_the_log_unless_asked_for(
    risky: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    risky.call(risky.gateway(ask=yes()), path="needle")
    risky.call(path="needle")
    risky.call(risky.gateway("off", rules=[DENY]), path="needle")
    assert b"needle" not in bytes_of(risky)
    risky.call(risky.gateway("off", audit_args=True), path="needle")
    assert lines_of(risky)[-2]["arguments"] == {"path": "needle", "count": 1}
    monkeypatch.setenv("KSADK_TOOL_AUDIT_ARGS", "yes")
    risky.call(risky.gateway("off"), path="haystack")
    assert lines_of(risky)[-2]["arguments"]["path"] == "haystack"


def test_secrets_are_never_in_the_log(risky: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E2B_API_KEY", "e2b_verysecret")
    risky.call(risky.gateway("off", audit_args=True), path="key=e2b_verysecret;")
    assert b"verysecret" not in bytes_of(risky)
    assert lines_of(risky)[0]["arguments"]["path"] == "key=<secret>;"


@pytest.mark.parametrize(
    ("name", "value", "path", "kept"),
    [
        ("GITHUB_TOKEN", "ghp_hunter2", "t=ghp_hunter2", "t=<secret>"),
        ("DATABASE_DSN", "pg://me:hunter2@db/x", "password hunter2", "password <secret>"),
        ("E2B_API_KEY", "hunter 2/", "https://x/?k=hunter%202/", "https://x/?k=<secret>"),
        ("APP_SECRET", '{"a": "hunter2"}', "hunter2", "<secret>"),
        ("MY_PASSWORD", "h2!", "h2!", "<secret>"),
        ("UNRELATED", "x", "https://me:hunter2@example.com/", "https://***@example.com/"),
    ],
)
def test_the_log_hides_what_debug_hides(
    risky: Recorder, monkeypatch: pytest.MonkeyPatch, name: str, value: str, path: str, kept: str
) -> None:
    monkeypatch.setenv(name, value)
    risky.call(risky.gateway("off", audit_args=True), path=path)
    assert lines_of(risky)[0]["arguments"]["path"] == kept


def test_long_arguments_are_left_out_and_long_names_cut(risky: Recorder) -> None:
    risky.call(risky.gateway("off", audit_args=True), path="x" * 100_000)
    decision = lines_of(risky)[0]
    assert "arguments" not in decision
    assert decision["arguments_left_out"] > 100_000
    with tool_execution_scope("s" * 5000):
        risky.call(risky.gateway("off"))
    assert len(lines_of(risky)[-2]["session"]) == call_log.MAX_TEXT


def test_arguments_without_a_form_in_json_have_no_digest(risky: Recorder) -> None:
    def odd(value: object) -> dict[str, Any]:
        """Take anything."""
        return {"ok": True}

    value: list[Any] = []
    value.append(value)
    risky.gateway("off").call(Tool("odd", odd, "g", "b", ToolPolicy("high")), (), {"value": value})
    assert lines_of(risky)[0]["arguments_digest"] is None


@pytest.fixture
def unwritable(risky: Recorder) -> Recorder:
    """A risky tool whose log is a directory, while its store can be written."""
    DecisionLog(risky.store).path.mkdir(parents=True)
    return risky


@pytest.mark.parametrize(
    ("options", "approval"),
    [
        ({"ask": yes()}, None),
        ({"rules": [ALLOW]}, None),
        ({"rules": [ASK_EVERY], "ask": yes()}, None),
        ({}, {"approved": True}),
    ],
)
def test_a_call_that_needs_approval_does_not_start_without_its_line(
    unwritable: Recorder, options: dict[str, Any], approval: Any
) -> None:
    result = unwritable.call(unwritable.gateway(**options), approval)
    assert result["error_type"] == "log_unavailable"
    assert "decision log" in result["error_message"]
    assert not unwritable.ran_it


def test_a_call_that_needs_none_runs_with_a_warning(unwritable: Recorder) -> None:
    result = unwritable.call(unwritable.gateway("off"))
    assert result["ok"]
    assert "not in the decision log" in result["warning"]
    assert unwritable.ran_it


@pytest.mark.parametrize("options", [{}, {"rules": [DENY]}])
def test_a_refusal_stands_and_warns(unwritable: Recorder, options: dict[str, Any]) -> None:
    result = unwritable.call(unwritable.gateway(**options))
    assert result["ok"] is False
    assert "not in the decision log" in result["warning"]
    assert not unwritable.ran_it


def test_a_result_that_cannot_be_written_down_is_kept_with_a_warning(
    risky: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filling() -> dict[str, Any]:
        """Fill the disk."""
        monkeypatch.setattr(decision_log, "_add", full)
        return {"ok": True, "warning": "it is nearly full"}

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    tool = Tool("filling", filling, "g", "b", ToolPolicy("high"))
    result = risky.gateway(ask=yes()).call(tool, (), {})
    assert result["ok"]
    assert result["warning"].startswith("it is nearly full; this call is not in the decision log: ")
    assert "No space left on device" in result["warning"]


def test_a_result_that_is_no_dict_warns_as_python_does(unwritable: Recorder) -> None:
    def text() -> str:
        """Give text."""
        return "text"

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tool = Tool("text", text, "g", "b", ToolPolicy("high"))
        assert unwritable.gateway("off").call(tool, (), {}) == "text"
    assert [str(w.message) for w in caught if "decision log" in str(w.message)]


def test_a_bad_variable_fails_only_the_calls_that_must_be_written_down(
    risky: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_TOOL_AUDIT_ARGS", "perhaps")
    assert risky.gateway().call(HARMLESS, (), {"text": "x"})["ok"]
    assert risky.call(risky.gateway(ask=yes()))["error_type"] == "invalid_setting"
    assert not risky.ran_it
    assert "KSADK_TOOL_AUDIT_ARGS" in risky.call(risky.gateway("off"))["warning"]


def test_an_approval_is_not_spent_on_a_call_that_the_log_kept_from_starting(risky: Recorder) -> None:
    request_id = risky.approved(path="a")
    log = DecisionLog(risky.store).path
    kept = log.read_bytes() if log.exists() else None
    log.unlink(missing_ok=True)
    log.mkdir(parents=True)
    result = risky.call(risky.gateway(), StoredApproval(request_id), path="a")
    assert result["error_type"] == "log_unavailable"
    assert not risky.ran_it
    assert risky.store.get(request_id).state == "approved"
    log.rmdir()
    if kept is not None:
        log.write_bytes(kept)
    assert risky.call(risky.gateway(), StoredApproval(request_id), path="a")["ok"]
    again = risky.call(risky.gateway(), StoredApproval(request_id), path="a")
    assert again["error_type"] == "approval_used"


def test_a_rule_that_came_while_the_log_was_waited_for_holds(
    risky: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = Path(os.environ["XDG_CONFIG_HOME"]) / "agentengine" / "rules.yaml"
    allowed = call_log.CallRecord.allowed

    def slow(record: call_log.CallRecord, *rest: Any) -> None:
        allowed(record, *rest)
        rules.parent.mkdir(parents=True, exist_ok=True)
        rules.write_text("rules:\n  - deny: risky\n")

    monkeypatch.setattr(call_log.CallRecord, "allowed", slow)
    result = risky.call(risky.gateway(ask=yes()))
    assert result["type"] == "denied_by_rule"
    assert not risky.ran_it
    assert [line["event"] for line in lines_of(risky)] == ["decision", "result"]


def test_a_question_that_is_broken_off_is_a_line(risky: Recorder) -> None:
    def interrupted(request: ApprovalRequest, note: str = "") -> Decision:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        risky.call(risky.gateway(ask=interrupted))
    [line] = lines_of(risky)
    assert (line["outcome"], line["code"]) == ("not_started", "approval_unanswered")
    assert line["request"] == risky.store.list()[0].id


def test_a_low_risk_call_that_is_refused_is_a_line_where_all_are(risky: Recorder) -> None:
    rules = Path(os.environ["XDG_CONFIG_HOME"]) / "agentengine" / "rules.yaml"
    rules.parent.mkdir(parents=True)
    rules.write_text("rules: [\n")
    for log_all, lines in ((False, 0), (True, 1)):
        result = risky.gateway("off", log_all=log_all).invoke("harmless", harmless, "x")
        assert result["error_type"] == "invalid_rules"
        assert len(lines_of(risky)) == lines
