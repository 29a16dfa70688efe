"""Which session of ours a caller's context is."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import secrets
from dataclasses import astuple, dataclass
from pathlib import Path

from ksadk.a2a.stores.sqlite_file import SQLiteFile

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ksadk_a2a_contexts (
    context_sha256 TEXT PRIMARY KEY, session_id TEXT NOT NULL
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class A2AContextIdentity:
    """Who calls, as a trusted edge has verified it; `caller_principal_type` is user, runtime or service."""

    account_id: str
    tenant_id: str
    caller_principal_type: str
    caller_principal_id: str


class SQLiteA2AContextStore:
    """Gives each context of each caller a session `a2a-session-<hex>`, which it keeps for good.

    On disk there are hashes of callers and contexts only, in a file 0600. Calls raise `StoreError`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    async def initialize(self) -> None:
        """Open the file, which the first call does otherwise."""
        _ = self._file

    async def resolve_or_create(
        self, identity: A2AContextIdentity, external_id: str, *, isolation_scope: str | None = None
    ) -> str:
        """The session of a caller's context, a new one the first time. The same context in another
        `isolation_scope` is another one."""
        key = _key(identity, external_id, isolation_scope)
        found = self._session(key)
        if found is None:
            await self._file.write(
                "INSERT OR IGNORE INTO ksadk_a2a_contexts VALUES (?, ?)",
                (key, f"a2a-session-{secrets.token_hex(16)}"),
            )
            found = self._session(key)
        assert found is not None, "it has just been written"
        return found

    async def get(
        self, identity: A2AContextIdentity, external_id: str, *, isolation_scope: str | None = None
    ) -> str | None:
        """The session of a caller's context, None where it has none yet."""
        return self._session(_key(identity, external_id, isolation_scope))

    def _session(self, key: str) -> str | None:
        rows = self._file.rows("SELECT session_id FROM ksadk_a2a_contexts WHERE context_sha256 = ?", (key,))
        return rows[0][0] if rows else None

    @functools.cached_property
    def _file(self) -> SQLiteFile:
        return SQLiteFile(self.path, _SCHEMA)


def _key(identity: A2AContextIdentity, external_id: str, isolation_scope: str | None) -> str:
    named = json.dumps([*astuple(identity), external_id, isolation_scope])
    return hashlib.sha256(named.encode()).hexdigest()
