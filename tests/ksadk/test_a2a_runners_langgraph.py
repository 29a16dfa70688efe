"""Graphs of LangGraph as agents: input and output by schema, streaming, interrupts, approvals, restarts."""

from __future__ import annotations

import asyncio
import json
import operator
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from agent_runs import answer, approval_of, asked, call, events_of, run_all, texts, thoughts

from ksadk.a2a.runners.base import (
    Answer,
    Artifact,
    DataPart,
    Event,
    InputRequired,
    Rejected,
    Run,
    RunnerError,
    Status,
    TextPart,
)
from ksadk.toolsets import get_agentengine_tools, workspace
from ksadk.toolsets.served import GatewayApprovals

pytest.importorskip("langgraph")

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from ksadk.a2a.runners.langgraph import LangGraphRunner


class Scripted(GenericFakeChatModel):
    """A chat model that says what it was given to say, and takes any tools."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def model(*messages: AIMessage | str) -> Scripted:
    streams = all(isinstance(message, str) for message in messages)
    return Scripted(messages=iter(messages), disable_streaming=not streams)


def tool_call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": arguments, "id": f"call-{name}-{len(arguments)}", "type": "tool_call"}


def messages_graph(*nodes: Callable[..., Any], saver: Any = None) -> Any:
    return chain(MessagesState, *nodes, saver=saver)


def chain(state: Any, *nodes: Callable[..., Any], saver: Any = None) -> Any:
    graph = StateGraph(state)
    names = [f"node{number}" for number, _ in enumerate(nodes)]
    for name, node in zip(names, nodes, strict=True):
        graph.add_node(name, node)
    for before, after in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=saver)


def echo(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"{len(state['messages'])}: {state['messages'][-1].text}")]}


def test_text_is_the_next_human_message_and_the_answer_the_last_message() -> None:
    runner = LangGraphRunner(messages_graph(echo))
    assert runner.input_modes == ("text/plain",)
    assert texts(run_all(runner)[0]) == "1: go"


def test_a_graph_that_is_not_compiled_is_compiled() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("echo", echo)
    graph.add_edge(START, "echo")
    assert texts(run_all(LangGraphRunner(graph))[0]) == "1: go"


def test_a_context_is_a_thread_and_another_context_another() -> None:
    async def go() -> list[str]:
        runner = LangGraphRunner(messages_graph(echo))
        calls = [call("a"), call("b", task="task-2"), call("c", task="task-3", context="context-2")]
        return [texts(await events_of(runner.start(message))) for message in calls]

    assert asyncio.run(go()) == ["1: a", "3: b", "1: c"]


def test_a_model_streams_each_token_once() -> None:
    chat = model("three little words")

    def ask_model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [chat.invoke(state["messages"])]}

    (events,) = run_all(LangGraphRunner(messages_graph(ask_model)))
    assert texts(events) == "three little words"
    assert len(events) == 5


def test_reasoning_of_a_model_is_thinking_in_its_order() -> None:
    said = AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "so"}])
    (events,) = run_all(LangGraphRunner(messages_graph(lambda state: {"messages": [said]})))
    assert [(type(event).__name__, event.text) for event in events] == [  # type: ignore[union-attr]
        ("Thinking", "hm"), ("Text", "so"),
    ]  # fmt: skip


def test_what_a_node_writes_to_the_stream_is_told_once() -> None:
    def writes(state: MessagesState) -> dict[str, Any]:
        write = get_stream_writer()
        write({"type": "thinking", "delta": "hm", "replace": False})
        write({"type": "text", "delta": "an", "replace": False})
        write({"type": "text", "delta": "swer", "replace": False})
        write("looking things up")
        write({"my": "own"})
        return {"messages": [AIMessage("answer")]}

    (events,) = run_all(LangGraphRunner(messages_graph(writes)))
    assert (thoughts(events), texts(events)) == ("hm", "answer")
    assert Status("looking things up") in events
    assert len(events) == 4


def test_a_node_that_asks_in_its_stream_is_told_to_interrupt() -> None:
    def writes(state: MessagesState) -> None:
        get_stream_writer()(InputRequired((TextPart("which city?"),)))

    with pytest.raises(RunnerError) as caught:
        run_all(LangGraphRunner(messages_graph(writes)))
    assert "interrupt" in (caught.value.hint or "")


class Question(TypedDict):
    query: str
    limit: int
    result: str


class TwoResults(TypedDict):
    query: str
    found: int
    word: str


def test_a_graph_without_messages_gets_its_text_and_gives_its_result() -> None:
    runner = LangGraphRunner(chain(Question, lambda state: {"result": f"{state['query']}!"}))
    assert runner.input_modes == ("text/plain", "application/json")
    assert texts(run_all(runner)[0]) == "go!"


def test_data_gives_a_graph_its_keys() -> None:
    runner = LangGraphRunner(chain(Question, lambda state: {"result": state["query"] * state["limit"]}))
    assert texts(run_all(runner, message=call("ab", DataPart({"limit": 2})))[0]) == "abab"
    data = call("", DataPart({"query": "x", "limit": 3}), context="other")
    assert texts(run_all(runner, message=data)[0]) == "xxx"


def test_several_results_are_an_artifact_of_data() -> None:
    runner = LangGraphRunner(chain(TwoResults, lambda state: {"found": 2, "word": "w"}))
    assert run_all(runner) == [[Artifact((DataPart({"found": 2, "word": "w"}),))]]


async def asynchronous_factory() -> Any:
    return messages_graph(echo)


@asynccontextmanager
async def managed_factory(config: Any) -> AsyncIterator[Any]:
    yield messages_graph(echo)


@pytest.mark.parametrize("factory", [lambda: messages_graph(echo), asynchronous_factory, managed_factory])
def test_a_function_that_makes_a_graph_is_one(factory: Any) -> None:
    assert texts(run_all(LangGraphRunner(factory))[0]) == "1: go"


QUESTIONS = [
    ("which city?", (TextPart("which city?"),)),
    ({"question": "which?", "n": 1}, (TextPart("which?"), DataPart({"question": "which?", "n": 1}))),
    (["a", 1], (DataPart(["a", 1]),)),
    (3, (DataPart(3),)),
    (None, (DataPart(None),)),
]


@pytest.mark.parametrize(("value", "parts"), QUESTIONS, ids=[repr(value) for value, _ in QUESTIONS])
def test_an_interrupt_of_any_value_is_a_question_and_any_answer_answers_it(value: Any, parts: Any) -> None:
    def asks(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"got {interrupt(value)!r}")]}

    for given, got in (("Paris", "got 'Paris'"), ({"x": 1}, "got {'x': 1}")):
        first, rest = run_all(LangGraphRunner(messages_graph(asks)), answer(given))
        assert asked(first) == InputRequired(parts)
        assert texts(rest) == got


def test_two_interrupts_of_one_node_are_asked_in_order() -> None:
    def asks(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{interrupt('a?')} {interrupt('b?')}")]}

    first, second, rest = run_all(LangGraphRunner(messages_graph(asks)), answer("A"), answer("B"))
    assert (asked(first).question, asked(second).question) == ((TextPart("a?"),), (TextPart("b?"),))
    assert texts(rest) == "A B"


class Words(TypedDict):
    text: str
    words: Annotated[list[str], operator.add]


def test_interrupts_of_parallel_nodes_are_asked_one_by_one_and_answered_each_with_its_own() -> None:
    graph = StateGraph(Words)
    for name in ("one", "two"):
        graph.add_node(name, lambda state, name=name: {"words": [f"{name}={interrupt(name)}"]})
        graph.add_edge(START, name)
    first, second, rest = run_all(LangGraphRunner(graph.compile()), answer("1"), answer("2"))
    got = [asked(events).question[0].text for events in (first, second)]  # type: ignore[union-attr]
    assert sorted(got) == ["one", "two"]
    (artifact,) = rest
    assert isinstance(artifact, Artifact)
    (data,) = artifact.parts
    assert isinstance(data, DataPart)
    assert sorted(data.data["words"] if isinstance(data.data, dict) else data.data) == sorted(
        f"{name}={number}" for name, number in zip(got, "12", strict=True)
    )


def test_a_context_in_which_a_task_waits_takes_no_other_until_that_is_answered_or_canceled() -> None:
    graph = messages_graph(lambda state: {"messages": [AIMessage(str(interrupt("?")))]})

    async def go() -> None:
        runner = LangGraphRunner(graph)
        run = runner.start(call())
        asked(await events_of(run))
        (refused,) = await events_of(runner.start(call(task="task-2")))
        assert isinstance(refused, Rejected)
        assert "task-1" in refused.text
        await run.cancel()
        asked(await events_of(runner.start(call(task="task-3"))))

    asyncio.run(go())


def test_cancel_stops_a_node_that_awaits_and_frees_the_context() -> None:
    began, seen = asyncio.Event(), []

    async def slow(state: MessagesState) -> dict[str, Any]:
        began.set()
        try:
            await asyncio.sleep(0 if seen else 60)
        finally:
            seen.append("ended")
        return {"messages": [AIMessage("done")]}

    async def go() -> None:
        runner = LangGraphRunner(messages_graph(slow))
        run = runner.start(call())
        reading = asyncio.create_task(events_of(run))
        await began.wait()
        await asyncio.wait_for(run.cancel(), 30)
        assert await reading == []
        assert seen == ["ended"]
        assert texts(await events_of(runner.start(call(task="task-2")))) == "done"

    asyncio.run(go())


def test_cancel_of_a_node_in_a_thread_that_goes_on_is_an_error() -> None:
    hangs = threading.Lock()

    def slow(state: MessagesState) -> dict[str, Any]:
        began.set()
        with hangs:
            return {}

    began = threading.Event()

    async def go() -> None:
        run = LangGraphRunner(messages_graph(slow)).start(call())
        hangs.acquire()
        reading = asyncio.create_task(events_of(run))
        assert await asyncio.to_thread(began.wait, 30)
        await asyncio.sleep(0.2)  # until it is inside of the call that does not return
        with pytest.raises(RunnerError) as caught:
            await run.cancel()
        assert caught.value.code == "not_cancelable"
        hangs.release()
        await reading

    asyncio.run(go())


def test_what_a_canceled_or_failed_task_left_in_its_context_is_not_gone_on_with() -> None:
    """A model that has called a tool refuses to go on without the tool's result."""
    began = asyncio.Event()

    def calls_a_tool(state: MessagesState) -> dict[str, Any]:
        if state["messages"][-1].text == "echo":
            return echo(state)
        return {"messages": [AIMessage("", tool_calls=[tool_call("note", text="x")])]}

    async def breaks(state: MessagesState) -> dict[str, Any]:
        asked_for = state["messages"][-2].text
        if asked_for == "fail":
            raise ValueError("broken")
        if asked_for == "hang":
            began.set()
            await asyncio.sleep(60)
        return {}

    async def go() -> list[str]:
        runner = LangGraphRunner(messages_graph(calls_a_tool, breaks))
        said = []
        for number, word in enumerate(("fail", "echo", "hang", "echo", "fail", "echo")):
            run = runner.start(call(word, task=f"task-{number}"))
            if word == "fail":
                with pytest.raises(ValueError, match="broken"):
                    await events_of(run)
            elif word == "hang":
                reading = asyncio.create_task(events_of(run))
                await began.wait()
                await run.cancel()
                await reading
            else:
                said.append(texts(await events_of(run)))
        return said

    assert asyncio.run(go()) == ["1: echo", "3: echo", "5: echo"]


def test_the_oldest_contexts_of_a_graph_without_a_checkpointer_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ksadk.a2a.runners.conversations.MOST_KEPT", 2)

    async def go() -> list[str]:
        runner = LangGraphRunner(messages_graph(echo))
        return [
            texts(await events_of(runner.start(call(task=str(number), context=context))))
            for number, context in enumerate("abacbac")
        ]

    assert asyncio.run(go()) == ["1: go", "1: go", "3: go", "1: go", "1: go", "1: go", "1: go"]


# Approvals and restarts


def log_line(name: str = "finished.txt") -> None:
    with Path(name).open("a") as file:
        file.write("a finished step\n")


def lines(name: str = "finished.txt") -> int:
    path = Path(name)
    return len(path.read_text().splitlines()) if path.exists() else 0


def written(name: str = "made.txt") -> str:
    path = workspace.workspace_root() / name
    return path.read_text() if path.exists() else ""


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
        model(*[AIMessage("", tool_calls=calls), AIMessage("all done")] * 1),
        tools=[note, *get_agentengine_tools("write_workspace_file")],
        checkpointer=saver,
    )


GRAPHS: list[Callable[..., Any]] = [
    lambda saver: two_nodes(saver), lambda saver: two_asynchronous_nodes(saver),
    lambda saver: two_calls(saver=saver), lambda saver: agent_of_langchain(saver=saver),
]  # fmt: skip
IDS = ["nodes", "asynchronous nodes", "tool node", "create_agent"]


def decided(approvals: GatewayApprovals, events: list[Event], approve: bool = True) -> Answer:
    request_id = approval_of(events)["id"]
    approvals.decide(request_id, approve, "a test")
    return Answer(decision="approved" if approve else "denied", request_id=request_id)


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
