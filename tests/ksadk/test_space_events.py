"""Events of a task, out of what agents say."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from a2a.types import StreamResponse
from google.protobuf.json_format import ParseDict
from space_wire import PERMIT, TASK, answer_bytes, request_bytes

from ksadk.a2a.client import Update
from ksadk.a2a.space.events import EventMaker, TaskEvent, rfc3339
from ksadk.a2a.space.fields import InvalidPayload

NOW = datetime(2026, 11, 30, 8, 0, 1, 200_000, tzinfo=UTC)
IDS = {"taskId": "remote-task-1", "contextId": "remote-context-1"}


def update(document: dict[str, Any]) -> Update:
    return Update(document, ParseDict(document, StreamResponse()))


def made(*documents: dict[str, Any]) -> list[TaskEvent]:
    maker = EventMaker(TASK, PERMIT, clock=lambda: NOW)
    return [event for document in documents for event in maker.take(update(document))]


def streamed() -> list[dict[str, Any]]:
    """The items of hosted_subscribe.response.http."""
    lines = answer_bytes("hosted_subscribe").partition(b"\r\n\r\n")[2].decode().split("\n")
    return [json.loads(line[6:])["result"] for line in lines if line.startswith("data: ")]


def status(state: str, timestamp: str | None = None) -> dict[str, Any]:
    return {"state": f"TASK_STATE_{state}"} | ({"timestamp": timestamp} if timestamp else {})


def test_the_events_of_a_stream_are_those_that_were_written_down() -> None:
    body = json.loads(request_bytes("append_events").partition(b"\r\n\r\n")[2])
    assert [event.to_payload() for event in made(*streamed())] == body["Events"]


def test_an_events_id_is_the_hash_of_where_it_came_from() -> None:
    permit = hashlib.sha256(PERMIT.encode()).hexdigest()
    wanted = [f"{TASK}:{permit}:{position}:0:{kind}" for position, kind in enumerate(["status", "artifact"])]
    events = made(*streamed())
    assert [event.source_event_id for event in events[:2]] == [
        hashlib.sha256(text.encode()).hexdigest() for text in wanted
    ]
    assert [event.source_event_id for event in made(*streamed())] == [
        event.source_event_id for event in events
    ]


def test_another_permit_makes_other_events() -> None:
    item = update(streamed()[0])
    first, second = (EventMaker(TASK, permit).take(item)[0].source_event_id for permit in ("a", "b"))
    assert first != second


def test_a_task_is_its_status_and_then_each_artifact() -> None:
    artifacts = [{"artifactId": name, "parts": [{"text": name}]} for name in ("a", "b")]
    task = {"id": "t", "contextId": "c", "status": status("WORKING"), "artifacts": artifacts}
    events = made({"task": task})
    assert [(event.kind, event.status) for event in events] == [
        ("status", "working"), ("artifact", None), ("artifact", None)
    ]  # fmt: skip
    assert [event.payload for event in events[1:]] == [
        {"Artifact": artifact, "Append": False, "LastChunk": True} for artifact in artifacts
    ]
    assert len({event.source_event_id for event in events}) == 3
    assert "Status" not in events[1].to_payload()


@pytest.mark.parametrize(("append", "last"), [(True, False), (True, True), (False, False)])
def test_an_artifact_update_says_whether_it_appends_and_is_the_last(append: bool, last: bool) -> None:
    artifact = {"artifactId": "a", "parts": [{"text": "x"}]}
    (event,) = made({"artifactUpdate": {**IDS, "artifact": artifact, "append": append, "lastChunk": last}})
    assert event.payload == {"Artifact": artifact, "Append": append, "LastChunk": last}
    assert (event.kind, event.occurred_at) == ("artifact", "2026-11-30T08:00:01.200Z")


def test_a_message_is_a_message_and_then_the_end() -> None:
    message = {"messageId": "a-9", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}
    said, completed = made({"message": message})
    assert (said.kind, said.payload, said.status) == ("message", message, None)
    assert (completed.kind, completed.payload, completed.status) == (
        "status", {"state": "TASK_STATE_COMPLETED"}, "completed"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "word"),
    [("SUBMITTED", "submitted"), ("INPUT_REQUIRED", "input_required"), ("AUTH_REQUIRED", "auth_required")],
)
def test_a_state_is_written_in_lower_case(state: str, word: str) -> None:
    (event,) = made({"statusUpdate": {**IDS, "status": status(state)}})
    assert event.status == word


@pytest.mark.parametrize(
    ("timestamp", "occurred_at"),
    [
        ("2026-11-30T08:00:00Z", "2026-11-30T08:00:00Z"),
        ("2026-11-30T16:00:00.5+08:00", "2026-11-30T08:00:00.500Z"),
        (None, "2026-11-30T08:00:01.200Z"),
    ],
)
def test_it_occurred_when_the_agent_says_else_now(timestamp: str | None, occurred_at: str) -> None:
    (event,) = made({"statusUpdate": {**IDS, "status": status("WORKING", timestamp)}})
    assert event.occurred_at == occurred_at


def test_times_are_written_in_utc_with_a_z() -> None:
    china = timezone(timedelta(hours=8))
    assert rfc3339(datetime(2026, 11, 30, 16, 0, tzinfo=china)) == "2026-11-30T08:00:00.000Z"


def test_an_event_is_read_as_it_was_written() -> None:
    for event in made(*streamed()):
        assert TaskEvent.from_payload(json.loads(json.dumps(event.to_payload()))) == event


@pytest.mark.parametrize(
    "payload",
    [
        None, [], {}, {"SourceEventId": "a", "EventKind": "other", "Payload": {}, "OccurredAt": "x"},
        {"SourceEventId": "a", "EventKind": "status", "Payload": [], "OccurredAt": "x"},
        {"SourceEventId": 1, "EventKind": "status", "Payload": {}, "OccurredAt": "x"},
        {"SourceEventId": "a", "EventKind": "status", "Payload": {}, "OccurredAt": "x", "Status": 1},
    ],
)  # fmt: skip
def test_what_is_no_event_is_refused(payload: Any) -> None:
    with pytest.raises(InvalidPayload):
        TaskEvent.from_payload(payload)
