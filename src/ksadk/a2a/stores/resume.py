"""Where a run that was interrupted goes on: handles and checkpoints, which no caller sees."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from ksadk.a2a.stores.sqlite_file import SQLiteFile

A2AResumePayloadKind = Literal["tool_result", "approval_decision", "hitl_answer", "free_text"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ksadk_a2a_resume_states (
    resume_key_sha256 TEXT PRIMARY KEY, state_json TEXT NOT NULL
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class RunHandle:
    """A run as its runtime knows it; `native_ref` is that runtime's own, as JSON values."""

    run_id: str
    session_id: str
    runtime_type: str
    native_ref: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResumeTarget:
    """The place in a run where it goes on, a checkpoint for instance."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class A2AResumeState:
    """A run that waits, the place where it goes on, and what it waits for."""

    handle: RunHandle
    target: ResumeTarget
    payload_kind: A2AResumePayloadKind
    call_id: str | None = None


class A2AResumeStateStore(Protocol):
    """Resume states by a key that names caller, session and task."""

    async def initialize(self) -> None:
        """Make the store ready, before the first request."""

    async def put(self, key: str, state: A2AResumeState) -> None:
        """Keep a state, instead of the one that the key had."""

    async def get(self, key: str) -> A2AResumeState | None:
        """The state of a key."""

    async def delete(self, key: str) -> None:
        """Forget the state of a key, if it has one."""


class InMemoryA2AResumeStateStore:
    """Resume states that end with the process."""

    def __init__(self) -> None:
        self._states: dict[str, A2AResumeState] = {}

    async def initialize(self) -> None:
        """There is nothing to do."""

    async def put(self, key: str, state: A2AResumeState) -> None:
        """Keep a state, instead of the one that the key had."""
        self._states[key] = state

    async def get(self, key: str) -> A2AResumeState | None:
        """The state of a key."""
        return self._states.get(key)

    async def delete(self, key: str) -> None:
        """Forget the state of a key, if it has one."""
        self._states.pop(key, None)


class SQLiteA2AResumeStateStore:
    """Resume states in a file 0600, in which keys are hashes. Calls raise `StoreError`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    async def initialize(self) -> None:
        """Open the file, which the first call does otherwise."""
        _ = self._file

    async def put(self, key: str, state: A2AResumeState) -> None:
        """Keep a state, instead of the one that the key had; returns when it is on disk."""
        await self._file.write(
            "INSERT OR REPLACE INTO ksadk_a2a_resume_states VALUES (?, ?)",
            (_hashed(key), json.dumps(asdict(state))),
        )

    async def get(self, key: str) -> A2AResumeState | None:
        """The state of a key."""
        query = "SELECT state_json FROM ksadk_a2a_resume_states WHERE resume_key_sha256 = ?"
        rows = self._file.rows(query, (_hashed(key),))
        if not rows:
            return None
        kept = json.loads(rows[0][0])
        handle, target = RunHandle(**kept.pop("handle")), ResumeTarget(**kept.pop("target"))
        return A2AResumeState(handle, target, **kept)

    async def delete(self, key: str) -> None:
        """Forget the state of a key, if it has one."""
        await self._file.write(
            "DELETE FROM ksadk_a2a_resume_states WHERE resume_key_sha256 = ?", (_hashed(key),)
        )

    @functools.cached_property
    def _file(self) -> SQLiteFile:
        return SQLiteFile(self.path, _SCHEMA)


def _hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
