"""What agents are shown of their owner, each in a file of its own that only this user reads."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ksadk.a2a.center.private_files import read_private, write_private
from ksadk.a2a.space.errors import A2AEgressError
from ksadk.a2a.space.fields import InvalidPayload, object_of
from ksadk.a2a.space.injection import check_injectable
from ksadk.a2a.space.models import Credential

MAX_VALUES = 32
MAX_VALUE = 8192
"""Characters."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_PARTS = ("Headers", "Query", "Cookies")


class Credentials:
    """The credentials in a directory, by handle: a random name, which is not the secret itself."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, credential: Credential) -> str:
        """Keep a credential; its handle."""
        handle = f"cred-{secrets.token_hex(16)}"
        write_private(self._directory / f"{handle}.json", json.dumps(credential.to_payload()).encode())
        return handle

    def get(self, handle: str, expires_at: str) -> Credential:
        """What was kept, to be used until then; an empty one where it is gone."""
        data = read_private(self._directory / f"{handle}.json")
        kept = Credential.from_payload(json.loads(data)) if data else Credential()
        return replace(kept, expires_at=expires_at)

    def forget(self, handle: str) -> None:
        """Delete a credential."""
        (self._directory / f"{handle}.json").unlink(missing_ok=True)

    def forget_all_but(self, handles: Collection[str], before: float) -> None:
        """Delete what was written before that time, whole or not, and belongs to no agent: a center was ended
        in between."""
        for file in self._directory.glob("*"):
            if file.name.removesuffix(".json") not in handles and file.stat().st_mtime < before:
                file.unlink(missing_ok=True)


def read_credential(value: Any) -> Credential:
    """A credential as an owner gives it: `{Headers, Query, Cookies}`. `InvalidPayload` where it is none; no
    value is in its words."""
    given = object_of(value, "Credential")
    if unknown := set(given) - set(_PARTS):
        raise InvalidPayload(
            f"Credential has {', '.join(sorted(unknown))[:80]}; {', '.join(_PARTS)} are known"
        )
    credential = Credential.from_payload({"Injection": given})
    try:
        check_injectable(credential)
    except A2AEgressError as error:
        raise InvalidPayload(error.message) from error
    parts: tuple[Mapping[str, str], ...] = (credential.headers, credential.query, credential.cookies)
    if sum(map(len, parts)) > MAX_VALUES:
        raise InvalidPayload(f"Credential has more than {MAX_VALUES} values")
    for part, values in zip(_PARTS, parts, strict=True):
        for name, text in values.items():
            if not _NAME.fullmatch(name):
                raise InvalidPayload(f"a name in {part} of Credential is none")
            if not 0 < len(text) <= MAX_VALUE or not text.isascii() or not text.isprintable():
                raise InvalidPayload(
                    f"the value of {name} in {part} of Credential is empty or cannot be sent"
                )
    return credential
