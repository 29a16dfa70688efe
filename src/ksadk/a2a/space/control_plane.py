"""Asks the Space control plane for agents, permits and credentials, and tells it what became of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

import httpx

from ksadk.a2a.parts import encodable
from ksadk.a2a.space import answers
from ksadk.a2a.space.asking import TIMEOUT, ask, checked_url
from ksadk.a2a.space.errors import A2AControlPlaneError
from ksadk.a2a.space.events import TaskEvent, rfc3339
from ksadk.a2a.space.gateway import HostedGateway, platform_client
from ksadk.a2a.space.ids import checked_id
from ksadk.a2a.space.listing import PAGE_SIZE, read_all
from ksadk.a2a.space.models import AgentListing, Credential, Operation, PreparedOperation, RemoteTask
from ksadk.a2a.space.tokens import Audience, WorkloadTokens
from ksadk.a2a.wire import Extras, without
from ksadk.settings import Settings

RETRIES = 2
BIND_RETRIES = 6
FIRST_PAUSE = 0.2
"""How often a request is made again where that may help, and the seconds before the first time, doubled for
each further one. The agent works already when its task is bound, so that is tried for 12 seconds."""

ACTIONS_PATH = "/agentengine/internal/v1/a2a"


class A2AControlPlaneClient:
    """The six internal actions of the control plane at `url`. Whatever goes wrong with them is an
    `A2AControlPlaneError`, or a `WorkloadTokenError` before anything was sent.

    Every action is one that may be asked for again: those that change something carry a token, or ids that
    make the second time a no-op. So what fails on the way, or with a 5xx, is tried again; but for `append`,
    which whoever keeps the events repeats.
    """

    def __init__(
        self,
        url: str,
        tokens: WorkloadTokens,
        *,
        gateway_origins: Sequence[str] = (),
        other_secrets: Iterable[str] = (),
        httpx_client: httpx.AsyncClient | None = None,
        timeout: float = TIMEOUT,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = checked_url(url, "KSADK_A2A_CONTROL_PLANE_URL")
        self._tokens = tokens
        self._gateway = HostedGateway(tokens, control_plane_url=self.url, origins=gateway_origins)
        self._other_secrets = frozenset(filter(None, other_secrets))
        self._timeout = timeout
        self._sleep = sleep
        self._http = httpx_client or platform_client(timeout=timeout)
        self._owns_http = httpx_client is None

    @classmethod
    def from_settings(cls, settings: Settings, *, httpx_client: httpx.AsyncClient | None = None) -> Self:
        """The control plane that KSADK_A2A_CONTROL_PLANE_URL names."""
        return cls(
            settings.a2a_control_plane_url,
            WorkloadTokens(settings.a2a_token_dir),
            gateway_origins=settings.a2a_gateway_origins,
            other_secrets=(settings.a2a_service_token, settings.a2a_access_key, settings.a2a_secret_key),
            httpx_client=httpx_client,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the connections, if they are this client's own."""
        if self._owns_http:
            await self._http.aclose()

    def hosted_extras(self, prepared: PreparedOperation) -> Extras:
        """The gateway token and the permit, for an address that may see them."""
        return self._gateway.extras(prepared)

    def secrets(self) -> frozenset[str]:
        """The workload tokens, and what else is configured for the platform."""
        return self._tokens.secrets() | self._other_secrets

    async def list_agents(
        self,
        space_id: str,
        *,
        prompt: str = "",
        skill_id: str = "",
        include_blocked: bool = False,
        if_none_match: str = "",
        page_size: int = PAGE_SIZE,
    ) -> AgentListing:
        """ListA2ASpaceAgents, all of its pages."""
        wanted: dict[str, Any] = {"A2ASpaceId": checked_id(space_id, "a Space")}
        wanted |= {"Prompt": encodable(prompt)} if prompt else {}
        wanted |= {"SkillId": skill_id} if skill_id else {}
        wanted |= {"IncludeBlocked": True} if include_blocked else {}
        size = {"PageSize": page_size} if page_size != PAGE_SIZE else {}

        async def page(cursor: str, etag: str) -> AgentListing:
            asked = wanted | ({"IfNoneMatch": etag} if etag else {}) | ({"Cursor": cursor} if cursor else {})
            data = await self._ask("ListA2ASpaceAgents", "a2a-registry", asked | size)
            listing = answers.understood("ListA2ASpaceAgents", data, AgentListing.from_payload)
            if listing.space_id != space_id:
                raise answers.invalid("ListA2ASpaceAgents", "the agents of another Space")
            return listing

        return await read_all(page, "ListA2ASpaceAgents", if_none_match)

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
        """PrepareA2ACall. The same token gives the same task."""
        wanted = {
            "A2ASpaceId": checked_id(space_id, "a Space"),
            "TargetA2AAgentId": checked_id(agent_id, "an agent"),
            "MessageId": message_id,
            "MessageSha256": message_sha256,
            "IdempotencyToken": idempotency_token,
        }
        wanted |= {"ExpectedVersionId": expected_version_id} if expected_version_id else {}
        prepared = await self._prepared("PrepareA2ACall", wanted)
        if prepared.target.agent_id != agent_id:
            raise answers.invalid("PrepareA2ACall", "a call of another agent")
        if expected_version_id and prepared.target.version_id != expected_version_id:
            raise answers.invalid("PrepareA2ACall", "a call of another version than was asked for")
        return prepared

    async def prepare_task_operation(
        self,
        task_id: str,
        operation: Operation,
        *,
        message_id: str = "",
        message_sha256: str = "",
        idempotency_token: str = "",
    ) -> PreparedOperation:
        """PrepareA2ATaskOperation. `send_message` takes all three, `cancel_task` the token, others none."""
        wanted = {"A2ATaskId": checked_id(task_id, "a task"), "Operation": operation}
        if operation == "send_message":
            wanted |= {"MessageId": message_id, "MessageSha256": message_sha256}
        if operation in ("send_message", "cancel_task"):
            wanted |= {"IdempotencyToken": idempotency_token}
        prepared = await self._prepared("PrepareA2ATaskOperation", wanted)
        if prepared.task_id != task_id:
            raise answers.invalid("PrepareA2ATaskOperation", "an operation on another task")
        return prepared

    async def bind_remote_task(self, task_id: str, remote: RemoteTask, observed_at: datetime) -> None:
        """BindA2ARemoteTask. To bind the same ids again changes nothing."""
        wanted = {
            "A2ATaskId": task_id, "RemoteTaskId": remote.task_id, "ObservedAt": rfc3339(observed_at)
        }  # fmt: skip
        wanted |= {"RemoteContextId": remote.context_id} if remote.context_id else {}
        await self._ask("BindA2ARemoteTask", "a2a-task-sink", wanted, retries=BIND_RETRIES)

    async def append(self, platform_task_id: str, events: Sequence[TaskEvent]) -> None:
        """AppendA2ATaskEvents, once: events that are there already are not stored again."""
        wanted = {"A2ATaskId": platform_task_id, "Events": [event.to_payload() for event in events]}
        await self._once("AppendA2ATaskEvents", "a2a-task-sink", wanted, ())

    async def resolve_credential(self, prepared: PreparedOperation) -> Credential:
        """ResolveA2ACredential, for an external agent's call."""
        wanted = {
            "A2ATaskId": prepared.task_id,
            "CredentialHandle": prepared.credential_handle,
            "CallPermit": prepared.call_permit,
        }
        hidden = tuple(filter(None, (prepared.call_permit, prepared.credential_handle)))
        data = await self._ask("ResolveA2ACredential", "credential-broker", wanted, hidden)
        return answers.understood("ResolveA2ACredential", data, Credential.from_payload)

    async def _prepared(self, action: str, wanted: Mapping[str, Any]) -> PreparedOperation:
        data = await self._ask(action, "a2a-registry", wanted)
        return answers.understood(action, data, PreparedOperation.from_payload)

    async def _ask(
        self,
        action: str,
        audience: Audience,
        wanted: Mapping[str, Any],
        hidden: tuple[str, ...] = (),
        *,
        retries: int = RETRIES,
    ) -> dict[str, Any]:
        """The Data of an action, asked for again where that may help."""
        pause = FIRST_PAUSE
        for left in range(retries, -1, -1):
            try:
                return await self._once(action, audience, wanted, hidden)
            except A2AControlPlaneError as error:
                passing = error.retryable and (int(error.code) >= 500 or int(error.code) == 429)
                if not left or not passing:
                    raise
            await self._sleep(pause)
            pause *= 2
        raise AssertionError("the last try returns or raises")

    async def _once(
        self, action: str, audience: Audience, wanted: Mapping[str, Any], hidden: tuple[str, ...]
    ) -> dict[str, Any]:
        token = self._tokens.token(audience)
        headers = {"Accept": "application/json", "Authorization": f"Bearer {token}"}
        answer = await ask(
            self._http, action, f"{self.url}{ACTIONS_PATH}/{action}", wanted, headers, timeout=self._timeout
        )
        return answers.opened(action, answer.status, without((token, *hidden), answer.body))
