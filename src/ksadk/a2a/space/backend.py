"""What a client asks for agents and permits: a control plane, or the public service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from ksadk.a2a.space.control_plane import A2AControlPlaneClient
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.models import AgentListing, Credential, Operation, PreparedOperation, RemoteTask
from ksadk.a2a.wire import Extras
from ksadk.settings import Settings


class SpaceBackend(Protocol):
    """Who knows the agents of Spaces and prepares calls of them."""

    async def list_agents(
        self,
        space_id: str,
        *,
        prompt: str = "",
        skill_id: str = "",
        include_blocked: bool = False,
        if_none_match: str = "",
    ) -> AgentListing:
        """All agents, or that none of them has changed since that ETag."""

    async def prepare_call(
        self,
        space_id: str,
        agent_id: str,
        *,
        message_id: str,
        message_sha256: str,
        idempotency_token: str,
        expected_version_id: str = "",
    ) -> PreparedOperation:
        """A new task of an agent, or the one that the token has begun already."""

    async def prepare_task_operation(
        self,
        task_id: str,
        operation: Operation,
        *,
        message_id: str = "",
        message_sha256: str = "",
        idempotency_token: str = "",
    ) -> PreparedOperation:
        """An operation on a task."""

    async def bind_remote_task(self, task_id: str, remote: RemoteTask, observed_at: datetime) -> None:
        """Tell which task of the agent's a task is."""

    async def append(self, platform_task_id: str, events: Sequence[TaskEvent]) -> None:
        """Tell what happened to a task."""

    async def resolve_credential(self, prepared: PreparedOperation) -> Credential:
        """What an external agent is shown."""

    def hosted_extras(self, prepared: PreparedOperation) -> Extras:
        """What goes with a call of a hosted agent."""

    def secrets(self) -> frozenset[str]:
        """What no external agent may be sent."""

    async def aclose(self) -> None:
        """End the connections."""


def space_backend(settings: Settings) -> SpaceBackend:
    """Who lists agents and prepares calls, as it is configured: the control plane, else the public service.
    Close it with `aclose`."""
    if settings.a2a_control_plane_url:
        return A2AControlPlaneClient.from_settings(settings)
    from ksadk.a2a.space.public_actions import A2APublicActionsClient  # with what signs requests

    return A2APublicActionsClient.from_settings(settings)
