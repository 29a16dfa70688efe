"""Runs a Skill Service until a signal ends it."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable

import uvicorn

from ksadk.listening import HTTPServer
from ksadk.skills.serving.app import SkillService

GRACE = 2
"""Seconds that requests get to end after a first signal; a second ends them at once."""
MAX_CONNECTIONS = 128
"""More are answered that the service is busy, which clients take as a reason to wait."""


async def serve(service: SkillService, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` is called once requests are answered."""
    http = HTTPServer(
        uvicorn.Config(
            service.app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=GRACE,
        )
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, http.handle_exit, number, None)
    serving = loop.create_task(http.serve(sockets=[listening]))
    while not http.started and not serving.done():
        await asyncio.sleep(0.005)
    if http.started:
        ready()
    await serving
