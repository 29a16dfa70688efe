"""Tools that a framework runs itself: described and searched here, never called."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from ksadk.errors import InvalidArguments
from ksadk.tools.gateway import current_gateway, tool_policy_requires_approval
from ksadk.tools.registry import RiskLevel, ToolPolicy

_RISK_LEVELS = get_args(RiskLevel)
_lock = threading.Lock()
_registered: dict[tuple[str, str], dict[str, Any]] = {}
_revision = 0


def register_external_tools(
    tools: Iterable[Any],
    *,
    group: str = "external",
    boundary: str = "framework_managed_external_tool",
    risk_level: str = "medium",
    enabled: bool = True,
) -> list[str]:
    """Make a framework's tools known to `tool_search` and `describe_agentengine_tools`.

    tools: functions, framework tools (`name`, `description`, `args` or `args_schema`), or mappings with
        name, description and inputSchema or parameters.
    group: a name of their own; MCP servers use `mcp:<server>`. A tool registered again replaces the first.

    Returns the names. All are registered, or, when one has no name, none.
    """
    if risk_level not in _RISK_LEVELS:
        raise InvalidArguments(f"risk_level {risk_level!r}: one of {', '.join(_RISK_LEVELS)} is expected")
    if not group.strip():
        raise InvalidArguments("a group of external tools needs a name")
    described = [_descriptor(tool, group, boundary, risk_level, enabled) for tool in tools]
    global _registered, _revision
    with _lock:
        _registered = _registered | {(group, item["name"]): item for item in described}
        _revision += 1
    return [item["name"] for item in described]


def clear_external_tools(group: str | None = None) -> None:
    """Forget the external tools of a group, or all of them."""
    global _registered, _revision
    with _lock:
        _registered = (
            {} if group is None else {key: _registered[key] for key in _registered if key[0] != group}
        )
        _revision += 1


def snapshot() -> tuple[int, list[dict[str, Any]]]:
    """A number that changes with every registration, and the descriptions of all external tools.

    The descriptions are shared: they are to be read only.
    """
    with _lock:
        return _revision, list(_registered.values())


def in_group(word: str) -> list[dict[str, Any]]:
    """Copies of the descriptions in an external group; `mcp` stands for every group `mcp:...`.

    Whether such a tool is asked about is for the framework that runs it; `requires_approval` tells what its
    risk calls for in the current mode.
    """
    _, items = snapshot()
    mode = current_gateway().approval_mode()
    return [
        {key: list(value) if isinstance(value, list) else value for key, value in item.items()}
        | {"requires_approval": _asks(item["risk_level"], mode)}
        for item in items
        if item["group"] == word or (word == "mcp" and item["group"].startswith("mcp:"))
    ]


def _asks(risk_level: RiskLevel, mode: str) -> bool:
    return tool_policy_requires_approval(ToolPolicy(risk_level), approval_mode=mode)


def _descriptor(tool: Any, group: str, boundary: str, risk_level: str, enabled: bool) -> dict[str, Any]:
    if isinstance(tool, Mapping):
        name, description = tool.get("name"), tool.get("description")
    else:
        name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
        description = getattr(tool, "description", None) or inspect.getdoc(tool)
    if not isinstance(name, str) or not name.strip():
        raise InvalidArguments(f"an external tool has no name: {type(tool).__name__}")
    return {
        "name": name,
        "group": group,
        "description": description if isinstance(description, str) else "",
        "args": _argument_names(tool),
        "risk_level": risk_level,
        "requires_approval": False,
        "side_effects": [],
        "approval_scopes": [],
        "approval_exempt": False,
        "enabled": enabled,
        "boundary": boundary,
        "execution": "external",
    }


def _argument_names(tool: Any) -> list[str]:
    if isinstance(tool, Mapping):
        schema = tool.get("inputSchema") or tool.get("input_schema") or tool.get("parameters")
    else:
        args = getattr(tool, "args", None)  # LangChain: the properties themselves
        if isinstance(args, Mapping):
            return [str(name) for name in args]
        schema = getattr(tool, "params_json_schema", None) or getattr(tool, "inputSchema", None)
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        return [str(name) for name in properties] if isinstance(properties, Mapping) else []
    if not callable(tool):
        return []
    try:
        return list(inspect.signature(tool).parameters)
    except (TypeError, ValueError):  # a callable without a readable signature
        return []
