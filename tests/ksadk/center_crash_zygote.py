"""A warm process whose children work with a center's database, and are killed at any thing they do to it.

Each line of stdin is an order `{"directory", "kill", "naive"}`: `kill` is the number of a point, -1 for none.
Each statement of a change, each call that changes a file, is two points: before and after it. It is answered
by a line: whether the child was killed, the names of the points it passed, and what it had been answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ksadk.a2a.card import build_agent_card
from ksadk.a2a.center.credentials import Credentials
from ksadk.a2a.center.database import SQLiteDatabase, Transaction, _SQLiteTransaction
from ksadk.a2a.center.event_log import EventLog, Patience
from ksadk.a2a.center.ledger import Call, Ledger, TaskCall
from ksadk.a2a.center.permits import Permits
from ksadk.a2a.center.registry import Registration, Registry
from ksadk.a2a.center.workload_tokens import Signer, Workload
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.models import Credential, RemoteTask

ANN = Workload("ann", "1")
NOW = 1_796_025_600.0
CARD = build_agent_card(name="vendor", base_url="https://vendor.example.com")
_kill, _fork, _write = os.kill, os.fork, os.write


class Points:
    """Counts the points, says their names, and kills at one of them."""

    at = -1
    passed = 0
    out = -1

    @classmethod
    def come(cls, name: str) -> None:
        if cls.passed == cls.at:
            _kill(os.getpid(), signal.SIGKILL)
        cls.passed += 1
        _write(cls.out, f"point {name}\n".encode())


class Killing(sqlite3.Connection):
    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement.lstrip().startswith("SELECT"):
            return super().execute(statement, *values)
        name = " ".join(statement.split()[:3])
        Points.come(f"before {name}")
        done = super().execute(statement, *values)
        Points.come(f"after {name}")
        return done


class NaiveDatabase(SQLiteDatabase):
    """Commits each statement by itself."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        yield _SQLiteTransaction(self._file._db)


def counted(name: str) -> None:
    call: Callable[..., Any] = getattr(os, name)

    def passing(*arguments: Any, **named: Any) -> Any:
        Points.come(f"before {name}")
        done = call(*arguments, **named)
        Points.come(f"after {name}")
        return done

    setattr(os, name, passing)


def event(number: int, status: str | None = None) -> TaskEvent:
    return TaskEvent(f"e-{number}", "status", {"n": number}, "2026-11-30T08:00:00Z", status)


async def work(directory: Path, naive: bool) -> None:
    """What an administrator and a client do, each step with the ids it would be repeated with."""
    database = (NaiveDatabase if naive else SQLiteDatabase)(directory / "center.db")
    database._file._db = sqlite3.connect(directory / "center.db", isolation_level=None, factory=Killing)
    # What a killed process has written is there, also what is not on the disk yet: waiting for that shows
    # nothing here.
    sqlite3.Connection.execute(database._file._db, "PRAGMA synchronous = OFF")
    os.fsync = lambda _: None
    for name in ("replace", "unlink", "fsync"):
        counted(name)
    clock = [NOW]
    credentials = Credentials(directory / "credentials")
    registry = Registry(database, credentials, clock=lambda: clock[0])
    permits = Permits(Signer(b"k" * 64, clock=lambda: clock[0]))
    ledger = Ledger(database, registry, permits, "http://127.0.0.1:1", clock=lambda: clock[0])
    events = EventLog(database, patience=Patience(60, 60, 6000), clock=lambda: clock[0])

    def answered(what: str) -> None:
        _write(Points.out, f"answered {what}\n".encode())

    for version in ("1", "2"):
        key = Credential({"X-Api-Key": f"vendor-key-{version}"})
        card = CARD | {"version": version}
        agent = await registry.register(Registration("s", card, "external_public", credential=key))
    answered("registered")
    call = Call("s", agent.agent_id, "m", "a" * 64, "token-1")
    task = (await ledger.prepare_call(ANN, call)).task_id
    answered("prepared")
    await ledger.bind(ANN, task, RemoteTask("r", "c"))
    answered("bound")
    await events.append(ANN, task, [event(1, "working"), event(2), event(3)])
    answered("3")
    await ledger.prepare_operation(ANN, TaskCall(task, "send_message", "m-2", "b" * 64, "token-2"))
    await events.append(ANN, task, [event(3), event(4), event(5, "completed")])
    answered("5")
    await ledger.prepare_call(ANN, Call("s", agent.agent_id, "m", "a" * 64, "token-3"))
    clock[0] += 60
    await events.end_silent()
    answered("ended")
    credentials.forget_all_but(await registry.credential_handles(), float("inf"))


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        reading, writing = os.pipe()
        child = _fork()
        if child == 0:
            os.close(reading)
            Points.at, Points.out = order["kill"], writing
            asyncio.run(work(Path(order["directory"]), order["naive"]))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as said:
            lines = [text.rstrip("\n").partition(" ")[::2] for text in said]
        _, status = os.waitpid(child, 0)
        answer = {
            "killed": os.WIFSIGNALED(status), "failed": bool(status) and not os.WIFSIGNALED(status),
            "points": [name for kind, name in lines if kind == "point"],
            "answered": [name for kind, name in lines if kind == "answered"],
        }  # fmt: skip
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
