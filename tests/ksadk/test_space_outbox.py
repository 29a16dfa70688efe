"""The event outbox keeps batches in order, once each, within its limits, and lets one at a time send them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from space_outbox import Time, event, fill, opened
from support import small_disk

from ksadk.a2a.space import outbox_rows
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox, event_outbox_path, events_of
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
from ksadk.a2a.stores import sqlite_file
from ksadk.a2a.stores.sqlite_file import SQLiteFile
from ksadk.settings import Settings


async def pulled(outbox: SQLiteA2AEventOutbox, tasks: int = 8) -> dict[str, list[str]]:
    """The tasks whose turns can be taken, and the names of the events in their batches."""
    return {turn.platform_task_id: names(turn.rows) for turn in await outbox.pull(tasks, 30)}


def names(rows: tuple[Row, ...]) -> list[str]:
    return ["+".join(event.source_event_id for event in events_of(row)) for row in rows]


def rows_of(path: Path, query: str) -> list[Any]:
    with sqlite3.connect(path) as db:
        return db.execute(query).fetchall()


def test_a_batch_has_the_id_of_its_task_and_its_json(tmp_path: Path) -> None:
    async def work() -> str:
        outbox = opened(tmp_path)
        batch_id = await outbox.enqueue("task-1", [event("e1", "é")])
        await outbox.aclose()
        return batch_id

    text = (
        '[{"EventKind":"status","OccurredAt":"2026-01-01T00:00:00.000Z","Payload":{"message":{"parts":'
        '[{"text":"é"}]}},"SourceEventId":"e1","Status":"working"}]'
    )
    digest = hashlib.sha256(f"task-1:{text}".encode()).hexdigest()
    assert asyncio.run(work()) == f"a2a-event-batch-{digest}"
    columns = "sequence, batch_id, platform_task_id, events_json, created_at, attempt_count, last_error"
    found = rows_of(tmp_path / "outbox.sqlite3", f"SELECT {columns} FROM a2a_task_event_outbox")
    assert found == [(1, f"a2a-event-batch-{digest}", "task-1", text, 0.0, 0, "")]


def test_the_file_is_for_its_owner_alone_and_written_through_to_the_disk(tmp_path: Path) -> None:
    async def work() -> tuple[Any, ...]:
        outbox = opened(tmp_path / "made")
        await outbox.initialize()
        file = outbox._file
        assert file is not None
        modes = {stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "made").iterdir()}
        pragmas = tuple(file.rows(f"PRAGMA {name}")[0][0] for name in ("journal_mode", "synchronous"))
        await outbox.aclose()
        return modes, stat.S_IMODE((tmp_path / "made").stat().st_mode), pragmas

    full = 2
    assert asyncio.run(work()) == ({0o600}, 0o700, ("wal", full))


def test_a_batch_given_again_is_one_while_it_waits_when_it_is_dead_and_when_it_was_delivered(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        outbox = opened(tmp_path)
        first = await fill(outbox, "a:1", "a:2", "b:1")
        assert await fill(outbox, "a:1", "a:2", "b:1") == first
        assert (await outbox.status()).batches == 3
        turns = {turn.platform_task_id: turn for turn in await outbox.pull(8, 30)}
        await outbox.delivered(turns["a"].rows[0])
        await outbox.bury(turns["b"], turns["b"].rows[0], "refused")
        await outbox.aclose()
        outbox = opened(tmp_path)
        assert await fill(outbox, "a:1", "a:2", "b:1") == first
        status = await outbox.status()
        assert (status.batches, status.dead_letters) == (1, 1)
        await outbox.aclose()

    asyncio.run(work())


def test_the_same_events_of_another_task_are_another_batch(tmp_path: Path) -> None:
    async def work() -> None:
        outbox = opened(tmp_path)
        assert len(set(await fill(outbox, "a:1", "b:1"))) == 2
        assert await pulled(outbox) == {"a": ["1"], "b": ["1"]}
        await outbox.aclose()

    asyncio.run(work())


def test_what_is_delivered_leaves_nothing_but_a_bounded_memory_of_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_rows, "REMEMBERED", 20)

    async def work() -> None:
        outbox = opened(tmp_path)
        items = [f"t{number % 7}:{number}" for number in range(300)]
        await asyncio.gather(*(fill(outbox, item) for item in items))
        while turns := await outbox.pull(8, 30):
            for turn in turns:
                for row in turn.rows:
                    await outbox.delivered(row)
                    last = f"{row.platform_task_id}:{names((row,))[0]}"
                await outbox.give_back(turn)
        assert await outbox.status() == OutboxStatus(0, 0, 0)
        assert await outbox.due() is None
        await fill(outbox, last, items[0])
        assert (await outbox.status()).batches == 1  # the first one has been forgotten
        await outbox.aclose()

    asyncio.run(work())
    counts = [
        rows_of(tmp_path / "outbox.sqlite3", f"SELECT count(*) FROM {table}")[0][0]
        for table in ("a2a_task_event_delivered", "a2a_task_event_turns", "sqlite_sequence")
    ]
    assert counts == [20, 1, 1]


@pytest.mark.parametrize(
    ("limits", "kept"), [(OutboxLimits(batches=3), 3), (OutboxLimits(bytes=400), 2)], ids=["batches", "bytes"]
)
def test_beyond_its_limits_it_tells_the_producer_and_takes_more_once_there_is_room(
    tmp_path: Path, limits: OutboxLimits, kept: int
) -> None:
    async def work() -> None:
        outbox = SQLiteA2AEventOutbox(tmp_path / "o", limits=limits)
        for number in range(kept):
            await fill(outbox, f"a:{number}")
        for _ in range(2):
            with pytest.raises(OutboxError) as full:
                await fill(outbox, "a:more")
            assert (full.value.code, full.value.kind) == ("event_outbox_full", "unavailable")
        await fill(outbox, "a:0")  # which is kept already
        turn = (await outbox.pull(1, 30))[0]
        assert len(turn.rows) == kept
        await outbox.delivered(turn.rows[0])
        await fill(outbox, "a:more")
        await outbox.aclose()

    asyncio.run(work())


def test_one_that_does_not_fit_takes_no_other_with_it_that_came_at_the_same_time(tmp_path: Path) -> None:
    async def work() -> list[bool]:
        outbox = SQLiteA2AEventOutbox(tmp_path / "o", limits=OutboxLimits(batches=2))
        items = ("a:1", "b:1", "c:1", "a:1")
        told = await asyncio.gather(*(fill(outbox, item) for item in items), return_exceptions=True)
        await outbox.aclose()
        return [isinstance(each, OutboxError) for each in told]

    assert asyncio.run(work()) == [False, False, True, False]


BAD: dict[str, list[TaskEvent]] = {
    "none": [],
    "no number": [TaskEvent("e", "status", {"a": float("nan")}, "t")],
    "half a character": [event("e", "\ud800")],
    "no JSON": [TaskEvent("e", "status", {"a": object()}, "t")],
    "too large": [event("e", "x" * 5000)],
}


@pytest.mark.parametrize("events", BAD.values(), ids=BAD)
def test_events_that_cannot_be_kept_are_refused(tmp_path: Path, events: list[TaskEvent]) -> None:
    async def work() -> None:
        outbox = SQLiteA2AEventOutbox(tmp_path / "o", limits=OutboxLimits(batch_bytes=4000))
        with pytest.raises(OutboxError) as refused:
            await outbox.enqueue("a", events)
        assert refused.value.code == "invalid_event_batch"
        assert (await outbox.status()).batches == 0
        await outbox.aclose()

    asyncio.run(work())


def test_one_who_is_cancelled_while_the_disk_works_takes_nothing_from_the_others(tmp_path: Path) -> None:
    async def work() -> None:
        outbox = opened(tmp_path)
        asked = [asyncio.create_task(fill(outbox, f"a:{number}")) for number in range(3)]
        await asyncio.sleep(0)
        asked[1].cancel()
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(each, asyncio.CancelledError) for each in told] == [False, True, False]
        assert (await pulled(outbox))["a"][::2] == ["0", "2"]
        await outbox.aclose()

    asyncio.run(work())


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


def test_a_batch_that_was_damaged_is_told(tmp_path: Path) -> None:
    async def work() -> None:
        outbox = opened(tmp_path)
        await fill(outbox, "a:1")
        with sqlite3.connect(tmp_path / "outbox.sqlite3") as db:
            db.execute("UPDATE a2a_task_event_outbox SET events_json = ?", (json.dumps([{"EventKind": 1}]),))
        turn = (await outbox.pull(1, 30))[0]
        with pytest.raises(OutboxError, match="damaged") as told:
            events_of(turn.rows[0])
        assert told.value.code == "invalid_event_batch"
        await outbox.aclose()

    asyncio.run(work())


def newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database at all" * 300)


@pytest.mark.parametrize(
    ("made", "said"),
    [(newer, "a newer version"), (garbage, "not a database"), (Path.mkdir, "unable to open")],
)
def test_a_file_that_is_no_outbox_is_told_and_left_as_it_is(
    tmp_path: Path, made: Callable[[Path], None], said: str
) -> None:
    path = tmp_path / "o"
    made(path)
    before = path.read_bytes() if path.is_file() else None

    async def work() -> None:
        outbox = SQLiteA2AEventOutbox(path)
        with pytest.raises(OutboxError, match=said) as told:
            await fill(outbox, "a:1")
        assert told.value.code == "event_outbox_unavailable"
        await outbox.aclose()

    asyncio.run(work())
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_full_disk_fails_the_batch_and_keeps_those_before(tmp_path: Path) -> None:
    async def work() -> None:
        outbox = opened(tmp_path / "disk")
        kept = []
        with pytest.raises(OutboxError, match="full"):
            for number in range(1000):
                await outbox.enqueue("a", [event(str(number), "x" * 20_000)])
                kept.append(str(number))
        await outbox.aclose()
        outbox = opened(tmp_path / "disk")
        assert len(kept) > 5
        assert (await outbox.status()).batches == len(kept)
        await outbox.aclose()

    with small_disk(tmp_path / "disk"):
        asyncio.run(work())


def test_a_file_that_another_program_holds_is_told_to_all_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.05)

    async def work() -> None:
        outbox = opened(tmp_path)
        await outbox.initialize()
        other = sqlite3.connect(tmp_path / "outbox.sqlite3", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        told = await asyncio.gather(fill(outbox, "a:1"), fill(outbox, "b:1"), return_exceptions=True)
        assert [type(each) for each in told] == [OutboxError] * 2
        other.execute("COMMIT")
        other.close()
        await fill(outbox, "a:1")
        assert await pulled(outbox) == {"a": ["1"]}
        await outbox.aclose()

    asyncio.run(work())


def test_an_outbox_that_was_closed_takes_nothing_more(tmp_path: Path) -> None:
    async def work() -> None:
        outbox = opened(tmp_path)
        asked = asyncio.create_task(fill(outbox, "a:1"))
        await asyncio.sleep(0)
        await outbox.aclose()
        await outbox.aclose()
        await asked  # what was asked for before is done
        with pytest.raises(OutboxError, match="closed"):
            await fill(outbox, "a:2")

    asyncio.run(work())


@pytest.mark.parametrize(
    ("set_to", "where"),
    [
        (None, "project/.agentengine/a2a_event_outbox.sqlite3"),
        ("state/o.sqlite3", "project/state/o.sqlite3"),
        ("/var/o.sqlite3", "/var/o.sqlite3"),
    ],
)
def test_where_the_file_is(set_to: str | None, where: str) -> None:
    environ = {} if set_to is None else {"KSADK_A2A_EVENT_OUTBOX_PATH": set_to}
    assert event_outbox_path(Settings.from_env(environ), Path("project")) == Path(where)


FILLING = """
import asyncio, sys
from pathlib import Path
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox
async def main(path, name):
    outbox = SQLiteA2AEventOutbox(path)
    for number in range(25):
        await outbox.enqueue(f"{name}{number % 2}", [TaskEvent(str(number), "status", {}, "t")])
    await outbox.aclose()
print(flush=True)
sys.stdin.readline()
asyncio.run(main(*sys.argv[1:]))
"""


def test_processes_that_make_and_fill_it_at_the_same_moment_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "o"
    command = [sys.executable, "-c", FILLING, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    fillers = [subprocess.Popen([*command, name], **pipes) for name in "abc"]  # type: ignore[call-overload]
    for each in fillers:
        each.stdout.readline()
    for each in fillers:
        each.stdin.write(b"\n")
        each.stdin.flush()
    assert [each.wait(60) for each in fillers] == [0, 0, 0]
    for each in fillers:
        each.communicate()

    async def found() -> dict[str, list[str]]:
        outbox = SQLiteA2AEventOutbox(path)
        tasks = await pulled(outbox)
        await outbox.aclose()
        return tasks

    halves = [[str(n) for n in range(25) if n % 2 == side] for side in (0, 1)]
    wanted = {f"{name}{side}": halves[side] for name in "abc" for side in (0, 1)}
    assert asyncio.run(found()) == wanted


def test_those_who_make_it_at_the_same_moment_each_get_it(tmp_path: Path) -> None:
    at_once = threading.Barrier(6)

    def make(path: Path) -> None:
        at_once.wait()
        SQLiteFile(path, SCHEMA, error=OutboxError).close()

    with ThreadPoolExecutor(6) as pool:
        for number in range(20):
            list(pool.map(make, [tmp_path / str(number)] * 6))


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
