"""The client of the control plane against literal bytes, before it meets a server of ours."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from space_wire import (
    AGENT,
    AT,
    AUDIENCES,
    BLOCKED,
    EXTERNAL,
    PERMIT,
    SPACE,
    TASK,
    VERSION,
    answer_bytes,
    answer_data,
    http,
    jwt,
    platform,
    put_tokens,
    request_bytes,
)

from ksadk.a2a.space import answers
from ksadk.a2a.space.control_plane import A2AControlPlaneClient
from ksadk.a2a.space.errors import (
    A2AControlPlaneError,
    A2ASpaceError,
    GatewayOriginRefused,
    WorkloadTokenError,
)
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.gateway import HostedGateway
from ksadk.a2a.space.models import AgentListing, Credential, PreparedOperation, RemoteTask
from ksadk.a2a.space.tokens import WorkloadTokens
from ksadk.a2a.wire import Interface
from ksadk.errors import CODES, SettingsError
from ksadk.settings import Settings

UNAVAILABLE = "A2A_CONTROL_PLANE_UNAVAILABLE"
INVALID = "A2A_CONTROL_PLANE_INVALID_RESPONSE"

Use = Callable[[A2AControlPlaneClient], Any]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return put_tokens(tmp_path / "tokens")


def call(**changed: Any) -> Use:
    """PrepareA2ACall, as prepare_call.request.http has it."""
    given = {
        "message_id": "m-1",
        "message_sha256": message_hash("prepare_call"),
        "idempotency_token": "token-1",
    } | changed
    agent_id = given.pop("agent_id", AGENT)
    return lambda client: client.prepare_call(SPACE, agent_id, **given)


def message_hash(name: str) -> str:
    return str(json.loads(request_bytes(name).partition(b"\r\n\r\n")[2])["MessageSha256"])


def events() -> list[TaskEvent]:
    body = json.loads(request_bytes("append_events").partition(b"\r\n\r\n")[2])
    return [TaskEvent.from_payload(item) for item in body["Events"]]


def prepared(**changed: Any) -> PreparedOperation:
    return PreparedOperation.from_payload(answer_data("prepare_call_external") | changed)


def task_operation(operation: Any, **given: str) -> Use:
    return lambda client: client.prepare_task_operation(TASK, operation, **given)


ASKED: dict[str, tuple[Use, str]] = {
    "list_agents": (lambda client: client.list_agents(SPACE), "list_agents"),
    "list_agents_unchanged": (
        lambda client: client.list_agents(SPACE, if_none_match="etag-7"),
        "list_agents_unchanged",
    ),
    "prepare_call": (call(), "prepare_call"),
    "prepare_call_of_version": (call(expected_version_id=VERSION), "prepare_call"),
    "prepare_call_external": (
        call(agent_id=EXTERNAL, idempotency_token="token-2"),
        "prepare_call_external",
    ),
    "prepare_task_get": (task_operation("get_task"), "prepare_task"),
    "prepare_task_subscribe": (task_operation("subscribe_to_task"), "prepare_task"),
    "prepare_task_cancel": (task_operation("cancel_task", idempotency_token="token-3"), "prepare_task"),
    "prepare_task_send": (
        task_operation(
            "send_message",
            message_id="m-2",
            message_sha256=message_hash("prepare_task_send"),
            idempotency_token="token-4",
        ),
        "prepare_task",
    ),
    "bind": (
        lambda client: client.bind_remote_task(TASK, RemoteTask("remote-task-1", "remote-context-1"), AT),
        "bind",
    ),
    "bind_no_context": (
        lambda client: client.bind_remote_task(TASK, RemoteTask("remote-task-1"), AT),
        "bind",
    ),
    "append_events": (lambda client: client.append(TASK, events()), "append_events"),
    "resolve_credential": (lambda client: client.resolve_credential(prepared()), "resolve_credential"),
    "resolve_no_credential": (
        lambda client: client.resolve_credential(prepared(CredentialHandle=None)),
        "resolve_no_credential",
    ),
}


def ask(tokens: Path, use: Use, *answers: str | bytes, **options: Any) -> tuple[Any, Any]:
    """What a client comes to that gets these answers, whatever it asks for; and the platform."""
    actions = (
        "ListA2ASpaceAgents", "PrepareA2ACall", "PrepareA2ATaskOperation", "BindA2ARemoteTask",
        "AppendA2ATaskEvents", "ResolveA2ACredential",
    )  # fmt: skip
    with platform(**{action: list(answers) for action in actions}) as server:

        async def run() -> Any:
            async with server.control_plane(tokens, **options) as client:
                return await use(client)

        return asyncio.run(run()), server


def refused(tokens: Path, use: Use, *answers: str | bytes, **options: Any) -> A2AControlPlaneError:
    with pytest.raises(A2AControlPlaneError) as caught:
        ask(tokens, use, *answers, **options)
    return caught.value


@pytest.mark.parametrize("name", ASKED)
def test_the_bytes_of_a_request_are_those_that_were_written_down(tokens: Path, name: str) -> None:
    use, answer = ASKED[name]
    _, server = ask(tokens, use, answer)
    assert len(server.requests) == 1
    server.check(0, name)


def test_agents_are_read_whole(tokens: Path) -> None:
    listing, _ = ask(tokens, ASKED["list_agents"][0], "list_agents")
    hosted, external = listing.agents
    assert (hosted.agent_id, hosted.version_id, hosted.source) == (AGENT, VERSION, "hosted")
    assert (hosted.callable, hosted.blocked_reason, hosted.route_kind) == (True, "", "hosted_gateway")
    assert (hosted.name, [skill.id for skill in hosted.agent_card.skills]) == ("research-agent", ["research"])
    assert (external.name, external.route_kind) == ("vendor-agent", "external_public")
    assert listing.etag == "etag-7"


def test_a_prepared_call_is_read_whole(tokens: Path) -> None:
    made, _ = ask(tokens, call(agent_id=EXTERNAL), "prepare_call_external")
    assert (made.task_id, made.target.agent_id, made.route.kind) == (TASK, EXTERNAL, "external_public")
    interface = made.route.interface
    assert (interface.url, interface.binding) == ("https://vendor.example.com/a2a/v1", "HTTP+JSON")
    assert (made.call_permit, made.credential_handle, made.remote_task) == (PERMIT, "cred-1", None)
    assert PERMIT not in repr(made) and "cred-1" not in repr(made)
    followed, _ = ask(tokens, task_operation("get_task"), "prepare_task")
    assert followed.remote_task == RemoteTask("remote-task-1", "remote-context-1")


def test_a_credential_is_in_no_repr(tokens: Path) -> None:
    credential, _ = ask(tokens, ASKED["resolve_credential"][0], "resolve_credential")
    assert credential.headers == {"X-Api-Key": "vendor-key-1"}
    assert (credential.query, credential.cookies) == ({"tenant": "t-1"}, {"session": "vendor-cookie-1"})
    assert "vendor-" not in repr(credential)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (AgentListing, "list_agents"),
        (AgentListing, "list_agents_second_page"),
        (AgentListing, "list_agents_unchanged"),
        (PreparedOperation, "prepare_call"),
        (PreparedOperation, "prepare_call_external"),
        (PreparedOperation, "prepare_task"),
        (Credential, "resolve_credential"),
    ],
)
def test_what_is_read_is_written_alike(kind: Any, name: str) -> None:
    assert kind.from_payload(answer_data(name)).to_payload() == answer_data(name)


def test_every_page_is_read_under_one_etag(tokens: Path) -> None:
    def use(client: A2AControlPlaneClient) -> Any:
        return client.list_agents(
            SPACE, prompt="总结本周研究", skill_id="research", include_blocked=True, page_size=2
        )

    listing, server = ask(tokens, use, "list_agents_filtered", "list_agents_second_page")
    server.check(0, "list_agents_filtered")
    server.check(1, "list_agents_second_page")
    assert [agent.agent_id for agent in listing.agents] == [AGENT, EXTERNAL, BLOCKED]
    assert listing.agents[2].blocked_reason == "the owner has not approved it"


def test_a_listing_that_changes_while_it_is_read_is_read_anew(tokens: Path) -> None:
    changed = answer_bytes("list_agents_second_page").replace(b"etag-8", b"etag-9")
    whole = ("list_agents_filtered", "list_agents_second_page")
    listing, server = ask(tokens, ASKED["list_agents"][0], "list_agents_filtered", changed, *whole)
    assert (len(listing.agents), listing.etag, len(server.requests)) == (3, "etag-8", 4)
    error = refused(tokens, ASKED["list_agents"][0], *(["list_agents_filtered", changed] * 4))
    assert (error.error_code, error.retryable) == (UNAVAILABLE, True)


def test_pages_that_do_not_end_are_an_error(tokens: Path) -> None:
    again = answer_bytes("list_agents_filtered")
    assert refused(tokens, ASKED["list_agents"][0], again, again).error_code == INVALID


def test_a_later_page_cannot_be_unchanged(tokens: Path) -> None:
    unchanged = answer_bytes("list_agents_second_page").partition(b"\r\n\r\n")[2]
    data = json.loads(unchanged)
    data["Data"] |= {"Agents": None, "NotModified": True}
    error = refused(tokens, ASKED["list_agents"][0], "list_agents_filtered", http(json.dumps(data)))
    assert error.error_code == INVALID


def test_what_has_not_changed_is_said_so(tokens: Path) -> None:
    listing, _ = ask(tokens, ASKED["list_agents_unchanged"][0], "list_agents_unchanged")
    assert (listing.not_modified, listing.agents) == (True, ())
    assert refused(tokens, ASKED["list_agents"][0], "list_agents_unchanged").error_code == INVALID


ERRORS: dict[str, tuple[int, str, bool]] = {
    "error_version_changed": (409, "A2A_TARGET_VERSION_CHANGED", True),
    "error_code_in_200": (404, "A2A_AGENT_NOT_FOUND", False),
    "error_forbidden_no_data": (403, "A2A_CONTROL_PLANE_ERROR", False),
    "error_500_no_data": (500, "A2A_CONTROL_PLANE_ERROR", True),
    "error_503_html": (503, UNAVAILABLE, True),
    "error_404_html": (502, INVALID, False),
    "error_200_html": (502, INVALID, False),
    "error_list": (502, INVALID, False),
    "error_code_text": (502, INVALID, False),
    "error_code_true": (502, INVALID, False),
    "error_no_code": (502, INVALID, False),
    "error_data_list": (502, INVALID, False),
    "error_field_type": (502, INVALID, False),
    "error_agent_no_id": (502, INVALID, False),
    "error_redirect": (502, INVALID, False),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_mapped(tokens: Path, name: str) -> None:
    error = refused(tokens, ASKED["list_agents"][0], name)
    assert (error.code, error.error_code, error.retryable) == ERRORS[name]
    assert error.action == "ListA2ASpaceAgents"
    assert error.to_result()["ok"] is False


def test_false_is_no_code_of_success(tokens: Path) -> None:
    body = answer_bytes("list_agents").partition(b"\r\n\r\n")[2]
    assert body.startswith(b'{"Code":0,')
    error = refused(tokens, ASKED["list_agents"][0], http(body.replace(b'"Code":0,', b'"Code":false,')))
    assert error.error_code == INVALID


def test_a_redirect_is_no_answer_whatever_it_holds(tokens: Path) -> None:
    body = answer_bytes("list_agents").partition(b"\r\n\r\n")[2]
    error = refused(tokens, ASKED["list_agents"][0], http(body, "302 Found"))
    assert (error.error_code, "redirect" in error.message) == (INVALID, True)


@pytest.mark.parametrize("name", ["approval_required", "denied_by_rule", "A2ACLI_ERR_USAGE"])
def test_a_control_plane_does_not_speak_for_what_is_decided_here(name: str) -> None:
    error = A2AControlPlaneError(400, "no", name)
    assert (error.error_type, error.error_code) == ("A2A_CONTROL_PLANE_ERROR", name)


@pytest.mark.parametrize(
    "name",
    ["A2A_AGENT_NOT_FOUND", "A2A_SPACE_NOT_FOUND", "A2A_TASK_NOT_FOUND", "A2A_IDEMPOTENCY_CONFLICT"],
)
def test_what_a_control_plane_does_not_find_or_do_twice_keeps_its_name(name: str) -> None:
    error = A2AControlPlaneError(404, "no", name)
    assert (error.error_type, error.kind, error.to_result()["error_type"]) == (name, "failed", name)


def test_an_error_carries_what_the_control_plane_said(tokens: Path) -> None:
    error = refused(tokens, call(expected_version_id=VERSION), "error_version_changed")
    assert (error.message, error.field) == ("the agent has another version now", "ExpectedVersionId")
    assert list(error.details) == ["CurrentVersionId"]
    assert error.request_id == "req-9"
    assert str(error) == (
        "PrepareA2ACall: the agent has another version now [A2A_TARGET_VERSION_CHANGED] (request req-9)"
    )
    assert (error.error_type, error.kind) == ("A2A_TARGET_VERSION_CHANGED", "failed")


def test_details_take_no_other_fields_place_in_a_result() -> None:
    error = A2AControlPlaneError(400, "no", details={"ok": True, "error_type": "none", "hint": "x"})
    result = error.to_result()
    assert (result["ok"], result["error_type"]) == (False, "A2A_CONTROL_PLANE_ERROR")
    assert result["details"] == {"ok": True, "error_type": "none", "hint": "x"}
    assert "hint" not in result


def test_refused_credentials_are_told_from_other_refusals(tokens: Path) -> None:
    error = refused(tokens, ASKED["list_agents"][0], "error_forbidden_no_data")
    assert (error.error_type, error.kind) == ("A2A_CONTROL_PLANE_DENIED", "authentication")


@pytest.mark.parametrize("status", ["500 Oops", "503 Away"])
def test_what_may_pass_is_asked_again_with_the_same_bytes(tokens: Path, status: str) -> None:
    made, server = ask(tokens, call(), http("away", status), http("away", status), "prepare_call")
    assert made.task_id == TASK
    assert len({asked.body for asked in server.requests}) == 1
    assert len(server.requests) == 3


def test_it_is_asked_three_times_at_most(tokens: Path) -> None:
    error = refused(tokens, call(), *(["error_503_html"] * 3), "prepare_call")
    assert error.error_code == UNAVAILABLE


def test_a_task_is_bound_even_where_that_takes_many_tries(tokens: Path) -> None:
    _, server = ask(tokens, ASKED["bind"][0], *(["error_503_html"] * 6), "bind")
    assert len(server.requests) == 7


def test_what_would_be_refused_again_is_not_asked_again(tokens: Path) -> None:
    assert refused(tokens, call(), "error_version_changed", "prepare_call").code == 409


def test_events_are_sent_once_since_the_outbox_repeats_them(tokens: Path) -> None:
    error = refused(tokens, ASKED["append_events"][0], "error_503_html", "append_events")
    assert error.retryable


def test_no_server_is_unavailable(tokens: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def run() -> None:
        url = f"http://127.0.0.1:{port}"
        async with A2AControlPlaneClient(
            url, WorkloadTokens(tokens), sleep=lambda _: asyncio.sleep(0)
        ) as client:
            await client.list_agents(SPACE)

    with pytest.raises(A2AControlPlaneError, match="cannot be reached") as caught:
        asyncio.run(run())
    assert (caught.value.code, caught.value.error_code, caught.value.retryable) == (503, UNAVAILABLE, True)
    assert caught.value.kind == "unreachable"


def test_a_server_that_says_nothing_is_unavailable(tokens: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"

        async def run() -> None:
            async with A2AControlPlaneClient(url, WorkloadTokens(tokens), timeout=0.05) as client:
                await client.append(TASK, events())

        with pytest.raises(A2AControlPlaneError, match="did not answer within") as caught:
            asyncio.run(run())
    assert caught.value.error_code == UNAVAILABLE


def test_the_token_is_read_for_each_request(tokens: Path) -> None:
    newer = jwt("a2a-registry", 4102444801)

    async def use(client: A2AControlPlaneClient) -> None:
        await client.list_agents(SPACE)
        (tokens / "a2a-registry.jwt").write_text(newer)
        await client.list_agents(SPACE)

    _, server = ask(tokens, use, "list_agents")
    sent = [asked.headers["authorization"] for asked in server.requests]
    assert sent == [f"Bearer {jwt('a2a-registry')}", f"Bearer {newer}"]


def test_nothing_is_sent_without_a_token(tokens: Path) -> None:
    (tokens / "a2a-registry.jwt").unlink()
    with platform(ListA2ASpaceAgents="list_agents") as server:

        async def run() -> None:
            async with server.control_plane(tokens) as client:
                await client.list_agents(SPACE)

        with pytest.raises(WorkloadTokenError):
            asyncio.run(run())
        assert server.requests == []


def test_a_server_that_repeats_secrets_does_not_get_them_into_an_error(tokens: Path) -> None:
    secrets = (jwt("credential-broker"), PERMIT, "cred-1")
    said = json.dumps(
        {
            "Code": 400,
            "Message": f"no: {' '.join(secrets)}\nsecond line\x1b[31m",
            "RequestId": secrets[0],
            "Data": {"ErrorCode": "X", "Retryable": False, "Field": PERMIT, "Details": {"seen": secrets}},
        }
    )
    error = refused(tokens, ASKED["resolve_credential"][0], http(said, "400 Bad Request"))
    shown = f"{error} {error!r} {error.to_result()}"
    assert not any(secret in shown for secret in secrets)
    assert "\n" not in error.message and "\x1b" not in error.message


@pytest.mark.parametrize(
    ("use", "answer", "old", "new"),
    [
        (ASKED["list_agents"][0], "list_agents", b'"A2ASpaceId":"space-demo"', b'"A2ASpaceId":"space-else"'),
        (call(agent_id=EXTERNAL), "prepare_call", b"", b""),
        (call(expected_version_id="another"), "prepare_call", b"", b""),
        (task_operation("get_task"), "prepare_task", b"a2a-task-5", b"a2a-task-6"),
    ],
)
def test_an_answer_about_something_else_is_not_taken(
    tokens: Path, use: Use, answer: str, old: bytes, new: bytes
) -> None:
    assert refused(tokens, use, answer_bytes(answer).replace(old, new)).error_code == INVALID


@pytest.mark.parametrize(
    ("answer", "old", "new"),
    [
        ("list_agents", b'"Source":"hosted"', b'"Source":"HOSTED"'),
        ("list_agents", b'"Source":"external"', b'"Source":"hosted" '[:19]),
        ("list_agents", b'"Callable":true', b'"Callable":"no"'),
        ("list_agents", b'"capabilities"', b'"capabilitiez"'),
        ("list_agents", b'"ETag":"etag-7"', b'"ETag":77777777'),
        ("prepare_call", b'"1.0"', b'"0.3"'),
        ("prepare_call", b'"JSONRPC"', b'"jsonrpc"'),
        ("prepare_call", b"http://", b"file://"),
        ("prepare_call", b'"permit-3c1f.e2b8"', b'"permit\\r\\nX: 1.e"'),
        ("prepare_call", b'"permit-3c1f.e2b8"', b'"                "'),
        ("prepare_task", b'"RemoteTaskId":"remote', b'"RemoteTaskId":"remot\x01'),
    ],
)
def test_an_answer_with_a_field_that_is_none_is_not_taken(
    tokens: Path, answer: str, old: bytes, new: bytes
) -> None:
    body = answer_bytes(answer)
    assert old in body
    use = {"list_agents": ASKED["list_agents"][0], "prepare_call": call()}.get(
        answer, task_operation("get_task")
    )
    spoiled = body.partition(b"\r\n\r\n")[2].replace(old, new)
    assert refused(tokens, use, http(spoiled)).error_code == INVALID


@pytest.mark.parametrize("space_id", ["", " ", "a" * 257, "a\nb", "\udc80"])
def test_an_id_that_is_none_is_not_asked_about(tokens: Path, space_id: str) -> None:
    with pytest.raises(A2ASpaceError) as caught:
        ask(tokens, lambda client: client.list_agents(space_id), "list_agents")
    assert caught.value.error_type == "A2A_INVALID_ID"
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "url",
    [
        "", "control.example.com", "ftp://control.example.com", "https://user:secret-1@control.example.com",
        "http://control.example.com", "http://8.8.8.8", "https://control.example.com?key=secret-1",
        "https://control.example.com/#x", "https://", "https://control example", "https://☃.example",
    ],
)  # fmt: skip
def test_a_control_plane_is_asked_over_https_or_in_a_private_network(tokens: Path, url: str) -> None:
    with pytest.raises(A2ASpaceError, match="KSADK_A2A_CONTROL_PLANE_URL cannot be used") as caught:
        A2AControlPlaneClient(url, WorkloadTokens(tokens))
    assert caught.value.error_type == "A2A_CONTROL_PLANE_ADDRESS"
    assert "secret-1" not in str(caught.value)


def hosted(url: str) -> PreparedOperation:
    route = {"Kind": "hosted_gateway", "Interface": {"Url": url, "ProtocolBinding": "JSONRPC"}}
    route["Interface"]["ProtocolVersion"] = "1.0"  # type: ignore[index]
    return prepared(Route=route)


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("https://control.example.com/agents/1", True),
        ("https://CONTROL.example.com:443/agents/1", True),
        ("https://gateway.example.com:8443/x", True),
        ("http://127.0.0.1:9000/x", True),
        ("http://control.example.com/agents/1", False),
        ("https://control.example.com:444/agents/1", False),
        ("https://control.example.com.evil.example/agents/1", False),
        ("https://evil.example/?https://control.example.com", False),
        ("https://gateway.example.com/x", False),
        ("http://127.0.0.1:9001/x", False),
        ("https://☃.example/x", False),
    ],
)
def test_the_gateway_token_goes_to_gateways_only(tokens: Path, url: str, taken: bool) -> None:
    known = WorkloadTokens(tokens)
    gateway = HostedGateway(
        known,
        control_plane_url="https://control.example.com/base",
        origins=["https://gateway.example.com:8443", "http://127.0.0.1:9000/"],
    )
    if taken:
        extras = gateway.extras(hosted(url))
        assert extras.headers == {
            "Authorization": f"Bearer {jwt('a2a-gateway')}",
            "X-AgentEngine-A2A-Permit": PERMIT,
        }
        assert set(extras.secrets) == {jwt("a2a-gateway"), PERMIT}
        return
    call = prepared(Route=answer_data("prepare_call")["Route"])
    elsewhere = replace(call, route=replace(call.route, interface=Interface(url, "JSONRPC")))
    with pytest.raises(GatewayOriginRefused) as caught:
        gateway.extras(elsewhere)
    assert caught.value.error_type == "A2A_GATEWAY_ORIGIN_REFUSED"


def test_a_control_plane_in_the_clear_is_no_gateway(tokens: Path) -> None:
    gateway = HostedGateway(WorkloadTokens(tokens), control_plane_url="http://control.internal")
    with pytest.raises(GatewayOriginRefused):
        gateway.extras(hosted("http://control.internal/agents/1"))


@pytest.mark.parametrize(
    "origin",
    [
        "gateway.example.com",
        "http://gateway.example.com",
        "https://g.example.com/path",
        "https://u@g.example",
    ],
)
def test_a_gateway_is_an_origin_over_https(tokens: Path, origin: str) -> None:
    with pytest.raises(SettingsError, match="KSADK_A2A_GATEWAY_ORIGINS"):
        HostedGateway(WorkloadTokens(tokens), origins=[origin])


def test_the_public_services_secrets_are_kept_from_external_agents_too(tokens: Path) -> None:
    given = {"KSADK_A2A_SERVICE_TOKEN": "service-token-1", "KSADK_A2A_SECRET_KEY": "secret-key-1"}
    place = {"KSADK_A2A_CONTROL_PLANE_URL": "https://a.example", "KSADK_A2A_TOKEN_DIR": str(tokens)}
    client = A2AControlPlaneClient.from_settings(Settings(given | place))
    assert client.secrets() == {*given.values(), *map(jwt, AUDIENCES)}


def test_proxies_of_the_environment_see_no_token(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with platform() as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        ask(tokens, ASKED["list_agents"][0], "list_agents")
        assert proxy.requests == []


def test_a_compressed_answer_is_not_unpacked(tokens: Path) -> None:
    small = gzip.compress(gzip.compress(bytes(64 << 20)))
    twice = (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: %d\r\n\r\n" % len(small) + small
    )
    error = refused(tokens, ASKED["list_agents"][0], twice)
    assert error.error_code == INVALID
    assert "compressed" in error.message


def test_an_answer_that_does_not_end_is_not_kept(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ksadk.a2a.space.asking.MAX_ANSWER", 1000)
    assert refused(tokens, ASKED["list_agents"][0], "list_agents").error_code == INVALID


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def spoiled(draw: st.DrawFn, name: str) -> bytes:
    """The envelope of a file in which one value, anywhere, is another."""
    envelope = json.loads(answer_bytes(name).partition(b"\r\n\r\n")[2])
    at: Any = envelope
    while True:
        keys = list(at) if isinstance(at, dict) else range(len(at))
        key = draw(st.sampled_from(list(keys)))
        if isinstance(at[key], dict | list) and at[key] and draw(st.booleans()):
            at = at[key]
            continue
        at[key] = draw(JSON)
        return json.dumps(envelope).encode()


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("list_agents", AgentListing.from_payload),
        ("prepare_task", PreparedOperation.from_payload),
        ("resolve_credential", Credential.from_payload),
        ("error_version_changed", AgentListing.from_payload),
    ],
)
@given(data=st.data(), status=st.sampled_from([200, 200, 307, 400, 409, 500, 503]))
def test_whatever_an_answer_holds_it_is_read_or_is_an_error(
    name: str, read: Callable[[Any], Any], data: st.DataObject, status: int
) -> None:
    body = data.draw(
        spoiled(name) | st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode())
    )
    try:
        answers.understood("Action", answers.opened("Action", status, body), read)
    except A2AControlPlaneError as error:
        assert isinstance(error.code, int)
        assert error.error_code.isprintable()
        assert error.error_type in CODES
        assert error.to_result()["ok"] is False
        json.dumps(error.to_result())
