"""What stands before an agent's server: whose pages and which names may reach it, who may call, and how much.

Plain ASGI, so that a request that is let through costs little.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ksadk.a2a.callers import CALLER, BearerFile, Caller
from ksadk.a2a.options import Limits
from ksadk.errors import KsadkError

BODY_SECONDS = 60.0
"""How long a request may take to arrive."""

_NAME = re.compile(r"\*|(\*\.)?[\w-]+(\.[\w-]+)*")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_HOST = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]*?)\.?)(?::\d*)?")
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    408: "DEADLINE_EXCEEDED",
    413: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class Refused(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, message: str, *headers: tuple[str, str]) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


@dataclass(frozen=True)
class Hosts:
    """The names under which a server is called, in Host headers, and by its own pages, in Origin headers.

    A name that is not one of them is somebody else's that leads here (DNS rebinding). An address cannot be
    made to lead elsewhere, so where the server listens on all of the machine's, each is taken.
    """

    names: frozenset[str]
    origins: frozenset[str] = frozenset()
    any_address: bool = False

    @classmethod
    def of(cls, *, urls: Iterable[str], allowed: Iterable[str] = (), any_address: bool = False) -> Hosts:
        """The hosts of the URLs, those that are allowed (`*` is each, `*.x` each below x), and loopback."""
        parts = [urlsplit(url) for url in urls]
        names = {part.hostname or "" for part in parts} | {_allowed(name) for name in allowed}
        return cls(
            frozenset(names | {"localhost", "127.0.0.1", "::1"}),
            frozenset(f"{part.scheme}://{part.netloc}".lower() for part in parts),
            any_address,
        )

    def takes_host(self, header: str) -> bool:
        """Whether a Host header names this server."""
        host = _host(header)
        if host in self.names or "*" in self.names:
            return True
        if self.any_address and _is_address(host):
            return True
        return any(name.startswith("*.") and host.endswith(name[1:]) for name in self.names)

    def takes_origin(self, header: str) -> bool:
        """Whether a page of that origin is this server's own."""
        return header.lower() in self.origins


class Guards:
    """Lets a request through, or answers it. `open_paths` need no token: whoever looks for an agent reads its
    card first. Everything else does, whether or not it is a route. Without `hosts` every name will do."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Hosts | None,
        limits: Limits,
        bearer: BearerFile | None = None,
        open_paths: frozenset[str] = frozenset(),
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._limits = limits
        self._bearer = bearer
        self._open_paths = open_paths
        self._is_stopping = is_stopping
        self._requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        self._requests += 1
        try:
            receive = await self._checked(scope, receive)
        except Refused as refused:
            await _answer(refused, send)
        else:
            await self._app(scope, receive, send)
        finally:
            self._requests -= 1

    async def _checked(self, scope: Scope, receive: Receive) -> Receive:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self._check_where(headers)
        scope[CALLER] = self._caller(scope, headers)
        if self._is_stopping():
            raise Refused(503, "The server is stopping.", ("retry-after", "1"), ("connection", "close"))
        if self._requests > self._limits.requests:
            raise Refused(503, "The server has as many requests as it can take.", ("retry-after", "1"))
        if scope["method"] in ("GET", "HEAD"):
            return receive
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._body(headers, receive)
        except TimeoutError as error:
            raise Refused(408, "The request did not arrive in time.", ("connection", "close")) from error
        _check_depth(body, self._limits.depth)
        return _replayed(body, receive)

    def _check_where(self, headers: dict[bytes, bytes]) -> None:
        if self._hosts is None:
            return
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._hosts.takes_host(host):
            names = "--allowed-host, or allowed_hosts, adds a name"
            raise Refused(403, f"This server is not called {_host(host)!r}: {names}.")
        origin = headers.get(b"origin")
        if origin is not None and not self._hosts.takes_origin(origin.decode("latin-1")):
            raise Refused(403, "Web pages of other origins may not call this server.")

    def _caller(self, scope: Scope, headers: dict[bytes, bytes]) -> Caller:
        if self._bearer is None or scope["path"] in self._open_paths:
            return Caller()
        caller = self._bearer.caller(headers.get(b"authorization", b"").decode("latin-1"))
        if caller is None:
            raise Refused(401, "A bearer token is needed.", ("www-authenticate", 'Bearer realm="a2a"'))
        return caller

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        most = self._limits.body
        too_large = Refused(413, f"A request has at most {most} bytes.", ("connection", "close"))
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > most:
            raise too_large
        message = await receive()
        if not message.get("more_body"):
            body: bytes = message.get("body", b"")
            if len(body) > most:
                raise too_large
            return body
        pieces, size = [message["body"]], len(message["body"])
        while message.get("more_body"):
            message = await receive()
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > most:
                raise too_large
        return b"".join(pieces)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body that was read, and then what else comes: that the client has gone."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay


def _check_depth(body: bytes, most: int) -> None:
    """Refuse JSON that is nested deeper than `most`: parsers recurse."""
    if body.count(b"{") + body.count(b"[") <= most:
        return
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    outside_of_strings = b"".join(unescaped.split(b'"')[::2])
    depth = 0
    for bracket in outside_of_strings.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > most:
            raise Refused(400, f"A request's JSON is nested at most {most} deep.")


def _allowed(name: str) -> str:
    """A name as `Hosts` has it; one that no Host header could match is an error."""
    bare = name.lower().strip("[]").rstrip(".")
    if not _NAME.fullmatch(bare) and not _is_address(bare):
        raise KsadkError(
            f"an allowed host is a name or an address, without scheme, port or path, and not {name!r}",
            code="usage",
            hint="agents.example.com is one, *.example.com all below it.",
        )
    return bare


def _host(header: str) -> str:
    """The host of a Host header, without its port; all of a header that is not of that form."""
    found = _HOST.fullmatch(header)
    return (found[1] or found[2] or "").lower() if found else header


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _answer(refused: Refused, send: Send) -> None:
    error = {"code": refused.status, "status": _STATUS[refused.status], "message": refused.message}
    body = json.dumps({"error": error}).encode()
    headers = [("content-type", "application/json"), ("content-length", str(len(body))), *refused.headers]
    await send(
        {
            "type": "http.response.start",
            "status": refused.status,
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        }
    )
    await send({"type": "http.response.body", "body": body})
