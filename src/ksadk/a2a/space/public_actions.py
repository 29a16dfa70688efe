"""The public Space service: it lists a Space's agents, and leaves it to the caller to call them.

Nothing is permitted, recorded or resolved there: tasks are known to this process alone. What proves the
caller to the service goes to the service, and never to an agent's address.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self, get_args
from uuid import uuid4

import httpx
from httpx_auth import AWS4Auth

from ksadk.a2a.remote_card import RemoteCard, choose_interface
from ksadk.a2a.space import answers
from ksadk.a2a.space.asking import ask, checked_url
from ksadk.a2a.space.errors import A2AControlPlaneError, A2ASpaceError, AgentNotCallable, RemoteTaskError
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.fields import InvalidPayload, object_of, text
from ksadk.a2a.space.gateway import HostedGateway, platform_client
from ksadk.a2a.space.ids import checked_id
from ksadk.a2a.space.listing import MAX_PAGES
from ksadk.a2a.space.models import (
    AgentListing,
    Credential,
    Operation,
    PreparedOperation,
    PreparedTarget,
    RemoteTask,
    Route,
    Source,
    SpaceAgent,
)
from ksadk.a2a.space.tokens import WorkloadTokens
from ksadk.a2a.wire import Extras, without
from ksadk.settings import Settings

ACTION = "ListAToASpaceAgents"
PUBLIC_HOST = "aicp.api.ksyun.com"
"""The public gateway, which takes signed requests only."""
API_VERSION = "2024-06-12"
DEFAULT_REGION = "cn-beijing-6"
PAGE_SIZE = 50
MAX_TASKS = 10_000
"""How many tasks this process remembers."""

_SUCCESS = (None, 0, 200, "0", "200")


@dataclass(frozen=True)
class PublicService:
    """Where the service is, and what proves who asks. Secrets are in no `repr`."""

    base: str
    token: str = field(default="", repr=False)
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    account_id: str = ""
    region: str = DEFAULT_REGION
    pre_online: bool = False

    @classmethod
    def from_settings(cls, settings: Settings) -> PublicService:
        """The service that KSADK_A2A_SERVICE_URL names, or KSADK_A2A_SERVICE_ENDPOINT."""
        url = settings.a2a_service_url or f"{settings.a2a_service_scheme}://{settings.a2a_service_endpoint}"
        region = settings.a2a_service_region or DEFAULT_REGION
        service = cls(
            base=checked_url(url, "KSADK_A2A_SERVICE_URL"),
            token=settings.a2a_service_token,
            access_key=settings.a2a_access_key,
            secret_key=settings.a2a_secret_key,
            account_id=settings.a2a_account_id,
            region=settings.pre_control_region if region == "pre-online" else region,
            pre_online=region == "pre-online",
        )
        for name in ("token", "access_key", "account_id", "region"):
            if not re.fullmatch(r"[\x21-\x7e]*", getattr(service, name)):
                raise A2ASpaceError(
                    f"the {name.replace('_', ' ')} of the Space service holds what no header can",
                    code="A2A_CONTROL_PLANE_ADDRESS",
                )
        if service.is_signed and not (service.access_key and service.secret_key):
            raise A2ASpaceError(
                f"{PUBLIC_HOST} takes signed requests, and a key is not set",
                code="A2A_CONTROL_PLANE_DENIED",
                hint="Set KSADK_A2A_ACCESS_KEY and KSADK_A2A_SECRET_KEY.",
            )
        return service

    @property
    def is_signed(self) -> bool:
        """Whether the host is the very one of the public gateway: one that only looks like it is not signed
        for."""
        url = httpx.URL(self.base)
        return url.scheme == "https" and url.host == PUBLIC_HOST and url.port is None

    @property
    def url(self) -> str:
        """Where the action is."""
        if self.is_signed:
            return f"https://{PUBLIC_HOST}/?Action={ACTION}&Version={API_VERSION}"
        return f"{self.base}/agentengine/api/v1/{ACTION}"

    def headers(self) -> dict[str, str]:
        """The headers of a request, but for the signature."""
        headers = {"Accept": "application/json"}
        if self.account_id:
            headers["X-Ksc-Account-Id"] = self.account_id
        if not self.is_signed:
            return headers | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        headers |= {
            "X-Ksc-Region": self.region,
            "X-Ksc-Source": "ksadk-runtime",
            "X-Ksc-Request-Id": str(uuid4()),
            "X-Action": ACTION,
            "X-Version": API_VERSION,
        }
        return headers | ({"X-KSC-CUSTOM-SOURCE": "pre"} if self.pre_online else {})

    def auth(self) -> httpx.Auth | None:
        """What signs a request."""
        if not self.is_signed:
            return None
        return AWS4Auth(self.access_key, self.secret_key, self.region, "aicp")

    def secrets(self) -> frozenset[str]:
        """What no message and no other server may see."""
        return frozenset(filter(None, (self.token, self.access_key, self.secret_key)))


class A2APublicActionsClient:
    """Does what `A2ASpaceClient` asks of a control plane with the public service alone."""

    def __init__(
        self, service: PublicService, gateway: HostedGateway, *, httpx_client: httpx.AsyncClient | None = None
    ) -> None:
        self._service = service
        self._gateway = gateway
        self._http = httpx_client or platform_client()
        self._owns_http = httpx_client is None
        self._agents: dict[str, SpaceAgent] = {}
        self._tasks: OrderedDict[str, PreparedOperation] = OrderedDict()
        self._begun: dict[str, str] = {}

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Of the service that the variables name. A hosted agent is called with the gateway's workload token,
        at the origins of KSADK_A2A_GATEWAY_ORIGINS only."""
        tokens = WorkloadTokens(settings.a2a_token_dir)
        return cls(
            PublicService.from_settings(settings), HostedGateway(tokens, origins=settings.a2a_gateway_origins)
        )

    async def aclose(self) -> None:
        """End the connections, if they are this client's own."""
        if self._owns_http:
            await self._http.aclose()

    def hosted_extras(self, prepared: PreparedOperation) -> Extras:
        """The gateway token, for an address that may see it; there is no permit."""
        return self._gateway.extras(prepared)

    def secrets(self) -> frozenset[str]:
        """The token and the keys of the service, and the workload tokens."""
        return self._service.secrets() | self._gateway.secrets()

    async def list_agents(
        self,
        space_id: str,
        *,
        prompt: str = "",
        skill_id: str = "",
        include_blocked: bool = False,
        if_none_match: str = "",
    ) -> AgentListing:
        """ListAToASpaceAgents, all of its pages. The service knows neither prompts nor ETags: a skill is
        looked for in the cards, and a prompt does not narrow anything."""
        agents: dict[str, SpaceAgent] = {}
        for number in range(1, MAX_PAGES + 1):
            page, total = await self._page(space_id, "" if include_blocked else "available", number)
            before = len(agents)
            agents |= {agent.agent_id: agent for agent in page}
            whole = len(page) < PAGE_SIZE if total is None else len(agents) >= total
            if whole or len(agents) == before:
                break
        self._agents |= agents
        wanted = [
            agent
            for agent in agents.values()
            if not skill_id or any(skill.id == skill_id for skill in agent.agent_card.skills)
        ]
        return AgentListing(space_id, tuple(wanted))

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
        """A task of an agent that the service lists, at the first interface of its card."""
        begun = self._begun.get(idempotency_token)
        if begun is not None and begun in self._tasks:
            return self._tasks[begun]
        if agent_id not in self._agents:
            await self.list_agents(space_id, include_blocked=True)
        agent = self._agents.get(agent_id)
        if agent is None:
            raise A2AControlPlaneError(
                404, f"the Space {space_id} lists no agent {agent_id}", field="A2AAgentId", action=ACTION
            )
        if not agent.callable:
            raise AgentNotCallable(agent_id, agent.blocked_reason)
        interface = choose_interface(RemoteCard(dict(agent.card), agent.agent_card, f"the agent {agent_id}"))
        prepared = PreparedOperation(
            task_id=f"a2a-task-{uuid4().hex}",
            target=PreparedTarget(agent_id, agent.version_id, agent.card_sha256),
            route=Route(agent.route_kind, interface),
            call_permit="",
            call_permit_expires_at="",
        )
        self._remember(prepared)
        self._begun[idempotency_token] = prepared.task_id
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
        """An operation on a task that this process has begun."""
        if task_id not in self._tasks:
            raise RemoteTaskError(
                f"task {task_id} was not begun by this process, and the public service keeps none",
                code="A2A_REMOTE_TASK_NOT_BOUND",
                task_id=task_id,
            )
        return self._tasks[task_id]

    async def bind_remote_task(self, task_id: str, remote: RemoteTask, observed_at: datetime) -> None:
        """Remember the agent's ids."""
        self._remember(replace(self._tasks[task_id], remote_task=remote))

    async def append(self, platform_task_id: str, events: Sequence[TaskEvent]) -> None:
        """Nobody is told."""

    async def resolve_credential(self, prepared: PreparedOperation) -> Credential:
        """None: the service has none to give."""
        return Credential()

    def _remember(self, prepared: PreparedOperation) -> None:
        self._tasks[prepared.task_id] = prepared
        while len(self._tasks) > MAX_TASKS:
            forgotten, _ = self._tasks.popitem(last=False)
            self._begun = {token: task for token, task in self._begun.items() if task != forgotten}

    async def _page(self, space_id: str, status: str, number: int) -> tuple[list[SpaceAgent], int | None]:
        wanted = {
            "A2ASpaceId": checked_id(space_id, "a Space"),
            "Status": status, "PageSize": PAGE_SIZE, "PageNumber": number,
        }  # fmt: skip
        service = self._service
        answer = await ask(self._http, ACTION, service.url, wanted, service.headers(), auth=service.auth())
        body = without(sorted(service.secrets(), key=len, reverse=True), answer.body)
        data = answers.opened(ACTION, answer.status, body, success=_SUCCESS)
        total = data.get("TotalCount")
        counted = total if isinstance(total, int) and not isinstance(total, bool) else None
        return answers.understood(ACTION, data, _agents), counted


def _agents(data: Any) -> list[SpaceAgent]:
    items = data.get("Agents")
    if not isinstance(items, list):
        raise InvalidPayload("Agents is no list")
    return [_agent(item) for item in items]


def _agent(payload: Any) -> SpaceAgent:
    """An item, whose way and whether it may be called are told by its source and its status."""
    item = object_of(payload, "an agent")
    source = item.get("Source")
    if source not in get_args(Source):
        raise InvalidPayload("Source is neither hosted nor external")
    status = text(item, "InvocationStatus", default="")
    return SpaceAgent.from_payload(
        {
            "VersionId": item.get("LatestVersionId"),
            "CardSha256": "unknown",
            "RouteKind": "hosted_gateway" if source == "hosted" else "external_public",
            "Callable": status == "available",
            "BlockedReason": "" if status == "available" else f"its status is {status or 'unknown'}",
            **item,
        }
    )
