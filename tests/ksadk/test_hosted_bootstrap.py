"""A hosted runtime from its start to its end: what is made ready when, what outlives it, what nobody sees."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_server import send_params, until
from hosted_runtime import (
    ANN,
    BOB,
    RUNTIME,
    SECRET,
    Called,
    Gateway,
    Scripts,
    echoes,
    hosted,
    inbound_only,
    signed,
    travels,
    works_on,
)
from space_wire import AGENT, EXTERNAL, SPACE, platform, put_tokens
from starlette.applications import Starlette

from ksadk.a2a import A2ASpaceClient, AgentEngineA2ABootstrap, ResumeTarget
from ksadk.a2a.hosted.errors import BootstrapError
from ksadk.a2a.runners.runtime_types import CancelResult, RuntimeEvent
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox
from ksadk.a2a.stores.keeping import StoreError
from ksadk.a2a.stores.opening import build_a2a_task_store
from ksadk.a2a.stores.resume import RunHandle
from ksadk.settings import Settings


class Recorded:
    """A store whose initialisation is written down; everything else is the real store's."""

    def __init__(self, name: str, order: list[str], store: Any = None) -> None:
        self._name, self._order, self._store = name, order, store

    async def initialize(self) -> None:
        self._order.append(self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_the_stores_are_ready_in_their_order_then_the_dispatcher_and_then_traffic(tmp_path: Path) -> None:
    order: list[str] = []

    class Outbox(SQLiteA2AEventOutbox):
        async def initialize(self) -> None:
            order.append("dispatcher")
            await super().initialize()

    async def run() -> None:
        tokens = put_tokens(tmp_path / "tokens")
        with platform() as server:
            async with server.control_plane(tokens) as plane, httpx.AsyncClient() as http:
                outbox = Outbox(tmp_path / "outbox.db")
                bootstrap = inbound_only(
                    tmp_path,
                    task_store=Recorded("tasks", order, build_a2a_task_store()),
                    context_store=Recorded("contexts", order),
                    checkpoint_store=Recorded("checkpoints", order),
                    resume_state_store=Recorded("resume states", order),
                    control_plane=plane,
                    hosted_http_client=http,
                    event_outbox=outbox,
                    outbound_enabled=True,
                )
                app = Starlette(lifespan=bootstrap.lifespan)
                bootstrap.mount(app, Scripts(echoes))
                assert order == [] and not bootstrap.is_ready
                async with app.router.lifespan_context(app):
                    expected = ["tasks", "contexts", "checkpoints", "resume states", "dispatcher"]
                    assert order == expected and bootstrap.is_ready
                    await bootstrap.start()
                    assert order == expected
                assert not bootstrap.is_ready
                await outbox.aclose()

    asyncio.run(run())


def called_in_process(app: Starlette, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    async def run() -> tuple[int, dict[str, Any]]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://runtime") as http:
            response = await http.post("/a2a/v1/message:send", json=send_params("hi"), headers=headers)
            return response.status_code, response.json()

    return asyncio.run(run())


def test_no_traffic_is_taken_before_the_start_and_the_unverified_do_not_learn_that(tmp_path: Path) -> None:
    bootstrap = inbound_only(tmp_path)
    app, runtime = Starlette(), Scripts(echoes)
    bootstrap.mount(app, runtime)
    version = {"A2A-Version": "1.0"}
    assert called_in_process(app, version)[0] == 401
    status, body = called_in_process(app, {**version, **signed(ANN)})
    assert (status, body["error"]["status"]) == (503, "UNAVAILABLE")
    asyncio.run(bootstrap.stop())
    assert called_in_process(app, {**version, **signed(ANN)})[0] == 503
    assert not runtime.started and runtime.closed


MISUSES: list[tuple[Callable[[AgentEngineA2ABootstrap], Any], str]] = [
    (lambda made: made.mount(Starlette(), Scripts(echoes)), "A2A_BOOTSTRAP_INVALID"),
    (lambda made: made.client_for_space("space-demo"), "A2A_OUTBOUND_DISABLED"),
]


@pytest.mark.parametrize(("use", "code"), MISUSES)
def test_a_misuse_is_told(tmp_path: Path, use: Callable[[Any], Any], code: str) -> None:
    bootstrap = inbound_only(tmp_path)
    bootstrap.mount(Starlette(), Scripts(echoes))
    with pytest.raises(BootstrapError) as raised:
        use(bootstrap)
    assert raised.value.code == code

    async def late() -> None:
        await bootstrap.stop()
        with pytest.raises(BootstrapError, match="stopped"):
            await bootstrap.start()

    asyncio.run(late())


def test_a_runtime_that_cannot_be_made_ready_is_stopped_and_says_why(tmp_path: Path) -> None:
    class Broken:
        async def initialize(self) -> None:
            raise OSError("the disk is gone")

    runtime = Scripts(echoes)
    bootstrap = inbound_only(tmp_path, checkpoint_store=Broken())
    bootstrap.mount(Starlette(), runtime)
    with pytest.raises(OSError, match="the disk is gone"):
        asyncio.run(bootstrap.start())
    assert runtime.closed and not bootstrap.is_ready


NEEDED = ["task_store", "context_store", "resume_state_store", "gateway_identity_verifier",
          "gateway_probe_verifier"]  # fmt: skip


@pytest.mark.parametrize("name", NEEDED)
def test_what_inbound_needs_is_missed_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises(BootstrapError, match=name):
        inbound_only(tmp_path, **{name: None})


@pytest.mark.parametrize("name", ["control_plane", "hosted_http_client", "event_outbox"])
def test_what_outbound_needs_is_missed_at_once(tmp_path: Path, name: str) -> None:
    given = {"control_plane": object(), "hosted_http_client": object(), "event_outbox": object(), name: None}
    with pytest.raises(BootstrapError, match=name):
        inbound_only(tmp_path, outbound_enabled=True, **given)


def test_a_runtime_that_only_calls_needs_nothing_of_the_other_side_and_serves_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with httpx.AsyncClient() as http:
            with platform() as server:
                plane = server.control_plane(put_tokens(tmp_path / "tokens"))
                bootstrap = inbound_only(
                    tmp_path, inbound_enabled=False, outbound_enabled=True, control_plane=plane,
                    hosted_http_client=http, event_outbox=SQLiteA2AEventOutbox(tmp_path / "o.db"),
                    **dict.fromkeys(NEEDED),
                )  # fmt: skip
                with pytest.raises(BootstrapError) as raised:
                    bootstrap.mount(Starlette(), Scripts(echoes))
                assert raised.value.code == "A2A_INBOUND_DISABLED"
                await bootstrap.start()
                one = bootstrap.client_for_space("space-demo")
                assert one is bootstrap.client_for_space("space-demo") is not bootstrap.client_for_space("b")
                assert await bootstrap.stop()
                with pytest.raises(BootstrapError, match="stopped"):
                    bootstrap.client_for_space("space-demo")
                assert not http.is_closed
                await plane.aclose()

    asyncio.run(run())


WORKS: dict[str, Any] = {
    "PrepareA2ACall": "prepare_call",
    "BindA2ARemoteTask": "bind",
    "AppendA2ATaskEvents": "append_events",
    "SendMessage": "hosted_send",
}


def from_platform(url: str, tmp_path: Path, **given: Any) -> AgentEngineA2ABootstrap:
    settings = Settings(
        a2a_control_plane_url=url,
        a2a_token_dir=put_tokens(tmp_path / "tokens"),
        a2a_event_outbox_path=tmp_path / "outbox.db",
    )
    return AgentEngineA2ABootstrap.from_platform(
        runtime_metadata=RUNTIME,
        gateway_identity_verifier=Gateway(),
        gateway_probe_verifier=Gateway(),
        directory=tmp_path / "state",
        settings=settings,
        **given,
    )


def test_what_a_client_of_the_runtime_has_done_is_delivered_when_the_runtime_stops(tmp_path: Path) -> None:
    async def call(client: A2ASpaceClient) -> None:
        async with client:  # which closes nothing that others use
            task = await client.send_message(AGENT, "hi", idempotency_token="t-1")
            assert task.task_id

    async def run(url: str) -> bool:
        bootstrap = from_platform(url, tmp_path)
        async with bootstrap.lifespan(None):
            await call(bootstrap.client_for_space(SPACE))
            await call(bootstrap.client_for_space(SPACE))
        return await bootstrap.stop()

    with platform(**WORKS) as server:
        assert asyncio.run(run(server.url))
        assert "AppendA2ATaskEvents" in server.operations()
        asked = [each for each in server.requests if each.operation == "AppendA2ATaskEvents"]
        assert len({each.json["Events"][0]["SourceEventId"] for each in asked}) == 1


def test_what_could_not_be_delivered_is_told_and_sent_by_the_next_runtime(tmp_path: Path) -> None:
    unavailable = {**WORKS, "AppendA2ATaskEvents": "error_503_html"}

    async def run(url: str, *, calls: bool) -> bool:
        bootstrap = from_platform(url, tmp_path, inbound_enabled=False)
        await bootstrap.start()
        if calls:
            await bootstrap.client_for_space(SPACE).send_message(AGENT, "hi")
        delivered = await bootstrap.stop(flush_timeout_seconds=0.2 if calls else 60.0)
        assert await bootstrap.stop() is delivered  # to whoever asks again, too
        return delivered

    with platform(**unavailable) as server:
        assert not asyncio.run(run(server.url, calls=True))
    with platform(**WORKS) as server:
        assert asyncio.run(run(server.url, calls=False))
        assert server.operations() == ["AppendA2ATaskEvents"]


def test_one_runtime_at_a_time_has_a_file_of_tasks(tmp_path: Path) -> None:
    async def run() -> None:
        bootstrap = from_platform("http://127.0.0.1:9", tmp_path)
        with pytest.raises(StoreError) as raised:
            from_platform("http://127.0.0.1:9", tmp_path)
        assert raised.value.code == "task_store_in_use"
        await bootstrap.stop()
        await from_platform("http://127.0.0.1:9", tmp_path).stop()

    asyncio.run(run())
    assert {file.stat().st_mode & 0o77 for file in (tmp_path / "state").iterdir()} == {0}


def test_public_agents_are_called_only_where_the_platform_says_so(tmp_path: Path) -> None:
    external = {**WORKS, "PrepareA2ACall": "prepare_call_external"}

    async def run(url: str) -> str:
        bootstrap = from_platform(url, tmp_path, inbound_enabled=False)
        await bootstrap.start()
        try:
            await bootstrap.client_for_space(SPACE).send_message(EXTERNAL, "hi")
        except PermissionError as error:
            return str(getattr(error, "code", ""))
        finally:
            await bootstrap.stop()
        return "called"

    with platform(**external) as server:
        assert asyncio.run(run(server.url)) == "A2A_PUBLIC_EGRESS_DISABLED"
        assert server.operations() == ["PrepareA2ACall"]


def everything(called: Called, task: str) -> None:
    """Ask for the task in every way there is."""
    mine = {"A2A-Version": "1.0", "Content-Type": "application/json", **signed(ANN)}
    for method in ("GetTask", "ListTasks"):
        params = {"id": task} if method != "ListTasks" else {"includeArtifacts": True, "historyLength": 50}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        called.request("POST", "/a2a/jsonrpc", mine, body)
    subscription = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task}}
    with httpx.stream("POST", f"{called.base}/a2a/jsonrpc", json=subscription, headers=mine) as answer:
        called.seen.append(next(answer.iter_bytes()))  # of a task that waits it goes on, with nothing in it
    for path in (f"tasks/{task}", "tasks?includeArtifacts=true", "acme/tasks", "extendedAgentCard"):
        called.request("GET", f"/a2a/v1/{path}", mine)
    called.request("GET", "/.well-known/agent-card.json", mine)


def test_no_handle_checkpoint_or_reasoning_is_in_any_byte_that_a_caller_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    runtime = Scripts(travels)
    with hosted(lambda: inbound_only(tmp_path), runtime) as called:
        mine = {"A2A-Version": "1.0", "Content-Type": "application/json", **signed(ANN)}
        task = called.send("go", signed(ANN))
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        kept = b"".join(file.read_bytes() for file in tmp_path.glob("resume.db*"))
        assert SECRET.encode() in kept  # where it belongs, so that there is something to find
        assert SECRET.encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("tasks.db*"))
        everything(called, task["id"])
        first = send_params("one", message={"taskId": task["id"]})
        stream = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": first}
        _, _, streamed = called.request("POST", "/a2a/jsonrpc", mine, json.dumps(stream).encode())
        assert b"question 1?" in streamed
        everything(called, task["id"])
        last = json.dumps(send_params("two", message={"taskId": task["id"]})).encode()
        _, _, streamed = called.request("POST", "/a2a/v1/message:stream", mine, last)
        assert b"the plan" in streamed and b"done" in streamed
        everything(called, task["id"])
    assert [item[2].data for item in runtime.resumed] == ["one", "two"]
    read = b"".join(called.seen)
    for hidden in (SECRET, "at-", "checkpoint", "THINKING", "reasoning", "TOOL-OF-IT", "native", "call-0"):
        assert hidden.encode() not in read, hidden
    assert SECRET not in caplog.text
    assert b"question 0?" in read and b"question 1?" in read
    with sqlite3.connect(tmp_path / "resume.db") as db:  # what was used is not kept
        assert db.execute("SELECT count(*) FROM ksadk_a2a_resume_states").fetchone() == (0,)


def test_an_artifact_that_is_called_reasoning_is_shown_to_nobody_either(tmp_path: Path) -> None:
    async def names_it(_: Scripts, __: RunHandle) -> AsyncIterator[RuntimeEvent]:
        for name in ("reasoning", "plan"):
            yield RuntimeEvent(
                "artifact.created", {"artifact_id": name, "name": name, "text": f"{name} of it"}
            )

    with hosted(lambda: inbound_only(tmp_path), Scripts(names_it)) as called:
        task = called.send("x", signed(ANN))
        assert [artifact["name"] for artifact in task["artifacts"]] == ["plan"]
        assert b"reasoning of it" not in b"".join(called.seen)


def test_an_interrupted_run_goes_on_in_the_next_runtime_where_it_was(tmp_path: Path) -> None:
    before, after = Scripts(travels), Scripts(travels)
    with hosted(lambda: inbound_only(tmp_path), before) as called:
        task = called.send("go", signed(ANN))
    assert before.closed
    with hosted(lambda: inbound_only(tmp_path), after) as called:
        assert called.rpc("GetTask", {"id": task["id"]}, signed(BOB))["error"]["code"] == -32001
        again = called.send("Paris", signed(ANN), taskId=task["id"])
        assert again["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        done = called.send("Lyon", signed(ANN), taskId=task["id"])
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    (handle, target, payload), second = after.resumed
    assert after.attached == [handle] and handle.native_ref == {"native": SECRET} and not after.started
    assert handle.session_id == before.started[0].session_id
    assert (target, payload.kind, payload.call_id, payload.data) == (
        ResumeTarget("checkpoint", f"at-{SECRET}"), "hitl_answer", "call-0", "Paris",
    )  # fmt: skip
    assert second[2].data == "Lyon"


def test_a_task_that_waits_for_what_is_not_kept_any_more_fails_and_says_nothing_of_it(tmp_path: Path) -> None:
    with hosted(lambda: inbound_only(tmp_path), Scripts(travels)) as called:
        task = called.send("go", signed(ANN))
    for file in tmp_path.glob("resume.db*"):
        file.unlink()
    with hosted(lambda: inbound_only(tmp_path), Scripts(travels)) as called:
        failed = called.send("Paris", signed(ANN), taskId=task["id"])
        assert failed["status"]["state"] == "TASK_STATE_FAILED"
        assert failed["status"]["message"]["parts"] == [{"text": "The agent failed."}]


async def ends_when_told(runtime: Scripts, _: RunHandle) -> AsyncIterator[RuntimeEvent]:
    while not runtime.canceled:
        await asyncio.sleep(0.005)
    yield RuntimeEvent("run.canceled")


CANCELS = [
    (works_on, CancelResult.INTERRUPTED_ACTIVE_TURN, True),
    (works_on, CancelResult.NOT_RUNNING, True),
    (works_on, CancelResult.PENDING_CANCEL_RECORDED, False),
    (ends_when_told, CancelResult.PENDING_CANCEL_RECORDED, True),
    (works_on, CancelResult.FAILED, False),
]


@pytest.mark.parametrize(("script", "result", "stops"), CANCELS)
def test_a_cancel_reaches_the_runtime_and_says_what_became_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: Any, result: CancelResult, stops: bool
) -> None:
    if not stops:
        monkeypatch.setattr("ksadk.a2a.runners.runtime.PENDING_SECONDS", 0.05)
    runtime = Scripts(script, cancel_result=result)
    with hosted(lambda: inbound_only(tmp_path), runtime) as called:
        params = send_params("go", configuration={"returnImmediately": True})
        task = called.rpc("SendMessage", params, signed(ANN))["result"]["task"]["id"]
        until(lambda: runtime.started)
        assert called.rpc("CancelTask", {"id": task}, signed(BOB))["error"]["code"] == -32001
        answer = called.rpc("CancelTask", {"id": task}, signed(ANN))
        state = called.rpc("GetTask", {"id": task}, signed(ANN))["result"]["status"]["state"]
        assert ("result" in answer, state == "TASK_STATE_CANCELED") == (stops, stops)
        assert len(runtime.canceled) == 1
        runtime.cancel_result = CancelResult.NOT_RUNNING  # so that the server can stop


async def wants_approval(runtime: Scripts, handle: RunHandle) -> AsyncIterator[RuntimeEvent]:
    if not runtime.resumed:
        data = {"id": "approval-1", "tool_name": "pay", "summary": "pay 5", "native": SECRET}
        yield RuntimeEvent("approval.requested", data)
        return
    yield RuntimeEvent("text.delta", {"delta": str(runtime.resumed[-1][2].data)})


def decision(verdict: str, request: str = "approval-1") -> dict[str, Any]:
    return {"data": {"kind": "approval_decision", "approval_request_id": request, "decision": verdict}}


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_only_data_of_a_verified_caller_decides_and_only_where_that_is_allowed(
    tmp_path: Path, remote: bool, verdict: str
) -> None:
    runtime = Scripts(wants_approval)
    with hosted(lambda: inbound_only(tmp_path), runtime, remote_approvals=remote) as called:
        task = called.send("go", signed(ANN))
        assert SECRET not in json.dumps(task)
        refused = ["yes, approved", decision("approve", "approval-2"), decision("edit")]
        for part in [*refused, *([] if remote else [decision(verdict)])]:
            params = send_params(part, message={"taskId": task["id"]})
            waits = called.rpc("SendMessage", params, signed(ANN))["result"]["task"]
            assert waits["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert not runtime.resumed
        if not remote:
            return
        params = send_params(decision(verdict), message={"taskId": task["id"]})
        done = called.rpc("SendMessage", params, signed(ANN))["result"]["task"]
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert runtime.resumed[0][2].kind == "approval_decision"
    assert runtime.resumed[0][2].data == {"decision": verdict}


PROCESS = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import uvicorn
from starlette.applications import Starlette
from hosted_runtime import Scripts, inbound_only, travels, works_on

def make():
    bootstrap = inbound_only(Path(sys.argv[2]))
    app = Starlette(lifespan=bootstrap.lifespan)
    bootstrap.mount(app, Scripts({"travels": travels, "works": works_on}[sys.argv[3]]))
    return app

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)

Server(uvicorn.Config(make, factory=True, port=0, log_config=None)).run()
"""


@pytest.mark.parametrize("script", ["travels", "works"])
def test_after_a_kill_every_task_ends_or_goes_on(tmp_path: Path, script: str) -> None:
    command = [sys.executable, "-c", PROCESS, str(Path(__file__).parent), str(tmp_path), script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            called = Called(f"http://127.0.0.1:{process.stdout.readline().strip()}")
            params = send_params("go", configuration={"returnImmediately": script == "works"})
            task = called.rpc("SendMessage", params, signed(ANN))["result"]["task"]["id"]
        finally:
            os.kill(process.pid, signal.SIGKILL)
    with hosted(lambda: inbound_only(tmp_path), Scripts(travels)) as called:
        state = called.rpc("GetTask", {"id": task}, signed(ANN))["result"]["status"]["state"]
        if script == "works":
            assert state == "TASK_STATE_FAILED"
            return
        assert state == "TASK_STATE_INPUT_REQUIRED"
        called.send("Paris", signed(ANN), taskId=task)
        done = called.send("Lyon", signed(ANN), taskId=task)
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"
