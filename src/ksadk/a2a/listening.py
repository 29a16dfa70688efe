"""Listens for an agent's server, and ends it: on a first signal in peace, on a second at once."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from ksadk.a2a.server import A2AServer
from ksadk.a2a.urls import reach
from ksadk.errors import KsadkError

log = logging.getLogger(__name__)

INTERRUPTED = 130
_BACKLOG = 2048
_BEYOND_GRACE = 10
"""Seconds after the grace, for what was sent last to be stored and to arrive."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks one. `address_unavailable` where there is none to be had."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # With its protocol named: asyncio switches Nagle's algorithm off for such sockets only.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
            listening.bind(address)
            listening.listen(_BACKLOG)
        except OSError:
            listening.close()
            raise
        return listening
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise KsadkError(
            f"{host} port {port} cannot be listened on: {why}",
            code="address_unavailable",
            hint="--port 0 picks a free port, --host names another address.",
        ) from error


def is_wildcard(host: str) -> bool:
    """Whether it is all of the machine's addresses."""
    return not host or reach(host) == "unspecified"


def own_url(host: str, port: int) -> str:
    """Where this machine reaches what listens there. All addresses are to listen on, not to call: then it is
    loopback's."""
    if is_wildcard(host):
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


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
    http = _HTTPServer(
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


class _HTTPServer(uvicorn.Server):
    """uvicorn without its own signals, which would end streams before their tasks have."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _collect_less() -> None:
    """What is loaded by now stays until the end; to look through it for garbage again and again would take
    time from every task."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
