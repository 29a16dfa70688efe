"""The database of a center: a SQLite file, or one that SQLAlchemy drives.

Statements are written once, in the SQL that SQLite and PostgreSQL share, with `:name` for values. Whatever
belongs together is one transaction, so that a center that is killed has done all of it or nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from ksadk.a2a.stores.keeping import StoreError
from ksadk.a2a.stores.opening import file_of, sql_extra
from ksadk.a2a.stores.sqlite_file import SQLiteFile

Row = Mapping[str, Any]

SCHEMA = """\
CREATE TABLE IF NOT EXISTS a2a_center_agents (
    agent_id VARCHAR(256) PRIMARY KEY, space_id VARCHAR(256) NOT NULL, name VARCHAR(1024) NOT NULL,
    version_id VARCHAR(256) NOT NULL, route_kind VARCHAR(32) NOT NULL, blocked_reason TEXT NOT NULL,
    credential_handle VARCHAR(64), registered_at BIGINT NOT NULL, UNIQUE (space_id, name));
CREATE TABLE IF NOT EXISTS a2a_center_versions (
    version_id VARCHAR(256) PRIMARY KEY, agent_id VARCHAR(256) NOT NULL, card_sha256 VARCHAR(64) NOT NULL,
    card TEXT NOT NULL, registered_at BIGINT NOT NULL, UNIQUE (agent_id, card_sha256));
CREATE TABLE IF NOT EXISTS a2a_center_tasks (
    task_id VARCHAR(256) PRIMARY KEY, owner VARCHAR(600) NOT NULL, agent_id VARCHAR(256) NOT NULL,
    remote_task_id VARCHAR(256), remote_context_id VARCHAR(256), state VARCHAR(64) NOT NULL,
    ended_by VARCHAR(16), event_count BIGINT NOT NULL, created_at BIGINT NOT NULL, active_at BIGINT NOT NULL,
    UNIQUE (agent_id, remote_task_id));
CREATE INDEX IF NOT EXISTS a2a_center_active ON a2a_center_tasks (ended_by, active_at);
CREATE TABLE IF NOT EXISTS a2a_center_operations (
    operation_id VARCHAR(64) PRIMARY KEY, task_id VARCHAR(256) NOT NULL, owner VARCHAR(600) NOT NULL,
    kind VARCHAR(32) NOT NULL, version_id VARCHAR(256) NOT NULL, message_sha256 VARCHAR(64),
    token VARCHAR(256), request_sha256 VARCHAR(64) NOT NULL, issued_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL, used_at BIGINT, UNIQUE (owner, token));
CREATE INDEX IF NOT EXISTS a2a_center_operations_of_task ON a2a_center_operations (task_id);
CREATE TABLE IF NOT EXISTS a2a_center_permits (
    permit_sha256 VARCHAR(64) PRIMARY KEY, task_id VARCHAR(256) NOT NULL, issued_at BIGINT NOT NULL,
    wire_position BIGINT NOT NULL, ordinal BIGINT NOT NULL);
CREATE INDEX IF NOT EXISTS a2a_center_permits_of_task ON a2a_center_permits (task_id, issued_at);
CREATE TABLE IF NOT EXISTS a2a_center_events (
    task_id VARCHAR(256) NOT NULL, number BIGINT NOT NULL, source_event_id VARCHAR(256) NOT NULL,
    kind VARCHAR(32) NOT NULL, payload TEXT NOT NULL, payload_sha256 VARCHAR(64) NOT NULL,
    occurred_at VARCHAR(64) NOT NULL, status VARCHAR(64), wire_position BIGINT, ordinal BIGINT,
    received_at BIGINT NOT NULL, PRIMARY KEY (task_id, number), UNIQUE (task_id, source_event_id));
CREATE TABLE IF NOT EXISTS a2a_center_repeats (
    task_id VARCHAR(256) NOT NULL, source_event_id VARCHAR(256) NOT NULL,
    PRIMARY KEY (task_id, source_event_id));
CREATE INDEX IF NOT EXISTS a2a_center_same_event
    ON a2a_center_events (task_id, payload_sha256, kind, wire_position, ordinal)"""
"""Times are milliseconds since 1970."""


class CenterStoreError(StoreError):
    """What the center knows cannot be kept or read."""

    kept = "the center"


class Transaction(Protocol):
    """An open transaction."""

    async def run(self, statement: str, /, **values: Any) -> list[Row]:
        """The rows of a statement; those of a change are what it returns by RETURNING."""


class Database(Protocol):
    """A center's database. Each call raises `CenterStoreError` where it cannot be done."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """One transaction: committed when the block ends, nothing where it raises."""

    async def aclose(self) -> None:
        """Close it."""


def open_database(dsn: str, *, directory: Path) -> Database:
    """The database `dsn`, as SQLAlchemy writes it: sqlite:///FILE is in `directory`, PostgreSQL needs the
    extra `sql`. Raises `StoreError`, codes `invalid_dsn`, `extra_not_installed` and
    `task_store_unavailable`."""
    name = file_of(dsn)
    if name is not None:
        return SQLiteDatabase(None if name == ":memory:" else directory / name)
    with sql_extra():
        from ksadk.a2a.center.sql_database import SQLDatabase
    return SQLDatabase(dsn)


class SQLiteDatabase:
    """One file, written with `synchronous = FULL`: what was answered is not lost to a power cut either."""

    def __init__(self, path: Path | None) -> None:
        self._file = SQLiteFile(path, SCHEMA, durability="full", error=CenterStoreError)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """One transaction. It never waits for anything else, so no other of this process gets between."""
        with self._file.transaction() as connection:
            yield _SQLiteTransaction(connection)

    async def aclose(self) -> None:
        """Close the file."""
        self._file.close()


class _SQLiteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def run(self, statement: str, /, **values: Any) -> list[Row]:
        cursor = self._connection.execute(statement, values)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
