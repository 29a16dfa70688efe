"""Runs the agents of a runtime that keeps its runs itself.

Of a run that was interrupted, the handle and the place where it goes on are in the resume states of this
server, and in nothing that is sent to anybody.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from ksadk.a2a.runners.base import (
    Answer,
    Artifact,
    Call,
    DataPart,
    Event,
    Failed,
    InputRequired,
    Part,
    Run,
    RunnerError,
    Status,
    Text,
    TextPart,
    Thinking,
    UrlPart,
)
from ksadk.a2a.runners.runtime_types import (
    CancelResult,
    ResumePayload,
    RuntimeAdapter,
    RuntimeEvent,
    StartRequest,
)
from ksadk.a2a.runners.task_run import TaskRun
from ksadk.a2a.stores.resume import (
    A2AResumePayloadKind,
    A2AResumeState,
    A2AResumeStateStore,
    ResumeTarget,
    RunHandle,
)
from ksadk.runtime_context import get_current_invocation_context_or_default

PENDING_SECONDS = 2.0
"""How long a run whose end is only noted down may take to end, before the cancel is said to have failed."""

_DECISIONS = {"approved": "approve", "denied": "reject", "expired": "reject"}
_ASKING = ("approval.requested", "run.interrupted")
_SHOWN_OF_APPROVALS = ("id", "tool_name", "summary", "arguments", "reason")
_KEPT = {"kept": True}
"""The pause's state: that a resume state is kept, and nothing of it."""


class RuntimeRunner:
    """Runs the agent of a `RuntimeAdapter`, which it closes. `states` keeps what interrupted runs go on
    with."""

    messages = False

    def __init__(self, adapter: RuntimeAdapter, states: A2AResumeStateStore) -> None:
        self._adapter = adapter
        self._states = states
        self.input_modes: tuple[str, ...] = tuple(getattr(adapter, "input_modes", ("text/plain",)))
        self.output_modes: tuple[str, ...] = tuple(getattr(adapter, "output_modes", ("text/plain",)))

    def start(self, call: Call) -> Run:
        """See `Runner`."""
        return _RuntimeRun(call, self._adapter, self._states)

    def restore(self, call: Call, state: Mapping[str, Any]) -> Run | None:
        """See `Runner`."""
        return _RuntimeRun(call, self._adapter, self._states, restored=True) if state == _KEPT else None

    async def aclose(self) -> None:
        """See `Runner`."""
        await self._adapter.close()


class _RuntimeRun(TaskRun):
    def __init__(
        self, call: Call, adapter: RuntimeAdapter, states: A2AResumeStateStore, *, restored: bool = False
    ) -> None:
        super().__init__(call)
        self._adapter = adapter
        self._states = states
        self._key = json.dumps([call.session, call.task_id])
        self._restored = restored
        self._handle: RunHandle | None = None
        self._target: ResumeTarget | None = None
        self._answer: Answer | None = None
        self._said = _Said()

    def _take(self, answer: Answer) -> None:
        self._answer = answer

    async def cancel(self) -> None:
        """See `Run`."""
        if self._handle is not None:
            result = await self._adapter.cancel(self._handle)
            if result == CancelResult.FAILED:
                raise RunnerError("the runtime does not stop the run", code="not_cancelable")
            if result == CancelResult.PENDING_CANCEL_RECORDED and self._task is not None:
                _, going_on = await asyncio.wait({self._task}, timeout=PENDING_SECONDS)
                if going_on:
                    raise RunnerError("the run is to end, and has not ended yet", code="not_cancelable")
        await super().cancel()
        await self._states.delete(self._key)

    async def _work(self) -> InputRequired | None:
        answer, self._answer = self._answer, None
        self._handle = await (self._started() if answer is None else self._resumed(answer))
        async with aclosing(_closing(self._adapter.stream(self._handle))) as events:
            async for event in events:
                if event.name in _ASKING:
                    return await self._interrupted(event)
                if event.name == "checkpoint.created":
                    self._target = ResumeTarget(str(event.data["kind"]), str(event.data["id"]))
                elif (told := self._said.event_of(event)) is not None:
                    await self.emit(told)
        return None

    async def _started(self) -> RunHandle:
        call, invocation = self.call, get_current_invocation_context_or_default()
        only_text = all(isinstance(part, TextPart) for part in call.parts)
        return await self._adapter.start(
            StartRequest(
                call.text if only_text else call.parts,
                user_id=invocation.user_id,
                session_id=call.session,
                agent_id=invocation.agent_id,
                metadata={
                    "task_id": call.task_id, "context_id": call.context_id, "message_id": call.message_id,
                    "message_metadata": dict(call.metadata),
                },
            )
        )  # fmt: skip

    async def _resumed(self, answer: Answer) -> RunHandle:
        kept = await self._states.get(self._key)
        if kept is None:
            raise RunnerError("where the run goes on is not kept any more")
        if self._restored:
            await self._adapter.attach(kept.handle)
            self._restored = False
        data = answer.value if answer.decision is None else {"decision": _DECISIONS[answer.decision]}
        payload = ResumePayload(kept.payload_kind, kept.call_id, data)
        handle = await self._adapter.resume(kept.handle, kept.target, payload)
        await self._states.delete(self._key)
        return handle

    async def _interrupted(self, event: RuntimeEvent) -> InputRequired:
        assert self._handle is not None  # its stream has told this
        data = event.data
        target = await self._adapter.checkpoint(self._handle) or self._target
        if target is None:
            raise RunnerError("the runtime does not say where an interrupted run goes on")
        approval = event.name == "approval.requested"
        kind: A2AResumePayloadKind = "approval_decision" if approval else data.get("kind", "hitl_answer")
        state = A2AResumeState(self._handle, target, kind, data.get("call_id"))
        await self._states.put(self._key, state)  # first, so that no task waits for what is not kept
        if not approval:
            return InputRequired((TextPart(str(data.get("question") or "")),), state=_KEPT)
        request = {key: data[key] for key in _SHOWN_OF_APPROVALS if key in data}
        words = str(data.get("summary") or data.get("tool_name") or "A call needs approval.")
        return InputRequired((TextPart(words),), approval=request, state=_KEPT)


class _Said:
    """Turns what a run tells into what an agent says."""

    def __init__(self) -> None:
        self._before = ""
        self._message = ""
        self._thought = False

    def event_of(self, event: RuntimeEvent) -> Event | None:
        """What an event says to callers, if anything."""
        tell = _TELLING.get(event.name)
        return None if tell is None else tell(self, event.data)

    def _text(self, data: Mapping[str, Any]) -> Event:
        self._message += data["delta"]
        return Text(data["delta"])

    def _text_completed(self, data: Mapping[str, Any]) -> Event | None:
        """All of a message: it stands where the pieces of it were something else."""
        text, streamed, self._message = data["text"], self._message, ""
        self._before += text
        return None if text == streamed else Text(self._before, replace=True)

    def _thinking(self, data: Mapping[str, Any]) -> Event:
        self._thought = True
        return Thinking(data["delta"])

    def _thinking_completed(self, data: Mapping[str, Any]) -> Event | None:
        streamed, self._thought = self._thought, False
        return None if streamed else Thinking(data["text"])

    def _artifact(self, data: Mapping[str, Any]) -> Event:
        part: Part
        if "text" in data:
            part = TextPart(data["text"])
        elif "url" in data:
            part = UrlPart(data["url"], media_type=data.get("media_type", ""))
        else:
            part = DataPart(data.get("data"))
        return Artifact(
            (part,),
            name=data.get("name", ""),
            artifact_id=data.get("artifact_id", ""),
            append=data.get("append", False),
        )

    def _progress(self, data: Mapping[str, Any]) -> Event:
        return Status(data["text"])

    def _failed(self, data: Mapping[str, Any]) -> Event:
        raise RunnerError(f"the run failed: {data.get('message', 'the runtime does not say why')}")

    def _canceled(self, _: Mapping[str, Any]) -> Event:
        return Failed("The run was canceled.")


_TELLING: dict[str, Callable[[_Said, Mapping[str, Any]], Event | None]] = {
    "text.delta": _Said._text,
    "text.completed": _Said._text_completed,
    "reasoning.delta": _Said._thinking,
    "reasoning.completed": _Said._thinking_completed,
    "artifact.created": _Said._artifact,
    "artifact.updated": _Said._artifact,
    "run.progress": _Said._progress,
    "run.failed": _Said._failed,
    "run.canceled": _Said._canceled,
}


async def _closing(events: AsyncIterator[RuntimeEvent]) -> AsyncGenerator[RuntimeEvent]:
    """The events of any iterator, which is closed where it can be."""
    try:
        async for event in events:
            yield event
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
