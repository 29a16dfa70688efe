"""A center that runs: what it keeps in a directory, and what is served until a signal ends it."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from ksadk.a2a.callers import BearerFile
from ksadk.a2a.center.app import Center
from ksadk.a2a.center.private_files import read_or_make
from ksadk.a2a.center.registering import ADMIN_FILE
from ksadk.a2a.center.workload_tokens import Workload
from ksadk.listening import serve_until_signal

LOCAL = Workload("local", "local")
"""The workload that a center issues tokens for where no other is named."""

GRACE = 2
"""Seconds that calls get to end after a first signal."""
MAX_CONNECTIONS = 1000


def admins_of(directory: Path, file: Path | None) -> BearerFile:
    """Who may register agents: those of `file`, else who has the token in the center's own directory, which
    is made where there is none."""
    if file is None:
        file = directory / ADMIN_FILE
        read_or_make(file, lambda: f"admin {secrets.token_urlsafe(32)}\n".encode())
    return BearerFile(file)


async def serve(center: Center, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve a center until SIGINT or SIGTERM; `ready` is called once requests are answered."""
    await serve_until_signal({listening: center.app}, ready, grace=GRACE, max_connections=MAX_CONNECTIONS)
