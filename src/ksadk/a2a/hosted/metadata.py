"""What a hosted runtime is: its ids, and what its card says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from a2a.types import AgentSkill
from google.protobuf.json_format import MessageToDict

from ksadk.a2a.card import build_agent_card
from ksadk.a2a.hosted.identity import A2AIngressIdentity
from ksadk.a2a.urls import split_http_url
from ksadk.errors import KsadkError
from ksadk.hosts import reach

_LONGEST = {
    "account_id": 64, "tenant_id": 64, "agent_id": 64, "runtime_id": 64, "a2a_agent_id": 64, "name": 128,
    "description": 1024, "version": 64,
}  # fmt: skip
_MAY_BE_EMPTY = ("tenant_id", "description")
_MOST_SKILLS = 100

Skill = str | Mapping[str, Any] | AgentSkill


class InvalidRuntimeMetadata(KsadkError, ValueError):
    """Metadata of a runtime that cannot be; the message names the field."""

    code = "A2A_INVALID_RUNTIME_METADATA"


@dataclass(frozen=True, slots=True)
class RuntimeA2AMetadata:
    """A hosted runtime, as the platform registered it.

    account_id, tenant_id, agent_id (`ar-...`), runtime_id, a2a_agent_id: at most 64 printable characters
        each; an empty tenant is a tenant of its own.
    name, description, version: of the card; at most 128, 1024 and 64 characters.
    base_url: the origin that the card's interfaces are at, and nothing more than an origin: https, or http
        on this machine.
    skills: at most 100, each as `build_agent_card` takes it or an AgentSkill of the SDK's.
    Raises `InvalidRuntimeMetadata`, or `CardError` where a skill is none.
    """

    account_id: str
    tenant_id: str
    agent_id: str
    runtime_id: str
    a2a_agent_id: str
    name: str
    base_url: str
    description: str = ""
    version: str = "1.0.0"
    skills: Sequence[Skill] = ()
    streaming: bool = True

    def __post_init__(self) -> None:
        for name, longest in _LONGEST.items():
            _check(name, getattr(self, name), longest)
        if not self.agent_id.startswith("ar-"):
            raise InvalidRuntimeMetadata("agent_id does not begin with ar-")
        _check_origin(self.base_url)
        if isinstance(self.skills, str) or len(self.skills) > _MOST_SKILLS:
            raise InvalidRuntimeMetadata(f"skills is a list of at most {_MOST_SKILLS}")
        self.card()

    def card(self, **modes: Any) -> dict[str, Any]:
        """The runtime's own card; `modes` as `build_agent_card` takes them."""
        return build_agent_card(
            name=self.name,
            base_url=self.base_url,
            description=self.description,
            version=self.version,
            skills=[_as_dict(skill) for skill in self.skills],
            streaming=self.streaming,
            **modes,
        )

    def is_target_of(self, identity: A2AIngressIdentity) -> bool:
        """Whether the gateway let the caller through to exactly this runtime, registration and tenant."""
        return (self.account_id, self.tenant_id, self.agent_id, self.runtime_id, self.a2a_agent_id) == (
            identity.account_id, identity.tenant_id, identity.target_agent_id, identity.target_runtime_id,
            identity.target_a2a_agent_id,
        )  # fmt: skip


def _check(name: str, value: Any, longest: int) -> None:
    if type(value) is not str or (not value.strip() and name not in _MAY_BE_EMPTY):
        raise InvalidRuntimeMetadata(f"{name} is no text, or empty")
    if len(value) > longest:
        raise InvalidRuntimeMetadata(f"{name} is longer than {longest} characters")
    if name != "description" and not value.isprintable():
        raise InvalidRuntimeMetadata(f"{name} holds what cannot be printed")


def _check_origin(url: str) -> None:
    try:
        parts = split_http_url(url)
    except ValueError as error:
        raise InvalidRuntimeMetadata(f"base_url is no URL: {error}") from error
    host = parts.hostname or ""
    if f"{parts.scheme}://{parts.netloc}" != url.removesuffix("/"):
        raise InvalidRuntimeMetadata("base_url is an origin, without path, query or fragment")
    if parts.scheme != "https" and reach(host) != "loopback":
        raise InvalidRuntimeMetadata("base_url is https, but on this machine")
    if reach(host) == "unspecified":
        raise InvalidRuntimeMetadata("base_url names an address to listen on, not to call")


def _as_dict(skill: Skill) -> str | Mapping[str, Any]:
    return MessageToDict(skill) if isinstance(skill, AgentSkill) else skill
