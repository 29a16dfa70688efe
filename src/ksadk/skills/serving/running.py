"""Runs a Skill Service until a signal ends it."""

from __future__ import annotations

import socket
from collections.abc import Callable

from ksadk.listening import serve_until_signal
from ksadk.skills.serving.app import SkillService

GRACE = 2
"""Seconds that requests get to end after a first signal."""
MAX_CONNECTIONS = 128
"""More are answered that the service is busy, which clients take as a reason to wait."""


async def serve(service: SkillService, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` is called once requests are answered."""
    await serve_until_signal({listening: service.app}, ready, grace=GRACE, max_connections=MAX_CONNECTIONS)
