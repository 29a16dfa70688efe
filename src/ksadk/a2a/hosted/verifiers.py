"""Lets a request in only where the platform has verified its sender, and that this runtime is meant."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from typing import Any, Protocol

from a2a.server.context import ServerCallContext
from starlette.requests import Request

from ksadk.a2a.hosted.contexts import HostedContexts
from ksadk.a2a.hosted.identity import A2A_IDENTITY, A2AIngressIdentity
from ksadk.a2a.hosted.metadata import RuntimeA2AMetadata

VERIFY_SECONDS = 10.0
"""How long a verifier may take."""

log = logging.getLogger(__name__)


class GatewayIdentityVerifier(Protocol):
    """The platform's check of what its gateway forwards."""

    def verify(self, request: Request) -> A2AIngressIdentity | Awaitable[A2AIngressIdentity]:
        """Who calls, and whom the gateway meant; raises where that is not proved. It has the head of the
        request and not its body. One that waits for something is asynchronous."""


class GatewayProbeVerifier(Protocol):
    """The platform's check of its own probes, which read a runtime's card."""

    def verify_probe(self, request: Request) -> Any:
        """Returns None or True, also asynchronously, for a probe that is meant for this runtime; a returned
        identity is checked as a caller's is. Everything else, and whatever is raised, is no probe."""


class NotVerified(Exception):
    """A request whose sender or target is not what it has to be."""


class HostedAdmission:
    """Checks requests of one runtime: who sends them, and that account, tenant, agent, runtime and
    registration are exactly its own."""

    def __init__(
        self,
        metadata: RuntimeA2AMetadata,
        identity_verifier: GatewayIdentityVerifier,
        probe_verifier: GatewayProbeVerifier,
        *,
        verify_seconds: float = VERIFY_SECONDS,
    ) -> None:
        self._metadata = metadata
        self._identity_verifier = identity_verifier
        self._probe_verifier = probe_verifier
        self._seconds = verify_seconds
        self._contexts = HostedContexts()

    async def admit(self, request: Request, *, card: bool) -> ServerCallContext | None:
        """The call context of a request that may come in; None for a probe, which reads the card. Whatever
        is raised keeps it out."""
        try:
            identity = await self._identity(request)
        except Exception as error:
            if not card:
                raise
            log.debug("no caller of the gateway (%s): perhaps a probe", type(error).__name__)
            await self._probe(request)
            return None
        request.scope["state"] = {**request.scope.get("state", {}), A2A_IDENTITY: identity}
        return self._contexts.build(request)

    async def _identity(self, request: Request) -> A2AIngressIdentity:
        return self._checked(await self._said(self._identity_verifier.verify(_head(request))))

    async def _probe(self, request: Request) -> None:
        said = await self._said(self._probe_verifier.verify_probe(_head(request)))
        if said is not None and said is not True:
            self._checked(said)

    def _checked(self, identity: Any) -> A2AIngressIdentity:
        if type(identity) is not A2AIngressIdentity:
            raise NotVerified("the verifier gave no identity")
        if not self._metadata.is_target_of(identity):
            raise NotVerified("the request is for another account, tenant, agent, runtime or registration")
        return identity

    async def _said(self, answer: Any) -> Any:
        if not inspect.isawaitable(answer):
            return answer
        async with asyncio.timeout(self._seconds) as limit:
            said = await answer
        if limit.expired():  # and the verifier has not let itself be ended
            raise TimeoutError
        return said


def _head(request: Request) -> Request:
    """The request without its body, and with a scope of its own: a verifier changes nothing of it."""
    scope = request.scope
    return Request({**scope, "headers": list(scope["headers"]), "state": dict(scope.get("state", {}))})
