"""What lets a package be downloaded without the token: an address that is signed, and that expires."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

LIFETIME = 300
"""Seconds that an address of a download counts."""


class Tickets:
    """Signs for one version of one skill, with a key that ends with the process."""

    def __init__(self, *, lifetime: int = LIFETIME, clock: Callable[[], float] = time.time) -> None:
        self._key = secrets.token_bytes(32)
        self._lifetime = lifetime
        self._clock = clock

    def query(self, skill_id: str, version_id: str) -> str:
        """The query of an address from which that version can be downloaded."""
        expires = str(int(self._clock()) + self._lifetime)
        signature = self._signature(skill_id, version_id, expires)
        named = {"SkillId": skill_id, "VersionId": version_id, "Expires": expires, "Signature": signature}
        return urlencode(named)

    def counts(self, query: Mapping[str, str]) -> bool:
        """Whether a query was signed here, and has not expired."""
        skill_id, version_id, expires, given = (
            query.get(name, "") for name in ("SkillId", "VersionId", "Expires", "Signature")
        )
        signature = self._signature(skill_id, version_id, expires)
        signed = hmac.compare_digest(signature.encode(), given.encode("utf-8", "surrogatepass"))
        return signed and self._clock() < int(expires)

    def _signature(self, *signed: str) -> str:
        message = json.dumps(signed).encode()
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()
