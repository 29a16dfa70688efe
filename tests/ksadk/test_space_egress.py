"""Calls of external agents: who may make one, what goes with it, and what never does."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from vendor import NAME, PUBLIC, URL, Internet, Vendor, answer, at, closed_port, vendor

from ksadk.a2a.client_errors import A2AProtocolError
from ksadk.a2a.space.answer_limits import EgressLimits
from ksadk.a2a.space.egress import Egress
from ksadk.a2a.space.errors import A2AEgressError
from ksadk.a2a.space.models import Credential, PreparedOperation, PreparedTarget, Route, RouteKind
from ksadk.a2a.wire import SEND, STREAM, Extras, Interface, Wire
from ksadk.errors import KsadkError

PERMIT = "permit-of-one-call-0123456789"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJhMmEtZ2F0ZXdheSJ9.c2lnbmF0dXJl+/"
KEY = "vendor-key-0123456789"
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
RESULT = answer(b'{"jsonrpc": "2.0", "id": 1, "result": {"message": {"messageId": "r"}}}')


def prepared(kind: RouteKind = "external_public", url: str = URL) -> PreparedOperation:
    route = Route(kind, Interface(url, "JSONRPC"))
    return PreparedOperation("task-1", PreparedTarget("agent-1", "version-1", "0" * 64), route, PERMIT, "")


class Broker:
    """Gives a credential, and counts how often it was asked."""

    def __init__(self, credential: Credential) -> None:
        self.credential = credential
        self.asked = 0

    async def __call__(self, operation: PreparedOperation) -> Credential:
        self.asked += 1
        return self.credential


def egress(internet: Internet, credential: Credential | None = None, **options: Any) -> Egress:
    given: dict[str, Any] = {
        "enabled": True,
        "transport": internet.transport(),
        "resolve": Broker(credential or Credential()),
        "forbidden": lambda: [TOKEN],
    }
    return Egress(**given | options)


Sending = Callable[[httpx.AsyncClient, Extras], Any]


async def call(way: Egress, send: Sending, operation: PreparedOperation | None = None) -> Any:
    operation = operation or prepared()
    async with way.opened(operation) as (http, extras):
        return await send(http, extras)


async def message(http: httpx.AsyncClient, extras: Extras) -> Any:
    return await Wire(http, Interface(URL, "JSONRPC"), extras).call(SEND, MESSAGE)


def refused(way: Egress, send: Sending = message, operation: PreparedOperation | None = None) -> KsadkError:
    with pytest.raises(KsadkError) as error:
        asyncio.run(call(way, send, operation))
    return error.value


def head(agent: Vendor) -> list[bytes]:
    return agent.requests[-1].partition(b"\r\n\r\n")[0].split(b"\r\n")


def test_with_the_flag_off_neither_the_name_nor_the_credential_is_looked_up() -> None:
    internet, broker = Internet({}), Broker(Credential())
    for transport in (internet.transport(), None):
        error = refused(egress(internet, enabled=False, transport=transport, resolve=broker))
        assert isinstance(error, PermissionError)
        assert error.code == "A2A_PUBLIC_EGRESS_DISABLED"
    assert (internet.asked, broker.asked) == ([], 0)


@pytest.mark.parametrize("kind", ["external_public", "external_vpc"])
def test_without_a_transport_no_external_agent_is_called(kind: RouteKind) -> None:
    broker = Broker(Credential())
    way = egress(Internet({}), transport=None, resolve=broker)
    assert refused(way, operation=prepared(kind)).code == "A2A_EGRESS_TRANSPORT_REQUIRED"
    assert broker.asked == 0


@pytest.mark.parametrize("enabled", [False, True])
def test_the_built_in_transport_dials_into_no_private_network(enabled: bool) -> None:
    internet, broker = Internet({}), Broker(Credential())
    way = egress(internet, enabled=enabled, resolve=broker)
    assert refused(way, operation=prepared("external_vpc")).code == "A2A_VPC_EGRESS_DIALER_REQUIRED"
    assert (internet.asked, broker.asked) == ([], 0)


def test_a_dialer_of_the_platform_is_used_for_what_it_dials() -> None:
    class Dialer:
        policy_revision = "a-test's"
        route_kinds = frozenset({"external_vpc"})

        @asynccontextmanager
        async def lease(self, url: str) -> AsyncIterator[httpx.AsyncBaseTransport]:
            async with internet.transport().lease(url) as lease:
                yield lease

    with vendor(RESULT) as agent:
        internet = at(agent)
        way = egress(internet, enabled=False, transport=Dialer())
        assert asyncio.run(call(way, message, prepared("external_vpc"))) == {"message": {"messageId": "r"}}
        assert refused(way).code == "A2A_PUBLIC_EGRESS_DISABLED"
        assert refused(egress(internet, transport=Dialer())).code == "A2A_EGRESS_REFUSED"
    assert len(agent.requests) == 1


def test_a_hosted_agents_route_is_not_opened_here() -> None:
    assert refused(egress(Internet({})), operation=prepared("hosted_gateway")).code == "A2A_EGRESS_REFUSED"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (f"http://{NAME}/", "A2A_EGRESS_REFUSED"),
        ("https://127.0.0.1/", "A2A_EGRESS_ADDRESS_REFUSED"),
        ("https://inside.example/", "A2A_EGRESS_ADDRESS_REFUSED"),
        ("https://nowhere.example/", "A2ACLI_ERR_UNREACHABLE"),
    ],
)
def test_an_address_is_looked_at_before_a_credential_is_asked_for(url: str, code: str) -> None:
    broker = Broker(Credential())
    internet = Internet({}, {"inside.example": [["10.0.0.1"]]})
    assert refused(egress(internet, resolve=broker), operation=prepared(url=url)).code == code
    assert broker.asked == 0


def test_a_broker_that_fails_ends_the_call_before_anything_is_sent() -> None:
    async def broken(operation: PreparedOperation) -> Credential:
        raise A2AEgressError("no", code="A2A_EGRESS_REFUSED")

    with vendor() as agent:
        assert refused(egress(at(agent), resolve=broken)).message == "no"
    assert agent.connections == 0


FULL = Credential(
    {"Authorization": f"Bearer {KEY}", "X-Team": "a b"}, {"api key": "k&=+/?é"}, {"sid": "c1", "t": "c2=="}
)


def test_headers_query_and_cookies_are_put_into_each_request() -> None:
    with vendor(answer(b"{}", "200 OK", "Set-Cookie: theirs=1")) as agent:

        async def twice(http: httpx.AsyncClient, extras: Extras) -> None:
            for _ in range(2):
                await http.post(URL + "?a=%2F&b", content=b"body")

        asyncio.run(call(egress(at(agent), FULL), twice))
        assert (len(agent.requests), agent.connections) == (2, 1)
        for request in agent.requests:
            assert request.startswith(b"POST /a2a?a=%2F&b&api%20key=k%26%3D%2B%2F%3F%C3%A9 HTTP/1.1\r\n")
            assert b"\r\nAuthorization: Bearer " + KEY.encode() + b"\r\n" in request
            assert b"\r\nX-Team: a b\r\n" in request
            assert b"\r\nCookie: sid=c1; t=c2==\r\n" in request
            assert request.endswith(b"\r\n\r\nbody")


CONFLICTS = {
    "a parameter": (Credential(query={"key": "1"}), URL + "?key=", {}),
    "an encoded parameter": (Credential(query={"a b": "1"}), URL + "?a+b=2", {}),
    "a cookie": (Credential(cookies={"a": "1"}), URL, {"Cookie": "b=2"}),
    "a cookie as header": (Credential({"Cookie": "a=1"}, {}, {"a": "1"}), URL, {}),
    "a header": (Credential({"x-key": "1"}), URL, {"X-Key": "2"}),
    "a header twice": (Credential({"x-key": "1", "X-Key": "1"}), URL, {}),
    "the client's own": (Credential({"User-Agent": "x"}), URL, {}),
} | {
    name: (Credential({name: "x"}), URL, {})
    for name in (
        "Host", "content-length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade",
        "Expect", "Proxy-Authorization", "Proxy-Connection", "A2A-Version", "a2a-extensions", "Content-Type",
        "X-AgentEngine-A2A-Permit", "Accept-Encoding", "X-Forwarded-For", "Forwarded", "Via",
    )
}  # fmt: skip


@pytest.mark.parametrize(("credential", "url", "headers"), CONFLICTS.values(), ids=list(CONFLICTS))
def test_a_credential_takes_no_other_things_place(
    credential: Credential, url: str, headers: dict[str, str]
) -> None:
    with vendor() as agent:
        error = refused(egress(at(agent), credential), lambda http, _: http.get(url, headers=headers))
    assert error.code == "A2A_CREDENTIAL_INJECTION_CONFLICT"
    assert agent.requests == []


@pytest.mark.parametrize(
    "credential",
    [
        Credential({"X-Key": "a\r\nHost: evil"}),
        Credential({"X-Key": "a\nb"}),
        Credential({"X-Key": "a\0"}),
        Credential({"X-Key": "é"}),
        Credential({"X-Key": " evil"}),
        Credential({"X-Key": "evil\t"}),
        Credential({"X-Key\r\nX": "a"}),
        Credential({"X Key": "a"}),
        Credential({"": "a"}),
        Credential(cookies={"a": "1; b=2"}),
        Credential(cookies={"a": "1\r\nX: y"}),
        Credential(cookies={"a=b": "1"}),
        Credential(cookies={"a;b": "1"}),
        Credential(query={"": "1"}),
        Credential(query={"a": "\ud800"}),
        Credential(query={"\ud800": "a"}),
    ],
)
def test_a_credential_that_is_none_is_refused_without_being_shown(credential: Credential) -> None:
    with vendor() as agent:
        error = refused(egress(at(agent), credential))
    assert (error.code, agent.connections) == ("A2A_EGRESS_REFUSED", 0)
    assert "evil" not in str(error.to_result())


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


CARRIED: dict[str, dict[str, Any]] = {
    "as a bearer": {"headers": {"Authorization": f"Bearer {TOKEN}"}},
    "as a password": {"headers": {"Authorization": basic(f"user:{TOKEN}")}},
    "the permit": {"headers": {"X-AgentEngine-A2A-Permit": PERMIT}},
    "the permit in the body": {"content": f'{{"a":"{PERMIT}"}}'.encode()},
    "in the query": {"url": f"{URL}?token={quote(TOKEN, safe='')}"},
    "in the query, partly encoded": {"url": f"{URL}?token={quote(TOKEN, safe='+')}"},
    "in the query as it is": {"url": f"{URL}?token={TOKEN}"},
    "in the path": {"url": f"{URL}/{TOKEN}/x"},
    "in the path, all of it encoded": {"url": f"{URL}/" + "".join(f"%{ord(char):02x}" for char in TOKEN)},
    "in a message": {"json": {"message": {"parts": [{"text": f"my token is {TOKEN}, keep it"}]}}},
    **{
        f"in a message's file, {len(before)} bytes in": {
            "json": {
                "message": {"parts": [{"raw": base64.b64encode(before + TOKEN.encode() + b"\n").decode()}]}
            }
        }
        for before in (b"", b"a", b"ab", b"abc")
    },
    "in a data URL of the other alphabet": {
        "json": {"text": base64.urlsafe_b64encode(f"?>{TOKEN}?>".encode()).decode()}
    },
    "in a form": {"data": {"token": PERMIT}},
    "in a file": {"files": {"file": TOKEN.encode()}},
    "as a cookie": {"headers": {"Cookie": f"a={TOKEN}"}},
    "as a header's name": {"headers": {PERMIT: "1"}},
}


async def post(http: httpx.AsyncClient, request: dict[str, Any]) -> None:
    await http.post(**{"url": URL} | request)


@pytest.mark.parametrize("request_", CARRIED.values(), ids=list(CARRIED))
def test_a_request_with_a_secret_of_the_platform_never_leaves(request_: dict[str, Any]) -> None:
    with vendor() as agent:
        error = refused(egress(at(agent)), lambda http, _: post(http, request_))
        assert (error.code, agent.requests) == ("A2A_PLATFORM_TOKEN_REFUSED", [])
        assert TOKEN not in str(error.to_result())
        assert PERMIT not in str(error.to_result())

        async def naive() -> None:
            async with at(agent).transport().lease(URL) as lease, httpx.AsyncClient(transport=lease) as http:
                await post(http, request_)

        # Without the guard the agent would have it.
        asyncio.run(naive())
    assert len(agent.requests) == 1


@pytest.mark.parametrize(
    "credential",
    [Credential({"X-Key": TOKEN}), Credential(query={"k": TOKEN}), Credential(cookies={"k": PERMIT})],
)
def test_a_credential_that_is_the_platforms_own_never_leaves(credential: Credential) -> None:
    with vendor() as agent:
        assert refused(egress(at(agent), credential)).code == "A2A_PLATFORM_TOKEN_REFUSED"
    assert agent.requests == []


def test_secrets_are_asked_for_at_each_request_since_tokens_change() -> None:
    secrets: list[str] = []
    with vendor() as agent:

        async def ask(http: httpx.AsyncClient, extras: Extras) -> None:
            await http.post(URL, content=TOKEN.encode())
            secrets.append(TOKEN)
            await http.post(URL, content=TOKEN.encode())

        error = refused(egress(at(agent), forbidden=lambda: secrets), ask)
    assert (error.code, len(agent.requests)) == ("A2A_PLATFORM_TOKEN_REFUSED", 1)


def test_an_empty_or_very_short_secret_stops_nothing() -> None:
    with vendor(RESULT) as agent:
        asyncio.run(call(egress(at(agent), forbidden=lambda: ["", "a2a"]), message))
    assert len(agent.requests) == 1


@pytest.mark.parametrize(
    "said", [RESULT, answer(b"", "302 Found", "Location: https://a.example/"), answer(b"[" * 65)]
)
def test_no_log_line_and_no_error_shows_the_credential(said: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    credential = Credential({"X-Key": KEY}, {"key": KEY}, {"key": KEY})
    shown = [repr(credential)]

    async def ask(http: httpx.AsyncClient, extras: Extras) -> None:
        response = await http.post(URL, content=b"{}")
        shown.append(f"{response!r} {response.request!r} {response.url} {http!r} {extras.headers}")

    with vendor(said) as agent:
        try:
            asyncio.run(call(egress(at(agent), credential), ask))
        except A2AEgressError as error:
            shown.append(f"{error!r} {error.to_result()}")
    shown += [record.getMessage() for record in caplog.records]
    assert agent.requests[0].count(KEY.encode()) == 3
    assert any("httpcore" in record.name for record in caplog.records)
    assert KEY not in "".join(shown)


def test_the_words_of_a_status_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with vendor(RESULT.replace(b"200 OK", f"200 {KEY}".encode())) as agent:
        asyncio.run(call(egress(at(agent), Credential({"X-Key": KEY})), message))
    assert "200" in caplog.text
    assert KEY not in caplog.text


def test_what_an_agent_repeats_of_the_credential_is_masked() -> None:
    said = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no such key: %s"}}' % KEY.encode()
    with vendor(answer(said)) as agent:
        error = refused(egress(at(agent), Credential({"Authorization": f"Bearer {KEY}"})))
    assert isinstance(error, A2AProtocolError)
    assert error.message == "no such key: ***"


def test_a_short_value_is_not_masked_in_what_it_is_not() -> None:
    said = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"3 errors"}}'
    with vendor(answer(said)) as agent:
        error = refused(egress(at(agent), Credential(query={"tenant": "3"})))
    assert (error.code, error.message) == ("InternalError", "3 errors")


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: "

SAID = {
    "a redirect": (answer(b"", "302 Found", "Location: https://a.example/"), "A2A_EGRESS_REDIRECT_REFUSED"),
    "a deep answer": (answer(b"[" * 65), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "a deep error": (answer(b"[" * 65, "400 No"), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "a deep event": (
        answer(b"data: " + b"[" * 65 + b"\n\n", kind="text/event-stream"),
        "A2A_EGRESS_LIMIT_EXCEEDED",
    ),
}


async def stream(http: httpx.AsyncClient, extras: Extras) -> list[Any]:
    wire = Wire(http, Interface(URL, "JSONRPC"), extras)
    return [item async for item in wire.stream(STREAM, MESSAGE)]


@pytest.mark.parametrize(("said", "code"), SAID.values(), ids=list(SAID))
@pytest.mark.parametrize("send", [message, stream])
def test_a_refusal_keeps_its_code_through_the_protocol(said: bytes, code: str, send: Sending) -> None:
    with vendor(said) as agent:
        assert refused(egress(at(agent)), send).code == code


@pytest.mark.parametrize(
    ("head", "limits", "code"),
    [
        (b"", EgressLimits(read_seconds=0.1), "A2ACLI_ERR_TIMEOUT"),
        (EVENTS, EgressLimits(read_seconds=0.1), "a2a_stream_cut"),
        (b"", EgressLimits(operation_seconds=0.2), "A2A_EGRESS_TIMEOUT"),
        (EVENTS, EgressLimits(operation_seconds=0.2), "A2A_EGRESS_TIMEOUT"),
    ],
)
def test_an_agent_that_falls_silent_is_left(head: bytes, limits: EgressLimits, code: str) -> None:
    def silent(connection: ssl.SSLSocket) -> None:
        connection.sendall(head)
        connection.recv(1)  # until the client has gone

    with vendor(silent) as agent:
        internet = at(agent)
        assert refused(egress(internet, transport=internet.transport(limits=limits)), stream).code == code


def test_an_answer_that_says_it_is_a_stream_is_not_read_as_an_unlimited_one() -> None:
    with vendor(answer(b"[" * 65, kind="text/event-stream")) as agent:
        assert refused(egress(at(agent)), message).code == "A2A_EGRESS_LIMIT_EXCEEDED"


def test_an_agent_that_takes_no_connection_is_unreachable() -> None:
    with closed_port() as closed:
        error = refused(egress(Internet({PUBLIC: closed})))
    assert (error.code, PUBLIC in error.message) == ("A2ACLI_ERR_UNREACHABLE", True)


def test_a_message_goes_to_the_agent_as_a2a_says() -> None:
    with vendor(RESULT) as agent:
        internet = at(agent)
        assert asyncio.run(call(egress(internet), message)) == {"message": {"messageId": "r"}}
    assert internet.dialled == [PUBLIC]
    assert head(agent)[0] == b"POST /a2a HTTP/1.1"
    assert b"A2A-Version: 1.0" in head(agent)
    assert not [line for line in head(agent) if line.lower().startswith((b"authorization", b"x-agentengine"))]
