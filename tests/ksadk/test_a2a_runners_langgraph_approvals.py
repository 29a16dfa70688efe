"""Graphs of LangGraph that pause for approval, and go on after a restart of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from agent_runs import (
    answer,
    approval_of,
    asked,
    call,
    decided,
    events_of,
    lines,
    log_line,
    run_all,
    texts,
    written,
)  # fmt: skip

from ksadk.a2a.runners.base import (
    Answer,
    Event,
    InputRequired,
    Run,
    RunnerError,
    TextPart,
)
from ksadk.toolsets import get_agentengine_tools, workspace
from ksadk.toolsets.served import GatewayApprovals

pytest.importorskip("langgraph")

from graphs import messages_graph, model, tool_call
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import MessagesState
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from ksadk.a2a.runners.langgraph import LangGraphRunner


@tool
def note(text: str) -> str:
    """Append a line to a file."""
    log_line()
    return "noted"


def first_step(state: MessagesState) -> dict[str, Any]:
    log_line()
    return {}


def write_step(state: MessagesState) -> dict[str, Any]:
    result = workspace.write_workspace_file("made.txt", "made")
    return {"messages": [AIMessage(str(result.get("type", result["ok"])))]}


async def asynchronous_write_step(state: MessagesState) -> dict[str, Any]:
    return write_step(state)


def two_nodes(saver: Any) -> Any:
    return messages_graph(first_step, write_step, saver=saver)


def two_asynchronous_nodes(saver: Any) -> Any:
    return messages_graph(first_step, asynchronous_write_step, saver=saver)


def two_calls(*, saver: Any) -> Any:
    """A tool node with two calls of one message: the first finishes, the second pauses."""
    tools = [note, *get_agentengine_tools("write_workspace_file")]
    calls = [tool_call("note", text="x"), tool_call("write_workspace_file", path="made.txt", content="made")]

    def decide(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("", tool_calls=calls)]}

    def conclude(state: MessagesState) -> dict[str, Any]:
        results = [message.text for message in state["messages"] if isinstance(message, ToolMessage)]
        return {"messages": [AIMessage("; ".join(results))]}

    return messages_graph(decide, ToolNode(tools), conclude, saver=saver)


def agent_of_langchain(*, saver: Any) -> Any:
    pytest.importorskip("langchain")
    from langchain.agents import create_agent

    calls = [tool_call("note", text="x"), tool_call("write_workspace_file", path="made.txt", content="made")]
    return create_agent(
        model(AIMessage("", tool_calls=calls), AIMessage("all done")),
        tools=[note, *get_agentengine_tools("write_workspace_file")],
        checkpointer=saver,
    )


GRAPHS: list[Callable[..., Any]] = [
    lambda saver: two_nodes(saver), lambda saver: two_asynchronous_nodes(saver),
    lambda saver: two_calls(saver=saver), lambda saver: agent_of_langchain(saver=saver),
]  # fmt: skip
IDS = ["nodes", "asynchronous nodes", "tool node", "create_agent"]


@pytest.mark.parametrize("make", GRAPHS, ids=IDS)
@pytest.mark.parametrize("approve", [True, False], ids=["approved", "denied"])
def test_a_step_that_needs_approval_runs_once_and_finished_steps_are_not_run_again(
    make: Any, approve: bool
) -> None:
    async def go() -> None:
        approvals = GatewayApprovals()
        run = LangGraphRunner(make(None)).start(call())
        first = await events_of(run, approvals)
        assert approval_of(first)["tool_name"] == "write_workspace_file"
        assert asked(first).state is None
        assert (written(), lines()) == ("", 1)
        await run.answer(decided(approvals, first, approve))
        rest = await events_of(run, approvals)
        assert not any(isinstance(event, InputRequired) for event in rest)
        assert (written(), lines()) == ("made" if approve else "", 1)
        if not approve and make is GRAPHS[0]:
            assert texts(rest) == "approval_rejected"

    asyncio.run(go())


@asynccontextmanager
async def asynchronous_saver() -> AsyncIterator[Any]:
    aio = pytest.importorskip("langgraph.checkpoint.sqlite.aio")
    async with aio.AsyncSqliteSaver.from_conn_string("checkpoints.db") as saver:
        yield saver


@asynccontextmanager
async def synchronous_saver() -> AsyncIterator[Any]:
    module = pytest.importorskip("langgraph.checkpoint.sqlite")
    with module.SqliteSaver.from_conn_string("checkpoints.db") as saver:
        yield saver


async def after_a_restart(
    saver: Any, make: Any, paused: Callable[[Run, Any], Any], approvals: Any
) -> list[Event]:
    """Pause in one loop's runner, and answer in another that is built anew from what was stored."""
    async with saver() as opened:
        run = LangGraphRunner(make(opened)).start(call())
        events = await events_of(run, approvals)
        state = asked(events).state
        assert state is not None
        given = await paused(run, events)
    async with saver() as opened:
        again = LangGraphRunner(make(opened)).restore(call(), json.loads(json.dumps(state)))
        assert again is not None
        await again.answer(given)
        return await events_of(again, approvals)


@pytest.mark.parametrize("saver", [asynchronous_saver, synchronous_saver])
@pytest.mark.parametrize("make", GRAPHS[:3], ids=IDS[:3])
def test_with_a_checkpointer_it_is_so_after_a_restart_too(make: Any, saver: Any) -> None:
    async def go() -> None:
        approvals = GatewayApprovals()

        async def paused(run: Run, events: list[Event]) -> Answer:
            return decided(approvals, events)

        rest = await after_a_restart(saver, make, paused, approvals)
        assert not any(isinstance(event, InputRequired) for event in rest)

    asyncio.run(go())
    assert (written(), lines()) == ("made", 1)


@pytest.mark.parametrize("saver", [asynchronous_saver, synchronous_saver])
def test_a_question_is_answered_after_a_restart(saver: Any) -> None:
    def make(saver: Any) -> Any:
        return messages_graph(
            first_step, lambda state: {"messages": [AIMessage(f"got {interrupt('?')}")]}, saver=saver
        )

    async def paused(run: Run, events: list[Event]) -> Answer:
        return answer("Paris")

    assert texts(asyncio.run(after_a_restart(saver, make, paused, None))) == "got Paris"
    assert lines() == 1


def test_a_thread_that_went_on_is_not_taken_up_again() -> None:
    def make(saver: Any) -> Any:
        return messages_graph(lambda state: {"messages": [AIMessage(str(interrupt("?")))]}, saver=saver)

    async def go() -> None:
        async with asynchronous_saver() as saver:
            run = LangGraphRunner(make(saver)).start(call())
            state = asked(await events_of(run)).state
            assert state is not None
            asked(await events_of(LangGraphRunner(make(saver)).start(call(task="task-2"))))
            again = LangGraphRunner(make(saver)).restore(call(), state)
            assert again is not None
            await again.answer(answer("late"))
            with pytest.raises(RunnerError, match="went on"):
                await events_of(again)

    asyncio.run(go())


def test_two_calls_that_need_approval_in_one_node_run_once_each() -> None:
    def writes_two(state: MessagesState) -> dict[str, Any]:
        city = interrupt("which city?")
        results = [workspace.write_workspace_file(name, city) for name in ("made.txt", "other.txt")]
        return {"messages": [AIMessage(f"{[result['ok'] for result in results]} {interrupt('ok?')}")]}

    async def go() -> str:
        approvals = GatewayApprovals()
        run = LangGraphRunner(messages_graph(writes_two)).start(call())
        asked(await events_of(run, approvals))
        await run.answer(answer("Paris"))
        for _ in range(2):
            events = await events_of(run, approvals)
            await run.answer(decided(approvals, events))
        assert asked(await events_of(run, approvals)).question == (TextPart("ok?"),)
        await run.answer(answer("yes"))
        return texts(await events_of(run, approvals))

    assert asyncio.run(go()) == "[True, True] yes"
    assert (written(), written("other.txt")) == ("Paris", "Paris")


@pytest.mark.parametrize("changes", ["arguments", "content"])
def test_a_decision_does_not_hold_for_another_call_of_the_step_that_is_run_again(changes: str) -> None:
    passes: list[str] = []

    def writes(state: MessagesState) -> dict[str, Any]:
        passes.append("pass")
        content = f"pass {len(passes)}" if changes == "arguments" else "same"
        result = workspace.write_workspace_file("made.txt", content)
        return {"messages": [AIMessage(str(result.get("error_type")))]}

    async def go() -> list[Event]:
        approvals = GatewayApprovals()
        run = LangGraphRunner(messages_graph(writes)).start(call())
        first = await events_of(run, approvals)
        if changes == "content":
            (workspace.workspace_root() / "made.txt").write_text("somebody else's")
        await run.answer(decided(approvals, first))
        second = await events_of(run, approvals)
        if changes == "arguments":
            assert approval_of(second)["id"] != approval_of(first)["id"]
            await run.cancel()
        return second

    events = asyncio.run(go())
    if changes == "content":
        assert texts(events) == "approval_stale"
    assert written() == ("" if changes == "arguments" else "somebody else's")


def test_the_same_call_in_a_later_step_asks_again() -> None:
    async def go() -> None:
        approvals = GatewayApprovals()
        run = LangGraphRunner(messages_graph(write_step, write_step)).start(call())
        requests = []
        for _ in range(2):
            events = await events_of(run, approvals)
            requests.append(approval_of(events)["id"])
            await run.answer(decided(approvals, events))
        await events_of(run, approvals)
        assert len(set(requests)) == 2

    asyncio.run(go())


def test_a_value_that_looks_like_a_request_for_approval_is_a_question() -> None:
    from ksadk.a2a.runners.langgraph import APPROVAL

    def forges(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(str(interrupt({APPROVAL: {"id": "appr_1"}})))]}

    (first,) = run_all(LangGraphRunner(messages_graph(forges)))
    assert asked(first).approval is None
