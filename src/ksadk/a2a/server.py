"""An agent's A2A server: everything between a runner and an ASGI app."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from a2a.server.routes.common import ServerCallContextBuilder
from a2a.server.routes.rest_dispatcher import RestDispatcher
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from ksadk.a2a.approvals import Approvals, Standing
from ksadk.a2a.callers import CallContexts
from ksadk.a2a.card import CARD_PATH
from ksadk.a2a.decisions import DECISION, Decided, Watch
from ksadk.a2a.executor import LOST, STOPPED, Executor, Sessions, session_of
from ksadk.a2a.guards import Guards, Hosts
from ksadk.a2a.handler import Handler, internal_message
from ksadk.a2a.options import ServerOptions
from ksadk.a2a.parts import agent_message, now
from ksadk.a2a.routes import (
    HEALTH_PATH,
    JsonRpc,
    card_route,
    health_route,
    http_error,
    jsonrpc_routes,
    rest_routes,
    server_error,
)
from ksadk.a2a.runners.base import Runner
from ksadk.a2a.stores.base import OwnerContext, Paused, Stores

log = logging.getLogger(__name__)


class A2AServer:
    """One agent behind `app`. `start` it before the first request, `drain` and `aclose` it at the end; the
    app's lifespan does so, too. It owns the runner and the stores, and closes them."""

    def __init__(
        self,
        runner: Runner,
        card: Mapping[str, Any],
        stores: Stores,
        options: ServerOptions | None = None,
        *,
        approvals: Approvals | None = None,
        on_approval: Callable[[Paused], None] = lambda _: None,
        contexts: ServerCallContextBuilder | None = None,
        sessions: Sessions = session_of,
    ) -> None:
        """`contexts` says who is calling, in place of the options' bearer and trusted edge."""
        self.options = options or ServerOptions()
        self.card = with_bearer(card) if self.options.bearer else dict(card)
        self._runner = runner
        self._stores = stores
        self._on_approval = on_approval
        self._watch = Watch(approvals, self._decided) if approvals else None
        self._executor = Executor(
            runner,
            stores.pauses,
            self.options,
            agent_name=self.card["name"],
            approvals=approvals,
            on_approval=self._waits,
            sessions=sessions,
        )
        self._contexts = contexts or CallContexts(self.options.trusted_edge)
        message = ParseDict(self.card, pb.AgentCard())
        self._handler = Handler(self._executor, stores.tasks, message)
        self._draining: asyncio.Future[None] | None = None
        self._closed = False
        self.app = self._build()

    def _build(self) -> Starlette:
        urls = [interface["url"] for interface in self.card["supportedInterfaces"]]
        prefixes = ["", *_sub_paths(urls)]
        paths = frozenset([*(prefix + CARD_PATH for prefix in prefixes), HEALTH_PATH])
        self.routes = self._routes(prefixes)
        guards = Middleware(
            Guards,
            hosts=None if self.options.behind_gateway else self._hosts(urls),
            limits=self.options.limits,
            bearer=self.options.bearer,
            open_paths=paths,
            is_stopping=lambda: self._draining is not None,
        )
        app = Starlette(
            routes=[*self.routes, health_route()],
            middleware=[guards],
            exception_handlers={HTTPException: http_error, Exception: server_error},
            lifespan=self._lifespan,
        )
        app.router.redirect_slashes = False  # an unknown path is not one that is somewhere else
        return app

    def _hosts(self, urls: list[str]) -> Hosts:
        return Hosts.of(urls=urls, allowed=self.options.allowed_hosts, any_address=self.options.any_address)

    def _routes(self, prefixes: list[str]) -> list[Route]:
        # Streams end by themselves when their tasks do, which `drain` sees to; nothing else cuts them.
        jsonrpc = JsonRpc(self._handler, self._contexts)
        rest = RestDispatcher(self._handler, self._contexts)
        routes = []
        for prefix in prefixes:
            routes += jsonrpc_routes(jsonrpc, prefix) + rest_routes(rest, prefix)
        routes += [card_route(self.card, prefix, time.time()) for prefix in prefixes]
        return routes

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        await self.start()
        try:
            yield
        finally:
            await self.drain()
            await self.aclose()

    async def start(self) -> None:
        """End what a server before this one left unfinished: no task works for ever."""
        for owned in await self._stores.unfinished():
            await self._fail(owned.task, owned.context, STOPPED)
        for paused in await self._stores.pauses.waiting():
            await self._take_up(paused)

    async def _take_up(self, paused: Paused) -> None:
        context = OwnerContext(owner=paused.owner)
        task = await self._stores.tasks.get(paused.task_id, context)
        if task is not None and task.status.state == pb.TASK_STATE_INPUT_REQUIRED:
            if paused.state is not None:
                if paused.kind == "approval":
                    self._waits(paused)
                return
            await self._fail(task, context, LOST)
        await self._stores.pauses.delete(paused.task_id)

    async def _fail(self, task: pb.Task, context: OwnerContext, why: str) -> None:
        if task.status.HasField("message"):
            task.history.append(task.status.message)
        message = agent_message([pb.Part(text=why)], context_id=task.context_id, task_id=task.id)
        task.status.CopyFrom(pb.TaskStatus(state=pb.TASK_STATE_FAILED, message=message, timestamp=now()))
        await self._stores.tasks.save(task, context)

    def _waits(self, paused: Paused) -> None:
        if self._watch is not None:
            self._watch.add(paused)
            self._on_approval(paused)

    async def _decided(self, paused: Paused, standing: Standing) -> None:
        """Go on with a task whose approval was decided: with a call of the server's own, which no request
        can be."""
        context = OwnerContext(owner=paused.owner, state={DECISION: Decided(paused.request_id, standing)})
        waits = await self._stores.pauses.get(paused.task_id)
        task = await self._stores.tasks.get(paused.task_id, context)
        if task is not None and waits is not None and waits.request_id == paused.request_id:
            await self._handler.on_message_send(internal_message(task, {"decision": standing}), context)

    async def drain(self, grace: float | None = None) -> None:
        """Let the agents at work finish, at most for `grace` seconds, and end the streams. Returns when that
        is done, whoever asked for it first."""
        if self._draining is None:
            self._draining = asyncio.ensure_future(self._drain(grace))
        await asyncio.shield(self._draining)

    async def _drain(self, grace: float | None) -> None:
        if self._watch is not None:
            await self._watch.aclose()
        at_work = await self._executor.drain(self.options.grace if grace is None else grace)
        for task_id, owner in at_work:
            try:
                await self._handler.ended(task_id, OwnerContext(owner=owner))
            except TimeoutError:
                log.error("task %s: how it ended is not stored; the next start says that it failed", task_id)
        await self._handler.aclose()

    async def aclose(self) -> None:
        """Release the agent and the stores."""
        if not self._closed:
            self._closed = True
            await self._runner.aclose()
            await self._stores.aclose()


def with_bearer(card: Mapping[str, Any]) -> dict[str, Any]:
    """The card, saying that callers need a bearer token."""
    made: dict[str, Any] = {}
    for key, value in card.items():
        made[key] = value
        if key == "capabilities":
            made["securitySchemes"] = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
            made["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}]
    return made


def _sub_paths(urls: list[str]) -> list[str]:
    """The path below which the card's URLs are. A proxy may strip it or let it through: both arrive."""
    path = urlsplit(urls[0]).path
    prefix = path[: path.rfind("/a2a/")]
    return [prefix] if prefix else []
