"""A platform on a raw socket that answers with the bytes of files; what tests of its clients share."""

from __future__ import annotations

import base64
import fnmatch
import json
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from ksadk.a2a.space.control_plane import A2AControlPlaneClient
from ksadk.a2a.space.tokens import WorkloadTokens

FIXTURES = Path(__file__).parent / "fixtures/a2a_space"
"""Port 65535 in a file stands for the one that is listened on, `*` for anything."""

SPACE = "space-demo"
AGENT = "a2a-agent-3f2b8c1d9e0a4b5c8d7e6f5a4b3c2d1e"
EXTERNAL = "a2a-agent-7c6d5e4f3a2b4c1d9e8f7a6b5c4d3e2f"
BLOCKED = "weather (third party)/3"
VERSION = "a2a-version-0a1b2c3d4e5f4a6b8c7d8e9f0a1b2c3d"
TASK = "a2a-task-5e4d3c2b1a0f4e9d8c7b6a5f4e3d2c1b"
PERMIT = "permit-3c1f.e2b8"
MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "总结本周研究"}]}
AUDIENCES = ("a2a-registry", "a2a-task-sink", "credential-broker", "a2a-gateway")
AT = datetime(2026, 11, 30, 8, 0, 0, tzinfo=UTC)

_RPC_ID = re.compile(rb'"id":"[0-9a-f-]{36}"')


def request_bytes(name: str) -> bytes:
    return (FIXTURES / f"{name}.request.http").read_bytes()


def answer_bytes(name: str) -> bytes:
    return (FIXTURES / f"{name}.response.http").read_bytes()


def answer_data(name: str) -> Any:
    """The Data of an answer in a file."""
    return json.loads(answer_bytes(name).partition(b"\r\n\r\n")[2])["Data"]


def http(body: bytes | str, status: str = "200 OK", *headers: str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    head = "\r\n".join([f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(data)}"])
    return head.encode() + b"\r\n\r\n" + data


def part(value: Any) -> str:
    """A part of a JWT."""
    data = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def jwt(audience: Any, expires: Any = 4102444800) -> str:
    """A token as those in the files."""
    claims = {"aud": audience, "exp": expires}
    return ".".join(part(item) for item in ({"alg": "ES256", "typ": "JWT"}, claims, b"test-signature"))


def put_tokens(directory: Path) -> Path:
    """A directory with a token for each audience."""
    directory.mkdir(exist_ok=True)
    for audience in AUDIENCES:
        file = directory / f"{audience}.jwt"
        file.write_text(jwt(audience))
        file.chmod(0o600)
    return directory


@dataclass
class Asked:
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def operation(self) -> str:
        """The action, the JSON-RPC method, or verb and path."""
        path = self.line.split(" ")[1].partition("?")[0]
        if "/internal/" in path or "/api/" in path:
            return path.rpartition("/")[2]
        if path == "/a2a/jsonrpc":
            return str(self.json["method"])
        return self.line.rpartition(" ")[0]


@dataclass
class Platform:
    """The server: an operation gets its next answer, and the last one for ever."""

    port: int
    answers: dict[str, list[bytes]]
    requests: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def operations(self) -> list[str]:
        return [asked.operation for asked in self.requests]

    def control_plane(self, tokens: Path, **options: Any) -> A2AControlPlaneClient:
        """A client that does not wait before it asks again."""

        async def at_once(_: float) -> None: ...

        return A2AControlPlaneClient(self.url, WorkloadTokens(tokens), **({"sleep": at_once} | options))

    def check(self, number: int, name: str) -> None:
        """Hold a request against a file: its line, the headers there, and its body to the byte; of a body
        that is JSON-RPC or REST of A2A, the JSON."""
        asked = self.requests[number]
        head, _, body = request_bytes(name).replace(b"65535", str(self.port).encode()).partition(b"\r\n\r\n")
        line, *lines = head.decode().split("\r\n")
        assert asked.line == line
        for wanted, _, value in (entry.partition(": ") for entry in lines):
            given = asked.headers.get(wanted.lower())
            if wanted != "Content-Length":
                assert given is not None and fnmatch.fnmatchcase(given, value.replace("[", "[[]")), wanted
        if "A2A-Version" in head.decode():
            assert json.loads(_RPC_ID.sub(b'"id":"*"', asked.body) or b"{}") == json.loads(body or b"{}")
        else:
            assert asked.body == body

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while (asked := _read(connection)) is not None:
                self.requests.append(asked)
                answers = self.answers.get(asked.operation) or [http("", "404 Not Found")]
                data = answers.pop(0) if len(answers) > 1 else answers[0]
                try:
                    connection.sendall(data.replace(b"65535", str(self.port).encode()))
                except OSError:
                    return
                if b"text/event-stream" in data[:200]:
                    return


def _read(connection: socket.socket) -> Asked | None:
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
        while len(body) < int(headers.get("content-length", 0)):
            body += connection.recv(65536)
    except OSError:
        return None
    return Asked(line, headers, body)


@contextmanager
def platform(**answers: str | bytes | list[str | bytes]) -> Iterator[Platform]:
    """A platform that answers operations with files (by name) or bytes."""
    listed = {key: value if isinstance(value, list) else [value] for key, value in answers.items()}
    as_bytes = {
        key: [item if isinstance(item, bytes) else answer_bytes(item) for item in items]
        for key, items in listed.items()
    }
    listener = socket.create_server(("127.0.0.1", 0))
    server = Platform(listener.getsockname()[1], as_bytes)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=server._serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


class ToLoopback(httpx.AsyncBaseTransport):
    """Takes what is meant for any host to a port of this machine, over http and otherwise unchanged."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._transport = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self._port)
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        await self._transport.aclose()


class Vendors:
    """An external transport that leads every vendor's name to one server."""

    policy_revision = "test"
    route_kinds = frozenset({"external_public"})

    def __init__(self, port: int) -> None:
        self._port = port

    @asynccontextmanager
    async def lease(self, url: str) -> AsyncIterator[httpx.AsyncBaseTransport]:
        transport = ToLoopback(self._port)
        try:
            yield transport
        finally:
            await transport.aclose()


WORKS: dict[str, str] = {
    "BindA2ARemoteTask": "bind",
    "AppendA2ATaskEvents": "append_events",
    "PrepareA2ACall": "prepare_call",
    "PrepareA2ATaskOperation": "prepare_task",
    "ListA2ASpaceAgents": "list_agents",
}
"""What a platform answers when all goes well; what its agents answer is for the test to say."""


def configuration(server: Platform, tokens: Path, spaces: str = SPACE) -> dict[str, str]:
    """The variables that name a platform."""
    return {
        "KSADK_A2A_SPACE_IDS": spaces,
        "KSADK_A2A_CONTROL_PLANE_URL": server.url,
        "KSADK_A2A_TOKEN_DIR": str(put_tokens(tokens)),
    }


def changed(name: str, old: str, new: str) -> bytes:
    """An answer of a file with another body."""
    body = answer_bytes(name).partition(b"\r\n\r\n")[2]
    assert old.encode() in body
    return http(body.replace(old.encode(), new.encode()))
