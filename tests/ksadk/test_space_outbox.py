"""The event outbox keeps each batch once, within its limits."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from space_outbox import event, fill, names, opened, pulled

from ksadk.a2a.space import outbox_rows
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox
from ksadk.a2a.space.outbox_rows import (
    OutboxError,
    OutboxLimits,
    OutboxStatus,
)


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
