"""Events of a task, as the platform keeps them, out of what an agent says over the wire."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from a2a.types import Artifact, Message, TaskState, TaskStatus
from google.protobuf.json_format import MessageToDict

from ksadk.a2a.client import Update
from ksadk.a2a.space.fields import object_of, one_of, text

EventKind = Literal["status", "artifact", "message"]

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def rfc3339(at: datetime) -> str:
    """A time as the platform writes it: UTC, to the millisecond, with a Z."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class TaskEvent:
    """Something that happened to a task.

    source_event_id: the same whenever it is made of the same item of the same call, and so
        stored once.
    payload: a TaskStatus or Message in proto-JSON, or `{Artifact, Append, LastChunk}`.
    occurred_at: RFC 3339, in UTC, with a Z.
    status: the task's state in lower case (`input_required`); None where the event tells of none.
    """

    source_event_id: str
    kind: EventKind
    payload: Mapping[str, Any]
    occurred_at: str
    status: str | None = None

    @classmethod
    def from_payload(cls, payload: Any) -> TaskEvent:
        """An item of `Events`. `InvalidPayload` where it is none."""
        item = object_of(payload, "an event")
        return cls(
            text(item, "SourceEventId"),
            one_of(item, "EventKind", EventKind),
            object_of(item.get("Payload"), "Payload"),
            text(item, "OccurredAt"),
            text(item, "Status", default="") or None,
        )

    def to_payload(self) -> dict[str, Any]:
        """The item of `Events`."""
        item: dict[str, Any] = {
            "SourceEventId": self.source_event_id,
            "EventKind": self.kind,
            "Payload": dict(self.payload),
            "OccurredAt": self.occurred_at,
        }
        return item if self.status is None else item | {"Status": self.status}


def source_event_id(
    task_id: str, permit_sha256: str, wire_position: int, ordinal: int, kind: EventKind
) -> str:
    """The id of an event: of the call of a permit, the item's number in it, and the event's in the item,
    both from 0."""
    source = f"{task_id}:{permit_sha256}:{wire_position}:{ordinal}:{kind}"
    return hashlib.sha256(source.encode()).hexdigest()


class EventMaker:
    """Makes the events of one prepared call, whose items are counted from 0 as they come over the wire."""

    def __init__(self, task_id: str, call_permit: str, *, clock: Clock = utc_now) -> None:
        self._task_id = task_id
        self._permit = hashlib.sha256(call_permit.encode()).hexdigest()
        self._clock = clock
        self._position = 0

    def take(self, update: Update) -> tuple[TaskEvent, ...]:
        """The events of the next item."""
        made = enumerate(self._of(update))
        events = tuple(
            TaskEvent(
                source_event_id(self._task_id, self._permit, self._position, ordinal, kind),
                kind,
                payload,
                occurred_at,
                status,
            )
            for ordinal, (kind, payload, occurred_at, status) in made
        )
        self._position += 1
        return events

    def _of(self, update: Update) -> Iterator[tuple[EventKind, dict[str, Any], str, str | None]]:
        now = rfc3339(self._clock())
        match update.kind:
            case "task":
                at = _time_of(update.value.task.status) or now
                yield "status", _json(update.value.task.status), at, state_of(update.value.task.status)
                for artifact in update.value.task.artifacts:
                    yield "artifact", _artifact(artifact, append=False, last_chunk=True), at, None
            case "status_update":
                status = update.value.status_update.status
                yield "status", _json(status), _time_of(status) or now, state_of(status)
            case "artifact_update":
                event = update.value.artifact_update
                payload = _artifact(event.artifact, append=event.append, last_chunk=event.last_chunk)
                yield "artifact", payload, now, None
            case "message":
                yield "message", _json(update.value.message), now, None
                completed = TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
                yield "status", _json(completed), now, state_of(completed)


def state_of(status: TaskStatus) -> str:
    """A task's state as the platform writes it: `working`, `input_required`."""
    try:
        name = TaskState.Name(status.state)
    except ValueError:  # of a later version of A2A
        return str(status.state)
    return name.removeprefix("TASK_STATE_").lower()


def _time_of(status: TaskStatus) -> str:
    return str(status.timestamp.ToJsonString()) if status.HasField("timestamp") else ""


def _artifact(artifact: Artifact, *, append: bool, last_chunk: bool) -> dict[str, Any]:
    return {"Artifact": _json(artifact), "Append": append, "LastChunk": last_chunk}


def _json(value: TaskStatus | Message | Artifact) -> dict[str, Any]:
    return MessageToDict(value)
