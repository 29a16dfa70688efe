"""Agents of Google ADK: what they say, what they ask, approvals, and restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
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
    thoughts,
    written,
)  # fmt: skip

from ksadk.a2a.runners.base import (
    Answer,
    Artifact,
    DataPart,
    RawPart,
    Rejected,
    RunnerError,
    Text,
)
from ksadk.toolsets import get_agentengine_tools, workspace
from ksadk.toolsets.frameworks import as_adk_tools
from ksadk.toolsets.served import GatewayApprovals

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.tools import FunctionTool, LongRunningFunctionTool
from google.genai import types
from pydantic import Field

from ksadk.a2a.runners.adk import AdkRunner


def text(words: str, thought: bool = False) -> types.Part:
    return types.Part(text=words, thought=thought or None)


def calls(name: str, **arguments: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=arguments))


class Scripted(BaseLlm):
    """Says one list of parts for each call: the one whose number is how many answers it has given before in
    the history, so that it goes on after a restart. A list of lists is streamed."""

    model: str = "scripted"
    script: list[Any]
    seen: list[Any] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        self.seen.append(llm_request)
        before = sum(
            content.role == "model" and any(not part.thought for part in content.parts)
            for content in llm_request.contents
        )
        parts = self.script[before]
        if isinstance(parts[0], list):
            for piece in parts[:-1]:
                yield LlmResponse(content=types.Content(role="model", parts=piece), partial=True)
            parts = parts[-1]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def agent(*script: Any, tools: Any = (), name: str = "scripted", **options: Any) -> LlmAgent:
    return LlmAgent(name=name, model=Scripted(script=list(script)), tools=list(tools), **options)


def test_text_goes_in_and_text_comes_out() -> None:
    model = Scripted(script=[[text("hello")]])
    (events,) = run_all(AdkRunner(LlmAgent(name="a", model=model)))
    assert events == [Text("hello")]
    assert model.seen[0].contents[-1].parts[0].text == "go"


def test_an_app_and_a_runner_are_agents_too() -> None:
    app = App(name="app", root_agent=agent([text("hello")]))
    assert texts(run_all(AdkRunner(app))[0]) == "hello"
    library = Runner(app=app, session_service=InMemorySessionService())
    assert texts(run_all(AdkRunner(library))[0]) == "hello"


def test_a_context_is_a_session() -> None:
    async def go() -> list[str]:
        runner = AdkRunner(agent([text("one")], [text("two")]))
        contexts = ("x", "x", "y")
        return [
            texts(await events_of(runner.start(call(task=f"t{n}", context=context))))
            for n, context in enumerate(contexts)
        ]

    assert asyncio.run(go()) == ["one", "two", "one"]


def test_thoughts_are_thinking_in_their_order() -> None:
    (events,) = run_all(AdkRunner(agent([text("hm", thought=True), text("so"), text("and", thought=True)])))
    assert [(type(event).__name__, event.text) for event in events] == [  # type: ignore[union-attr]
        ("Thinking", "hm"), ("Text", "so"), ("Thinking", "and"),
    ]  # fmt: skip


STREAMS = [
    ([[text("a")], [text("b")], [text("ab")]], [Text("a"), Text("b")]),
    ([[text("a")], [text("b")], [text("abc")]], [Text("a"), Text("b"), Text("c")]),
    ([[text("a")], [text("other")]], [Text("a"), Text("other", replace=True)]),
    ([[text("a")], [types.Part(text="")]], [Text("a")]),
]


@pytest.mark.parametrize(("stream", "told"), STREAMS)
def test_what_is_streamed_is_told_once_and_the_whole_replaces_other_pieces(stream: Any, told: Any) -> None:
    assert run_all(AdkRunner(agent(stream))) == [told]


def test_the_streamed_thoughts_and_text_are_told_apart() -> None:
    stream = [[text("h", True)], [text("m", True)], [text("so")], [text("hm", True), text("so")]]
    (events,) = run_all(AdkRunner(agent(stream)))
    assert (thoughts(events), texts(events), len(events)) == ("hm", "so", 3)


def test_agents_in_a_sequence_are_told_one_after_the_other() -> None:
    both = SequentialAgent(
        name="both", sub_agents=[agent([text("one ")], name="a"), agent([text("x")], [text("two")], name="b")]
    )
    assert texts(run_all(AdkRunner(both))[0]).startswith("one ")


def test_files_of_a_model_are_artifacts() -> None:
    part = types.Part(inline_data=types.Blob(data=b"png", mime_type="image/png", display_name="p.png"))
    (events,) = run_all(AdkRunner(agent([part])))
    assert events == [Artifact((RawPart(b"png", "p.png", "image/png"),))]


def test_an_error_of_the_model_is_an_error() -> None:
    class Broken(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            yield LlmResponse(error_code="QUOTA", error_message="secret")

    with pytest.raises(RunnerError, match="QUOTA"):
        run_all(AdkRunner(LlmAgent(name="a", model=Broken(model="broken"))))


# What an agent asks of its own accord


def book(city: str) -> dict[str, str]:
    """Book a trip."""
    log_line("booked.txt")
    return {"booked": city}


def confirmed_agent() -> LlmAgent:
    tools = [FunctionTool(book, require_confirmation=True)]
    return agent([calls("book", city="Paris")], [text("done")], tools=tools)


@pytest.mark.parametrize(
    ("given", "booked"),
    [("yes", 1), ("no", 0), ("anything", 0), ({"confirmed": True}, 1), ({"confirmed": False}, 0), (True, 1)],
)
def test_a_confirmation_of_adk_is_a_question_that_text_or_data_answers(given: Any, booked: int) -> None:
    first, rest = run_all(AdkRunner(confirmed_agent()), answer(given))
    question = asked(first)
    assert question.approval is None
    assert DataPart({"tool": "book", "args": {"city": "Paris"}}) in question.question
    assert texts(rest) == "done"
    assert lines("booked.txt") == booked


def test_two_confirmations_are_asked_one_by_one() -> None:
    tools = [FunctionTool(book, require_confirmation=True)]
    two = agent([calls("book", city="Paris"), calls("book", city="Rome")], [text("done")], tools=tools)
    first, second, rest = run_all(AdkRunner(two), answer("yes"), answer("no"))
    assert asked(first).question[1] == DataPart({"tool": "book", "args": {"city": "Paris"}})
    assert asked(second).question[1] == DataPart({"tool": "book", "args": {"city": "Rome"}})
    assert texts(rest) == "done"
    assert lines("booked.txt") == 1


def test_a_tool_that_runs_long_waits_for_its_result() -> None:
    def order(item: str) -> None:
        """Order something."""

    model = Scripted(script=[[calls("order", item="tea")], [text("arrived")]])
    runner = AdkRunner(LlmAgent(name="a", model=model, tools=[LongRunningFunctionTool(order)]))
    first, rest = run_all(runner, answer({"status": "delivered"}))
    assert DataPart({"order": {"item": "tea"}}) in asked(first).question
    assert texts(rest) == "arrived"
    responses = [part.function_response for part in model.seen[-1].contents[-1].parts]
    assert responses[0].response == {"status": "delivered"}


def test_a_context_in_which_a_task_waits_takes_no_other() -> None:
    async def go() -> None:
        runner = AdkRunner(confirmed_agent())
        run = runner.start(call())
        asked(await events_of(run))
        (refused,) = await events_of(runner.start(call(task="task-2")))
        assert isinstance(refused, Rejected)
        await run.cancel()

    asyncio.run(go())


def test_cancel_stops_a_tool_that_awaits() -> None:
    began, ended = asyncio.Event(), []

    async def slow() -> str:
        """Take long."""
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)
        return ""

    async def go() -> None:
        run = AdkRunner(agent([calls("slow")], [text("done")], tools=[slow])).start(call())
        reading = asyncio.create_task(events_of(run))
        await asyncio.wait_for(began.wait(), 30)
        await asyncio.wait_for(run.cancel(), 30)
        assert await reading == []
        assert ended == [True]

    asyncio.run(go())


# Approvals and restarts


def note() -> str:
    """Append a line to a file."""
    log_line()
    return "noted"


def save(content: str) -> dict[str, Any]:
    """Write a file by a tool of the gateway."""
    return workspace.write_workspace_file("made.txt", content)


async def save_asynchronously(content: str) -> dict[str, Any]:
    """The same, in a coroutine."""
    return workspace.write_workspace_file("made.txt", content)


WRITE = {"path": "made.txt", "content": "made"}


def in_turn(tool: Any, name: str, **arguments: Any) -> LlmAgent:
    """A call that finishes, then one that needs approval."""
    return agent([calls("note")], [calls(name, **arguments)], [text("done")], tools=[note, tool])


def at_once(tool: Any, name: str, **arguments: Any) -> LlmAgent:
    """Both in one answer of the model."""
    return agent([calls("note"), calls(name, **arguments)], [text("done")], tools=[note, tool])


TOOLS: list[tuple[Any, str, dict[str, Any]]] = [
    (as_adk_tools(get_agentengine_tools("write_workspace_file"))[0], "write_workspace_file", WRITE),
    (get_agentengine_tools("write_workspace_file")[0], "write_workspace_file", WRITE),
    (workspace.write_workspace_file, "write_workspace_file", WRITE),
    (save, "save", {"content": "made"}),
    (save_asynchronously, "save_asynchronously", {"content": "made"}),
]
IDS = ["adk tool", "langchain tool", "public function", "function", "coroutine"]


@pytest.mark.parametrize("approve", [True, False], ids=["approved", "denied"])
@pytest.mark.parametrize("make", [in_turn, at_once])
@pytest.mark.parametrize("tool", TOOLS, ids=IDS)
def test_a_call_that_needs_approval_runs_once_and_finished_calls_are_not_run_again(
    tool: Any, make: Callable[..., LlmAgent], approve: bool
) -> None:
    function, name, arguments = tool

    async def go() -> None:
        approvals = GatewayApprovals()
        runner = AdkRunner(make(function, name, **arguments))
        run = runner.start(call())
        first = await events_of(run, approvals)
        assert approval_of(first)["tool_name"] == "write_workspace_file"
        assert asked(first).state is None
        assert (written(), lines()) == ("", 1)
        await run.answer(decided(approvals, first, approve))
        rest = await events_of(run, approvals)
        assert texts(rest) == "done"
        model = runner.library.agent.model
        responses = [
            part.function_response.response
            for content in model.seen[-1].contents
            for part in content.parts
            if part.function_response
        ]
        assert ("approval_rejected" in json.dumps(responses)) is not approve
        assert "waits for approval" not in json.dumps(responses)

    asyncio.run(go())
    assert (written(), lines()) == ("made" if approve else "", 1)


def test_text_approves_nothing() -> None:
    async def go() -> None:
        approvals = GatewayApprovals()
        run = AdkRunner(in_turn(save, "save", content="made")).start(call())
        request_id = approval_of(await events_of(run, approvals))["id"]
        await run.answer(answer("yes"))
        again = await events_of(run, approvals)
        assert written() == ""
        assert approval_of(again)["id"] == request_id

    asyncio.run(go())


def test_a_tool_that_makes_two_risky_calls_asks_for_both_and_runs_each_once() -> None:
    def save_two() -> list[Any]:
        """Write two files."""
        return [workspace.write_workspace_file(name, "made")["ok"] for name in ("made.txt", "other.txt")]

    async def go() -> None:
        approvals = GatewayApprovals()
        run = AdkRunner(in_turn(save_two, "save_two")).start(call())
        for name in ("made.txt", "other.txt"):
            events = await events_of(run, approvals)
            assert name in approval_of(events)["summary"]
            assert written("other.txt") == ""
            await run.answer(decided(approvals, events))
        assert texts(await events_of(run, approvals)) == "done"

    asyncio.run(go())
    assert (written(), written("other.txt"), lines()) == ("made", "made", 1)


def test_a_confirmed_tool_whose_call_needs_approval_asks_both() -> None:
    tool = FunctionTool(save, require_confirmation=True)

    async def go() -> None:
        approvals = GatewayApprovals()
        run = AdkRunner(in_turn(tool, "save", content="made")).start(call())
        assert asked(await events_of(run, approvals)).approval is None
        await run.answer(answer("yes"))
        events = await events_of(run, approvals)
        assert written() == ""
        await run.answer(decided(approvals, events))
        assert texts(await events_of(run, approvals)) == "done"

    asyncio.run(go())
    assert written() == "made"


@pytest.mark.parametrize("tool", TOOLS[:4], ids=IDS[:4])
@pytest.mark.parametrize("make", [in_turn, at_once])
def test_with_sessions_in_a_database_it_is_so_after_a_restart_too(tool: Any, make: Any) -> None:
    function, name, arguments = tool

    def runner() -> AdkRunner:
        sessions = DatabaseSessionService("sqlite+aiosqlite:///sessions.db")
        return AdkRunner(make(function, name, **arguments), session_service=sessions)

    async def before(approvals: GatewayApprovals) -> tuple[Any, Answer]:
        before = runner()
        events = await events_of(before.start(call()), approvals)
        await before.aclose()
        return json.loads(json.dumps(asked(events).state)), decided(approvals, events)

    async def after(approvals: GatewayApprovals, state: Any, given: Answer) -> str:
        run = runner().restore(call(), state)
        assert run is not None
        await run.answer(given)
        return texts(await events_of(run, approvals))

    state, given = asyncio.run(before(GatewayApprovals()))
    assert asyncio.run(after(GatewayApprovals(), state, given)) == "done"
    assert (written(), lines()) == ("made", 1)


def test_a_confirmation_is_answered_after_a_restart() -> None:
    def runner() -> AdkRunner:
        sessions = DatabaseSessionService("sqlite+aiosqlite:///sessions.db")
        return AdkRunner(confirmed_agent(), session_service=sessions)

    async def before() -> Any:
        return asked(await events_of(runner().start(call()))).state

    async def after(state: Any) -> str:
        run = runner().restore(call(), state)
        assert run is not None
        await run.answer(answer("yes"))
        return texts(await events_of(run))

    assert asyncio.run(after(json.loads(json.dumps(asyncio.run(before()))))) == "done"
    assert lines("booked.txt") == 1
