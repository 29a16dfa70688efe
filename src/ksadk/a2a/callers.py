"""Who calls: bearer tokens from a file, and the identity that a trusted edge states."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any

from a2a.auth.user import User
from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.routes.common import ServerCallContextBuilder
from starlette.requests import Request

from ksadk.a2a.stores.base import ACCOUNT_KEY, RUNTIME_KEY
from ksadk.errors import KsadkError

CALLER = "ksadk.caller"
"""The key of an ASGI scope under which a guard leaves the `Caller` that it let through."""

ACCOUNT_HEADERS = ("x-ksc-account-id", "x-account-id")
RUNTIME_HEADERS = ("x-auth-agent-id", "x-ksc-agent-id", "x-runtime-id")

_SHORTEST_TOKEN = 16
_NAME = re.compile(r"(?!anonymous$)[\w.@-]{1,128}")

log = logging.getLogger(__name__)

Network = IPv4Network | IPv6Network


class BearerFileError(KsadkError):
    """A file of bearer tokens that cannot be used."""

    code = "invalid_bearer_file"


@dataclass(frozen=True)
class Caller(User):
    """Somebody who calls; without authentication everybody has the same empty name."""

    name: str = ""
    authenticated: bool = False

    @property
    def is_authenticated(self) -> bool:
        """Whether the name was proved."""
        return self.authenticated

    @property
    def user_name(self) -> str:
        """The name that tasks belong to."""
        return self.name


class BearerFile:
    """The callers who may come, one a line: `TOKEN`, or `NAME TOKEN` so that a new token keeps the tasks of
    the old one. Blank lines and those that begin with # say nothing.

    The file is read again when it has changed. One that can no longer be used lets nobody in.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = self._stamp()
        self._callers = self._read()

    def caller(self, header: str) -> Caller | None:
        """Whose token an Authorization header carries; None for nobody's."""
        scheme, _, token = header.partition(" ")
        self._refresh()
        given = _digest(token.strip())
        found = None
        for digest, caller in self._callers:  # all of them, so that the time tells nothing
            if hmac.compare_digest(digest, given):
                found = caller
        return found if scheme.lower() == "bearer" else None

    def _refresh(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._callers = self._read()
        except BearerFileError as error:
            log.error("%s; nobody is let in", error.message)
            self._callers = []

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = os.stat(self.path)  # noqa: PTH116  # asked at each request
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def _read(self) -> list[tuple[bytes, Caller]]:
        callers = []
        for name, token in bearer_tokens(self.path):
            digest = _digest(token)
            callers.append((digest, Caller(name or f"token-{digest.hex()[:16]}", authenticated=True)))
        return callers


def bearer_tokens(path: Path) -> list[tuple[str, str]]:
    """The name, or "", and the token of each line of a file as `BearerFile` has; there is one at least."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BearerFileError(f"{path}: the bearer tokens cannot be read: {why}") from error
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2:
            raise BearerFileError(f"{path}:{number}: a line is TOKEN or NAME TOKEN")
        if len(words[-1]) < _SHORTEST_TOKEN:
            raise BearerFileError(
                f"{path}:{number}: a token has at least {_SHORTEST_TOKEN} characters",
                hint="Make one with: openssl rand -hex 32",
            )
        if len(words) == 2 and not _NAME.fullmatch(words[0]):
            raise BearerFileError(f"{path}:{number}: a name has letters, digits and . _ @ - only")
        found.append((words[0] if len(words) == 2 else "", words[-1]))
    if not found:
        raise BearerFileError(f"{path}: holds no bearer token")
    return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def trusted_networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """The addresses of a trusted edge."""
    try:
        return tuple(ip_network(text, strict=False) for text in texts)
    except ValueError as error:
        raise KsadkError(f"a trusted edge is an address or a network: {error}", code="usage") from error


class CallContexts(ServerCallContextBuilder):
    """Makes the call context of a request.

    Headers that state an identity count only where they come from `trusted_edge`; from anywhere else they
    are forged as easily as sent, and are ignored.
    """

    def __init__(
        self,
        trusted_edge: tuple[Network, ...] = (),
        *,
        account_headers: Sequence[str] = ACCOUNT_HEADERS,
        runtime_headers: Sequence[str] = RUNTIME_HEADERS,
    ) -> None:
        self._trusted_edge = trusted_edge
        self._account_headers = tuple(name.lower() for name in account_headers)
        self._runtime_headers = tuple(name.lower() for name in runtime_headers)

    def build(self, request: Request) -> ServerCallContext:
        """The call context, with the caller that a guard let through."""
        headers = dict(request.headers)
        version = request.query_params.get("A2A-Version") if request.scope["query_string"] else None
        if version and "a2a-version" not in headers:  # (3.6.1)
            headers["a2a-version"] = version
        state: dict[str, Any] = {"headers": headers}
        caller = request.scope.get(CALLER) or Caller()
        if self._trusted_edge and self._from_edge(request):
            caller = self._stated(headers, state) or caller
        return ServerCallContext.model_construct(
            user=caller,
            state=state,
            tenant="",
            requested_extensions=get_requested_extensions(request.headers.getlist(HTTP_EXTENSION_HEADER)),
        )

    def _from_edge(self, request: Request) -> bool:
        if request.client is None:
            return False
        try:
            address = ip_address(request.client.host)
        except ValueError:
            return False
        return any(address in network for network in self._trusted_edge)

    def _stated(self, headers: dict[str, str], state: dict[str, Any]) -> Caller | None:
        account = next((headers[name] for name in self._account_headers if headers.get(name)), "")
        runtime = next((headers[name] for name in self._runtime_headers if headers.get(name)), "")
        if not account and not runtime:
            return None
        state[ACCOUNT_KEY], state[RUNTIME_KEY] = account, runtime
        return Caller("/".join(filter(None, (account, runtime))), authenticated=True)
