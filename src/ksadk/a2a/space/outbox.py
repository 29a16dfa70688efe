"""Task events on their way to the control plane: kept in a file until it has taken them.

`enqueue` returns when a batch would outlive a power cut. From then on it is delivered, or is among the dead
letters: never lost, and never under another id. A batch whose sender is killed before it could write down
that it was taken is sent again; its events have the ids that they had, by which the receiver knows them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.ids import checked_id
from ksadk.a2a.space.outbox_rows import (
    SCHEMA,
    OutboxError,
    OutboxLimits,
    OutboxRows,
    OutboxStatus,
    Row,
    Turn,
)
from ksadk.a2a.stores.sqlite_file import SQLiteFile
from ksadk.settings import Settings

T = TypeVar("T")

_Work = Callable[[OutboxRows], Any]
_Asked = tuple[_Work, "asyncio.Future[Any]"]

FILE_NAME = ".agentengine/a2a_event_outbox.sqlite3"


def event_outbox_path(settings: Settings, project: Path) -> Path:
    """The outbox's file: as configured, relative to the project, or in its .agentengine."""
    return project / (settings.a2a_event_outbox_path or FILE_NAME)


def events_of(row: Row) -> list[TaskEvent]:
    """The events of a batch; raises `OutboxError` where what is kept are none."""
    try:
        return [TaskEvent.from_payload(payload) for payload in json.loads(row.events_json)]
    except (ValueError, TypeError, KeyError) as error:
        raise OutboxError(f"the kept batch {row.batch_id} is damaged", code="invalid_event_batch") from error


class SQLiteA2AEventOutbox:
    """Batches of task events in a SQLite file, 0600, which several processes may use at once.

    Batches of one task are delivered in the order in which they came. Giving a batch again is no change, as
    long as it waits, is a dead letter, or is among the last 10,000 that were delivered.

    It is used in one event loop, and works on the file in a thread, so that the loop never waits for the
    disk. What is asked for while the disk works is one transaction: many tasks wait for it together.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        limits: OutboxLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self._limits = limits or OutboxLimits()
        self.clock = clock
        self._file: SQLiteFile | None = None
        self._asked: list[_Asked] = []
        self._worker: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="a2a-event-outbox")
        self._closed = False

    async def initialize(self) -> None:
        """Open the file, which the first call does otherwise."""
        await self._do(lambda rows: rows.status())

    async def enqueue(self, platform_task_id: str, events: Sequence[TaskEvent]) -> str:
        """Keep a batch of a task's events, in order, and return its id once it is on disk.

        Raises `OutboxError`, and nothing was kept: `event_outbox_full` beyond the limits,
        `invalid_event_batch` for no events, for what is no JSON, and for one batch that is too large,
        `event_outbox_unavailable` where the file cannot be written.
        """
        checked_id(platform_task_id, "a task")
        text = _canonical(events)
        if len(text.encode()) > self._limits.batch_bytes:
            raise OutboxError(
                f"a batch of task events is over {self._limits.batch_bytes} bytes of JSON",
                code="invalid_event_batch",
                hint="Give the events in several batches.",
            )
        digest = hashlib.sha256(f"{platform_task_id}:{text}".encode()).hexdigest()
        batch_id = f"a2a-event-batch-{digest}"
        await self._do(lambda rows: rows.add(batch_id, platform_task_id, text))
        return batch_id

    async def status(self) -> OutboxStatus:
        """How much waits, and how many dead letters there are."""
        return await self._do(lambda rows: rows.status())

    async def dead_letters(self) -> list[Row]:
        """The batches that were refused for good, the oldest first: at most 1,000 of them, and 64 MiB."""
        return await self._do(lambda rows: rows.dead_letters())

    async def pull(self, tasks: int, lease_seconds: float) -> list[Turn]:
        """Take the turns of up to so many tasks, for so long, with 100 batches in all."""
        return await self._do(lambda rows: rows.pull(tasks, lease_seconds))

    async def delivered(self, row: Row) -> None:
        """The control plane has taken a batch."""
        await self._do(lambda rows: rows.delivered(row))

    async def failed(self, turn: Turn, row: Row, error: str, not_before: float) -> None:
        """An attempt failed; ends the turn. The task waits until `not_before`."""
        await self._do(lambda rows: rows.failed(turn, row, error, not_before))

    async def bury(self, turn: Turn, row: Row, error: str) -> list[str] | None:
        """The control plane will never take a batch; the ids of older dead letters that had to go for it.
        None where the turn was over."""
        return await self._do(lambda rows: rows.bury(turn, row, error))

    async def give_back(self, turn: Turn) -> None:
        """End a turn before its time."""
        await self._do(lambda rows: rows.give_back(turn))

    async def expedite(self) -> None:
        """Let every task that failed be tried again now."""
        await self._do(lambda rows: rows.expedite())

    async def due(self) -> float | None:
        """When the next turn can be taken, by the clock; None where nothing waits."""
        return await self._do(lambda rows: rows.due())

    async def aclose(self) -> None:
        """Finish what was asked for, and close the file; whatever is asked for later is an `OutboxError`."""
        if self._closed:
            return
        self._closed = True
        if self._worker is not None:
            await asyncio.wait([self._worker])
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    async def _do(self, work: Callable[[OutboxRows], T]) -> T:
        """Do it in the next transaction, and wait until that is on disk. It is done also for one who is
        cancelled while waiting."""
        if self._closed:
            raise OutboxError(f"the outbox {self.path} has been closed")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.append((work, done))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work(), name="a2a-event-outbox")
        return await done

    async def _work(self) -> None:
        while self._asked:
            asked, self._asked = self._asked, []
            work = [each for each, _ in asked]
            try:
                ended = await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, work)
            except asyncio.CancelledError:  # the loop ends
                for _, done in (*asked, *self._asked):
                    done.cancel()
                raise
            except Exception as error:  # noqa: BLE001  # it belongs to those who wait
                ended = [error] * len(work)
            for result, (_, done) in zip(ended, asked, strict=True):
                if done.done():
                    continue
                if isinstance(result, Exception):
                    done.set_exception(result)
                else:
                    done.set_result(result)

    def _transact(self, work: list[_Work]) -> list[Any]:
        """Do all in one transaction: what each comes to, or raises. Where the file fails, all of it does."""
        if self._file is None:
            self._file = SQLiteFile(self.path, SCHEMA, durability="full", error=OutboxError)
        ended: list[Any] = []
        with self._file.transaction() as db:
            rows = OutboxRows(db, self._limits, self.clock)
            for each in work:
                try:
                    ended.append(each(rows))
                except OutboxError as error:
                    ended.append(error)
        return ended

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()


def _canonical(events: Sequence[TaskEvent]) -> str:
    """Events as JSON, the same text for the same events."""
    if not events:
        raise OutboxError("a batch of task events has none", code="invalid_event_batch")
    payloads = [event.to_payload() for event in events]
    try:
        text = json.dumps(
            payloads, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
        )
        text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise OutboxError(f"task events are no JSON: {error}", code="invalid_event_batch") from error
    return text
