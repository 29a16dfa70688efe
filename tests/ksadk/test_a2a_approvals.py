"""A gateway tool inside of an agent that needs approval: the run pauses, and goes on as was decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agent_runs import answer, approval_of, asked, call, events_of, lines, log_line, texts, written

from ksadk.a2a.runners.base import Answer, TextPart
from ksadk.a2a.runners.callable import CallableRunner
from ksadk.errors import KsadkError
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.registry import find
from ksadk.toolsets import workspace
from ksadk.toolsets.served import GatewayApprovals


def in_a_thread(text: str) -> str:
    log_line()
    return str(workspace.write_workspace_file("made.txt", "made"))


async def on_the_loop(text: str) -> str:
    log_line()
    await asyncio.sleep(0)
    return str(workspace.write_workspace_file("made.txt", "made"))


async def by_an_adapter(text: str) -> str:
    pytest.importorskip("langchain_core")
    from ksadk.toolsets import get_agentengine_tools

    log_line()
    (tool,) = get_agentengine_tools("write_workspace_file")
    return str(await tool.ainvoke({"path": "made.txt", "content": "made"}))


async def in_a_task(text: str) -> str:
    log_line()
    return str(await asyncio.create_task(asyncio.to_thread(in_a_task_tool)))


def in_a_task_tool() -> Any:
    return workspace.write_workspace_file("made.txt", "made")


AGENTS: list[Callable[..., Any]] = [in_a_thread, on_the_loop, by_an_adapter, in_a_task]

Decide = Callable[[GatewayApprovals, str], None]


def approve(approvals: GatewayApprovals, request_id: str) -> None:
    approvals.decide(request_id, True, "a test")


def deny(approvals: GatewayApprovals, request_id: str) -> None:
    approvals.decide(request_id, False, "a test")


def expire(approvals: GatewayApprovals, request_id: str) -> None:
    ToolGateway().store.expire(request_id)


def nothing(approvals: GatewayApprovals, request_id: str) -> None: ...


def paused_then(agent: Callable[..., Any], decide: Decide, said: Answer | None = None) -> str:
    """What an agent that paused for approval answers after the decision."""

    async def go() -> str:
        approvals = GatewayApprovals()
        run = CallableRunner(agent).start(call())
        approval = approval_of(await events_of(run, approvals))
        assert written() == ""
        assert approvals.decision(approval["id"]) == "pending"
        decide(approvals, approval["id"])
        await run.answer(said or Answer(request_id=approval["id"]))
        return texts(await events_of(run, approvals))

    return asyncio.run(go())


@pytest.mark.parametrize("agent", AGENTS)
def test_an_approved_call_runs_once_and_finished_steps_are_not_run_again(agent: Any) -> None:
    assert "'ok': True" in paused_then(agent, approve)
    assert (written(), lines()) == ("made", 1)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    ("decide", "outcome"), [(deny, "approval_rejected"), (expire, "approval_expired")], ids=["deny", "expire"]
)
def test_the_agent_goes_on_with_a_refusal(agent: Any, decide: Decide, outcome: str) -> None:
    assert outcome in paused_then(agent, decide)
    assert (written(), lines()) == ("", 1)


@pytest.mark.parametrize(
    "said",
    [answer("yes"), answer("approve"), answer({"approved": True}), Answer((TextPart("y"),), "approved", "x")],
)
def test_what_an_answer_says_approves_nothing_unless_the_store_does(said: Answer) -> None:
    assert "approval_required" in paused_then(in_a_thread, nothing, said)
    assert written() == ""


def test_arguments_that_a_person_has_edited_are_those_that_run() -> None:
    def edit(approvals: GatewayApprovals, request_id: str) -> None:
        from ksadk.tools.consent import Consent

        store = ToolGateway().store  # as another process has it
        request = store.get(request_id)
        consent = Consent(store, None, "", lambda tool, arguments: None)
        consent.amend(find(request.tool_name), request, {"path": "made.txt", "content": "edited"})
        approve(approvals, request_id)

    paused_then(in_a_thread, edit)
    assert written() == "edited"


def test_an_approval_does_not_hold_when_the_content_has_changed_meanwhile() -> None:
    def change(approvals: GatewayApprovals, request_id: str) -> None:
        approve(approvals, request_id)
        (workspace.workspace_root() / "made.txt").write_text("somebody else's")

    assert "approval_stale" in paused_then(in_a_thread, change)
    assert written() == "somebody else's"


def test_the_request_is_shown_with_what_the_call_would_do() -> None:
    async def go() -> None:
        approvals = GatewayApprovals()
        run = CallableRunner(in_a_thread).start(call())
        events = await events_of(run, approvals)
        approval = approval_of(events)
        assert approval["tool_name"] == "write_workspace_file"
        assert approval["risk_level"] == "medium"
        assert "+made" in approval["diff"]
        assert "made.txt" in approval["summary"]
        assert (
            "content" not in approval
        )  # arguments are in the diff and the details, as the prompt shows them
        assert "write_workspace_file needs approval" in asked(events).question[0].text  # type: ignore[union-attr]
        await run.cancel()

    asyncio.run(go())


def test_a_decision_is_made_once() -> None:
    async def go() -> None:
        approvals = GatewayApprovals()
        run = CallableRunner(in_a_thread).start(call())
        request_id = approval_of(await events_of(run, approvals))["id"]
        approvals.decide(request_id, False, "a test")
        with pytest.raises(KsadkError):
            approvals.decide(request_id, True, "another")
        assert approvals.decision(request_id) == "denied"
        assert approvals.decision("appr_unknown") == "expired"
        await run.cancel()

    asyncio.run(go())


def test_two_calls_at_the_same_time_ask_one_after_the_other() -> None:
    async def agent(text: str) -> str:
        calls = [
            asyncio.to_thread(workspace.write_workspace_file, name, "made") for name in ("made.txt", "b.txt")
        ]
        return str([result["ok"] for result in await asyncio.gather(*calls)])

    async def go() -> None:
        approvals = GatewayApprovals()
        run = CallableRunner(agent).start(call())
        for _ in range(2):
            request_id = approval_of(await events_of(run, approvals))["id"]
            approve(approvals, request_id)
            await run.answer(Answer(decision="approved", request_id=request_id))
        assert texts(await events_of(run, approvals)) == "[True, True]"

    asyncio.run(go())
    assert written() == "made"


def test_a_canceled_agent_runs_nothing_though_it_is_approved_later() -> None:
    async def go() -> None:
        approvals = GatewayApprovals()
        run = CallableRunner(in_a_thread).start(call())
        request_id = approval_of(await events_of(run, approvals))["id"]
        await run.cancel()
        approve(approvals, request_id)
        await asyncio.sleep(0.1)
        assert written() == ""

    asyncio.run(go())


def test_in_a_task_of_the_agents_own_on_the_loop_a_tool_answers_that_it_needs_approval() -> None:
    async def agent(text: str) -> str:
        async def inner() -> Any:
            return workspace.write_workspace_file("made.txt", "made")

        return str(await asyncio.create_task(inner()))

    async def go() -> str:
        return texts(await events_of(CallableRunner(agent).start(call()), GatewayApprovals()))

    assert "approval_required" in asyncio.run(go())
    assert written() == ""


def test_without_a_gateway_that_asks_a_tool_answers_as_it_does_anywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "strict")

    async def go() -> str:
        return texts(await events_of(CallableRunner(in_a_thread).start(call())))

    assert "approval_required" in asyncio.run(go())


def test_the_mode_of_the_environment_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "off")

    async def go() -> str:
        return texts(await events_of(CallableRunner(in_a_thread).start(call()), GatewayApprovals()))

    assert "'ok': True" in asyncio.run(go())
    assert written() == "made"
