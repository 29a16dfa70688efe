"""What the server does with an agent's runs: from the first event to the last, and what may be sent to it."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a_server import Scripted, ScriptedRun, Served, send_params, serving, until

from ksadk.a2a.options import Limits, ServerOptions
from ksadk.a2a.runners.base import (
    Artifact,
    AuthRequired,
    Call,
    Completed,
    DataPart,
    Failed,
    InputRequired,
    RawPart,
    Rejected,
    Reply,
    Status,
    Text,
    TextPart,
    Thinking,
    UrlPart,
)

ANYTHING = ("text/plain", "application/json", "*/*")


async def said(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
    """Says what the text of the message names."""
    match call.text:
        case "nothing":
            pass
        case "complete":
            yield Completed("the last word")
        case "fail":
            yield Failed("it is broken")
        case "reject":
            yield Rejected("not for me")
        case "raise":
            raise RuntimeError("s3cret of the agent")
        case "then raise":
            yield Text("so far")
            raise RuntimeError("s3cret of the agent")
        case "after the end":
            yield Completed("over")
            yield Text("more")
            yield Failed("no")
        case "sign in":
            yield AuthRequired("at https://example.com/login")
        case "status":
            yield Status("looking")
            yield Text("found")
        case "late reply":
            yield Status("looking")
            yield Reply((TextPart("found"),))
        case "replace":
            yield Text("dra")
            yield Text("ft")
            yield Text("final", replace=True)
        case "replace across":
            yield Text("one")
            yield Thinking("hm")
            yield Text("two", replace=True)
        case "stray bytes":
            yield Text("a\udcffb")
            yield Artifact((RawPart(b"\xff", "\udcff.bin"),), name="file")
            yield Completed("\ud800")
        case "infinite":
            yield Artifact((DataPart({"x": float("inf")}),))
        case "deep":
            yield Artifact((DataPart(json.loads('{"a":' * 40 + "1" + "}" * 40)),))
        case "turns":
            for word in ("a", "b"):
                yield Thinking(f"t{word}")
                yield Text(word)
        case "artifacts":
            yield Artifact((DataPart({"k": [1, None]}),), name="data", description="some")
            yield Artifact(
                (RawPart(b"\x00\xff", "a.bin", "application/x-a"),), artifact_id="file", last=False
            )
            yield Artifact((UrlPart("https://example.com/x", "x"),), artifact_id="file", append=True)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(Scripted(said)) as it:
        yield it


ENDS = [
    ("nothing", "COMPLETED", None),
    ("complete", "COMPLETED", "the last word"),
    ("fail", "FAILED", "it is broken"),
    ("reject", "REJECTED", "not for me"),
    ("raise", "FAILED", "The agent failed."),
    ("then raise", "FAILED", "The agent failed."),
    ("after the end", "COMPLETED", "over"),
    ("sign in", "AUTH_REQUIRED", "at https://example.com/login"),
    ("stray bytes", "COMPLETED", "?"),
    ("infinite", "FAILED", "The agent failed."),
    ("deep", "FAILED", "The agent failed."),
]


@pytest.mark.parametrize(("text", "state", "words"), ENDS, ids=[row[0] for row in ENDS])
def test_each_way_to_end_is_a_state_with_its_words(
    served: Served, text: str, state: str, words: str | None
) -> None:
    task = served.send(text)
    assert task["status"]["state"] == f"TASK_STATE_{state}"
    message = task["status"].get("message")
    assert (message["parts"][0]["text"] if message else None) == words
    assert served.get(task["id"])["status"] == task["status"]
    assert task["id"] in [listed["id"] for listed in served.rpc("ListTasks", {})["result"]["tasks"]]


def test_nothing_is_streamed_after_the_end(served: Served) -> None:
    events = list(served.stream("after the end"))
    assert [next(iter(event)) for event in events] == ["task", "statusUpdate"]


def test_an_exception_is_told_to_the_log_with_its_traceback_and_to_nobody_else(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "ksadk"):
        streamed = str(list(served.stream("raise"))) + str(served.send("then raise"))
    assert "s3cret" not in streamed and "RuntimeError" not in streamed
    assert caplog.text.count("RuntimeError: s3cret of the agent") == 2
    assert "Traceback" in caplog.text


def test_the_server_s_own_exceptions_are_not_shown_either(served: Served, monkeypatch: Any) -> None:
    async def broken(*_: Any) -> None:
        raise OSError("/var/lib/s3cret")

    monkeypatch.setattr(served.server._stores.tasks, "get", broken)
    body = served.rpc("GetTask", {"id": "x"})
    assert body["error"]["code"] == -32603 and "s3cret" not in str(body)
    response = served.http.get("/a2a/v1/tasks/x")
    assert response.status_code == 500 and "s3cret" not in response.text
    assert response.json()["error"]["status"] == "INTERNAL"


@pytest.mark.parametrize("messages", [False, True], ids=["tasks only", "messages too"])
def test_progress_and_then_a_string_is_an_answer(messages: bool) -> None:
    with serving(Scripted(said, messages=messages)) as served:
        task = served.send("late reply")
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["artifacts"][0]["parts"] == [{"text": "found"}]
        assert "looking" in str(task["history"])
        events = list(served.stream("late reply"))
    parts = [event["artifactUpdate"]["artifact"]["parts"] for event in events if "artifactUpdate" in event]
    assert parts[0] == [{"text": "found"}] and not any("message" in event for event in events)
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_replacement_replaces_what_was_said(served: Served) -> None:
    updates = [event["artifactUpdate"] for event in served.stream("replace") if "artifactUpdate" in event]
    snapshot = updates[2]
    assert not snapshot.get("append")
    assert snapshot["artifact"]["parts"] == [{"text": "final", "metadata": {"ksadk_output_snapshot": True}}]
    [artifact] = served.send("replace")["artifacts"]
    assert artifact["parts"] == [{"text": "final"}]


def test_a_replacement_replaces_what_was_said_before_the_thinking_too(served: Served) -> None:
    task = served.send("replace across")
    texts = [part["text"] for artifact in task["artifacts"] for part in artifact["parts"]]
    assert texts == ["", "hm", "two"]


def test_thinking_and_text_keep_their_order_as_segments(served: Served) -> None:
    task = served.send("turns")
    shown = [
        (item["artifactId"].removeprefix(task["id"]), item["parts"][0]["text"]) for item in task["artifacts"]
    ]
    assert shown == [("-reasoning", "ta"), ("-response", "a"), ("-reasoning-2", "tb"), ("-response-2", "b")]


def test_reasoning_can_be_kept_from_callers() -> None:
    with serving(Scripted(said), options=ServerOptions(include_reasoning=False)) as served:
        task = served.send("turns")
        assert "reasoning" not in str(task) and "adk_thought" not in str(task)
        assert [artifact["parts"] for artifact in task["artifacts"]] == [[{"text": "ab"}]]


def test_artifacts_of_every_kind(served: Served) -> None:
    data, file = served.send("artifacts")["artifacts"]
    assert data["parts"] == [{"data": {"k": [1, None]}}] and data["description"] == "some"
    assert file["artifactId"] == "file"
    assert file["parts"] == [
        {"raw": base64.b64encode(b"\x00\xff").decode(), "filename": "a.bin", "mediaType": "application/x-a"},
        {"url": "https://example.com/x", "filename": "x"},
    ]


def test_a_chunk_leaves_at_once_and_not_with_the_next() -> None:
    go = threading.Event()

    async def waits(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
        yield Text("A")
        await asyncio.to_thread(go.wait, 10)
        yield Text("B")

    with serving(Scripted(waits)) as served:
        stream = served.stream("x")
        for event in stream:
            if "artifactUpdate" in event:
                break
        assert not go.is_set() and event["artifactUpdate"]["artifact"]["parts"] == [{"text": "A"}]
        go.set()
        assert "'text': 'AB'" in str(list(stream))


def test_a_stream_says_that_the_task_is_at_work_right_behind_the_first_chunk(served: Served) -> None:
    events = list(served.stream("turns"))
    kinds = [next(iter(event)) for event in events]
    assert kinds == ["task", "artifactUpdate", "statusUpdate", *["artifactUpdate"] * 7, "statusUpdate"]
    assert events[2]["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"


def test_every_kind_of_part_reaches_the_agent() -> None:
    runner = Scripted(said, input_modes=ANYTHING)
    parts = [
        {"text": "nothing"},
        {"data": {"k": 1}},
        {"raw": base64.b64encode(b"%PDF").decode(), "filename": "a.pdf", "mediaType": "application/pdf"},
        {"url": "https://example.com/a.png", "mediaType": "image/png"},
    ]
    with serving(runner) as served:
        served.send(*parts, message={"metadata": {"m": 1}})
    [call] = runner.calls
    assert call.parts == (
        TextPart("nothing"),
        DataPart({"k": 1}),
        RawPart(b"%PDF", "a.pdf", "application/pdf"),
        UrlPart("https://example.com/a.png", "", "image/png"),
    )
    assert call.metadata == {"m": 1} and call.message_id == "m-1" and call.session.startswith("a2a-session-")


MODES = [
    (("text/plain",), {"data": {"k": 1}}, False),
    (("text/plain",), {"raw": "aGk="}, False),
    (("text/plain",), {"text": "x", "mediaType": "text/html"}, False),
    (("text/plain",), {"text": "x", "mediaType": "text/plain; charset=utf-8"}, True),
    (("image/*",), {"url": "https://x/a.png", "mediaType": "image/png"}, True),
    (("image/*",), {"text": "x"}, False),
    (("application/json",), {"data": None}, True),
]


@pytest.mark.parametrize(("modes", "part", "taken"), MODES, ids=str)
def test_a_mode_that_the_agent_does_not_take_is_an_error(
    modes: tuple[str, ...], part: dict[str, Any], taken: bool
) -> None:
    async def silent(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
        if not call.parts:
            yield Text("nothing came")

    runner = Scripted(silent, input_modes=modes)
    with serving(runner) as served:
        body = served.rpc("SendMessage", send_params(part))
        assert ("result" in body) is taken, body
        if not taken:
            assert body["error"]["code"] == -32005 and not runner.calls


def test_a_message_may_be_the_whole_answer_where_the_runner_says_so() -> None:
    async def answers(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
        if call.text == "message":
            yield Reply((TextPart("directly"),))
        else:
            yield Text("in a task")

    with serving(Scripted(answers, messages=True)) as served:
        message = served.send("message")
        assert message["parts"] == [{"text": "directly"}] and message["role"] == "ROLE_AGENT"
        assert "taskId" not in message
        assert [list(event) for event in served.stream("message")] == [["message"]]
        assert served.rpc("ListTasks", {})["result"]["tasks"] == []
        first, *_ = served.stream("other")
        assert first["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"


def test_a_silent_agent_is_soon_working() -> None:
    async def sleeps(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
        await asyncio.sleep(20)
        yield Text("never")

    with serving(Scripted(sleeps)) as served:
        begun = time.monotonic()
        task = served.send("x", configuration={"returnImmediately": True})
        assert time.monotonic() - begun < 15 and task["status"]["state"] == "TASK_STATE_SUBMITTED"
        until(lambda: served.get(task["id"])["status"]["state"] == "TASK_STATE_WORKING")


def test_the_same_message_id_again_is_another_task(served: Served) -> None:
    assert served.send("nothing")["id"] != served.send("nothing")["id"]


def test_a_context_goes_on_with_what_was_said_in_it() -> None:
    runner = Scripted(said)
    with serving(runner) as served:
        first = served.send("complete")
        served.send("turns", message={"contextId": first["contextId"]})
        served.send("nothing", message={"contextId": first["contextId"]})
    assert runner.calls[1].history == (("user", "complete"), ("agent", "the last word"))
    assert runner.calls[2].history[2:] == (("user", "turns"), ("agent", "a"), ("agent", "b"))
    assert runner.calls[0].session == runner.calls[1].session


def test_a_context_that_is_not_the_task_s_is_refused() -> None:
    with serving(Scripted(asks)) as served:
        task = served.send("x")
        body = served.rpc(
            "SendMessage", send_params("y", message={"taskId": task["id"], "contextId": "other"})
        )
        assert body["error"]["code"] == -32602


async def asks(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
    yield Text("before ")
    yield InputRequired((TextPart("which city?"),))
    yield Text(f"after {run.answered.value}")


def test_a_question_is_answered_by_any_text_in_the_context_of_its_task() -> None:
    with serving(Scripted(asks)) as served:
        task = served.send("x")
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert task["status"]["message"]["parts"] == [{"text": "which city?"}]
        answered = served.send("Paris", message={"taskId": task["id"], "messageId": "m-2"})
        assert answered["id"] == task["id"] and answered["contextId"] == task["contextId"]
        assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
        assert [artifact["parts"][0]["text"] for artifact in answered["artifacts"]] == [
            "before ",
            "after Paris",
        ]
        texts = [message["parts"][0]["text"] for message in answered["history"]]
        assert texts == ["x", "which city?", "Paris"]


def test_a_stream_that_answers_begins_with_the_task_at_work() -> None:
    with serving(Scripted(asks)) as served:
        task = served.send("x")
        first, second, *_, last = served.stream("Paris", message={"taskId": task["id"], "messageId": "m-2"})
        assert first["task"]["status"]["state"] == "TASK_STATE_WORKING"
        assert first["task"]["history"][-1]["parts"] == [{"text": "Paris"}]
        assert second["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"
        assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_task_that_is_over_takes_no_message(served: Served) -> None:
    task = served.send("nothing")
    body = served.rpc("SendMessage", send_params("x", message={"taskId": task["id"]}))
    assert body["error"]["code"] == -32004


def test_a_required_extension_must_be_known_to_the_client() -> None:
    with serving(Scripted(said)) as served:
        served.server._handler._required = frozenset({"https://example.com/ext"})
        assert served.rpc("SendMessage", send_params("nothing"))["error"]["code"] == -32008
        body = served.rpc(
            "SendMessage", send_params("nothing"), **{"A2A-Extensions": "https://example.com/ext"}
        )
        assert "result" in body


def test_a_subscriber_follows_a_task_from_where_it_is() -> None:
    go = threading.Event()

    async def waits(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
        yield Text("A")
        await asyncio.to_thread(go.wait, 10)
        yield Text("B")

    with serving(Scripted(waits)) as served:
        task = served.send("x", configuration={"returnImmediately": True})
        until(lambda: "artifacts" in served.get(task["id"]))
        with served.http.stream("GET", f"/a2a/v1/tasks/{task['id']}:subscribe") as response:
            lines = (line for line in response.iter_lines() if line.startswith("data:"))
            assert '"parts": [{"text": "A"}]' in next(lines)
            go.set()
            assert "TASK_STATE_COMPLETED" in list(lines)[-1]
        over = served.http.get(f"/a2a/v1/tasks/{task['id']}:subscribe")
        assert over.status_code == 400 and "UNSUPPORTED_OPERATION" in over.text


def test_more_tasks_than_it_takes_are_rejected_and_not_lost() -> None:
    go = threading.Event()

    async def waits(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
        await asyncio.to_thread(go.wait, 10)
        yield Text("done")

    with serving(Scripted(waits), options=ServerOptions(limits=Limits(running=1), grace=0.2)) as served:
        first = served.send("x", configuration={"returnImmediately": True})
        second = served.send("y")
        assert second["status"]["state"] == "TASK_STATE_REJECTED"
        go.set()
        until(lambda: served.get(first["id"])["status"]["state"] == "TASK_STATE_COMPLETED")
        assert served.send("z")["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_list_in_a_file_survives(tmp_path: Path) -> None:
    with serving(Scripted(said), "sqlite:///t.db", directory=tmp_path) as served:
        ids = {served.send("nothing")["id"] for _ in range(3)}
    with serving(Scripted(said), "sqlite:///t.db", directory=tmp_path) as served:
        assert {task["id"] for task in served.rpc("ListTasks", {})["result"]["tasks"]} == ids
