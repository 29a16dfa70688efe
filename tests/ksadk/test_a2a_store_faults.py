"""The store of tasks when its file is full, locked, broken or not its own: that is told."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from a2a.types import Task, TaskState, TaskStatus
from support import small_disk, unprivileged

from ksadk.a2a.stores import sqlite_file
from ksadk.a2a.stores.base import OwnerContext
from ksadk.a2a.stores.keeping import StoreError
from ksadk.a2a.stores.opening import SQLiteStores, build_a2a_task_store, open_stores

ANN = OwnerContext(owner="ann")


def task(task_id: str, size: int = 0) -> Task:
    made = Task(id=task_id, status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED))
    made.metadata.update({"filling": "x" * size})
    return made


def opened(path: Path) -> SQLiteStores:
    return SQLiteStores(path, "normal", None)


def test_a_full_disk_fails_the_save_and_keeps_what_was_saved(tmp_path: Path) -> None:
    place = tmp_path / "disk"

    async def work() -> list[str]:
        stores = opened(place / "t.db")
        saved: list[str] = []
        with pytest.raises(StoreError, match="full") as failed:
            for number in range(1000):
                await stores.tasks.save(task(str(number), 20_000), ANN)
                saved.append(str(number))
        assert failed.value.code == "task_store_unavailable"
        assert await stores.tasks.get(str(len(saved)), ANN) is None
        await stores.aclose()
        return saved

    with small_disk(place):
        saved = asyncio.run(work())
        assert len(saved) > 5
        again = opened(place / "t.db")
        for name in saved:
            assert asyncio.run(again.tasks.get(name, ANN)) == task(name, 20_000)
        asyncio.run(again.aclose())


def test_every_save_of_a_turn_that_was_not_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.05)
    stores = opened(tmp_path / "t.db")
    other = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def work() -> None:
        saves = (stores.tasks.save(task(str(number)), ANN) for number in range(3))
        told = await asyncio.gather(*saves, return_exceptions=True)
        assert [type(each) for each in told] == [StoreError] * 3
        assert "locked" in str(told[0])
        other.execute("COMMIT")
        await stores.tasks.save(task("later"), ANN)
        assert await stores.tasks.get("later", ANN) is not None
        assert await stores.tasks.get("0", ANN) is None

    asyncio.run(work())
    other.close()
    asyncio.run(stores.aclose())


def test_a_save_waits_for_another_program_that_writes_for_a_moment(tmp_path: Path) -> None:
    stores = opened(tmp_path / "t.db")
    script = "import sqlite3, sys, time; db = sqlite3.connect(sys.argv[1], isolation_level=None); "
    script += (
        "db.execute('BEGIN IMMEDIATE'); print('has it', flush=True); time.sleep(0.3); db.execute('COMMIT')"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "t.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "has it\n"
        asyncio.run(stores.tasks.save(task("t"), ANN))
    assert asyncio.run(stores.tasks.get("t", ANN)) == task("t")
    asyncio.run(stores.aclose())


def test_a_save_after_the_end_is_told(tmp_path: Path) -> None:
    stores = opened(tmp_path / "t.db")
    asyncio.run(stores.aclose())
    with pytest.raises(StoreError):
        asyncio.run(stores.tasks.save(task("t"), ANN))
    with pytest.raises(StoreError):
        asyncio.run(stores.tasks.get("t", ANN))


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE ksadk_a2a_tasks (id TEXT PRIMARY KEY, status JSON)")


def newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database at all" * 300)


def directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (foreign, "the database of another program"),
        (newer, "a newer version"),
        (garbage, "not a database"),
        (directory, "unable to open"),
    ],
)
def test_a_file_that_is_no_store_of_ours_is_told_and_left_as_it_is(
    tmp_path: Path, made: object, said: str
) -> None:
    path = tmp_path / "t.db"
    assert callable(made)
    made(path)
    before = path.read_bytes() if path.is_file() else None
    for _ in range(2):  # the lock is let go
        with pytest.raises(StoreError, match=said) as failed:
            opened(path)
        assert failed.value.code == "task_store_unavailable"
        assert failed.value.hint
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_task_that_was_damaged_is_told(tmp_path: Path) -> None:
    stores = opened(tmp_path / "t.db")
    asyncio.run(stores.tasks.save(task("t"), ANN))
    with sqlite3.connect(tmp_path / "t.db") as db:
        db.execute("UPDATE ksadk_a2a_tasks SET task = x'ffffff'")
    with pytest.raises(StoreError, match="damaged"):
        asyncio.run(stores.tasks.get("t", ANN))
    asyncio.run(stores.aclose())


def test_pages_that_were_overwritten_are_told(tmp_path: Path) -> None:
    stores = opened(tmp_path / "t.db")

    async def fill() -> None:
        await asyncio.gather(*(stores.tasks.save(task(str(number), 3000), ANN) for number in range(50)))
        await stores.aclose()

    asyncio.run(fill())
    whole = (tmp_path / "t.db").read_bytes()
    (tmp_path / "t.db").write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))

    async def use() -> None:
        broken = opened(tmp_path / "t.db")
        try:
            await broken.tasks.save(task("new"), ANN)
        finally:
            await broken.aclose()

    with pytest.raises(StoreError, match="malformed"):
        asyncio.run(use())


SECOND = """
import sys
from pathlib import Path
from ksadk.a2a.stores.keeping import StoreError
from ksadk.a2a.stores.opening import open_stores
try:
    open_stores("sqlite:///t.db", directory=Path(sys.argv[1]))
except StoreError as error:
    print(error.code)
else:
    print("opened")
"""


def second(directory: Path) -> str:
    """What another process says that opens the same stores."""
    command = [sys.executable, "-c", SECOND, str(directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


def test_a_second_server_on_one_file_is_refused(tmp_path: Path) -> None:
    stores = open_stores("sqlite:///t.db", directory=tmp_path)
    assert second(tmp_path) == "task_store_in_use\n"
    with pytest.raises(StoreError) as refused:
        open_stores("sqlite+aiosqlite:///t.db", directory=tmp_path)
    assert refused.value.code == "task_store_in_use"
    assert second(tmp_path) == "task_store_in_use\n"  # the refused one took nothing away
    asyncio.run(stores.aclose())
    assert second(tmp_path) == "opened\n"


def test_a_link_to_the_file_is_the_same_file(tmp_path: Path) -> None:
    stores = open_stores("sqlite:///t.db", directory=tmp_path)
    (tmp_path / "link.db").symlink_to("t.db")
    with pytest.raises(StoreError) as refused:
        open_stores("sqlite:///link.db", directory=tmp_path)
    assert refused.value.code == "task_store_in_use"
    asyncio.run(stores.aclose())


FORKING = """
import os, sys, time
from pathlib import Path
from ksadk.a2a.stores.opening import open_stores
stores = open_stores("sqlite:///t.db", directory=Path(sys.argv[1]))
child = os.fork()
if child == 0:
    time.sleep(60)
print(child, flush=True)
os._exit(0)
"""


def test_what_an_agent_forked_does_not_keep_the_next_server_out(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        child = int(first.stdout.readline())
        try:
            first.wait(timeout=30)
            asyncio.run(open_stores("sqlite:///t.db", directory=tmp_path).aclose())
        finally:
            os.kill(child, signal.SIGKILL)


def test_several_processes_may_use_a_task_store_that_no_server_has(tmp_path: Path) -> None:
    dsn = f"sqlite:///{tmp_path}/t.db"
    script = """
import asyncio, sys
from a2a.types import Task
from ksadk.a2a.stores.base import OwnerContext
from ksadk.a2a.stores.opening import build_a2a_task_store
async def main(dsn, name):
    store = build_a2a_task_store(dsn)
    for number in range(100):
        await store.save(Task(id=f"{name}{number}"), OwnerContext(owner="ann"))
asyncio.run(main(*sys.argv[1:]))
"""
    writers = [subprocess.Popen([sys.executable, "-c", script, dsn, name]) for name in "abc"]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    store = build_a2a_task_store(dsn)
    for name in "abc":
        for number in range(100):
            assert asyncio.run(store.get(f"{name}{number}", ANN)) is not None


def test_a_directory_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    script = SECOND.replace("sqlite:///t.db", "sqlite:///locked/t.db")
    said = subprocess.run(
        [*unprivileged(), sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert said.stdout == "task_store_unavailable\n", said.stderr
