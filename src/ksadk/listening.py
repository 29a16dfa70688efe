"""Sockets that listen, where they can be reached, and uvicorn for whoever handles signals himself."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn

from ksadk.errors import KsadkError
from ksadk.hosts import reach

_BACKLOG = 2048


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


class HTTPServer(uvicorn.Server):
    """uvicorn without its own signals, which would end requests before what answers them has."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


async def serve_until_signal(
    apps: Mapping[socket.socket, Any], ready: Callable[[], None], *, grace: int, max_connections: int
) -> None:
    """Serve an ASGI app at each socket, until SIGINT, SIGTERM or SIGHUP, which nohup has ignored; `ready` is
    called once all of them answer.

    A first signal gives requests `grace` seconds to end, a second ends them at once. Each app's lifespan is
    begun before its first request, and ended after its last.
    """
    servers = {
        listening: HTTPServer(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="on",
                ws="none",
                server_header=False,
                proxy_headers=False,  # who is connected is who is believed
                limit_concurrency=max_connections,
                timeout_graceful_shutdown=grace,
            )
        )
        for listening, app in apps.items()
    }

    def stop(number: int) -> None:
        for server in servers.values():
            server.handle_exit(number, None)

    loop = asyncio.get_running_loop()
    hangup = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else []
    for number in (signal.SIGINT, signal.SIGTERM, *hangup):
        loop.add_signal_handler(number, stop, number)
    serving = [loop.create_task(server.serve([listening])) for listening, server in servers.items()]
    while not all(server.started for server in servers.values()) and not any(it.done() for it in serving):
        await asyncio.sleep(0.005)
    if all(server.started for server in servers.values()):
        ready()
    else:  # one could not start; its log says why
        stop(signal.SIGTERM)
    await asyncio.gather(*serving)
