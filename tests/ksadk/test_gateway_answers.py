"""What a person answers, and what a trusted caller passes as approval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorder import Asked, Recorder, refused

from ksadk.errors import KsadkError
from ksadk.runtime_context import (
    PlatformInvocationContext,
    get_current_account_id,
    get_current_session_id,
    get_current_workspace_root,
    platform_invocation_scope,
    tool_execution_scope,
    workspace_root_scope,
)
from ksadk.sessions import project_dir
from ksadk.tools import registry
from ksadk.tools.approvals import (
    ApprovalRequest,
    Decision,
    StoredApproval,
    arguments_digest,
)
from ksadk.tools.registry import Plan
from ksadk.tools.rules import Rule

# A person's answers


def test_a_person_who_says_no_may_give_words_for_the_model(risky: Recorder) -> None:
    result = risky.call(risky.gateway(ask=Asked(Decision("deny", by="me", reason="use b instead"))))
    assert refused(result, "approval_rejected", "approval_rejected")
    assert result["reason"] == "use b instead"
    assert not risky.ran_it
    assert risky.store.list(every=True)[0].state == "denied"


def test_a_question_that_nobody_answers_in_time_is_expired_not_denied(risky: Recorder) -> None:
    result = risky.call(risky.gateway(ask=Asked(Decision("expired"))))
    assert refused(result, "approval_expired", "approval_expired")
    assert not risky.ran_it
    [kept] = risky.store.list(every=True)
    assert (kept.state, kept.expired(risky.time)) == ("pending", True)


def test_a_yes_that_comes_too_late_is_expired(risky: Recorder) -> None:
    def late(request: ApprovalRequest, note: str = "") -> Decision:
        risky.time += 901
        return Decision("approve", by="me")

    assert refused(risky.call(risky.gateway(ask=late)), "approval_expired", "approval_expired")
    assert not risky.ran_it


def test_an_answer_given_elsewhere_while_the_question_was_open_holds(risky: Recorder) -> None:
    def elsewhere(request: ApprovalRequest, note: str = "") -> Decision:
        risky.store.decide(request.id, "denied", by="elsewhere", reason="no")
        return Decision("approve", by="me")

    result = risky.call(risky.gateway(ask=elsewhere))
    assert refused(result, "approval_rejected", "approval_rejected")
    assert not risky.ran_it


def test_a_no_here_stops_the_call_though_somebody_elsewhere_said_yes(risky: Recorder) -> None:
    def ask(request: ApprovalRequest, note: str = "") -> Decision:
        risky.store.decide(request.id, "approved", by="elsewhere")
        return Decision("deny", by="me", reason="no")

    result = risky.call(risky.gateway(ask=ask))
    assert refused(result, "approval_rejected", "approval_rejected")
    assert result["reason"] == "no"
    assert not risky.ran_it
    assert risky.store.list() == []


def test_what_somebody_elsewhere_edited_and_approved_is_what_runs(risky: Recorder) -> None:
    def ask(request: ApprovalRequest, note: str = "") -> Decision:
        arguments = {"path": "b", "count": 2}
        edited = replace(request, arguments=arguments, arguments_digest=arguments_digest(arguments))
        risky.store.amend(edited)
        risky.store.decide(request.id, "approved", by="elsewhere", seen=edited)
        return Decision("approve", by="elsewhere", for_session=True)

    gateway = risky.gateway(ask=ask, session_key="terminal")
    assert risky.call(gateway) == {"ok": True, "path": "b"}
    assert ("run", "b", 2) in risky.ran
    assert not risky.store.granted("terminal", risky.store.list(every=True)[0])


def test_content_that_changes_while_the_question_is_open_makes_the_answer_stale(risky: Recorder) -> None:
    def slow(request: ApprovalRequest, note: str = "") -> Decision:
        risky.content = "after"
        return Decision("approve", by="me")

    assert refused(risky.call(risky.gateway(ask=slow)), "approval_rejected", "approval_stale")
    assert not risky.ran_it


def test_a_yes_that_is_not_to_the_preview_is_not_tied_to_its_content(risky: Recorder) -> None:
    """As `--yes` is: other processes may change the same file meanwhile."""

    def unseen(request: ApprovalRequest, note: str = "") -> Decision:
        risky.content = "after"
        return Decision("approve", by="--yes", seen=False)

    assert risky.call(risky.gateway(ask=unseen))["ok"]


def test_a_rule_that_comes_while_the_question_is_open_holds(risky: Recorder) -> None:
    def slow(request: ApprovalRequest, note: str = "") -> Decision:
        gateway._rules = (Rule("deny", "risky", reason="new rule"),)
        return Decision("approve", by="me")

    gateway = risky.gateway(ask=slow)
    assert refused(risky.call(gateway), "denied_by_rule", "denied_by_rule")
    assert not risky.ran_it


def test_edited_arguments_are_previewed_asked_about_again_and_run(risky: Recorder) -> None:
    asked = Asked(Decision("edit", arguments={"path": "b"}), Decision("approve", by="me"))
    assert risky.call(risky.gateway(ask=asked)) == {"ok": True, "path": "b"}
    assert [request.arguments["path"] for request in asked.requests] == ["a", "b"]
    assert asked.requests[1].arguments_digest == arguments_digest({"path": "b", "count": 1})
    assert asked.requests[1].id == asked.requests[0].id
    [kept] = risky.store.list(every=True)
    assert (kept.edited, kept.arguments, kept.state) == (True, {"path": "b", "count": 1}, "used")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"path": 5}, "'path'"),
        ({"pth": "b"}, "'pth' is not an argument"),
        ({"path": "absent"}, "no such file"),
        ({"path": "secret"}, "a rule denies"),
        ({"path": "b", "approval": {"approved": True}}, "'approval' is not an argument"),
    ],
)
def test_edited_arguments_that_cannot_work_are_said_and_asked_about_again(
    risky: Recorder, arguments: dict[str, Any], words: str
) -> None:
    asked = Asked(Decision("edit", arguments=arguments), Decision("deny", by="me"))
    result = risky.call(risky.gateway(ask=asked, rules=[Rule("deny", "risky", {"path": "secret"})]))
    assert refused(result, "approval_rejected", "approval_rejected")
    assert words in asked.notes[1]
    assert asked.requests[1].arguments == {"path": "a", "count": 1}
    assert not risky.ran_it


@pytest.mark.parametrize(
    ("meanwhile", "code"),
    [
        (lambda risky, request: risky.store.decide(request.id, "denied", by="elsewhere"), "approval_decided"),
        (lambda risky, request: risky.store.expire(request.id), "approval_expired"),
        (lambda risky, request: risky.store.claim(request, states=("pending",), by="other"), "approval_used"),
        (lambda risky, request: risky.store.path.write_bytes(b"no database" * 500), "log_unavailable"),
    ],
    ids=["denied", "expired", "used", "damaged"],
)
def test_an_edit_of_what_can_no_longer_be_answered_ends_the_questions(
    risky: Recorder, meanwhile: Callable[[Recorder, ApprovalRequest], object], code: str
) -> None:
    def edit_once(request: ApprovalRequest, note: str = "") -> Decision:
        assert not note, "nobody is asked again"
        meanwhile(risky, request)
        return Decision("edit", arguments={"path": "b"})

    assert risky.call(risky.gateway(ask=edit_once))["error_type"] == code
    assert not risky.ran_it


def test_a_yes_does_not_approve_what_was_edited_elsewhere_since_it_was_shown(risky: Recorder) -> None:
    def elsewhere(request: ApprovalRequest, note: str = "") -> Decision:
        other = {"path": "b", "count": 1}
        risky.store.amend(replace(request, arguments=other, arguments_digest=arguments_digest(other)))
        return Decision("approve", by="me")

    assert refused(risky.call(risky.gateway(ask=elsewhere)), "approval_rejected", "approval_mismatch")
    assert not risky.ran_it
    assert risky.store.list()[0].state == "pending"


@pytest.fixture
def placed(risky: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Where each plan of the risky tool was made: project, account, session and root. One request waits,
    and this process has gone elsewhere."""
    seen: list[Any] = []

    def plan(path: str, count: int = 1) -> Plan:
        caller = (get_current_account_id(), get_current_session_id(), get_current_workspace_root())
        seen.append((project_dir(), *caller))
        return Plan("", "", risky.content + path)

    risky.tool = replace(risky.tool, plan=plan)
    monkeypatch.setattr(registry, "_builtin", {"risky": risky.tool})
    with (
        platform_invocation_scope(PlatformInvocationContext(account_id="acme")),
        tool_execution_scope("s"),
        workspace_root_scope(tmp_path),
    ):
        risky.waiting()
    monkeypatch.chdir(tmp_path)
    return seen


def test_an_edit_from_elsewhere_is_previewed_where_and_for_whom_the_request_is(
    risky: Recorder, placed: list[Any]
) -> None:
    [request] = risky.store.list()
    asked = Asked(Decision("approve", by="me"))
    amended, _ = risky.gateway().answer(request, asked, Decision("edit", arguments={"path": "b"}))
    assert placed[0] == (Path(request.project), "acme", "s", Path(request.workspace_root))
    assert placed[1] == placed[0]
    assert risky.store.get(request.id) == amended
    assert amended.arguments["path"] == "b"


def test_a_second_look_says_what_has_changed_before_anyone_approves(
    risky: Recorder, placed: list[Any]
) -> None:
    [request] = risky.store.list()
    risky.gateway().look_again(request)
    assert placed[1] == placed[0]
    risky.content = "after"
    with pytest.raises(KsadkError, match="has changed") as caught:
        risky.gateway().look_again(request)
    assert caught.value.code == "approval_stale"


def test_for_the_session_lets_exactly_this_call_through_later(risky: Recorder) -> None:
    asked = Asked(*[Decision("approve", by="me", for_session=True)] * 3)
    gateway = risky.gateway(ask=asked, session_key="terminal 1")
    for _ in range(3):
        assert risky.call(gateway, path="a")["ok"]
    assert len(asked.requests) == 1
    risky.call(gateway, path="b")
    assert len(asked.requests) == 2
    risky.call(risky.gateway(ask=asked, session_key="terminal 2"), path="a")
    assert len(asked.requests) == 3


def test_for_the_session_ends_after_eight_hours_and_never_lifts_a_deny_rule(risky: Recorder) -> None:
    asked = Asked(Decision("approve", for_session=True), Decision("deny"))
    gateway = risky.gateway(ask=asked, session_key="terminal")
    risky.call(gateway)
    denied = risky.call(risky.gateway(ask=asked, session_key="terminal", rules=[Rule("deny", "risky")]))
    assert denied["type"] == "denied_by_rule"
    risky.time += 8 * 3600 + 1
    assert risky.call(gateway)["type"] == "approval_rejected"


# approval= of a trusted caller


@pytest.mark.parametrize(
    "approval", [{"approved": True}, {"approve": True}, {"approved": True, "approve": True}]
)
def test_the_boolean_true_approves(risky: Recorder, approval: dict[str, Any]) -> None:
    assert risky.call(approval=approval) == {"ok": True, "path": "a"}


@pytest.mark.parametrize("words", ["", "not now"])
def test_the_boolean_false_is_a_no_with_words(risky: Recorder, words: str) -> None:
    result = risky.call(approval={"approved": False, "reason": words})
    assert refused(result, "approval_rejected", "approval_rejected")
    assert result["reason"] == (words or "risky was not approved")
    assert not risky.ran_it


@pytest.mark.parametrize("mode", ["strict", "off", "ask"])
@pytest.mark.parametrize(
    "approval",
    [
        True, "true", "yes", 1, [], [("approved", True)], {}, {"reason": "please"}, {"approved": "true"},
        {"approved": "false"}, {"approved": 1}, {"approved": 0}, {"approved": None}, {"approved": [True]},
        {"approved": {"approved": True}}, {"Approved": True}, {"approved": True, "approve": "yes"},
        {"approved": True, "approve": False}, {"approved": True, "id": 5}, {"approved": True, "id": ["x"]},
    ],
    ids=repr,
)  # fmt: skip
def test_anything_else_that_is_present_is_no_approval_in_any_mode(
    risky: Recorder, approval: Any, mode: str
) -> None:
    result = risky.call(risky.gateway(mode), approval=approval)
    assert refused(result, "approval_rejected", "invalid_approval")
    assert risky.ran == []


def test_an_approval_with_an_id_runs_that_waiting_request_once(risky: Recorder) -> None:
    request_id = risky.waiting()
    assert risky.call(approval={"approved": True, "id": request_id}) == {"ok": True, "path": "a"}
    assert risky.store.get(request_id).state == "used"
    again = risky.call(approval={"approved": True, "id": request_id})
    assert refused(again, "approval_rejected", "approval_used")


def test_an_approval_with_an_id_that_is_not_kept_is_refused(risky: Recorder) -> None:
    result = risky.call(approval={"approved": True, "id": "appr_nothing"})
    assert result["error_type"] == "approval_not_found"
    assert not risky.ran_it


def test_where_binding_is_required_an_approval_must_name_its_request(
    risky: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_BINDING", "required")
    assert refused(risky.call(approval={"approved": True}), "approval_rejected", "invalid_approval")
    assert not risky.ran_it
    assert risky.call(approval={"approved": True, "id": risky.waiting()})["ok"]


def test_no_approval_lifts_a_deny_rule_in_any_mode(risky: Recorder) -> None:
    request_id = risky.approved()
    for mode in ("off", "strict", "ask"):
        gateway = risky.gateway(mode, rules=[Rule("deny", "risky")])
        for approval in (
            None,
            {"approved": True},
            {"approved": True, "id": request_id},
            StoredApproval(request_id),
        ):
            assert refused(risky.call(gateway, approval=approval), "denied_by_rule", "denied_by_rule")
    assert risky.ran == []


def test_an_approval_given_without_an_id_needs_no_preview(risky: Recorder) -> None:
    assert risky.call(approval={"approved": True})["ok"]
    assert risky.ran == [("run", "a", 1)]
    assert risky.store.list(every=True) == []
