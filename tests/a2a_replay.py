"""A server on a raw socket that answers with the bytes of files: what agents say, to the last byte."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent / "fixtures/a2a"


def fixture_bytes(name: str) -> bytes:
    return (FIXTURES / f"client_{name}.http").read_bytes()


@dataclass
class Request:
    """A request as it came."""

    verb: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def operation(self) -> str:
        """The JSON-RPC method, or verb and path."""
        if self.path.startswith("/rpc"):
            return str(self.json["method"])
        return f"{self.verb} {self.path}"


@dataclass
class Replay:
    """The server: `answers` has for an operation the bytes of each answer in turn, the last for ever.

    `piece` cuts what it sends into pieces of so many bytes, and `pause` is the seconds between two.
    """

    port: int
    answers: dict[str, list[bytes]]
    piece: int = 0
    pause: float = 0
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def operations(self) -> list[str]:
        return [request.operation for request in self.requests]

    def last(self, operation: str) -> Request:
        return [request for request in self.requests if request.operation == operation][-1]

    def answer(self, connection: socket.socket) -> None:
        with connection:
            request = _read(connection)
            if request is None:
                return
            self.requests.append(request)
            answers = self.answers.get(request.operation) or [fixture_bytes("404")]
            data = answers.pop(0) if len(answers) > 1 else answers[0]
            data = data.replace(b"PORT", str(self.port).encode())
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for start in range(0, len(data), self.piece or len(data)):
                    connection.sendall(data[start : start + (self.piece or len(data))])
                    time.sleep(self.pause)
            except OSError:  # the client has heard enough
                pass


def _read(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    verb, path, _ = first.split(" ")
    return Request(verb, path, headers, body)


CARD = "GET /.well-known/agent-card.json"
OLD_CARD = "GET /.well-known/agent.json"


@contextmanager
def replaying(
    answers: dict[str, str | bytes | list[str | bytes]], *, piece: int = 0, pause: float = 0
) -> Iterator[Replay]:
    """A server that answers operations with fixtures (by name) or bytes; the card is there unless given."""
    given = {CARD: "card", **answers}
    listed = {key: value if isinstance(value, list) else [value] for key, value in given.items()}
    as_bytes = {
        key: [item if isinstance(item, bytes) else fixture_bytes(item) for item in value]
        for key, value in listed.items()
    }
    listener = socket.create_server(("127.0.0.1", 0))
    replay = Replay(listener.getsockname()[1], as_bytes, piece, pause)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=replay.answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield replay
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
