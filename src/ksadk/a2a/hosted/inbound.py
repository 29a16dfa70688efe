"""The side of a hosted runtime that is called: one agent, in the runtime's application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from a2a.server.tasks import TaskStore
from starlette.applications import Starlette

from ksadk.a2a.approvals import Approvals
from ksadk.a2a.hosted.agents import served_runner
from ksadk.a2a.hosted.contexts import ScopeContexts
from ksadk.a2a.hosted.errors import BootstrapError, needed
from ksadk.a2a.hosted.identity import caller_of
from ksadk.a2a.hosted.metadata import RuntimeA2AMetadata
from ksadk.a2a.hosted.mounting import A2ARoute
from ksadk.a2a.hosted.verifiers import GatewayIdentityVerifier, GatewayProbeVerifier, HostedAdmission
from ksadk.a2a.options import ServerOptions
from ksadk.a2a.server import A2AServer
from ksadk.a2a.stores.contexts import A2AContextIdentity
from ksadk.a2a.stores.given import stores_of
from ksadk.a2a.stores.resume import A2AResumeStateStore


class ContextStore(Protocol):
    """Gives each context of each caller a session; `SQLiteA2AContextStore` is one."""

    async def resolve_or_create(
        self, identity: A2AContextIdentity, external_id: str, *, isolation_scope: str | None = None
    ) -> str:
        """The session of a caller's context."""


class Inbound:
    """Serves an agent to whom the gateway has verified."""

    def __init__(
        self,
        metadata: RuntimeA2AMetadata,
        *,
        task_store: TaskStore | None,
        context_store: ContextStore | None,
        resume_states: A2AResumeStateStore | None,
        identity_verifier: GatewayIdentityVerifier | None,
        probe_verifier: GatewayProbeVerifier | None,
    ) -> None:
        what = "inbound"
        self._metadata = metadata
        self._task_store = needed(task_store, "task_store", what)
        self._contexts = needed(context_store, "context_store", what)
        self._resume_states = needed(resume_states, "resume_state_store", what)
        self._admission = HostedAdmission(
            metadata,
            needed(identity_verifier, "gateway_identity_verifier", what),
            needed(probe_verifier, "gateway_probe_verifier", what),
        )
        self.server: A2AServer | None = None

    def mount(
        self,
        app: Starlette,
        agent: Any,
        *,
        options: ServerOptions,
        approvals: Approvals | None,
        is_ready: Callable[[], bool],
    ) -> None:
        """Put the agent's routes into `app`, once."""
        if self.server is not None:
            raise BootstrapError("the runtime's agent is mounted already")
        runner = served_runner(agent, self._resume_states)
        self.server = A2AServer(
            runner,
            self._metadata.card(input_modes=runner.input_modes, output_modes=runner.output_modes),
            stores_of(self._task_store),
            options,
            approvals=approvals,
            contexts=ScopeContexts(),
            sessions=self._session,
        )
        app.router.routes.append(A2ARoute(self.server, self._admission, is_ready=is_ready))

    async def start(self) -> None:
        """Take up what waits, and end what an earlier process did not finish."""
        if self.server is not None:
            await self.server.start()

    async def stop(self) -> None:
        """Let the agents at work finish, and release the agent."""
        if self.server is not None:
            await self.server.drain()
            await self.server.aclose()

    async def _session(self, owner: str, context_id: str) -> str:
        scope = self._metadata.a2a_agent_id
        return await self._contexts.resolve_or_create(caller_of(owner), context_id, isolation_scope=scope)
