"""Calls of agents that the platform hosts: through its gateway, which is shown a token and the permit."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

import httpx

from ksadk.a2a.space.errors import GatewayOriginRefused
from ksadk.a2a.space.models import PreparedOperation
from ksadk.a2a.space.tokens import WorkloadTokens
from ksadk.a2a.urls import split_http_url
from ksadk.a2a.wire import Extras, no_cookies
from ksadk.errors import SettingsError
from ksadk.hosts import reach

PERMIT_HEADER = "X-AgentEngine-A2A-Permit"

CONNECT_SECONDS = 5.0
SILENT_SECONDS = 300.0
"""How long a hosted agent may say nothing."""

Origin = tuple[str, bytes, int]


class HostedGateway:
    """The origins that hosted agents are called at: the control plane's, and those that are configured.

    Nothing else is shown the gateway token or a permit, and nothing at all in the clear but this machine.
    """

    def __init__(
        self, tokens: WorkloadTokens, *, control_plane_url: str = "", origins: Iterable[str] = ()
    ) -> None:
        self._tokens = tokens
        self._origins = frozenset(_configured(text) for text in origins)
        if control_plane_url:
            self._origins |= {origin_of(control_plane_url)}

    def extras(self, prepared: PreparedOperation) -> Extras:
        """The headers of a call; `GatewayOriginRefused` before the token is read where its address is none of
        the origins."""
        url = prepared.route.interface.url
        if not self._takes(url):
            raise GatewayOriginRefused(
                f"the hosted agent {prepared.target.agent_id} is not called at {_shown(url)}: that is "
                "neither the control plane's origin nor a configured gateway's, over https",
                hint="KSADK_A2A_GATEWAY_ORIGINS names the gateways.",
                origin=_shown(url),
            )
        token = self._tokens.token("a2a-gateway")
        headers = {"Authorization": f"Bearer {token}"}
        if prepared.call_permit:
            headers[PERMIT_HEADER] = prepared.call_permit
        return Extras(headers, {}, tuple(filter(None, (token, prepared.call_permit))))

    def _takes(self, url: str) -> bool:
        try:
            return origin_of(url) in self._origins and _is_safe(url)
        except httpx.InvalidURL:
            return False

    def secrets(self) -> frozenset[str]:
        """The workload tokens."""
        return self._tokens.secrets()


def platform_client(
    transport: httpx.AsyncBaseTransport | None = None, timeout: httpx.Timeout | float | None = None
) -> httpx.AsyncClient:
    """A client for the platform's own servers: no proxy sees what it sends, it follows nothing, and it keeps
    no cookie."""
    return httpx.AsyncClient(
        transport=transport,
        timeout=httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS) if timeout is None else timeout,
        trust_env=False,
        verify=httpx.create_ssl_context() if transport is None else True,
        follow_redirects=False,
        cookies=no_cookies(),
    )


def origin_of(url: str) -> Origin:
    """Scheme, host and port as they are dialled."""
    address = httpx.URL(url)
    return address.scheme, address.raw_host, address.port or {"https": 443, "http": 80}.get(address.scheme, 0)


def _is_safe(url: str) -> bool:
    address = httpx.URL(url)
    return address.scheme == "https" or reach(address.host) == "loopback"


def _shown(url: str) -> str:
    """The origin of an address, without what else may be in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _configured(text: str) -> Origin:
    try:
        parts = split_http_url(text)
        usable = not parts.path.strip("/") and not parts.query and not parts.fragment and _is_safe(text)
    except (ValueError, httpx.InvalidURL):
        usable = False
    if not usable:
        raise SettingsError(
            f"KSADK_A2A_GATEWAY_ORIGINS holds {text[:200]!r}: no origin over https, or on this machine",
            hint="An origin is https://HOST or https://HOST:PORT.",
        )
    return origin_of(text)
