"""What passes between this server and a runtime that keeps agents, and the runtime itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from ksadk.a2a.runners.base import Part
from ksadk.a2a.stores.resume import A2AResumePayloadKind, ResumeTarget, RunHandle


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A run to be started. `input` is the text of the message, or its parts where it has others."""

    input: str | tuple[Part, ...]
    user_id: str
    session_id: str
    agent_id: str = ""
    model: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResumePayload:
    """What a run goes on with. The data of an approval_decision is `{"decision": "approve" or "reject"}`."""

    kind: A2AResumePayloadKind
    call_id: str | None
    data: Any


class CancelResult(StrEnum):
    """What became of a cancel."""

    INTERRUPTED_ACTIVE_TURN = "interrupted_active_turn"
    PENDING_CANCEL_RECORDED = "pending_cancel_recorded"
    NOT_RUNNING = "not_running"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """What a run tells, by name.

    text.delta, reasoning.delta: `delta`. text.completed, reasoning.completed: `text`, all of that message.
    artifact.created, artifact.updated: `artifact_id`, `name`, and `text`, `url` or `data`; `append`.
    approval.requested: `id`, `tool_name`, `summary`, `arguments`, `reason`, `call_id`.
    run.interrupted: `question`, `kind` (of the payload that it waits for), `call_id`.
    run.progress: `text`. run.failed: `message`, for the log. checkpoint.created: `kind` and `id`.
    Others are the runtime's own, and say nothing to callers.
    """

    name: str
    data: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class RuntimeAdapter(Protocol):
    """A runtime that keeps agents and runs them. What it raises fails the task."""

    async def start(self, request: StartRequest) -> RunHandle:
        """Begin a run."""

    def stream(self, handle: RunHandle) -> AsyncIterator[RuntimeEvent]:
        """What the run tells from here on, up to where it is interrupted or ends."""

    async def cancel(self, handle: RunHandle) -> CancelResult:
        """End a run."""

    async def resume(self, handle: RunHandle, target: ResumeTarget, payload: ResumePayload) -> RunHandle:
        """Go on with an interrupted run; gives the handle that it has then."""

    async def attach(self, handle: RunHandle) -> None:
        """Take up a run of an earlier process, before it is resumed or canceled."""

    async def checkpoint(self, handle: RunHandle) -> ResumeTarget | None:
        """Where an interrupted run goes on; None where the last checkpoint.created has said it."""

    async def close(self) -> None:
        """Release what the runtime holds."""
