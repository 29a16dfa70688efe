"""Asks one action of a platform's server by POST, and reads its answer within limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from ksadk.a2a.client_errors import InvalidAnswer
from ksadk.a2a.space import answers
from ksadk.a2a.space.errors import A2ASpaceError
from ksadk.a2a.urls import split_http_url
from ksadk.a2a.wire import read_body
from ksadk.hosts import reach

TIMEOUT = 15.0
"""Seconds that an action may take."""
MAX_ANSWER = 16 * 1024 * 1024
"""Bytes."""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer whose body was read whole."""

    status: int
    body: bytes


async def ask(
    http: httpx.AsyncClient,
    action: str,
    url: str,
    wanted: Mapping[str, Any],
    headers: Mapping[str, str],
    *,
    auth: httpx.Auth | None = None,
    timeout: float = TIMEOUT,
) -> Answer:
    """The answer to an action; `A2AControlPlaneError` where there is none in time, or too large a one."""
    body = json.dumps(wanted, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    request = http.build_request(
        "POST", url, content=body,
        headers={"Content-Type": "application/json", "Accept-Encoding": "identity", **headers},
    )  # fmt: skip
    try:
        async with asyncio.timeout(timeout):
            response = await http.send(request, auth=auth, stream=True, follow_redirects=False)
            try:
                if response.headers.get("content-encoding", "identity").lower() != "identity":
                    raise answers.invalid(action, "compressed, which was not asked for")
                return Answer(response.status_code, await read_body(response, MAX_ANSWER))
            finally:
                await response.aclose()
    except InvalidAnswer as error:
        raise answers.invalid(action, f"more than {MAX_ANSWER:,} bytes") from error
    except (TimeoutError, httpx.TimeoutException) as error:
        raise answers.unavailable(action, f"the control plane did not answer within {timeout:g} s") from error
    except httpx.HTTPError as error:
        why = f"the control plane at {address(request.url)} cannot be reached: {type(error).__name__}"
        raise answers.unavailable(action, why) from error


def address(url: httpx.URL) -> str:
    """Scheme, host and port, as messages name a server."""
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"


def checked_url(url: str, variable: str) -> str:
    """The address of a platform's server, without a slash at its end: over https, or by http where only a
    private network sees it. What it is asked with proves who asks."""
    try:
        parts = split_http_url(url)
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL) as error:
        raise _unusable(variable, str(error)) from error
    if parts.query or parts.fragment:
        raise _unusable(variable, "it has a query or a fragment")
    if parts.scheme == "http" and reach(parts.hostname or "") not in ("loopback", "private"):
        raise _unusable(variable, "it would be asked in the clear; https is expected")
    return url.rstrip("/")


def _unusable(variable: str, why: str) -> A2ASpaceError:
    return A2ASpaceError(
        f"{variable} cannot be used: {why}",
        code="A2A_CONTROL_PLANE_ADDRESS",
        hint="It is https://HOST, or http://127.0.0.1:PORT for a center on this machine.",
    )
