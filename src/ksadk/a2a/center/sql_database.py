"""A center's database on a server: PostgreSQL, by the extra `sql`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from ksadk.a2a.center.database import SCHEMA, CenterStoreError, Row, Transaction
from ksadk.a2a.stores.databases import engine_of

_LOCK = 0x6B7361646B
"""Of making the tables, among the advisory locks of a database."""


class SQLDatabase:
    """What SQLAlchemy drives; the tables are made at the first transaction."""

    def __init__(self, dsn: str) -> None:
        self._engine = engine_of(dsn)
        self._made = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """One transaction."""
        try:
            if not self._made:
                await self._make()
            async with self._engine.begin() as connection:
                yield _SQLTransaction(connection)
        except (SQLAlchemyError, OSError) as error:
            kind = type(getattr(error, "orig", None) or error).__name__
            raise CenterStoreError(f"the center's database cannot be used: {kind}") from error

    async def _make(self) -> None:
        """Make the tables where they are not there; one center at a time, and in a transaction of their own,
        since that takes locks which others' work has to wait for."""
        async with self._engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            if not await connection.run_sync(lambda sync: inspect(sync).has_table("a2a_center_agents")):
                for statement in SCHEMA.split(";\n"):
                    await connection.execute(text(statement))
        self._made = True

    async def aclose(self) -> None:
        """Close the connections."""
        await self._engine.dispose()


class _SQLTransaction:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def run(self, statement: str, /, **values: Any) -> list[Row]:
        result = await self._connection.execute(text(statement), values)
        return [dict(row) for row in result.mappings()] if result.returns_rows else []
