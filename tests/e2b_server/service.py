"""E2B's REST service, and the proxy in front of its sandboxes."""

from __future__ import annotations

import json
import re
import secrets
import socket
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from e2b_server.vm import Vm

KEY = "e2b_0123456789abcdef0123456789abcdef01234567"
ENVD_VERSION = "0.4.2"
TEMPLATES = {"base", "tmpl-1"}
_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass
class Running:
    """A sandbox that runs. `request` is what it was created from."""

    sandbox_id: str
    token: str
    request: dict[str, Any]
    end_at: datetime
    vm: Vm
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))


class E2BServer:
    """The service. Use it as a context manager: at the end of the block all of its sandboxes are ended.

    `unready` requests to sandboxes are answered as by one that is not there yet; a `fault`, a status and
    words, is the answer to each request to the REST service, whatever it is.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.sandboxes: dict[str, Running] = {}
        self.seen: list[str] = []
        self.unready = 0
        self.fault: tuple[int, str] | None = None
        handler = type("Bound", (_Handler,), {"service": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        for sandbox_id in list(self.sandboxes):
            self.end(sandbox_id)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def environ(self) -> dict[str, str]:
        """What the SDK is told to find the service by."""
        return {"E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url, "E2B_DOMAIN": "e2b.test"}

    def create(self, request: dict[str, Any]) -> Running:
        sandbox_id = "i" + secrets.token_hex(10)
        vm = Vm(self.directory / sandbox_id, request["envVars"], request["allow_internet_access"])
        end = datetime.now(UTC) + timedelta(seconds=request["timeout"])
        self.sandboxes[sandbox_id] = Running(sandbox_id, secrets.token_hex(16), request, end, vm)
        return self.sandboxes[sandbox_id]

    def find(self, sandbox_id: str) -> Running | None:
        found = self.sandboxes.get(sandbox_id)
        if found is not None and datetime.now(UTC) >= found.end_at:
            self.end(sandbox_id)
            return None
        return found

    def with_token(self, token: str) -> Running | None:
        known = [running.sandbox_id for running in self.sandboxes.values() if running.token == token]
        return self.find(known[0]) if known else None

    def end(self, sandbox_id: str) -> bool:
        running = self.sandboxes.pop(sandbox_id, None)
        if running is None:
            return False
        running.vm.end()
        return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: E2BServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def _handle(self) -> None:
        self.service.seen.append(f"{self.command} {self.path}")
        body = self._body()
        if re.match(r"/(v2/)?sandboxes\b", self.path):
            self._rest(body)
        else:
            self._proxy(body)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _answer(self, status: int, document: dict[str, Any] | None = None) -> None:
        data = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        if status != 204:
            self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _refuse(self, status: int, message: str) -> None:
        self._answer(status, {"code": status, "message": message})

    def _rest(self, body: bytes) -> None:
        if self.service.fault is not None:
            return self._refuse(*self.service.fault)
        if self.headers.get("x-api-key") != KEY:
            return self._refuse(401, f"{self.headers.get('x-api-key')} is no key")
        request = json.loads(body) if body else {}
        _, _, rest = self.path.partition("/sandboxes")
        sandbox_id, _, action = rest.strip("/").partition("/")
        if not sandbox_id:
            return self._create(request)
        running = self.service.find(sandbox_id)
        if running is None:
            return self._refuse(404, f"sandbox {sandbox_id} not found")
        if self.command == "DELETE":
            self.service.end(sandbox_id)
            return self._answer(204)
        if action == "connect":
            asked = datetime.now(UTC) + timedelta(seconds=request.get("timeout") or 0)
            running.end_at = max(running.end_at, asked)
        return self._answer(200, _described(running))

    def _create(self, request: dict[str, Any]) -> None:
        if request["templateID"] not in TEMPLATES:
            return self._refuse(404, f"template '{request['templateID']}' not found")
        return self._answer(201, _described(self.service.create(request)))

    def _proxy(self, body: bytes) -> None:
        if self.service.unready:
            self.service.unready -= 1
            return self._refuse(404, "not here yet")
        running = self.service.with_token(self.headers.get("x-access-token", ""))
        if running is None:
            named = self.headers.get("e2b-sandbox-id", "")
            return self._answer(
                502, {"sandboxId": named, "message": "The sandbox was not found", "code": 502}
            )
        head = [f"{self.command} {self.path} HTTP/1.1", f"content-length: {len(body)}", "connection: close"]
        head += [f"{name}: {value}" for name, value in self.headers.items() if name.lower() not in _HOP]
        self.close_connection = True
        with running.vm.connect() as envd:
            envd.sendall("\r\n".join([*head, "", ""]).encode() + body)
            _relay(envd, self.connection)
        return None


def _relay(source: socket.socket, target: socket.socket) -> None:
    """What envd answers. When the client is gone, so is this connection, and envd finds that out."""
    try:
        while data := source.recv(1024 * 1024):
            target.sendall(data)
    except OSError:
        pass


def _described(running: Running) -> dict[str, Any]:
    return {
        "sandboxID": running.sandbox_id, "templateID": running.request["templateID"], "clientID": "c",
        "envdVersion": ENVD_VERSION, "envdAccessToken": running.token, "domain": None,
        "metadata": running.request.get("metadata") or {}, "state": "running",
        "startedAt": running.started_at.isoformat(), "endAt": running.end_at.isoformat(),
        "cpuCount": 1, "memoryMB": 512, "diskSizeMB": 1024,
    }  # fmt: skip
