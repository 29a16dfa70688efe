"""A hosted runtime's routes: no form of a path reaches the agent unverified, and no other route is taken."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from a2a_server import send_params
from hosted_runtime import ANN, BOB, Called, Scripts, echoes, hosted, inbound_only, probe, signed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Match

from ksadk.a2a.runners.runtime_types import RuntimeEvent
from ksadk.a2a.stores.resume import RunHandle

REFUSED = b'{"error":{"code":401,"status":"UNAUTHENTICATED","message":"The request is not authenticated."}}'
SEND = json.dumps(send_params("hi")).encode()
RPC = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": send_params("hi")}).encode()
JSON = {"Content-Type": "application/json", "A2A-Version": "1.0"}
CARD = "/.well-known/agent-card.json"


@pytest.fixture
def runtime() -> Scripts:
    return Scripts(echoes)


@pytest.fixture(params=["starlette.applications:Starlette", "fastapi:FastAPI"])
def called(request: pytest.FixtureRequest, tmp_path: Path, runtime: Scripts) -> Iterator[Called]:
    module, _, name = request.param.partition(":")
    app = getattr(pytest.importorskip(module), name)
    with hosted(lambda: inbound_only(tmp_path), runtime, app=app) as called:
        yield called


REST = ["message:send", "message:stream", "tasks", "tasks/x", "tasks/x:cancel", "tasks/x:subscribe",
        "tasks/x/pushNotificationConfigs", "tasks/x/pushNotificationConfigs/y",
        "extendedAgentCard"]  # fmt: skip
PATHS = [
    "/a2a/jsonrpc", "/a2a/jsonrpc/", CARD,
    *(f"/a2a/v1/{path}" for path in REST), *(f"/a2a/v1/acme/{path}" for path in REST),
]  # fmt: skip
"""What the runtime has routes for."""

VARIANTS = [
    "/acme/a2a/v1/message:send", "/acme/a2a/jsonrpc", "/a2a/v1/a/b/message:send", "/a2a/v1/message:send/",
    "/a2a/v1/tasks/", "/a2a/v1", "/a2a/v1/", "/a2a/v1/acme/", "/A2A/v1/message:send", "/a2a/V1/message:send",
    "/a2a/JSONRPC", "//a2a/v1/message:send", "/a2a//v1/message:send", "/a2a/v1//message:send",
    "/a2a/jsonrpc//", "/a2a/v1/message%3Asend", "/a2a/v1%2Fmessage:send", "/a2a%2Fv1/message:send",
    "/%61%32%61/v1/message:send", "/a2a/%6Asonrpc", "/a2a%2Fjsonrpc", "/a2a%252Fjsonrpc", "/x/../a2a/jsonrpc",
    "/a2a/./jsonrpc", "/a2a/v1/../v1/message:send", "/a2a\\jsonrpc", "/a2a/jsonrpc?x=1",
    "/a2a/v1/message:send?A2A-Version=1.0", "/a2a/v1/tasks?tenant=acme", CARD + "/", CARD + "?x",
    CARD.upper(),
    "//.well-known/agent-card.json", "/x" + CARD, "/.well-known/agent.json", "/.well-known%2Fagent-card.json",
    "/a2a/v1/%2e%2e/jsonrpc",
]  # fmt: skip
METHODS = ["GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "BREW"]


def forged() -> list[dict[str, str]]:
    """The headers of requests that no gateway has let through to this runtime."""
    return [
        {},
        {"x-ksc-account-id": "acc-1", "x-runtime-id": "rt-1", "x-auth-agent-id": "ar-1"},
        {"x-signed-identity": "x.y"},
        signed(replace(ANN, target_runtime_id="rt-2")),
        signed(replace(ANN, tenant_id="t")),
    ]


@pytest.mark.parametrize("headers", forged(), ids=lambda headers: "+".join(headers) or "none")
def test_no_form_of_a_path_comes_to_the_agent_unverified(
    called: Called, runtime: Scripts, headers: dict[str, str]
) -> None:
    for path in PATHS + VARIANTS:
        for method in METHODS:
            body = (RPC if "rpc" in path.lower() else SEND) if method == "POST" else None
            status, found, data = called.request(method, path, {**JSON, **headers}, body)
            assert status == 401, (method, path)
            assert data == (b"" if method == "HEAD" else REFUSED), (method, path)
            assert found["content-type"] == "application/json" and found["cache-control"] == "no-store"
    assert not runtime.started


SEGMENTS = st.sampled_from(
    ["a2a", "A2A", "v1", "V1", "jsonrpc", "message:send", "message:stream", "tasks", "x", "acme", "..", ".",
     "", "%61", "%2f", "%2F", "%252F", ";", "\\", "\x00", "\u2028", "a2a%2Fv1", "\uff41", ".well-known",
     "agent-card.json", "extendedAgentCard", "?", "#", " "]
)  # fmt: skip


@pytest.fixture(scope="module")
def unstarted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Scripts]:
    app, runtime = Starlette(), Scripts(echoes)
    bootstrap = inbound_only(tmp_path_factory.mktemp("unstarted"))
    bootstrap.mount(app, runtime)
    bootstrap._state = "started"  # as far as the routes can tell: so that nothing but the admission holds
    return app, runtime


BEGINNINGS = st.sampled_from([[], ["a2a", "v1"], ["a2a", "jsonrpc"], [".well-known"], ["acme", "a2a", "v1"]])
PATHS_OF_ALL_KINDS = st.tuples(BEGINNINGS, st.lists(SEGMENTS, max_size=4)).map(lambda both: both[0] + both[1])


@given(PATHS_OF_ALL_KINDS, st.sampled_from(METHODS), st.sampled_from(["", "/sub"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_at_all_comes_to_the_agent_unverified(
    unstarted: tuple[Any, Scripts], segments: list[str], method: str, root: str
) -> None:
    app, runtime = unstarted
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": RPC, "more_body": False}

    headers = [(b"content-type", b"application/json"), (b"a2a-version", b"1.0"), (b"host", b"h")]
    scope = {"type": "http", "method": method, "path": root + "/" + "/".join(segments), "root_path": root,
             "headers": headers, "query_string": b"", "scheme": "http", "server": ("h", 80),
             "client": ("127.0.0.1", 1), "http_version": "1.1"}  # fmt: skip
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] in (401, 404) and not runtime.started
    if sent[0]["status"] == 404:
        assert not any(route.matches(scope)[0] is not Match.NONE for route in app.routes)


def test_only_its_own_paths_are_taken_so_what_the_application_adds_later_is_reached(
    called: Called, runtime: Scripts
) -> None:
    for path in ("/v1/responses", "/v1/responses?x=/a2a/v1"):
        for method in ("GET", "POST"):
            assert called.request(method, path)[::2] == (200, b"the application's own")
    for path in (
        "/",
        "/nothing",
        "/a2a",
        "/a2a/v1beta/x",
        "/a2a/v10/message:send",
        "/healthz",
        "/a2a/jsonrpc;x",
    ):
        assert called.request("POST", path, JSON, RPC)[0] in (404, 405), path
    assert not runtime.started
    assert called.request("GET", "/openapi.json")[0] in (200, 404)  # which FastAPI writes of all routes


def test_a_route_of_the_application_wins_over_what_only_looks_like_one_of_a2a(tmp_path: Path) -> None:
    with hosted(lambda: inbound_only(tmp_path), Scripts(echoes), own="/acme/a2a/v1/tasks") as called:
        assert called.request("GET", "/acme/a2a/v1/tasks")[::2] == (200, b"the application's own")
        assert called.request("GET", "/acme/a2a/v1/other")[::2] == (401, REFUSED)


def test_verified_callers_get_what_they_ask_for_in_every_documented_form(called: Called) -> None:
    for path, body in (
        ("/a2a/jsonrpc", RPC), ("/a2a/jsonrpc/", RPC), ("/a2a/v1/message:send", SEND),
        ("/a2a/v1/acme/message:send", SEND), ("/a2a/v1/message:send?A2A-Version=1.0", SEND),
    ):  # fmt: skip
        status, _, data = called.request("POST", path, {**JSON, **signed(ANN)}, body)
        assert status == 200 and b"echo: hi" in data, (path, data)
    for path in [*VARIANTS[:3], "/a2a/v1/message:send/", "/A2A/v1/message:send"]:
        assert called.request("POST", path, {**JSON, **signed(ANN)}, SEND)[0] == 404, path
    status, found, data = called.request("DELETE", "/a2a/jsonrpc", signed(ANN))
    assert status == 405 and found["content-type"] == "application/json"


def test_the_card_is_for_the_gateway_and_for_probes(called: Called) -> None:
    for headers in (signed(ANN), signed(BOB), probe()):
        status, found, data = called.request("GET", CARD, headers)
        assert (status, json.loads(data)["name"]) == (200, "hosted") and "etag" in found
    for headers in (*forged(), probe("rt-2"), {"x-signed-probe": "rt-1.0"}):
        assert called.request("GET", CARD, headers)[::2] == (401, REFUSED)
    for path in PATHS:
        if path != CARD:
            assert called.request("POST", path, {**JSON, **probe()}, RPC)[::2] == (401, REFUSED), path


def test_a_page_that_a_browser_shows_and_any_host_name_are_the_gateway_s_to_judge(called: Called) -> None:
    headers = {**JSON, **signed(ANN), "Origin": "https://console.example.com", "X-Forwarded-Host": "x"}
    assert called.request("POST", "/a2a/jsonrpc", headers, RPC)[0] == 200


async def asks(runtime: Scripts, handle: RunHandle) -> AsyncIterator[RuntimeEvent]:
    if not runtime.resumed:
        yield RuntimeEvent("run.interrupted", {"question": "where?"})
        return
    yield RuntimeEvent("text.delta", {"delta": f"to {runtime.resumed[-1][2].data}"})


STRANGERS = [BOB, replace(ANN, caller_principal_id="Ann"),
             replace(ANN, caller_principal_type="service", authn_mode="gateway_service")]  # fmt: skip


@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda identity: identity.owner)
def test_another_caller_s_task_is_as_no_task(tmp_path: Path, stranger: Any) -> None:
    runtime = Scripts(asks)
    with hosted(lambda: inbound_only(tmp_path), runtime) as called:
        mine, theirs = signed(ANN), signed(stranger)
        task = called.send("x", mine)
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            seen, none = (called.rpc(method, {"id": name}, theirs)["error"] for name in (task["id"], "none"))
            assert seen == none, method
        for path in ("tasks/{}", "tasks/{}:subscribe"):
            seen_, none_ = (
                called.request("GET", "/a2a/v1/" + path.format(name), {**JSON, **theirs})
                for name in (task["id"], "none")
            )
            assert (seen_[0], seen_[2].replace(task["id"].encode(), b"none")) == (none_[0], none_[2])
        answer = called.rpc("SendMessage", send_params("y", message={"taskId": task["id"]}), theirs)
        assert answer["error"]["code"] == -32001
        assert called.rpc("ListTasks", {}, theirs)["result"]["tasks"] == []
        shared = called.rpc("ListTasks", {"contextId": task["contextId"]}, theirs)
        assert shared["result"]["tasks"] == []
        assert not runtime.resumed and not runtime.canceled
        done = called.send("Paris", mine, taskId=task["id"])
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"


def test_two_callers_never_share_a_session_and_one_caller_keeps_its_own(tmp_path: Path) -> None:
    runtime = Scripts(echoes)
    with hosted(lambda: inbound_only(tmp_path), runtime) as called:
        for who in (ANN, BOB, ANN):
            called.send("x", signed(who), contextId="shared")
    with hosted(lambda: inbound_only(tmp_path), runtime) as called:
        called.send("x", signed(ANN), contextId="shared")
    ann, bob, again, restarted = (request.session_id for request in runtime.started)
    assert ann == again == restarted != bob
    assert {request.user_id for request in runtime.started} == {ANN.owner, BOB.owner}
    assert all(b"shared" not in file.read_bytes() for file in tmp_path.glob("contexts*"))


def test_a_verifier_that_cancels_itself_has_refused(tmp_path: Path) -> None:
    class Canceling:
        async def verify(self, request: Any) -> Any:
            raise asyncio.CancelledError

        verify_probe = verify

    def made() -> Any:
        return inbound_only(
            tmp_path, gateway_identity_verifier=Canceling(), gateway_probe_verifier=Canceling()
        )

    with hosted(made, Scripts(echoes)) as called:
        for path in (CARD, "/a2a/jsonrpc"):
            assert called.request("GET", path)[::2] == (401, REFUSED)


def test_a_refusal_tells_the_log_its_kind_and_no_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Leaking:
        def verify(self, request: Any) -> Any:
            raise ValueError(f"a secret: {request.headers['authorization']}")

        verify_probe = verify

    def made() -> Any:
        return inbound_only(tmp_path, gateway_identity_verifier=Leaking(), gateway_probe_verifier=Leaking())

    with hosted(made, Scripts(echoes)) as called:
        for path in (CARD, "/a2a/jsonrpc"):
            _, found, data = called.request("GET", path, {"Authorization": "Bearer SECRET-TOKEN"})
            assert data == REFUSED and "SECRET" not in str(found)
    assert "ValueError" in caplog.text and "SECRET" not in caplog.text
