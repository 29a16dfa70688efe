"""A2A routes in an application of one's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from a2a.server.context import ServerCallContext
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.server.tasks import TaskStore
from starlette.applications import Starlette
from starlette.requests import Request

from ksadk.a2a.callers import CallContexts
from ksadk.a2a.card import build_agent_card
from ksadk.a2a.hosted.agents import InOnePiece, served_runner
from ksadk.a2a.hosted.contexts import ScopeContexts
from ksadk.a2a.hosted.mounting import A2ARoute
from ksadk.a2a.options import Limits, ServerOptions
from ksadk.a2a.server import A2AServer
from ksadk.a2a.stores.base import TASK_TABLE
from ksadk.a2a.stores.given import close_task_store, initialize, stores_of
from ksadk.a2a.stores.opening import build_a2a_task_store
from ksadk.a2a.stores.resume import A2AResumeStateStore, InMemoryA2AResumeStateStore

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine


@dataclass(frozen=True)
class A2AConfig:
    """How an agent is served in an application.

    enabled: whether it is served at all.
    base_url: where callers reach the application; the card's interfaces are below it.
    agent_name, description, version, skills, streaming: of the card, as `build_agent_card` takes them.
    prefer_stream: whether text is sent piece by piece, as it comes; otherwise once it is whole.
    include_reasoning: whether callers see the agent's reasoning.
    task_store_dsn, task_table, create_table: where tasks are kept, as `build_a2a_task_store` takes them; in
        memory unless given.
    allowed_hosts: names that the application is called by, beside those of this machine and of `base_url`;
        `*` is every name, for an application before which something else looks at them.
    """

    enabled: bool = False
    base_url: str = "http://127.0.0.1:8000"
    agent_name: str = "agent"
    description: str = ""
    version: str = "1.0.0"
    skills: Sequence[str | Mapping[str, Any]] = ()
    streaming: bool = True
    prefer_stream: bool = True
    include_reasoning: bool = False
    task_store_dsn: str | None = field(default=None, repr=False)  # it may hold a password
    task_table: str = TASK_TABLE
    create_table: bool = True
    allowed_hosts: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


def add_a2a_protocol_routes(
    app: Starlette,
    runner: Any,
    config: A2AConfig,
    *,
    task_adapter: Any,
    task_store: TaskStore | None = None,
    engine: AsyncEngine | None = None,
    context_builder: ServerCallContextBuilder | None = None,
    resume_state_store: A2AResumeStateStore | None = None,
) -> A2AServer | None:
    """Serve an agent over A2A in a Starlette or FastAPI application, with its card; None where the
    configuration does not enable it.

    runner: an agent as `a2a serve` takes it, or a runner.
    task_adapter: what runs its tasks instead, a `RuntimeAdapter` or a runner; None where nothing does.
    task_store, engine: where tasks are kept, in place of the configuration's DSN. They stay their maker's.
    context_builder: says whose tasks a request is about; a request that it raises for gets a 401. Without
        one all callers are the same, and headers that state an identity are ignored.

    Nothing but A2A's own paths is taken: routes that the application adds later are reached. The agent is
    made ready and closed by the application's lifespan.
    """
    if not config.enabled:
        return None
    states = resume_state_store or InMemoryA2AResumeStateStore()
    served = served_runner(runner if task_adapter is None else task_adapter, states)
    if not config.prefer_stream:
        served = InOnePiece(served)
    tasks = task_store or build_a2a_task_store(
        config.task_store_dsn, engine=engine, table_name=config.task_table, create_table=config.create_table
    )
    server = A2AServer(
        served,
        build_agent_card(
            name=config.agent_name, base_url=config.base_url, description=config.description,
            version=config.version, skills=config.skills, streaming=config.streaming,
            input_modes=served.input_modes, output_modes=served.output_modes,
        ),
        stores_of(tasks),
        ServerOptions(
            include_reasoning=config.include_reasoning,
            allowed_hosts=config.allowed_hosts,
            limits=config.limits,
        ),
        contexts=ScopeContexts(),
    )  # fmt: skip
    app.router.routes.append(A2ARoute(server, _ByContext(context_builder or CallContexts())))
    owned = tasks if task_store is None and engine is None else None
    _live_with(app, server, [tasks, states], owned)
    return server


class _ByContext:
    """Lets in every request that has a call context; everybody may read the card."""

    def __init__(self, contexts: ServerCallContextBuilder) -> None:
        self._contexts = contexts

    async def admit(self, request: Request, *, card: bool) -> ServerCallContext | None:
        """See `Admission`."""
        if card:
            return None
        context = self._contexts.build(request)
        if not isinstance(context, ServerCallContext):
            raise TypeError(f"the context builder gave no call context, but {type(context).__name__}")
        return context


def _live_with(app: Starlette, server: A2AServer, stores: list[object], owned: TaskStore | None) -> None:
    """Make the server ready before the application is, and close it after it."""
    around = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(given: Any) -> AsyncIterator[Any]:
        async with AsyncExitStack() as closing:
            if owned is not None:
                closing.push_async_callback(close_task_store, owned)
            closing.push_async_callback(server.aclose)
            for store in stores:
                await initialize(store)
            await server.start()
            closing.push_async_callback(server.drain)
            async with around(given) as state:
                yield state

    app.router.lifespan_context = lifespan
