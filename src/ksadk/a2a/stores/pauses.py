"""What tasks wait for, in the SQLite file that the tasks are in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ksadk.a2a.stores.base import Paused
from ksadk.a2a.stores.sqlite_file import SQLiteFile

SCHEMA = """
CREATE TABLE IF NOT EXISTS ksadk_a2a_pauses (
    number INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT NOT NULL UNIQUE, context_id TEXT NOT NULL,
    owner TEXT NOT NULL, kind TEXT NOT NULL, request_id TEXT NOT NULL, state TEXT
) STRICT;
"""


class SQLitePauseStore:
    """What tasks wait for, in the file that the tasks are in."""

    _COLUMNS = "task_id, context_id, owner, kind, request_id, state"

    def __init__(self, file: SQLiteFile) -> None:
        self.file = file

    async def save(self, paused: Paused) -> None:
        """Keep what a task waits for, instead of what it waited for before."""
        state = None if paused.state is None else json.dumps(paused.state)
        await self.file.write(
            f"INSERT OR REPLACE INTO ksadk_a2a_pauses ({self._COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
            (paused.task_id, paused.context_id, paused.owner, paused.kind, paused.request_id, state),
        )

    async def get(self, task_id: str) -> Paused | None:
        """What a task waits for."""
        query = f"SELECT {self._COLUMNS} FROM ksadk_a2a_pauses WHERE task_id = ?"
        rows = self.file.rows(query, (task_id,))
        return _paused(rows[0]) if rows else None

    async def delete(self, task_id: str) -> None:
        """Forget what a task waited for, if anything."""
        await self.file.write("DELETE FROM ksadk_a2a_pauses WHERE task_id = ?", (task_id,))

    async def waiting(self) -> list[Paused]:
        """Every pause that is kept, the oldest first."""
        rows = self.file.rows(f"SELECT {self._COLUMNS} FROM ksadk_a2a_pauses ORDER BY number")
        return [_paused(row) for row in rows]


def _paused(row: Sequence[Any]) -> Paused:
    task_id, context_id, owner, kind, request_id, state = row
    return Paused(task_id, context_id, owner, kind, request_id, None if state is None else json.loads(state))
