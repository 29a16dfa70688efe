"""The control plane's actions: what a request of each holds, and the Data of its answer."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import accumulate
from typing import Any, TypeVar

from ksadk.a2a.center.credentials import Credentials, read_credential
from ksadk.a2a.center.event_log import EventLog
from ksadk.a2a.center.ledger import Call, Ledger, TaskCall, time_of
from ksadk.a2a.center.permits import Permits
from ksadk.a2a.center.refusal import Refusal, invalid
from ksadk.a2a.center.registry import Agent, Registration, Registry
from ksadk.a2a.center.workload_tokens import Workload
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.fields import InvalidPayload, flag, identifier, object_of, one_of, text
from ksadk.a2a.space.ids import is_id
from ksadk.a2a.space.listing import PAGE_SIZE
from ksadk.a2a.space.message_rules import canonical_json
from ksadk.a2a.space.models import AgentListing, Credential, Operation, RemoteTask, RouteKind
from ksadk.search_terms import terms

T = TypeVar("T")
Request = Mapping[str, Any]

MAX_PAGE_SIZE = 100
MAX_PAGE_BYTES = 8 * 1024 * 1024
MAX_EVENTS_AT_ONCE = 1000
MAX_PROMPT = 10_000
"""Characters."""
MAX_REASON = 500
"""Characters."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_STATE = re.compile(r"[a-z0-9_]{1,64}")


class Actions:
    """What clients and the administrator ask of a center. base_url: where they reach it."""

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        events: EventLog,
        permits: Permits,
        credentials: Credentials,
        base_url: str,
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._events = events
        self._permits = permits
        self._credentials = credentials
        self._base_url = base_url

    async def list_agents(self, _: Workload, request: Request) -> dict[str, Any]:
        """ListA2ASpaceAgents."""
        space_id = _read(identifier, request, "A2ASpaceId")
        prompt = _read(text, request, "Prompt", default="")
        if len(prompt) > MAX_PROMPT:
            raise invalid("Prompt", f"Prompt is of at most {MAX_PROMPT:,} characters")
        skill = _read(text, request, "SkillId", default="")
        blocked = _read(flag, request, "IncludeBlocked", default=False)
        agents = [
            agent
            for agent in await self._registry.agents(space_id)
            if (blocked or not agent.blocked_reason) and (not skill or skill in _skills(agent))
        ]
        wanted = frozenset(terms(prompt))
        ranked = sorted((_rank(agent, wanted), agent) for agent in agents) if agents else []
        listed = [agent.listed(self._base_url) for _, agent in ranked]
        items = [agent.to_payload() for agent in listed]
        etag = hashlib.sha256(canonical_json([prompt, skill, blocked, items])).hexdigest()[:32]
        if request.get("IfNoneMatch") == etag:
            return AgentListing(space_id, etag=etag, not_modified=True).to_payload()
        size = _page_size(request)
        first = _after([rank for rank, _ in ranked], _read(text, request, "Cursor", default=""))
        end = first + _fitting(items[first : first + size])
        cursor = _cursor(ranked[end - 1][0]) if end < len(items) else ""
        return AgentListing(space_id, tuple(listed[first:end]), etag, cursor).to_payload()

    async def prepare_call(self, workload: Workload, request: Request) -> dict[str, Any]:
        """PrepareA2ACall."""
        call = Call(
            space_id=_read(identifier, request, "A2ASpaceId"),
            agent_id=_read(identifier, request, "TargetA2AAgentId"),
            message_id=_read(identifier, request, "MessageId"),
            message_sha256=_sha256(request),
            token=_read(identifier, request, "IdempotencyToken"),
            expected_version_id=_read(text, request, "ExpectedVersionId", default=""),
        )
        return (await self._ledger.prepare_call(workload, call)).to_payload()

    async def prepare_operation(self, workload: Workload, request: Request) -> dict[str, Any]:
        """PrepareA2ATaskOperation."""
        task_id = _read(identifier, request, "A2ATaskId")
        operation = _read(one_of, request, "Operation", words=Operation)
        needed = {
            "send_message": {"MessageId", "MessageSha256", "IdempotencyToken"},
            "cancel_task": {"IdempotencyToken"},
        }.get(operation, set())
        for key in ("MessageId", "MessageSha256", "IdempotencyToken"):
            if key not in needed and request.get(key) is not None:
                raise invalid(key, f"{operation} takes no {key}")
        sends = operation == "send_message"
        call = TaskCall(
            task_id,
            operation,
            _read(identifier, request, "MessageId") if sends else "",
            _sha256(request) if sends else "",
            _read(identifier, request, "IdempotencyToken") if needed else "",
        )
        return (await self._ledger.prepare_operation(workload, call)).to_payload()

    async def bind(self, workload: Workload, request: Request) -> dict[str, Any]:
        """BindA2ARemoteTask."""
        task_id = _read(identifier, request, "A2ATaskId")
        _time(_read(text, request, "ObservedAt"), "ObservedAt")
        context_id = _read(text, request, "RemoteContextId", default="")
        if context_id and not is_id(context_id):
            raise invalid("RemoteContextId", "RemoteContextId is no id")
        remote = RemoteTask(_read(identifier, request, "RemoteTaskId"), context_id)
        await self._ledger.bind(workload, task_id, remote)
        return {}

    async def append_events(self, workload: Workload, request: Request) -> dict[str, Any]:
        """AppendA2ATaskEvents."""
        task_id = _read(identifier, request, "A2ATaskId")
        given = request.get("Events")
        if not isinstance(given, list) or not 1 <= len(given) <= MAX_EVENTS_AT_ONCE:
            raise invalid("Events", f"Events is no list of 1 to {MAX_EVENTS_AT_ONCE}")
        events = [_event(item, number) for number, item in enumerate(given)]
        return {"AcceptedCount": await self._events.append(workload, task_id, events)}

    async def resolve_credential(self, workload: Workload, request: Request) -> dict[str, Any]:
        """ResolveA2ACredential: for a valid permit of that task, and the handle that came with it."""
        task_id = _read(identifier, request, "A2ATaskId")
        handle = _read(text, request, "CredentialHandle", default="")
        permit = self._permits.check(_read(text, request, "CallPermit"), workload.owner)
        agent, _ = await self._ledger.permitted(permit)
        hosted = agent.route_kind == "hosted_gateway"
        if permit.task_id != task_id or handle not in ("", agent.credential_handle) or (handle and hosted):
            raise Refusal(403, "A2A_PERMIT_INVALID", "the call permit is for another task or credential")
        until = time_of(permit.expires_at)
        found = self._credentials.get(handle, until) if handle else Credential(expires_at=until)
        return found.to_payload()

    async def register(self, request: Request) -> dict[str, Any]:
        """RegisterA2AAgent, the administrator's own."""
        reason = _read(text, request, "BlockedReason", default="")
        if len(reason) > MAX_REASON or (reason and not reason.isprintable()):
            raise invalid(
                "BlockedReason", f"BlockedReason is not of at most {MAX_REASON} printable characters"
            )
        space_id = _read(identifier, request, "A2ASpaceId")
        if "," in space_id or space_id != space_id.strip():  # ids are listed in a variable, with commas
            raise invalid("A2ASpaceId", "the id of a Space has no comma, and no blank around it")
        given = request.get("Credential")
        registration = Registration(
            space_id=space_id,
            card=_checked("AgentCard", lambda: object_of(request.get("AgentCard"), "AgentCard")),
            route_kind=_read(one_of, request, "RouteKind", words=RouteKind),
            blocked_reason=reason,
            credential=None if given is None else _checked("Credential", lambda: read_credential(given)),
        )
        return (await self._registry.register(registration)).listed(self._base_url).to_payload()


def _read(reader: Callable[..., T], request: Request, key: str, **named: Any) -> T:
    return _checked(key, lambda: reader(request, key, **named))


def _checked(field: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except InvalidPayload as error:
        raise invalid(field, str(error)) from error


def _sha256(request: Request) -> str:
    value = _read(text, request, "MessageSha256")
    if not _SHA256.fullmatch(value):
        raise invalid("MessageSha256", "MessageSha256 is no SHA-256 in lower-case hex")
    return value


def _time(value: str, field: str) -> None:
    try:
        # isprintable, as Python reads to the first NUL only.
        known = len(value) <= 64 and value.isprintable() and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        known = False
    if not known:
        raise invalid(field, f"{field} is no time as RFC 3339 writes it")


def _event(item: Any, number: int) -> TaskEvent:
    field = f"Events[{number}]"
    event = _checked(field, lambda: TaskEvent.from_payload(item))
    if not is_id(event.source_event_id):
        raise invalid(field, f"SourceEventId of {field} is no id")
    if event.status is not None and not _STATE.fullmatch(event.status):
        raise invalid(field, f"Status of {field} is no state")
    _time(event.occurred_at, field)
    return event


def _skills(agent: Agent) -> list[str]:
    return [skill.get("id", "") for skill in agent.card.get("skills", [])]


Rank = tuple[int, int, str]
"""The order of a listing: how little an agent has to do with the prompt, then when it was registered."""


def _rank(agent: Agent, wanted: frozenset[str]) -> Rank:
    said = [agent.card["name"], agent.card.get("description", "")]
    for skill in agent.card.get("skills", []):
        said += [skill.get("name", ""), skill.get("description", ""), *skill.get("tags", [])]
    shared = wanted.intersection(terms(" ".join(said))) if wanted else ()
    return -len(shared), agent.registered_at, agent.agent_id


def _page_size(request: Request) -> int:
    size = request.get("PageSize", PAGE_SIZE)
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_PAGE_SIZE:
        raise invalid("PageSize", f"PageSize is a whole number from 1 to {MAX_PAGE_SIZE}")
    return size


def _fitting(items: list[dict[str, Any]]) -> int:
    """How many of them, from the first on, clients read in one answer: one at least, if there is one."""
    sizes = accumulate(len(canonical_json(item)) for item in items)
    return min(len(items), max(1, sum(size <= MAX_PAGE_BYTES for size in sizes)))


def _cursor(rank: Rank) -> str:
    return base64.urlsafe_b64encode(json.dumps(rank).encode()).decode()


def _after(ranks: list[Rank], cursor: str) -> int:
    """How many agents come before the page that a cursor begins. An agent that was added or taken away in
    between moves no other to or from it."""
    if not cursor:
        return 0
    try:
        score, registered_at, agent_id = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        return sum(rank <= (score, registered_at, agent_id) for rank in ranks)
    except (ValueError, TypeError, RecursionError) as error:
        raise invalid("Cursor", "Cursor is none of this center's") from error
