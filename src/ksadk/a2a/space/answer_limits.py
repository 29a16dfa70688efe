"""What an external agent answers, held to limits while it comes in and before it is used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import httpx

from ksadk.a2a.space.errors import A2AEgressError, RedirectRefused
from ksadk.a2a.space.json_limits import JsonLimits
from ksadk.a2a.sse import EventReader

T = TypeVar("T")


@dataclass(frozen=True)
class EgressLimits:
    """What an operation may take: bytes of an answer and of a JSON string, levels of JSON, seconds.

    connect_seconds are for the name and then for its addresses, which share them, but get a second each;
    read_seconds for each silence; operation_seconds begin with the lease. The bytes of a stream are counted
    together, its depth and strings per event.
    """

    body_bytes: int = 8 * 1024 * 1024
    json_depth: int = 64
    string_bytes: int = 1024 * 1024
    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    operation_seconds: float = 300.0


class Deadline:
    """When an operation must have ended, by a clock that only goes forward."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._at = clock() + seconds

    async def within(self, work: Callable[[], Awaitable[T]]) -> T:
        """What the work comes to in the time that is left."""
        left = self._at - self._clock()
        if left <= 0:
            self._over(None)
        try:
            async with asyncio.timeout(left) as scope:
                return await work()
        except TimeoutError as error:
            if not scope.expired():
                raise
            self._over(error)

    def _over(self, error: BaseException | None) -> NoReturn:
        raise A2AEgressError(
            f"the agent was not done within the {self._seconds:g} seconds of an operation",
            code="A2A_EGRESS_TIMEOUT",
        ) from error


def bounded(
    request: httpx.Request, response: httpx.Response, limits: EgressLimits, deadline: Deadline
) -> httpx.Response:
    """The response, with a body that raises where it is over a limit. Redirects, which nobody follows, and
    compressed bodies, which cannot be looked into, are refused."""
    _refuse(response, request.url.raw_host.decode("ascii"))
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return httpx.Response(
        response.status_code,
        headers=response.headers,
        stream=_BoundedBody(response.stream, limits, deadline, _inspector(request, response, limits)),
        # The status's own words are left out: they are a stranger's, and httpx logs them.
        extensions={key: value for key, value in response.extensions.items() if key != "reason_phrase"},
    )


class _BoundedBody(httpx.AsyncByteStream):
    """A body that raises where it is over the limits, before what is over them can be used."""

    def __init__(
        self,
        body: httpx.AsyncByteStream,
        limits: EgressLimits,
        deadline: Deadline,
        inspect: Callable[[bytes], None],
    ) -> None:
        self._body = body
        self._limits = limits
        self._deadline = deadline
        self._inspect = inspect

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        size = 0
        parts = aiter(self._body)
        while (part := await self._deadline.within(lambda: anext(parts, None))) is not None:
            size += len(part)
            if size > self._limits.body_bytes:
                raise A2AEgressError(
                    f"the agent's answer has more than {self._limits.body_bytes:,} bytes",
                    code="A2A_EGRESS_LIMIT_EXCEEDED",
                )
            self._inspect(part)
            yield part

    async def aclose(self) -> None:
        """Close the body."""
        await self._body.aclose()


def _refuse(response: httpx.Response, name: str) -> None:
    if 300 <= response.status_code < 400:
        raise RedirectRefused(
            f"{name} sends elsewhere (status {response.status_code}) instead of answering; nobody follows"
        )
    encodings = response.headers.get("content-encoding", "identity").lower()
    if encodings.strip() not in {"identity", ""}:
        raise A2AEgressError(
            f"{name} answers compressed, which it was not asked for", code="A2A_EGRESS_REFUSED"
        )


def _inspector(
    request: httpx.Request, response: httpx.Response, limits: EgressLimits
) -> Callable[[bytes], None]:
    """What looks at the JSON of a body: of each event of a stream that was asked for, else of the whole body,
    whatever kind it says it is, since that is how it will be read."""
    asked = "text/event-stream" in request.headers.get("accept", "").lower()
    streams = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    if not (asked and streams and response.is_success):
        return JsonLimits(limits.json_depth, limits.string_bytes).feed
    reader = EventReader()

    def events(part: bytes) -> None:
        for event in reader.feed(part):
            JsonLimits(limits.json_depth, limits.string_bytes).feed(event)

    return events
