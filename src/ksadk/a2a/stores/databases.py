"""Tasks and what they wait for, in any database that SQLAlchemy drives: the extra `sql`."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from a2a.server.models import create_task_model
from a2a.server.owner_resolver import OwnerResolver
from a2a.server.tasks import DatabaseTaskStore, TaskStore
from a2a.types import TaskState
from sqlalchemy import Column, Integer, MetaData, Select, String, Table, Text, delete, insert, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import DeclarativeBase

from ksadk.a2a.stores.base import TASK_TABLE, Owned, Paused, PauseStore, owner_resolver_of
from ksadk.a2a.stores.keeping import StoreError

_PAUSES = Table(
    "ksadk_a2a_pauses",
    MetaData(),
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("task_id", String(256), nullable=False, unique=True),
    Column("context_id", String(256), nullable=False),
    Column("owner", String(256), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("request_id", String(256), nullable=False),
    Column("state", Text, nullable=True),
)
_KEPT = select(*(column for column in _PAUSES.columns if column.name != "number"))


def task_store(
    engine: AsyncEngine, table_name: str, owner_resolver: OwnerResolver | None, create_table: bool
) -> DatabaseTaskStore:
    """The SDK's store in `engine`, which the caller disposes of."""
    store = DatabaseTaskStore(
        engine, create_table=create_table, owner_resolver=owner_resolver_of(owner_resolver)
    )
    store.task_model = _model(table_name)
    return store


def engine_of(dsn: str) -> AsyncEngine:
    """An engine for `dsn`, which is not shown in what is raised: it may hold a password."""
    try:
        return create_async_engine(dsn)
    except SQLAlchemyError as error:
        raise StoreError(
            "this is not the name of a database that tasks can be kept in",
            code="invalid_dsn",
            hint="One is postgresql+asyncpg://USER:PASSWORD@HOST/NAME; the driver must be asynchronous.",
        ) from error
    except ImportError as error:
        raise StoreError(
            f"the driver of that database is not installed: {error.name}",
            code="extra_not_installed",
            hint="pip install 'agentengine-cli[sql]' has that of postgresql+asyncpg://...",
        ) from error


class GivenDatabaseStores:
    """The stores around a task store of the SDK's, whose engine its maker disposes of."""

    def __init__(self, tasks: DatabaseTaskStore) -> None:
        self._tasks = tasks
        self.tasks: TaskStore = tasks
        self.pauses: PauseStore = DatabasePauseStore(tasks.engine)

    async def unfinished(self) -> list[Owned]:
        """The tasks that are SUBMITTED or WORKING."""
        model = self._tasks.task_model
        states = [TaskState.Name(state) for state in (1, 2)]
        query = (
            select(model).where(model.status["state"].as_string().in_(states)).order_by(model.last_updated)
        )
        async with _told():
            await self._tasks.initialize()
            async with self._tasks.async_session_maker() as session:
                found = (await session.execute(query)).scalars().all()
        return [Owned(self._tasks._from_orm(row), row.owner) for row in found]

    async def aclose(self) -> None:
        """Nothing is ours to close."""


class DatabaseStores(GivenDatabaseStores):
    """The stores of one server in one database."""

    def __init__(self, dsn: str, owner_resolver: OwnerResolver | None) -> None:
        super().__init__(task_store(engine_of(dsn), TASK_TABLE, owner_resolver, create_table=True))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._tasks.engine.dispose()


class DatabasePauseStore:
    """What tasks wait for, beside the tasks, so that a server on another machine finds it too."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._made = False

    async def save(self, paused: Paused) -> None:
        """Keep what a task waits for, instead of what it waited for before."""
        values = asdict(paused) | {"state": None if paused.state is None else json.dumps(paused.state)}
        await self._make()
        async with _told(), self._engine.begin() as db:
            await db.execute(delete(_PAUSES).where(_PAUSES.c.task_id == paused.task_id))
            await db.execute(insert(_PAUSES).values(values))

    async def get(self, task_id: str) -> Paused | None:
        """What a task waits for."""
        found = await self._found(_KEPT.where(_PAUSES.c.task_id == task_id))
        return found[0] if found else None

    async def delete(self, task_id: str) -> None:
        """Forget what a task waited for, if anything."""
        await self._make()
        async with _told(), self._engine.begin() as db:
            await db.execute(delete(_PAUSES).where(_PAUSES.c.task_id == task_id))

    async def waiting(self) -> list[Paused]:
        """Every pause that is kept, the oldest first."""
        return await self._found(_KEPT.order_by(_PAUSES.c.number))

    async def _found(self, query: Select[Any]) -> list[Paused]:
        await self._make()
        async with _told(), self._engine.connect() as db:
            rows = (await db.execute(query)).mappings().all()
        return [
            Paused(**{**row, "state": None if row["state"] is None else json.loads(row["state"])})
            for row in rows
        ]

    async def _make(self) -> None:
        if not self._made:
            async with _told(), self._engine.begin() as db:
                await db.run_sync(_PAUSES.metadata.create_all)
            self._made = True


@contextlib.asynccontextmanager
async def _told() -> AsyncIterator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        raise StoreError(f"the task store cannot be used: {error}") from error


@functools.cache
def _model(table_name: str) -> type:
    """The SDK's table under another name, which it makes once for each name and set of tables."""
    return create_task_model(table_name, type("Tables", (DeclarativeBase,), {}))
