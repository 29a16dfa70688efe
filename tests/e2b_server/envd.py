"""envd, as far as the SDK uses it here: runs inside a sandbox, and needs nothing but Python.

python envd.py SOCKET   ends when its standard input does; global variables are its environment's E2B_ENVS
"""

from __future__ import annotations

import base64
import json
import os
import re
import select
import signal
import socketserver
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

HOME = Path("/home/user")
CHUNK = 32 * 1024
END_OF_STREAM = 2
INSIDE = "/envd.py"
GLOBAL: dict[str, str] = json.loads(os.environ.get("E2B_ENVS", "{}"))
FILE_NAME = re.compile(rb'name="file"; filename="([^"]*)"')


class Refused(Exception):
    """A request that is answered with a status and words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._route({"/health": self._health, "/files": self._download})

    def do_POST(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self._route({"/files": self._upload, "/process.Process/Start": self._start})

    def _route(self, routes: dict[str, Any]) -> None:
        url = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(url.query).items()}
        try:
            if url.path not in routes:
                raise Refused(404, f"no route {url.path}")
            routes[url.path]()
        except Refused as refused:
            self._json(refused.status, {"code": refused.status, "message": str(refused)})
        except OSError as error:
            status = 507 if error.strerror == "No space left on device" else 500
            self._json(status, {"code": status, "message": str(error)})

    def _json(self, status: int, document: Any) -> None:
        self._answer(status, json.dumps(document).encode(), "application/json")

    def _answer(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _health(self) -> None:
        self.send_response(204)
        self.send_header("connection", "close")
        self.end_headers()

    def _download(self) -> None:
        path = HOME / self.query["path"]
        if not path.exists():
            raise Refused(404, f"path '{path}' does not exist")
        if path.is_dir():
            raise Refused(400, f"path '{path}' is a directory")
        self._answer(200, path.read_bytes(), "application/octet-stream")

    def _upload(self) -> None:
        boundary = re.search(r'boundary="?([^";]+)', self.headers["content-type"])
        assert boundary is not None
        written = []
        for part in self.body.split(b"--" + boundary[1].encode())[1:-1]:
            head, _, data = part.partition(b"\r\n\r\n")
            name = FILE_NAME.search(head)
            assert name is not None
            path = HOME / (self.query.get("path") or name[1].decode())
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.removesuffix(b"\r\n"))
            written.append({"path": str(path), "name": path.name, "type": "file"})
        self._json(200, written)

    def _start(self) -> None:
        size = struct.unpack(">BI", self.body[:5])[1]
        request = json.loads(self.body[5 : 5 + size])
        self.send_response(200)
        self.send_header("content-type", "application/connect+json")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("connection", "close")
        self.end_headers()
        milliseconds = int(self.headers.get("connect-timeout-ms") or 0)
        stream = Stream(self.wfile)
        try:
            process = started(request)
        except Refused as refused:
            stream.end({"error": {"code": "invalid_argument", "message": str(refused)}})
            return
        stream.event({"start": {"pid": process.pid}})
        in_time = follow(process, stream, milliseconds / 1000)
        stream.end({} if in_time else {"error": {"code": "deadline_exceeded", "message": "context deadline"}})


class Stream:
    """The events of a process. Who listens may go; the process goes on."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._open = True

    def event(self, event: dict[str, Any]) -> None:
        self._envelope(0, {"event": event})

    def end(self, trailer: dict[str, Any]) -> None:
        self._envelope(END_OF_STREAM, trailer)
        self._send(b"0\r\n\r\n")

    def _envelope(self, flags: int, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        data = struct.pack(">BI", flags, len(data)) + data
        self._send(b"%x\r\n%s\r\n" % (len(data), data))

    def _send(self, data: bytes) -> None:
        if self._open:
            try:
                self._file.write(data)
            except OSError:
                self._open = False


def started(request: dict[str, Any]) -> subprocess.Popen[bytes]:
    config = request["process"]
    cwd = HOME / config.get("cwd", "")
    if not cwd.exists():
        raise Refused(400, f"cwd '{cwd}' does not exist")
    own = {"PATH": os.environ["PATH"], "HOME": str(HOME), "USER": "user", "LOGNAME": "user"}
    return subprocess.Popen(
        [config["cmd"], *config.get("args", [])],
        cwd=cwd, env=own | GLOBAL | config.get("envs", {}),
        stdin=subprocess.PIPE if request.get("stdin", True) else subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    )  # fmt: skip


def follow(process: subprocess.Popen[bytes], stream: Stream, seconds: float) -> bool:
    """Send what a process prints until it ends; then what it has printed. False where its time was over
    first: then it, and only it, is killed."""
    assert process.stdout is not None and process.stderr is not None
    pipes = {process.stdout.fileno(): "stdout", process.stderr.fileno(): "stderr"}
    end = time.monotonic() + seconds if seconds else float("inf")
    pidfd = os.pidfd_open(process.pid)
    poll = select.poll()
    for fd in (pidfd, *pipes):
        poll.register(fd, select.POLLIN)
    ended = False
    while True:
        left = min(end - time.monotonic(), 60)
        if left <= 0 and not ended:
            process.kill()
            process.wait()
            return False
        ready = {fd for fd, _ in poll.poll(0 if ended else left * 1000)}
        for fd in ready & pipes.keys():
            data = os.read(fd, CHUNK)
            if data:
                stream.event({"data": {pipes[fd]: base64.b64encode(data).decode()}})
            else:
                poll.unregister(fd)
        if ended and not ready & pipes.keys():
            break
        ended = ended or pidfd in ready
    code = process.wait()
    words = f"signal: {SIGNALS.get(-code, -code)}" if code < 0 else f"exit status {code}"
    error = {"error": words} if code else {}
    stream.event({"end": {"exitCode": max(code, -1), "exited": code >= 0, "status": words, **error}})
    return True


SIGNALS = {6: "aborted", 9: "killed", 11: "segmentation fault", 15: "terminated"}
"""As Go calls them."""


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def main() -> None:
    HOME.mkdir(parents=True, exist_ok=True)
    socket = sys.argv[1]
    server = Server(socket + ".new", Handler)
    Path(socket + ".new").rename(socket)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    if __file__ == INSIDE:
        os.kill(-1, signal.SIGKILL)  # all that runs in here; the sandbox's first process waits for it


if __name__ == "__main__":
    main()
