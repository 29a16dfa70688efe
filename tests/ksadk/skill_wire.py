"""A Skill Service on a raw socket that answers with the bytes of files; what tests of its client share."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from ksadk.settings import Settings
from ksadk.skills.service_address import ServiceAddress
from ksadk.skills.service_client import SkillServiceClient

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures/skills"
"""Port 65535 in a file stands for the one that is listened on."""

TOKEN = "test-token-0123456789"
ACCOUNT = "2000003333"
ACCESS_KEY, SECRET_KEY = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
"""The keys of AWS's published examples."""

Answer = bytes | Callable[[socket.socket], None]


def request_bytes(name: str) -> bytes:
    return (FIXTURES / f"{name}.request.http").read_bytes()


def answer_bytes(name: str) -> bytes:
    return (FIXTURES / f"{name}.response.http").read_bytes()


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """An answer whose length is given, unless `headers` give another."""
    length = [] if any("Content-Length" in header for header in headers) else [f"Content-Length: {len(body)}"]
    head = "\r\n".join([f"HTTP/1.1 {status}", *headers, *length, "Connection: close"])
    return head.encode() + b"\r\n\r\n" + body


@dataclass(frozen=True)
class Asked:
    """The head of a request as it came."""

    line: str
    headers: dict[str, str]


def asked(head: bytes) -> Asked:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    return Asked(first, {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)})


@dataclass
class Service:
    """The server: each request gets the next answer, and the last one for ever."""

    port: int
    answers: list[Answer]
    requests: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, **settings: Any) -> SkillServiceClient:
        """One with a token, that does not wait before it tries again."""
        address = {"skill_service_url": self.url, "skill_service_token": TOKEN}
        given = Settings(**(address | {"skill_service_account_id": ACCOUNT} | settings))
        return SkillServiceClient(ServiceAddress.from_settings(given), timeout=5, sleep=lambda _: None)

    def answer(self, connection: socket.socket) -> None:
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                more = connection.recv(65536)
                if not more:
                    return
                head += more
            self.requests.append(asked(head))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            try:
                if callable(answer):
                    answer(connection)
                else:
                    connection.sendall(answer.replace(b":65535", b":%d" % self.port))
            except OSError:  # the client has heard enough
                pass


@contextmanager
def answering(*answers: str | Answer) -> Iterator[Service]:
    """A service that answers with fixtures (by name), bytes, or what a function does to the connection."""
    given = [answer_bytes(answer) if isinstance(answer, str) else answer for answer in answers]
    listener = socket.create_server(("127.0.0.1", 0))
    service = Service(listener.getsockname()[1], given)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=service.answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield service
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def slowly(data: bytes, pause: float) -> Callable[[socket.socket], None]:
    """Sends one byte after another."""

    def send(connection: socket.socket) -> None:
        for start in range(len(data)):
            connection.sendall(data[start : start + 1])
            time.sleep(pause)

    return send


class ToLoopback(httpx.BaseTransport):
    """Takes what is meant for any host to a port of this machine, over http and otherwise unchanged."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.transport = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self.port)
        return self.transport.handle_request(request)

    def close(self) -> None:
        self.transport.close()
