"""The gateway of a served agent: what needs approval pauses the agent's task until somebody has decided.

The decision is the approval store's, wherever it was made: `agentengine approvals approve`, a prompt, a
caller who may. What a caller writes never is one.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ksadk.a2a.approvals import Standing
from ksadk.a2a.runners.base import InputRequired, TextPart, current_pause
from ksadk.a2a.runners.journal import Journal, current_journal
from ksadk.errors import KsadkError
from ksadk.runtime_context import scoped
from ksadk.tools.approval_store import ApprovalStore, UnknownApproval
from ksadk.tools.approvals import ApprovalRequest, Decision, StoredApproval, arguments_digest
from ksadk.tools.gateway import ToolGateway, gateway_scope
from ksadk.tools.registry import Tool, ToolPolicy

if TYPE_CHECKING:
    from ksadk.tools.rules import Rule

MAX_DIFF_CHARS = 20_000
"""How much of a diff goes with a request for approval; all of it is shown at the prompt."""

MAX_DETAIL_CHARS = 2_000


class GatewayApprovals:
    """The approval requests that a served agent's gateway tools make; see `ksadk.a2a.approvals.Approvals`.

    The mode is strict where neither the call nor the environment names one: an agent that is served acts for
    callers that nobody here sees. `store`, `policies` and `rules` are the gateway's.
    """

    def __init__(
        self,
        *,
        store: ApprovalStore | None = None,
        policies: Mapping[str, ToolPolicy] | None = None,
        rules: Sequence[Rule] | None = None,
        approval_mode: str = "strict",
    ) -> None:
        self._gateway = ServedGateway(
            policies, rules=rules, ask=self._ask, store=store, approval_mode=approval_mode
        )

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Let the gateway tools that are called inside a `with` block ask through `current_pause()`."""
        with gateway_scope(self._gateway):
            yield

    def decision(self, request_id: str) -> Standing:
        """How a request stands. One that is not kept any more has expired; one that was used was approved."""
        store = self._gateway.store
        try:
            request = store.get(request_id)
        except UnknownApproval:
            return "expired"
        return _standing(request, store.now())

    def decide(self, request_id: str, approve: bool, by: str) -> None:
        """Answer a request for `by`; raises where it no longer can be answered."""
        self._gateway.store.decide(request_id, "approved" if approve else "denied", by=by)

    def _ask(self, request: ApprovalRequest, note: str = "") -> Decision:  # noqa: ARG002  # nothing is edited
        place = _place.get()
        journal = current_journal()
        if journal is not None and place:
            journal.write(place, request=request.id)
        return self._gateway.pause_for(request)


class ServedGateway(ToolGateway):
    """Knows a call that is repeated, because the step that it is in is run again: it finds the decision about
    the request that it made, and the result that it had. Whether it is the same call is judged by its tool,
    its arguments, and the content that the request is about."""

    def call(self, tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any], approval: Any = None) -> Any:
        """See `ToolGateway.call`."""
        journal = current_journal()
        place = "" if journal is None or approval is not None else _place_of(journal, tool, args, kwargs)
        if journal is None or not place:
            return super().call(tool, args, kwargs, approval)
        known = journal.entry(place)
        if "result" in known:
            return known["result"]
        with scoped(_place, place):
            if "request" in known:
                result = self._go_on(tool, args, kwargs, known["request"])
            else:
                result = super().call(tool, args, kwargs)
        if inspect.isawaitable(result):
            return _kept_later(journal, place, tool, result)
        return _kept(journal, place, tool, result)

    def pause_for(self, request: ApprovalRequest) -> Decision:
        """Ask whoever the run answers to, and see what was decided."""
        pause = current_pause()
        answer = None if pause is None else pause(_question(request))
        if answer is None:
            return Decision("nobody")
        kept = self.store.get(request.id)
        match _standing(kept, self.store.now()):
            case "approved":
                return Decision("approve", by=kept.decided_by)
            case "denied":
                return Decision("deny", by=kept.decided_by, reason=kept.reason)
            case "expired":
                return Decision("expired")
        return Decision("nobody")

    def _go_on(self, tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any], request_id: str) -> Any:
        try:
            request = self.store.get(request_id)
            if (
                _standing(request, self.store.now()) == "pending"
                and self.pause_for(request).verdict == "nobody"
            ):
                return request.envelope()
        except UnknownApproval:  # forgotten long after it expired
            return super().call(tool, args, kwargs)
        except KsadkError as error:
            return error.to_result()
        return super().call(tool, (), request.arguments, StoredApproval(request_id))


_place: ContextVar[str] = ContextVar("ksadk_served_place", default="")


def _place_of(journal: Journal, tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Where a call stands in the journal; empty for one that cannot be made."""
    try:
        checked = tool.parameters.check(tool.parameters.bind(args, kwargs))
    except KsadkError:
        return ""
    return journal.place(f"{tool.name} {arguments_digest(tool.parameters.canonical(checked))}")


def _kept(journal: Journal, place: str, tool: Tool, result: Any) -> Any:
    """The result, kept for a repetition of the call unless that does no harm or has yet to run."""
    waits = isinstance(result, dict) and result.get("type") == "approval_required"
    if not waits and (tool.policy.risk_level != "low" or journal.entry(place)):
        journal.write(place, result=result)
    return result


async def _kept_later(journal: Journal, place: str, tool: Tool, result: Awaitable[Any]) -> Any:
    return _kept(journal, place, tool, await result)


def _standing(request: ApprovalRequest, now: float) -> Standing:
    if request.state == "denied":
        return "denied"
    if request.state == "used":
        return "approved"
    if request.expired(now):
        return "expired"
    return "approved" if request.state == "approved" else "pending"


def _question(request: ApprovalRequest) -> InputRequired:
    words = f"{request.tool_name} needs approval: {request.plan.summary}"
    return InputRequired((TextPart(words),), approval=describe_request(request))


def describe_request(request: ApprovalRequest) -> dict[str, Any]:
    """A request as it is shown to whoever follows the task: the envelope's `approval_request`, and what the
    call would do. Long texts are cut."""
    plan = request.plan
    return {
        **request.envelope()["approval_request"],
        "summary": _cut(plan.summary, MAX_DETAIL_CHARS),
        "where": _cut(plan.where, MAX_DETAIL_CHARS),
        "details": [[label, _cut(text, MAX_DETAIL_CHARS)] for label, text in plan.details],
        "diff": _cut(plan.diff, MAX_DIFF_CHARS),
    }


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} more characters]"
