"""A warm process whose children fill and empty an event outbox, and are killed before or after any write of
theirs: each statement that they give SQLite, each batch that their sink takes.

Each line of stdin is a list of orders, `{"root", "outbox", "now", "give", "tasks", "kill"}`, for children
that work at the same time. A child gives the outbox `give` batches of each of `tasks`, and writes down which
are kept; then it delivers what it finds. `kill` is the number of a point. The answer is a list too: the point
where a child was killed, or null.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sqlite3
import sys
import traceback
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ksadk.a2a.space import outbox
from ksadk.a2a.space.dispatcher import A2AEventDispatcher
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox
from ksadk.a2a.space.outbox_rows import OutboxRows, Turn


class Points:
    """Counts the places at which a child may be killed, and kills it at one of them."""

    def __init__(self, at: int | None, out: int) -> None:
        self._at = at
        self._out = out
        self._count = itertools.count()

    def reach(self, name: str) -> None:
        if next(self._count) == self._at:
            os.write(self._out, name.encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def connection(self) -> type[sqlite3.Connection]:
        points = self

        class Counted(sqlite3.Connection):
            def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
                name = " ".join(statement.split())[:60]
                if not name.startswith(("SELECT", "CREATE")):
                    points.reach(f"before {name}")
                done = super().execute(statement, *values)
                if name == "COMMIT":  # after any other, the next one is about to begin
                    points.reach("after COMMIT")
                return done

        return Counted


class FileSink:
    """Takes a batch by appending its events to a file, which outlives the child."""

    def __init__(self, path: Path, points: Points) -> None:
        self._path = path
        self._points = points

    async def append(self, platform_task_id: str, events: Sequence[TaskEvent]) -> None:
        self._points.reach("before the sink took a batch")
        note(self._path, f"{platform_task_id}:{'+'.join(event.source_event_id for event in events)}")
        self._points.reach("after the sink took a batch")


def note(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


class Forgetful(OutboxRows):
    """A naive one: what was pulled is deleted, since it is about to be sent."""

    def pull(self, tasks: int, lease_seconds: float) -> list[Turn]:
        turns = super().pull(tasks, lease_seconds)
        for turn in turns:
            for row in turn.rows:
                self.delivered(row)
        return turns


class Renaming(SQLiteA2AEventOutbox):
    """A naive one: each batch that is given gets a new id."""

    async def enqueue(self, platform_task_id: str, events: Sequence[TaskEvent]) -> str:
        text, batch_id = outbox._canonical(events), uuid.uuid4().hex
        await self._do(lambda rows: rows.add(batch_id, platform_task_id, text))
        return batch_id


class Unwritten(SQLiteA2AEventOutbox):
    """A naive one: `enqueue` does not wait for the disk."""

    async def enqueue(self, platform_task_id: str, events: Sequence[TaskEvent]) -> str:
        self._late = asyncio.ensure_future(super().enqueue(platform_task_id, events))
        return ""


OUTBOXES = {each.__name__: each for each in (SQLiteA2AEventOutbox, Renaming, Unwritten)}


async def work(order: dict[str, Any], points: Points) -> None:
    root, now = Path(order["root"]), order["now"]
    kept = OUTBOXES.get(order["outbox"], SQLiteA2AEventOutbox)(root / "outbox.sqlite3", clock=lambda: now)
    dispatcher = A2AEventDispatcher(kept, FileSink(root / "sent", points))
    await dispatcher.start()
    for number in range(order["give"]):
        for task in order["tasks"]:
            await kept.enqueue(task, [TaskEvent(str(number), "status", {}, "t")])
            note(root / "kept", f"{task}:{number}")
            points.reach("after a batch was kept")
            dispatcher.notify()
    await dispatcher.stop()
    await kept.aclose()


def child(order: dict[str, Any], out: int) -> None:
    points = Points(order["kill"], out)
    connect, counted = sqlite3.connect, points.connection()
    sqlite3.connect = lambda *place, **options: connect(*place, factory=counted, **options)  # type: ignore[assignment]
    if order["outbox"] == "Forgetful":
        outbox.OutboxRows = Forgetful  # type: ignore[misc]
    asyncio.run(work(order, points))


def run(order: dict[str, Any]) -> tuple[int, int]:
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
    return pid, seen


def ended(pid: int, seen: int) -> str | None:
    _, status = os.waitpid(pid, 0)
    with os.fdopen(seen) as pipe:
        point = pipe.read()
    if os.WIFSIGNALED(status):
        return point
    assert status == 0, "a child that was not killed failed"
    return None


if __name__ == "__main__":
    for line in sys.stdin:
        children = [run(order) for order in json.loads(line)]
        print(json.dumps([ended(*each) for each in children]), flush=True)
