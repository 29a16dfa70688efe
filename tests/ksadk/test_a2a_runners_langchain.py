"""LangChain's runnables and agents, and DeepAgents, as agents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_runs import answer, approval_of, asked, call, events_of, run_all, texts, thoughts

from ksadk.a2a.runners.asking import ask
from ksadk.a2a.runners.base import Answer, Artifact, DataPart, Text, Thinking
from ksadk.a2a.runners.detect import runner_of
from ksadk.toolsets import get_agentengine_tools, workspace
from ksadk.toolsets.served import GatewayApprovals

pytest.importorskip("langchain_core")

from langchain_core.language_models import FakeListChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableGenerator, RunnableLambda


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def test_a_chat_model_gets_the_text_and_streams_its_answer() -> None:
    runner = runner_of(FakeListChatModel(responses=["hello"]))
    assert runner.input_modes == ("text/plain",)
    (events,) = run_all(runner)
    assert texts(events) == "hello"
    assert len(events) == 5


def test_a_chain_of_one_variable_gets_the_text_as_that() -> None:
    prompt = ChatPromptTemplate.from_template("tell of {topic}")
    seen: list[str] = []

    def model(value: Any) -> str:
        seen.append(value.to_messages()[0].text)
        return "told"

    runner = runner_of(prompt | RunnableLambda(model) | StrOutputParser())
    assert texts(run_all(runner, message=call("tea"))[0]) == "told"
    assert texts(run_all(runner, message=call("", DataPart({"topic": "coffee"})))[0]) == "told"
    assert seen == ["tell of tea", "tell of coffee"]
    assert runner.input_modes == ("text/plain", "application/json")


def test_reasoning_of_a_model_is_thinking() -> None:
    async def chunks(given: Any) -> Any:
        yield AIMessageChunk([{"type": "reasoning", "reasoning": "hm"}])
        yield AIMessageChunk([{"type": "text", "text": "so"}])

    (events,) = run_all(runner_of(RunnableGenerator(chunks)))
    assert events == [Thinking("hm"), Text("so")]


RESULTS = [
    ({"answer": "a", "sources": []}, [Text("a")]),
    ({"n": 1}, [Artifact((DataPart({"n": 1}),))]),
    (["x", 1], [Artifact((DataPart(["x", 1]),))]),
    (None, []),
]


@pytest.mark.parametrize(("result", "expected"), RESULTS)
def test_other_results_are_told_at_the_end(result: Any, expected: list[Any]) -> None:
    assert run_all(runner_of(RunnableLambda(lambda text: result))) == [expected]


def test_a_runnable_asks_and_goes_on() -> None:
    for runnable in (RunnableLambda(lambda text: f"got {ask('?')}"), RunnableLambda(asks_on_the_loop)):
        first, rest = run_all(runner_of(runnable), answer("Paris"))
        asked(first)
        assert texts(rest) == "got Paris"


async def asks_on_the_loop(text: str) -> str:
    return f"got {await asyncio.to_thread(ask, '?')}"


def test_an_agent_that_deepagents_makes_runs_its_tools_and_pauses_for_approval() -> None:
    deepagents = pytest.importorskip("deepagents")
    write = {
        "name": "write_workspace_file",
        "args": {"path": "made.txt", "content": "made"},
        "id": "1",
        "type": "tool_call",
    }
    script = iter([AIMessage("", tool_calls=[write]), AIMessage("all done")])
    graph = deepagents.create_deep_agent(
        model=Scripted(messages=script, disable_streaming=True),
        tools=get_agentengine_tools("write_workspace_file"),
    )

    async def go() -> str:
        approvals = GatewayApprovals()
        run = runner_of(graph).start(call())
        events = await events_of(run, approvals)
        request_id = approval_of(events)["id"]
        approvals.decide(request_id, True, "a test")
        await run.answer(Answer(decision="approved", request_id=request_id))
        rest = await events_of(run, approvals)
        assert thoughts(rest) == ""
        return texts(rest)

    assert asyncio.run(go()) == "all done"
    assert (workspace.workspace_root() / "made.txt").read_text() == "made"
