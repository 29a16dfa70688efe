"""The one door: every tool call, from anywhere, is checked, judged, asked about, run and trimmed here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ksadk.errors import KsadkError
from ksadk.runtime_context import scoped
from ksadk.settings import Settings, read_approval_mode
from ksadk.tools.approval_modes import (
    current_mode,
    normalize_tool_approval_mode,
    tool_approval_capability,
    tool_policy_requires_approval,
)
from ksadk.tools.registry import Target, Tool, ToolPolicy, find, registered, tool_of
from ksadk.tools.rule_files import project_text, standing_rules

# What only a question needs (the store, digests, rules) is imported when there is one: most calls have none.
if TYPE_CHECKING:
    from ksadk.tools.approval_store import ApprovalStore
    from ksadk.tools.approvals import (
        ApprovalRequest,
        Ask,
        Decision,
        approval_interrupt_info_from_result,
        build_tool_receipt_idempotency_key,
    )
    from ksadk.tools.call_log import CallRecord
    from ksadk.tools.command_policy import check_command_policy
    from ksadk.tools.consent import Consent
    from ksadk.tools.rules import Rule

__all__ = [
    "ToolGateway",
    "ToolPolicy",
    "approval_interrupt_info_from_result",
    "build_tool_receipt_idempotency_key",
    "check_command_policy",
    "current_gateway",
    "default_tool_gateway",
    "gateway_scope",
    "normalize_tool_approval_mode",
    "tool_approval_capability",
    "tool_policy_requires_approval",
]


def __getattr__(name: str) -> Any:
    if name in ("approval_interrupt_info_from_result", "build_tool_receipt_idempotency_key"):
        from ksadk.tools import approvals

        return getattr(approvals, name)
    if name == "check_command_policy":
        from ksadk.tools.command_policy import check_command_policy

        return check_command_policy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Judgement(NamedTuple):
    """Whether somebody must be asked about a call, and the rule that decided so, if one did."""

    ask: bool
    rule: Rule | None = None


_NOT_WRITTEN_DOWN = frozenset({"invalid_arguments", "log_unavailable", "invalid_setting"})
"""Codes of what was no call, and of a call that the log itself kept from starting."""

_LET = Judgement(False)
_ASK = Judgement(True)


class ToolGateway:
    """Calls tools. What it may ask, and whom, is handed in; without `ask` nobody is there.

    policies: policies by tool name, over those that the tools declare.
    rules: exactly these decide before anyone is asked, deny in every mode; without, those of the user's and
        the current project's files.
    ask: puts a request to someone (a terminal's prompt, a host's dialogue).
    session_key: names the terminal session that "for the session" is about; empty where there is none.
    store: where requests are kept; the user's own by default.
    approval_mode: the mode where neither the request nor the environment names one.
    audit_args: whether the decision log holds arguments; None: as the environment says.
    log_all: whether it also holds low-risk calls that no rule is about; None: as the environment says.
    """

    def __init__(
        self,
        policies: Mapping[str, ToolPolicy] | None = None,
        *,
        rules: Sequence[Rule] | None = None,
        ask: Ask | None = None,
        session_key: str = "",
        store: ApprovalStore | None = None,
        approval_mode: str = "off",
        audit_args: bool | None = None,
        log_all: bool | None = None,
    ) -> None:
        self._policies = dict(policies or {})
        self._rules = None if rules is None else tuple(rules)
        self._ask = ask
        self._session_key = session_key
        self._store = store
        self._default_mode = read_approval_mode(approval_mode)
        self._audit_args = audit_args
        self._log_all = log_all
        self._policed: dict[Tool, Tool] = {}

    def invoke(
        self, tool_name: str, func: Callable[..., Any], /, *args: Any, approval: Any = None, **kwargs: Any
    ) -> Any:
        """Call a function as a tool of that name; see `call`.

        Its policy is this gateway's for the name, else the built-in tool's of that name, else the function's.
        """
        try:
            tool = _as_tool(tool_name, func)
        except KsadkError as error:
            return error.to_result()
        return self.call(tool, args, kwargs, approval)

    def call(self, tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any], approval: Any = None) -> Any:
        """Call a tool: the order below is the security contract.

        Returns the function's result. Whatever is refused, and every `KsadkError` of the function, is a
        result too: `{"ok": False, "error_type": code, "error_message": ..., "hint": ...}`, or the approval
        envelope. Other exceptions are bugs and travel on. A coroutine function's call returns an awaitable
        of the same.
        """
        arguments = kwargs
        consent: Consent | None = None
        record: CallRecord | None = None
        try:
            tool = self.policed(tool)
            arguments = tool.parameters.check(tool.parameters.bind(args, kwargs))  # validate
            judged = self._judge(tool, arguments)  # refuse
            if judged.ask or approval is not None:
                consent = self._consent()
                arguments = consent.obtain(tool, arguments, approval)  # preview, ask, check again
            trim = self._trimmer(tool)  # its settings are read first: a call that has run does not fail
            if judged.rule or consent or self._is_told(tool):
                record = self._allow(tool, arguments, judged, consent)  # write down
                self._judge(tool, arguments)  # a rule that came while the log was waited for holds
            result = tool.func(**arguments)  # run
        except KsadkError as error:
            if record is not None:
                return record.ended(error.to_result())
            return self._refuse(tool, arguments, error, consent)
        except BaseException as error:  # an interrupt too is written down, and travels on
            if record is not None:
                record.broke(error)
            elif consent is not None:
                self._refuse(tool, arguments, _unanswered(), consent)
            raise
        if inspect.iscoroutine(result):
            return self._finish_later(result, trim, record)
        return trim(result) if record is None else record.ended(trim(result))

    def preview(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a call would do, without doing it or asking anyone: `{ok, dry_run, summary, where, details,
        diff}`. A call that is refused or cannot work gives the result that it would give."""
        from ksadk.tools.consent import plan_call

        try:
            tool = self.policed(tool)
            checked = tool.parameters.check(dict(arguments))
            self._judge(tool, checked)
            plan = plan_call(tool, checked)
        except KsadkError as error:
            return error.to_result()
        return {
            "ok": True,
            "dry_run": True,
            "summary": plan.summary,
            "where": plan.where,
            "details": [list(detail) for detail in plan.details],
            "diff": plan.diff,
        }

    def run_approved(self, request_id: str) -> Any:
        """Run a stored request with its stored arguments, once, if a person approved it.

        The module that declares its tool must be imported.
        """
        from ksadk.tools.approvals import StoredApproval
        from ksadk.tools.consent import scope_of

        try:
            request = self.store.get(request_id)
            tool = find(request.tool_name)
        except KsadkError as error:
            return error.to_result()
        with scope_of(request):
            return self.call(tool, (), request.arguments, StoredApproval(request_id))

    def answer(
        self, request: ApprovalRequest, ask: Ask, first: Decision | None = None
    ) -> tuple[ApprovalRequest, Decision]:
        """Put a stored request to someone; see `Consent.answer`. Nothing is decided by it yet."""
        return self._consent().answer(self.policed(find(request.tool_name)), request, ask, first)

    def look_again(self, request: ApprovalRequest) -> None:
        """Raise what would make a stored call fail now, `approval_stale` where its content has changed."""
        self._consent().look_again(self.policed(find(request.tool_name)), request)

    @property
    def store(self) -> ApprovalStore:
        """Where requests are kept."""
        return self._store or _user_store()

    def approval_mode(self) -> str:
        """The mode that holds now: the request's, else the environment's, else this gateway's default."""
        return current_mode(self._default_mode)

    def requires_approval(self, tool: Tool) -> bool:
        """Whether a call of this tool would be asked about now, rules aside."""
        return tool_policy_requires_approval(self.policed(tool).policy, approval_mode=self.approval_mode())

    def policed(self, tool: Tool) -> Tool:
        """The tool under the policy that this gateway has for it."""
        policy = self._policies.get(tool.name)
        if policy is None or policy is tool.policy:
            return tool
        if tool not in self._policed:
            self._policed[tool] = replace(tool, policy=policy)
        return self._policed[tool]

    def refuse_by_rule(self, tool: Tool, arguments: Mapping[str, Any], targets: Mapping[str, Target]) -> None:
        """Raise `denied_by_rule` where a rule denies a call by what it turns out to act on as it runs."""
        self._judge(replace(self.policed(tool), targets=lambda _: targets), arguments)

    def _judge(self, tool: Tool, arguments: Mapping[str, Any]) -> Judgement:
        """Refuse what a rule denies; otherwise say whether somebody must be asked, and by which rule."""
        mode = self.approval_mode()
        needed = mode != "off" and tool_policy_requires_approval(tool.policy, approval_mode=mode)
        rules = standing_rules() if self._rules is None else self._rules
        if not rules and tool.line is None:
            return _ASK if needed else _LET
        from ksadk.tools.rules import Call, decide_call

        call = Call.of(tool, tool.parameters.canonical(arguments), project_text())
        rule = decide_call(rules if mode != "off" else [r for r in rules if r.verdict == "deny"], call)
        if rule is not None and rule.verdict == "deny":
            from ksadk.tools.approvals import NotAllowed

            raise NotAllowed(
                "denied_by_rule",
                f"a rule denies {tool.name}" + (f" ({rule.place})" if rule.place else ""),
                tool,
                reason=rule.reason,
                hint="No approval lifts a deny rule; change the rule.",
                rule=rule,
            )
        if tool.line is not None:
            from ksadk.tools.command_gate import check_line

            needed |= check_line(call, rules) and not tool.isolated()
        if rule is None:
            return _ASK if needed else _LET
        return Judgement(rule.verdict == "ask", rule)

    def _consent(self) -> Consent:
        from ksadk.tools.consent import Consent

        return Consent(self.store, self._ask, self._session_key, self._judge)

    def _trimmer(self, tool: Tool) -> Callable[[Any], Any]:
        if not tool.large_fields:
            return _as_it_is
        from ksadk.tools.result_budget import budget_text_fields, default_tool_result_budget

        budget = default_tool_result_budget()

        def trim(result: Any) -> Any:
            if not isinstance(result, dict):
                return result
            return budget_text_fields(result, tool_name=tool.name, fields=tool.large_fields, budget=budget)

        return trim

    async def _finish_later(
        self, result: Awaitable[Any], trim: Callable[[Any], Any], record: CallRecord | None
    ) -> Any:
        try:
            ended = trim(await result)
        except KsadkError as error:
            ended = error.to_result()
        except BaseException as error:  # a cancelled task too is written down, and travels on
            if record is not None:
                record.broke(error)
            raise
        return ended if record is None else record.ended(ended)

    def _logs_all(self) -> bool:
        return Settings.from_env().tool_log_all if self._log_all is None else self._log_all

    def _record(self, tool: Tool, arguments: Mapping[str, Any], *, required: bool) -> CallRecord:
        from ksadk.tools.call_log import CallRecord

        return CallRecord(lambda: self.store, tool, arguments, required=required, audit_args=self._audit_args)

    def _allow(
        self, tool: Tool, arguments: Mapping[str, Any], judged: Judgement, consent: Consent | None
    ) -> CallRecord:
        """Write down that a call is let through; one that needs approval starts only then."""
        required = judged.ask or (judged.rule is not None and self.requires_approval(tool))
        record = self._record(tool, arguments, required=required)
        try:
            record.allowed(judged.rule, consent, self.approval_mode())
        except KsadkError:
            if consent is not None:
                consent.give_back()
            raise
        return record

    def _is_told(self, tool: Tool) -> bool:
        """Whether a call is written down that was neither ruled nor asked about."""
        return tool.policy.risk_level != "low" or self._logs_all()

    def _refuse(
        self, tool: Tool, arguments: Mapping[str, Any], error: KsadkError, consent: Consent | None
    ) -> Any:
        """The result of a call that does not start, which is written down if the call is one, and was asked
        about, denied or risky."""
        if error.code in _NOT_WRITTEN_DOWN:
            return error.to_result()
        try:
            told = consent is not None or hasattr(error, "outcome") or self._is_told(tool)
        except KsadkError:  # a variable that cannot be used; the call is refused for something else
            told = False
        if not told:
            return error.to_result()
        return self._record(tool, arguments, required=False).refused(error, consent)


def _unanswered() -> KsadkError:
    return KsadkError("the question was broken off", code="approval_unanswered")


def _as_it_is(result: Any) -> Any:
    return result


def _as_tool(name: str, func: Callable[..., Any]) -> Tool:
    declared = tool_of(func)
    if declared is not None and declared.name == name:
        return declared
    try:
        return _renamed(name, func)
    except TypeError:  # a callable that has no hash is not kept
        return _renamed.__wrapped__(name, func)


@functools.lru_cache(maxsize=1024)
def _renamed(name: str, func: Callable[..., Any]) -> Tool:
    """A function of anybody's as a tool, or a declared one under another name."""
    declared = tool_of(func) or Tool(name=name, func=func, group="external", boundary="python_function")
    namesake = registered(name)
    return replace(declared, name=name, policy=(namesake or declared).policy)


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
    with scoped(_current, gateway):
        yield gateway


def default_tool_gateway(policies: Mapping[str, ToolPolicy] | None = None) -> ToolGateway:
    """The gateway with nobody to ask; with `policies`, one of its own."""
    return _DEFAULT if policies is None else ToolGateway(policies)
