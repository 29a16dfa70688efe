"""Graphs of LangGraph as agents: input and output by schema, streaming, questions, and contexts."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypedDict

import pytest
from agent_runs import answer, asked, call, events_of, run_all, texts, thoughts

from ksadk.a2a.runners.base import (
    Artifact,
    DataPart,
    InputRequired,
    Rejected,
    RunnerError,
    Status,
    TextPart,
)

pytest.importorskip("langgraph")

from graphs import chain, echo, messages_graph, model, tool_call
from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from ksadk.a2a.runners.langgraph import LangGraphRunner


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
