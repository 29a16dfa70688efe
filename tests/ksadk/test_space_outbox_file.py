"""The file of the event outbox: damaged, full, held by others, and used by several processes at once."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from space_outbox import event, fill, opened, pulled
from support import small_disk

from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox, event_outbox_path, events_of
from ksadk.a2a.space.outbox_rows import (
    SCHEMA,
    OutboxError,
)
from ksadk.a2a.stores import sqlite_file
from ksadk.a2a.stores.sqlite_file import SQLiteFile
from ksadk.settings import Settings


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
