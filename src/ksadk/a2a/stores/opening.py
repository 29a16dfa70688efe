"""From the name of a database to the stores in it."""

from __future__ import annotations

from pathlib import Path

from a2a.server.tasks import TaskStore

from ksadk.a2a.stores import pauses, tasks
from ksadk.a2a.stores.base import Durability, Owned, PauseStore, StoreError, Stores
from ksadk.a2a.stores.sqlite_file import SQLiteFile

_SCHEMES = ("sqlite:///", "sqlite+aiosqlite:///")


def open_stores(dsn: str, *, directory: Path | None = None, durability: Durability = "normal") -> Stores:
    """The stores of one server in the database `dsn`, as SQLAlchemy writes it.

    A relative file is in `directory`, or the current one. Raises `StoreError`.
    """
    for scheme in _SCHEMES:
        if dsn.startswith(scheme):
            name = dsn.removeprefix(scheme)
            path = None if name in ("", ":memory:") else (directory or Path.cwd()) / name
            schema = tasks.schema() + pauses.SCHEMA
            return SQLiteStores(SQLiteFile(path, schema, durability=durability))
    raise StoreError("this is not a database that tasks can be kept in", code="invalid_dsn")


class SQLiteStores:
    """The stores of one server, in one file."""

    def __init__(self, file: SQLiteFile) -> None:
        self._tasks = tasks.SQLiteTaskStore(file)
        self.tasks: TaskStore = self._tasks
        self.pauses: PauseStore = pauses.SQLitePauseStore(file)
        self._file = file

    async def unfinished(self) -> list[Owned]:
        """The tasks that are SUBMITTED or WORKING."""
        return self._tasks.running()

    async def aclose(self) -> None:
        """Write what was queued, and close the file."""
        self._file.close()
