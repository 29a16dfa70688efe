"""One SQLite file, written in one transaction for each turn of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ksadk.a2a.stores.keeping import Durability, StoreError

Values = Sequence[Any]
Entry = tuple[str, Values, "asyncio.Future[None]"]
VERSION = 1
"""Of the tables that files of tasks have."""

# One statement, so that both are of one moment: another process may make the tables just now.
_STATE = "SELECT (SELECT user_version FROM pragma_user_version), count(*) FROM sqlite_schema"

BUSY_SECONDS = 5.0
"""How long a transaction waits for another process that writes the file. The event loop waits with it."""


class SQLiteFile:
    """A database, made when it is not there: 0600, in a directory 0700, with a write-ahead log.

    What is written is queued, and written before the loop's next turn, all of it in one transaction: a server
    with many clients commits once for all that came in together. It is used from one thread.
    """

    def __init__(
        self,
        path: Path | None,
        schema: str,
        *,
        durability: Durability = "normal",
        error: type[StoreError] = StoreError,
    ) -> None:
        """Open `path`, or without one a database in memory, and make the tables of `schema` where they are
        not there. This, and every call, raises `error` where it cannot be done."""
        self.path = path
        self._error = error
        self._queue: list[Entry] = []
        with self._told():
            self._db = self._connect()
            try:
                self._prepare(schema, durability)
            except BaseException:
                self._db.close()
                raise

    async def write(self, statement: str, values: Values) -> None:
        """Run a statement in this turn's transaction; returns when it is committed. Raises `StoreError` when
        it was not written."""
        loop = asyncio.get_running_loop()
        if not self._queue:
            loop.call_soon(self._flush)
        written: asyncio.Future[None] = loop.create_future()
        self._queue.append((statement, values, written))
        await written

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction: what the block executes is committed when it ends, or undone when it raises."""
        with self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def write_now(self, statement: str, rows: Iterable[Values]) -> None:
        """Run a statement for each row, in a transaction of its own. Raises `StoreError`."""
        self._commit([(statement, values) for values in rows])

    def rows(self, query: str, values: Values = ()) -> list[Any]:
        """What a query finds in what is committed."""
        with self._told():
            return self._db.execute(query, values).fetchall()

    def close(self) -> None:
        """Write what is queued, and close the file."""
        self._flush()
        with self._told():
            self._db.close()

    def _flush(self) -> None:
        queued, self._queue = self._queue, []
        try:
            self._commit([(statement, values) for statement, values, _ in queued])
        except BaseException as error:
            for _, _, written in queued:
                if not written.done():
                    written.set_exception(error)
            if not isinstance(error, StoreError):
                raise
        else:
            for _, _, written in queued:
                if not written.done():  # who saved has been cancelled; it is saved all the same
                    written.set_result(None)

    def _commit(self, queued: list[tuple[str, Values]]) -> None:
        if not queued:
            return
        with self.transaction() as db:
            for statement, values in queued:
                db.execute(statement, values)

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:  # not opened: closing it again would drop the locks of another connection
            pass
        return sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)

    def _prepare(self, schema: str, durability: Durability) -> None:
        version, entries = self._db.execute(_STATE).fetchone()
        if version > VERSION:
            raise self._error(
                f"{self.path} was written by a newer version of this program",
                hint=f"Upgrade agentengine-cli, or keep {self._error.kept} in another file.",
            )
        if version == 0 and entries:
            raise self._error(
                f"{self.path} is the database of another program",
                hint=f"Move it away, or keep {self._error.kept} in another file.",
            )
        self._use_write_ahead_log()
        self._db.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
        self._db.execute("BEGIN IMMEDIATE")
        for statement in schema.split(";\n"):
            self._db.execute(statement)
        self._db.execute(f"PRAGMA user_version = {VERSION}")
        self._db.execute("COMMIT")

    def _use_write_ahead_log(self) -> None:
        """Switch a new file to its mode. Where two processes do that at once, SQLite does not wait: we do."""
        give_up = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                    raise
                time.sleep(0.005)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what SQLite and the system say into words."""
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError, UnicodeError) as error:
            raise self._error(
                f"the file of {self._error.kept}, {self.path or 'in memory'}, cannot be used: {error}",
                hint="See to that file, its directory and the space on its disk.",
            ) from error
