"""The stores of a server whose task store was made by somebody else."""

from __future__ import annotations

import sys

from a2a.server.tasks import TaskStore

from ksadk.a2a.stores import pauses
from ksadk.a2a.stores.base import Owned, PauseStore, Stores
from ksadk.a2a.stores.sqlite_file import SQLiteFile
from ksadk.a2a.stores.tasks import SQLiteTaskStore


def stores_of(tasks: TaskStore) -> Stores:
    """The stores around a task store: what tasks wait for is kept where the tasks are, in a SQLite file or a
    database of SQLAlchemy's, and otherwise in memory. The task store stays its maker's to close.

    Raises `StoreError` where the tables cannot be made.
    """
    if isinstance(tasks, SQLiteTaskStore):
        tasks.file.write_now(pauses.SCHEMA, [()])
        return GivenStores(tasks, pauses.SQLitePauseStore(tasks.file))
    databases = sys.modules.get("ksadk.a2a.stores.databases")  # what is not imported has made no store
    if databases is not None and isinstance(tasks, databases.DatabaseTaskStore):
        stores: Stores = databases.GivenDatabaseStores(tasks)
        return stores
    return GivenStores(tasks, pauses.SQLitePauseStore(SQLiteFile(None, pauses.SCHEMA)))


class GivenStores:
    """A task store of somebody else's, and what its tasks wait for."""

    def __init__(self, tasks: TaskStore, waiting: PauseStore) -> None:
        self.tasks = tasks
        self.pauses = waiting

    async def unfinished(self) -> list[Owned]:
        """The tasks that are SUBMITTED or WORKING; of a store in memory there are none at a start."""
        return self.tasks.running() if isinstance(self.tasks, SQLiteTaskStore) else []

    async def aclose(self) -> None:
        """Nothing is ours to close."""


async def close_task_store(tasks: TaskStore) -> None:
    """Close a task store that `build_a2a_task_store` has made, with its file or its connections."""
    if isinstance(tasks, SQLiteTaskStore):
        tasks.close()
    elif (engine := getattr(tasks, "engine", None)) is not None:
        await engine.dispose()


async def initialize(store: object) -> None:
    """Make a store ready, if it wants that: one that has no `initialize` is ready already."""
    begin = getattr(store, "initialize", None)
    if begin is not None:
        await begin()
