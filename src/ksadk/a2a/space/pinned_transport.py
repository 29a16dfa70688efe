"""How public external agents are reached: an address is looked at before it is dialled, at each operation.

A lease is one operation with one origin. Its name is resolved once, every answer must be an address of the
public internet, and only these addresses are dialled, by number: a resolver that says something else a moment
later is not asked. The name stays in TLS (SNI and the certificate) and in `Host`. Connections end with the
lease. No proxy of the environment is used, no redirect followed, and what comes back is held to limits.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import httpx

from ksadk.a2a.client_errors import AgentUnreachable
from ksadk.a2a.space.answer_limits import Deadline, EgressLimits, bounded
from ksadk.a2a.space.errors import A2AEgressError
from ksadk.a2a.urls import split_http_url
from ksadk.public_addresses import by_family, first_not_public, literal

POLICY_REVISION = "runtime-local-dns-pinned-v1"

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name, each as text, for connections to a port. `OSError` where there are none."""

Carrier = Callable[[ssl.SSLContext], httpx.AsyncBaseTransport]
"""Makes what carries the requests of one lease. Their URLs hold the address, their extension `sni_hostname`
the name."""

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})

_LEAST_SHARE = 1.0


class ExternalTransport(Protocol):
    """What external agents are reached through. The platform may hand in its own."""

    @property
    def policy_revision(self) -> str:
        """The rules that it enforces, and their version."""

    @property
    def route_kinds(self) -> frozenset[str]:
        """The kinds of routes that it dials: `external_public`, `external_vpc`."""

    def lease(self, url: str) -> AbstractAsyncContextManager[httpx.AsyncBaseTransport]:
        """A transport for one operation with the origin of a URL."""


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as this machine resolves it."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def carry(tls: ssl.SSLContext) -> httpx.AsyncBaseTransport:
    """HTTP/1.1 over TLS, without a proxy."""
    return httpx.AsyncHTTPTransport(verify=tls, trust_env=False)


class PinnedTransport:
    """Leases transports to public agents. It keeps no connection, so there is nothing to close.

    tls: whom to trust; without it the public authorities, whatever the environment says.
    """

    policy_revision = POLICY_REVISION
    route_kinds = frozenset({"external_public"})

    def __init__(
        self,
        *,
        resolver: Resolver = resolve,
        carrier: Carrier = carry,
        tls: ssl.SSLContext | None = None,
        limits: EgressLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resolver = resolver
        self._carrier = carrier
        self._tls = tls
        self._limits = limits or EgressLimits()
        self._clock = clock

    @asynccontextmanager
    async def lease(self, url: str) -> AsyncIterator[Lease]:
        """A transport for one operation with the origin of a URL.

        `A2A_EGRESS_REFUSED` where the URL cannot be one of a public agent, `A2A_EGRESS_ADDRESS_REFUSED`
        where its host is not public, `A2ACLI_ERR_UNREACHABLE` where its name does not resolve.
        """
        target = external_url(url)
        deadline = Deadline(self._limits.operation_seconds, self._clock)
        addresses = await self._vetted(target, deadline)
        if self._tls is None:
            self._tls = httpx.create_ssl_context(trust_env=False)
        lease = Lease(target, addresses, self._carrier(self._tls), self._limits, deadline)
        try:
            yield lease
        finally:
            await lease.aclose()

    async def _vetted(self, target: httpx.URL, deadline: Deadline) -> list[str]:
        host, port = target.raw_host.decode("ascii"), target.port or 443
        try:
            address = literal(host)
        except ValueError as error:
            raise A2AEgressError(str(error), code="A2A_EGRESS_ADDRESS_REFUSED") from error
        if address is not None:
            answers: Sequence[str] = [str(address)]
        else:
            answers = await deadline.within(lambda: self._resolved(host, port))
        refused = first_not_public(answers)
        if refused is not None:
            raise A2AEgressError(
                f"{host} is not on the public internet: {refused[0]} is {refused[1]}",
                code="A2A_EGRESS_ADDRESS_REFUSED",
                hint="Only agents all of whose addresses are public are called.",
            )
        return by_family(answers)

    async def _resolved(self, host: str, port: int) -> Sequence[str]:
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                answers = await self._resolver(host, port)
        except (OSError, UnicodeError) as error:
            why = str(error) or "no answer in time"
            raise AgentUnreachable(f"{host} cannot be resolved: {why}") from error
        if not answers:
            raise AgentUnreachable(f"{host} cannot be resolved: it has no address")
        return answers


class Lease(httpx.AsyncBaseTransport):
    """Carries the requests of one operation to the origin that it was taken for, and to no other."""

    def __init__(
        self,
        url: httpx.URL,
        addresses: Sequence[str],
        carrier: httpx.AsyncBaseTransport,
        limits: EgressLimits,
        deadline: Deadline,
    ) -> None:
        self.policy_revision = POLICY_REVISION
        self.addresses = list(addresses)
        self._url = url
        self._carrier = carrier
        self._limits = limits
        self._deadline = deadline
        self._ended = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer, whose body raises where it is over a limit."""
        self._check(request)
        response = await self._deadline.within(lambda: self._dial(request))
        try:
            return bounded(request, response, self._limits, self._deadline)
        except BaseException:
            await response.aclose()
            raise

    async def aclose(self) -> None:
        """End the lease: its connections are closed, and it carries nothing more."""
        self._ended = True
        await self._carrier.aclose()

    @property
    def _name(self) -> str:
        return self._url.raw_host.decode("ascii")

    def _check(self, request: httpx.Request) -> None:
        if self._ended:
            raise RuntimeError("the lease has ended")
        wanted, given = (
            (url.scheme, url.raw_host, url.port or 443, url.userinfo) for url in (self._url, request.url)
        )
        if wanted != given or request.method not in _METHODS:
            asked = f"{request.method} to {request.url.netloc.decode('ascii')}"
            raise A2AEgressError(
                f"a lease for {self._name} carries no {asked}",
                code="A2A_EGRESS_REFUSED",
            )

    async def _dial(self, request: httpx.Request) -> httpx.Response:
        """The answer of the first address that takes the connection; each gets its share of the time."""
        failures: list[str] = []
        for address in list(self.addresses):
            share = max(self._limits.connect_seconds / len(self.addresses), _LEAST_SHARE)
            try:
                response = await self._carrier.handle_async_request(self._pinned(request, address, share))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failures.append(f"{address}: {str(error) or 'no answer in time'}")
                continue
            # The next request finds the connection that this one has opened.
            self.addresses.sort(key=lambda other: other != address)
            return response
        raise httpx.ConnectError("; ".join(failures))

    def _pinned(self, request: httpx.Request, address: str, connect_seconds: float) -> httpx.Request:
        headers = request.headers.copy()
        headers["Host"] = self._url.netloc.decode("ascii")
        headers["Accept-Encoding"] = "identity"
        limits = self._limits
        timeout = httpx.Timeout(limits.read_seconds, connect=connect_seconds, pool=limits.connect_seconds)
        return httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=headers,
            stream=request.stream,
            extensions={"timeout": timeout.as_dict(), "sni_hostname": self._name},
        )


def external_url(text: str) -> httpx.URL:
    """A URL that a public agent can have: https, a host name or address, no user, no fragment."""
    try:
        split_http_url(text)
        url = httpx.URL(text)
        if not url.host:  # which also reads an encoded name, and may find that it is none
            raise ValueError("it names no host")
    except (ValueError, httpx.InvalidURL) as error:
        raise _unusable(str(error)) from error
    host = url.raw_host.decode("ascii")
    if url.scheme != "https":
        raise _unusable("it does not begin with https://")
    if url.fragment or "#" in text:
        raise _unusable("it has a fragment")
    if url.userinfo:
        raise _unusable("it holds a user name or password")
    if ":" not in host and (len(host) > 253 or not all(map(_LABEL.fullmatch, host.split(".")))):
        raise _unusable("its host is no name that certificates are made for")
    return url


def _unusable(why: str) -> A2AEgressError:
    return A2AEgressError(f"the agent's address cannot be called: {why}", code="A2A_EGRESS_REFUSED")
