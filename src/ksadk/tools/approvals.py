"""Approval: the request that a person answers, the answer, and what each outcome looks like as a result.

There are five outcomes: allowed, denied by a rule, denied by a person, expired, and nobody to ask. Each has
a result of its own, so that one is never taken for another.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

from ksadk.errors import KsadkError
from ksadk.tools.registry import Plan, Tool
from ksadk.tools.schema import plain

if TYPE_CHECKING:
    from ksadk.tools.rules import Rule

CLOCK_SLACK = 60
"""Seconds that the clock may step back without a request being taken for one from the future."""

State = Literal["pending", "approved", "denied", "used"]
Verdict = Literal["approve", "deny", "edit", "expired", "nobody"]
Outcome = Literal["denied_by_rule", "approval_rejected", "approval_expired"]


@dataclass(frozen=True)
class ApprovalRequest:
    """One call that waits for a decision, bound to exactly these arguments and this content.

    Times are seconds since the epoch. `arguments` are the final ones, defaults filled in; their digest is the
    SHA-256 of their canonical JSON. `workspace_root` and `session_id` are empty where the defaults hold.
    """

    id: str
    project: str
    account_id: str
    session_id: str
    workspace_root: str
    tool_name: str
    arguments: dict[str, Any]
    arguments_digest: str
    risk_level: str
    side_effects: tuple[str, ...]
    plan: Plan
    created_at: float
    expires_at: float
    state: State = "pending"
    decided_by: str = ""
    reason: str = ""
    edited: bool = False

    def expired(self, now: float) -> bool:
        """Whether nobody can use it any more: its time is over, or the clock was set back to before it."""
        return not self.created_at - CLOCK_SLACK <= now < self.expires_at

    def same_call(self, other: ApprovalRequest) -> bool:
        """Whether both have the same arguments, and previews made from the same content."""
        return (self.arguments_digest, self.plan.content_digest) == (
            other.arguments_digest,
            other.plan.content_digest,
        )

    def envelope(self) -> dict[str, Any]:
        """The result of a call that nobody was there to approve."""
        return {
            "ok": False,
            "type": "approval_required",
            "approval_required": True,
            "approval_request": {
                "id": self.id,
                "tool_name": self.tool_name,
                "risk_level": self.risk_level,
                "side_effects": list(self.side_effects),
                "expires_at": iso(self.expires_at),
                "arguments_digest": self.arguments_digest,
            },
        }


class StoredApproval(NamedTuple):
    """`approval=` for a call that a person has answered elsewhere: runs only if they approved it."""

    id: str


@dataclass(frozen=True)
class Decision:
    """What whoever was asked said.

    `nobody` means that no one is there; `edit` asks again with other arguments; `for_session` approves the
    same call again until the session ends. `seen` is False where nobody looked at the preview (`--yes`): the
    call then need not act on the content that the preview was made from.
    """

    verdict: Verdict
    by: str = ""
    reason: str = ""
    for_session: bool = False
    arguments: dict[str, Any] | None = None
    seen: bool = True

    def __post_init__(self) -> None:
        if self.verdict not in get_args(Verdict):
            raise ValueError(f"a verdict is one of {', '.join(get_args(Verdict))}, not {self.verdict!r}")


class Ask(Protocol):
    """Puts a request to someone and returns what they said.

    `note` says what was wrong with the arguments that they edited last, or is empty.
    """

    def __call__(self, request: ApprovalRequest, note: str = "") -> Decision: ...


class NotAllowed(KsadkError):
    """A call that was not let through, as a result that tells the outcomes apart."""

    def __init__(
        self,
        outcome: Outcome,
        message: str,
        tool: Tool,
        *,
        code: str | None = None,
        reason: str = "",
        hint: str | None = None,
        rule: Rule | None = None,
    ) -> None:
        super().__init__(message, code=code or outcome, hint=hint)
        self.outcome = outcome
        self.rule = rule
        self.details = {
            "type": outcome,
            "approval_required": False,
            "tool_name": tool.name,
            "risk_level": tool.policy.risk_level,
            "reason": reason or message,
        }


class ApprovalNeeded(KsadkError):
    """Nobody was there to ask; the request waits in the store."""

    code = "approval_required"

    def __init__(self, request: ApprovalRequest) -> None:
        super().__init__(
            f"{request.tool_name} needs approval, and nobody is here to give it",
            hint=f"In a terminal: agentengine approvals approve {request.id}",
        )
        self.request = request

    def to_result(self) -> dict[str, Any]:
        """The documented envelope, and nothing beside it."""
        return self.request.envelope()


def new_request(
    tool: Tool,
    arguments: dict[str, Any],
    plan: Plan,
    *,
    project: str,
    account_id: str = "",
    session_id: str = "",
    workspace_root: str = "",
    ttl_seconds: float = 900,
    now: float | None = None,
) -> ApprovalRequest:
    """A pending request for one call; `arguments` are canonical (plain JSON values, defaults filled in)."""
    created = time.time() if now is None else now
    return ApprovalRequest(
        id=f"appr_{uuid.uuid4().hex}",
        project=project,
        account_id=account_id,
        session_id=session_id,
        workspace_root=workspace_root,
        tool_name=tool.name,
        arguments=arguments,
        arguments_digest=arguments_digest(arguments),
        risk_level=tool.policy.risk_level,
        side_effects=tool.policy.side_effects,
        plan=plan,
        created_at=created,
        expires_at=created + ttl_seconds,
    )


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces, ASCII only: the same text for the same value."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"))


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """The SHA-256, in hex, of canonical arguments."""
    return hashlib.sha256(canonical_json(arguments).encode()).hexdigest()


def iso(moment: float) -> str:
    """A time in UTC to the second, as RFC 3339 writes it."""
    moment = min(max(moment, 0), 253_402_300_799)  # the last second that the form can write
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_approval(approval: Any, tool: Tool) -> str | None:
    """The request id inside a trusted caller's `approval=`, or None where it has none.

    Only `{"approved": True}` (a real boolean) approves. Raises `NotAllowed` for everything else.
    """
    if not isinstance(approval, Mapping):
        raise _invalid(tool, f"approval must be a dict with approved True, not {type(approval).__name__}")
    answers = [approval[key] for key in ("approved", "approve") if key in approval]
    if answers and all(answer is False for answer in answers):
        reason = approval.get("reason")
        words = reason if isinstance(reason, str) else ""
        raise NotAllowed("approval_rejected", f"{tool.name} was not approved", tool, reason=words)
    if not answers or not all(answer is True for answer in answers):
        raise _invalid(tool, "only the boolean True approves")
    given = approval.get("id")
    if given is not None and not isinstance(given, str):
        raise _invalid(tool, "the id of an approval is text")
    return given


def _invalid(tool: Tool, message: str) -> NotAllowed:
    return NotAllowed(
        "approval_rejected",
        message,
        tool,
        code="invalid_approval",
        hint='Pass approval={"approved": True}, with "id" where one is required.',
    )


def build_tool_receipt_idempotency_key(
    *,
    session_id: str,
    run_id: str,
    checkpoint_id: str | None = None,
    tool_call_id: str | None = None,
    tool_name: str,
    tool_args: Any = None,
) -> str:
    """One key for one tool call of a run: `tool_receipt:<sha256>`; the order of arguments is immaterial."""
    fields = {
        "session_id": session_id,
        "run_id": run_id,
        "checkpoint_id": checkpoint_id,
        "tool_call_id": tool_call_id,
        "tool_name": tool_name,
        "tool_args": tool_args,
    }
    return "tool_receipt:" + hashlib.sha256(canonical_json(fields).encode()).hexdigest()


def approval_interrupt_info_from_result(
    result: Any, *, fallback_tool_name: str = "tool", tool_args: Any = None, run_id: str | None = None
) -> dict[str, Any] | None:
    """What a host needs to interrupt a run for approval, or None when the result asks for none.

    Takes the envelope or its JSON text.
    """
    if isinstance(result, str):
        try:
            result = json.loads(result)
        except (ValueError, RecursionError):
            return None
    if not isinstance(result, Mapping) or result.get("approval_required") is not True:
        return None
    request = result.get("approval_request")
    if not isinstance(request, Mapping):
        return None
    info = {
        "id": request.get("id"),
        "approval_request_id": request.get("id"),
        "tool_name": request.get("tool_name") or fallback_tool_name,
        "arguments": tool_args if tool_args is not None else {},
        "risk_level": request.get("risk_level"),
        "side_effects": list(request.get("side_effects") or ()),
        "server_label": request.get("server_label") or "ksadk",
    }
    return info | ({"run_id": run_id} if run_id is not None else {})


def plan_to_json(plan: Plan) -> str:
    """A plan as the store keeps it."""
    return json.dumps(asdict(plan))


def plan_from_json(text: str) -> Plan:
    """A plan that the store kept; another text raises ValueError, TypeError, KeyError or AttributeError."""
    fields = json.loads(text)
    fields["details"] = tuple((label, value) for label, value in fields["details"])
    plan = Plan(**fields)
    require_texts([plan.summary, plan.where, plan.content_digest, plan.diff, *sum(plan.details, ())])
    return plan


def require_texts(values: Iterable[Any]) -> None:
    """Raise TypeError where one is no text."""
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"text is expected, not {type(value).__name__}")
