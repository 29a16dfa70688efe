"""From names of databases to stores, and the smaller stores: sessions of contexts, and where runs go on."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from a2a.server.context import ServerCallContext
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore
from a2a.types import ListTasksRequest, Task, TaskState, TaskStatus
from sqlalchemy.ext.asyncio import create_async_engine

from ksadk.a2a import (
    A2AContextIdentity,
    A2AResumeState,
    InMemoryA2AResumeStateStore,
    ResumeTarget,
    RunHandle,
    SQLiteA2AContextStore,
    SQLiteA2AResumeStateStore,
    build_a2a_task_store,
)
from ksadk.a2a.stores.base import OwnerContext, Paused
from ksadk.a2a.stores.keeping import StoreError
from ksadk.a2a.stores.opening import open_stores
from ksadk.a2a.stores.tasks import SQLiteTaskStore

ANN = OwnerContext(owner="ann")


def task(task_id: str, state: TaskState = TaskState.TASK_STATE_WORKING) -> Task:
    return Task(id=task_id, context_id="c", status=TaskStatus(state=state))


@pytest.mark.parametrize(
    ("dsn", "file"),
    [
        ("sqlite:///t.db", "project/t.db"),
        ("sqlite+aiosqlite:///.agentengine/t.db", "project/.agentengine/t.db"),
        ("sqlite:///{tmp}/deep/er/t.db", "deep/er/t.db"),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
    ],
)
def test_a_dsn_of_sqlite_is_a_file_in_the_project_or_where_it_says(
    tmp_path: Path, dsn: str, file: str | None
) -> None:
    before = set(tmp_path.rglob("*"))
    stores = open_stores(dsn.format(tmp=tmp_path), directory=tmp_path / "project")

    async def use() -> None:
        await stores.tasks.save(task("t"), ANN)
        assert await stores.tasks.get("t", ANN) == task("t")
        await stores.aclose()

    asyncio.run(use())
    assert isinstance(stores.tasks, SQLiteTaskStore)
    made = {path for path in set(tmp_path.rglob("*")) - before if path.is_file()}
    lock = [] if file is None else [f"{file}.lock"]
    assert sorted(str(path.relative_to(tmp_path)) for path in made) == sorted([*filter(None, [file]), *lock])


@pytest.mark.parametrize(
    ("dsn", "code"),
    [
        ("", "invalid_dsn"),
        ("tasks.db", "invalid_dsn"),
        ("sqlite://tasks.db", "invalid_dsn"),
        ("nosuch+driver://u:secret@h/d", "invalid_dsn"),
        ("mysql+aiomysql://u:secret@h/d", "extra_not_installed"),
    ],
)
def test_what_is_no_dsn_is_told_without_its_password(tmp_path: Path, dsn: str, code: str) -> None:
    for build in (open_stores, build_a2a_task_store):
        with pytest.raises(StoreError) as failed:
            build(dsn)
        assert failed.value.code == code
        assert "secret" not in f"{failed.value.message}{failed.value.hint}"


def test_another_database_without_the_extra_names_the_extra(tmp_path: Path) -> None:
    script = """
import sys
sys.modules["sqlalchemy"] = None
from ksadk.a2a.stores.keeping import StoreError
from ksadk.a2a.stores.opening import build_a2a_task_store, open_stores
build_a2a_task_store("sqlite:///t.db")
for build in (open_stores, build_a2a_task_store):
    try:
        build("postgresql+asyncpg://u:p@h/d")
    except StoreError as error:
        print(error.code, error.hint)
"""
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == "extra_not_installed pip install 'agentengine-cli[sql]'\n" * 2


def test_stores_in_another_database_keep_the_same_things(tmp_path: Path) -> None:
    dsn = f"sqlite+aiosqlite:///{tmp_path}/t.db?timeout=5"  # with options, it is SQLAlchemy's to open
    asking = Paused("t", "c", "ann", "approval", "apr_1", {"thread": "x"})

    async def first() -> None:
        stores = open_stores(dsn)
        assert isinstance(stores.tasks, DatabaseTaskStore)
        assert await stores.pauses.waiting() == []
        await stores.tasks.save(task("t"), ANN)
        await stores.tasks.save(task("d", TaskState.TASK_STATE_COMPLETED), ANN)
        await stores.pauses.save(Paused("t", "c", "ann", "question"))
        await stores.pauses.save(asking)
        await stores.aclose()

    async def second() -> None:
        stores = open_stores(dsn)
        (left,) = await stores.unfinished()
        assert (left.owner, left.task) == ("ann", task("t"))
        left.task.status.state = TaskState.TASK_STATE_FAILED
        await stores.tasks.save(left.task, left.context)
        assert await stores.unfinished() == []
        assert await stores.pauses.waiting() == [asking]
        assert await stores.pauses.get("t") == asking
        await stores.pauses.delete("t")
        assert await stores.pauses.get("t") is None
        await stores.aclose()

    asyncio.run(first())
    asyncio.run(second())
    with sqlite3.connect(tmp_path / "t.db") as db:
        assert {"ksadk_a2a_tasks", "ksadk_a2a_pauses"} <= {
            name for (name,) in db.execute("SELECT name FROM sqlite_schema")
        }


def test_a_database_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    async def look() -> None:
        stores = open_stores("postgresql+asyncpg://user:secret@127.0.0.1:1/tasks")
        with pytest.raises(StoreError) as failed:
            await stores.unfinished()
        assert "secret" not in failed.value.message
        with pytest.raises(StoreError):
            await stores.pauses.waiting()
        await stores.aclose()

    asyncio.run(look())


def test_a_task_store_is_built_from_nothing_a_dsn_or_an_engine(tmp_path: Path) -> None:
    async def build() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/engine.db")
        stores: list[tuple[Any, type]] = [
            (build_a2a_task_store(), InMemoryTaskStore),
            (build_a2a_task_store(f"sqlite:///{tmp_path}/t.db"), SQLiteTaskStore),
            (build_a2a_task_store(f"sqlite:///{tmp_path}/t.db", table_name="others"), SQLiteTaskStore),
            (build_a2a_task_store(engine=engine), DatabaseTaskStore),
            (build_a2a_task_store(engine=engine), DatabaseTaskStore),
            (build_a2a_task_store(engine=engine, table_name="others"), DatabaseTaskStore),
        ]
        for number, (store, kind) in enumerate(stores):
            assert isinstance(store, kind)
            await store.save(task(f"t{number}"), ANN)
        kept = [(await store.list(ListTasksRequest(), ANN)).tasks for store, _ in stores]
        assert [[each.id for each in tasks] for tasks in kept] == [
            ["t0"], ["t1"], ["t2"], ["t4", "t3"], ["t4", "t3"], ["t5"],
        ]  # fmt: skip
        await engine.dispose()

    asyncio.run(build())


def test_a_resolver_of_ones_own_says_whose_a_task_is(tmp_path: Path) -> None:
    async def use() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/engine.db")
        for name in ({}, {"dsn": f"sqlite:///{tmp_path}/t.db"}, {"engine": engine}):
            store = build_a2a_task_store(**name, owner_resolver=lambda call: call.tenant)
            await store.save(task("t"), OwnerContext(owner="acme"))
            assert await store.get("t", ServerCallContext(tenant="acme")) == task("t")
            assert await store.get("t", ServerCallContext(tenant="other")) is None
        await engine.dispose()

    asyncio.run(use())


def test_without_create_table_nothing_is_made(tmp_path: Path) -> None:
    async def use() -> None:
        store = build_a2a_task_store(f"sqlite:///{tmp_path}/t.db", create_table=False)
        with pytest.raises(StoreError, match="no such table"):
            await store.save(task("t"), ANN)
        build_a2a_task_store(f"sqlite:///{tmp_path}/t.db")
        await store.save(task("t"), ANN)

    asyncio.run(use())


IDENTITY = A2AContextIdentity("acme", "tenant-1", "user", "ann-principal")


def test_a_context_has_one_session_for_each_caller_and_scope(tmp_path: Path) -> None:
    path = tmp_path / "state" / "contexts.db"
    store = SQLiteA2AContextStore(path)

    async def use() -> str:
        await store.initialize()
        assert await store.get(IDENTITY, "their-context") is None
        sessions = await asyncio.gather(
            *(store.resolve_or_create(IDENTITY, "their-context") for _ in range(8)),
        )
        assert len(set(sessions)) == 1
        others = [
            await store.resolve_or_create(IDENTITY, "their-context", isolation_scope="x"),
            await store.resolve_or_create(IDENTITY, "other-context"),
            await store.resolve_or_create(
                A2AContextIdentity("acme", "", "user", "ann-principal"), "their-context"
            ),
            await store.resolve_or_create(
                A2AContextIdentity("acme", "tenant-1", "user", "bob"), "their-context"
            ),
            await store.resolve_or_create(
                A2AContextIdentity("acmet", "enant-1", "user", "bob"), "their-context"
            ),
        ]
        assert len({sessions[0], *others}) == 6
        return sessions[0]

    session = asyncio.run(use())
    prefix, _, random = session.rpartition("-")
    assert prefix == "a2a-session"
    assert len(bytes.fromhex(random)) == 16
    assert asyncio.run(SQLiteA2AContextStore(path).get(IDENTITY, "their-context")) == session
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    on_disk = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert not [
        name for name in (b"acme", b"tenant-1", b"ann-principal", b"their-context") if name in on_disk
    ]


def test_resume_states_come_back_by_a_key_that_is_not_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "resume.db"
    state = A2AResumeState(
        RunHandle("run-1", "session-1", "langgraph", {"checkpoint": ["a", 1]}),
        ResumeTarget("checkpoint", "c-1"),
        "approval_decision",
        call_id="call-1",
    )

    async def use(store: SQLiteA2AResumeStateStore | InMemoryA2AResumeStateStore, again: Any) -> None:
        await store.initialize()
        await store.put("ann/their-task", A2AResumeState(state.handle, state.target, "free_text"))
        await store.put("ann/their-task", state)
        assert await again.get("ann/their-task") == state
        assert await again.get("ann/other") is None
        await store.delete("ann/their-task")
        await store.delete("ann/their-task")
        assert await again.get("ann/their-task") is None

    memory = InMemoryA2AResumeStateStore()
    asyncio.run(use(memory, memory))
    asyncio.run(use(SQLiteA2AResumeStateStore(path), SQLiteA2AResumeStateStore(path)))
    asyncio.run(SQLiteA2AResumeStateStore(path).put("ann/their-task", state))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"their-task" not in b"".join(file.read_bytes() for file in tmp_path.glob("resume.db*"))
