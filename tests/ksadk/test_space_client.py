"""The client of a Space against literal bytes: the platform, its gateway, and agents outside of it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from space_wire import (
    AGENT,
    AT,
    BLOCKED,
    EXTERNAL,
    MESSAGE,
    PERMIT,
    SPACE,
    TASK,
    VERSION,
    Platform,
    Vendors,
    answer_bytes,
    http,
    jwt,
    platform,
    put_tokens,
)

from ksadk.a2a import A2AControlPlaneError, A2ASpaceClient, A2ASpaceError, SpaceTask
from ksadk.a2a.client_errors import A2AProtocolError, A2ARunError, AgentError, InvalidAnswer
from ksadk.a2a.space.dispatcher import A2AEventDispatcher
from ksadk.a2a.space.errors import AgentNotCallable, RemoteTaskError, SpaceNotConfigured
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox
from ksadk.settings import Settings

Use = Callable[[A2ASpaceClient], Awaitable[Any]]

WORKS = {
    "BindA2ARemoteTask": "bind",
    "AppendA2ATaskEvents": "append_events",
    "PrepareA2ACall": "prepare_call",
    "PrepareA2ATaskOperation": "prepare_task",
    "ListA2ASpaceAgents": "list_agents",
}


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return put_tokens(tmp_path / "tokens")


class Told:
    """An event sink that keeps what it was told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, TaskEvent]] = []

    async def append(self, platform_task_id: str, events: Any) -> None:
        self.events += [(platform_task_id, event) for event in events]

    def kinds(self) -> list[tuple[str, str | None]]:
        return [(event.kind, event.status) for _, event in self.events]


def with_client(server: Platform, tokens: Path, use: Use, **options: Any) -> Any:
    async def run() -> Any:
        async with (
            server.control_plane(tokens) as backend,
            A2ASpaceClient(SPACE, backend, clock=lambda: AT, **options) as client,
        ):
            return await use(client)

    return asyncio.run(run())


def done(tokens: Path, use: Use, /, **answers: Any) -> tuple[Any, Platform]:
    with platform(**(WORKS | answers)) as server:
        return with_client(server, tokens, use), server


def failing(kind: type[BaseException], tokens: Path, use: Use, /, **answers: Any) -> tuple[Any, Platform]:
    """The error, and what had been asked by then."""
    with platform(**(WORKS | answers)) as server:
        with pytest.raises(kind) as caught:
            with_client(server, tokens, use)
        return caught.value, server


def send(**given: Any) -> Use:
    return lambda client: client.send_message(AGENT, MESSAGE, **({"idempotency_token": "token-1"} | given))


def listed(name: str, old: bytes = b"", new: bytes = b"") -> bytes:
    """An answer with a changed body."""
    return http(answer_bytes(name).partition(b"\r\n\r\n")[2].replace(old, new))


# Discovery


def test_the_agents_that_can_be_called_are_discovered(tokens: Path) -> None:
    found, server = done(tokens, lambda client: client.discover())
    assert [agent.agent_id for agent in found] == [AGENT, EXTERNAL]
    server.check(0, "list_agents")


def test_a_listing_is_asked_for_only_if_it_changed(tokens: Path) -> None:
    async def twice(client: A2ASpaceClient) -> Any:
        return await client.discover(), await client.discover()

    (first, second), server = done(tokens, twice, ListA2ASpaceAgents=["list_agents", "list_agents_unchanged"])
    assert first == second
    assert len(first) == 2
    server.check(1, "list_agents_unchanged")


def test_blocked_agents_are_shown_only_where_they_are_asked_for(tokens: Path) -> None:
    async def both(client: A2ASpaceClient) -> Any:
        return await client.discover(), await client.discover(include_blocked=True)

    (shown, whole), _ = done(tokens, both, ListA2ASpaceAgents="list_agents_second_page")
    assert shown == []
    assert [(agent.agent_id, agent.callable) for agent in whole] == [(BLOCKED, False)]


# Hosted agents


def test_a_message_is_permitted_sent_bound_and_recorded_in_that_order(tokens: Path) -> None:
    task, server = done(tokens, send(), SendMessage="hosted_send")
    assert (task.task_id, task.agent_id, task.status, task.ended) == (TASK, AGENT, "completed", True)
    assert task.text == "三条结论 ✅"
    assert task.to_summary() == {"task_id": TASK, "status": "completed"}
    assert server.operations() == [
        "PrepareA2ACall",
        "SendMessage",
        "BindA2ARemoteTask",
        "AppendA2ATaskEvents",
    ]
    server.check(0, "prepare_call")
    server.check(1, "hosted_send")
    server.check(2, "bind")
    events = server.requests[3].json["Events"]
    assert [(event["EventKind"], event.get("Status")) for event in events] == [
        ("status", "completed"), ("artifact", None)
    ]  # fmt: skip


def test_http_json_is_spoken_where_the_route_says_so(tokens: Path) -> None:
    rest = {"POST /a2a/v1/message:send": "hosted_send_rest", "PrepareA2ACall": "prepare_call_rest"}
    task, server = done(tokens, send(return_immediately=True), **rest)
    assert task.status == "completed"
    server.check(1, "hosted_send_rest")


def test_what_was_discovered_is_what_must_be_called(tokens: Path) -> None:
    async def use(client: A2ASpaceClient) -> Any:
        await client.discover()
        return await client.send_message(AGENT, MESSAGE, idempotency_token="token-1")

    _, server = done(tokens, use, SendMessage="hosted_send")
    server.check(1, "prepare_call_of_version")


def test_an_agent_with_another_version_is_looked_at_again_and_then_called(tokens: Path) -> None:
    async def use(client: A2ASpaceClient) -> Any:
        await client.discover()
        return await client.send_message(AGENT, MESSAGE, idempotency_token="token-1")

    newer = listed("list_agents", VERSION.encode(), b"version-2")
    prepared = listed("prepare_call", VERSION.encode(), b"version-2")
    task, server = done(
        tokens, use, SendMessage="hosted_send", ListA2ASpaceAgents=["list_agents", newer],
        PrepareA2ACall=["error_version_changed", prepared],
    )  # fmt: skip
    assert task.task_id == TASK
    first, second = (asked.json for asked in server.requests if asked.operation == "PrepareA2ACall")
    assert (first["ExpectedVersionId"], second["ExpectedVersionId"]) == (VERSION, "version-2")
    assert first["IdempotencyToken"] == second["IdempotencyToken"]


def test_an_agent_that_changes_and_is_blocked_by_then_is_not_called(tokens: Path) -> None:
    async def use(client: A2ASpaceClient) -> Any:
        await client.discover()
        return await client.send_message(AGENT, MESSAGE)

    blocked = listed(
        "list_agents", b'"Callable":true,"BlockedReason":""', b'"Callable":false,"BlockedReason":"x"'
    )
    error, server = failing(
        AgentNotCallable, tokens, use,
        ListA2ASpaceAgents=["list_agents", blocked], PrepareA2ACall="error_version_changed",
    )  # fmt: skip
    assert error.blocked_reason == "x"
    assert server.operations().count("PrepareA2ACall") == 1


def test_an_agent_that_is_blocked_is_refused_without_asking_anybody(tokens: Path) -> None:
    async def use(client: A2ASpaceClient) -> Any:
        await client.discover(include_blocked=True)
        return await client.send_message(BLOCKED, MESSAGE)

    error, server = failing(AgentNotCallable, tokens, use, ListA2ASpaceAgents="list_agents_second_page")
    assert error.error_type == "A2A_AGENT_NOT_CALLABLE"
    assert error.blocked_reason == "the owner has not approved it"
    assert "the owner has not approved it" in error.message
    assert server.operations() == ["ListA2ASpaceAgents"]


def test_a_task_is_printed_with_its_platform_id_its_status_and_its_text(tokens: Path) -> None:
    task, _ = done(tokens, send(), SendMessage="hosted_send_message")
    assert repr(task) == f"SpaceTask(task_id={TASK!r}, status='completed', text='hello')"


def test_an_agent_that_answers_with_a_message_has_no_remote_task(tokens: Path) -> None:
    task, server = done(tokens, send(), SendMessage="hosted_send_message")
    assert (task.status, task.text, task.remote) == ("completed", "hello", None)
    assert server.operations() == ["PrepareA2ACall", "SendMessage", "AppendA2ATaskEvents"]
    assert [event["EventKind"] for event in server.requests[2].json["Events"]] == ["message", "status"]


def test_a_token_that_has_begun_a_task_begins_no_other(tokens: Path) -> None:
    begun = http(answer_bytes("prepare_task").partition(b"\r\n\r\n")[2])
    task, server = done(tokens, send(), PrepareA2ACall=begun, GetTask="hosted_get")
    assert task.task_id == TASK
    assert "SendMessage" not in server.operations()


def test_a_text_has_an_id_of_its_token(tokens: Path) -> None:
    async def use(client: A2ASpaceClient) -> None:
        for _ in range(2):
            await client.send_message(AGENT, "hi", idempotency_token="token-1")

    _, server = done(tokens, use, SendMessage="hosted_send")
    first, second = (asked.body for asked in server.requests if asked.operation == "PrepareA2ACall")
    assert first == second


def test_a_task_is_continued_in_its_context(tokens: Path) -> None:
    def use(client: A2ASpaceClient) -> Any:
        message = {"messageId": "m-2", "role": "ROLE_USER", "parts": [{"text": "Paris"}]}
        return client.continue_task(TASK, message, idempotency_token="token-4")

    task, server = done(tokens, use, SendMessage="hosted_send")
    assert task.status == "completed"
    assert server.operations() == ["PrepareA2ATaskOperation", "SendMessage", "AppendA2ATaskEvents"]
    server.check(0, "prepare_task_send")
    server.check(1, "hosted_continue")


def test_a_task_is_looked_at_and_canceled(tokens: Path) -> None:
    task, server = done(tokens, lambda client: client.get_task(TASK), GetTask="hosted_get")
    assert (task.status, task.text) == ("completed", "三条结论 ✅")
    server.check(0, "prepare_task_get")
    server.check(1, "hosted_get")
    task, server = done(
        tokens, lambda client: client.cancel(TASK, idempotency_token="token-3"), CancelTask="hosted_cancel"
    )
    assert task.status == "canceled"
    server.check(0, "prepare_task_cancel")
    server.check(1, "hosted_cancel")


NOT_KNOWN: dict[str, tuple[Use, str, str]] = {
    "looked at": (lambda client: client.get_task(TASK), "prepare_task_unbound", "A2A_REMOTE_TASK_NOT_BOUND"),
    "canceled": (lambda client: client.cancel(TASK), "prepare_task_unbound", "A2A_REMOTE_TASK_NOT_BOUND"),
    "continued": (
        lambda client: client.continue_task(TASK, "hi"),
        "prepare_task_unbound",
        "A2A_REMOTE_TASK_NOT_BOUND",
    ),
    "followed": (
        lambda client: anext(client.subscribe(TASK)),
        "prepare_task_unbound",
        "A2A_REMOTE_TASK_NOT_BOUND",
    ),
    "continued without its context": (
        lambda client: client.continue_task(TASK, "hi"),
        "prepare_task_no_context",
        "A2A_CONTEXT_MAPPING_NOT_FOUND",
    ),
}


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_a_task_whose_remote_ids_are_not_known_is_not(tokens: Path, name: str) -> None:
    use, answer, code = NOT_KNOWN[name]
    error, server = failing(RemoteTaskError, tokens, use, PrepareA2ATaskOperation=answer)
    assert error.error_type == code
    assert server.operations() == ["PrepareA2ATaskOperation"]


# Streams


async def all_of(source: Any) -> list[Any]:
    return [item async for item in source]


def test_a_task_is_followed_until_it_ends(tokens: Path) -> None:
    updates, server = done(
        tokens, lambda client: all_of(client.subscribe(TASK)), SubscribeToTask="hosted_subscribe"
    )
    assert [update.kind for update in updates] == ["task", "artifact_update", "status_update"]
    assert updates[-1].state == "completed"
    server.check(0, "prepare_task_subscribe")
    server.check(1, "hosted_subscribe")


def test_the_events_of_a_stream_are_told_as_they_come(tokens: Path) -> None:
    events, server = done(
        tokens, lambda client: all_of(client.subscribe_events(TASK)), SubscribeToTask="hosted_subscribe"
    )
    assert [event.status for event in events] == ["working", None, "completed"]
    told = [item for asked in server.requests[2:] for item in asked.json["Events"]]
    assert told == [event.to_payload() for event in events]


def test_a_stream_that_is_cut_is_taken_up_again(tokens: Path) -> None:
    whole = answer_bytes("hosted_subscribe")
    cut = whole.replace(b"Content-Length", b"X-Length")[: whole.index(b": keep-alive")]
    running = listed("hosted_get", b"COMPLETED", b"WORKING")
    updates, server = done(
        tokens, lambda client: all_of(client.subscribe(TASK)),
        SubscribeToTask=[cut, "hosted_subscribe"], GetTask=running,
    )  # fmt: skip
    assert [update.kind for update in updates] == [
        "task", "artifact_update", "task", "task", "artifact_update", "status_update"
    ]  # fmt: skip
    assert server.operations().count("SubscribeToTask") == 2


def test_a_stream_that_is_always_cut_is_an_error(tokens: Path) -> None:
    cut = answer_bytes("hosted_subscribe").partition(b"\r\n\r\n")[0].replace(b"Content-Length", b"X-Length")
    running = listed("hosted_get", b"COMPLETED", b"WORKING")
    error, _ = failing(
        A2ARunError, tokens, lambda client: all_of(client.subscribe(TASK)),
        SubscribeToTask=cut + b"\r\n\r\n", GetTask=running,
    )  # fmt: skip
    assert (error.code, error.task_id) == ("a2a_stream_cut", TASK)


def test_a_stream_that_brings_news_each_time_may_be_cut_any_number_of_times(tokens: Path) -> None:
    whole = answer_bytes("hosted_subscribe")
    cut = whole.replace(b"Content-Length", b"X-Length")[: whole.index(b": keep-alive")]
    running = listed("hosted_get", b"COMPLETED", b"WORKING")
    updates, server = done(
        tokens, lambda client: all_of(client.subscribe(TASK)),
        SubscribeToTask=[*[cut] * 10, "hosted_subscribe"], GetTask=running,
    )  # fmt: skip
    assert updates[-1].state == "completed"
    assert server.operations().count("SubscribeToTask") == 11


ENDED = http('{"jsonrpc":"2.0","id":"1","error":{"code":-32004,"message":"the task has ended"}}')


def test_a_task_that_has_ended_is_given_as_it_is(tokens: Path) -> None:
    updates, _ = done(
        tokens, lambda client: all_of(client.subscribe(TASK)), SubscribeToTask=ENDED, GetTask="hosted_get"
    )
    assert [update.state for update in updates] == ["completed"]


def test_an_agent_that_does_not_stream_says_so(tokens: Path) -> None:
    running = listed("hosted_get", b"COMPLETED", b"WORKING")
    error, server = failing(
        A2AProtocolError, tokens, lambda client: all_of(client.subscribe(TASK)),
        SubscribeToTask=ENDED, GetTask=running,
    )  # fmt: skip
    assert error.code == "UnsupportedOperationError"
    assert server.operations().count("SubscribeToTask") == 1


def test_ids_that_change_in_the_middle_of_a_stream_are_a_conflict(tokens: Path) -> None:
    error, server = failing(
        RemoteTaskError, tokens, lambda client: all_of(client.subscribe(TASK)),
        SubscribeToTask="hosted_subscribe_other_ids",
    )  # fmt: skip
    assert error.error_type == "A2A_REMOTE_BINDING_CONFLICT"
    assert server.operations().count("AppendA2ATaskEvents") == 1


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (b"remote-context-1", b"remote-context-2", RemoteTaskError),
        (b'"id":"remote-task-1"', b'"id":"remote-task-2"', InvalidAnswer),
        (b'"id":"remote-task-1"', b'"id":""', InvalidAnswer),
    ],
)
def test_an_answer_about_another_task_is_not_recorded(
    tokens: Path, old: bytes, new: bytes, kind: type[Exception]
) -> None:
    _, server = failing(
        kind, tokens, lambda client: client.get_task(TASK), GetTask=listed("hosted_get", old, new)
    )
    assert "AppendA2ATaskEvents" not in server.operations()


def test_a_conflict_that_the_platform_finds_has_the_same_name(tokens: Path) -> None:
    conflict = listed("error_version_changed", b"A2A_TARGET_VERSION_CHANGED", b"A2A_REMOTE_BINDING_CONFLICT")
    conflict = conflict.replace(b"200 OK", b"409 Conflict")
    error, server = failing(
        A2AControlPlaneError, tokens, send(), SendMessage="hosted_send", BindA2ARemoteTask=conflict
    )
    assert error.error_type == "A2A_REMOTE_BINDING_CONFLICT"
    assert "AppendA2ATaskEvents" not in server.operations()


def test_an_id_of_an_agents_task_that_is_none_is_not_bound(tokens: Path) -> None:
    answer = listed("hosted_send", b'"id":"remote-task-1"', b'"id":"a\\nb"')
    _, server = failing(InvalidAnswer, tokens, send(), SendMessage=answer)
    assert "BindA2ARemoteTask" not in server.operations()


# What gets the platform's tokens


@pytest.mark.parametrize(
    "url", [b"http://127.0.0.1:1/a2a/jsonrpc", b"https://vendor.example.com/a2a/jsonrpc"]
)
def test_a_hosted_route_to_another_origin_is_refused(tokens: Path, url: bytes) -> None:
    answer = listed("prepare_call", b"http://127.0.0.1:65535/a2a/jsonrpc", url)
    error, server = failing(A2ASpaceError, tokens, send(), PrepareA2ACall=answer)
    assert error.error_type == "A2A_GATEWAY_ORIGIN_REFUSED"
    assert server.operations() == ["PrepareA2ACall"]


def test_an_external_agent_on_a_hosted_route_is_refused(tokens: Path) -> None:
    async def use(client: A2ASpaceClient) -> Any:
        await client.discover()
        return await client.send_message(EXTERNAL, MESSAGE)

    answer = listed("prepare_call_external", b"external_public", b"hosted_gateway")
    answer = answer.replace(
        b"https://vendor.example.com/a2a/v1", b"http://127.0.0.1:65535/a2a/v1   ".rstrip()
    )
    body = answer.partition(b"\r\n\r\n")[2]
    error, server = failing(A2AControlPlaneError, tokens, use, PrepareA2ACall=http(body))
    assert error.error_code == "A2A_CONTROL_PLANE_INVALID_RESPONSE"
    assert server.operations() == ["ListA2ASpaceAgents", "PrepareA2ACall"]


def call_external(client: A2ASpaceClient) -> Awaitable[SpaceTask]:
    return client.send_message(EXTERNAL, MESSAGE, idempotency_token="token-2")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, "A2A_PUBLIC_EGRESS_DISABLED"),
        ({"external_transport": Vendors(1)}, "A2A_PUBLIC_EGRESS_DISABLED"),
        ({"egress_enabled": True}, "A2A_EGRESS_TRANSPORT_REQUIRED"),
    ],
)
def test_an_external_agent_is_refused_before_a_credential_is_asked_for(
    tokens: Path, options: dict[str, Any], code: str
) -> None:
    with platform(**WORKS | {"PrepareA2ACall": "prepare_call_external"}) as server:
        with pytest.raises(A2ASpaceError) as caught:
            with_client(server, tokens, call_external, **options)
        assert caught.value.error_type == code
        assert server.operations() == ["PrepareA2ACall"]


def test_no_token_of_the_platform_reaches_a_vendor(tokens: Path) -> None:
    credential = {"ResolveA2ACredential": "resolve_credential"}
    answers = WORKS | credential | {"PrepareA2ACall": "prepare_call_external"}
    vendor_answers = {"POST /a2a/v1/message:send?tenant=t-1": "hosted_send_rest"}
    with platform(**answers) as server, platform(**vendor_answers) as vendor:
        options = {"egress_enabled": True, "external_transport": Vendors(vendor.port)}
        task = with_client(server, tokens, call_external, **options)
        assert (task.status, task.agent_id) == ("completed", EXTERNAL)
        assert server.operations() == [
            "PrepareA2ACall", "ResolveA2ACredential", "BindA2ARemoteTask", "AppendA2ATaskEvents"
        ]  # fmt: skip
        (asked,) = vendor.requests
    assert asked.headers["x-api-key"] == "vendor-key-1"
    assert asked.headers["host"] == "vendor.example.com"
    seen = f"{asked.line} {asked.headers} {asked.body!r}"
    assert "Bearer" not in seen and PERMIT not in seen and "cred-1" not in seen
    assert not any(jwt(audience).split(".")[1] in seen for audience in ("a2a-registry", "a2a-gateway"))


def test_an_agent_that_repeats_secrets_does_not_get_them_into_an_error(tokens: Path) -> None:
    secrets = (jwt("a2a-gateway"), PERMIT)
    answer = http(f"no: {' '.join(secrets)}", "403 Forbidden", "Content-Type: text/plain")
    error, _ = failing(AgentError, tokens, send(), SendMessage=answer)
    shown = f"{error} {error!r} {error.to_result()}"
    assert not any(secret in shown for secret in secrets)


def test_a_cookie_of_one_agent_does_not_reach_another(tokens: Path) -> None:
    body = answer_bytes("hosted_send").partition(b"\r\n\r\n")[2]

    async def use(client: A2ASpaceClient) -> None:
        for _ in range(2):
            await client.send_message(AGENT, MESSAGE)

    _, server = done(tokens, use, SendMessage=http(body, "200 OK", "Set-Cookie: agent=1; Path=/"))
    assert all("cookie" not in asked.headers for asked in server.requests)


# Events


def test_a_sink_that_is_handed_in_is_told_in_place_of_the_platform(tokens: Path) -> None:
    told = Told()
    with platform(**WORKS | {"SendMessage": "hosted_send"}) as server:
        with_client(server, tokens, send(), event_sink=told)
        assert server.operations() == ["PrepareA2ACall", "SendMessage", "BindA2ARemoteTask"]
    assert told.kinds() == [("status", "completed"), ("artifact", None)]
    assert {task for task, _ in told.events} == {TASK}


def waiting(file: Path) -> int:
    with sqlite3.connect(file) as database:
        (count,) = database.execute("SELECT count(*) FROM a2a_task_event_outbox").fetchone()
        return int(count)


@asynccontextmanager
async def with_outbox(server: Platform, tokens: Path, file: Path) -> AsyncIterator[A2ASpaceClient]:
    """A client with an outbox whose dispatcher, once it has failed, waits for a minute."""
    outbox = SQLiteA2AEventOutbox(file)
    async with server.control_plane(tokens) as backend:
        dispatcher = A2AEventDispatcher(outbox, backend, retry_interval_seconds=60)
        async with (
            dispatcher,
            A2ASpaceClient(
                SPACE, backend, event_outbox=outbox, event_dispatcher=dispatcher, clock=lambda: AT
            ) as client,
        ):
            yield client
    await outbox.aclose()


def test_an_outbox_keeps_the_events_while_the_platform_takes_none(tokens: Path, tmp_path: Path) -> None:
    file = tmp_path / "outbox.sqlite3"

    async def sent(server: Platform) -> Any:
        async with with_outbox(server, tokens, file) as client:
            return await client.send_message(AGENT, MESSAGE), await client.flush_pending_events()

    async def later(server: Platform) -> bool:
        async with with_outbox(server, tokens, file) as client:
            return await client.flush_pending_events()

    with platform(
        **WORKS | {"SendMessage": "hosted_send", "AppendA2ATaskEvents": "error_503_html"}
    ) as server:
        task, delivered = asyncio.run(sent(server))
        assert (task.status, delivered, waiting(file)) == ("completed", False, 1)
        server.answers["AppendA2ATaskEvents"] = [answer_bytes("append_events")]
        assert asyncio.run(later(server))
        assert waiting(file) == 0
        batches = [asked.body for asked in server.requests if asked.operation == "AppendA2ATaskEvents"]
        assert len(batches) > 1
        assert len(set(batches)) == 1


def test_a_client_of_an_outbox_empties_it_by_itself(tokens: Path, tmp_path: Path) -> None:
    file = tmp_path / "outbox.sqlite3"

    async def run(server: Platform) -> None:
        outbox = SQLiteA2AEventOutbox(file)
        async with (
            server.control_plane(tokens) as backend,
            A2ASpaceClient(SPACE, backend, event_outbox=outbox) as client,
        ):
            await client.send_message(AGENT, MESSAGE)
        await outbox.aclose()

    with platform(**WORKS | {"SendMessage": "hosted_send"}) as server:
        asyncio.run(run(server))
        assert waiting(file) == 0
        assert server.operations()[-1] == "AppendA2ATaskEvents"


def test_a_dispatcher_is_woken_when_there_are_events(tokens: Path, tmp_path: Path) -> None:
    async def until_woken(event: asyncio.Event, _: float) -> None:
        await event.wait()

    async def run(server: Platform) -> None:
        outbox = SQLiteA2AEventOutbox(tmp_path / "outbox.sqlite3")
        async with server.control_plane(tokens) as backend:
            dispatcher = A2AEventDispatcher(outbox, backend, wait=until_woken)
            await dispatcher.start()
            client = A2ASpaceClient(SPACE, backend, event_outbox=outbox, event_dispatcher=dispatcher)
            await client.send_message(AGENT, MESSAGE)
            async with asyncio.timeout(30):
                while "AppendA2ATaskEvents" not in server.operations():
                    await asyncio.sleep(0.005)
            await client.aclose()
            await dispatcher.stop()
        await outbox.aclose()

    with platform(**WORKS | {"SendMessage": "hosted_send"}) as server:
        asyncio.run(run(server))


def test_persisted_events_need_an_outbox(tokens: Path) -> None:
    error, server = failing(
        A2ASpaceError, tokens, lambda client: all_of(client.subscribe_persisted_events(TASK))
    )
    assert (error.error_type, server.requests) == ("A2A_EVENT_OUTBOX_REQUIRED", [])


def test_a_persisted_event_is_in_the_outbox_when_it_is_given(tokens: Path, tmp_path: Path) -> None:
    file = tmp_path / "outbox.sqlite3"

    async def run(server: Platform) -> list[tuple[str | None, int]]:
        async with with_outbox(server, tokens, file) as client:
            return [(event.status, waiting(file)) async for event in client.subscribe_persisted_events(TASK)]

    answers = {"SubscribeToTask": "hosted_subscribe", "AppendA2ATaskEvents": "error_503_html"}
    with platform(**WORKS | answers) as server:
        assert asyncio.run(run(server)) == [("working", 1), (None, 2), ("completed", 3)]


def test_what_is_handed_in_stays_open(tokens: Path) -> None:
    async def run(server: Platform) -> Any:
        async with httpx.AsyncClient() as own, server.control_plane(tokens) as backend:
            async with A2ASpaceClient(SPACE, backend, httpx_client=own) as client:
                await client.send_message(AGENT, MESSAGE)
            assert not own.is_closed
            return await backend.list_agents(SPACE)

    with platform(**WORKS | {"SendMessage": "hosted_send"}) as server:
        assert len(asyncio.run(run(server)).agents) == 2


# Of the environment


NOWHERE = {"a2a_control_plane_url": ""}


def settings(server_url: str, tokens: Path, **given: Any) -> Settings:
    return Settings(
        **({"a2a_control_plane_url": server_url, "a2a_space_ids": (SPACE,), "a2a_token_dir": tokens} | given)
    )


@pytest.mark.parametrize(
    ("given", "space_id", "code", "words"),
    [
        (NOWHERE, "", "space_not_configured", "no Space is configured: no control plane is set"),
        (NOWHERE, SPACE, "space_not_configured", "the Space space-demo is not configured"),
        ({"a2a_space_ids": ()}, "", "space_not_configured", "KSADK_A2A_SPACE_IDS is not set"),
        ({}, "space-else", "space_not_configured", "does not name it, but space-demo"),
        ({"a2a_space_ids": (SPACE, "b")}, "", "space_id_required", "space-demo, b"),
    ],
)  # fmt: skip
def test_nothing_is_called_where_no_space_is_configured(
    tokens: Path, given: dict[str, Any], space_id: str, code: str, words: str
) -> None:
    with pytest.raises(A2ASpaceError) as caught:
        A2ASpaceClient.from_env(space_id, settings=settings("http://127.0.0.1:1", tokens, **given))
    assert caught.value.error_type == code
    assert words in caught.value.message
    if code == "space_not_configured":
        assert isinstance(caught.value, SpaceNotConfigured)
        assert caught.value.kind == "unavailable"


def test_the_environment_says_how_a_space_is_reached(
    tokens: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def run() -> Any:
        async with A2ASpaceClient.from_env() as client:
            task = await client.send_message(AGENT, MESSAGE)
            return task, client.space_id, await client.flush_pending_events()

    with platform(**WORKS | {"SendMessage": "hosted_send"}) as server:
        monkeypatch.setenv("KSADK_A2A_SPACE_IDS", SPACE)
        monkeypatch.setenv("KSADK_A2A_CONTROL_PLANE_URL", server.url + "/")
        monkeypatch.setenv("KSADK_A2A_TOKEN_DIR", str(tokens))
        task, space_id, empty = asyncio.run(run())
    assert (task.status, space_id, empty) == ("completed", SPACE, True)
    assert (Path.cwd() / ".agentengine/a2a_event_outbox.sqlite3").stat().st_mode & 0o777 == 0o600
    assert "AppendA2ATaskEvents" in server.operations()


def test_public_egress_is_off_unless_the_environment_says_otherwise(tokens: Path) -> None:
    async def run(server: Platform, **given: Any) -> None:
        async with A2ASpaceClient.from_env(settings=settings(server.url, tokens, **given)) as client:
            await call_external(client)

    with platform(**WORKS | {"PrepareA2ACall": "prepare_call_external"}) as server:
        with pytest.raises(PermissionError) as caught:
            asyncio.run(run(server))
        assert "ResolveA2ACredential" not in server.operations()
    assert caught.value.error_type == "A2A_PUBLIC_EGRESS_DISABLED"  # type: ignore[attr-defined]
