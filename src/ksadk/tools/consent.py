"""What stands between a risky call and its run: the plan, the question, the answer, and one last look."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ksadk.errors import KsadkError
from ksadk.runtime_context import (
    get_current_account_id,
    get_current_invocation_context_or_default,
    get_current_session_id,
    get_current_workspace_root,
    platform_invocation_scope,
    project_scope,
    tool_execution_scope,
    workspace_root_scope,
)
from ksadk.sessions import project_dir
from ksadk.settings import Settings
from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.approvals import (
    ApprovalNeeded,
    ApprovalRequest,
    Ask,
    Decision,
    NotAllowed,
    State,
    StoredApproval,
    arguments_digest,
    new_request,
    read_approval,
)
from ksadk.tools.registry import Plan, Tool

SESSION_GRANT_SECONDS = 8 * 3600
"""How long "this exact call for the session" holds."""

_NOTHING_PLANNED = hashlib.sha256(b"").hexdigest()
_CANNOT_ASK_AGAIN = frozenset({"log_unavailable", "approval_expired", "approval_decided", "approval_used"})

Judge = Callable[[Tool, Mapping[str, Any]], object]
"""Raises when a rule denies the call; called again just before it runs."""


class Consent:
    """Lets a call through, or raises its outcome: `NotAllowed`, `ApprovalNeeded`, or what the plan raised.

    `by` and `request_id` say who decided, about which request, as far as that is known.
    """

    def __init__(self, store: ApprovalStore, ask: Ask | None, session_key: str, judge: Judge) -> None:
        self._store = store
        self._ask = ask
        self._session_key = session_key
        self._judge = judge
        self.by = ""
        self.request_id = ""
        self._used = False

    def give_back(self) -> None:
        """Let the approval that was used for a call stand: the call did not start after all."""
        if self._used:
            self._store.give_back(self.request_id)

    def obtain(self, tool: Tool, arguments: dict[str, Any], approval: Any) -> dict[str, Any]:
        """The arguments to run with, approved by a trusted caller's `approval` or by whoever is asked.

        They differ from those given when a person edited them.
        """
        if approval is None:
            return self._ask_about(tool, arguments)
        self.by = "the caller"
        if isinstance(approval, StoredApproval):
            self._use(tool, arguments, approval.id, ("approved",))
            return arguments
        request_id = read_approval(approval, tool)
        if request_id is not None:
            self._use(tool, arguments, request_id, ("approved", "pending"))
        elif Settings.from_env().tool_approval_binding == "required":
            raise NotAllowed(
                "approval_rejected",
                "an approval must name the request that it answers",
                tool,
                code="invalid_approval",
                hint='Pass approval={"approved": True, "id": "appr_..."}.',
            )
        return arguments

    def amend(self, tool: Tool, request: ApprovalRequest, arguments: dict[str, Any]) -> ApprovalRequest:
        """Replace the arguments of a pending request, checked and planned again as the account that it is
        for; raises when they cannot work."""
        with maker_of(request):
            checked = tool.parameters.check(arguments)
            self._judge(tool, checked)
            canonical = tool.parameters.canonical(checked)
            plan = plan_call(tool, checked)
        amended = replace(
            request,
            arguments=canonical,
            arguments_digest=arguments_digest(canonical),
            plan=plan,
            edited=True,
        )
        self._store.amend(amended)
        return amended

    def look_again(self, tool: Tool, request: ApprovalRequest) -> None:
        """Raise what would make the call fail now, `approval_stale` where its content has changed."""
        with maker_of(request):
            plan = plan_call(tool, tool.parameters.check(request.arguments))
        if plan.content_digest != request.plan.content_digest:
            raise _stale(tool, request.id)

    def _ask_about(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
        request = self._request(tool, arguments)
        if self._session_key and self._store.granted(self._session_key, request):
            self.by = "a yes for the session"
            return arguments
        self._store.create(request)
        self.request_id = request.id
        shown, decision = self.answer(tool, request, self._ask or _nobody)
        self.by = decision.by or "nobody"
        request = self._settle(tool, shown, decision)
        arguments = tool.parameters.check(request.arguments)
        self._judge(tool, arguments)
        self._use(tool, arguments, request.id, ("pending", "approved"), decision.by, seen=decision.seen)
        if decision.for_session and self._session_key and request.same_call(shown):
            self._store.grant(self._session_key, request, SESSION_GRANT_SECONDS)
        return arguments

    def _request(self, tool: Tool, arguments: dict[str, Any]) -> ApprovalRequest:
        settings = Settings.from_env()
        return new_request(
            tool,
            tool.parameters.canonical(arguments),
            plan_call(tool, arguments),
            project=str(project_dir(settings)),
            account_id=get_current_account_id(),
            session_id=get_current_session_id(""),
            workspace_root=str(get_current_workspace_root() or ""),
            ttl_seconds=settings.tool_approval_ttl_seconds,
            now=self._store.now(),
        )

    def answer(
        self, tool: Tool, request: ApprovalRequest, ask: Ask, first: Decision | None = None
    ) -> tuple[ApprovalRequest, Decision]:
        """Ask until there is an answer; returns it with the request that it is about.

        Edited arguments are checked, planned and asked about again. `first` is what was said already.
        """
        note = ""
        while True:
            decision = first or ask(request, note)
            first = None
            if decision.verdict != "edit":
                return request, decision
            try:
                request, note = self.amend(tool, request, decision.arguments or {}), ""
            except KsadkError as error:
                if error.code in _CANNOT_ASK_AGAIN:
                    raise
                note = error.message

    def _settle(self, tool: Tool, shown: ApprovalRequest, decision: Decision) -> ApprovalRequest:
        """Write a refusal down; return the request as it was approved. One that was answered elsewhere
        meanwhile, and perhaps edited, stands as it was answered there, except that a "no" here is one.

        An approval is written down when the request is used, so that a kill in between leaves none behind.
        """
        if decision.verdict == "nobody":
            raise ApprovalNeeded(shown)
        if decision.verdict == "expired":
            self._store.expire(shown.id)
            raise _expired(tool, f"nobody answered {shown.id} in time")
        kept = self._store.get(shown.id)
        approved = decision.verdict == "approve"
        if kept.state == "pending" or (kept.state == "approved" and not approved):
            if kept.expired(self._store.now()):
                raise _expired(tool, f"{shown.id} was answered too late")
            if approved and not kept.same_call(shown):
                raise NotAllowed(
                    "approval_rejected",
                    f"{shown.id} was edited elsewhere while the question was open",
                    tool,
                    code="approval_mismatch",
                )
            if not approved:
                kept = self._store.decide(shown.id, "denied", by=decision.by, reason=decision.reason)
        self.by = kept.decided_by or decision.by
        if kept.state == "denied" or not approved:
            message = f"{tool.name} was not approved"
            if kept.decided_by not in ("", decision.by):
                message += f" ({kept.decided_by} denied it)"
            raise NotAllowed("approval_rejected", message, tool, reason=kept.reason or decision.reason)
        return kept

    def _use(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        request_id: str,
        states: tuple[State, ...],
        by: str = "the caller",
        *,
        seen: bool = True,
    ) -> None:
        """Use a stored request for exactly this call, once. All of it is compared just before the call
        runs; the content only where somebody has `seen` a preview of it."""
        self.request_id = request_id
        request = self._store.get(request_id)
        self.by = request.decided_by or by
        refuse = functools.partial(NotAllowed, "approval_rejected", tool=tool)
        if request.account_id != get_current_account_id() or request.tool_name != tool.name:
            raise refuse(f"{request_id} is for another call", code="approval_mismatch")
        if request.project != str(project_dir()):
            raise refuse(
                f"{request_id} belongs to another project",
                code="approval_mismatch",
                hint=f"Run it in {request.project}.",
            )
        if request.session_id != get_current_session_id(""):
            raise refuse(f"{request_id} is for another session", code="approval_mismatch")
        if request.workspace_root != str(get_current_workspace_root() or ""):
            raise refuse(
                f"{request_id} is for another workspace",
                code="approval_mismatch",
                hint=f"It is for {request.workspace_root or 'the default workspace'}.",
            )
        if request.state == "denied":
            raise refuse(f"{tool.name} was not approved", reason=request.reason)
        if request.state == "used":
            raise refuse(f"{request_id} was used already", code="approval_used")
        if request.expired(self._store.now()):
            raise _expired(tool, f"{request_id} has expired")
        if request.arguments_digest != arguments_digest(tool.parameters.canonical(arguments)):
            raise refuse(
                f"{request_id} is for other arguments",
                code="approval_mismatch",
                hint="Give the same arguments, or the id alone to run what was approved.",
            )
        if seen and request.plan.content_digest != plan_call(tool, arguments).content_digest:
            raise _stale(tool, request_id)
        if request.state not in states:
            raise ApprovalNeeded(request)
        if not self._store.claim(request, states=states, by=by):
            raise refuse(f"{request_id} was used or answered otherwise meanwhile", code="approval_used")
        self._used = True


def _nobody(request: ApprovalRequest, note: str = "") -> Decision:  # noqa: ARG001  # asks like any other
    return Decision("nobody")


def _stale(tool: Tool, request_id: str) -> NotAllowed:
    return NotAllowed(
        "approval_rejected",
        f"what {request_id} would act on has changed since it was shown",
        tool,
        code="approval_stale",
        hint="Call again, so that the present content is shown.",
    )


def _expired(tool: Tool, message: str) -> NotAllowed:
    return NotAllowed("approval_expired", message, tool, hint="Call again for a new request.")


def plan_call(tool: Tool, arguments: Mapping[str, Any]) -> Plan:
    """What a call would do; raises what makes it impossible. A plan is given every argument."""
    if tool.plan is not None:
        return tool.plan(**tool.parameters.filled(arguments))
    return Plan(
        summary=tool.summary or f"Call {tool.name}", where="this process", content_digest=_NOTHING_PLANNED
    )


@contextmanager
def maker_of(request: ApprovalRequest) -> Iterator[None]:
    """The account, project, session and workspace of a request, for whoever answers it from elsewhere."""
    caller = replace(get_current_invocation_context_or_default(), account_id=request.account_id)
    with platform_invocation_scope(caller), project_scope(Path(request.project)), scope_of(request):
        yield


@contextmanager
def scope_of(request: ApprovalRequest) -> Iterator[None]:
    """The session and workspace that a request was made in."""
    with ExitStack() as stack:
        if request.session_id:
            stack.enter_context(tool_execution_scope(request.session_id))
        if request.workspace_root:
            stack.enter_context(workspace_root_scope(Path(request.workspace_root)))
        yield
