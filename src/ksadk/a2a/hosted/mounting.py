"""Puts an agent's A2A routes into an application, as one route: what it does not know, others may have."""

from __future__ import annotations

import asyncio
import logging
import posixpath
import re
from collections.abc import Callable
from typing import Protocol
from urllib.parse import unquote

from a2a.server.context import ServerCallContext
from starlette.datastructures import URLPath
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from ksadk.a2a.card import CARD_PATH
from ksadk.a2a.hosted.contexts import CALL_CONTEXT
from ksadk.a2a.server import A2AServer

log = logging.getLogger(__name__)

_A2A_PATH = re.compile(r"/a2a/(jsonrpc|v1)(/|$)|/\.well-known/agent(-card)?\.json(/|$)")


class Admission(Protocol):
    """Decides whether a request comes in."""

    async def admit(self, request: Request, *, card: bool) -> ServerCallContext | None:
        """The call context of a request that does; None for one that only reads the card. Whatever is raised
        keeps it out."""


class A2ARoute(BaseRoute):
    """All A2A routes of one agent in somebody's application, behind one admission.

    It takes what the agent's routes take, whatever the method, and answers for paths that only look like
    theirs (other case, more slashes, a tenant before them) where nothing else in the application does: so no
    form of a path comes to the agent, or is redirected there, without having been admitted.
    """

    def __init__(
        self, server: A2AServer, admission: Admission, *, is_ready: Callable[[], bool] = lambda: True
    ) -> None:
        self._server = server
        self._admission = admission
        self._is_ready = is_ready

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """FULL for a route of the agent's, PARTIAL for what only looks like one."""
        if scope["type"] != "http":
            return Match.NONE, {}
        if any(route.matches(scope)[0] is Match.FULL for route in self._server.routes):
            return Match.FULL, {}
        return (Match.PARTIAL if _looks_like_a2a(scope["path"]) else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: object) -> URLPath:
        """The routes have no names."""
        raise NoMatchFound(name, dict(path_params))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit the request, and let the agent's server answer it."""
        request = Request(scope)
        card = any(
            route.path.endswith(CARD_PATH) and route.matches(scope)[0] is not Match.NONE
            for route in self._server.routes
        )
        try:
            context = await self._admission.admit(request, card=card)
        except (Exception, asyncio.CancelledError) as error:
            own = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and (own is None or own.cancelling()):
                raise  # this request's own, and not the verifier's
            log.warning("a request is refused: its sender is not verified (%s)", type(error).__name__)
            await _refused()(scope, receive, send)
            return
        if not self._is_ready():
            await _not_ready()(scope, receive, send)
            return
        if context is not None:
            scope[CALL_CONTEXT] = context
        await self._server.app(scope, receive, send)


def _looks_like_a2a(path: str) -> bool:
    flat = posixpath.normpath(re.sub(r"[/\\]+", "/", unquote(unquote(path))).casefold())
    return _A2A_PATH.search(flat) is not None


def _refused() -> Response:
    """The one answer to everybody who is not verified; it tells nothing of why."""
    return _error(401, "UNAUTHENTICATED", "The request is not authenticated.", "WWW-Authenticate", "Gateway")


def _not_ready() -> Response:
    return _error(503, "UNAVAILABLE", "The runtime is not ready.", "Retry-After", "1")


def _error(status: int, name: str, message: str, header: str, value: str) -> Response:
    body = {"error": {"code": status, "status": name, "message": message}}
    return JSONResponse(body, status, headers={header: value, "Cache-Control": "no-store"})
