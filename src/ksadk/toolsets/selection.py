"""Which tools a caller gets: by group, profile, name and mode; and how they are described."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Iterator
from typing import Any

from ksadk.errors import SettingsError
from ksadk.settings import Settings, read_tools_mode
from ksadk.tools.gateway import current_gateway, tool_policy_requires_approval
from ksadk.tools.registry import Tool, UnknownToolError, builtin_tools, find
from ksadk.toolsets import external

GROUPS = {
    "skill": "skills", "workspace": "workspace", "platform": "platform", "sandbox": "sandbox", "web": "web",
}  # fmt: skip
"""The groups that make up the default set, in its order, and the module that declares each."""

FURTHER_GROUPS = {
    "a2a": "a2a", "network": "sandbox_network", "changes": "sandbox_changes",
    "sandboxes": "sandboxes", "skill_spaces": "skill_spaces",
}  # fmt: skip
"""The groups that are in no default set, and the module that declares each."""

FOCUSED = (
    "list_skills", "search_skills", "load_skill", "workspace_status", "search_workspace_files",
    "edit_workspace_file", "lint_workspace_file", "component_status", "sandbox_status",
)  # fmt: skip

CODING_BESIDES_WORKSPACE = (
    "component_status", "sandbox_status", "run_command", "run_code", "web_fetch", "web_search", "tool_search",
)  # fmt: skip

PROFILES = ("default", "focused", "core", "coding")

_GROUP_ALIASES = {"skills": "skill"}


@functools.cache
def load_builtin_tools() -> None:
    """Import every module that declares built-in tools."""
    for module in (*GROUPS.values(), *FURTHER_GROUPS.values(), "dispatcher"):
        importlib.import_module(f"ksadk.toolsets.{module}")


def names_of_group(group: str) -> list[str]:
    """The names of a group's tools, in the order of declaration."""
    return [tool.name for tool in _group(group)]


def select(include: str | Iterable[str] | None = None, profile: str = "default") -> list[Tool]:
    """The tools that `include` names (groups, profiles and tools, mixed, in that order, each once), else
    those of the profile. `UnknownToolError` for a word that is none of these."""
    words = [profile] if include is None else [include] if isinstance(include, str) else list(include)
    if include is None and profile not in PROFILES:
        raise UnknownToolError(
            f"Unknown AgentEngine toolset or tool: {profile}",
            hint=f"The profiles are {', '.join(PROFILES)}.",
        )
    return list({tool.name: tool for word in words for tool in _named(word)}.values())


def for_mode(
    include: str | Iterable[str] | None = None, profile: str = "default", mode: str = "direct"
) -> list[Tool]:
    """The tools that a runtime is handed in a mode; see `KSADK_BUILTIN_TOOLS_MODE`."""
    mode = _mode(mode)
    if mode == "off":
        return []
    if mode in {"dispatcher", "deferred"}:
        return select(["tool_search", "tool_dispatcher"])
    if mode == "focused":
        focused = select(include, "focused")
        return list(dict.fromkeys([*focused, *select("tool_search")]))
    return select(include, profile)


def descriptors(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """What is told of each tool, under the current gateway's policies and approval mode."""
    gateway = current_gateway()
    mode = gateway.approval_mode()
    return [_descriptor(gateway.policed(tool), mode) for tool in tools]


def is_enabled(tool: Tool) -> bool:
    """Whether a tool can work as this machine is set up. A setting that cannot be used is told by the call
    that needs it; a list of tools does not end there."""
    try:
        return tool.enabled()
    except SettingsError:
        return False


def argument_names(tool: Tool) -> list[str]:
    """The names of a tool's arguments."""
    return list(tool.parameters.names)


def describe_agentengine_tools(
    include: str | Iterable[str] | None = None, *, profile: str = "default", mode: str = "direct"
) -> list[dict[str, Any]]:
    """The descriptions of the tools that `get_agentengine_tools` gives for the same arguments.

    `include` may also name a group of external tools, and `mcp`: all groups that begin with `mcp:`.
    """
    if include is None:
        return descriptors(for_mode(None, profile, mode))
    words = [include] if isinstance(include, str) else list(include)
    if _mode(mode) != "direct":
        ours = [word for word in words if not _is_external(word)]
        return [
            *descriptors(for_mode(ours, profile, mode)),
            *(item for word in words if _is_external(word) for item in external.in_group(word)),
        ]
    described: dict[tuple[str, str], dict[str, Any]] = {}
    for word in words:
        items = external.in_group(word) if _is_external(word) else descriptors(select(word))
        for item in items:
            described.setdefault((item["group"], item["name"]), item)
    return list(described.values())


def get_agentengine_tools(
    include: str | Iterable[str] | None = None, *, profile: str = "default", mode: str = "direct"
) -> list[Any]:
    """Tools for an agent framework: objects that LangChain, LangGraph and Google ADK accept as they are.

    include: groups (skill, workspace, platform, sandbox, web; a2a, which is in no profile), profiles and
        names of tools, mixed.
    profile: what to give without `include`: default (every group), coding, or focused (also called core).
    mode: direct; focused (the focused tools and tool_search); dispatcher or deferred (tool_search and
        tool_dispatcher only); off.
    """
    from ksadk.toolsets.frameworks import as_tools

    return as_tools(for_mode(include, profile, mode))


def get_ksadk_builtin_tools(profile: str = "coding") -> list[Any]:
    """The tools of a profile, as `get_agentengine_tools` gives them."""
    return get_agentengine_tools(profile=profile)


def builtin_tools_mode(default: str = "direct") -> str:
    """What `KSADK_BUILTIN_TOOLS_MODE` says, else `default`."""
    settings = Settings.from_env()
    return settings.builtin_tools_mode if settings.is_set("builtin_tools_mode") else _mode(default)


def builtin_tools_profile(default: str = "default") -> str:
    """What `KSADK_BUILTIN_TOOLS_PROFILE` says, else `default`."""
    settings = Settings.from_env()
    return settings.builtin_tools_profile if settings.is_set("builtin_tools_profile") else default


def builtin_tools_for_runtime(*, profile: str | None = None, mode: str | None = None) -> list[Any]:
    """The tools that the environment (or the arguments, which win) gives a runtime; none in mode off."""
    return get_agentengine_tools(
        profile=profile or builtin_tools_profile(), mode=mode or builtin_tools_mode()
    )


def builtin_tool_descriptors_for_runtime(
    *, profile: str | None = None, mode: str | None = None
) -> list[dict[str, Any]]:
    """The descriptions of `builtin_tools_for_runtime`."""
    return describe_agentengine_tools(
        profile=profile or builtin_tools_profile(), mode=mode or builtin_tools_mode()
    )


def _group(group: str) -> Iterator[Tool]:
    load_builtin_tools()
    return (tool for tool in builtin_tools() if tool.group == group)


def _named(word: str) -> Iterable[Tool]:
    load_builtin_tools()
    group = _GROUP_ALIASES.get(word, word)
    if group in GROUPS or group in FURTHER_GROUPS:
        return _group(group)
    if word == "default":
        return (tool for name in GROUPS for tool in _group(name))
    if word in {"focused", "core"}:
        return map(find, FOCUSED)
    if word == "coding":
        whole = [tool for tool in _group("workspace") if tool.policy.risk_level != "high"]
        return [*whole, *map(find, CODING_BESIDES_WORKSPACE)]
    return [find(word)]


def _is_external(word: str) -> bool:
    """Whether a word means external tools; a built-in of the same name comes first."""
    try:
        _named(word)
    except UnknownToolError:
        return word == "mcp" or bool(external.in_group(word))
    return False


def _mode(word: str) -> str:
    try:
        return read_tools_mode(word)
    except ValueError as error:
        raise SettingsError(f"the tools mode {word!r} cannot be used: {error}") from None


def _descriptor(tool: Tool, mode: str) -> dict[str, Any]:
    policy = tool.policy
    described = {
        "name": tool.name,
        "group": tool.group,
        "description": tool.description,
        "risk_level": policy.risk_level,
        "requires_approval": tool_policy_requires_approval(policy, approval_mode=mode),
        "side_effects": list(policy.side_effects),
        "approval_scopes": list(policy.approval_scopes),
        "approval_exempt": policy.approval_exempt,
        "enabled": is_enabled(tool),
        "boundary": tool.boundary,
    }
    for key, value in tool.facts.items():
        described[key] = value() if callable(value) else value
    return described
