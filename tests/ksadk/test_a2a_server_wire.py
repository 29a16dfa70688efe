"""The bytes on the wire, against literals written from the specification."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a.server.context import ServerCallContext
from a2a.server.routes.common import ServerCallContextBuilder
from a2a_server import Scripted, ScriptedRun, Served, serving
from starlette.requests import Request

from ksadk.a2a.runners.base import Call, Text, Thinking

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "a2a"
UNARY = [
    case
    for name in ("jsonrpc", "rest")
    for case in json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))
]
STREAMS = json.loads((FIXTURES / "stream.json").read_text("utf-8"))

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def echo(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
    yield Text(call.text)


async def spell(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
    yield Thinking("so ")
    for character in call.text:
        yield Text(character)


@pytest.fixture(scope="module")
def echoing() -> Iterator[Served]:
    with serving(Scripted(echo)) as served:
        yield served


@pytest.fixture(scope="module")
def spelling() -> Iterator[Served]:
    with serving(Scripted(spell)) as served:
        yield served


def ask(served: Served, request: dict[str, Any]) -> Any:
    verb, path = request["line"].split()
    body = request.get("body", "").encode()
    # Exactly these headers: what the client would add of its own is taken away.
    sent = served.http.build_request(verb, path, content=body, headers=request["headers"])
    for name in ("a2a-version", "accept"):
        if name not in {given.lower() for given in request["headers"]}:
            sent.headers.pop(name, None)
    return served.http.send(sent, stream=True)


def fits(expected: Any, found: Any, names: dict[str, Any]) -> bool:
    """Whether a value is as expected; a word in angle brackets stands for one value wherever it occurs."""
    if expected == "<any>":
        return True
    if expected == "<time>":
        return bool(TIME.fullmatch(found))
    if isinstance(expected, str) and expected.startswith("<"):
        return bool(names.setdefault(expected, found) == found)
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and expected.keys() == found.keys()
            and all(fits(value, found[key], names) for key, value in expected.items())
        )
    if isinstance(expected, list):
        return len(expected) == len(found) and all(
            fits(one, other, names) for one, other in zip(expected, found, strict=True)
        )
    return bool(expected == found)


@pytest.mark.parametrize("case", UNARY, ids=lambda case: f"{case['request']['line']} {case['name']}")
def test_a_request_is_answered_as_the_specification_writes_it(echoing: Served, case: dict[str, Any]) -> None:
    response = ask(echoing, case["request"])
    response.read()
    expected = case["response"]
    assert response.status_code == expected["status"], response.text
    assert response.headers["content-type"].partition(";")[0] == expected["content_type"]
    assert fits(expected["body"], response.json(), {}), response.text


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case["name"])
def test_a_stream_is_frames_of_raw_utf_8_that_end_with_the_task(
    spelling: Served, case: dict[str, Any]
) -> None:
    response = ask(spelling, case["request"])
    assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
    raw = b"".join(response.iter_raw())
    assert "🚀".encode() in raw and b"\\ud83d" not in raw
    frames = [frame for frame in raw.replace(b"\r\n", b"\n").split(b"\n\n") if frame.startswith(b"data:")]
    documents = [json.loads(frame.removeprefix(b"data:")) for frame in frames]
    for document in documents:
        assert document.items() >= case["envelope"].items()
    events = [document[case["under"]] if case["under"] else document for document in documents]

    events = [event for event in events if "_WORKING" not in str(event)]  # it comes where it takes longer
    assert [next(iter(event)) for event in events] == [
        "task", *["artifactUpdate"] * (2 + 4 + 1), "statusUpdate",
    ]  # fmt: skip
    assert events[0]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    task = events[0]["task"]["id"]
    updates = [event["artifactUpdate"] for event in events[1:-1]]
    thought, closed = updates[:2]
    assert thought["artifact"] == {
        "artifactId": f"{task}-reasoning",
        "name": "reasoning",
        "parts": [{"text": "so ", "metadata": {"adk_thought": True}}],
    }
    assert closed["lastChunk"] and not closed.get("append")
    said = updates[2:-1]
    assert [update["artifact"]["parts"][0]["text"] for update in said] == list("你好 🚀")
    assert [update.get("append", False) for update in said] == [False, True, True, True]
    assert updates[-1]["artifact"]["parts"] == [{"text": "你好 🚀"}] and updates[-1]["lastChunk"]
    assert {update["artifact"]["artifactId"] for update in updates[2:]} == {f"{task}-response"}


class Failing(ServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        raise RuntimeError("SECRET")


def test_the_words_of_an_exception_are_no_answer_to_a_caller() -> None:
    with serving(Scripted(echo), contexts=Failing()) as served:
        for method in ("GetTask", "SubscribeToTask"):
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "x"}}
            answer = served.http.post("/a2a/jsonrpc", json=call)
            assert (answer.json()["error"]["code"], "SECRET" in answer.text) == (-32603, False)
        assert "SECRET" not in served.http.get("/a2a/v1/tasks/x").text
