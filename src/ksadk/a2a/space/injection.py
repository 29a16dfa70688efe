"""Credentials put into requests, and requests that carry one of the platform's, which are never sent.

Both happen below the HTTP client, to a copy of its request, so that neither its log nor its errors show what
was put in.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn
from urllib.parse import parse_qsl, quote, unquote, unquote_plus

import httpx

from ksadk.a2a.space.errors import A2AEgressError
from ksadk.a2a.space.models import Credential

SHORTEST_SECRET = 8
"""A shorter text would be found in requests that do not carry it."""

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")
_COOKIE_VALUE = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*")
# What says how the message is framed, routed and read.
_NOT_A_CREDENTIALS = frozenset({
    "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade",
    "expect", "via", "forwarded", "content-type", "content-encoding", "accept", "accept-encoding",
})  # fmt: skip
_RESERVED_PREFIXES = ("proxy-", "a2a-", "x-agentengine-", "x-forwarded-", ":")


class InjectingTransport(httpx.AsyncBaseTransport):
    """Sends each request with a credential, unless a secret of the platform is in it.

    `forbidden` gives the platform's secrets anew for each request, since tokens change.
    """

    def __init__(
        self, below: httpx.AsyncBaseTransport, credential: Credential, forbidden: Callable[[], Iterable[str]]
    ) -> None:
        check_injectable(credential)
        self._below = below
        self._credential = credential
        self._forbidden = forbidden

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer. `A2A_CREDENTIAL_INJECTION_CONFLICT` where the request already has what would be put in,
        `A2A_PLATFORM_TOKEN_REFUSED` where it carries a secret of the platform; then nothing was sent."""
        body = await request.aread()
        sent = _injected(request, self._credential)
        _refuse_platform_secrets(sent, body, self._forbidden())
        return await self._below.handle_async_request(sent)

    async def aclose(self) -> None:
        """Close the transport below."""
        await self._below.aclose()


def check_injectable(credential: Credential) -> None:
    """Refuse what no request may be given, whatever the request. `A2A_EGRESS_REFUSED`, or
    `A2A_CREDENTIAL_INJECTION_CONFLICT`; no value is in its words."""
    names = [name.lower() for name in credential.headers]
    for name, value in credential.headers.items():
        if not _NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise A2AEgressError("the credential has a header that is none", code="A2A_EGRESS_REFUSED")
        if name.lower() in _NOT_A_CREDENTIALS or name.lower().startswith(_RESERVED_PREFIXES):
            _conflict(f"the header {name}, which is not a credential's to set")
        if names.count(name.lower()) > 1 or (name.lower() == "cookie" and credential.cookies):
            _conflict(f"the header {name} twice")
    for name, value in credential.cookies.items():
        if not _NAME.fullmatch(name) or not _COOKIE_VALUE.fullmatch(value):
            raise A2AEgressError("the credential has a cookie that is none", code="A2A_EGRESS_REFUSED")
    try:
        "".join([*credential.query, *credential.query.values()]).encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        raise A2AEgressError(
            "the credential has a parameter that is none", code="A2A_EGRESS_REFUSED"
        ) from None
    if "" in credential.query:
        raise A2AEgressError("the credential has a parameter without a name", code="A2A_EGRESS_REFUSED")


def _injected(request: httpx.Request, credential: Credential) -> httpx.Request:
    """A copy of a request with the credential in it."""
    headers = request.headers.copy()
    given = dict(credential.headers)
    if credential.cookies:
        given["Cookie"] = "; ".join(f"{name}={value}" for name, value in credential.cookies.items())
    for name, value in given.items():
        if name in headers:
            _conflict(f"the header {name}, which the request has already")
        headers[name] = value
    return httpx.Request(
        request.method,
        _with_query(request.url, credential.query),
        headers=headers,
        stream=request.stream,
        extensions=request.extensions,
    )


def _with_query(url: httpx.URL, given: Mapping[str, str]) -> httpx.URL:
    if not given:
        return url
    there = {name for name, _ in parse_qsl(url.query.decode("ascii"), keep_blank_values=True)}
    for name in given:
        if name in there:
            _conflict(f"the query parameter {name}, which the request has already")
    pairs = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in given.items()]
    return url.copy_with(query=b"&".join([*filter(None, [url.query]), "&".join(pairs).encode("ascii")]))


def _conflict(what: str) -> NoReturn:
    raise A2AEgressError(
        f"the credential would set {what}",
        code="A2A_CREDENTIAL_INJECTION_CONFLICT",
        hint="The credential is defined in the Space, the address in the card: one of them must change.",
    )


def _refuse_platform_secrets(request: httpx.Request, body: bytes, secrets: Iterable[str]) -> None:
    texts = list(_texts(request, body))
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET and any(form in text for form in _forms(secret) for text in texts):
            name = request.url.raw_host.decode("ascii")
            raise A2AEgressError(
                f"a request to {name} carries a credential of the platform; it was not sent",
                code="A2A_PLATFORM_TOKEN_REFUSED",
            )


def _texts(request: httpx.Request, body: bytes) -> Iterator[bytes]:
    """What a request says, as it is written and as it is meant."""
    url = str(request.url)
    yield from (body, url.encode(), unquote(url).encode(), unquote_plus(url).encode())
    for name, value in request.headers.raw:
        yield from (name, value)


def _forms(secret: str) -> Iterator[bytes]:
    """A secret as it is, and as it is in base64 of either alphabet: of a file, or of a user and a password.
    What is before it there takes part in some of its characters, and what is after it in the last."""
    data = secret.encode()
    yield data
    for before, mixed in enumerate((0, 2, 3)):
        coded = base64.b64encode(bytes(before) + data)[mixed : (before + len(data)) * 8 // 6]
        yield from (coded, coded.translate(bytes.maketrans(b"+/", b"-_")))
