"""The approval modes: which holds now, and which policies it asks about."""

from __future__ import annotations

from typing import Any

from ksadk.errors import SettingsError
from ksadk.runtime_context import get_current_invocation_context_or_default
from ksadk.settings import APPROVAL_MODE_ALIASES, APPROVAL_MODES, Settings, read_approval_mode
from ksadk.tools.registry import ToolPolicy


def current_mode(default: str = "off") -> str:
    """The mode that holds now: the request's, else the environment's, else `default`."""
    override = get_current_invocation_context_or_default().tool_approval_mode
    if override:
        return normalize_tool_approval_mode(override)
    settings = Settings.from_env()
    return settings.tool_approval_mode if settings.is_set("tool_approval_mode") else default


def normalize_tool_approval_mode(value: str | None = None) -> str:
    """`off`, `strict` or `ask` for a word or alias; without one, the mode that holds now."""
    if value is None:
        return current_mode()
    try:
        return read_approval_mode(value)
    except ValueError as error:
        raise SettingsError(f"tool_approval_mode is {value!r}: {error}") from error


def tool_approval_capability() -> dict[str, Any]:
    """What a host can rely on: the mode now, the modes there are, and how approvals are bound."""
    settings = Settings.from_env()
    return {
        "mode": current_mode(),
        "modes": list(APPROVAL_MODES),
        "aliases": dict(APPROVAL_MODE_ALIASES),
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
