"""The public Space service: its token and keys stay with it, and agents are reached by their source."""

from __future__ import annotations

import asyncio
import fnmatch
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from space_wire import (
    EXTERNAL,
    MESSAGE,
    SPACE,
    Platform,
    Vendors,
    answer_bytes,
    http,
    jwt,
    platform,
    put_tokens,
    request_bytes,
)

from ksadk.a2a.space.client import A2ASpaceClient
from ksadk.a2a.space.errors import A2AControlPlaneError, A2ASpaceError, AgentNotCallable, RemoteTaskError
from ksadk.a2a.space.gateway import HostedGateway
from ksadk.a2a.space.public_actions import PAGE_SIZE, A2APublicActionsClient, PublicService
from ksadk.a2a.space.tokens import WorkloadTokens
from ksadk.settings import Settings

TOKEN = "service-token-0123456789"
KEYS = {"access_key": "AKIDEXAMPLE", "secret_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
ACTION = "ListAToASpaceAgents"
HOSTED = "3f2b8c1d"

Use = Callable[[A2ASpaceClient], Awaitable[Any]]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return put_tokens(tmp_path / "tokens")


def with_client(server: Platform, tokens: Path, use: Use, *, origins: Any = (), **options: Any) -> Any:
    async def run() -> Any:
        service = PublicService(server.url, token=TOKEN, account_id="2000003333")
        backend = A2APublicActionsClient(service, HostedGateway(WorkloadTokens(tokens), origins=origins))
        async with A2ASpaceClient(SPACE, backend, **options) as client:
            try:
                return await use(client)
            finally:
                await backend.aclose()

    return asyncio.run(run())


def listing(items: list[dict[str, Any]], total: int | None = None, **envelope: Any) -> bytes:
    data = {"Agents": items} | ({} if total is None else {"TotalCount": total})
    return http(json.dumps({"Code": 0, "Data": data} | envelope))


def items() -> list[dict[str, Any]]:
    body = answer_bytes("public_list").partition(b"\r\n\r\n")[2]
    found: list[dict[str, Any]] = json.loads(body)["Data"]["Agents"]
    return found


def test_the_bytes_of_a_request_are_those_that_were_written_down(tokens: Path) -> None:
    async def both(client: A2ASpaceClient) -> None:
        await client.discover()
        await client.discover(include_blocked=True)

    with platform(**{ACTION: "public_list"}) as server:
        with_client(server, tokens, both)
    server.check(0, "public_list")
    server.check(1, "public_list_all")


def test_the_public_gateway_gets_a_signature_and_no_token(tokens: Path) -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, content=answer_bytes("public_list").partition(b"\r\n\r\n")[2])

    async def run() -> None:
        service = PublicService("https://aicp.api.ksyun.com", token=TOKEN, account_id="2000003333", **KEYS)
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            gateway = HostedGateway(WorkloadTokens(tokens))
            await A2APublicActionsClient(service, gateway, httpx_client=client).list_agents(SPACE)

    asyncio.run(run())
    (request,) = sent
    head, _, body = request_bytes("public_list_signed").partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    assert f"POST {request.url.raw_path.decode()} HTTP/1.1" == line
    for name, _, value in (each.partition(": ") for each in lines):
        if name != "Content-Length":
            assert fnmatch.fnmatchcase(request.headers[name], value), name
    assert request.content == body
    assert TOKEN not in str(request.headers) and KEYS["secret_key"] not in str(request.headers)


@pytest.mark.parametrize(
    "base",
    [
        "https://aicp.api.ksyun.com.evil.example", "http://127.0.0.1:1", "https://aicp.api.ksyun.com:8443",
        "https://evil.example/aicp.api.ksyun.com", "https://xaicp.api.ksyun.com",
    ],
)  # fmt: skip
def test_only_the_public_gateway_is_signed_for(base: str) -> None:
    service = PublicService(base, **KEYS)
    assert (service.is_signed, service.auth()) == (False, None)
    assert service.url == f"{base}/agentengine/api/v1/{ACTION}"


def test_secrets_are_in_no_repr() -> None:
    shown = repr(PublicService("https://service.example", token=TOKEN, **KEYS))
    assert TOKEN not in shown and not any(key in shown for key in KEYS.values())


def test_agents_are_read_by_their_source_and_status(tokens: Path) -> None:
    resting = items()[1] | {"A2AAgentId": "resting", "InvocationStatus": "stopped"}
    with platform(**{ACTION: listing([*items(), resting])}) as server:
        found = with_client(server, tokens, lambda client: client.discover(include_blocked=True))
    assert [(agent.agent_id, agent.route_kind, agent.callable) for agent in found] == [
        (HOSTED, "hosted_gateway", True), (EXTERNAL, "external_public", True),
        ("resting", "external_public", False),
    ]  # fmt: skip
    assert (found[0].version_id, found[2].blocked_reason) == ("0a1b2c3d", "its status is stopped")


def test_every_page_is_read(tokens: Path) -> None:
    many = [items()[0] | {"A2AAgentId": f"agent-{number}"} for number in range(PAGE_SIZE + 1)]
    pages = [listing(many[:PAGE_SIZE], len(many)), listing(many[PAGE_SIZE:], len(many))]
    with platform(**{ACTION: pages}) as server:
        found = with_client(server, tokens, lambda client: client.discover())
    assert [agent.agent_id for agent in found] == [item["A2AAgentId"] for item in many]
    assert [asked.json["PageNumber"] for asked in server.requests] == [1, 2]


def test_pages_that_repeat_themselves_end(tokens: Path) -> None:
    many = [items()[0] | {"A2AAgentId": f"agent-{number}"} for number in range(PAGE_SIZE)]
    with platform(**{ACTION: listing(many)}) as server:
        found = with_client(server, tokens, lambda client: client.discover())
    assert (len(found), len(server.requests)) == (PAGE_SIZE, 2)


def test_a_skill_is_looked_for_in_the_cards(tokens: Path) -> None:
    with platform(**{ACTION: "public_list"}) as server:
        found = with_client(server, tokens, lambda client: client.discover(skill="translate"))
    assert [agent.agent_id for agent in found] == [EXTERNAL]


@pytest.mark.parametrize("code", [None, 0, 200, "0", "200"])
def test_the_services_words_for_yes_are_known(tokens: Path, code: Any) -> None:
    with platform(**{ACTION: listing(items(), Code=code)}) as server:
        assert len(with_client(server, tokens, lambda client: client.discover())) == 2


def test_a_service_that_repeats_its_token_does_not_get_it_into_an_error(tokens: Path) -> None:
    said = json.dumps({"Code": 403, "Message": f"no: {TOKEN}", "RequestId": TOKEN})
    with (
        platform(**{ACTION: http(said, "403 Forbidden")}) as server,
        pytest.raises(A2AControlPlaneError) as caught,
    ):
        with_client(server, tokens, lambda client: client.discover())
    assert (caught.value.code, caught.value.kind) == (403, "authentication")
    assert TOKEN not in f"{caught.value} {caught.value.to_result()}"


def call_external(client: A2ASpaceClient) -> Awaitable[Any]:
    return client.send_message(EXTERNAL, MESSAGE)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"egress_enabled": True}, "A2A_EGRESS_TRANSPORT_REQUIRED"),
        ({"external_transport": Vendors(1)}, "A2A_PUBLIC_EGRESS_DISABLED"),
    ],
)
def test_an_external_agent_is_called_through_a_transport_only(
    tokens: Path, options: dict[str, Any], code: str
) -> None:
    async def use(client: A2ASpaceClient) -> Any:
        await client.discover()
        return await call_external(client)

    with platform(**{ACTION: "public_list"}) as server:
        with pytest.raises(A2ASpaceError) as caught:
            with_client(server, tokens, use, **options)
        assert caught.value.error_type == code
        assert server.operations() == [ACTION]


def test_the_services_token_reaches_no_vendor(tokens: Path) -> None:
    answers = {
        "POST /a2a/v1/message:send": "hosted_send_rest",
        "GET /a2a/v1/tasks/remote-task-1": task_answer(),
    }

    async def use(client: A2ASpaceClient) -> Any:
        task = await call_external(client)
        return task, await client.get_task(task.task_id)

    with platform(**{ACTION: "public_list"}) as server, platform(**answers) as vendor:
        options = {"egress_enabled": True, "external_transport": Vendors(vendor.port)}
        task, again = with_client(server, tokens, use, **options)
    assert (task.status, again.status, again.task_id) == ("completed", "completed", task.task_id)
    assert len(vendor.requests) == 2
    for asked in vendor.requests:
        seen = f"{asked.line} {asked.headers} {asked.body!r}"
        assert TOKEN not in seen and "authorization" not in asked.headers


@pytest.mark.parametrize("secret", [TOKEN, jwt("a2a-registry")])
def test_a_message_that_quotes_a_secret_reaches_no_vendor(tokens: Path, secret: str) -> None:
    with platform(**{ACTION: "public_list"}) as server, platform() as vendor:
        options = {"egress_enabled": True, "external_transport": Vendors(vendor.port)}
        with pytest.raises(A2ASpaceError) as caught:
            with_client(
                server, tokens, lambda client: client.send_message(EXTERNAL, f"it is {secret}"), **options
            )
        assert caught.value.error_type == "A2A_PLATFORM_TOKEN_REFUSED"
        assert vendor.requests == []


def task_answer() -> bytes:
    return http(json.dumps(json.loads(answer_bytes("hosted_get").partition(b"\r\n\r\n")[2])["result"]))


def test_a_hosted_agent_gets_the_gateways_token_where_it_is_a_gateway(tokens: Path) -> None:
    answers = {ACTION: "public_list", "SendMessage": "hosted_send"}
    with platform(**answers) as server:
        task = with_client(
            server, tokens, lambda client: client.send_message(HOSTED, MESSAGE), origins=[server.url]
        )
    assert task.status == "completed"
    headers = server.requests[-1].headers
    assert headers["authorization"] == f"Bearer {jwt('a2a-gateway')}"
    assert "x-agentengine-a2a-permit" not in headers


def test_a_hosted_agent_at_any_other_address_is_not_called(tokens: Path) -> None:
    with platform(**{ACTION: "public_list"}) as server:
        with pytest.raises(A2ASpaceError) as caught:
            with_client(server, tokens, lambda client: client.send_message(HOSTED, MESSAGE))
        assert caught.value.error_type == "A2A_GATEWAY_ORIGIN_REFUSED"
        assert server.operations() == [ACTION]


def test_a_token_that_has_begun_a_task_begins_no_other(tokens: Path) -> None:
    async def use(client: A2ASpaceClient) -> Any:
        return [
            (await client.send_message(HOSTED, MESSAGE, idempotency_token="token-1")).task_id
            for _ in range(2)
        ]

    answers = {ACTION: "public_list", "SendMessage": "hosted_send", "GetTask": "hosted_get"}
    with platform(**answers) as server:
        first, second = with_client(server, tokens, use, origins=[server.url])
    assert first == second
    assert server.operations() == [ACTION, "SendMessage", "GetTask"]


def test_an_agent_that_is_not_listed_or_not_available_is_not_called(tokens: Path) -> None:
    stopped = [item | {"InvocationStatus": "stopped"} for item in items()]
    with platform(**{ACTION: listing(stopped)}) as server:
        with pytest.raises(AgentNotCallable, match="its status is stopped"):
            with_client(server, tokens, call_external)
        with pytest.raises(A2AControlPlaneError, match="lists no agent other"):
            with_client(server, tokens, lambda client: client.send_message("other", MESSAGE))


def test_a_task_of_another_process_is_not_known(tokens: Path) -> None:
    with platform(**{ACTION: "public_list"}) as server:
        with pytest.raises(RemoteTaskError, match="not begun by this process"):
            with_client(server, tokens, lambda client: client.get_task("a2a-task-1"))
        assert server.requests == []


def test_the_environment_names_the_service_where_no_control_plane_is_set(
    tokens: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> Any:
        async with A2ASpaceClient.from_env() as client:
            return await client.discover()

    with platform(**{ACTION: "public_list"}) as server:
        for name, value in {
            "KSADK_A2A_SPACE_ID": SPACE,
            "KSADK_A2A_SERVICE_URL": server.url,
            "KSADK_A2A_SERVICE_TOKEN": TOKEN,
            "KSADK_A2A_ACCOUNT_ID": "2000003333",
        }.items():
            monkeypatch.setenv(name, value)
        assert len(asyncio.run(run())) == 2
    server.check(0, "public_list")


def test_a_signed_service_needs_its_keys() -> None:
    given = Settings(a2a_service_endpoint="aicp.api.ksyun.com", a2a_access_key="AKIDEXAMPLE")
    with pytest.raises(A2ASpaceError, match="a key is not set") as caught:
        PublicService.from_settings(given)
    assert caught.value.kind == "authentication"


def test_the_region_before_release_is_marked() -> None:
    service = PublicService.from_settings(
        Settings(
            a2a_service_endpoint="aicp.api.ksyun.com", a2a_service_region="pre-online",
            a2a_access_key="a", a2a_secret_key="b",
        )
    )  # fmt: skip
    headers = service.headers()
    assert (service.region, headers["X-KSC-CUSTOM-SOURCE"]) == ("cn-beijing-6", "pre")


@pytest.mark.parametrize("field", ["a2a_service_token", "a2a_account_id", "a2a_service_region"])
def test_what_no_header_can_hold_is_not_sent(field: str) -> None:
    given = Settings(a2a_service_url="https://service.example", **{field: "secret-1\u00e9"})
    with pytest.raises(A2ASpaceError, match="holds what no header can") as caught:
        PublicService.from_settings(given)
    assert "secret-1" not in str(caught.value)
