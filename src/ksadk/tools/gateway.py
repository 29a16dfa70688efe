"""The one door: every tool call, from anywhere, is checked, judged, asked about, run and trimmed here."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksadk.errors import KsadkError, SettingsError
from ksadk.runtime_context import (
    get_current_account_id,
    get_current_invocation_context_or_default,
    get_current_session_id,
    get_current_workspace_root,
    tool_execution_scope,
    workspace_root_scope,
)
from ksadk.sessions import project_dir
from ksadk.settings import Settings, read_approval_mode
from ksadk.tools import rules as rule_book
from ksadk.tools.approvals import (
    ApprovalNeeded,
    ApprovalRequest,
    Ask,
    Decision,
    NotAllowed,
    State,
    StoredApproval,
    approval_interrupt_info_from_result,
    arguments_digest,
    build_tool_receipt_idempotency_key,
    new_request,
    read_approval,
)
from ksadk.tools.registry import Plan, Tool, ToolPolicy, find, tool_of

if TYPE_CHECKING:
    from ksadk.tools.approval_store import ApprovalStore

__all__ = [
    "ToolGateway",
    "ToolPolicy",
    "approval_interrupt_info_from_result",
    "build_tool_receipt_idempotency_key",
    "current_gateway",
    "default_tool_gateway",
    "gateway_scope",
    "normalize_tool_approval_mode",
    "tool_approval_capability",
    "tool_policy_requires_approval",
]

SESSION_GRANT_SECONDS = 8 * 3600
"""How long "this exact call for the session" holds."""

_NOTHING_PLANNED = hashlib.sha256(b"").hexdigest()


class ToolGateway:
    """Calls tools. What it may ask, and whom, is handed in; without `ask` nobody is there.

    policies: policies by tool name, over those that the tools declare.
    rules: rules that decide before anyone is asked; deny holds in every mode.
    ask: puts a request to someone (a terminal's prompt, a host's dialogue).
    session_key: names the terminal session that "for the session" is about; empty where there is none.
    store: where requests are kept; the user's own by default.
    approval_mode: the mode where neither the request nor the environment names one.
    """

    def __init__(
        self,
        policies: Mapping[str, ToolPolicy] | None = None,
        *,
        rules: Sequence[rule_book.Rule] = (),
        ask: Ask | None = None,
        session_key: str = "",
        store: ApprovalStore | None = None,
        approval_mode: str = "off",
    ) -> None:
        self._policies = dict(policies or {})
        self._rules = tuple(rules)
        self._ask = ask
        self._session_key = session_key
        self._store = store
        self._default_mode = read_approval_mode(approval_mode)
        self._policed: dict[Tool, Tool] = {}

    def invoke(
        self, tool_name: str, func: Callable[..., Any], *args: Any, approval: Any = None, **kwargs: Any
    ) -> Any:
        """Call a function as a tool of that name; see `call`."""
        return self.call(tool_of(func) or _adopt(tool_name, func), args, kwargs, approval)

    def call(self, tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any], approval: Any = None) -> Any:
        """Call a tool: the order below is the security contract.

        Returns the function's result. Whatever is refused, and every `KsadkError` of the function, is a
        result too: `{"ok": False, "error_type": code, "error_message": ..., "hint": ...}`, or the approval
        envelope. Other exceptions are bugs and travel on. A coroutine function's call returns an awaitable
        of the same.
        """
        try:
            tool = self._with_policy(tool)
            arguments = tool.parameters.check(tool.parameters.bind(args, kwargs))  # validate
            asked = self._judge(tool, arguments)  # refuse
            if asked or approval is not None:
                arguments = self._let_through(tool, arguments, approval)  # preview, ask, check again
            result = tool.func(**arguments)  # run
        except KsadkError as error:
            return error.to_result()
        if inspect.iscoroutine(result):
            return self._finish_later(tool, result)
        return self._finish(tool, result)  # trim

    def preview(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a call would do, without doing it or asking anyone: `{ok, dry_run, summary, where, details,
        diff}`. A call that is refused or cannot work gives the result that it would give."""
        try:
            tool = self._with_policy(tool)
            checked = tool.parameters.check(dict(arguments))
            self._judge(tool, checked)
            plan = _plan(tool, checked)
        except KsadkError as error:
            return error.to_result()
        return {
            "ok": True,
            "dry_run": True,
            "summary": plan.summary,
            "where": plan.where,
            "details": dict(plan.details),
            "diff": plan.diff,
        }

    def run_approved(self, request_id: str) -> Any:
        """Run a stored request with its stored arguments, once, if a person approved it."""
        try:
            request = self.store.get(request_id)
            tool = find(request.tool_name)
        except KsadkError as error:
            return error.to_result()
        with _scope_of(request):
            return self.call(tool, (), request.arguments, StoredApproval(request_id))

    def amend(self, request: ApprovalRequest, arguments: dict[str, Any]) -> ApprovalRequest:
        """Replace the arguments of a pending request, checked and previewed again; raises when they cannot
        work."""
        return self._amend(find(request.tool_name), request, arguments)

    @property
    def store(self) -> ApprovalStore:
        """Where requests are kept."""
        return self._store or _user_store()

    def approval_mode(self) -> str:
        """The mode that holds now: the request's, else the environment's, else this gateway's default."""
        override = get_current_invocation_context_or_default().tool_approval_mode
        if override:
            return normalize_tool_approval_mode(override)
        settings = Settings.from_env()
        if settings.is_set("tool_approval_mode"):
            return settings.tool_approval_mode
        return self._default_mode

    def requires_approval(self, tool: Tool) -> bool:
        """Whether a call of this tool would be asked about now, rules aside."""
        return tool_policy_requires_approval(
            self._with_policy(tool).policy, approval_mode=self.approval_mode()
        )

    def _with_policy(self, tool: Tool) -> Tool:
        policy = self._policies.get(tool.name)
        if policy is None or policy is tool.policy:
            return tool
        if tool not in self._policed:
            self._policed[tool] = replace(tool, policy=policy)
        return self._policed[tool]

    def _judge(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Refuse what a rule denies; otherwise say whether somebody must be asked."""
        mode = self.approval_mode()
        needed = mode != "off" and tool_policy_requires_approval(tool.policy, approval_mode=mode)
        if not self._rules:
            return needed
        rule = rule_book.decide(self._rules, tool.name, tool.parameters.canonical(arguments))
        if rule is None:
            return needed
        if rule.verdict == "deny":
            raise NotAllowed(
                "denied_by_rule",
                f"a rule denies {tool.name}",
                tool,
                reason=rule.reason,
                hint="No approval lifts a deny rule; change the rule.",
            )
        return rule.verdict == "ask" and mode != "off"

    def _let_through(self, tool: Tool, arguments: dict[str, Any], approval: Any) -> dict[str, Any]:
        """The arguments to run with, approved; raises the outcome when the call may not run."""
        if isinstance(approval, StoredApproval):
            plan = _plan(tool, arguments)
            self._use(tool, arguments, plan, approval.id, states=("approved",))
            return arguments
        if approval is not None:
            request_id = read_approval(approval, tool)
            plan = _plan(tool, arguments)
            if request_id is not None:
                self._use(tool, arguments, plan, request_id, states=("approved", "pending"))
            elif Settings.from_env().tool_approval_binding == "required":
                raise NotAllowed(
                    "approval_rejected",
                    "an approval must name the request that it answers",
                    tool,
                    code="invalid_approval",
                    hint='Pass approval={"approved": True, "id": "appr_..."}.',
                )
            return arguments
        return self._ask_about(tool, arguments)

    def _ask_about(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
        request = self._request(tool, arguments, _plan(tool, arguments))
        store = self.store
        if self._session_key and store.granted(self._session_key, request):
            return arguments
        store.create(request)
        note = ""
        while True:
            decision = self._ask(request, note) if self._ask is not None else Decision("nobody")
            if decision.verdict == "edit":
                try:
                    request, note = self._amend(tool, request, decision.arguments or {}), ""
                except KsadkError as error:
                    if error.code in {"log_unavailable", "approval_expired", "approval_decided"}:
                        raise
                    note = error.message
                continue
            break
        self._settle(tool, request, decision)
        arguments = tool.parameters.check(request.arguments)
        self._judge(tool, arguments)
        self._use(tool, arguments, _plan(tool, arguments), request.id, states=("approved",))
        if decision.for_session and self._session_key:
            store.grant(self._session_key, request, SESSION_GRANT_SECONDS)
        return arguments

    def _amend(self, tool: Tool, request: ApprovalRequest, arguments: dict[str, Any]) -> ApprovalRequest:
        with _scope_of(request):
            tool = self._with_policy(tool)
            checked = tool.parameters.check(arguments)
            self._judge(tool, checked)
            canonical = tool.parameters.canonical(checked)
            amended = replace(
                request,
                arguments=canonical,
                arguments_digest=arguments_digest(canonical),
                plan=_plan(tool, checked),
                edited=True,
            )
        self.store.amend(amended)
        return amended

    def _settle(self, tool: Tool, request: ApprovalRequest, decision: Decision) -> None:
        """Write the decision down; returns only for an approval."""
        if decision.verdict == "nobody":
            raise ApprovalNeeded(request)
        if decision.verdict == "expired":
            self.store.expire(request.id)
            raise NotAllowed(
                "approval_expired",
                f"nobody answered {request.id} in time",
                tool,
                hint="Call again for a new request.",
            )
        kept = self.store.get(request.id)
        if kept.state == "pending":  # else it was answered from elsewhere, and that answer holds
            verdict: State = "denied" if decision.verdict == "deny" else "approved"
            kept = self.store.decide(request.id, verdict, by=decision.by, reason=decision.reason)
        if kept.state == "denied":
            raise NotAllowed("approval_rejected", f"{tool.name} was not approved", tool, reason=kept.reason)

    def _request(self, tool: Tool, arguments: dict[str, Any], plan: Plan) -> ApprovalRequest:
        settings = Settings.from_env()
        return new_request(
            tool,
            tool.parameters.canonical(arguments),
            plan,
            project=str(project_dir(settings)),
            account_id=get_current_account_id(),
            session_id=get_current_session_id(""),
            workspace_root=str(get_current_workspace_root() or ""),
            ttl_seconds=settings.tool_approval_ttl_seconds,
            now=self.store.now(),
        )

    def _use(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        plan: Plan,
        request_id: str,
        *,
        states: tuple[State, ...],
    ) -> None:
        """Use a stored request for exactly this call, once. All of it is compared again, just before it
        runs."""
        store = self.store
        request = store.get(request_id)
        refuse = functools.partial(NotAllowed, "approval_rejected", tool=tool)
        if request.account_id != get_current_account_id() or request.tool_name != tool.name:
            raise refuse(f"{request_id} is for another call", code="approval_mismatch")
        if request.project != str(project_dir()):
            raise refuse(
                f"{request_id} belongs to another project",
                code="approval_mismatch",
                hint=f"Run it in {request.project}.",
            )
        if request.state == "denied":
            raise refuse(f"{tool.name} was not approved", reason=request.reason)
        if request.state == "used":
            raise refuse(f"{request_id} was used already", code="approval_used")
        if request.expired(store.now()):
            raise NotAllowed(
                "approval_expired", f"{request_id} has expired", tool, hint="Call again for a new request."
            )
        if request.arguments_digest != arguments_digest(tool.parameters.canonical(arguments)):
            raise refuse(
                f"{request_id} is for other arguments",
                code="approval_mismatch",
                hint="Give the same arguments, or the id alone to run what was approved.",
            )
        if request.plan.content_digest != plan.content_digest:
            raise refuse(
                f"what {request_id} would act on has changed since it was shown",
                code="approval_stale",
                hint="Call again, so that the present content is shown.",
            )
        if request.state not in states:
            raise ApprovalNeeded(request)
        if not store.claim(request, states=states, by="caller"):
            raise refuse(f"{request_id} was used already", code="approval_used")

    def _finish(self, tool: Tool, result: Any) -> Any:
        if not tool.large_fields or not isinstance(result, dict):
            return result
        from ksadk.tools.result_budget import budget_text_fields

        return budget_text_fields(result, tool_name=tool.name, fields=tool.large_fields)

    async def _finish_later(self, tool: Tool, result: Awaitable[Any]) -> Any:
        try:
            return self._finish(tool, await result)
        except KsadkError as error:
            return error.to_result()


def _plan(tool: Tool, arguments: Mapping[str, Any]) -> Plan:
    if tool.plan is not None:
        return tool.plan(**arguments)
    return Plan(
        summary=tool.summary or f"Call {tool.name}", where="this process", content_digest=_NOTHING_PLANNED
    )


@functools.lru_cache(maxsize=1024)
def _adopt(name: str, func: Callable[..., Any]) -> Tool:
    """A function that was not declared as a tool, as one."""
    return Tool(name=name, func=func, group="external", boundary="python_function")


@contextmanager
def _scope_of(request: ApprovalRequest) -> Iterator[None]:
    """The session and workspace that a request was made in."""
    with ExitStack() as stack:
        if request.session_id:
            stack.enter_context(tool_execution_scope(request.session_id))
        if request.workspace_root:
            stack.enter_context(workspace_root_scope(Path(request.workspace_root)))
        yield


def _user_store() -> ApprovalStore:
    from ksadk.tools.approval_store import ApprovalStore

    return ApprovalStore(Settings.from_env().state_dir() / "approvals.sqlite3")


_DEFAULT = ToolGateway()
_current: ContextVar[ToolGateway] = ContextVar("ksadk_gateway", default=_DEFAULT)


def current_gateway() -> ToolGateway:
    """The gateway that tool functions called now go through."""
    return _current.get()


@contextmanager
def gateway_scope(gateway: ToolGateway) -> Iterator[ToolGateway]:
    """Let tool functions go through `gateway` inside a `with` block, those called by other tools too."""
    token = _current.set(gateway)
    try:
        yield gateway
    finally:
        _current.reset(token)


def default_tool_gateway(policies: Mapping[str, ToolPolicy] | None = None) -> ToolGateway:
    """The gateway with nobody to ask; with `policies`, one of its own."""
    return _DEFAULT if policies is None else ToolGateway(policies)


def normalize_tool_approval_mode(value: str | None = None) -> str:
    """`off`, `strict` or `ask` for a word or alias; without one, what the environment says."""
    if value is None:
        return Settings.from_env().tool_approval_mode
    try:
        return read_approval_mode(value)
    except ValueError as error:
        raise SettingsError(f"tool_approval_mode is {value!r}: {error}") from error


def tool_approval_capability() -> dict[str, Any]:
    """What a host can rely on: the mode now, the modes there are, and how approvals are bound."""
    settings = Settings.from_env()
    return {
        "mode": settings.tool_approval_mode,
        "modes": ["off", "strict", "ask"],
        "aliases": {"full": "off", "permissive": "off", "risk": "strict"},
        "binding": settings.tool_approval_binding,
        "ttl_seconds": settings.tool_approval_ttl_seconds,
    }


def tool_policy_requires_approval(policy: ToolPolicy, *, approval_mode: str | None = None) -> bool:
    """Whether a tool of this policy is asked about: never in `off`; in `strict` from medium risk on, unless
    the policy decides for itself; in `ask` also whatever has an approval scope."""
    mode = normalize_tool_approval_mode(approval_mode)
    if mode == "off":
        return False
    if mode == "ask" and policy.approval_scopes:
        return True
    if policy.requires_approval is not None:
        return policy.requires_approval
    return policy.risk_level != "low" and not policy.approval_exempt
