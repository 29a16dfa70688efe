"""What the stream helpers give of an agent's words: order, snapshots, replacement, and how a run ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from a2a.types import StreamResponse
from a2a_replay import CARD, fixture_bytes, replaying
from google.protobuf.json_format import ParseDict

from ksadk.a2a import (
    A2ARunError,
    stream_a2a_agent,
    stream_a2a_agent_events,
    stream_a2a_agent_to_writer,
)
from ksadk.a2a.client import Update
from ksadk.a2a.stream import Output

OUTPUT = "你好 \u2028🚀"


def update(document: dict[str, Any]) -> Update:
    return Update(document, ParseDict(document, StreamResponse()))


def artifact(
    text: str, artifact_id: str = "a", *, append: bool = False, name: str = "", **metadata: Any
) -> Update:
    made = {"artifactId": artifact_id, "name": name, "parts": [{"text": text, "metadata": metadata}]}
    return update({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": append, "artifact": made}})


def status(state: str, text: str = "") -> Update:
    said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}
    inner: dict[str, Any] = {"state": f"TASK_STATE_{state}"} | ({"message": said} if text else {})
    return update({"statusUpdate": {"taskId": "t", "contextId": "c", "status": inner}})


def task(*artifacts: tuple[str, str]) -> Update:
    made = [{"artifactId": name, "parts": [{"text": text}]} for name, text in artifacts]
    return update(
        {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}, "artifacts": made}}
    )


CASES: dict[str, tuple[list[Update], list[tuple[str, str, bool]]]] = {
    "chunks are given as they are": (
        [artifact("a"), artifact("b", append=True), artifact("b", append=True)],
        [("text", "a", False), ("text", "b", False), ("text", "b", False)],
    ),
    "a snapshot that goes on gives what is new": (
        [artifact("one"), artifact("one two"), artifact("one two")],
        [("text", "one", False), ("text", " two", False)],
    ),
    "a snapshot that does not go on replaces": (
        [artifact("one"), artifact("two")],
        [("text", "one", False), ("text", "two", True)],
    ),
    "an authoritative snapshot replaces": (
        [artifact("one"), artifact("one two", ksadk_output_snapshot=True)],
        [("text", "one", False), ("text", "one two", True)],
    ),
    "an authoritative snapshot that says the same is not said again": (
        [artifact("one"), artifact("one", ksadk_output_snapshot=True)],
        [("text", "one", False)],
    ),
    "an authoritative snapshot replaces other artifacts too": (
        [artifact("one"), artifact("two", "b"), artifact("three", "b", ksadk_output_snapshot=True)],
        [("text", "one", False), ("text", "two", False), ("text", "three", True)],
    ),
    "a changed artifact leaves the others": (
        [artifact("one"), artifact("two", "b"), artifact("2", "b")],
        [("text", "one", False), ("text", "two", False), ("text", "one2", True)],
    ),
    "thinking is told by name, by mark, and apart from text of the same artifact": (
        [
            artifact("x", "r", name="reasoning"),
            artifact("y", adk_thought=True),
            artifact("z"),
            artifact("n", adk_thought=False),
        ],
        [("thinking", "x", False), ("thinking", "y", False), ("text", "z", False), ("text", "n", True)],
    ),
    "the order in which an agent thinks and writes is kept": (
        [
            artifact("t1", "r", name="reasoning"),
            artifact("a"),
            artifact("t2", "r2", name="reasoning"),
            artifact("b", append=True),
        ],
        [("thinking", "t1", False), ("text", "a", False), ("thinking", "t2", False), ("text", "b", False)],
    ),
    "a task that comes again says nothing twice": (
        [artifact("one"), task(("a", "one")), artifact(" two", append=True), task(("a", "one two"))],
        [("text", "one", False), ("text", " two", False)],
    ),
    "status texts are no output": (
        [status("WORKING", "looking"), artifact("a"), status("COMPLETED", "done")],
        [("text", "a", False)],
    ),
    "the last word of a task without text is its output": (
        [status("COMPLETED", "Hello")],
        [("text", "Hello", False)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_output(case: str) -> None:
    updates, events = CASES[case]
    output = Output()
    found = [event for each in updates for event in output.take(each)]
    assert [(event["type"], event["delta"], event["replace"]) for event in found] == events
    for kind in ("text", "thinking"):
        whole = ""
        for event in found:
            if event["type"] == kind:
                whole = event["delta"] if event["replace"] else whole + event["delta"]
        assert whole == output.whole(kind)  # type: ignore[arg-type]


def events_of(url: str, **options: Any) -> list[Any]:
    async def run() -> list[Any]:
        return [event async for event in stream_a2a_agent_events(url, "hi", **options)]

    return asyncio.run(run())


@pytest.mark.parametrize("path", ["", "/.well-known/agent-card.json"])
def test_events_come_in_the_agents_order(path: str) -> None:
    with replaying({"SendStreamingMessage": "stream"}, piece=7) as server:
        assert events_of(server.url + path) == [
            {"type": "thinking", "delta": "hm", "replace": False},
            {"type": "text", "delta": "你好", "replace": False},
            {"type": "text", "delta": " \u2028🚀", "replace": False},
        ]


def test_the_text_helper_gives_text_alone() -> None:
    async def run(url: str) -> list[str]:
        return [delta async for delta in stream_a2a_agent(url, "hi")]

    with replaying({"SendStreamingMessage": "stream"}) as server:
        assert asyncio.run(run(server.url)) == ["你好", " \u2028🚀"]


def test_the_writer_gets_every_event_and_the_text_is_returned_without_thinking() -> None:
    got: list[Any] = []

    async def later(event: Any) -> None:
        got.append(event)

    with replaying({"SendStreamingMessage": "stream"}) as server:
        assert asyncio.run(stream_a2a_agent_to_writer(server.url, "hi", writer=got.append)) == OUTPUT
        assert [event["type"] for event in got] == ["thinking", "text", "text"]
        assert asyncio.run(stream_a2a_agent_to_writer(server.url, "hi", writer=later)) == OUTPUT
        assert len(got) == 6
        assert asyncio.run(stream_a2a_agent_to_writer(server.url, "hi")) == OUTPUT


def test_a_client_that_is_handed_in_is_used_and_stays_open() -> None:
    async def run(url: str) -> bool:
        async with httpx.AsyncClient(headers={"x-mine": "1"}) as client:
            await stream_a2a_agent_to_writer(url, "hi", httpx_client=client)
            return client.is_closed

    with replaying({"SendStreamingMessage": "stream"}) as server:
        assert asyncio.run(run(server.url)) is False
        assert {request.headers["x-mine"] for request in server.requests} == {"1"}


def test_a_direct_message_is_text() -> None:
    quiet = fixture_bytes("card").replace(b'"streaming": true', b'"streaming": false')
    with replaying({CARD: quiet, "SendMessage": "send_message"}) as server:
        assert [event["delta"] for event in events_of(server.url)] == ["Direct message response 你好 🚀"]


@pytest.mark.parametrize(
    ("answers", "code", "state", "text"),
    [
        ({"SendStreamingMessage": "stream_failed"}, "a2a_task_failed", "failed", "你好"),
        ({"SendStreamingMessage": "stream_error"}, "InternalError", "submitted", ""),
        (
            {"SendStreamingMessage": "stream_cut", "GetTask": "error_200"},
            "a2a_stream_cut",
            "submitted",
            "你好",
        ),
    ],
)
def test_a_run_that_does_not_end_well_raises_what_had_come(
    answers: dict[str, Any], code: str, state: str, text: str
) -> None:
    with replaying(answers) as server:
        with pytest.raises(A2ARunError) as caught:
            asyncio.run(stream_a2a_agent_to_writer(server.url, "hi"))
        error = caught.value
        assert (error.code, error.state, error.text) == (code, state, text)
        assert (error.task_id, error.context_id) == ("t-1", "c-1")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: data, "a2a_task_failed"),
        (lambda data: data.replace(b"_FAILED", b"_REJECTED"), "a2a_task_rejected"),
        (lambda data: data.replace(b"_FAILED", b"_CANCELED"), "a2a_task_canceled"),
        (lambda data: data.replace(b"_FAILED", b"_INPUT_REQUIRED"), "a2a_input_required"),
    ],
)
def test_each_bad_end_has_its_code_and_the_agents_reason(change: Callable[[bytes], bytes], code: str) -> None:
    with replaying({"SendStreamingMessage": change(fixture_bytes("stream_failed"))}) as server:
        with pytest.raises(A2ARunError, match="the model is gone") as caught:
            events_of(server.url)
        assert caught.value.code == code


def test_a_cut_stream_is_taken_up_and_nothing_is_said_twice() -> None:
    answers: dict[str, Any] = {
        "SendStreamingMessage": "stream_cut",
        "GetTask": "get_task_working",
        "SubscribeToTask": "stream_resumed",
    }
    with replaying(answers) as server:
        assert asyncio.run(stream_a2a_agent_to_writer(server.url, "hi")) == OUTPUT
        assert [event["replace"] for event in events_of(server.url)] == [False, False]
