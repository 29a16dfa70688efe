"""Serves an agent in a process that can be killed at each thing that its store does with its file.

`python killable_server.py STORE DIRECTORY` reads lines `POINT` from stdin and serves once for each, in a fork
of its own, until it is killed: by itself when the store has come to that point (-1 is none), or from outside.
Each thing that the store does is two points, before and after it. A line of the fork's stdout is its port and
its process id; another says, once it has gone, how many points there were.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types import Task

from ksadk.a2a.card import build_agent_card
from ksadk.a2a.runners.asking import ask_async
from ksadk.a2a.runners.base import Text
from ksadk.a2a.runners.callable import CallableRunner
from ksadk.a2a.server import A2AServer
from ksadk.a2a.stores.base import default_owner_resolver
from ksadk.a2a.stores.opening import open_stores

COUNTED = Path("points")
"""Eight digits, written over at once: the process may be killed at any time."""


async def agent(text: str) -> AsyncIterator[Any]:
    yield Text("one ")
    await asyncio.sleep(0.01)
    yield Text("two")
    if text == "ask":
        yield Text(f" {await ask_async('which?')}")


class Killing(sqlite3.Connection):
    """Kills the process at a point, and counts them in a file that outlives it."""

    at = -1
    passed = 0
    counter = -1

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement.startswith(("SELECT", "PRAGMA", "CREATE")):
            return super().execute(statement, *values)
        self._pass()
        done = super().execute(statement, *values)
        self._pass()
        return done

    def _pass(self) -> None:
        if Killing.passed == Killing.at:
            os.kill(os.getpid(), signal.SIGKILL)
        Killing.passed += 1
        os.pwrite(Killing.counter, b"%8d" % Killing.passed, 0)


class WrittenLater(InMemoryTaskStore):
    """A naive store: answers from memory, and writes a moment later."""

    def __init__(self, file: TaskStore) -> None:
        super().__init__(default_owner_resolver)
        self._file = file
        self._writing: set[asyncio.Task[None]] = set()

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await super().save(task, context)

        async def write() -> None:
            await asyncio.sleep(0.1)
            await self._file.save(task, context)

        self._writing.add(asyncio.ensure_future(write()))


def serve(store: str, directory: Path, point: int) -> None:
    connect = sqlite3.connect
    stores = open_stores("sqlite:///tasks.db", directory=directory)
    if store == "memory":
        stores.tasks = InMemoryTaskStore()
    elif store == "later":
        stores.tasks = WrittenLater(stores.tasks)
    stores._file._db = connect(directory / "tasks.db", isolation_level=None, factory=Killing)  # type: ignore[attr-defined]
    Killing.at, Killing.counter = point, os.open(COUNTED, os.O_WRONLY)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()  # so that whoever reads the port is let in
    port = listening.getsockname()[1]
    card = build_agent_card(name="killed", base_url=f"http://127.0.0.1:{port}")
    app = A2AServer(CallableRunner(agent), card, stores).app
    print(port, os.getpid(), flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])


def main() -> None:
    store, directory = sys.argv[1], Path(sys.argv[2])
    os.chdir(directory)
    for number, line in enumerate(sys.stdin):
        COUNTED.write_text(f"{0:8d}")
        child = os.fork()
        if child == 0:
            place = directory / str(number)
            place.mkdir()
            serve(store, place, int(line))
            os._exit(0)
        os.waitpid(child, 0)
        print(COUNTED.read_text(), flush=True)


if __name__ == "__main__":
    main()
