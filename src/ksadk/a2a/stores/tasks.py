"""Tasks in a SQLite file."""

from __future__ import annotations

import asyncio
import builtins
import logging
from collections.abc import Sequence
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.owner_resolver import OwnerResolver
from a2a.server.tasks import TaskStore
from a2a.types import ListTasksRequest, ListTasksResponse, Task, TaskState
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import (
    ListTasksCursor,
    decode_list_tasks_cursor,
    encode_list_tasks_cursor,
    validate_page_size,
)
from google.protobuf.message import DecodeError

from ksadk.a2a.stores.base import TASK_TABLE, Owned, owner_resolver_of
from ksadk.a2a.stores.keeping import StoreError
from ksadk.a2a.stores.sqlite_file import SQLiteFile, Values

log = logging.getLogger(__name__)

RUNNING = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)


def schema(table: str = TASK_TABLE) -> str:
    """The table of tasks. `updated` is the status's timestamp in microseconds, -1 without one."""
    running = ", ".join(str(int(state)) for state in RUNNING)
    return f"""
CREATE TABLE IF NOT EXISTS "{table}" (
    owner TEXT NOT NULL, id TEXT NOT NULL, context_id TEXT NOT NULL, state INTEGER NOT NULL,
    updated INTEGER NOT NULL, task BLOB NOT NULL, PRIMARY KEY (owner, id)
) STRICT;
CREATE INDEX IF NOT EXISTS "{table}_by_time" ON "{table}" (owner, updated DESC, id DESC);
CREATE INDEX IF NOT EXISTS "{table}_by_context" ON "{table}" (owner, context_id, updated DESC, id DESC);
CREATE INDEX IF NOT EXISTS "{table}_running" ON "{table}" (updated) WHERE state IN ({running});
"""


class SQLiteTaskStore(TaskStore):
    """The SDK's task store: what `save` returned from is committed, and `get` gives a task of its own.

    With `progress_seconds`, of a task that is at work only its beginning and what it comes to (its end, or
    what it waits for) are committed at once; what it has said meanwhile, within so many seconds. It is for
    the only writer of a file: whoever else reads it sees that later.
    """

    def __init__(
        self,
        file: SQLiteFile,
        *,
        table_name: str = TASK_TABLE,
        owner_resolver: OwnerResolver | None = None,
        progress_seconds: float = 0,
    ) -> None:
        self.file = file
        self._progress_seconds = progress_seconds
        self._at_work: set[tuple[str, str]] = set()
        self._progress: dict[tuple[str, str], Values] = {}
        self.owner_of = owner_resolver_of(owner_resolver)
        self._table = f'"{table_name}"'
        self._save = (
            f"INSERT INTO {self._table} (owner, id, context_id, state, updated, task) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (owner, id) DO UPDATE SET "
            "context_id = excluded.context_id, state = excluded.state, "
            "updated = excluded.updated, task = excluded.task"
        )
        self._get = f"SELECT task FROM {self._table} WHERE owner = ? AND id = ?"

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Keep a task as it is now. Raises `StoreError` when it was not written."""
        status = task.status
        key = (self.owner_of(context), task.id)
        updated = status.timestamp.ToMicroseconds() if status.HasField("timestamp") else -1
        row = (*key, task.context_id, status.state, updated, task.SerializeToString())
        if key in self._at_work and status.state in RUNNING:
            if not self._progress:
                asyncio.get_running_loop().call_later(self._progress_seconds, self._write_progress)
            self._progress[key] = row
            return
        self._progress.pop(key, None)
        await self.file.write(self._save, row)
        if self._progress_seconds and status.state in RUNNING:
            self._at_work.add(key)
        else:
            self._at_work.discard(key)

    def close(self) -> None:
        """Write what is not yet written, and close the file."""
        self._write_progress()
        self.file.close()

    def _write_progress(self) -> None:
        """Commit what tasks at work have said. Where that fails it is tried again with what they say next,
        and their end, which is not put off, fails where it can be told."""
        progress, self._progress = self._progress, {}
        try:
            self.file.write_now(self._save, progress.values())
        except StoreError as error:
            log.warning("what %d tasks have said so far was not written: %s", len(progress), error)

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        """The owner's task of that id; None where there is none, and where it is somebody else's."""
        key = (self.owner_of(context), task_id)
        if key in self._progress:
            return _task(self._progress[key][-1])
        rows = self.file.rows(self._get, key)
        return _task(rows[0][0]) if rows else None

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """A page of the owner's tasks, the last updated first; those without a time come last.

        A page token is a place in that order and stays valid. Raises `InvalidParamsError` for a token or a
        size that is none.
        """
        self._write_progress()
        where = ["owner = ?"]
        values: builtins.list[Any] = [self.owner_of(context)]
        for name, value in (("context_id", params.context_id), ("state", params.status)):
            if value:
                where.append(f"{name} = ?")
                values.append(value)
        if params.HasField("status_timestamp_after"):
            where.append("updated >= ?")
            values.append(max(0, params.status_timestamp_after.ToMicroseconds()))
        (total,) = self.file.rows(f"SELECT count(*) FROM {self._table} WHERE {' AND '.join(where)}", values)[
            0
        ]
        if params.page_token:
            where.append("(updated, id) < (?, ?)")
            values.extend(_place(params.page_token))
        size = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE
        validate_page_size(size)
        rows = self.file.rows(
            f"SELECT updated, id, task FROM {self._table} WHERE {' AND '.join(where)} "
            f"ORDER BY updated DESC, id DESC LIMIT {size + 1}",
            values,
        )
        return ListTasksResponse(
            tasks=[_task(blob) for _, _, blob in rows[:size]],
            total_size=total,
            page_size=size,
            next_page_token=_token(rows[size - 1]) if len(rows) > size else "",
        )

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Forget the owner's task of that id, if there is one."""
        key = (self.owner_of(context), task_id)
        self._progress.pop(key, None)
        self._at_work.discard(key)
        await self.file.write(f"DELETE FROM {self._table} WHERE owner = ? AND id = ?", key)

    def running(self) -> builtins.list[Owned]:
        """The tasks of all owners that are SUBMITTED or WORKING, the oldest first."""
        self._write_progress()
        states = ", ".join(str(int(state)) for state in RUNNING)
        rows = self.file.rows(
            f"SELECT owner, task FROM {self._table} WHERE state IN ({states}) ORDER BY updated, id"
        )
        return [Owned(_task(blob), owner) for owner, blob in rows]


def _task(blob: bytes) -> Task:
    try:
        return Task.FromString(blob)
    except DecodeError as error:
        raise StoreError(
            "a task that was kept is damaged", hint="Move the file of tasks away to start anew."
        ) from error


def _token(row: Sequence[Any]) -> str:
    updated, task_id, _ = row
    return encode_list_tasks_cursor(
        ListTasksCursor(timestamp_ns=None if updated < 0 else updated * 1000, task_id=task_id)
    )


def _place(token: str) -> tuple[int, str]:
    cursor = decode_list_tasks_cursor(token)
    if cursor is None or abs(cursor.timestamp_ns or 0) >= 2**63:
        raise InvalidParamsError("this is no page token")
    return -1 if cursor.timestamp_ns is None else cursor.timestamp_ns // 1000, cursor.task_id
