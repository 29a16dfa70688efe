"""Those who empty the event outbox take turns: one at a time sends a task's batches, in their order."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from space_outbox import Time, event, fill, names, opened, pulled

from ksadk.a2a.space import outbox_rows
from ksadk.a2a.space.outbox_rows import (
    FARTHEST_TURN,
    SCHEMA,
    OutboxError,
    OutboxLimits,
    OutboxRows,
    OutboxStatus,
    Row,
    Turn,
)
from ksadk.a2a.stores.sqlite_file import SQLiteFile


def test_a_pull_takes_a_hundred_batches_and_a_large_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_rows, "PULLED_BYTES", 40_000)

    async def work() -> None:
        outbox = opened(tmp_path)
        await asyncio.gather(*(fill(outbox, f"a:{number}", f"b:{number}") for number in range(60)))
        found = await pulled(outbox)
        assert found == {"a": [str(n) for n in range(60)], "b": [str(n) for n in range(40)]}
        for size in (50_000, 30_000, 30_001):
            await outbox.enqueue("c", [event(str(size), "x" * size)])
        sizes = ["50000", "30000", "30001"]
        for expected in (sizes[:1], sizes[1:2], sizes[2:]):
            turn = (await outbox.pull(1, 30))[0]
            assert names(turn.rows) == expected
            await outbox.delivered(turn.rows[0])
            await outbox.give_back(turn)
        await outbox.aclose()

    asyncio.run(work())


def test_a_turn_is_one_holders_until_it_ends_by_itself(tmp_path: Path) -> None:
    async def work() -> None:
        time = Time()
        ours, theirs = opened(tmp_path, time), opened(tmp_path, time)
        await fill(ours, "a:1", "a:2", "b:1")
        first = (await ours.pull(1, 30))[0]
        assert names(first.rows) == ["1", "2"]
        assert await pulled(theirs) == {"b": ["1"]}
        time.advance(29)
        assert await pulled(theirs) == {}
        time.advance(1)
        (second,) = [turn for turn in await theirs.pull(8, 30) if turn.platform_task_id == "a"]
        await ours.failed(first, first.rows[0], "late", time.now)
        assert await ours.bury(first, first.rows[0], "late") is None
        await ours.give_back(first)
        assert await pulled(ours) == {}  # who was late has taken nothing from who has the turn
        await ours.delivered(first.rows[0])  # but what was taken is
        await theirs.delivered(second.rows[0])
        await theirs.give_back(second)
        assert await pulled(ours) == {"a": ["2"]}
        for outbox in (ours, theirs):
            await outbox.aclose()

    asyncio.run(work())


def test_turns_go_round(tmp_path: Path) -> None:
    async def work() -> None:
        time = Time()
        outbox = opened(tmp_path, time)
        await fill(outbox, "a:1", "a:2", "b:1", "c:1")
        order = []
        for _ in range(4):
            turn = (await outbox.pull(1, 30))[0]
            order.append((turn.platform_task_id, names(turn.rows)[0]))
            await outbox.delivered(turn.rows[0])
            time.advance(0.01)
            await outbox.give_back(turn)
        assert order == [("a", "1"), ("b", "1"), ("c", "1"), ("a", "2")]
        await outbox.aclose()

    asyncio.run(work())


def test_a_clock_that_was_put_back_does_not_keep_events_for_years(tmp_path: Path) -> None:
    async def work() -> None:
        time = Time()
        outbox = opened(tmp_path, time)
        await fill(outbox, "a:1")
        time.advance(10 * FARTHEST_TURN)
        turn = (await outbox.pull(1, 30))[0]
        await outbox.failed(turn, turn.rows[0], "no", time.now + 60)
        time.now -= 10 * FARTHEST_TURN
        assert await pulled(outbox) == {"a": ["1"]}
        await outbox.aclose()

    asyncio.run(work())


def test_an_attempt_that_failed_is_counted_and_said_in_short(tmp_path: Path) -> None:
    async def work() -> None:
        time = Time()
        outbox = opened(tmp_path, time)
        await fill(outbox, "a:1")
        for attempt in range(2):
            turn = (await outbox.pull(1, 30))[0]
            assert turn.rows[0].attempt_count == attempt
            await outbox.failed(turn, turn.rows[0], "x" * 2000, time.now + 5)
            assert await pulled(outbox) == {}
            time.advance(5)
        turn = (await outbox.pull(1, 30))[0]
        assert turn.rows[0].last_error == "x" * 512
        await outbox.bury(turn, turn.rows[0], "y" * 2000)
        (dead,) = await outbox.dead_letters()
        assert (dead.batch_id, dead.attempt_count, dead.last_error) == (turn.rows[0].batch_id, 3, "y" * 512)
        await outbox.aclose()

    asyncio.run(work())


def test_of_dead_letters_the_last_ones_are_kept_and_the_others_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_rows, "BURIED", 3)
    monkeypatch.setattr(outbox_rows, "BURIED_BYTES", 2000)

    async def work() -> list[list[str] | None]:
        outbox = opened(tmp_path)
        for size in (1, 1, 1, 1, 1900, 3000):
            await outbox.enqueue("a", [event(f"{size}-{(await outbox.status()).bytes}", "x" * size)])
        turn = (await outbox.pull(1, 30))[0]
        ids = [row.batch_id for row in turn.rows]
        dropped = [await outbox.bury(turn, row, "no") for row in turn.rows]
        assert [row.batch_id for row in await outbox.dead_letters()] == ids[-1:]
        await outbox.aclose()
        return [[str(ids.index(each)) for each in told or ()] for told in dropped]

    assert asyncio.run(work()) == [[], [], [], ["0"], ["3", "2", "1"], ["4"]]


class Outbox(RuleBasedStateMachine):
    """Everything that dispatchers and producers may do with an outbox, beside what should then be in it."""

    turns: Bundle[Turn] = Bundle("turns")

    @initialize()
    def begin(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.time = Time()
        self.waiting: dict[str, list[str]] = {}
        self.ended: set[tuple[str, str]] = set()
        self.dead = 0
        self.held: dict[str, tuple[str, float]] = {}
        self.later: dict[str, float] = {}
        self._open()

    def _open(self) -> None:
        path = Path(self._directory.name) / "o"
        self.file = SQLiteFile(path, SCHEMA, error=OutboxError)

    def rows(self, work: Callable[[OutboxRows], Any]) -> Any:
        with self.file.transaction() as db:
            return work(OutboxRows(db, OutboxLimits(), self.time))

    def teardown(self) -> None:
        if hasattr(self, "file"):
            self.file.close()
            self._directory.cleanup()

    @rule()
    def reopen(self) -> None:
        self.file.close()
        self._open()

    @rule(task=st.sampled_from("abc"), name=st.sampled_from("123456"))
    def give(self, task: str, name: str) -> None:
        self.rows(lambda rows: rows.add(f"{task}{name}", task, name))
        known = (task, name) in self.ended or name in self.waiting.get(task, [])
        if not known:
            self.waiting.setdefault(task, []).append(name)

    @rule(seconds=st.sampled_from([1.0, 20.0, 31.0]))
    def wait(self, seconds: float) -> None:
        self.time.advance(seconds)

    @rule(target=turns, tasks=st.integers(1, 3))
    def pull(self, tasks: int) -> Any:
        due = {task for task in self.waiting if self._due(task) <= self.time.now}
        turns: list[Turn] = self.rows(lambda rows: rows.pull(tasks, 30.0))
        assert len(turns) == min(tasks, len(due))
        for turn in turns:
            assert turn.platform_task_id in due
            assert [row.events_json for row in turn.rows] == self.waiting[turn.platform_task_id]
            self.held[turn.platform_task_id] = (turn.holder, turn.until)
            self.later.pop(turn.platform_task_id, None)
        return multiple(*turns)

    def _due(self, task: str) -> float:
        return self.held[task][1] if task in self.held else self.later.get(task, 0.0)

    def _has(self, turn: Turn) -> bool:
        return self.held.get(turn.platform_task_id, ("", 0))[0] == turn.holder

    def _done(self, row: Row) -> bool:
        names = self.waiting.get(row.platform_task_id, [])
        if row.events_json not in names:
            return False
        names.remove(row.events_json)
        self.ended.add((row.platform_task_id, row.events_json))
        if not names:
            for kept in (self.waiting, self.held, self.later):
                kept.pop(row.platform_task_id, None)  # type: ignore[attr-defined]
        return True

    @rule(turn=turns)
    def deliver(self, turn: Turn) -> None:
        self.rows(lambda rows: rows.delivered(turn.rows[0]))
        self._done(turn.rows[0])

    @rule(turn=turns)
    def deliver_all(self, turn: Turn) -> None:
        for row in turn.rows:
            self.rows(lambda rows, row=row: rows.delivered(row))
            self._done(row)

    @rule(turn=turns)
    def bury(self, turn: Turn) -> None:
        had = self._has(turn)
        dropped = self.rows(lambda rows: rows.bury(turn, turn.rows[0], "no"))
        buried = had and self._done(turn.rows[0])
        self.dead += buried
        assert dropped == ([] if buried else None)

    @rule(turn=turns, seconds=st.sampled_from([1.0, 60.0]))
    def fail(self, turn: Turn, seconds: float) -> None:
        self.rows(lambda rows: rows.failed(turn, turn.rows[0], "no", self.time.now + seconds))
        self._end(turn, self.time.now + seconds)

    @rule(turn=turns)
    def give_back(self, turn: Turn) -> None:
        self.rows(lambda rows: rows.give_back(turn))
        self._end(turn, self.time.now)

    def _end(self, turn: Turn, later: float) -> None:
        if self._has(turn):
            del self.held[turn.platform_task_id]
            self.later[turn.platform_task_id] = later

    @rule()
    def expedite(self) -> None:
        self.rows(lambda rows: rows.expedite())
        self.later.clear()

    @invariant()
    def all_is_there_and_counted(self) -> None:
        if not hasattr(self, "file"):
            return
        count = sum(map(len, self.waiting.values()))
        assert self.rows(lambda rows: rows.status()) == OutboxStatus(count, count, self.dead)
        assert (self.rows(lambda rows: rows.due()) is None) == (not self.waiting)
        turns = self.file.rows("SELECT platform_task_id FROM a2a_task_event_turns")
        assert {task for (task,) in turns} == set(self.waiting)


Outbox.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestOutbox = Outbox.TestCase
