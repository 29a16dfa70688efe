"""How tasks are canceled, stopped with their server, found again after a restart, and decided about."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a_server import Scripted, ScriptedRun, send_params, serving, until

from ksadk.a2a.callers import BearerFile
from ksadk.a2a.decisions import POLL_SECONDS
from ksadk.a2a.executor import LOST, STOPPED
from ksadk.a2a.options import ServerOptions
from ksadk.a2a.runners import task_run
from ksadk.a2a.runners.asking import ask
from ksadk.a2a.runners.base import Call, InputRequired, Text, TextPart
from ksadk.a2a.runners.callable import CallableRunner
from ksadk.errors import KsadkError

DSN = "sqlite:///t.db"
ASYNC = {"returnImmediately": True}


async def sleeps(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
    yield Text("begun")
    await asyncio.sleep(20)
    yield Text("never")


async def asks(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
    yield InputRequired((TextPart("which city?"),), state={"step": 1})
    yield Text(f"{run.answered.value}")


async def asks_slowly(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
    await asyncio.sleep(0.1)
    yield InputRequired((TextPart("which city?"),))
    await asyncio.sleep(0.1)
    yield Text(f"{run.answered.value}")


async def resumed(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
    yield Text(f"resumed with {run.answered.value}")


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What calls give that are made at the same time."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [made.result() for made in [pool.submit(call) for call in calls]]


def state_of(task: dict[str, Any]) -> str:
    state: str = task["status"]["state"]
    return state.removeprefix("TASK_STATE_")


@pytest.mark.parametrize("wait", [False, True], ids=["at once", "while it works"])
def test_a_cancel_stops_the_agent_and_says_so(wait: bool) -> None:
    with serving(Scripted(sleeps)) as served:
        task = served.send("x", configuration=ASYNC)
        if wait:
            until(lambda: "artifacts" in served.get(task["id"]))
        begun = time.monotonic()
        canceled = served.rpc("CancelTask", {"id": task["id"]})["result"]
        assert time.monotonic() - begun < 15
        assert state_of(canceled) == "CANCELED"
        assert state_of(served.get(task["id"])) == "CANCELED"
        again = served.rpc("CancelTask", {"id": task["id"]})
        assert again["error"]["code"] == -32002
        assert served.http.post(f"/a2a/v1/tasks/{task['id']}:cancel").status_code == 409


def test_a_cancel_at_once_of_an_agent_that_blocks_in_a_thread_says_what_became_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_run, "CANCEL_SECONDS", 0.2)
    go_on = threading.Event()

    def blocks(text: str) -> str:
        go_on.wait(30)
        return "too late"

    with serving(CallableRunner(blocks)) as served:
        task = served.send("x", configuration=ASYNC)
        said = served.rpc("CancelTask", {"id": task["id"]})
        assert said["error"]["code"] == -32002 if "error" in said else state_of(said["result"]) == "CANCELED"
        go_on.set()
        until(lambda: state_of(served.get(task["id"])) not in ("SUBMITTED", "WORKING"))
        assert state_of(served.get(task["id"])) == ("FAILED" if "error" in said else "CANCELED")
        assert "too late" not in str(served.get(task["id"]))


def test_a_blocking_call_and_a_stream_end_when_their_task_is_canceled() -> None:
    with serving(Scripted(sleeps)) as served:
        events: list[dict[str, Any]] = []
        reader = threading.Thread(target=lambda: events.extend(served.stream("x")))
        reader.start()
        until(lambda: served.rpc("ListTasks", {})["result"]["tasks"])
        [task] = served.rpc("ListTasks", {})["result"]["tasks"]
        until(lambda: "artifacts" in served.get(task["id"]))
        served.rpc("CancelTask", {"id": task["id"]})
        reader.join(15)
        assert not reader.is_alive()
        assert state_of(events[-1]["statusUpdate"]) == "CANCELED"
        assert events[-2]["artifactUpdate"]["lastChunk"]


def test_a_run_that_goes_on_all_the_same_is_not_said_to_be_canceled() -> None:
    async def short(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
        await asyncio.sleep(0.3)
        yield Text("done")

    with serving(Scripted(short, cancelable=False)) as served:
        task = served.send("x", configuration=ASYNC)
        time.sleep(0.05)
        error = served.rpc("CancelTask", {"id": task["id"]})["error"]
        assert (error["code"], error["message"]) == (-32002, "it does not look up")
        until(lambda: state_of(served.get(task["id"])) == "COMPLETED")


def test_a_task_that_asks_can_be_canceled() -> None:
    with serving(Scripted(asks)) as served:
        task = served.send("x")
        assert state_of(served.rpc("CancelTask", {"id": task["id"]})["result"]) == "CANCELED"
        body = served.rpc("SendMessage", send_params("Paris", message={"taskId": task["id"]}))
        assert body["error"]["code"] == -32004


def test_a_question_is_answered_once_however_many_answer_it() -> None:
    scripted = Scripted(asks_slowly)
    with serving(scripted) as served:
        task = served.send("x")
        answers = at_once(
            *(lambda: served.rpc("SendMessage", send_params("Oslo", message={"taskId": task["id"]})),) * 6
        )
        assert any("result" in answer for answer in answers)
        until(lambda: state_of(served.get(task["id"])) == "COMPLETED")
        ended = served.get(task["id"])
        time.sleep(0.2)
        assert served.get(task["id"]) == ended
        assert json.dumps(ended["artifacts"]).count("Oslo") == 1
        assert len(scripted.calls) == 1


def test_a_task_at_work_takes_no_message_that_would_answer_what_it_asks_later() -> None:
    with serving(Scripted(asks_slowly)) as served:
        task = served.send("x", configuration=ASYNC)
        early = served.rpc("SendMessage", send_params("yes", message={"taskId": task["id"]}))
        assert early["error"]["code"] == -32004
        until(lambda: state_of(served.get(task["id"])) == "INPUT_REQUIRED")
        assert state_of(served.send("Oslo", message={"taskId": task["id"]})) == "COMPLETED"


@pytest.mark.parametrize("attempt", range(4))
def test_a_cancel_and_an_answer_at_the_same_time_have_one_outcome(attempt: int) -> None:
    with serving(CallableRunner(lambda text: f"to {ask('which city?')}")) as served:
        task = served.send("x")
        canceled, answered = at_once(
            lambda: served.rpc("CancelTask", {"id": task["id"]}),
            lambda: (
                time.sleep(attempt / 1000),
                served.rpc("SendMessage", send_params("Oslo", message={"taskId": task["id"]})),
            )[1],
        )
        end = state_of(served.get(task["id"]))
        assert end in ("CANCELED", "COMPLETED")
        assert ("result" in canceled) == (end == "CANCELED")
        if "result" in answered:
            assert state_of(answered["result"]["task"]) == end
        time.sleep(0.1)
        assert state_of(served.get(task["id"])) == end


def test_after_a_restart_what_was_finished_is_read_and_what_asked_is_answered(tmp_path: Path) -> None:
    with serving(Scripted(asks), DSN, directory=tmp_path) as served:
        waiting = served.send("x")
        finished = served.send("y")
        finished = served.send("Rome", message={"taskId": finished["id"], "messageId": "m-2"})
        assert state_of(finished) == "COMPLETED"
    runner = Scripted(asks, resumed=resumed)
    with serving(runner, DSN, directory=tmp_path) as served:
        assert served.get(finished["id"]) == finished
        assert state_of(served.get(waiting["id"])) == "INPUT_REQUIRED"
        answered = served.send("Paris", message={"taskId": waiting["id"], "messageId": "m-2"})
        assert answered["contextId"] == waiting["contextId"]
        assert answered["artifacts"][0]["parts"] == [{"text": "resumed with Paris"}]
        assert runner.states == [{"step": 1}]


def test_what_cannot_go_on_after_a_restart_fails_with_a_reason(tmp_path: Path) -> None:
    async def forgets(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
        yield InputRequired((TextPart("?"),))

    with serving(Scripted(forgets), DSN, directory=tmp_path) as served:
        forgotten = served.send("x")
    with serving(Scripted(asks), DSN, directory=tmp_path) as served:
        told = served.get(forgotten["id"])["status"]
        assert (told["state"], told["message"]["parts"]) == ("TASK_STATE_FAILED", [{"text": LOST}])
        asked = served.send("x")
    with serving(Scripted(asks), DSN, directory=tmp_path) as served:  # whose runner restores nothing
        answered = served.send("Paris", message={"taskId": asked["id"], "messageId": "m-2"})
        assert state_of(answered) == "FAILED"
        assert answered["status"]["message"]["parts"] == [{"text": LOST}]


def test_state_to_go_on_from_is_shown_to_nobody(tmp_path: Path) -> None:
    with serving(Scripted(asks), DSN, directory=tmp_path) as served:
        events = [*served.stream("x"), served.rpc("ListTasks", {"includeArtifacts": True})]
        assert "step" not in json.dumps(events)


def test_a_server_that_stops_lets_agents_finish_within_its_grace(tmp_path: Path) -> None:
    async def short(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
        await asyncio.sleep(0.5)
        yield Text("done")

    with serving(Scripted(short), DSN, directory=tmp_path, grace=10) as served:
        task = served.send("x", configuration=ASYNC)
    with serving(Scripted(short), DSN, directory=tmp_path) as served:
        assert state_of(served.get(task["id"])) == "COMPLETED"


@pytest.mark.parametrize("cancelable", [True, False], ids=["stops", "goes on"])
def test_a_server_that_stops_ends_the_others_with_a_reason(tmp_path: Path, cancelable: bool) -> None:
    with serving(Scripted(sleeps, cancelable=cancelable), DSN, directory=tmp_path, grace=0.1) as served:
        task = served.send("x", configuration=ASYNC)
        until(lambda: "artifacts" in served.get(task["id"]))
    with serving(Scripted(sleeps), DSN, directory=tmp_path) as served:
        told = served.get(task["id"])["status"]
        assert (told["state"], told["message"]["parts"]) == ("TASK_STATE_FAILED", [{"text": STOPPED}])


class Decisions:
    """Approval requests, decided by hand."""

    def __init__(self) -> None:
        self.standing: dict[str, Any] = {}
        self.decided: list[tuple[str, bool, str]] = []

    @contextmanager
    def scope(self) -> Iterator[None]:
        yield

    def decision(self, request_id: str) -> Any:
        return self.standing.get(request_id, "pending")

    def decide(self, request_id: str, approve: bool, by: str) -> None:
        if request_id in self.standing:
            raise KsadkError("it was answered already", code="approval_decided")
        self.decided.append((request_id, approve, by))
        self.standing[request_id] = "approved" if approve else "denied"


REQUEST = {"id": "appr_1", "tool_name": "run_command", "arguments": {"command": "make"}}


async def needs_approval(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
    yield InputRequired((TextPart("May it run make?"),), approval=REQUEST, state={"step": 2})
    yield Text(f"{run.answered.decision} {run.answered.request_id}")


def decision_part(decision: str = "approve", request_id: str = "appr_1") -> dict[str, Any]:
    return {"data": {"kind": "approval_decision", "approval_request_id": request_id, "decision": decision}}


def test_an_approval_request_is_a_data_part_and_a_decision_at_the_machine_goes_on() -> None:
    decisions, told = Decisions(), []
    runner = Scripted(needs_approval)
    with serving(
        runner, approvals=decisions, on_approval=lambda paused: told.append(paused.request_id)
    ) as served:
        task = served.send("x")
        assert state_of(task) == "INPUT_REQUIRED"
        assert task["status"]["message"]["parts"] == [
            {"text": "May it run make?"},
            {"data": {"kind": "approval_request", "approval_request": REQUEST}},
        ]
        assert told == ["appr_1"]
        decisions.standing["appr_1"] = "approved"
        until(lambda: state_of(served.get(task["id"])) == "COMPLETED")
        done = served.get(task["id"])
        assert done["artifacts"][0]["parts"] == [{"text": "approved appr_1"}]
        assert [message["role"] for message in done["history"]] == ["ROLE_USER", "ROLE_AGENT"]


WORDS = ["yes", "approve", "approved appr_1", "y"]


@pytest.mark.parametrize("remote", [False, True], ids=["", "remote approvals"])
def test_no_text_and_no_unknown_caller_approves(remote: bool) -> None:
    decisions = Decisions()
    options = ServerOptions(remote_approvals=remote)
    runner = Scripted(needs_approval)
    with serving(runner, options=options, approvals=decisions) as served:
        task = served.send("x")
        for number, part in enumerate([*WORDS, decision_part()]):
            message = {"taskId": task["id"], "messageId": f"m-{number + 2}"}
            told = served.send(part, message=message)
            assert state_of(told) == "INPUT_REQUIRED"
            assert "agentengine approvals approve appr_1" in told["status"]["message"]["parts"][0]["text"]
            assert told["status"]["message"]["parts"][1]["data"]["approval_request"] == REQUEST
        assert not decisions.decided


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text("ann " + "a" * 32 + "\nbob " + "b" * 32 + "\n")
    return file


DECISIONS = [
    ("approve", "appr_1", "COMPLETED", [("appr_1", True, "ann, over A2A")]),
    ("reject", "appr_1", "COMPLETED", [("appr_1", False, "ann, over A2A")]),
    ("approve", "appr_other", "INPUT_REQUIRED", []),
    ("yes", "appr_1", "INPUT_REQUIRED", []),
]


@pytest.mark.parametrize(("decision", "request_id", "state", "decided"), DECISIONS, ids=str)
def test_a_known_caller_decides_by_data_where_remote_approvals_are_on(
    tokens: Path, decision: str, request_id: str, state: str, decided: Any
) -> None:
    decisions = Decisions()
    options = ServerOptions(remote_approvals=True, bearer=BearerFile(tokens))
    runner = Scripted(needs_approval)
    with serving(runner, options=options, approvals=decisions) as served:
        served.http.headers["Authorization"] = "Bearer " + "a" * 32
        task = served.send("x")
        message = {"taskId": task["id"], "messageId": "m-2"}
        told = served.send(decision_part(decision, request_id), message=message)
        assert state_of(told) == state
        assert decisions.decided == decided


def test_a_decision_of_a_caller_answers_nothing_else_when_the_server_learns_of_it(tokens: Path) -> None:
    async def then_asks(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
        async for event in needs_approval(call, run):
            yield event
        await asyncio.sleep(2 * POLL_SECONDS)  # it looks at the request meanwhile
        yield InputRequired((TextPart("which city?"),))
        yield Text(f"to {run.answered.text}")

    options = ServerOptions(remote_approvals=True, bearer=BearerFile(tokens))
    with serving(Scripted(then_asks), options=options, approvals=Decisions()) as served:
        served.http.headers["Authorization"] = "Bearer " + "a" * 32
        about = {"taskId": served.send("x")["id"]}
        told = served.send(decision_part(), message={**about, "messageId": "m-2"})
        assert told["status"]["message"]["parts"] == [{"text": "which city?"}]
        time.sleep(2 * POLL_SECONDS)
        assert served.get(told["id"])["status"] == told["status"]
        done = served.send("Oslo", message={**about, "messageId": "m-3"})
        assert done["artifacts"][-1]["parts"] == [{"text": "to Oslo"}]


def test_a_decision_after_a_restart_goes_on_too(tmp_path: Path) -> None:
    with serving(Scripted(needs_approval), DSN, directory=tmp_path, approvals=Decisions()) as served:
        task = served.send("x")

    async def after(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
        yield Text(f"{run.answered.decision} after a restart")

    decisions = Decisions()
    with serving(Scripted(asks, resumed=after), DSN, directory=tmp_path, approvals=decisions) as served:
        assert state_of(served.get(task["id"])) == "INPUT_REQUIRED"
        decisions.standing["appr_1"] = "denied"
        until(lambda: state_of(served.get(task["id"])) == "COMPLETED")
        assert served.get(task["id"])["artifacts"][0]["parts"] == [{"text": "denied after a restart"}]
