"""The tables of the event outbox, and what is done with them.

A task has a row among the turns just as long as batches of it wait; triggers see to that. Whoever sends a
task's batches has the task's turn, for so long as the row says: nobody else sends any of them meanwhile, and
when its holder is killed the turn ends. A task that failed waits for its turn in the same way.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from ksadk.a2a.stores.keeping import StoreError

PULLED_BATCHES, PULLED_BYTES = 100, 8 * 1024 * 1024
"""What one pull takes at most; a batch that is larger by itself is pulled alone."""

REMEMBERED = 10_000
"""How many batches that were delivered are known by their ids, the last ones: giving one again changes
nothing."""

BURIED, BURIED_BYTES = 1000, 64 * 1024 * 1024
"""How many dead letters are kept, the last ones."""

LONGEST_ERROR = 512

FARTHEST_TURN = 600.0
"""Seconds. A turn that seems to be further away was written before the clock was put back."""

_OUTBOX = "a2a_task_event_outbox"
_LETTERS = "a2a_task_event_dead_letters"
_DELIVERED = "a2a_task_event_delivered"
_TURNS = "a2a_task_event_turns"
_TOTALS = "a2a_task_event_totals"

_BATCH = """batch_id TEXT NOT NULL UNIQUE, platform_task_id TEXT NOT NULL, events_json TEXT NOT NULL,
    created_at REAL NOT NULL, attempt_count INTEGER NOT NULL DEFAULT 0, last_error TEXT NOT NULL DEFAULT ''"""
_SIZE = "length(CAST({row}.events_json AS BLOB))"
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS {_OUTBOX} (sequence INTEGER PRIMARY KEY AUTOINCREMENT, {_BATCH}) STRICT;
CREATE INDEX IF NOT EXISTS {_OUTBOX}_by_task ON {_OUTBOX} (platform_task_id, sequence);
CREATE TABLE IF NOT EXISTS {_LETTERS} (sequence INTEGER PRIMARY KEY, {_BATCH}) STRICT;
CREATE TABLE IF NOT EXISTS {_DELIVERED} (number INTEGER PRIMARY KEY, batch_id TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE IF NOT EXISTS {_TURNS} (
    platform_task_id TEXT PRIMARY KEY, holder TEXT NOT NULL, not_before REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS {_TURNS}_by_time ON {_TURNS} (not_before);
CREATE TABLE IF NOT EXISTS {_TOTALS} (
    id INTEGER PRIMARY KEY CHECK (id = 1), batches INTEGER NOT NULL, bytes INTEGER NOT NULL
) STRICT;
INSERT OR IGNORE INTO {_TOTALS} VALUES (1, 0, 0);
CREATE TRIGGER IF NOT EXISTS {_OUTBOX}_counted AFTER INSERT ON {_OUTBOX} BEGIN
    UPDATE {_TOTALS} SET batches = batches + 1, bytes = bytes + {_SIZE.format(row="new")}; END;
CREATE TRIGGER IF NOT EXISTS {_OUTBOX}_waits AFTER INSERT ON {_OUTBOX} BEGIN
    INSERT OR IGNORE INTO {_TURNS} VALUES (new.platform_task_id, '', 0); END;
CREATE TRIGGER IF NOT EXISTS {_OUTBOX}_discounted AFTER DELETE ON {_OUTBOX} BEGIN
    UPDATE {_TOTALS} SET batches = batches - 1, bytes = bytes - {_SIZE.format(row="old")}; END;
CREATE TRIGGER IF NOT EXISTS {_OUTBOX}_done AFTER DELETE ON {_OUTBOX} BEGIN
    DELETE FROM {_TURNS} WHERE platform_task_id = old.platform_task_id AND NOT EXISTS
    (SELECT 1 FROM {_OUTBOX} WHERE platform_task_id = old.platform_task_id); END;
"""
_ROW = "sequence, batch_id, platform_task_id, events_json, created_at, attempt_count, last_error"


class OutboxError(StoreError):
    """Events cannot be kept, or read from where they are kept. What was to be written was not."""

    code = "event_outbox_unavailable"
    kept = "task events"


@dataclass(frozen=True, slots=True)
class OutboxLimits:
    """How much may wait: batches, bytes of their JSON, and bytes of one batch."""

    batches: int = 100_000
    bytes: int = 256 * 1024 * 1024
    batch_bytes: int = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """What waits, in batches and in bytes of JSON, and how many dead letters are kept."""

    batches: int
    bytes: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class Row:
    """A batch of one task's events as it is kept.

    `created_at` is in seconds since 1970; `last_error` is what its last attempt came to, empty before one.
    """

    sequence: int
    batch_id: str
    platform_task_id: str
    events_json: str
    created_at: float
    attempt_count: int
    last_error: str


@dataclass(frozen=True, slots=True)
class Turn:
    """The right to send a task's first batches, in their order, until a time."""

    platform_task_id: str
    holder: str
    until: float
    rows: tuple[Row, ...]


class OutboxRows:
    """What can be done with the tables, in the transaction of `db`. What raises has changed nothing."""

    def __init__(self, db: sqlite3.Connection, limits: OutboxLimits, clock: Callable[[], float]) -> None:
        self._db = db
        self._limits = limits
        self._clock = clock

    def add(self, batch_id: str, task_id: str, events_json: str) -> None:
        """Keep a batch behind those of its task; one that is known stays where it is, or delivered."""
        if _known(self._db, batch_id):
            return
        batches, size = self._db.execute(f"SELECT batches, bytes FROM {_TOTALS}").fetchone()
        if batches >= self._limits.batches or size + len(events_json.encode()) > self._limits.bytes:
            raise OutboxError(
                f"{batches} batches of task events ({size} bytes) wait, and no more are kept",
                code="event_outbox_full",
                hint="See why the control plane does not take them; they are kept until it does.",
            )
        self._db.execute(
            f"INSERT INTO {_OUTBOX} (batch_id, platform_task_id, events_json, created_at) "
            "VALUES (?, ?, ?, ?)",
            (batch_id, task_id, events_json, self._clock()),
        )

    def pull(self, tasks: int, lease_seconds: float) -> list[Turn]:
        """Take the turns of up to so many tasks, those that have waited longest, and their first batches."""
        now, holder = self._clock(), secrets.token_hex(16)
        turns: list[Turn] = []
        room = _Room()
        due = self._db.execute(
            f"SELECT platform_task_id FROM {_TURNS} WHERE not_before <= ? OR not_before > ? "
            "ORDER BY not_before, rowid LIMIT ?",
            (now, now + FARTHEST_TURN, tasks),
        ).fetchall()
        for (task_id,) in due:
            rows = room.take(self._db, task_id)
            if not rows:
                break
            turns.append(Turn(task_id, holder, now + lease_seconds, rows))
            self._db.execute(
                f"UPDATE {_TURNS} SET holder = ?, not_before = ? WHERE platform_task_id = ?",
                (holder, now + lease_seconds, task_id),
            )
        return turns

    def delivered(self, row: Row) -> None:
        """Forget a batch that was taken, whoever has the turn by now, but for its id."""
        if _remove(self._db, row):
            self._db.execute(f"INSERT INTO {_DELIVERED} (batch_id) VALUES (?)", (row.batch_id,))
            self._db.execute(
                f"DELETE FROM {_DELIVERED} WHERE number <= (SELECT max(number) FROM {_DELIVERED}) - ?",
                (REMEMBERED,),
            )

    def failed(self, turn: Turn, row: Row, error: str, not_before: float) -> None:
        """Count an attempt that failed, and let the task wait; nothing where the turn was over already."""
        if _ends(self._db, turn, not_before):
            self._db.execute(
                f"UPDATE {_OUTBOX} SET attempt_count = attempt_count + 1, last_error = ? WHERE sequence = ?",
                (error[:LONGEST_ERROR], row.sequence),
            )

    def bury(self, turn: Turn, row: Row, error: str) -> list[str] | None:
        """Put a batch that will never be taken among the dead letters; the ids of the older ones that are
        dropped for it. None where the turn was over already, and nothing is done."""
        if not _holds(self._db, turn) or not _remove(self._db, row):
            return None
        self._db.execute(
            f"INSERT INTO {_LETTERS} ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (row.sequence, row.batch_id, row.platform_task_id, row.events_json, row.created_at,
             row.attempt_count + 1, error[:LONGEST_ERROR]),
        )  # fmt: skip
        return _drop_dead_letters(self._db)

    def give_back(self, turn: Turn) -> None:
        """End a turn, if it is not over: the task's next batches are anybody's now."""
        _ends(self._db, turn, self._clock())

    def expedite(self) -> None:
        """Let no task wait that failed before."""
        self._db.execute(f"UPDATE {_TURNS} SET not_before = 0 WHERE holder = ''")

    def due(self) -> float | None:
        """When the next turn can be taken, which may be over; None where nothing waits."""
        (first,) = self._db.execute(f"SELECT min(not_before) FROM {_TURNS}").fetchone()
        return None if first is None else float(first)

    def status(self) -> OutboxStatus:
        """How much is kept."""
        query = f"SELECT batches, bytes, (SELECT count(*) FROM {_LETTERS}) "
        return OutboxStatus(*self._db.execute(query + f"FROM {_TOTALS}").fetchone())

    def dead_letters(self) -> list[Row]:
        """The dead letters, the oldest first."""
        query = f"SELECT {_ROW} FROM {_LETTERS} ORDER BY sequence"
        return [Row(*row) for row in self._db.execute(query)]


class _Room:
    """What a pull may still take."""

    def __init__(self) -> None:
        self._batches, self._bytes = PULLED_BATCHES, PULLED_BYTES
        self._empty = True

    def take(self, db: sqlite3.Connection, task_id: str) -> tuple[Row, ...]:
        """The first batches of a task that there is room for; one at least for the first task."""
        taken: list[Row] = []
        query = f"SELECT {_ROW} FROM {_OUTBOX} WHERE platform_task_id = ? ORDER BY sequence LIMIT ?"
        for values in db.execute(query, (task_id, self._batches)):
            row = Row(*values)
            self._bytes -= len(row.events_json.encode())
            if self._bytes < 0 and not self._empty:
                self._batches = 0
                break
            self._empty = False
            self._batches -= 1
            taken.append(row)
        return tuple(taken)


def _known(db: sqlite3.Connection, batch_id: str) -> bool:
    tables = (_OUTBOX, _LETTERS, _DELIVERED)
    return any(
        db.execute(f"SELECT 1 FROM {name} WHERE batch_id = ?", (batch_id,)).fetchone() for name in tables
    )


def _remove(db: sqlite3.Connection, row: Row) -> bool:
    return db.execute(f"DELETE FROM {_OUTBOX} WHERE sequence = ?", (row.sequence,)).rowcount == 1


def _holds(db: sqlite3.Connection, turn: Turn) -> bool:
    query = f"SELECT 1 FROM {_TURNS} WHERE platform_task_id = ? AND holder = ?"
    return db.execute(query, (turn.platform_task_id, turn.holder)).fetchone() is not None


def _ends(db: sqlite3.Connection, turn: Turn, not_before: float) -> bool:
    """End a turn, and say when the next one may begin; False where it was over, and somebody else's."""
    ended = db.execute(
        f"UPDATE {_TURNS} SET holder = '', not_before = ? WHERE platform_task_id = ? AND holder = ?",
        (not_before, turn.platform_task_id, turn.holder),
    )
    return ended.rowcount == 1


def _drop_dead_letters(db: sqlite3.Connection) -> list[str]:
    """Drop the oldest dead letters beyond what is kept of them; their ids."""
    size = _SIZE.format(row=_LETTERS)
    kept = db.execute(f"SELECT batch_id, {size} FROM {_LETTERS} ORDER BY sequence DESC").fetchall()
    dropped, total = [], 0
    for number, (batch_id, length) in enumerate(kept):
        total += length
        if number >= BURIED or (total > BURIED_BYTES and number > 0):
            dropped.append(batch_id)
    db.executemany(f"DELETE FROM {_LETTERS} WHERE batch_id = ?", [(each,) for each in dropped])
    return dropped
