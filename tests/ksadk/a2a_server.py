"""Agents to be served in tests, and a real server on a real port to serve them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from ksadk.a2a.card import build_agent_card
from ksadk.a2a.options import ServerOptions
from ksadk.a2a.runners.base import Answer, Call, Event, InputRequired, Run, RunnerError
from ksadk.a2a.server import A2AServer
from ksadk.a2a.stores.opening import open_stores

Script = Callable[[Call, "ScriptedRun"], AsyncIterator[Event]]


class ScriptedRun:
    """Runs an async generator. After a question, the script gets the answer from `answered`."""

    def __init__(self, script: Script, call: Call, *, cancelable: bool) -> None:
        self._events = script(call, self)
        self._cancelable = cancelable
        self._task: asyncio.Task[Any] | None = None
        self.answered: Answer = Answer()

    async def events(self) -> AsyncIterator[Event]:
        while True:
            self._task = asyncio.ensure_future(anext(self._events))
            try:
                event = await asyncio.shield(self._task)
            except StopAsyncIteration:
                return
            except asyncio.CancelledError:
                if self._task.cancelled():
                    return
                raise
            yield event
            if isinstance(event, InputRequired):
                return

    async def answer(self, answer: Answer) -> None:
        self.answered = answer

    async def cancel(self) -> None:
        if not self._cancelable:
            raise RunnerError("it does not look up", code="not_cancelable")
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await self._task


@dataclass
class Scripted:
    """A runner of one script. `resumed`, if given, is the script that goes on after a restart."""

    script: Script
    input_modes: tuple[str, ...] = ("text/plain",)
    output_modes: tuple[str, ...] = ("text/plain",)
    messages: bool = False
    cancelable: bool = True
    resumed: Script | None = None
    calls: list[Call] = field(default_factory=list)
    states: list[Mapping[str, Any]] = field(default_factory=list)

    def start(self, call: Call) -> Run:
        self.calls.append(call)
        return ScriptedRun(self.script, call, cancelable=self.cancelable)

    def restore(self, call: Call, state: Mapping[str, Any]) -> Run | None:
        self.states.append(state)
        return ScriptedRun(self.resumed, call, cancelable=True) if self.resumed else None

    async def aclose(self) -> None:
        pass


class Served:
    """A served agent: `rpc` and `rest` call it."""

    def __init__(self, server: A2AServer, base: str) -> None:
        self.server = server
        self.base = base
        self.http = httpx.Client(base_url=base, headers={"A2A-Version": "1.0"}, timeout=20)

    def rpc(self, method: str, params: Any, **headers: str) -> dict[str, Any]:
        """The body of one JSON-RPC answer."""
        response = self.http.post(
            "/a2a/jsonrpc",
            json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
            headers=headers,
        )
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body

    def send(self, *parts: Any, message: Mapping[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """The result of SendMessage: a task, or a message."""
        body = self.rpc("SendMessage", send_params(*parts, message=message, **params))
        assert "result" in body, body
        answer: dict[str, Any] = body["result"]
        return answer.get("task") or answer["message"]

    def get(self, task_id: str) -> dict[str, Any]:
        """The task as it stands."""
        task: dict[str, Any] = self.rpc("GetTask", {"id": task_id})["result"]
        return task

    def stream(self, *parts: Any, message: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """The results of SendStreamingMessage, as they come."""
        import json

        request = {
            "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage",
            "params": send_params(*parts, message=message),
        }  # fmt: skip
        with self.http.stream("POST", "/a2a/jsonrpc", json=request) as response:
            for line in response.iter_lines():
                if line.startswith("data:"):
                    yield json.loads(line.removeprefix("data:"))["result"]


def send_params(*parts: Any, message: Mapping[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    """Parameters of SendMessage; a string is a text part."""
    written = [{"text": part} if isinstance(part, str) else part for part in parts or ("hi",)]
    return {
        "message": {"messageId": "m-1", "role": "ROLE_USER", "parts": written, **(message or {})},
        **params,
    }


@contextmanager
def serving(
    runner: Any,
    dsn: str = "sqlite:///:memory:",
    *,
    directory: Path | None = None,
    url: str = "",
    options: ServerOptions | None = None,
    grace: float = 0.2,
    **more: Any,
) -> Iterator[Served]:
    """Serve an agent on a free port of this machine, with uvicorn, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        base = f"http://127.0.0.1:{sock.getsockname()[1]}"
        card = build_agent_card(name="tested", base_url=url or base, input_modes=runner.input_modes)
        options = options or ServerOptions(grace=grace)
        box: list[A2AServer] = []
        config = uvicorn.Config(lambda: box[0].app, factory=True, log_config=None, lifespan="on")
        http = uvicorn.Server(config)

        loops: list[asyncio.AbstractEventLoop] = []

        async def run() -> None:
            loops.append(asyncio.get_running_loop())
            box.append(A2AServer(runner, card, open_stores(dsn, directory=directory), options, **more))
            await http.serve(sockets=[sock])

        thread = threading.Thread(target=asyncio.run, args=(run(),))
        thread.start()
        try:
            while not http.started:
                assert thread.is_alive(), "the server did not start"
                threading.Event().wait(0.005)
            yield Served(box[0], base)
        finally:
            http.should_exit = True
            if loops and loops[0].is_running():  # as a signal does where the server is run for real
                asyncio.run_coroutine_threadsafe(box[0].drain(), loops[0])
            thread.join(15)
            assert not thread.is_alive(), "the server did not stop"


def until(true: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)
