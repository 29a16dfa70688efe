"""Approval requests in SQLite, in the user's state directory: answered from anywhere, used once.

Several processes use the file at once. Each operation is one short transaction on a connection of its own,
and whatever must happen once (a decision, a use) is one UPDATE that only one of them can win.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ksadk.errors import KsadkError
from ksadk.tools.approvals import ApprovalRequest, State, plan_from_json, plan_to_json, require_texts

KEPT_SECONDS = 7 * 24 * 3600
"""How long a request stays after it was used, denied or expired: it holds the call's arguments."""

_VERSION = 2
_SCHEMA = """
CREATE TABLE requests (
    id TEXT PRIMARY KEY, project TEXT NOT NULL, account_id TEXT NOT NULL, session_id TEXT NOT NULL,
    workspace_root TEXT NOT NULL, tool_name TEXT NOT NULL, arguments TEXT NOT NULL,
    arguments_digest TEXT NOT NULL, risk_level TEXT NOT NULL, side_effects TEXT NOT NULL, plan TEXT NOT NULL,
    created_at REAL NOT NULL, expires_at REAL NOT NULL, state TEXT NOT NULL, decided_by TEXT NOT NULL,
    reason TEXT NOT NULL, edited INTEGER NOT NULL
) STRICT;
CREATE INDEX requests_by_project ON requests (project, state, created_at);
CREATE TABLE session_grants (
    session_key TEXT NOT NULL, project TEXT NOT NULL, account_id TEXT NOT NULL, tool_name TEXT NOT NULL,
    place TEXT NOT NULL, arguments_digest TEXT NOT NULL, expires_at REAL NOT NULL,
    PRIMARY KEY (session_key, project, account_id, tool_name, place, arguments_digest)
) STRICT;
"""
_LOG_SCHEMA = """
CREATE TABLE log_head (
    id INTEGER PRIMARY KEY CHECK (id = 1), lines INTEGER NOT NULL, size INTEGER NOT NULL, hash TEXT NOT NULL,
    first INTEGER NOT NULL
) STRICT;
CREATE TABLE log_files (
    last INTEGER PRIMARY KEY, size INTEGER NOT NULL, hash TEXT NOT NULL, first INTEGER NOT NULL
) STRICT;
"""
"""What the decision log keeps beside its files: see `ksadk.tools.decision_log`."""
_COLUMNS = (
    "id", "project", "account_id", "session_id", "workspace_root", "tool_name", "arguments",
    "arguments_digest", "risk_level", "side_effects", "plan", "created_at", "expires_at", "state",
    "decided_by", "reason", "edited",
)  # fmt: skip

_PATHS = ("project", "workspace_root")


class StoreUnavailable(KsadkError):
    """The store cannot be read or written: no decision can be kept, so nothing that needs one starts."""

    code = "log_unavailable"


class UnknownApproval(KsadkError):
    """No request of that id is kept."""

    code = "approval_not_found"


class ApprovalStore:
    """The requests of one user. The file is made when it is first used, 0600 in a directory 0700."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.now = clock

    def create(self, request: ApprovalRequest) -> None:
        """Keep a new request; forget those whose time is long over."""
        marks = ", ".join("?" for _ in _COLUMNS)
        with self._transaction() as db:
            db.execute("DELETE FROM requests WHERE expires_at < ?", (self.now() - KEPT_SECONDS,))
            db.execute("DELETE FROM session_grants WHERE expires_at < ?", (self.now(),))
            db.execute(f"INSERT INTO requests ({', '.join(_COLUMNS)}) VALUES ({marks})", _to_row(request))

    def get(self, request_id: str) -> ApprovalRequest:
        """The request of that id; raises `UnknownApproval`."""
        with self._transaction() as db:
            return self._get(db, request_id)

    def list(self, project: str | None = None, *, every: bool = False) -> list[ApprovalRequest]:
        """Requests that wait or are approved and not yet used, oldest first; `every` adds the ended ones."""
        where, values = ["1"], []
        if project is not None:
            where, values = ["project = ?"], [_path_text(project)]
        if not every:
            where.append("state IN ('pending', 'approved') AND expires_at > ?")
            values.append(self.now())  # type: ignore[arg-type]
        query = f"SELECT {', '.join(_COLUMNS)} FROM requests WHERE {' AND '.join(where)} ORDER BY created_at"
        with self._transaction() as db:
            return [_from_row(row) for row in db.execute(query, values)]

    def glance(self, project: str | None = None) -> Sequence[tuple[str, str, str]]:
        """The id, tool and state of what `list` gives, the newest first, for a shell that completes a word.

        The file is read, not made, migrated or waited for; one that cannot be read now has nothing.
        """
        query = "SELECT id, tool_name, state FROM requests WHERE state IN ('pending', 'approved') "
        query += "AND expires_at > ? AND (? IS NULL OR project = ?) ORDER BY created_at DESC"
        place = None if project is None else _path_text(project)
        try:
            db = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.1)
            with contextlib.closing(db):
                return db.execute(query, (self.now(), place, place)).fetchall()
        except sqlite3.Error:
            return []

    def decide(
        self,
        request_id: str,
        state: State,
        *,
        by: str,
        reason: str = "",
        seen: ApprovalRequest | None = None,
    ) -> ApprovalRequest:
        """Approve or deny a pending request, or deny one that is approved and not used; raises when it was
        answered otherwise, or is no longer what whoever decides has `seen`."""
        with self._transaction() as db:
            request = self._get(db, request_id)
            if not (state == "denied" and request.state == "approved"):  # an approval can be taken back
                self.require_pending(request)
            if seen is not None and not request.same_call(seen):
                raise KsadkError(
                    f"{request_id} was edited since it was shown",
                    code="approval_mismatch",
                    hint="Look at it again.",
                )
            db.execute(
                "UPDATE requests SET state = ?, decided_by = ?, reason = ? WHERE id = ?",
                (state, by, _storable(reason), request_id),
            )
        return replace(request, state=state, decided_by=by, reason=reason)

    def amend(self, request: ApprovalRequest) -> None:
        """Replace the arguments, digests and plan of a pending request by those of `request`."""
        with self._transaction() as db:
            self.require_pending(self._get(db, request.id))
            db.execute(
                "UPDATE requests SET arguments = ?, arguments_digest = ?, plan = ?, edited = 1 WHERE id = ?",
                (
                    json.dumps(request.arguments),
                    request.arguments_digest,
                    plan_to_json(request.plan),
                    request.id,
                ),
            )

    def claim(self, request: ApprovalRequest, *, states: tuple[State, ...] = ("approved",), by: str) -> bool:
        """Use a request, once, if it still is what the caller has seen; False when somebody was first."""
        marks = ", ".join("?" for _ in states)
        with self._transaction() as db:
            used = db.execute(
                "UPDATE requests SET state = 'used', "
                "decided_by = CASE decided_by WHEN '' THEN ? ELSE decided_by END "
                f"WHERE id = ? AND arguments_digest = ? AND expires_at > ? AND state IN ({marks})",
                (by, request.id, request.arguments_digest, self.now(), *states),
            )
            return used.rowcount == 1

    def give_back(self, request_id: str) -> None:
        """Make a used request an approved one again: the call that it was used for did not start."""
        with self._transaction() as db:
            db.execute(
                "UPDATE requests SET state = 'approved' WHERE id = ? AND state = 'used'", (request_id,)
            )

    def expire(self, request_id: str) -> None:
        """End a pending request now: who waited for it has gone."""
        with self._transaction() as db:
            db.execute(
                "UPDATE requests SET expires_at = min(expires_at, ?) WHERE id = ? AND state = 'pending'",
                (self.now(), request_id),
            )

    def grant(self, session_key: str, request: ApprovalRequest, seconds: float) -> None:
        """Let exactly this call through without asking, for one terminal session."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO session_grants VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*_grant_key(session_key, request), self.now() + seconds),
            )

    def granted(self, session_key: str, request: ApprovalRequest) -> bool:
        """Whether exactly this call was let through for this terminal session."""
        with self._transaction() as db:
            found = db.execute(
                "SELECT 1 FROM session_grants WHERE session_key = ? AND project = ? AND account_id = ? "
                "AND tool_name = ? AND place = ? AND arguments_digest = ? AND expires_at > ?",
                (*_grant_key(session_key, request), self.now()),
            )
            return found.fetchone() is not None

    def transaction(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """One transaction for what else is kept in the file; whoever else would write waits meanwhile."""
        return self._transaction()

    def _get(self, db: sqlite3.Connection, request_id: str) -> ApprovalRequest:
        row = db.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM requests WHERE id = ?", (_storable(request_id),)
        ).fetchone()
        if row is None:
            raise UnknownApproval(
                f"there is no approval request {request_id}",
                hint="agentengine approvals list --all shows what is kept.",
            )
        return _from_row(row)

    def require_pending(self, request: ApprovalRequest) -> None:
        """Raise when a request can no longer be answered: used, expired, or answered already."""
        if request.state == "used":
            raise KsadkError(f"{request.id} was used already", code="approval_used")
        if request.expired(self.now()):
            raise KsadkError(f"{request.id} has expired", code="approval_expired")
        if request.state != "pending":
            raise KsadkError(
                f"{request.id} was already {request.state} by {request.decided_by}", code="approval_decided"
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            db = sqlite3.connect(self.path, timeout=20, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise self._unavailable(error) from error
        try:
            db.execute("PRAGMA secure_delete = ON")  # what is deleted held a call's arguments
            db.execute("BEGIN IMMEDIATE")
            self._migrate(db)
            yield db
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._unavailable(error) from error
        finally:
            db.close()  # rolls back what was not committed

    def _migrate(self, db: sqlite3.Connection) -> None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise StoreUnavailable(
                f"{self.path} was written by a newer version of this program",
                hint="Upgrade agentengine-cli, or set XDG_STATE_HOME to another directory.",
            )
        for number, schema in enumerate((_SCHEMA, _LOG_SCHEMA), start=1):
            if version < number:
                for statement in schema.split(";\n"):
                    db.execute(statement)
        if version < _VERSION:
            db.execute(f"PRAGMA user_version = {_VERSION}")

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(
            f"the approval store {self.path} cannot be used: {error}",
            hint="See to that file and its directory, or set XDG_STATE_HOME to another one.",
        )


def _grant_key(session_key: str, request: ApprovalRequest) -> tuple[str, ...]:
    return (
        session_key,
        _path_text(request.project),
        _storable(request.account_id),
        request.tool_name,
        _storable(f"{request.plan.where}\n{request.session_id}"),
        request.arguments_digest,
    )


def _to_row(request: ApprovalRequest) -> tuple[Any, ...]:
    values = {name: getattr(request, name) for name in _COLUMNS}
    for name in _PATHS:
        values[name] = _path_text(values[name])
    values["arguments"] = json.dumps(request.arguments)
    values["side_effects"] = json.dumps(request.side_effects)
    values["plan"] = plan_to_json(request.plan)
    values["edited"] = int(request.edited)
    return tuple(_storable(value) if isinstance(value, str) else value for value in values.values())


def _from_row(row: tuple[Any, ...]) -> ApprovalRequest:
    values = dict(zip(_COLUMNS, row, strict=True))
    try:
        for name in _PATHS:
            values[name] = os.fsdecode(values[name].encode("latin-1"))
        values["arguments"] = dict(json.loads(values["arguments"]))
        values["side_effects"] = tuple(json.loads(values["side_effects"]))
        require_texts([*values["arguments"], *values["side_effects"]])
        values["plan"] = plan_from_json(values["plan"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreUnavailable(
            f"the approval request {values['id']} is damaged: {error}",
            hint="Something else has written to the file; move it away to start anew.",
        ) from error
    values["edited"] = bool(values["edited"])
    return ApprovalRequest(**values)


def _path_text(path: str) -> str:
    """A path as text that SQLite can hold and that gives the same path back: one character for each byte,
    since file names need not be UTF-8."""
    return os.fsencode(path).decode("latin-1")


def _storable(text: str) -> str:
    """Text that SQLite can hold: lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
