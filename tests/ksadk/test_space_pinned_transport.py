"""What reaches external agents: the address that was looked at, by the name that it was looked up for."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Coroutine, Sequence
from itertools import count

import httpx
import pytest
from vendor import (
    JSON_ANSWER,
    NAME,
    OTHER,
    PUBLIC,
    SIX,
    URL,
    Internet,
    Way,
    answer,
    at,
    client_tls,
    closed_port,
    post,
    server_tls,
    vendor,
)

from ksadk.a2a.client_errors import AgentUnreachable
from ksadk.a2a.space.answer_limits import EgressLimits
from ksadk.a2a.space.errors import A2AEgressError, RedirectRefused
from ksadk.a2a.space.pinned_transport import POLICY_REVISION, PinnedTransport, external_url, resolve
from ksadk.errors import KsadkError
from ksadk.public_addresses import first_not_public

SMALL = EgressLimits(body_bytes=4096, json_depth=8, string_bytes=512)


def code_of(transport: PinnedTransport, url: str = URL) -> str:
    """The code that a call is refused with."""
    with pytest.raises(KsadkError) as refused:
        asyncio.run(post(transport, url))
    return refused.value.code


def test_the_checked_address_is_dialled_and_the_name_is_kept() -> None:
    with vendor() as agent:
        internet = at(agent)
        response = asyncio.run(post(internet.transport(), f"https://{NAME}:8443/a2a?x=%2F"))
        assert response.json() == {"ok": True}
    assert (internet.asked, internet.dialled, agent.names) == ([NAME], [PUBLIC], [NAME])
    head = agent.requests[0].lower().split(b"\r\n")
    assert head[0] == b"post /a2a?x=%2f http/1.1"
    assert f"host: {NAME}:8443".encode() in head
    assert b"accept-encoding: identity" in head


def test_an_international_name_is_looked_up_and_verified_in_its_encoded_form() -> None:
    encoded = "xn--bcher-kva.example"
    with vendor(name=encoded) as agent:
        internet = at(agent)
        internet.names = {encoded: [[PUBLIC]]}
        asyncio.run(post(internet.transport(), "https://bücher.example/"))
    assert (internet.asked, agent.names) == ([encoded], [encoded])


@pytest.mark.parametrize(
    "tls",
    [
        pytest.param(lambda: server_tls("evil.example"), id="another name's"),
        pytest.param(lambda: server_tls(PUBLIC), id="the address's"),
        pytest.param(lambda: server_tls(NAME, self_signed=True), id="nobody's"),
    ],
)
def test_a_certificate_that_is_not_the_names_ends_it_before_anything_is_sent(
    tls: Callable[[], ssl.SSLContext],
) -> None:
    with vendor(tls=tls()) as agent, pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
        asyncio.run(post(at(agent).transport()))
    assert agent.requests == []


def test_a_resolver_that_changes_its_mind_is_asked_once_an_operation_and_refused_at_the_next() -> None:
    with vendor() as agent:
        internet = at(agent)
        internet.names[NAME] = [[PUBLIC], ["127.0.0.1"]]
        transport = internet.transport()

        async def two_requests() -> None:
            async with transport.lease(URL) as lease, httpx.AsyncClient(transport=lease) as http:
                await http.get(URL)
                await http.get(URL)

        asyncio.run(two_requests())
        assert internet.dialled == [PUBLIC, PUBLIC]
        assert code_of(transport) == "A2A_EGRESS_ADDRESS_REFUSED"
    assert internet.asked == [NAME, NAME]
    assert len(agent.requests) == 2


async def naive(internet: Internet) -> None:
    """Looks at the address, and then dials the name."""
    looked_at = await internet.resolve(NAME, 443)
    assert first_not_public(looked_at) is None
    dialled = (await internet.resolve(NAME, 443))[0]
    way = Way(client_tls(), internet.ports, internet.dialled)
    request = httpx.Request("GET", httpx.URL(URL).copy_with(host=dialled), extensions={"sni_hostname": NAME})
    async with httpx.AsyncClient(transport=way) as http:
        await http.send(request)


@pytest.mark.parametrize(("call", "reached"), [(naive, 1), (lambda net: post(net.transport()), 0)])
def test_only_a_transport_that_dials_by_name_reaches_what_the_resolver_says_next(
    call: Callable[[Internet], Coroutine[None, None, object]], reached: int
) -> None:
    with vendor() as agent, vendor() as internal:
        internet = at(agent)
        internet.ports["127.0.0.1"] = internal.port
        internet.names[NAME] = [[PUBLIC], ["127.0.0.1"]]
        asyncio.run(call(internet))
    assert len(internal.requests) == reached


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["10.0.0.1", PUBLIC], [PUBLIC, SIX, "fd00::1"], ["100.64.0.1"],
        ["169.254.169.254"], ["::ffff:127.0.0.1"], ["64:ff9b::a00:1"], ["2002:7f00:1::"], ["fe80::1%eth0"],
        ["2001:0:4136:e378:8000:63bf:80ff:fffe"], ["fec0::1"], ["224.0.0.1"], ["::"], ["0.0.0.0"],
        ["nonsense"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_name_one_of_whose_addresses_is_not_public_is_not_called(answers: list[str]) -> None:
    with vendor() as agent:
        internet = at(agent)
        internet.names[NAME] = [answers]
        assert code_of(internet.transport()) == "A2A_EGRESS_ADDRESS_REFUSED"
    assert (internet.dialled, agent.requests) == ([], [])


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "2130706433", "0x7f000001", "017700000001", "0x7f.1", "127.1", "10.0.0.1",
        "169.254.169.254", "192.168.0.1", "100.64.0.1", "0.0.0.0", "0", "134744072", "[::1]", "[::]",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
        "127。0。0。1", "[fe80::1%25lo]", "[fec0::1]", "[fd00:ec2::254]", "[2606:4700::1111%251]",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused_in_any_notation(host: str) -> None:
    internet = Internet({})
    assert code_of(internet.transport(), f"https://{host}/a2a") == "A2A_EGRESS_ADDRESS_REFUSED"
    assert (internet.asked, internet.dialled) == ([], [])


@pytest.mark.parametrize(
    "url",
    [
        "http://agent.vendor.example/", "ftp://agent.vendor.example/", "//agent.vendor.example/", "agent", "",
        "https://", "https:///a", "https://user@agent.vendor.example/", "https://u:p@agent.vendor.example/",
        "https://agent.vendor.example/#part", "https://agent.vendor.example/#", "https://agent.vendor.example:0/",
        "https://agent.vendor.example:99999/", "https://agent.vendor.example./", "https://127.0.0.1./",
        "https://a..b/", "https://.a/", "https://-a.example/", "https://a-.example/", "https://a_b.example/",
        "https://%31%32%37.0.0.1/", "https://agent.vendor.example%2f@evil/", "https://agent%2evendor.example/",
        "https://0177.0.0.1/", "https://⑯⑨.②⑤④.⑯⑨.②⑤④/", "https://１２７.0.0.1/", "https://ⓛocalhost/",
        "https://exa\u00admple.com/", "https://\u200dfoo.example/", "https://xn--a/", "https://xn--zz/",
        "https://agent.vendor.example\\@evil.example/", "https://agent.vendor.example/a b",
        "https://agent.vendor.example/\r\nHost: evil", "https://agent.vendor.example\t/", "https://[::1/",
        "https://" + "a" * 64 + ".example/", "https://" + ".".join(["a" * 60] * 5) + "/",
    ],
)  # fmt: skip
def test_a_url_that_no_public_agent_can_have_is_refused_before_its_name_is_looked_up(url: str) -> None:
    internet = Internet({})
    assert code_of(internet.transport(), url) == "A2A_EGRESS_REFUSED"
    assert internet.asked == []


def test_what_is_said_of_a_url_shows_neither_its_password_nor_its_query() -> None:
    with pytest.raises(A2AEgressError) as refused:
        external_url("http://user:hunter2@a.example/?key=hunter3")
    assert "hunter" not in str(refused.value)


def test_all_addresses_are_tried_the_families_in_turn() -> None:
    with vendor() as agent, closed_port() as closed:
        internet = Internet({PUBLIC: closed, SIX: closed, OTHER: agent.port})
        internet.names[NAME] = [[PUBLIC, OTHER, SIX]]

        async def two_requests() -> None:
            async with internet.transport().lease(URL) as lease, httpx.AsyncClient(transport=lease) as http:
                await http.get(URL)
                await http.get(URL)

        asyncio.run(two_requests())
    assert internet.dialled == [PUBLIC, SIX, OTHER, OTHER]
    assert (agent.connections, len(agent.requests)) == (1, 2)


def test_where_no_address_takes_the_connection_each_is_named() -> None:
    with closed_port() as closed:
        internet = Internet({PUBLIC: closed, SIX: closed}, {NAME: [[PUBLIC, SIX]]})
        with pytest.raises(httpx.ConnectError, match=f"{PUBLIC}: .*; {SIX}: "):
            asyncio.run(post(internet.transport()))


def begun(connection: ssl.SSLSocket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[")
    connection.recv(1)  # until the client has gone


def test_a_connection_ends_with_its_lease() -> None:
    with vendor(JSON_ANSWER, begun, JSON_ANSWER) as agent:
        transport = at(agent).transport()

        async def calls() -> None:
            async with transport.lease(URL) as lease:
                assert lease.policy_revision == transport.policy_revision == POLICY_REVISION
                await httpx.AsyncClient(transport=lease).get(URL)
                left_open = await lease.handle_async_request(httpx.Request("GET", URL))
            with pytest.raises(RuntimeError, match="ended"):
                await lease.handle_async_request(httpx.Request("GET", URL))
            with pytest.raises(httpx.ReadError):
                await left_open.aread()
            await post(transport)

        asyncio.run(calls())
    assert (agent.connections, len(agent.requests)) == (2, 3)


def test_a_request_cannot_name_another_host_or_ask_for_a_packed_answer() -> None:
    async def ask() -> None:
        async with at(agent).transport().lease(URL) as lease, httpx.AsyncClient(transport=lease) as http:
            await http.get(URL, headers={"Host": "other.example", "Accept-Encoding": "gzip"})

    with vendor() as agent:
        asyncio.run(ask())
    head = agent.requests[0].lower().split(b"\r\n")
    assert [line for line in head if line.startswith((b"host:", b"accept-encoding:"))] == [
        f"host: {NAME}".encode(),
        b"accept-encoding: identity",
    ]


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", "https://other.example/"),
        ("GET", f"https://{NAME}:8443/"),
        ("GET", f"http://{NAME}/"),
        ("GET", f"https://user@{NAME}/"),
        ("GET", f"https://{PUBLIC}/"),
        ("CONNECT", URL),
    ],
)
def test_a_lease_carries_nothing_to_another_origin(method: str, url: str) -> None:
    async def ask() -> None:
        async with internet.transport().lease(URL) as lease:
            await lease.handle_async_request(httpx.Request(method, url))

    with vendor() as agent, pytest.raises(A2AEgressError) as refused:
        internet = at(agent)
        asyncio.run(ask())
    assert refused.value.code == "A2A_EGRESS_REFUSED"
    assert (internet.dialled, agent.requests) == ([], [])


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirect_is_refused_and_nobody_goes_there(status: int) -> None:
    with vendor() as elsewhere:
        target = f"https://127.0.0.1:{elsewhere.port}/?key=hunter2"
        with vendor(answer(b"", f"{status} Moved", f"Location: {target}")) as agent:
            internet = at(agent)
            with pytest.raises(RedirectRefused) as refused:
                asyncio.run(post(internet.transport()))
    assert isinstance(refused.value, httpx.RemoteProtocolError)
    assert refused.value.code == "A2A_EGRESS_REDIRECT_REFUSED"
    assert "hunter2" not in str(refused.value)
    assert (internet.dialled, elsewhere.connections) == ([PUBLIC], 0)


def test_no_proxy_and_no_authority_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with vendor() as agent, vendor() as proxy:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
        asyncio.run(post(at(agent).transport()))
        # And without any authority handed in: only the public ones are trusted, and these are there.
        with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
            asyncio.run(post(at(agent).transport(tls=None)))
    assert (len(agent.requests), proxy.connections, proxy.names) == (1, 0, [])


def endless(kind: str, piece: bytes) -> Callable[[ssl.SSLSocket], None]:
    def send(connection: ssl.SSLSocket) -> None:
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode())
        while True:
            connection.sendall(piece)

    return send


STREAM = "text/event-stream; charset=utf-8"
DEEP = b"[" * 9 + b"]" * 9
LONG = json.dumps("a" * 513).encode()

OVER: dict[str, tuple[bytes | Callable[[ssl.SSLSocket], None], str]] = {
    "an endless body": (endless("application/json", b" " * 512), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "an endless string": (endless("application/json", b'"a'), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "an endless nesting": (endless("application/json", b"["), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "endless events": (endless(STREAM, b"data: {}\n\n"), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "an endless event": (endless(STREAM, b"data: {}\n"), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "endless comments": (endless(STREAM, b": alive\n\n"), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "a long body": (answer(b" " * 4097), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "a deep body": (answer(DEEP), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "a deep body of another kind": (answer(DEEP, kind="text/plain"), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "a deep body of no kind": (answer(DEEP, kind=""), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "a deep error": (answer(DEEP, "500 No"), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "a long string": (answer(LONG), "A2A_EGRESS_LIMIT_EXCEEDED"),
    "a deep event": (
        answer(b"data: {}\n\ndata: " + DEEP + b"\n\n", kind=STREAM),
        "A2A_EGRESS_LIMIT_EXCEEDED",
    ),
    "a long string in an event": (
        answer(b"data: " + LONG + b"\r\n\r\n", kind=STREAM),
        "A2A_EGRESS_LIMIT_EXCEEDED",
    ),
    "depth over several lines": (
        answer(b"".join(b"data: [\n" for _ in range(9)) + b"\n", kind=STREAM),
        "A2A_EGRESS_LIMIT_EXCEEDED",
    ),
    "a deep error that says it is a stream": (
        answer(b"data: " + DEEP, "400 No", kind=STREAM),
        "A2A_EGRESS_LIMIT_EXCEEDED",
    ),
    "UTF-16": (answer(DEEP.decode().encode("utf-16")), "A2A_EGRESS_REFUSED"),
    "a packed body": (answer(b"{}", "200 OK", "Content-Encoding: deflate"), "A2A_EGRESS_REFUSED"),
    "a body packed twice": (answer(b"{}", "200 OK", "Content-Encoding: identity, br"), "A2A_EGRESS_REFUSED"),
}


@pytest.mark.parametrize(("said", "code"), OVER.values(), ids=list(OVER))
def test_an_answer_over_a_limit_is_refused(said: bytes | Callable[[ssl.SSLSocket], None], code: str) -> None:
    with vendor(said) as agent:
        assert code_of(at(agent).transport(limits=SMALL)) == code


def test_a_body_that_says_it_is_a_stream_where_none_was_asked_for_is_looked_at_as_a_whole() -> None:
    with vendor(answer(DEEP, kind=STREAM)) as agent:
        transport = at(agent).transport(limits=SMALL)
        assert asyncio.run(post(transport)).content == DEEP  # of which a reader of events takes nothing
        with pytest.raises(A2AEgressError) as refused:
            asyncio.run(post(transport, accept="*/*"))
    assert refused.value.code == "A2A_EGRESS_LIMIT_EXCEEDED"


@pytest.mark.parametrize(
    "said",
    [
        answer(b" " * 4096),
        answer(DEEP[1:-1]),
        answer(json.dumps("a" * 512).encode()),
        answer(b"data: " + DEEP[1:-1] + b"\n\n" + b"data: " + DEEP[1:-1] + b"\n\n", kind=STREAM),
        answer(b"data: " + b"[" * 20, kind=STREAM),
        answer(b"{}", "200 OK", "Content-Encoding: identity"),
        answer(b"<p>no</p>", "502 Bad Gateway", kind="text/html"),
    ],
)
def test_an_answer_within_the_limits_is_taken_as_it_came(said: bytes) -> None:
    with vendor(said) as agent:
        response = asyncio.run(post(at(agent).transport(limits=SMALL)))
    assert response.content == said.partition(b"\r\n\r\n")[2]


def test_the_limits_are_the_documents() -> None:
    assert EgressLimits() == EgressLimits(8 << 20, 64, 1 << 20, 5.0, 30.0, 300.0)


def test_a_slow_drip_ends_with_the_operation() -> None:
    drip = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    with vendor(lambda connection: [connection.sendall(byte) for byte in [drip, *[b" "] * 1000]]) as agent:
        ticks = count(step=50)
        transport = at(agent).transport(clock=lambda: float(next(ticks)))
        assert code_of(transport) == "A2A_EGRESS_TIMEOUT"
    assert next(ticks) <= 400


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n["])
def test_a_silence_ends_with_the_operation(head: bytes) -> None:
    def silent(connection: ssl.SSLSocket) -> None:
        connection.sendall(head)
        connection.recv(1)  # until the client has gone

    with vendor(silent) as agent:
        limits = EgressLimits(operation_seconds=0.3)
        assert code_of(at(agent).transport(limits=limits)) == "A2A_EGRESS_TIMEOUT"
        with pytest.raises(httpx.ReadTimeout):
            asyncio.run(post(at(agent).transport(limits=EgressLimits(read_seconds=0.1))))


@pytest.mark.parametrize(
    ("names", "words"),
    [({}, "Name or service not known"), ({NAME: [[]]}, "no address")],
    ids=["unknown", "empty"],
)
def test_a_name_that_does_not_resolve_is_unreachable(
    names: dict[str, list[Sequence[str]]], words: str
) -> None:
    with pytest.raises(AgentUnreachable, match=words):
        asyncio.run(post(Internet({}, names).transport()))


def test_a_resolver_that_does_not_answer_is_not_waited_for() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return [PUBLIC]

    transport = PinnedTransport(resolver=never, limits=EgressLimits(connect_seconds=0.05))
    with pytest.raises(AgentUnreachable, match="no answer in time"):
        asyncio.run(post(transport))


def test_what_is_used_without_any_options_refuses_this_machine() -> None:
    with vendor(name="localhost") as agent:
        for host in ("localhost", "127.0.0.1"):
            assert code_of(PinnedTransport(), f"https://{host}:{agent.port}/") == "A2A_EGRESS_ADDRESS_REFUSED"
    assert agent.connections == 0
    assert set(asyncio.run(resolve("localhost", 443))) <= {"127.0.0.1", "::1"}


def test_a_request_says_nothing_of_the_machine_but_what_it_was_given() -> None:
    with vendor(JSON_ANSWER) as agent:
        asyncio.run(post(at(agent).transport()))
    names = {line.partition(b":")[0].lower() for line in agent.requests[0].split(b"\r\n")[1:] if line}
    assert names == {
        b"host", b"accept", b"accept-encoding", b"connection", b"user-agent", b"content-length",
        b"content-type", b"{}",
    }  # fmt: skip
