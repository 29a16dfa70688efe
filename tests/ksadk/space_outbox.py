"""Task events, time and sinks for the tests of the event outbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox, events_of
from ksadk.a2a.space.outbox_rows import Row

PATIENCE = 20.0
"""Seconds after which a test gives up; nothing is expected to take them."""


def event(name: str, text: str = "") -> TaskEvent:
    payload = {"message": {"parts": [{"text": text}]}}
    return TaskEvent(name, "status", payload, "2026-01-01T00:00:00.000Z", "working")


class Time:
    """A clock that a test moves, and what waits by it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self._waits: dict[asyncio.Event, float] = {}

    def __call__(self) -> float:
        return self.now

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        if seconds <= 0:
            return
        over = asyncio.Event()
        self._waits[over] = self.now + seconds
        waits = [asyncio.ensure_future(each.wait()) for each in (event, over)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            del self._waits[over]

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for over, due in self._waits.items():
            if due <= self.now:
                over.set()

    async def rests(self, seconds: float) -> None:
        """Return once somebody waits for another so many seconds."""
        await until(lambda: any(abs(due - self.now - seconds) < 1e-3 for due in self._waits.values()))


class Sink:
    """Remembers when it was given what; `answer` may wait or raise."""

    def __init__(self, time: Callable[[], float] = lambda: 0.0) -> None:
        self.given: list[tuple[str, str]] = []
        self.times: list[float] = []
        self.taken: list[tuple[str, str]] = []
        self._time = time

    async def append(self, platform_task_id: str, events: Sequence[TaskEvent]) -> None:
        item = (platform_task_id, "+".join(event.source_event_id for event in events))
        self.given.append(item)
        self.times.append(self._time())
        await self.answer(*item)
        self.taken.append(item)

    async def answer(self, task: str, batch: str) -> None:
        """Take it."""


class Answering(Sink):
    """A sink with an answer of the test's own."""

    def __init__(
        self, answer: Callable[[str, str], Awaitable[None]], time: Callable[[], float] = lambda: 0.0
    ) -> None:
        super().__init__(time)
        self.answer = answer  # type: ignore[method-assign]


async def until(reached: Callable[[], bool]) -> None:
    """Return once it is so; fails if that never comes."""
    async with asyncio.timeout(PATIENCE):
        while not reached():
            await asyncio.sleep(0.001)


async def fill(outbox: SQLiteA2AEventOutbox, *items: str) -> list[str]:
    """Put a batch of one event into the outbox for each `task:event`; their ids."""
    ids = []
    for item in items:
        task, _, name = item.partition(":")
        ids.append(await outbox.enqueue(task, [event(name)]))
    return ids


def opened(directory: Path, time: Callable[[], float] = lambda: 0.0) -> SQLiteA2AEventOutbox:
    return SQLiteA2AEventOutbox(directory / "outbox.sqlite3", clock=time)


async def pulled(outbox: SQLiteA2AEventOutbox, tasks: int = 8) -> dict[str, list[str]]:
    """The tasks whose turns can be taken, and the names of the events in their batches."""
    return {turn.platform_task_id: names(turn.rows) for turn in await outbox.pull(tasks, 30)}


def names(rows: tuple[Row, ...]) -> list[str]:
    return ["+".join(event.source_event_id for event in events_of(row)) for row in rows]
