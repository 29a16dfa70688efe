"""A2A routes in an application of one's own, Starlette or FastAPI."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from a2a.auth.user import UnauthenticatedUser
from a2a.server.context import ServerCallContext
from a2a.server.routes.common import ServerCallContextBuilder
from a2a_server import Scripted, ScriptedRun, send_params
from hosted_runtime import ANN, BOB, Called, Scripts, app_served, echoes
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ksadk.a2a import (
    A2AConfig,
    A2AOwnerContextBuilder,
    Call,
    RunnerError,
    Text,
    Thinking,
    add_a2a_protocol_routes,
    build_a2a_task_store,
)

ON = A2AConfig(enabled=True, agent_name="mine", skills=("research",))


async def own(_: Request) -> PlainTextResponse:
    return PlainTextResponse("own")


async def thinks(call: Call, _: ScriptedRun) -> AsyncIterator[Any]:
    yield Thinking("let me ")
    yield Thinking("see")
    for word in ("one ", "two ", "three"):
        yield Text(word)


def echo(text: str) -> str:
    return f"you said {text}"


@contextmanager
def serving(
    agent: Any,
    config: A2AConfig = ON,
    *,
    app: Callable[..., Any] = Starlette,
    task_adapter: Any = None,
    **given: Any,
) -> Iterator[Called]:
    def make(base: str) -> Any:
        made = app()
        settled = config if config.base_url != A2AConfig.base_url else replace(config, base_url=base)
        add_a2a_protocol_routes(made, agent, settled, task_adapter=task_adapter, **given)
        made.router.routes.append(Route("/v1/responses", own))
        made.router.routes.append(Route("/{anything:path}/later", own))
        return made

    with app_served(make) as called:
        yield called


@pytest.mark.parametrize("place", ["starlette.applications:Starlette", "fastapi:FastAPI"])
def test_an_agent_and_its_card_are_served_beside_the_application_s_own_routes(place: str) -> None:
    module, _, name = place.partition(":")
    app = getattr(pytest.importorskip(module), name)
    with serving(echo, app=app) as called:
        card = json.loads(called.request("GET", "/.well-known/agent-card.json")[2])
        assert (card["name"], card["skills"][0]["id"]) == ("mine", "research")
        urls = [interface["url"].removeprefix(called.base) for interface in card["supportedInterfaces"]]
        assert urls == ["/a2a/jsonrpc", "/a2a/v1"]
        assert called.send("hi", {})["artifacts"][0]["parts"] == [{"text": "you said hi"}]
        body = json.dumps(send_params("hi")).encode()
        version = {"A2A-Version": "1.0", "Content-Type": "application/json"}
        for path in ("/a2a/v1/message:send", "/a2a/v1/acme/message:send"):
            assert b"you said hi" in called.request("POST", path, version, body)[2]
        for path in ("/v1/responses", "/acme/later", "/a2a/later"):
            assert called.request("GET", path)[::2] == (200, b"own"), path
        assert called.request("POST", "/acme/a2a/v1/message:send", version, body)[0] == 404


def test_what_is_not_enabled_adds_nothing() -> None:
    app = Starlette()
    assert add_a2a_protocol_routes(app, echo, A2AConfig(), task_adapter=None) is None
    assert app.routes == []


def test_a_task_adapter_runs_the_tasks_in_place_of_the_agent() -> None:
    runtime = Scripts(echoes)
    with serving(None, task_adapter=runtime) as called:
        task = called.send("hi", {})
        assert [part["parts"][0]["text"] for part in task["artifacts"]] == ["echo: hi"]
    assert runtime.closed
    with pytest.raises(RunnerError):
        add_a2a_protocol_routes(Starlette(), 5, ON, task_adapter=None)


def pieces(called: Called) -> list[dict[str, Any]]:
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": send_params("x")}
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
    body = called.request("POST", "/a2a/jsonrpc", headers, json.dumps(request).encode())[2]
    events = [json.loads(line[5:])["result"] for line in body.splitlines() if line.startswith(b"data:")]
    return [event["artifactUpdate"] for event in events if "artifactUpdate" in event]


def test_reasoning_is_shown_and_text_is_sent_in_pieces_as_the_configuration_says() -> None:
    with serving(Scripted(thinks)) as called:
        plain = pieces(called)
    with serving(Scripted(thinks), replace(ON, include_reasoning=True)) as called:
        reasoning = pieces(called)
    with serving(Scripted(thinks), replace(ON, prefer_stream=False, include_reasoning=True)) as called:
        whole = pieces(called)
    assert {each["artifact"]["name"] for each in plain} == {"response"}
    assert {each["artifact"]["name"] for each in reasoning} == {"reasoning", "response"}
    assert len(plain) >= 3 and len(whole) == 2 + 2  # each is begun and closed
    assert [each["artifact"]["parts"][0]["text"] for each in whole][::2] == ["let me see", "one two three"]


def test_without_streaming_there_is_no_stream() -> None:
    with serving(echo, replace(ON, streaming=False)) as called:
        assert json.loads(called.request("GET", "/.well-known/agent-card.json")[2])["capabilities"] == {
            "streaming": False, "pushNotifications": False,
        }  # fmt: skip
        assert "error" in called.rpc("SendStreamingMessage", send_params("x"))
        assert called.send("hi", {})["status"]["state"] == "TASK_STATE_COMPLETED"


def test_headers_that_state_an_identity_are_ignored_unless_an_edge_is_trusted() -> None:
    alice, mallory = {"x-ksc-account-id": "alice"}, {"x-ksc-account-id": "mallory"}
    edge = A2AOwnerContextBuilder(trusted_edge=["127.0.0.1"])
    for builder, apart in ((None, False), (A2AOwnerContextBuilder(), False), (edge, True)):
        with serving(echo, context_builder=builder) as called:
            task = called.send("hi", alice)["id"]
            assert "result" in called.rpc("GetTask", {"id": task}, alice)
            assert ("error" in called.rpc("GetTask", {"id": task}, mallory)) is apart
            assert ("error" in called.rpc("GetTask", {"id": task})) is apart


class Broken(ServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        raise PermissionError("SECRET")


class Saying(ServerCallContextBuilder):
    """Gives what is no call context."""

    def __init__(self, said: Any) -> None:
        self._said = said

    def build(self, request: Request) -> ServerCallContext:
        said: ServerCallContext = self._said
        return said


class Plain(ServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        return ServerCallContext(user=UnauthenticatedUser(), state={"headers": dict(request.headers)})


@pytest.mark.parametrize("said", [None, "ann", {"user": "ann"}], ids=repr)
def test_a_context_builder_that_gives_no_call_context_lets_nobody_in(said: Any) -> None:
    ran: list[str] = []
    with serving(lambda text: ran.append(text) or text, context_builder=Saying(said)) as called:
        status, _, data = called.request("POST", "/a2a/jsonrpc", {"Content-Type": "application/json"}, b"{}")
        assert (status, json.loads(data)["error"]["status"]) == (401, "UNAUTHENTICATED")
        assert called.request("POST", "/a2a/v1/message:send", {}, b"{}")[0] == 401
    assert ran == []


def test_a_context_builder_that_raises_is_a_401_of_fixed_text_and_the_card_is_for_everybody() -> None:
    managed = A2AOwnerContextBuilder(allow_unverified_identity=False)
    for builder in (Broken(), managed):
        with serving(echo, context_builder=builder) as called:
            for path in ("/a2a/jsonrpc", "/a2a/v1/message:send", "/acme/a2a/v1/message:send"):
                status, _, data = called.request("POST", path, {"Content-Type": "application/json"}, b"{}")
                assert (status, json.loads(data)["error"]["status"]) == (401, "UNAUTHENTICATED")
                assert b"SECRET" not in data
            assert called.request("GET", "/.well-known/agent-card.json")[0] == 200
    with serving(echo, context_builder=Plain()) as called:
        assert called.send("hi", {})["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_resolver_s_callers_are_kept_apart() -> None:
    def resolve(request: Request) -> Any:
        return {"ann": ANN, "bob": BOB}.get(request.headers.get("x-test-user", ""))

    builder = A2AOwnerContextBuilder(identity_resolver=resolve, allow_unverified_identity=False)
    with serving(echo, context_builder=builder) as called:
        task = called.send("hi", {"x-test-user": "ann"})["id"]
        assert "result" in called.rpc("GetTask", {"id": task}, {"x-test-user": "ann"})
        assert called.rpc("GetTask", {"id": task}, {"x-test-user": "bob"})["error"]["code"] == -32001
        assert called.request("POST", "/a2a/jsonrpc", {"x-test-user": "eve"})[0] == 401


def test_tasks_are_kept_where_the_configuration_or_the_caller_says(tmp_path: Path) -> None:
    dsn = f"sqlite:///{tmp_path / 'tasks.db'}"
    named = replace(ON, task_store_dsn=dsn, task_table="mine")
    assert dsn not in repr(named)
    with serving(echo, named) as called:
        task = called.send("hi", {})["id"]
    with serving(echo, named) as called:
        assert "result" in called.rpc("GetTask", {"id": task})
    given = build_a2a_task_store(dsn, table_name="mine")
    with serving(echo, task_store=given) as called:
        assert "result" in called.rpc("GetTask", {"id": task})
    with serving(echo) as called:
        assert called.rpc("GetTask", {"id": task})["error"]["code"] == -32001


def test_an_engine_of_the_caller_s_keeps_tasks_and_what_they_wait_for(tmp_path: Path) -> None:
    asyncio_engine = pytest.importorskip("sqlalchemy.ext.asyncio")
    pytest.importorskip("aiosqlite")
    url = f"sqlite+aiosqlite:///{tmp_path / 'tasks.db'}"
    for number in (1, 2):
        with serving(echo, engine=asyncio_engine.create_async_engine(url)) as called:
            called.send("hi", {})
            assert called.rpc("ListTasks", {})["result"]["totalSize"] == number


def test_the_application_s_own_lifespan_is_run_inside_of_the_agent_s() -> None:
    order: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[dict[str, str]]:
        order.append("begin")
        yield {"mine": "kept"}
        order.append("end")

    runtime = Scripts(echoes)
    with serving(None, app=lambda: Starlette(lifespan=lifespan), task_adapter=runtime) as called:
        assert order == ["begin"] and called.send("hi", {})
        assert not runtime.closed
    assert order == ["begin", "end"] and runtime.closed


def test_other_names_of_the_machine_and_pages_of_other_origins_do_not_reach_it() -> None:
    body = json.dumps(send_params("hi")).encode()
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
    with serving(echo) as called:
        assert called.request("GET", "/a2a/v1/tasks", {"Host": "evil.example", **headers})[0] in (400, 403)
        stranger = {"Origin": "https://evil.example", **headers}
        assert called.request("POST", "/a2a/v1/message:send", stranger, body)[0] == 403
    with serving(echo, replace(ON, base_url="https://agents.example.com")) as called:
        assert called.request("POST", "/a2a/v1/message:send", headers, body)[0] == 200


def test_a_gateway_s_identity_in_the_scope_counts_in_an_application_of_one_s_own() -> None:
    class Verified:
        """An application's own middleware, which verifies callers."""

        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and (b"x-ann", b"1") in scope["headers"]:
                scope.setdefault("state", {})["a2a_identity"] = ANN
            await self.app(scope, receive, send)

    def app() -> Starlette:
        made = Starlette()
        made.add_middleware(Verified)
        return made

    builder = A2AOwnerContextBuilder(allow_unverified_identity=False)
    with serving(echo, app=app, context_builder=builder) as called:
        assert called.send("hi", {"x-ann": "1"})["id"]
        assert called.request("POST", "/a2a/jsonrpc")[0] == 401
