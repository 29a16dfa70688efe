"""Workload tokens: what proves to the platform which runtime asks, a file for each audience."""

from __future__ import annotations

import base64
import json
import math
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

from ksadk.a2a.space.errors import WorkloadTokenError

Audience = Literal["a2a-registry", "a2a-task-sink", "credential-broker", "a2a-gateway"]

MAX_TOKEN_BYTES = 16 * 1024


class WorkloadTokens:
    """The tokens in a directory, `<audience>.jwt` each. A file is read whenever its token is asked for, since
    the platform replaces it before it expires.

    clock: seconds since 1970.
    """

    def __init__(self, directory: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self._clock = clock
        self._read: dict[Audience, str] = {}

    def __repr__(self) -> str:
        return f"WorkloadTokens({str(self.directory)!r})"

    def token(self, audience: Audience) -> str:
        """The token for an audience. `WorkloadTokenError` where it is missing, where others could have
        written or read it, and where it is expired or for somebody else. Its signature is not checked: that
        is the server's to do."""
        if audience not in get_args(Audience):
            raise WorkloadTokenError(f"{audience!r} is no audience of workload tokens")
        file = self.directory / f"{audience}.jwt"
        try:
            text = _read(file, self.directory)
        except OSError as error:
            raise _unusable(file, f"cannot be read: {error.strerror or type(error).__name__}") from error
        _check(file, text, audience, self._clock())
        self._read[audience] = text
        return text

    def secrets(self) -> frozenset[str]:
        """The tokens that were read last, and those that are there now, needed or not: what no other origin
        may be sent."""
        found = set(self._read.values())
        for audience in get_args(Audience):
            try:
                found.add(_read(self.directory / f"{audience}.jwt", self.directory))
            except (OSError, WorkloadTokenError):
                pass  # what cannot be read here is in no message from here
        return frozenset(found)


def _read(file: Path, directory: Path) -> str:
    """The text of a token's file, which is looked at through the descriptor that it is read from."""
    place = Path(os.path.realpath(file, strict=True))  # unlike Path.resolve, an OSError for links in a loop
    if not place.is_relative_to(os.path.realpath(directory)):
        raise _unusable(file, "leads out of the directory of tokens")
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(file, "is no regular file")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise _unusable(file, "can be written by others: chmod 600 it")
        if found.st_mode & stat.S_IROTH and found.st_uid != 0:
            raise _unusable(file, "can be read by everybody: chmod 600 it")
        data = os.read(descriptor, MAX_TOKEN_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_TOKEN_BYTES:
        raise _unusable(file, f"is larger than {MAX_TOKEN_BYTES // 1024} KiB")
    try:
        return data.decode("ascii").strip()
    except UnicodeDecodeError:
        raise _unusable(file, "is not ASCII") from None


def _check(file: Path, text: str, audience: str, now: float) -> None:
    if not text:
        raise _unusable(file, "is empty")
    parts = text.split(".")
    if len(parts) != 3 or not all(parts) or not text.isprintable() or " " in text:
        raise _unusable(file, "is no JWT of three parts")
    claims = _claims(parts[1])
    if claims is None:
        raise _unusable(file, "is a JWT whose claims cannot be read")
    expires = claims.get("exp")
    # Not math.isfinite, for which an integer can be too large.
    if (
        isinstance(expires, bool)
        or not isinstance(expires, int | float)
        or not -math.inf < expires < math.inf
    ):
        raise _unusable(file, "does not say when it expires")
    meant = claims.get("aud")
    if audience != meant and not (isinstance(meant, list) and audience in meant):
        raise _unusable(file, f"is not for the audience {audience}")
    if expires <= now:
        raise _unusable(file, "has expired")


def _claims(part: str) -> dict[str, Any] | None:
    try:
        claims = json.loads(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        return None
    return claims if isinstance(claims, dict) else None


def _unusable(file: Path, why: str) -> WorkloadTokenError:
    return WorkloadTokenError(
        f"the workload token {file} {why}",
        hint="The platform writes these files; KSADK_A2A_TOKEN_DIR names their directory.",
    )
