"""What an agent says, as the protocol's events of one task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal
from weakref import WeakSet

from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.types import a2a_pb2 as pb
from google.protobuf.struct_pb2 import Struct

from ksadk.a2a.parts import (
    ADK_METADATA,
    REASONING,
    SNAPSHOT_KEY,
    THOUGHT_KEY,
    agent_message,
    encodable,
    now,
    part_to_wire,
)
from ksadk.a2a.runners.base import (
    Artifact,
    AuthRequired,
    Completed,
    Event,
    Failed,
    Rejected,
    Reply,
    Status,
    Text,
    Thinking,
)

Kind = Literal["response", "reasoning"]

TERMINAL = frozenset(
    {pb.TASK_STATE_COMPLETED, pb.TASK_STATE_CANCELED, pb.TASK_STATE_FAILED, pb.TASK_STATE_REJECTED}
)

STREAMED = "ksadk.streamed"
"""In a call context's `state` where the caller sees each event: then a task is WORKING with the first thing
that its agent says, and right behind it, since that is what the caller waits for."""

WORKING_AFTER = 0.05
"""Seconds after which any other task that has only begun is WORKING, and what it has said so far is told.
Most answers are over before, nobody can have looked, and events are most of what an answer costs."""

HEAD_START = 4
"""How many turns of the event loop a chunk of a stream has to itself: the work on chunks that come right
behind it would delay it."""


@dataclass(slots=True)
class _Segment:
    """A run of text, or of reasoning, that is an artifact of its own."""

    kind: Kind
    artifact_id: str
    pieces: list[str] = field(default_factory=list)
    sent: int = 0
    """How many of the pieces were sent."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


_over: WeakSet[EventQueue] = WeakSet()
"""The queues through which a task's end has gone."""


class Output:
    """Sends the events of one task. Nothing is sent after a terminal state.

    Text and reasoning are sent as artifacts named `response` and `reasoning`, chunk by chunk and at once, but
    for the first moment of a task that nobody watches. Where one follows the other, or the task ends, the
    artifact is closed by a last chunk that repeats the whole of it: so it is kept as one part, and a reader
    of whole artifacts reads it once.
    """

    def __init__(self, queue: EventQueue, context: RequestContext, *, include_reasoning: bool) -> None:
        stored = context.current_task
        self._queue = queue
        self._task_id = context.task_id or ""
        self._context_id = context.context_id or ""
        self._message = None if stored else context.message
        self._include_reasoning = include_reasoning
        self._streamed = STREAMED in context.call_context.state
        self._working = False
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None
        self._open: _Segment | None = None
        self._closed: list[_Segment] = []
        self._ids = {artifact.artifact_id for artifact in (stored.artifacts if stored else ())}

    @property
    def ended(self) -> bool:
        """Whether the task is over, whichever message or cancel ended it: they have one queue."""
        return self._queue in _over

    async def submit(self) -> None:
        """The task itself, before anything else of it (3.1.2), unless it is there already."""
        message, self._message = self._message, None
        if message is None:
            return
        self._timer = asyncio.get_running_loop().call_later(WORKING_AFTER, self._still_going)
        status = pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED, timestamp=now())
        task = pb.Task(
            id=self._task_id,
            context_id=self._context_id,
            status=status,
            history=[message],
            metadata=ADK_METADATA,
        )
        await self._queue.enqueue_event(task)

    async def work(self) -> None:
        """The task is WORKING. One that was only submitted is so by itself before long."""
        if not self._working:
            self._stop_timer()
            self._working = True
            await self.status(pb.TASK_STATE_WORKING)

    def _still_going(self) -> None:
        self._telling = asyncio.ensure_future(self._catch_up())

    async def _catch_up(self) -> None:
        await self.work()
        await self._send_pieces()

    async def tell(self, event: Event) -> None:
        """Send what an event of the agent's says."""
        if not isinstance(event, Reply):
            await self.submit()
        match event:
            case Text():
                await self._chunk("response", event.text, event.replace)
            case Thinking():
                if self._include_reasoning:
                    await self._chunk(REASONING, event.text, event.replace)
            case Artifact(name=name) if name == REASONING and not self._include_reasoning:
                pass  # callers take it for reasoning
            case Artifact():
                await self._artifact(event)
            case Reply(parts) if self._message is not None:
                await self._reply(part_to_wire(part) for part in parts)
            case Reply(parts):  # there is a task already, so it is part of the answer
                await self._artifact(Artifact(parts, name="response"))
            case Status(text):
                self._stop_timer()
                self._working = True
                await self.status(pb.TASK_STATE_WORKING, text)
            case Completed(text):
                await self.end(pb.TASK_STATE_COMPLETED, text)
            case Failed(text):
                await self.end(pb.TASK_STATE_FAILED, text)
            case Rejected(text):
                await self.end(pb.TASK_STATE_REJECTED, text)
            case AuthRequired(text):
                await self.interrupt(pb.TASK_STATE_AUTH_REQUIRED, [pb.Part(text=encodable(text))])

    async def _reply(self, parts: Iterable[pb.Part]) -> None:
        """Answer with a message, and no task."""
        _over.add(self._queue)
        await self._queue.enqueue_event(agent_message(parts, context_id=self._context_id))

    async def interrupt(self, state: pb.TaskState, parts: Iterable[pb.Part]) -> None:
        """The task waits for its caller, who reads `parts`."""
        await self.submit()
        self._stop_timer()
        await self._close()
        self._working = False
        await self.status(state, parts=parts)

    async def end(self, state: pb.TaskState, text: str = "") -> None:
        """The task is over; `text` becomes its status message."""
        if self.ended:
            return
        await self.submit()
        self._stop_timer()
        await self._close()
        await self.status(state, text)

    async def status(self, state: pb.TaskState, text: str = "", parts: Iterable[pb.Part] = ()) -> None:
        """A status update, with a message where there is something to say."""
        if self.ended:
            return
        if state in TERMINAL:
            _over.add(self._queue)
        said = list(parts) or ([pb.Part(text=encodable(text))] if text else [])
        message = agent_message(said, context_id=self._context_id, task_id=self._task_id) if said else None
        await self._queue.enqueue_event(
            pb.TaskStatusUpdateEvent(
                task_id=self._task_id,
                context_id=self._context_id,
                status=pb.TaskStatus(state=state, timestamp=now(), message=message),
                metadata=ADK_METADATA,
            )
        )

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _chunk(self, kind: Kind, text: str, replace: bool) -> None:
        text = encodable(text)
        if not text and not replace:
            return
        if self._open is None or self._open.kind != kind:
            await self._close()
            self._open = _Segment(kind, self._new_id(kind))
        quiet = self._timer is not None and not self._streamed
        if replace:
            await self._empty_earlier(kind)
            self._open.pieces, self._open.sent = [text], 0 if quiet else 1
            if not quiet:
                await self._send(self._open, text, append=False, snapshot=True)
        else:
            self._open.pieces.append(text)
            if not quiet:
                await self._send_pieces()

    async def _send_pieces(self) -> None:
        """Send what was said since the last time."""
        segment = self._open
        if segment is not None and segment.sent < len(segment.pieces):
            sent, segment.sent = segment.sent, len(segment.pieces)
            await self._send(segment, "".join(segment.pieces[sent:]), append=sent > 0)

    async def _empty_earlier(self, kind: Kind) -> None:
        """A replacement is for all that was said, also before the other kind came in between."""
        for segment in self._closed:
            if segment.kind == kind and segment.pieces:
                segment.pieces = []
                await self._send(segment, "", append=False, last=True, snapshot=True)

    async def _close(self) -> None:
        segment, self._open = self._open, None
        if segment is not None:
            self._closed.append(segment)
            await self._send(segment, segment.text, append=False, last=True)

    async def _send(
        self, segment: _Segment, text: str, *, append: bool, last: bool = False, snapshot: bool = False
    ) -> None:
        metadata = Struct()
        if segment.kind == REASONING:
            metadata[THOUGHT_KEY] = True
        if snapshot:
            metadata[SNAPSHOT_KEY] = True
        part = pb.Part(text=text, metadata=metadata if metadata.fields else None)
        artifact = pb.Artifact(artifact_id=segment.artifact_id, name=segment.kind, parts=[part])
        await self._update(artifact, append=append, last=last)

    async def _artifact(self, given: Artifact) -> None:
        artifact_id = given.artifact_id or self._new_id("artifact")
        append = given.append and artifact_id in self._ids
        self._ids.add(artifact_id)
        artifact = pb.Artifact(
            artifact_id=artifact_id,
            name=given.name,
            description=given.description,
            parts=[part_to_wire(part) for part in given.parts],
        )
        await self._update(artifact, append=append, last=given.last)

    async def _update(self, artifact: pb.Artifact, *, append: bool, last: bool) -> None:
        if self.ended:
            return
        await self._queue.enqueue_event(
            pb.TaskArtifactUpdateEvent(
                task_id=self._task_id,
                context_id=self._context_id,
                artifact=artifact,
                append=append,
                last_chunk=last,
            )
        )
        if self._streamed:
            await self.work()
            for _ in range(HEAD_START):
                await asyncio.sleep(0)

    def _new_id(self, kind: str) -> str:
        number = 1
        while (found := f"{self._task_id}-{kind}" + (f"-{number}" if number > 1 else "")) in self._ids:
            number += 1
        self._ids.add(found)
        return found
