"""What the gateway writes of one call into the decision log: the decision, and how the call ended."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ksadk.errors import InvalidArguments, KsadkError
from ksadk.runtime_context import (
    get_current_account_id,
    get_current_session_id,
    get_current_tool_execution_context_or_default,
)
from ksadk.sessions import project_dir
from ksadk.settings import Settings
from ksadk.tools.registry import Tool

if TYPE_CHECKING:
    from ksadk.tools.approval_store import ApprovalStore
    from ksadk.tools.approvals import ApprovalRequest
    from ksadk.tools.consent import Consent
    from ksadk.tools.rules import Rule

MAX_TEXT = 1000
"""Characters of one text in a line; the rest is left out."""

MAX_ARGUMENTS = 64 * 1024
"""Characters of the JSON of arguments that a line may hold; longer ones are left out."""

OUTCOMES = (
    "allowed", "approved", "denied_by_rule", "approval_rejected", "approval_expired", "approval_required",
    "not_started",
)  # fmt: skip
"""What a decision may be. `approved`: the request was answered elsewhere, and whoever called can run it now.
`not_started`: the call could not work, which was found out before it ran."""


class CallRecord:
    """The lines of one call, under one random id.

    store: finds the store that the log stands beside.
    required: whether the call may start only when its decision was written down.
    audit_args: whether lines hold the arguments, not only their digest; None: as the environment says.
    """

    def __init__(
        self,
        store: Callable[[], ApprovalStore],
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        required: bool,
        audit_args: bool | None,
    ) -> None:
        self._store = store
        self._required = required
        self._audit_args = audit_args
        self._tool = tool
        self._arguments = arguments
        self._call = os.urandom(16).hex()
        self._warning = ""
        self._begun = time.perf_counter()

    def allowed(self, rule: Rule | None, consent: Consent | None, mode: str) -> None:
        """Write down that the call may start, before it does. Raises `log_unavailable` where that is required
        and cannot be done.

        consent: what let it through, where somebody was asked. mode: the approval mode.
        """
        by = "mode off" if mode == "off" else "the policy"
        if rule is not None:
            by = "a rule"
        try:
            self._decision("allowed", "", by, rule, consent)
        except KsadkError as error:
            if self._required:
                raise
            self._warn(error)
        self._begun = time.perf_counter()

    def refused(self, error: KsadkError, consent: Consent | None) -> Any:
        """Write down that the call does not start, and why; returns its result."""
        rule: Rule | None = getattr(error, "rule", None)
        try:
            self._decision(
                outcome_of(error), error.error_type, "" if rule is None else "a rule", rule, consent
            )
        except KsadkError as unwritten:
            self._warn(unwritten)
        return self._with_warning(error.to_result())

    def ended(self, result: Any) -> Any:
        """Write down how the call ended; returns its result, with a `warning` where that cannot be done."""
        failed = isinstance(result, dict) and result.get("ok") is False
        self._result(not failed, str(result.get("error_type") or "failed") if failed else "")
        return self._with_warning(result)

    def broke(self, error: BaseException) -> None:
        """Write down that the call ended with an exception that is no result."""
        self._result(False, type(error).__name__)

    def _decision(self, outcome: str, code: str, by: str, rule: Rule | None, consent: Consent | None) -> None:
        fields: dict[str, Any] = {"outcome": outcome}
        if code and code != outcome:
            fields["code"] = code
        fields["by"] = consent.by if consent and outcome != "denied_by_rule" else by
        if rule is not None:
            fields["rule"] = rule_words(rule)
        if consent and consent.request_id:
            fields["request"] = consent.request_id
        surroundings = {
            "account": get_current_account_id(),
            "session": get_current_session_id(""),
            "project": str(project_dir()),
            "invocation_id": get_current_tool_execution_context_or_default().invocation_id,
        }
        self._write({**self._what("decision"), **self._about_arguments(), **fields, **surroundings})

    def _result(self, ok: bool, error_type: str) -> None:
        fields: dict[str, Any] = {"ok": ok, "ms": round(1000 * (time.perf_counter() - self._begun), 1)}
        if error_type:
            fields["error_type"] = error_type
        try:
            self._write({**self._what("result"), **fields})
        except KsadkError as error:
            self._warn(error)

    def _what(self, event: str) -> dict[str, Any]:
        return {
            "event": event,
            "call": self._call,
            "tool": self._tool.name,
            "risk": self._tool.policy.risk_level,
        }

    def _about_arguments(self) -> dict[str, Any]:
        from ksadk.tools.approvals import arguments_digest, canonical_json

        try:
            arguments = self._tool.parameters.canonical(self._arguments)
        except InvalidArguments:  # they have no form in JSON
            return {"arguments_digest": None}
        told: dict[str, Any] = {"arguments_digest": arguments_digest(arguments)}
        audit = Settings.from_env().tool_audit_args if self._audit_args is None else self._audit_args
        if audit:
            size = len(canonical_json(arguments))
            if size > MAX_ARGUMENTS:
                told["arguments_left_out"] = size
            else:
                from ksadk.masking import masker

                told["arguments"] = _without(masker(Settings.from_env().given()), arguments)
        return told

    def _write(self, fields: Mapping[str, Any]) -> None:
        _append(self._store(), fields)

    def _warn(self, error: KsadkError) -> None:
        self._warning = f"this call is not in the decision log: {error.message}"

    def _with_warning(self, result: Any) -> Any:
        if not self._warning:
            return result
        if not isinstance(result, dict):
            warnings.warn(f"{self._tool.name}: {self._warning}", RuntimeWarning, stacklevel=2)
            return result
        own = result.get("warning")
        return {**result, "warning": f"{own}; {self._warning}" if isinstance(own, str) else self._warning}


def log_answer(store: ApprovalStore, request: ApprovalRequest) -> None:
    """Write down that somebody answered a request elsewhere. Raises `log_unavailable`."""
    fields = {
        "event": "decision",
        "call": os.urandom(16).hex(),
        "tool": request.tool_name,
        "risk": request.risk_level,
        "arguments_digest": request.arguments_digest,
        "outcome": "approved" if request.state == "approved" else "approval_rejected",
        "by": request.decided_by,
        "request": request.id,
        "account": request.account_id,
        "session": request.session_id,
        "project": request.project,
        "invocation_id": "",
    }
    _append(store, fields)


def _append(store: ApprovalStore, fields: Mapping[str, Any]) -> None:
    from ksadk.tools.decision_log import DecisionLog

    short = {name: value[:MAX_TEXT] if isinstance(value, str) else value for name, value in fields.items()}
    DecisionLog(store, rotation_bytes=Settings.from_env().tool_log_max_bytes).append(short)


def outcome_of(error: KsadkError) -> str:
    """Which of `OUTCOMES` an error is that ended a call before it ran."""
    outcome: str | None = getattr(error, "outcome", None)
    if outcome is not None:
        return outcome
    if error.code == "approval_required":
        return error.code
    return "approval_rejected" if error.code == "approval_not_found" else "not_started"


def rule_words(rule: Rule) -> str:
    """A rule in a line of the log: `allow edit_workspace_file at FILE:LINE`."""
    return f"{rule.verdict} {rule.tool}" + (f" at {rule.place}" if rule.place else "")


def _without(masked: Callable[[str], str], value: Any) -> Any:
    """A plain value in which no text has a secret."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {masked(name): _without(masked, item) for name, item in value.items()}
    return [_without(masked, item) for item in value] if isinstance(value, list) else value
