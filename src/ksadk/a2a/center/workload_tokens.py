"""The tokens that workloads show: who is asking, for each audience; issued here, and checked here."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import jwt

from ksadk.a2a.center.private_files import read_or_make, write_private
from ksadk.a2a.center.refusal import Refusal
from ksadk.a2a.space.tokens import MAX_TOKEN_BYTES, Audience

ISSUER = "agentengine-a2a-center"
LIFETIME = 3600
"""Seconds that a token counts; its file is written anew when a third of them is over."""

_ALGORITHM = "HS256"


@dataclass(frozen=True)
class Workload:
    """Who asks: a workload of an account. Tasks belong to both together."""

    name: str
    account: str

    @property
    def owner(self) -> str:
        """Whose the tasks are."""
        return f"{self.account}/{self.name}"


class Signer:
    """Signs claims with the center's own key, and reads what it has signed; nobody else can do either.

    clock: seconds since 1970.
    """

    def __init__(self, key: bytes, *, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self.clock = clock

    @classmethod
    def of_file(cls, path: Path, *, clock: Callable[[], float] = time.time) -> Signer:
        """With the key in a file of mode 0600, which is made where there is none."""
        return cls(read_or_make(path, lambda: secrets.token_hex(32).encode()), clock=clock)

    def sign(self, claims: Mapping[str, Any]) -> str:
        """A JWT. The same claims make the same one."""
        return jwt.encode({"iss": ISSUER, **claims}, self._key, _ALGORITHM)

    def read(self, token: str, audience: str) -> dict[str, Any] | None:
        """The claims of a JWT that was signed here for that audience, also of one that has expired; None of
        any other."""
        if len(token) > MAX_TOKEN_BYTES:
            return None
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key,
                [_ALGORITHM],
                audience=audience,
                issuer=ISSUER,
                options={"require": ["exp", "aud", "sub"], "verify_exp": False, "verify_iat": False},
            )
        except (jwt.InvalidTokenError, ValueError):
            return None
        return claims


class TokenIssuer:
    """Issues tokens of workloads, and checks them."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def issue(self, workload: Workload, audience: Audience) -> str:
        """A token."""
        now = int(self._signer.clock())
        return self._signer.sign(
            {
                "sub": workload.name, "account_id": workload.account, "aud": audience, "iat": now,
                "exp": now + LIFETIME, "jti": secrets.token_hex(8),
            }
        )  # fmt: skip

    def workload(self, authorization: str, audience: Audience) -> Workload:
        """Whose token an Authorization header carries. `Refusal` 401 without one for that audience."""
        scheme, _, token = authorization.partition(" ")
        claims = self._signer.read(token.strip(), audience) if scheme.lower() == "bearer" else None
        if claims is None:
            raise _unauthenticated(f"a bearer token of this center for the audience {audience} is needed")
        if claims["exp"] <= self._signer.clock():
            raise _unauthenticated("the token has expired")
        return Workload(str(claims["sub"]), str(claims.get("account_id", "")))

    def write(self, directory: Path, workload: Workload) -> None:
        """Write a file for each audience into a directory, where a client looks for them."""
        for audience in get_args(Audience):
            write_private(directory / f"{audience}.jwt", self.issue(workload, audience).encode())


def _unauthenticated(message: str) -> Refusal:
    return Refusal(401, "A2A_UNAUTHENTICATED", message)
