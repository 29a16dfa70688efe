"""Joins what a hosted runtime has: its stores, its agent's routes, and its calls of other agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Self

import httpx
from a2a.server.tasks import TaskStore
from starlette.applications import Starlette

from ksadk.a2a.approvals import Approvals
from ksadk.a2a.hosted.errors import BootstrapError
from ksadk.a2a.hosted.inbound import ContextStore, Inbound
from ksadk.a2a.hosted.metadata import RuntimeA2AMetadata
from ksadk.a2a.hosted.outbound import Outbound
from ksadk.a2a.hosted.verifiers import GatewayIdentityVerifier, GatewayProbeVerifier
from ksadk.a2a.options import Limits, ServerOptions
from ksadk.a2a.space.backend import SpaceBackend
from ksadk.a2a.space.client import A2ASpaceClient
from ksadk.a2a.space.control_plane import A2AControlPlaneClient
from ksadk.a2a.space.dispatcher import FLUSH_SECONDS
from ksadk.a2a.space.gateway import platform_client
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox, event_outbox_path
from ksadk.a2a.space.pinned_transport import ExternalTransport, PinnedTransport
from ksadk.a2a.stores.contexts import SQLiteA2AContextStore
from ksadk.a2a.stores.given import initialize
from ksadk.a2a.stores.opening import open_stores
from ksadk.a2a.stores.resume import A2AResumeStateStore, SQLiteA2AResumeStateStore
from ksadk.sessions import project_dir
from ksadk.settings import Settings


class AgentEngineA2ABootstrap:
    """One hosted runtime. `mount` its agent, and let `lifespan` be the application's, or call `start` before
    traffic and `stop` after it.

    task_store, context_store, resume_state_store: where tasks, sessions, and the handles of interrupted runs
        are kept. checkpoint_store is the agent's own. Whatever of them has an `initialize` is initialised at
        the start.
    gateway_identity_verifier, gateway_probe_verifier: who may call, and who may read the card.
    control_plane, hosted_http_client, event_outbox: what `client_for_space` calls other agents with.
    external_transport: what external agents are called through; without one none is called.
    inbound_enabled, outbound_enabled: of a runtime that does only the other, what is not needed is None.

    What is handed in stays open: whoever made it closes it, after `stop`. Raises `BootstrapError`.
    """

    def __init__(
        self,
        *,
        runtime_metadata: RuntimeA2AMetadata,
        task_store: TaskStore | None,
        context_store: ContextStore | None,
        checkpoint_store: Any,
        resume_state_store: A2AResumeStateStore | None,
        gateway_identity_verifier: GatewayIdentityVerifier | None,
        gateway_probe_verifier: GatewayProbeVerifier | None,
        external_transport: ExternalTransport | None,
        control_plane: SpaceBackend | None,
        hosted_http_client: httpx.AsyncClient | None,
        event_outbox: SQLiteA2AEventOutbox | None,
        inbound_enabled: bool = True,
        outbound_enabled: bool = True,
        public_egress_enabled: bool = False,
        outbox_retry_interval_seconds: float = 1.0,
    ) -> None:
        self.runtime_metadata = runtime_metadata
        self._stores = (task_store, context_store, checkpoint_store, resume_state_store)
        self._inbound = self._outbound = None
        if inbound_enabled:
            self._inbound = Inbound(
                runtime_metadata, task_store=task_store, context_store=context_store,
                resume_states=resume_state_store, identity_verifier=gateway_identity_verifier,
                probe_verifier=gateway_probe_verifier,
            )  # fmt: skip
        if outbound_enabled:
            self._outbound = Outbound(
                control_plane=control_plane, http=hosted_http_client, outbox=event_outbox,
                transport=external_transport, public_egress=public_egress_enabled,
                retry_seconds=outbox_retry_interval_seconds,
            )  # fmt: skip
        self._owned = AsyncExitStack()
        self._state: Literal["new", "started", "stopped"] = "new"
        self._delivered = False
        self._changing = asyncio.Lock()

    @classmethod
    def from_platform(
        cls,
        *,
        runtime_metadata: RuntimeA2AMetadata,
        gateway_identity_verifier: GatewayIdentityVerifier | None,
        gateway_probe_verifier: GatewayProbeVerifier | None,
        checkpoint_store: Any = None,
        external_transport: ExternalTransport | None = None,
        directory: Path | None = None,
        inbound_enabled: bool = True,
        outbound_enabled: bool = True,
        settings: Settings | None = None,
    ) -> Self:
        """A runtime of what the platform's variables say, with stores of its own in `directory`: the
        project's .agentengine, unless given. It closes what it has made in `stop`. Raises `StoreError`;
        `task_store_in_use` where another runtime has the file of tasks."""
        settings = settings or Settings.from_env()
        project = project_dir(settings)
        place = directory or project / ".agentengine"
        owned = AsyncExitStack()
        tasks = outbox = plane = http = None
        if outbound_enabled:
            plane = A2AControlPlaneClient.from_settings(settings)
            http = platform_client()
            outbox = SQLiteA2AEventOutbox(event_outbox_path(settings, project))
            for closes in (outbox.aclose, plane.aclose, http.aclose):
                owned.push_async_callback(closes)
        if inbound_enabled:
            dsn = settings.a2a_task_store_dsn or f"sqlite:///{place.absolute() / 'a2a_tasks.db'}"
            stores = open_stores(dsn, directory=project)
            owned.push_async_callback(stores.aclose)
            tasks = stores.tasks
        made = cls(
            runtime_metadata=runtime_metadata,
            task_store=tasks,
            context_store=SQLiteA2AContextStore(place / "a2a_contexts.db"),
            checkpoint_store=checkpoint_store,
            resume_state_store=SQLiteA2AResumeStateStore(place / "a2a_resume_states.db"),
            gateway_identity_verifier=gateway_identity_verifier,
            gateway_probe_verifier=gateway_probe_verifier,
            external_transport=external_transport or PinnedTransport(),
            control_plane=plane,
            hosted_http_client=http,
            event_outbox=outbox,
            inbound_enabled=inbound_enabled,
            outbound_enabled=outbound_enabled,
            public_egress_enabled=settings.a2a_enable_public_egress,
        )
        made._owned = owned
        return made

    @property
    def is_ready(self) -> bool:
        """Whether it takes requests."""
        return self._state == "started"

    def mount(
        self,
        app: Starlette,
        agent: Any,
        *,
        approvals: Approvals | None = None,
        remote_approvals: bool = False,
        limits: Limits | None = None,
        grace: float = ServerOptions.grace,
    ) -> None:
        """Put the A2A routes of the runtime's agent into `app`; once, and before `start`.

        agent: a `RuntimeAdapter`, a runner, or an agent as `a2a serve` takes it. Its reasoning is shown to
            nobody. The bootstrap closes it.
        approvals: who decides about calls of gateway tools that need approval.
        remote_approvals: whether verified callers may.
        grace: seconds that the agent has to finish when the runtime stops.
        """
        if self._inbound is None:
            raise BootstrapError("this runtime takes no calls", code="A2A_INBOUND_DISABLED")
        if self._state != "new":
            raise BootstrapError("the runtime's agent is mounted before it is started")
        options = ServerOptions(
            include_reasoning=False,
            behind_gateway=True,
            limits=limits or Limits(),
            remote_approvals=remote_approvals,
            grace=grace,
        )
        self._inbound.mount(app, agent, options=options, approvals=approvals, is_ready=lambda: self.is_ready)

    def client_for_space(self, space_id: str) -> A2ASpaceClient:
        """The client of a Space, which is closed with the runtime. `A2A_OUTBOUND_DISABLED` where the runtime
        calls nobody."""
        if self._outbound is None:
            raise BootstrapError(
                "this runtime calls no other agents: outbound A2A is disabled in it",
                code="A2A_OUTBOUND_DISABLED",
                hint="The platform enables it, with a control plane, an HTTP client and an event outbox.",
            )
        if self._state == "stopped":
            raise BootstrapError("the runtime has stopped, and calls nobody any more")
        return self._outbound.client(space_id)

    async def start(self) -> None:
        """Make ready: the four stores (of tasks, contexts, checkpoints and resume states, in this order),
        then the dispatcher, then the tasks that an earlier process left. Once ready, it does nothing.
        A runtime that cannot be made ready is stopped."""
        async with self._changing:
            if self._state == "started":
                return
            if self._state == "stopped":
                raise BootstrapError("the runtime has stopped, and is not started again")
            try:
                for store in self._stores:
                    await initialize(store)
                if self._outbound is not None:
                    await self._outbound.start()
                if self._inbound is not None:
                    await self._inbound.start()
            except BaseException:
                await self._end(0.0)
                raise
            self._state = "started"

    async def stop(self, flush_timeout_seconds: float = FLUSH_SECONDS) -> bool:
        """Let the agent finish, deliver events for so many seconds, and end; whether no event is left. What
        is left stays in the outbox."""
        async with self._changing:
            if self._state != "stopped":
                await self._end(flush_timeout_seconds)
            return self._delivered

    async def _end(self, flush_timeout_seconds: float) -> None:
        self._state = "stopped"
        async with self._owned:  # closed whatever else fails, and last
            try:
                if self._inbound is not None:
                    await self._inbound.stop()
            finally:
                self._delivered = self._outbound is None or await self._outbound.stop(flush_timeout_seconds)

    @asynccontextmanager
    async def lifespan(self, _: Any) -> AsyncIterator[None]:
        """Of the application that the runtime is in: `Starlette(lifespan=bootstrap.lifespan)`."""
        await self.start()
        try:
            yield
        finally:
            await self.stop()
