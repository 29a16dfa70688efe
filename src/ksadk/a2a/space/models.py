"""What the Space control plane says: agents, and calls that it has prepared.

They are read strictly: `from_payload` raises `InvalidPayload` where something is missing or of another type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict, ParseError

from ksadk.a2a.card import PROTOCOL_VERSION
from ksadk.a2a.remote_card import BINDINGS
from ksadk.a2a.space.fields import (
    InvalidPayload,
    flag,
    header_text,
    identifier,
    object_of,
    one_of,
    text,
    texts,
)
from ksadk.a2a.space.ids import is_id
from ksadk.a2a.urls import split_http_url
from ksadk.a2a.wire import Interface

Source = Literal["hosted", "external"]
RouteKind = Literal["hosted_gateway", "external_public", "external_vpc"]
Operation = Literal["send_message", "get_task", "cancel_task", "subscribe_to_task"]
"""What may be done with a task."""


@dataclass(frozen=True)
class SpaceAgent:
    """An agent of a Space. `card` is its card as the Space holds it."""

    agent_id: str
    version_id: str
    card_sha256: str
    card: Mapping[str, Any] = field(repr=False)
    callable: bool
    blocked_reason: str
    route_kind: RouteKind

    @cached_property
    def agent_card(self) -> AgentCard:
        """Its card as A2A 1.0 reads it."""
        return read_agent_card(self.card)

    @property
    def source(self) -> Source:
        """Whose it is: the platform's, which is called through its gateway, or somebody else's."""
        return "hosted" if self.route_kind == "hosted_gateway" else "external"

    @property
    def name(self) -> str:
        """The name in its card."""
        return str(self.agent_card.name)

    @property
    def description(self) -> str:
        """The description in its card."""
        return str(self.agent_card.description)

    @classmethod
    def from_payload(cls, payload: Any) -> SpaceAgent:
        """An item of `Agents`."""
        item = object_of(payload, "an agent")
        agent = cls(
            agent_id=identifier(item, "A2AAgentId"),
            version_id=identifier(item, "VersionId"),
            card_sha256=text(item, "CardSha256"),
            card=object_of(item.get("AgentCard"), "AgentCard"),
            callable=flag(item, "Callable"),
            blocked_reason=text(item, "BlockedReason", default=""),
            route_kind=one_of(item, "RouteKind", RouteKind),
        )
        source = one_of(item, "Source", Source)
        if source != agent.source:
            raise InvalidPayload(f"an agent of source {source} has the route {agent.route_kind}")
        _ = agent.agent_card  # which is read now, so that a card that is none is an error here
        return agent

    def to_payload(self) -> dict[str, Any]:
        """The item of `Agents`."""
        return {
            "A2AAgentId": self.agent_id,
            "VersionId": self.version_id,
            "Source": self.source,
            "CardSha256": self.card_sha256,
            "AgentCard": dict(self.card),
            "Callable": self.callable,
            "BlockedReason": self.blocked_reason,
            "RouteKind": self.route_kind,
        }


def read_agent_card(card: Mapping[str, Any]) -> AgentCard:
    """A card as A2A 1.0 reads it; a field that 1.0 does not have is an error."""
    try:
        return ParseDict(dict(card), AgentCard(), max_recursion_depth=64)
    except (ParseError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidPayload(f"AgentCard is no card of A2A 1.0: {error}") from error


@dataclass(frozen=True)
class AgentListing:
    """Agents of a Space, of one page or of all. `not_modified`: what was read under that ETag still holds."""

    space_id: str
    agents: tuple[SpaceAgent, ...] = ()
    etag: str = ""
    next_cursor: str = ""
    not_modified: bool = False

    @classmethod
    def from_payload(cls, payload: Any) -> AgentListing:
        """The Data of ListA2ASpaceAgents."""
        data = object_of(payload, "Data")
        agents = data.get("Agents")
        not_modified = flag(data, "NotModified", default=False)
        if agents is None and not_modified:
            agents = []
        if not isinstance(agents, list):
            raise InvalidPayload("Agents is no list")
        return cls(
            identifier(data, "A2ASpaceId"),
            tuple(SpaceAgent.from_payload(item) for item in agents),
            text(data, "ETag", default=""),
            text(data, "NextCursor", default=""),
            not_modified,
        )

    def to_payload(self) -> dict[str, Any]:
        """The Data of ListA2ASpaceAgents."""
        return {
            "A2ASpaceId": self.space_id,
            "Agents": [agent.to_payload() for agent in self.agents],
            "ETag": self.etag,
            "NextCursor": self.next_cursor,
            "NotModified": self.not_modified,
        }


@dataclass(frozen=True)
class PreparedTarget:
    """The agent, and which version of it, that a call was prepared for."""

    agent_id: str
    version_id: str
    card_sha256: str


@dataclass(frozen=True)
class Route:
    """How an agent is reached: by which kind of way, at which of its interfaces."""

    kind: RouteKind
    interface: Interface


@dataclass(frozen=True)
class RemoteTask:
    """The agent's own ids of a task and its context; the context's is empty where it is not known."""

    task_id: str
    context_id: str = ""

    def to_payload(self) -> dict[str, Any]:
        """`RemoteTask` of a prepared operation."""
        known = {"RemoteContextId": self.context_id} if self.context_id else {}
        return {"RemoteTaskId": self.task_id, **known}


@dataclass(frozen=True)
class PreparedOperation:
    """A call that the control plane has permitted. The permit and the handle are in no `repr`.

    task_id: the platform's, which stays the same over all operations on the task.
    remote_task: the agent's ids, once these were bound.
    """

    task_id: str
    target: PreparedTarget
    route: Route
    call_permit: str = field(repr=False)
    call_permit_expires_at: str
    credential_handle: str | None = field(default=None, repr=False)
    remote_task: RemoteTask | None = None

    @classmethod
    def from_payload(cls, payload: Any) -> PreparedOperation:
        """The Data of PrepareA2ACall and PrepareA2ATaskOperation."""
        data = object_of(payload, "Data")
        target = object_of(data.get("Target"), "Target")
        route = object_of(data.get("Route"), "Route")
        return cls(
            task_id=identifier(data, "A2ATaskId"),
            target=PreparedTarget(
                identifier(target, "A2AAgentId"), identifier(target, "VersionId"), text(target, "CardSha256")
            ),
            route=Route(one_of(route, "Kind", RouteKind), _interface(route.get("Interface"))),
            call_permit=header_text(data, "CallPermit"),
            call_permit_expires_at=text(data, "CallPermitExpiresAt"),
            credential_handle=text(data, "CredentialHandle", default="") or None,
            remote_task=_remote_task(data.get("RemoteTask")),
        )

    def to_payload(self) -> dict[str, Any]:
        """The Data of PrepareA2ACall and PrepareA2ATaskOperation."""
        remote, interface = self.remote_task, self.route.interface
        return {
            "A2ATaskId": self.task_id,
            "Target": {
                "A2AAgentId": self.target.agent_id,
                "VersionId": self.target.version_id,
                "CardSha256": self.target.card_sha256,
            },
            "Route": {
                "Kind": self.route.kind,
                "Interface": {
                    "Url": interface.url,
                    "ProtocolBinding": interface.binding,
                    "ProtocolVersion": interface.version,
                },
            },
            "CallPermit": self.call_permit,
            "CallPermitExpiresAt": self.call_permit_expires_at,
            "CredentialHandle": self.credential_handle,
            "RemoteTask": remote and remote.to_payload(),
        }


@dataclass(frozen=True)
class Credential:
    """What an external agent is shown of the caller. The values are in no `repr`."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    cookies: Mapping[str, str] = field(default_factory=dict, repr=False)
    expires_at: str = ""

    @classmethod
    def from_payload(cls, payload: Any) -> Credential:
        """The Data of ResolveA2ACredential."""
        data = object_of(payload, "Data")
        injection = object_of(data.get("Injection"), "Injection")
        return cls(
            texts(injection.get("Headers"), "Headers"),
            texts(injection.get("Query"), "Query"),
            texts(injection.get("Cookies"), "Cookies"),
            text(data, "ExpiresAt", default=""),
        )

    def to_payload(self) -> dict[str, Any]:
        """The Data of ResolveA2ACredential."""
        injection = {
            "Headers": dict(self.headers), "Query": dict(self.query), "Cookies": dict(self.cookies)
        }  # fmt: skip
        return {"Injection": injection, "ExpiresAt": self.expires_at}


def _interface(payload: Any) -> Interface:
    item = object_of(payload, "Interface")
    url, binding, version = (text(item, key) for key in ("Url", "ProtocolBinding", "ProtocolVersion"))
    try:
        split_http_url(url)
    except ValueError as error:
        raise InvalidPayload(f"Url is no address: {error}") from error
    if binding not in BINDINGS:
        raise InvalidPayload(f"ProtocolBinding is {binding[:40]!r}, not {' or '.join(BINDINGS)}")
    if version != PROTOCOL_VERSION:
        raise InvalidPayload(f"ProtocolVersion is {version[:40]!r}, not {PROTOCOL_VERSION}")
    return Interface(url, binding, version)


def _remote_task(payload: Any) -> RemoteTask | None:
    if payload is None:
        return None
    item = object_of(payload, "RemoteTask")
    context_id = text(item, "RemoteContextId", default="")
    if context_id and not is_id(context_id):
        raise InvalidPayload("RemoteContextId is no id")
    return RemoteTask(identifier(item, "RemoteTaskId"), context_id)
