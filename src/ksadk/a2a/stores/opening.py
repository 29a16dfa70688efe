"""From the name of a database to the stores in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from a2a.server.owner_resolver import OwnerResolver
from a2a.server.tasks import InMemoryTaskStore, TaskStore

from ksadk.a2a.stores import pauses, tasks
from ksadk.a2a.stores.base import (
    TASK_TABLE,
    Owned,
    PauseStore,
    Stores,
    owner_resolver_of,
)
from ksadk.a2a.stores.keeping import Durability, StoreError
from ksadk.a2a.stores.server_lock import ServerLock
from ksadk.a2a.stores.sqlite_file import SQLiteFile

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

PROGRESS_SECONDS = 0.1
"""Within which a server has written what a task that is at work has said."""

_SQLITE = ("sqlite", "sqlite+aiosqlite")


def open_stores(
    dsn: str,
    *,
    directory: Path | None = None,
    durability: Durability = "normal",
    owner_resolver: OwnerResolver | None = None,
) -> Stores:
    """The stores of one server in the database `dsn`, as SQLAlchemy writes it.

    sqlite:///FILE is a file of ours, which one server at a time has; a relative one is in `directory`, else
    in the current one. `durability` is about such files; other databases are as durable as they are set up
    to be. Raises `StoreError`, codes `invalid_dsn`, `extra_not_installed`, `task_store_in_use` and
    `task_store_unavailable`.
    """
    name = file_of(dsn)
    if name is None:
        stores: Stores = _databases().DatabaseStores(dsn, owner_resolver)
        return stores
    path = None if name == ":memory:" else (directory or Path.cwd()) / name
    return SQLiteStores(path, durability, owner_resolver)


def build_a2a_task_store(
    dsn: str | None = None,
    *,
    engine: AsyncEngine | None = None,
    table_name: str = TASK_TABLE,
    owner_resolver: OwnerResolver | None = None,
    create_table: bool = True,
) -> TaskStore:
    """A task store on its own: in `engine`, else in `dsn`, else in memory. Raises as `open_stores` does.

    Several processes may use one SQLite file. An engine is the caller's to dispose of, also the one that
    another database's store makes itself, as its `engine`.
    """
    if engine is None and dsn is None:
        return InMemoryTaskStore(owner_resolver_of(owner_resolver))
    name = None if engine is not None or dsn is None else file_of(dsn)
    if name is not None:
        path = None if name == ":memory:" else Path(name)
        file = SQLiteFile(path, tasks.schema(table_name) if create_table else "")
        return tasks.SQLiteTaskStore(file, table_name=table_name, owner_resolver=owner_resolver)
    databases = _databases()
    chosen = engine or databases.engine_of(dsn)
    store: TaskStore = databases.task_store(chosen, table_name, owner_resolver, create_table)
    return store


class SQLiteStores:
    """The stores of one server, in one file; in memory without a path."""

    def __init__(
        self, path: Path | None, durability: Durability, owner_resolver: OwnerResolver | None
    ) -> None:
        self._lock = None if path is None else ServerLock(path)
        try:
            self._file = SQLiteFile(path, tasks.schema() + pauses.SCHEMA, durability=durability)
        except BaseException:
            self._release()
            raise
        self._tasks = tasks.SQLiteTaskStore(
            self._file, owner_resolver=owner_resolver, progress_seconds=PROGRESS_SECONDS
        )
        self.tasks: TaskStore = self._tasks
        self.pauses: PauseStore = pauses.SQLitePauseStore(self._file)

    async def unfinished(self) -> list[Owned]:
        """The tasks that are SUBMITTED or WORKING."""
        return self._tasks.running()

    async def aclose(self) -> None:
        """Write what was queued, close the file, and let another server have it."""
        try:
            self._tasks.close()
        finally:
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()


def file_of(dsn: str) -> str | None:
    """The file of a DSN that our own SQLite store is for; None for what SQLAlchemy is to open."""
    scheme, separator, rest = dsn.partition("://")
    if scheme not in _SQLITE or not separator or "?" in rest:
        return None
    if rest and not rest.startswith("/"):
        raise StoreError(
            "a DSN of SQLite has three slashes before a file",
            code="invalid_dsn",
            hint="sqlite:///tasks.db is in the project, sqlite:////var/lib/tasks.db is not.",
        )
    return rest.removeprefix("/") or ":memory:"


@contextmanager
def sql_extra() -> Iterator[None]:
    """What needs the extra `sql` is imported in this; `StoreError` `extra_not_installed` without it."""
    try:
        yield
    except ImportError as error:
        raise StoreError(
            "databases other than SQLite need the extra sql",
            code="extra_not_installed",
            hint="pip install 'agentengine-cli[sql]'",
        ) from error


def _databases() -> ModuleType:
    with sql_extra():
        from ksadk.a2a.stores import databases
    return databases
