"""Runs an agent's server, and ends it: on a first signal in peace, on a second at once."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable

import uvicorn

from ksadk.a2a.server import A2AServer
from ksadk.listening import HTTPServer

log = logging.getLogger(__name__)

INTERRUPTED = 130
_BEYOND_GRACE = 10
"""Seconds after the grace, for what was sent last to be stored and to arrive."""


class Loop(asyncio.SelectorEventLoop):
    """An event loop that a task which calls `sys.exit` does not end while `goes_on` is set: frameworks run
    agents' code in tasks of their own, and the exit of one is no reason to stop serving all."""

    goes_on = False

    def run_forever(self) -> None:
        """See `asyncio.AbstractEventLoop`."""
        while True:
            try:
                return super().run_forever()
            except (
                SystemExit,
                KeyboardInterrupt,
            ) as error:  # none of a terminal's, whose signals are handled
                if not self.goes_on:
                    raise
                log.error("an agent raised %s; the server goes on", type(error).__name__, exc_info=True)


async def serve(server: A2AServer, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` is called once requests are answered.

    The first signal stops listening and lets agents finish, within the server's grace; the second ends the
    process at once, and the next start says of what was unfinished that it failed.
    """
    grace = server.options.grace
    http = HTTPServer(
        uvicorn.Config(
            server.app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,  # who is connected is who is believed
            timeout_graceful_shutdown=int(grace) + _BEYOND_GRACE,
        )
    )
    ending: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if ending:
            os._exit(INTERRUPTED)
        http.should_exit = True
        ending.append(loop.create_task(server.drain(), name="drain"))

    try:
        await server.start()
        _collect_less()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        _go_on(loop, True)
        serving = loop.create_task(http.serve(sockets=[listening]))
        while not http.started and not serving.done():
            await asyncio.sleep(0.005)
        if http.started:
            ready()
        await serving
    finally:
        _go_on(loop, False)
        await asyncio.gather(*ending)
        await server.drain(0)
        await server.aclose()


def _go_on(loop: asyncio.AbstractEventLoop, goes_on: bool) -> None:
    if isinstance(loop, Loop):
        loop.goes_on = goes_on


def _collect_less() -> None:
    """What is loaded by now stays until the end; to look through it for garbage again and again would take
    time from every task."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
