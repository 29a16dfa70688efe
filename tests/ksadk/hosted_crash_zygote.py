"""A warm process whose children are a hosted runtime and its caller, and are killed before or after any write
to one of the runtime's stores, and wherever the caller or the agent was told something.

Each line of stdin is an order `{"root", "naive", "now", "kill"}`: `kill` is the number of a point, -1 for
none, or the name of the first such one. A child starts the runtime on the stores in `root`. Its caller
answers what waits; where nothing has been completed it sends a message, and answers what that asks. The
answer is a line: the point where the child was killed, or null, and what was noted up to there.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from a2a.server.context import ServerCallContext
from a2a.types import Task
from a2a_server import send_params
from hosted_runtime import ANN, inbound_only, signed
from outbox_crash_zygote import Unwritten, note
from space_wire import AGENT, SPACE, answer_bytes, answer_data
from starlette.applications import Starlette

from ksadk.a2a import AgentEngineA2ABootstrap, output
from ksadk.a2a.runners.runtime_types import CancelResult, ResumePayload, RuntimeEvent, StartRequest
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.models import Credential, PreparedOperation, RemoteTask
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox
from ksadk.a2a.stores import opening
from ksadk.a2a.stores.contexts import A2AContextIdentity
from ksadk.a2a.stores.opening import open_stores
from ksadk.a2a.stores.pauses import SQLitePauseStore
from ksadk.a2a.stores.resume import InMemoryA2AResumeStateStore, ResumeTarget, RunHandle
from ksadk.a2a.stores.sqlite_file import SQLiteFile
from ksadk.a2a.stores.tasks import SQLiteTaskStore
from ksadk.a2a.wire import Extras

WAITS, COMPLETED = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"


class Points:
    """Counts the places at which the child may be killed, kills it at one of them, and says what it noted."""

    def __init__(self, at: int | str, out: int) -> None:
        self._at = at
        self._out = out
        self._count = itertools.count()

    def reach(self, name: str) -> None:
        if self._at in (next(self._count), name):
            self.say("killed", name)
            os.kill(os.getpid(), signal.SIGKILL)

    def say(self, *what: str) -> None:
        os.write(self._out, f"{json.dumps(what)}\n".encode())

    def count_writes(self) -> None:
        """Count before each statement that writes, and after what it is in was committed."""
        points, connect = self, sqlite3.connect

        class Counted(sqlite3.Connection):
            name = ""
            writes = False

            def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
                words = " ".join(statement.split()[:3])
                if words.startswith(("SELECT", "PRAGMA", "BEGIN")) or (words == "COMMIT" and not self.writes):
                    return super().execute(statement, *values)
                self.writes = words != "COMMIT"
                if not words or words.startswith("CREATE"):
                    return super().execute(statement, *values)
                points.reach(f"{self.name}: before {words}")
                done = super().execute(statement, *values)
                if words == "COMMIT":  # after any other, the next one is about to begin
                    points.reach(f"{self.name}: after COMMIT")
                return done

        def counted(place: Any, **options: Any) -> sqlite3.Connection:
            connection = connect(place, factory=Counted, **options)
            connection.name = Path(place).stem
            return connection

        sqlite3.connect = counted  # type: ignore[assignment]


class AtOnce(Executor):
    """Does what is asked in the thread that asks, so that all of a child is always in one order."""

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*given, **named))
        except Exception as error:  # noqa: BLE001  # it belongs to who asked
            done.set_exception(error)
        return done


class Platform:
    """Permits the agent's calls, and takes events by appending them to a file, which outlives the child."""

    def __init__(self, root: Path, points: Points) -> None:
        self._root = root
        self._points = points

    async def prepare_call(self, _: str, __: str, *, idempotency_token: str, **___: str) -> PreparedOperation:
        prepared = PreparedOperation.from_payload(answer_data("prepare_call"))
        return replace(prepared, task_id=idempotency_token, call_permit=f"permit-{idempotency_token}")

    async def bind_remote_task(self, task_id: str, remote: RemoteTask, observed_at: datetime) -> None:
        """The agent's ids are asked for by nobody here."""

    def hosted_extras(self, _: PreparedOperation) -> Extras:
        return Extras()

    async def resolve_credential(self, _: PreparedOperation) -> Credential:
        raise LookupError("hosted agents are shown none")

    def secrets(self) -> frozenset[str]:
        return frozenset()

    async def append(self, platform_task_id: str, events: Sequence[TaskEvent]) -> None:
        self._points.reach("events: before the platform took a batch")
        ids = "+".join(event.source_event_id for event in events)
        note(self._root / "events", f"{platform_task_id}:{ids}")
        self._points.reach("events: after the platform took a batch")


async def other_agent(request: httpx.Request) -> httpx.Response:
    answer = json.loads(answer_bytes("hosted_send").partition(b"\r\n\r\n")[2])
    return httpx.Response(200, json=answer | {"id": json.loads(request.content)["id"]})


class Checkpoints:
    """The agent's own store: where its runs stand, and how often each place was gone on from."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    async def initialize(self) -> None:
        schema = "CREATE TABLE IF NOT EXISTS checkpoints (id TEXT PRIMARY KEY, used INTEGER NOT NULL) STRICT"
        self._file = SQLiteFile(self._path, schema)

    async def put(self, run: str) -> None:
        await self._file.write("INSERT INTO checkpoints VALUES (?, 0)", (run,))

    async def use(self, run: str) -> None:
        if not self._file.rows("SELECT 1 FROM checkpoints WHERE id = ?", (run,)):
            raise LookupError(f"nothing is known of {run}")
        await self._file.write("UPDATE checkpoints SET used = used + 1 WHERE id = ?", (run,))


class Travels:
    """A runtime that calls another agent, asks where to, calls again, and says so."""

    def __init__(self, checkpoints: Checkpoints, bootstrap: AgentEngineA2ABootstrap, points: Points) -> None:
        self._checkpoints = checkpoints
        self._bootstrap = bootstrap
        self._points = points

    async def start(self, request: StartRequest) -> RunHandle:
        self._points.say("session", request.session_id)
        return RunHandle(str(request.metadata["task_id"]), request.session_id, "travels")

    async def stream(self, handle: RunHandle) -> AsyncIterator[RuntimeEvent]:
        answer = handle.native_ref.get("answer")
        token = f"{handle.run_id}-{'first' if answer is None else 'second'}"
        client = self._bootstrap.client_for_space(SPACE)
        called = await client.send_message(AGENT, "hi", idempotency_token=token)
        self._points.say("kept", called.task_id, *(event.source_event_id for event in called.events))
        self._points.reach("events: kept")
        assert await client.flush_pending_events()
        if answer is None:
            await self._checkpoints.put(handle.run_id)
            yield RuntimeEvent("checkpoint.created", {"kind": "checkpoint", "id": handle.run_id})
            yield RuntimeEvent("run.interrupted", {"question": "Where to?", "call_id": "call-1"})
            return
        yield RuntimeEvent("text.delta", {"delta": f"to {answer}"})

    async def resume(self, handle: RunHandle, target: ResumeTarget, payload: ResumePayload) -> RunHandle:
        await self._checkpoints.use(target.id)
        return replace(handle, native_ref={"answer": payload.data})

    async def attach(self, _: RunHandle) -> None:
        """Where a run stands is asked for when it is resumed."""

    async def checkpoint(self, _: RunHandle) -> ResumeTarget | None:
        return None

    async def cancel(self, _: RunHandle) -> CancelResult:
        return CancelResult.FAILED

    async def close(self) -> None:
        """The store is closed with the process."""


class LateTasks(SQLiteTaskStore):
    """A naive one: a task is written when there is time, and that is after the caller was answered."""

    async def save(self, task: Task, context: ServerCallContext) -> None:
        key = (self.owner_of(context), task.id)
        self._progress[key] = (*key, task.context_id, task.status.state, 0, task.SerializeToString())


class ForgetfulContexts:
    """A naive one: a session is the process's."""

    def __init__(self) -> None:
        self._sessions: dict[str, str] = {}

    async def resolve_or_create(
        self, _: A2AContextIdentity, external_id: str, *, isolation_scope: str | None = None
    ) -> str:
        return self._sessions.setdefault(f"{isolation_scope}:{external_id}", f"session-{os.getpid()}")


async def keep_using(_: SQLitePauseStore, __: str) -> None:
    """A naive way to delete what a task waited for: later."""


def runtime(root: Path, naive: str, now: float, points: Points, http: httpx.AsyncClient) -> Starlette:
    stores = open_stores(f"sqlite:///{root / 'tasks.db'}")
    outbox = (SQLiteA2AEventOutbox if naive != "outbox" else Unwritten)(root / "outbox.db", clock=lambda: now)
    outbox._thread = AtOnce()  # type: ignore[assignment]
    checkpoints = Checkpoints(root / "checkpoints.db" if naive != "checkpoints" else None)
    given: dict[str, Any] = {}
    if naive == "resume states":
        given["resume_state_store"] = InMemoryA2AResumeStateStore()
    if naive == "contexts":
        given["context_store"] = ForgetfulContexts()
    if naive == "pauses":
        SQLitePauseStore.delete = keep_using  # type: ignore[method-assign]
    bootstrap = inbound_only(
        root,
        task_store=LateTasks(stores.tasks.file) if naive == "tasks" else stores.tasks,
        checkpoint_store=checkpoints,
        control_plane=Platform(root, points),
        hosted_http_client=http,
        event_outbox=outbox,
        outbound_enabled=True,
        **given,
    )
    app = Starlette(lifespan=bootstrap.lifespan)
    bootstrap.mount(app, Travels(checkpoints, bootstrap, points), grace=0.2)
    return app


class Caller:
    """Has a conversation, and notes what it was told and when it began to answer."""

    def __init__(self, http: httpx.AsyncClient, points: Points) -> None:
        self._http = http
        self._points = points

    async def converse(self) -> None:
        found = await self._listed("found")
        told = [await self._answered(task) if task["status"]["state"] == WAITS else task for task in found]
        if not any(task["status"]["state"] == COMPLETED for task in told):
            task = await self._sent("go", contextId="trip")
            if task["status"]["state"] == WAITS:
                await self._answered(task)
        await self._listed("ended")

    async def _answered(self, task: dict[str, Any]) -> dict[str, Any]:
        self._points.say("answering", task["id"])
        return await self._sent("Paris", taskId=task["id"], messageId="m-2")

    async def _sent(self, text: str, **message: str) -> dict[str, Any]:
        answer = await self._rpc("SendMessage", send_params(text, message=message))
        task: dict[str, Any] = answer["result"]["task"]
        self._note("told", task)
        self._points.reach("the caller was told")
        return task

    async def _listed(self, how: str) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = (await self._rpc("ListTasks", {}))["result"].get("tasks", [])
        for task in tasks:
            self._note(how, task)
        return tasks

    def _note(self, how: str, task: dict[str, Any]) -> None:
        parts = task["status"].get("message", {}).get("parts", [])
        self._points.say(how, task["id"], task["status"]["state"], "".join(part["text"] for part in parts))

    async def _rpc(self, method: str, params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        response = await self._http.post("/a2a/jsonrpc", json=body, headers=signed(ANN))
        return response.json()


async def work(order: dict[str, Any], points: Points) -> None:
    agents = httpx.AsyncClient(transport=httpx.MockTransport(other_agent))
    app = runtime(Path(order["root"]), order["naive"], order["now"], points, agents)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        headers = {"A2A-Version": "1.0"}
        async with httpx.AsyncClient(transport=transport, base_url="http://runtime", headers=headers) as http:
            await Caller(http, points).converse()


def child(order: dict[str, Any], out: int) -> None:
    points = Points(order["kill"], out)
    points.count_writes()
    # What is done after a time is done at once, or not before the end: so no point depends on speed.
    output.WORKING_AFTER, opening.PROGRESS_SECONDS = 0, 3600
    asyncio.run(work(order, points))


def run(order: dict[str, Any]) -> dict[str, Any]:
    seen, out = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(seen)
        try:
            child(order, out)
            os._exit(0)
        finally:  # an error is printed by nobody else: the parent's code must not run here
            traceback.print_exc()
            os._exit(1)
    os.close(out)
    with os.fdopen(seen) as pipe:
        noted = [json.loads(line) for line in pipe]
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status)
    assert killed or status == 0, "a child that was not killed failed"
    return {"killed": noted.pop()[1] if killed else None, "noted": noted}


if __name__ == "__main__":
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
