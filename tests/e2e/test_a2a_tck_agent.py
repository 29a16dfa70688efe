"""The official SDK's client drives examples/tck_agent, served from the command line, over both bindings."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, create_client
from a2a.types import a2a_pb2 as pb
from a2a_process import EXAMPLES, serving
from google.protobuf.json_format import MessageToDict


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("tasks")
    dsn = f"sqlite:///{directory}/t.db"
    with serving(str(EXAMPLES / "tck_agent"), "--task-store-dsn", dsn, log=directory / "log") as it:
        yield it.url


def drive(url: str, binding: str, prefix: str, *, streaming: bool, **message: Any) -> list[dict[str, Any]]:
    """Send a message with an id of that prefix; the events that the SDK's client makes of what comes."""

    async def run() -> list[dict[str, Any]]:
        async with httpx.AsyncClient(timeout=20) as http:
            config = ClientConfig(
                httpx_client=http, supported_protocol_bindings=[binding], streaming=streaming
            )
            client = await create_client(url, config)
            sent = pb.Message(
                message_id=f"{prefix}-{uuid.uuid4()}",
                role=pb.ROLE_USER,
                parts=[pb.Part(text="any")],
                **message,
            )
            return [
                MessageToDict(item) async for item in client.send_message(pb.SendMessageRequest(message=sent))
            ]

    return asyncio.run(run())


def state(event: dict[str, Any]) -> str:
    holder = event.get("task") or event["statusUpdate"]
    return str(holder["status"]["state"]).removeprefix("TASK_STATE_")


ARTIFACTS = [
    ("tck-artifact-text", {"text": "Generated text content"}),
    (
        "tck-artifact-file",
        {"filename": "output.txt", "mediaType": "text/plain", "raw": "R2VuZXJhdGVkIGZpbGUgY29udGVudA=="},
    ),
    (
        "tck-artifact-file-url",
        {"filename": "output.txt", "mediaType": "text/plain", "url": "https://example.com/output.txt"},
    ),
    ("tck-artifact-data", {"data": {"key": "value", "count": 42}}),
]
BINDINGS = ["JSONRPC", "HTTP+JSON"]
both = pytest.mark.parametrize("binding", BINDINGS)
either = pytest.mark.parametrize("streaming", [False, True], ids=["send", "stream"])


@both
@either
@pytest.mark.parametrize(("prefix", "part"), ARTIFACTS, ids=[row[0] for row in ARTIFACTS])
def test_artifacts(url: str, binding: str, streaming: bool, prefix: str, part: dict[str, Any]) -> None:
    events = drive(url, binding, prefix, streaming=streaming)
    assert state(events[-1]) == "COMPLETED"
    artifacts = [event["artifactUpdate"]["artifact"] for event in events if "artifactUpdate" in event]
    artifacts = artifacts or events[-1]["task"]["artifacts"]
    assert [found["parts"] for found in artifacts] == [[part]]


@both
@either
def test_complete(url: str, binding: str, streaming: bool) -> None:
    last = drive(url, binding, "tck-complete-task", streaming=streaming)[-1]
    assert state(last) == "COMPLETED"
    told = (last.get("task") or last["statusUpdate"])["status"]["message"]
    assert told["parts"] == [{"text": "Hello from TCK"}]


@both
@either
def test_exactly_one_message_and_no_task(url: str, binding: str, streaming: bool) -> None:
    [event] = drive(url, binding, "tck-message-response", streaming=streaming)
    assert event["message"]["parts"] == [{"text": "Direct message response"}]


@both
def test_input_required_stays_open_and_is_answered(url: str, binding: str) -> None:
    asked = drive(url, binding, "tck-input-required", streaming=False)[-1]
    assert state(asked) == "INPUT_REQUIRED"
    answered = drive(url, binding, "tck-any", streaming=False, task_id=asked["task"]["id"])[-1]
    assert state(answered) == "COMPLETED"
    assert answered["task"]["id"] == asked["task"]["id"]


STREAMS = [
    ("tck-stream-001", ["task", "working", "artifact", "completed"]),
    ("tck-stream-002", ["task", "completed"]),
    ("tck-stream-003", ["task", "working", "artifact", "completed"]),
    ("tck-stream-ordering-001", ["task", "working", "artifact", "completed"]),
]


@both
@pytest.mark.parametrize(("prefix", "order"), STREAMS, ids=[row[0] for row in STREAMS])
def test_streams(url: str, binding: str, prefix: str, order: list[str]) -> None:
    events = drive(url, binding, prefix, streaming=True)
    words = {"task": "task", "artifactUpdate": "artifact"}
    shown = [words.get(next(iter(event))) or state(event).lower() for event in events]
    assert shown == order


@both
@either
def test_any_other_id_completes(url: str, binding: str, streaming: bool) -> None:
    assert state(drive(url, binding, "other", streaming=streaming)[-1]) == "COMPLETED"
