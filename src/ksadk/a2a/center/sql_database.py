"""A center's database on a server: PostgreSQL, by the extra `sql`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from ksadk.a2a.center.database import SCHEMA, CenterStoreError, Row, Transaction
from ksadk.a2a.stores.databases import engine_of


class SQLDatabase:
    """What SQLAlchemy drives; the tables are made at the first transaction."""

    def __init__(self, dsn: str) -> None:
        self._engine = engine_of(dsn)
        self._made = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """One transaction."""
        try:
            async with self._engine.begin() as connection:
                if not self._made:
                    for statement in SCHEMA.split(";\n"):
                        await connection.execute(text(statement))
                yield _SQLTransaction(connection)
            self._made = True
        except (SQLAlchemyError, OSError) as error:
            kind = type(getattr(error, "orig", None) or error).__name__
            raise CenterStoreError(f"the center's database cannot be used: {kind}") from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._engine.dispose()


class _SQLTransaction:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def run(self, statement: str, /, **values: Any) -> list[Row]:
        result = await self._connection.execute(text(statement), values)
        return [dict(row) for row in result.mappings()] if result.returns_rows else []
