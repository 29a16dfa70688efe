"""Graphs of LangGraph as agents: those of `create_agent` and DeepAgents too.

What is said in a context is a thread of the graph. A graph without a checkpointer keeps its threads in
memory, as `langgraph dev` does; with one it pauses over a restart of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.graph.state import StateGraph
from langgraph.types import Command, Interrupt, StateSnapshot, interrupt

from ksadk.a2a.runners.base import (
    Answer,
    Call,
    DataPart,
    Event,
    InputRequired,
    Pause,
    Run,
    RunnerError,
    Status,
    Text,
    TextPart,
    text_of,
)
from ksadk.a2a.runners.conversations import Conversations
from ksadk.a2a.runners.graph_tools import remember_tool_calls
from ksadk.a2a.runners.graph_values import GraphShape
from ksadk.a2a.runners.journal import Journal
from ksadk.a2a.runners.langchain import chunk_events
from ksadk.a2a.runners.sync_saver import usable_saver
from ksadk.a2a.runners.task_run import TaskRun
from ksadk.a2a.runners.values import events_of, question_parts, stream_event

APPROVAL = "ksadk_approval_request"
"""In the value of an interrupt: the request for approval that it stands for."""


class LangGraphRunner:
    """Runs a graph: compiled, a `StateGraph`, or what makes one (a function, also asynchronous or an
    asynchronous context manager, that takes nothing or a configuration)."""

    output_modes: tuple[str, ...] = ("text/plain", "application/json")
    messages = False

    def __init__(self, graph: Any) -> None:
        self._given = graph
        self._graph: Any = None
        self._shape: GraphShape | None = None
        self._opening = asyncio.Lock()
        self._held = AsyncExitStack()
        self.threads = Conversations(self._forget)
        self.durable = False
        self.input_modes: tuple[str, ...] = ("text/plain",)
        if not inspect.isroutine(graph):
            self._shape = GraphShape(graph if not isinstance(graph, StateGraph) else graph.compile())
            self.input_modes = self._shape.input_modes

    def start(self, call: Call) -> Run:
        """See `Runner`."""
        return _GraphRun(call, self)

    def restore(self, call: Call, state: Mapping[str, Any]) -> Run | None:
        """See `Runner`."""
        return _GraphRun(call, self, state)

    async def aclose(self) -> None:
        """See `Runner`."""
        await self._held.aclose()

    async def graph(self) -> tuple[Any, GraphShape]:
        """The graph, opened when it is first asked for."""
        async with self._opening:
            if self._graph is None:
                self._graph = await self._open()
                self._shape = GraphShape(self._graph)
        assert self._shape is not None
        return self._graph, self._shape

    async def _forget(self, session: str) -> None:
        if not self.durable:
            await self._graph.checkpointer.adelete_thread(session)

    async def _open(self) -> Any:
        graph = self._given
        if inspect.isroutine(graph):
            graph = graph({}) if inspect.signature(graph).parameters else graph()
            if isinstance(graph, contextlib.AbstractAsyncContextManager):
                graph = await self._held.enter_async_context(graph)
            elif inspect.isawaitable(graph):
                graph = await graph
        if isinstance(graph, StateGraph):
            graph = graph.compile()
        if not hasattr(graph, "astream") or not hasattr(graph, "checkpointer"):
            raise RunnerError(f"{type(graph).__name__} is no graph of LangGraph")
        saver = graph.checkpointer if graph.checkpointer not in (None, True, False) else InMemorySaver()
        self.durable = not isinstance(saver, InMemorySaver)
        remember_tool_calls(graph)
        return graph.copy(update={"checkpointer": await usable_saver(saver)})


class _GraphRun(TaskRun):
    """A part of the work is from one interrupt to the next; a step that was interrupted is run again."""

    journal: Journal

    def __init__(self, call: Call, runner: LangGraphRunner, state: Mapping[str, Any] | None = None) -> None:
        super().__init__(call)
        kept = state or {}
        self._runner = runner
        self._started = state is not None
        self._pending: list[dict[str, Any]] = list(kept.get("pending", ()))
        self._answers: dict[str, Any] = dict(kept.get("answers", {}))
        self._checkpoint: str = kept.get("checkpoint", "")
        self.journal = Journal(_step, kept.get("journal"))
        self._first_input: Any = None
        self._said = self._said_custom = ""
        self._config = RunnableConfig(configurable={"thread_id": call.session})

    async def _work(self) -> InputRequired | None:
        if self._pending:  # several questions were asked at once
            return self._question()
        graph, shape = await self._runner.graph()
        async with self._runner.threads.turn(self.call) as refused:
            if refused is not None:
                await self.emit(refused)
                return None
            given, config = await self._input(graph, shape)
            await self._stream(graph, given, config)
            state = await graph.aget_state(self._config)
            if not state.interrupts:
                for event in shape.result_of(state.values, self._first_input, self._said):
                    await self._tell(event)
                return None
            self._runner.threads.wait(self.call)
            self._pause_at(state)
        return self._question()

    async def cancel(self) -> None:
        """See `Run`."""
        try:
            await super().cancel()
        finally:
            self._runner.threads.leave(self.call)

    def _take(self, answer: Answer) -> None:
        asked = self._pending.pop(0)
        if asked["approval"] is None:
            self._answers[asked["id"]] = answer.value

    def _pause(self) -> Pause:
        return _pause

    async def _input(self, graph: Any, shape: GraphShape) -> tuple[Any, RunnableConfig]:
        """What the graph is given, and where in its thread."""
        state = await graph.aget_state(self._config)
        if not self._started:
            self._started = True
            self._first_input = shape.input_of(self.call)
            return self._first_input, await self._last_finished(graph) if state.next else self._config
        if _checkpoint(state) != self._checkpoint:
            raise RunnerError("the thread of this task went on without it, so it cannot be taken up again")
        self.journal.run_again()
        answers, self._answers = self._answers, {}
        return (Command(resume=answers) if answers else None), self._config

    async def _last_finished(self, graph: Any) -> RunnableConfig:
        """Where the thread was before a task that was canceled or failed in it. What that left there, such as
        a model's call of a tool that has no result, would be refused by models."""
        async for state in graph.aget_state_history(self._config):
            if not state.next:
                return RunnableConfig(configurable=state.config["configurable"])
        await graph.checkpointer.adelete_thread(self.call.session)
        return self._config

    async def _stream(self, graph: Any, given: Any, config: RunnableConfig) -> None:
        stream = graph.astream(given, config, stream_mode=["messages", "custom"])
        async with contextlib.aclosing(stream) as chunks:
            async for mode, chunk in chunks:
                for event in self._custom(chunk) if mode == "custom" else self._message(chunk[0]):
                    await self._tell(event)

    async def _tell(self, event: Event) -> None:
        if isinstance(event, Text):
            self._said = event.text if event.replace else self._said + event.text
        await self.emit(event)

    def _message(self, message: Any) -> list[Event]:
        """What a message says; one that repeats what its node has written to the stream says nothing."""
        if not isinstance(message, AIMessage):
            return []
        if not isinstance(message, AIMessageChunk):
            written, self._said_custom = self._said_custom, ""
            if written.strip() == message.text.strip():
                return []
        return list(chunk_events(message))

    def _custom(self, chunk: Any) -> list[Event]:
        """What a node has written to the stream: text and thinking as our helper writes them, or events. A
        plain text is about what the agent does; other values are the author's own."""
        if isinstance(chunk, str):
            return [Status(chunk)]
        event = stream_event(chunk)
        if isinstance(event, Text):
            self._said_custom = event.text if event.replace else self._said_custom + event.text
        if event is not None:
            return [event]
        return [] if isinstance(chunk, (Mapping, list, int, float)) else list(events_of(chunk))

    def _pause_at(self, state: StateSnapshot) -> None:
        self._checkpoint = _checkpoint(state)
        self.journal.keep(task.id for task in state.tasks)
        self._pending = []
        for item in state.interrupts:
            approval = item.value.get(APPROVAL) if isinstance(item.value, Mapping) else None
            if isinstance(approval, Mapping) and self.journal.asked(str(approval.get("id"))):
                asked = {"approval": approval, "question": item.value.get("question", "")}
            else:
                asked = {"approval": None, "question": item.value}
            parts = [
                part.text if isinstance(part, TextPart) else {"data": part.data}
                for part in question_parts(asked["question"])
                if isinstance(part, (TextPart, DataPart))
            ]
            self._pending.append({"id": item.id, "approval": asked["approval"], "question": parts})

    def _question(self) -> InputRequired:
        asked = self._pending[0]
        parts = tuple(
            TextPart(part) if isinstance(part, str) else DataPart(part["data"]) for part in asked["question"]
        )
        state = {
            "pending": self._pending, "answers": self._answers, "checkpoint": self._checkpoint,
            "journal": self.journal.to_json(),
        }  # fmt: skip
        return InputRequired(parts, asked["approval"], state if self._runner.durable else None)


def _pause(asked: InputRequired, /) -> Answer | None:
    """Interrupt the step that is running. For an approval it is run again without a value: what was decided
    is found by the call itself, and the values of the step's other interrupts keep their order."""
    try:
        get_config()
    except RuntimeError:  # not in a step
        return None
    words = text_of(asked.question)
    if asked.approval is None:
        data = [part.data for part in asked.question if isinstance(part, DataPart)]
        value = interrupt(data[0] if data else words)
        return Answer((TextPart(value) if isinstance(value, str) else DataPart(value),))
    value = {APPROVAL: dict(asked.approval), "question": words}
    raise GraphInterrupt((Interrupt(value, id=str(asked.approval["id"])),))


def _step() -> str:
    """The name of the step that is running: the same when it is run again."""
    try:
        return str(get_config()["configurable"].get("checkpoint_ns", ""))
    except RuntimeError:
        return ""


def _checkpoint(state: StateSnapshot) -> str:
    return str(state.config["configurable"].get("checkpoint_id", ""))
