"""Calls of external agents: whether one is permitted, and over what it goes.

The order is the contract: the flag, then the transport, then the address, and only then the credential.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import httpx

from ksadk.a2a.space.errors import A2AEgressError, A2APublicEgressDisabled
from ksadk.a2a.space.injection import SHORTEST_SECRET, InjectingTransport
from ksadk.a2a.space.models import Credential, PreparedOperation
from ksadk.a2a.space.pinned_transport import ExternalTransport
from ksadk.a2a.wire import Extras, no_cookies


class Egress:
    """Opens calls of external agents.

    enabled: whether public ones may be called (`KSADK_A2A_ENABLE_PUBLIC_EGRESS`).
    transport: what reaches them. Without one none is called.
    resolve: gives the credential of a prepared operation.
    forbidden: gives every secret of the platform that this process holds; no request may carry one.
    """

    def __init__(
        self,
        *,
        enabled: bool,
        transport: ExternalTransport | None,
        resolve: Callable[[PreparedOperation], Awaitable[Credential]],
        forbidden: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._enabled = enabled
        self._transport = transport
        self._resolve = resolve
        self._forbidden = forbidden

    @asynccontextmanager
    async def opened(self, prepared: PreparedOperation) -> AsyncIterator[tuple[httpx.AsyncClient, Extras]]:
        """A client for the one operation, and the secrets that its answers must not repeat.

        `A2A_PUBLIC_EGRESS_DISABLED`, `A2A_EGRESS_TRANSPORT_REQUIRED` and `A2A_VPC_EGRESS_DIALER_REQUIRED`
        are raised before anything is resolved; then whatever the lease and the credential raise.
        """
        transport = self._permitted(prepared.route.kind)
        async with transport.lease(prepared.route.interface.url) as lease:
            credential = await self._resolve(prepared)
            injecting = InjectingTransport(
                lease, credential, lambda: (prepared.call_permit, *self._forbidden())
            )
            async with httpx.AsyncClient(
                transport=injecting, trust_env=False, cookies=no_cookies(), timeout=None
            ) as http:
                yield http, Extras(secrets=_values(credential))

    def _permitted(self, kind: str) -> ExternalTransport:
        if kind == "external_public" and not self._enabled:
            raise A2APublicEgressDisabled(
                "public external agents may not be called here",
                hint="The deployment decides it: KSADK_A2A_ENABLE_PUBLIC_EGRESS.",
            )
        if self._transport is None:
            raise A2AEgressError(
                "an external agent is called through the platform's transport only, and there is none",
                code="A2A_EGRESS_TRANSPORT_REQUIRED",
            )
        if kind in self._transport.route_kinds:
            return self._transport
        if kind == "external_vpc":
            raise A2AEgressError(
                "an agent in a private network is called through the platform's dialer only; there is none",
                code="A2A_VPC_EGRESS_DIALER_REQUIRED",
            )
        raise A2AEgressError(f"a route of kind {kind} is no external one", code="A2A_EGRESS_REFUSED")


def _values(credential: Credential) -> tuple[str, ...]:
    """What is masked wherever the agent repeats it; a short word would be masked in what it is not."""
    given = (*credential.headers.values(), *credential.query.values(), *credential.cookies.values())
    # `Bearer x` is repeated as `x` as well.
    words = {word for value in given for word in (value, *value.split()) if len(word) >= SHORTEST_SECRET}
    return tuple(sorted(words, key=len, reverse=True))
