"""What bench/serving.py measures `a2a serve` against: `python bench/_serving.py KIND DIRECTORY`.

The SDK's own server, put together as its documentation says, with its store in memory (`memory`) or its store
in SQLite (`database`), and the agent that is served on all sides. The port is printed once it is bound.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import uvicorn
from a2a.helpers.proto_helpers import new_text_artifact
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskStore
from a2a.types import (
    AgentCard,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette
from starlette.types import ASGIApp

from ksadk.a2a.card import JSONRPC_PATH, REST_PATH, build_agent_card

CHUNKS = 20


async def echo(text: str) -> AsyncIterator[str]:
    """The agent: says the text, or to `stream NAME` says NAME and a number, twenty times."""
    word, _, name = text.partition(" ")
    if word != "stream":
        yield text
        return
    for number in range(CHUNKS):
        yield f"{name}:{number} "
        await asyncio.sleep(0)


class EchoExecutor(AgentExecutor):
    """The agent as the SDK's examples write one."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        ids = {"task_id": context.task_id, "context_id": context.context_id}
        status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
        task = Task(
            id=context.task_id, context_id=context.context_id, status=status, history=[context.message]
        )
        await event_queue.enqueue_event(task)
        await self._status(event_queue, TaskState.TASK_STATE_WORKING, ids)
        append = False
        async for chunk in echo(context.get_user_input()):
            artifact = new_text_artifact(
                name="response", text=chunk, artifact_id=f"{context.task_id}-response"
            )
            await event_queue.enqueue_event(TaskArtifactUpdateEvent(**ids, artifact=artifact, append=append))
            append = True
        await self._status(event_queue, TaskState.TASK_STATE_COMPLETED, ids)

    async def _status(self, queue: EventQueue, state: TaskState, ids: dict[str, str | None]) -> None:
        status = TaskStatus(state=state)
        status.timestamp.GetCurrentTime()
        await queue.enqueue_event(TaskStatusUpdateEvent(**ids, status=status))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def bare(store: TaskStore, card: dict[str, object]) -> ASGIApp:
    parsed = ParseDict(card, AgentCard())
    handler = DefaultRequestHandlerV2(EchoExecutor(), store, parsed)
    return Starlette(
        routes=[
            *create_agent_card_routes(parsed),
            *create_jsonrpc_routes(handler, JSONRPC_PATH),
            *create_rest_routes(handler, path_prefix=REST_PATH),
        ]
    )


def database(directory: Path, card: dict[str, object]) -> ASGIApp:
    from sqlalchemy.ext.asyncio import create_async_engine

    return bare(DatabaseTaskStore(create_async_engine(f"sqlite+aiosqlite:///{directory}/sdk.db")), card)


def main(kind: str, directory: Path) -> None:
    # With its protocol named, since asyncio switches Nagle off for such sockets only: 40 ms a request.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    card = build_agent_card(name="echo", base_url=f"http://127.0.0.1:{port}")
    app = database(directory, card) if kind == "database" else bare(InMemoryTaskStore(), card)
    print(port, flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False, backlog=4096)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
