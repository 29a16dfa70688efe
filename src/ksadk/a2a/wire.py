"""A2A's two bindings over HTTP: an operation goes out, and one answer or a stream of them comes back.

This is not the SDK's transport, because that one splits streams at every character that Python takes for a
line end (U+2028 in an answer breaks it), loses the body of a refusal, and takes an error in a 200 for an
empty answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote
from uuid import uuid4

import httpx

from ksadk.a2a.card import PROTOCOL_VERSION
from ksadk.a2a.client_errors import (
    BODY_SHOWN,
    PROTOCOL_ERRORS,
    AgentError,
    AgentUnreachable,
    InvalidAnswer,
    StreamBroken,
    http_error,
    rest_error,
    rpc_error,
)
from ksadk.a2a.sse import EventReader
from ksadk.errors import KsadkError

VERSION_HEADER = "A2A-Version"
ENCODINGS = "gzip, deflate"
"""How an answer may be compressed, once."""
Admit = Callable[[str], None]
"""Told of a URL before it is asked; raises where it must not be."""
MAX_BODY_BYTES = 64 * 1024 * 1024
_BODY_OF_REFUSAL = 64 * 1024


class Operation(NamedTuple):
    """An operation as the bindings write it; `{id}` is the task's."""

    rpc: str
    verb: str
    path: str


SEND = Operation("SendMessage", "POST", "/message:send")
STREAM = Operation("SendStreamingMessage", "POST", "/message:stream")
GET_TASK = Operation("GetTask", "GET", "/tasks/{id}")
LIST_TASKS = Operation("ListTasks", "GET", "/tasks")
CANCEL = Operation("CancelTask", "POST", "/tasks/{id}:cancel")
SUBSCRIBE = Operation("SubscribeToTask", "GET", "/tasks/{id}:subscribe")


@dataclass(frozen=True)
class Interface:
    """Where and how an agent is spoken to; `tenant` goes with every request, unless it is empty."""

    url: str
    binding: str
    version: str = PROTOCOL_VERSION
    tenant: str = ""


@dataclass(frozen=True)
class Extras:
    """What goes with every request beside its content; `secrets` are the credentials in it."""

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


NO_EXTRAS = Extras()


class Wire:
    """Speaks to one interface of an agent. Requests and answers are JSON values, as A2A writes them."""

    def __init__(self, client: httpx.AsyncClient, interface: Interface, extras: Extras = NO_EXTRAS) -> None:
        self._client = client
        self._interface = interface
        self._extras = extras

    async def call(self, operation: Operation, request: Mapping[str, Any]) -> Any:
        """The result of an operation; an error of the agent's is raised."""
        with self._network():
            response = await self._client.send(self._request(operation, request), stream=True)
            try:
                await self._refuse_failures(response)
                return self._result(await read_body(response, MAX_BODY_BYTES))
            finally:
                await response.aclose()

    async def stream(self, operation: Operation, request: Mapping[str, Any]) -> AsyncGenerator[Any]:
        """The results of an operation that streams, each as it comes; `StreamBroken` where it breaks off."""
        sent = self._request(operation, request)
        sent.headers["Accept"] = "text/event-stream, application/json"
        with self._network():
            response = await self._client.send(sent, stream=True)
        try:
            with self._network():
                await self._refuse_failures(response)
            if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
                with self._network():
                    yield self._result(await read_body(response, MAX_BODY_BYTES))
                return
            async for event in _events(response, self._extras.secrets):
                yield self._result(event)
        finally:
            await response.aclose()

    def _network(self) -> AbstractContextManager[None]:
        return network(self._interface.url, self._extras.secrets)

    def _request(self, operation: Operation, request: Mapping[str, Any]) -> httpx.Request:
        url, query = self._interface.url, dict(self._extras.query)
        body: dict[str, Any] | None = {**request}
        if self._interface.tenant:
            body = {"tenant": self._interface.tenant, **request}
        verb = "POST"
        if self._interface.binding == "JSONRPC":
            body = {"jsonrpc": "2.0", "id": str(uuid4()), "method": operation.rpc, "params": body}
        else:
            verb = operation.verb
            tenant = f"/{quote(self._interface.tenant, safe='')}" if self._interface.tenant else ""
            path = operation.path.format(id=quote(str(request.get("id", "")), safe=""))
            url = url.rstrip("/") + tenant + path
            if verb == "GET":
                query, body = _as_query(request, operation) | query, None
        try:
            return self._client.build_request(
                verb,
                httpx.URL(url).copy_merge_params(query),
                json=body,
                headers={
                    "Accept-Encoding": ENCODINGS,
                    VERSION_HEADER: PROTOCOL_VERSION,
                    **self._extras.headers,
                },
            )
        except UnicodeEncodeError as error:  # stray bytes of a command line, or half of a surrogate pair
            raise AgentError("what is to be sent is not UTF-8", code="A2ACLI_ERR_USAGE") from error
        except ValueError as error:
            raise AgentError(f"what is to be sent is not JSON: {error}", code="A2ACLI_ERR_USAGE") from error

    async def _refuse_failures(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        secrets = self._extras.secrets
        body = without(secrets, await read_body(response, _BODY_OF_REFUSAL, cut=True))
        if response.has_redirect_location:
            elsewhere = hidden(secrets, response.headers["location"])
            raise AgentError(
                f"{_address(response)} sends to {elsewhere} instead of answering",
                hint="The card's interface must be the address that answers.",
                a2a_code=response.status_code,
            )
        refused = http_error(
            response.status_code,
            hidden(secrets, response.reason_phrase),
            body.decode("utf-8", "replace"),
            _address(response),
            with_credentials=bool(secrets),
        )
        if refused.kind == "authentication":
            raise refused
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            raise refused from None
        known = self._error(said)
        if known is None or (refused.kind == "unreachable" and known.code not in PROTOCOL_ERRORS):
            raise refused  # a gateway answers for an agent that it cannot reach
        raise known

    def _error(self, said: Any) -> AgentError | None:
        """The A2A error that an answer is, in the manner of either binding."""
        if not isinstance(said, dict) or not said.get("error"):
            return None
        known = rest_error(said)
        if known is not None:
            return known
        error = said["error"]
        if self._interface.binding == "JSONRPC" and isinstance(error, dict):
            return rpc_error(error)
        return InvalidAnswer(f"the agent answered an error that is not A2A's: {_start(json.dumps(error))}")

    def _result(self, body: bytes) -> Any:
        try:
            return self._understood(body)
        except AgentError:
            if not self._extras.secrets:
                raise
        # The error quotes the answer, which may repeat a credential.
        return self._understood(without(self._extras.secrets, body))

    def _understood(self, body: bytes) -> Any:
        said = parse_json(body)
        error = self._error(said)
        if error is not None:
            raise error
        if self._interface.binding != "JSONRPC":
            return said
        if not isinstance(said, dict) or "result" not in said:
            raise InvalidAnswer(f"the agent's answer is no JSON-RPC response: {_start(body)}")
        return said["result"]


def parse_json(body: bytes) -> Any:
    """The JSON value of an answer."""
    try:
        return json.loads(body, parse_constant=_no_number, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise InvalidAnswer(f"the agent's answer is not JSON: {_start(body) or 'it is empty'}") from error


def _number(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"JSON has no number {text}")


def without(secrets: Iterable[str], body: bytes) -> bytes:
    """A body in which no credential can be read that was sent, and that the other side repeats, as it is or
    with the escapes of JSON."""
    for secret in secrets:
        body = body.replace(secret.encode(), b"***")
        if b"\\" in body:
            body = _spelled(secret).sub(b"***", body)
    return body


def hidden(secrets: Iterable[str], text: str) -> str:
    """A text of the other side in which no credential can be read."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


@lru_cache(maxsize=64)
def _spelled(secret: str) -> re.Pattern[bytes]:
    """What finds a text in JSON, whichever of its characters are escaped."""
    ways = []
    for char in secret:
        units = char.encode("utf-16-be").hex()
        escape = "".join(rf"\\u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
        ways.append(rb"(?:\\?" + re.escape(char.encode()) + b"|" + escape.encode() + b")")
    return re.compile(b"".join(ways))


async def read_body(response: httpx.Response, limit: int, *, cut: bool = False) -> bytes:
    """The body of a response up to a limit, over which it is refused or, if `cut`, cut."""
    parts: list[bytes] = []
    size = 0
    async for part in decoded(response):
        parts.append(part)
        size += len(part)
        if size > limit:
            if cut:
                break
            raise InvalidAnswer(f"{_address(response)} answered more than {limit:,} bytes")
    return b"".join(parts)[:limit]


async def decoded(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body as it comes. One that is compressed twice, or in a way that was not asked for, is refused: few
    bytes of it can be gigabytes, before anybody counts them."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", *ENCODINGS.split(", ")):
        raise InvalidAnswer(f"{_address(response)} answers compressed in a way that it was not asked for")
    async for part in response.aiter_bytes():
        yield part


def any_url(_: str) -> None:
    """Admits every URL."""


def http_client(timeout: float | None, admit: Admit = any_url) -> httpx.AsyncClient:
    """A client that takes no proxy to this machine. `timeout` is how long the other side may be silent;
    `admit` is told of the URL of each request before it is sent, and may raise."""

    async def admitted(request: httpx.Request) -> None:
        admit(str(request.url))

    local = ("localhost", "127.0.0.1", "[::1]")
    return httpx.AsyncClient(
        timeout=httpx.Timeout(timeout, connect=min(timeout or 15, 15)),
        event_hooks={"request": [admitted]},
        mounts={f"all://{host}": None for host in local},
    )


def no_cookies() -> CookieJar:
    """A jar that keeps nothing: a cookie would reach one agent from another of the same host."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=()))


async def _events(response: httpx.Response, secrets: Iterable[str]) -> AsyncGenerator[bytes]:
    reader = EventReader()
    try:
        async for data in decoded(response):
            for event in reader.feed(data):
                yield event
    except httpx.TimeoutException as error:
        raise StreamBroken("the agent's stream fell silent") from error
    except httpx.HTTPError as error:
        raise StreamBroken("the connection was lost in the middle of the agent's stream") from _cause(
            error, secrets
        )


@contextmanager
def network(url: str, secrets: Iterable[str] = ()) -> Iterator[None]:
    """Turn what httpx raises into an error that says which address it is about, without the secrets."""
    try:
        yield
    except KsadkError:  # some are httpx's errors too
        raise
    except httpx.TimeoutException as error:
        connecting = isinstance(error, httpx.ConnectTimeout)
        code = "A2ACLI_ERR_UNREACHABLE" if connecting else "A2ACLI_ERR_TIMEOUT"
        raise AgentError(
            f"{url} did not {'take the connection' if connecting else 'answer'} in time", code=code
        ) from error
    except httpx.ConnectError as error:
        raise AgentUnreachable(
            f"{url} cannot be reached: {error}", hint="Is the agent running, and is the address right?"
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = hidden(secrets, str(error)) or type(error).__name__
        raise AgentUnreachable(f"the call of {url} broke off: {said}") from _cause(error, secrets)


def _cause(error: Exception, secrets: Iterable[str]) -> Exception | None:
    """The error, unless it quotes a secret: a traceback shows causes as they are."""
    return error if hidden(secrets, str(error)) == str(error) else None


def _as_query(request: Mapping[str, Any], operation: Operation) -> dict[str, str]:
    in_path = {"id"} if "{id}" in operation.path else set()
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in request.items()
        if key not in in_path
    }


def _address(response: httpx.Response) -> str:
    """Where a response is from, without the query, in which an API key may be."""
    return str(response.url.copy_with(query=None))


def _start(body: bytes | str) -> str:
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    return " ".join(text.split())[:BODY_SHOWN]
