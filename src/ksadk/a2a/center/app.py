"""A center as an ASGI app: the control plane's actions, the administrator's own, and the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ksadk.a2a.callers import BearerFile
from ksadk.a2a.card import JSONRPC_PATH, REST_PATH
from ksadk.a2a.center.actions import Actions
from ksadk.a2a.center.credentials import Credentials
from ksadk.a2a.center.database import CenterStoreError, Database
from ksadk.a2a.center.event_log import EventLog, Patience
from ksadk.a2a.center.gateway import Gateway
from ksadk.a2a.center.json_bodies import read_object, written
from ksadk.a2a.center.ledger import Ledger
from ksadk.a2a.center.permits import Permits
from ksadk.a2a.center.refusal import Refusal
from ksadk.a2a.center.registering import ADMIN_PATH, REGISTER
from ksadk.a2a.center.registry import Registry, new_id
from ksadk.a2a.center.workload_tokens import LIFETIME, Signer, TokenIssuer, Workload
from ksadk.a2a.guards import Guards, Hosts
from ksadk.a2a.options import Limits
from ksadk.a2a.routes import health_route
from ksadk.a2a.space.control_plane import ACTIONS_PATH
from ksadk.a2a.space.tokens import Audience
from ksadk.errors import KsadkError

HOUSEKEEPING_SECONDS = 30.0
"""How often tokens, silent tasks and old ones are looked after, at the least."""
_ORPHANED_SECONDS = 3600

_STATUS = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    405: "UNIMPLEMENTED", 409: "ABORTED", 500: "INTERNAL", 502: "UNAVAILABLE", 503: "UNAVAILABLE",
}  # fmt: skip

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CenterOptions:
    """How a center is run.

    directory: where its key and the credentials of agents are; only this user may read it.
    base_url: where clients reach it.
    admins: who may register agents.
    token_dirs: the directory of each workload's tokens, which are written and renewed there.
    allowed_hosts, any_address: under which names it is called, beside that of its URL and loopback.
    """

    directory: Path
    base_url: str
    admins: BearerFile
    token_dirs: Mapping[Workload, Path] = field(default_factory=dict)
    patience: Patience = field(default_factory=Patience)
    allowed_hosts: tuple[str, ...] = ()
    any_address: bool = False


class Center:
    """One center behind `app`, whose lifespan starts and ends what it does by itself. It owns the database,
    and closes it.

    clock: seconds since 1970. make_id: an id from its prefix.
    """

    def __init__(
        self,
        database: Database,
        options: CenterOptions,
        *,
        clock: Callable[[], float] = time.time,
        make_id: Callable[[str], str] = new_id,
    ) -> None:
        self._database = database
        self._options = options
        self._clock = clock
        signer = Signer.of_file(options.directory / "signing.key", clock=clock)
        self.issuer = TokenIssuer(signer)
        permits = Permits(signer)
        base = options.base_url.rstrip("/")
        self._credentials = Credentials(options.directory / "credentials")
        self.registry = Registry(database, self._credentials, clock=clock, make_id=make_id)
        ledger = Ledger(database, self.registry, permits, base, clock=clock, make_id=make_id)
        self.events = EventLog(database, patience=options.patience, clock=clock)
        self._actions = Actions(self.registry, ledger, self.events, permits, self._credentials, base)
        self._gateway = Gateway(self.issuer, permits, ledger, self._credentials)
        self._known: dict[str, tuple[Audience, Callable[..., Any]]] = {
            "ListA2ASpaceAgents": ("a2a-registry", self._actions.list_agents),
            "PrepareA2ACall": ("a2a-registry", self._actions.prepare_call),
            "PrepareA2ATaskOperation": ("a2a-registry", self._actions.prepare_operation),
            "BindA2ARemoteTask": ("a2a-task-sink", self._actions.bind),
            "AppendA2ATaskEvents": ("a2a-task-sink", self._actions.append_events),
            "ResolveA2ACredential": ("credential-broker", self._actions.resolve_credential),
        }
        self.app = self._build()

    def _build(self) -> Starlette:
        options = self._options
        hosts = Hosts.of(
            urls=[options.base_url], allowed=options.allowed_hosts, any_address=options.any_address
        )
        agent = "/agents/{agent_id}"
        app = Starlette(
            routes=[
                Route(f"{ACTIONS_PATH}/{{action}}", self._action, methods=["POST"]),
                Route(f"{ADMIN_PATH}/{REGISTER}", self._register, methods=["POST"]),
                Route(agent + JSONRPC_PATH, self._gateway.jsonrpc, methods=["POST"]),
                Route(agent + REST_PATH + "/{path:path}", self._gateway.rest, methods=["GET", "POST"]),
                health_route(),
            ],
            middleware=[Middleware(Guards, hosts=hosts, limits=Limits())],
            exception_handlers={
                Refusal: _refused,
                CenterStoreError: _unavailable,
                HTTPException: _http_refused,
                Exception: _broken,
            },
            lifespan=self._lifespan,
        )
        app.router.redirect_slashes = False
        return app

    async def _action(self, request: Request) -> Response:
        name = request.path_params["action"]
        known = self._known.get(name)
        if known is None:
            raise Refusal(404, "A2A_ACTION_NOT_FOUND", f"there is no action {name[:100]!r}")
        audience, action = known
        workload = self.issuer.workload(request.headers.get("authorization", ""), audience)
        data = await action(workload, read_object(await request.body()))
        log.info("%s: %s", workload.owner, name)
        return _envelope(200, "success", name, data)

    async def _register(self, request: Request) -> Response:
        caller = self._options.admins.caller(request.headers.get("authorization", ""))
        if caller is None:
            raise Refusal(401, "A2A_UNAUTHENTICATED", "a token of the center's administrator is needed")
        data = await self._actions.register(read_object(await request.body()))
        log.info("%s registered %s, version %s", caller.name, data["A2AAgentId"], data["VersionId"])
        return _envelope(200, "success", REGISTER, data)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.write_tokens()
        used = await self.registry.credential_handles()
        self._credentials.forget_all_but(used, self._clock() - _ORPHANED_SECONDS)
        house = asyncio.create_task(self._keep_house(), name="housekeeping")
        try:
            yield
        finally:
            house.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await house
            await self._gateway.aclose()
            await self._database.aclose()

    def write_tokens(self) -> None:
        """Write the tokens of all workloads anew."""
        for workload, directory in self._options.token_dirs.items():
            self.issuer.write(directory, workload)

    async def _keep_house(self) -> None:
        """Renew tokens, end tasks whose runtime is gone, forget what is old. What fails is tried again."""
        written = self._clock()
        while True:
            try:
                if self._clock() - written > LIFETIME / 3:
                    self.write_tokens()
                    written = self._clock()
                if ended := await self.events.end_silent():
                    log.warning("%d silent task%s ended", ended, "s" if ended > 1 else "")
                await self.events.forget_old()
            except KsadkError as error:
                log.error("%s", error)
            await asyncio.sleep(min(HOUSEKEEPING_SECONDS, self._options.patience.working / 4))


def _envelope(status: int, message: str, action: str, data: Any) -> Response:
    """An answer of an action. Its Code is 0, or else the HTTP status."""
    body = {
        "Code": 0 if status == 200 else status, "Message": message, "RequestId": uuid.uuid4().hex,
        "Action": action, "Data": data,
    }  # fmt: skip
    return _json(status, body)


def _json(status: int, body: Any) -> Response:
    headers = {"WWW-Authenticate": 'Bearer realm="a2a"'} if status == 401 else None
    return Response(written(body), status, headers, "application/json")


async def _refused(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)
    if refusal.status in (401, 403):
        log.warning("%s: %s", refusal.error_code, refusal.message)
    if "agent_id" in request.path_params:  # of the gateway, whose callers speak A2A
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": refusal.error_code,
            "domain": "agentengine.a2a",
        }  # fmt: skip
        error = {
            "code": refusal.status, "status": _STATUS[refusal.status], "message": refusal.message,
            "details": [info],
        }  # fmt: skip
        return _json(refusal.status, {"error": error})
    action = request.path_params.get("action", "")
    return _envelope(refusal.status, refusal.message, action, refusal.data)


async def _unavailable(request: Request, error: Exception) -> Response:
    log.error("%s", error)
    words = "the center cannot keep or read anything at the moment"
    return await _refused(request, Refusal(503, "A2A_CENTER_UNAVAILABLE", words, retryable=True))


async def _http_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return await _refused(request, Refusal(error.status_code, "A2A_ACTION_NOT_FOUND", error.detail))


async def _broken(request: Request, _: Exception) -> Response:
    return await _refused(request, Refusal(500, "A2A_CENTER_FAILED", "the center failed within"))
