"""Agents of a runtime that keeps its runs itself: what it tells, and what is made of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hosted_runtime import Scripts

from ksadk.a2a.runners.base import (
    Answer,
    Artifact,
    Call,
    DataPart,
    Event,
    Failed,
    InputRequired,
    RunnerError,
    Status,
    Text,
    TextPart,
    Thinking,
    UrlPart,
)
from ksadk.a2a.runners.runtime import RuntimeRunner
from ksadk.a2a.runners.runtime_types import RuntimeEvent
from ksadk.a2a.stores.resume import InMemoryA2AResumeStateStore, ResumeTarget, RunHandle

CALL = Call("m-1", "t-1", "c-1", (TextPart("hi"),), session_id="s-1")
Told = tuple[str, dict[str, Any]]

SAID: list[tuple[str, list[Told], list[Event]]] = [
    ("text in pieces", [("text.delta", {"delta": "a"}), ("text.delta", {"delta": "b"}),
                        ("text.completed", {"text": "ab"})], [Text("a"), Text("b")]),
    ("a text that was not streamed", [("text.completed", {"text": "ab"})], [Text("ab", replace=True)]),
    ("a text that is another than was streamed", [("text.delta", {"delta": "a"}),
     ("text.completed", {"text": "xy"})], [Text("a"), Text("xy", replace=True)]),
    ("a second text, of which the first stays", [("text.completed", {"text": "a"}),
     ("text.delta", {"delta": "b"}), ("text.completed", {"text": "c"})],
     [Text("a", replace=True), Text("b"), Text("ac", replace=True)]),
    ("thinking", [("reasoning.delta", {"delta": "t"}), ("reasoning.completed", {"text": "t"})],
     [Thinking("t")]),
    ("thinking that was not streamed", [("reasoning.completed", {"text": "t"})], [Thinking("t")]),
    ("progress", [("run.progress", {"text": "half"})], [Status("half")]),
    ("artifacts", [("artifact.created", {"artifact_id": "1", "name": "n", "text": "x"}),
                   ("artifact.updated", {"artifact_id": "1", "text": "y", "append": True}),
                   ("artifact.created", {"data": {"k": 1}}),
                   ("artifact.created", {"url": "https://e.example/f", "media_type": "text/csv"})],
     [Artifact((TextPart("x"),), name="n", artifact_id="1"),
      Artifact((TextPart("y"),), artifact_id="1", append=True), Artifact((DataPart({"k": 1}),)),
      Artifact((UrlPart("https://e.example/f", media_type="text/csv"),))]),
    ("what is the runtime's own", [(name, {"id": "x", "kind": "k"}) for name in (
        "run.started", "run.completed", "tool.call.begin", "tool.call.end", "approval.resolved",
        "checkpoint.created", "checkpoint.resumed", "usage.reported", "something.else")], []),
    ("a run that the runtime ends", [("run.canceled", {})], [Failed("The run was canceled.")]),
]  # fmt: skip


def telling(*told: Told) -> Scripts:
    async def script(_: Scripts, __: RunHandle) -> AsyncIterator[RuntimeEvent]:
        for name, data in told:
            yield RuntimeEvent(name, data)

    return Scripts(script)


async def events_of(run: Any) -> list[Event]:
    return [event async for event in run.events()]


@pytest.mark.parametrize(("told", "said"), [item[1:] for item in SAID], ids=[item[0] for item in SAID])
def test_what_a_run_tells_is_what_the_agent_says(told: list[Told], said: list[Event]) -> None:
    runner = RuntimeRunner(telling(*told), InMemoryA2AResumeStateStore())
    assert asyncio.run(events_of(runner.start(CALL))) == said


def test_a_run_is_started_with_what_is_known_of_its_message() -> None:
    runtime = telling()
    runner = RuntimeRunner(runtime, InMemoryA2AResumeStateStore())
    data = Call("m-2", "t-1", "c-1", (TextPart("see"), DataPart({"k": 1})), {"trace": "x"}, session_id="s-1")
    for call in (CALL, data):
        asyncio.run(events_of(runner.start(call)))
    text, parts = runtime.started
    assert (text.input, text.session_id) == ("hi", "s-1") and parts.input == data.parts
    assert parts.metadata == {"task_id": "t-1", "context_id": "c-1", "message_id": "m-2",
                              "message_metadata": {"trace": "x"}}  # fmt: skip


FAILURES: list[Told] = [
    ("run.failed", {"message": "it broke"}),
    ("text.delta", {}),
    ("checkpoint.created", {}),
]


@pytest.mark.parametrize("told", FAILURES, ids=str)
def test_what_goes_wrong_in_a_run_is_an_error(told: Told) -> None:
    runner = RuntimeRunner(telling(told), InMemoryA2AResumeStateStore())
    with pytest.raises((RunnerError, KeyError)):
        asyncio.run(events_of(runner.start(CALL)))


ANSWERS = [
    ({"question": "q?"}, Answer((TextPart("Paris"),)), "hitl_answer", "Paris"),
    ({"question": "q?", "kind": "free_text"}, Answer((TextPart("x"),)), "free_text", "x"),
    ({"kind": "tool_result"}, Answer((DataPart({"ok": True}),)), "tool_result", {"ok": True}),
]


@pytest.mark.parametrize(("asked", "answer", "kind", "data"), ANSWERS)
def test_an_answer_resumes_the_run_where_its_checkpoint_is(
    asked: dict[str, Any], answer: Answer, kind: str, data: Any
) -> None:
    async def script(runtime: Scripts, _: RunHandle) -> AsyncIterator[RuntimeEvent]:
        yield RuntimeEvent("run.interrupted", asked) if not runtime.resumed else RuntimeEvent("run.completed")

    runtime, states = Scripts(script), InMemoryA2AResumeStateStore()

    async def run() -> None:
        run = RuntimeRunner(runtime, states).start(CALL)
        (question,) = await events_of(run)
        assert question == InputRequired((TextPart(asked.get("question", "")),), state={"kept": True})
        await run.answer(answer)
        assert await events_of(run) == []

    asyncio.run(run())
    ((_, target, payload),) = runtime.resumed
    assert target == ResumeTarget("checkpoint", f"at-{runtime.secret}")
    assert (payload.kind, payload.data) == (kind, data) and not runtime.attached


def test_the_last_checkpoint_counts_where_the_runtime_names_no_other() -> None:
    async def script(runtime: Scripts, _: RunHandle) -> AsyncIterator[RuntimeEvent]:
        if runtime.started[0].input == "hi":
            yield RuntimeEvent("checkpoint.created", {"kind": "step", "id": "1"})
            yield RuntimeEvent("checkpoint.created", {"kind": "step", "id": "2"})
        yield RuntimeEvent("run.interrupted", {"question": "q?"})

    class Unnamed(Scripts):
        async def checkpoint(self, handle: RunHandle) -> ResumeTarget | None:
            return None

    async def run(call: Call) -> ResumeTarget:
        states = InMemoryA2AResumeStateStore()
        await events_of(RuntimeRunner(Unnamed(script), states).start(call))
        (state,) = states._states.values()
        return state.target

    assert asyncio.run(run(CALL)) == ResumeTarget("step", "2")
    with pytest.raises(RunnerError, match="where"):
        asyncio.run(run(Call("m", "t", "c", (TextPart("other"),))))


def test_only_a_state_of_its_own_is_restored() -> None:
    runner = RuntimeRunner(telling(), InMemoryA2AResumeStateStore())
    assert runner.restore(CALL, {"thread": "x"}) is None and runner.restore(CALL, {"kept": True}) is not None
