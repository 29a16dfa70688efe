"""The tools that an agent is given, and the ways to choose, describe, find and call them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ksadk.toolsets.dispatcher import agentengine_tool_dispatcher, tool_dispatcher, tool_search
    from ksadk.toolsets.external import clear_external_tools, register_external_tools
    from ksadk.toolsets.platform import get_platform_tools
    from ksadk.toolsets.sandbox import get_sandbox_tools
    from ksadk.toolsets.selection import (
        builtin_tool_descriptors_for_runtime,
        builtin_tools_for_runtime,
        builtin_tools_mode,
        builtin_tools_profile,
        describe_agentengine_tools,
        get_agentengine_tools,
        get_ksadk_builtin_tools,
    )
    from ksadk.toolsets.skills import get_skill_tools
    from ksadk.toolsets.web import get_web_tools
    from ksadk.toolsets.workspace import get_workspace_tools

_HOMES = {
    "dispatcher": ("agentengine_tool_dispatcher", "tool_dispatcher", "tool_search"),
    "external": ("clear_external_tools", "register_external_tools"),
    "platform": ("get_platform_tools",),
    "sandbox": ("get_sandbox_tools",),
    "selection": (
        "builtin_tool_descriptors_for_runtime",
        "builtin_tools_for_runtime",
        "builtin_tools_mode",
        "builtin_tools_profile",
        "describe_agentengine_tools",
        "get_agentengine_tools",
        "get_ksadk_builtin_tools",
    ),
    "skills": ("get_skill_tools",),
    "web": ("get_web_tools",),
    "workspace": ("get_workspace_tools",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "agentengine_tool_dispatcher",
    "builtin_tool_descriptors_for_runtime",
    "builtin_tools_for_runtime",
    "builtin_tools_mode",
    "builtin_tools_profile",
    "clear_external_tools",
    "describe_agentengine_tools",
    "get_agentengine_tools",
    "get_ksadk_builtin_tools",
    "get_platform_tools",
    "get_sandbox_tools",
    "get_skill_tools",
    "get_web_tools",
    "get_workspace_tools",
    "register_external_tools",
    "tool_dispatcher",
    "tool_search",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"ksadk.toolsets.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
