"""A gateway that signs identities, a runtime that scripts its runs, and a real server for applications."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.client
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import uvicorn
from a2a_server import send_params
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ksadk.a2a.hosted.bootstrap import AgentEngineA2ABootstrap
from ksadk.a2a.hosted.identity import A2AIngressIdentity
from ksadk.a2a.hosted.metadata import RuntimeA2AMetadata
from ksadk.a2a.runners.runtime_types import CancelResult, ResumePayload, RuntimeEvent, StartRequest
from ksadk.a2a.stores.contexts import SQLiteA2AContextStore
from ksadk.a2a.stores.opening import build_a2a_task_store
from ksadk.a2a.stores.resume import ResumeTarget, RunHandle, SQLiteA2AResumeStateStore

SECRET = "NATIVE-HANDLE"
"""What is in the handles and checkpoints of runs."""

KEY = b"what the gateway and the runtime share"
IDENTITY, PROBE = "x-signed-identity", "x-signed-probe"

RUNTIME = RuntimeA2AMetadata(
    account_id="acc-1",
    tenant_id="",
    agent_id="ar-1",
    runtime_id="rt-1",
    a2a_agent_id="a2a-agent-1",
    name="hosted",
    base_url="http://127.0.0.1:9",
)
ANN = A2AIngressIdentity("acc-1", "", "user", "ann", "ar-1", "rt-1", "a2a-agent-1", "api_key")
BOB = replace(ANN, caller_principal_id="bob")


def signature(text: str) -> str:
    return hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()


def signed(identity: A2AIngressIdentity) -> dict[str, str]:
    """The headers of a request that the gateway forwards for a caller."""
    text = base64.b64encode(json.dumps(asdict(identity)).encode()).decode()
    return {IDENTITY: f"{text}.{signature(text)}"}


def probe(runtime_id: str = RUNTIME.runtime_id) -> dict[str, str]:
    return {PROBE: f"{runtime_id}.{signature(runtime_id)}"}


class Gateway:
    """Verifies what `signed` and `probe` make."""

    async def verify(self, request: Request) -> A2AIngressIdentity:
        return A2AIngressIdentity(**json.loads(base64.b64decode(self._text(request, IDENTITY))))

    def verify_probe(self, request: Request) -> None:
        if self._text(request, PROBE) != RUNTIME.runtime_id:
            raise ValueError("a probe of another runtime")

    def _text(self, request: Request, header: str) -> str:
        text, _, given = request.headers[header].rpartition(".")
        if not hmac.compare_digest(given, signature(text)):
            raise ValueError("signed by somebody else")
        return text


Script = Callable[["Scripts", RunHandle], AsyncIterator[RuntimeEvent]]


@dataclass
class Scripts:
    """A runtime whose runs follow a script. Handles and checkpoints hold `secret`."""

    script: Script
    secret: str = SECRET
    started: list[StartRequest] = field(default_factory=list)
    resumed: list[tuple[RunHandle, ResumeTarget, ResumePayload]] = field(default_factory=list)
    attached: list[RunHandle] = field(default_factory=list)
    canceled: list[RunHandle] = field(default_factory=list)
    closed: bool = False
    cancel_result: CancelResult = CancelResult.INTERRUPTED_ACTIVE_TURN

    async def start(self, request: StartRequest) -> RunHandle:
        self.started.append(request)
        number = len(self.started)
        return RunHandle(
            f"run-{self.secret}-{number}", request.session_id, "scripts", {"native": self.secret}
        )

    def stream(self, handle: RunHandle) -> AsyncIterator[RuntimeEvent]:
        return self.script(self, handle)

    async def cancel(self, handle: RunHandle) -> CancelResult:
        self.canceled.append(handle)
        return self.cancel_result

    async def resume(self, handle: RunHandle, target: ResumeTarget, payload: ResumePayload) -> RunHandle:
        self.resumed.append((handle, target, payload))
        return handle

    async def attach(self, handle: RunHandle) -> None:
        self.attached.append(handle)

    async def checkpoint(self, handle: RunHandle) -> ResumeTarget | None:
        return ResumeTarget("checkpoint", f"at-{self.secret}")

    async def close(self) -> None:
        self.closed = True


async def echoes(runtime: Scripts, handle: RunHandle) -> AsyncIterator[RuntimeEvent]:
    yield RuntimeEvent("reasoning.delta", {"delta": "THINKING-OF-IT"})
    yield RuntimeEvent("text.delta", {"delta": f"echo: {runtime.started[-1].input}"})
    yield RuntimeEvent("run.completed")


async def travels(runtime: Scripts, handle: RunHandle) -> AsyncIterator[RuntimeEvent]:
    """Thinks, asks twice, then makes an artifact."""
    yield RuntimeEvent("run.started", {"native_ref": dict(handle.native_ref), "run_id": handle.run_id})
    yield RuntimeEvent("reasoning.delta", {"delta": "THINKING-OF-IT"})
    yield RuntimeEvent("checkpoint.created", {"kind": "checkpoint", "id": f"at-{SECRET}"})
    answered = len(runtime.resumed)
    if answered < 2:
        question = {
            "question": f"question {answered}?",
            "call_id": f"call-{answered}",
            "handle": handle.run_id,
        }
        yield RuntimeEvent("run.interrupted", question)
        return
    yield RuntimeEvent("checkpoint.resumed", {"id": f"at-{SECRET}"})
    yield RuntimeEvent("tool.call.begin", {"tool_name": "TOOL-OF-IT", "native": SECRET})
    yield RuntimeEvent("artifact.created", {"artifact_id": "plan", "name": "plan", "text": "the plan"})
    yield RuntimeEvent("text.delta", {"delta": "done"})
    yield RuntimeEvent("usage.reported", {"tokens": 1, "native": SECRET})


async def works_on(_: Scripts, __: RunHandle) -> AsyncIterator[RuntimeEvent]:
    yield RuntimeEvent("text.delta", {"delta": "begun"})
    await asyncio.Event().wait()


def inbound_only(tmp_path: Path, **given: Any) -> AgentEngineA2ABootstrap:
    """A runtime that calls nobody, with stores in `tmp_path`."""
    parts: dict[str, Any] = {
        "runtime_metadata": RUNTIME,
        "task_store": build_a2a_task_store(f"sqlite:///{tmp_path / 'tasks.db'}"),
        "context_store": SQLiteA2AContextStore(tmp_path / "contexts.db"),
        "checkpoint_store": None,
        "resume_state_store": SQLiteA2AResumeStateStore(tmp_path / "resume.db"),
        "gateway_identity_verifier": Gateway(),
        "gateway_probe_verifier": Gateway(),
        "external_transport": None,
        "control_plane": None,
        "hosted_http_client": None,
        "event_outbox": None,
        "outbound_enabled": False,
    }
    return AgentEngineA2ABootstrap(**{**parts, **given})


@dataclass
class Called:
    """A served application. Bodies and headers of all answers are in `seen`."""

    base: str
    seen: list[bytes] = field(default_factory=list)

    def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """One request whose path goes over the wire as it is."""
        host, _, port = self.base.removeprefix("http://").partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        try:
            connection.putrequest(method, path)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        self.seen += [data, json.dumps(found).encode()]
        return response.status, found, data

    def rpc(self, method: str, params: Any, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        given = {"Content-Type": "application/json", "A2A-Version": "1.0", **(headers or {})}
        status, _, data = self.request("POST", "/a2a/jsonrpc", given, body)
        assert status == 200, (status, data)
        found: dict[str, Any] = json.loads(data)
        return found

    def send(self, text: str, headers: Mapping[str, str], **message: Any) -> dict[str, Any]:
        answer = self.rpc("SendMessage", send_params(text, message=message), headers)
        assert "result" in answer, answer
        task: dict[str, Any] = answer["result"]["task"]
        return task


@contextmanager
def app_served(make: Callable[[str], Any]) -> Iterator[Called]:
    """Serve an application, made in the loop that it runs on, on a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        base = f"http://127.0.0.1:{sock.getsockname()[1]}"
        config = uvicorn.Config(lambda: make(base), factory=True, log_config=None, lifespan="on")
        server = uvicorn.Server(config)

        async def run() -> None:
            await server.serve(sockets=[sock])

        thread = threading.Thread(target=asyncio.run, args=(run(),))
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive(), "the server did not start"
                threading.Event().wait(0.005)
            yield Called(base)
        finally:
            server.should_exit = True
            thread.join(15)
            assert not thread.is_alive(), "the server did not stop"


@contextmanager
def hosted(
    make: Callable[[], AgentEngineA2ABootstrap],
    agent: Any,
    *,
    app: Callable[..., Any] = Starlette,
    own: str = "/v1/responses",
    **mount: Any,
) -> Iterator[Called]:
    """Serve an agent in a runtime's application, which has a route of its own after A2A's."""

    def made(_: str) -> Any:
        bootstrap = make()
        runtime = app(lifespan=bootstrap.lifespan)
        bootstrap.mount(runtime, agent, **{"grace": 0.2, **mount})
        runtime.router.routes.append(Route(own, _own, methods=["GET", "POST"]))
        return runtime

    with app_served(made) as called:
        yield called


async def _own(_: Request) -> PlainTextResponse:
    return PlainTextResponse("the application's own")
