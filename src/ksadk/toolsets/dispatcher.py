"""Tools about tools: find them, read their descriptions, and call them by name.

They keep a model's context small: it is handed two tools instead of twenty.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from ksadk.errors import KsadkError
from ksadk.tools.gateway import current_gateway
from ksadk.tools.registry import Tool, UnknownToolError, builtin
from ksadk.toolsets import external, selection
from ksadk.toolsets.model_calls import read_arguments

if TYPE_CHECKING:
    from ksadk.tools.search import ToolIndex

DISPATCHERS = frozenset({"tool_dispatcher", "agentengine_tool_dispatcher"})
ACTIONS = ("list", "describe", "call")
MAX_RESULTS = 50
USUAL_RESULTS = 8


class _Unchecked:
    """Takes any value, and shows the schema of an object, text or null.

    What is wrong with a value is then said in the dispatcher's own codes.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {"type": "any"}

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        return {
            "anyOf": [{"additionalProperties": True, "type": "object"}, {"type": "string"}, {"type": "null"}]
        }


Arguments = Annotated[dict[str, Any] | str | None, _Unchecked()]


@builtin(group="dispatcher", boundary="local_ksadk_builtin_tools", actions=lambda: list(ACTIONS))
def tool_dispatcher(
    action: str,
    tool_name: str | None = None,
    arguments: Arguments = None,
    include: str | list[str] | None = None,
    profile: str = "default",
) -> dict[str, Any]:
    """List, describe and call the built-in tools by name.

    action: list (what tools there are), describe (one tool, with the schema of its arguments) or call.
    tool_name: the tool to describe or call.
    arguments: the tool's arguments: an object, or its JSON text.
    include: only these groups, profiles and tools.
    profile: default (all), coding or focused; counts where include is left out.

    A call is judged like any other: a risky tool answers with `approval_required` until a person approves.
    """
    return _dispatch(action, tool_name, arguments, include, profile)


@builtin(
    group="dispatcher", boundary="local_ksadk_builtin_tools", actions=lambda: list(ACTIONS),
    compat_alias_for="tool_dispatcher",
)  # fmt: skip
def agentengine_tool_dispatcher(
    action: str,
    tool_name: str | None = None,
    arguments: Arguments = None,
    include: str | list[str] | None = None,
    profile: str = "default",
) -> dict[str, Any]:
    """The same as tool_dispatcher, under its older name: list, describe and call the built-in tools.

    action: list, describe or call.
    tool_name: the tool to describe or call.
    arguments: the tool's arguments: an object, or its JSON text.
    include: only these groups, profiles and tools.
    profile: default (all), coding or focused.
    """
    return _dispatch(action, tool_name, arguments, include, profile)


@builtin(group="tools", boundary="local_ksadk_builtin_tool_registry")
def tool_search(
    query: str, profile: str = "coding", max_results: int | None = 8, include_disabled: bool = False
) -> dict[str, Any]:
    """Search the tools that could be used, built in and external, by what they do. Nothing is called.

    query: words for what you want to do, such as "read file".
    profile: the built-in tools to look among: coding, default (all) or focused.
    max_results: 1 to 50.
    include_disabled: also tools that cannot work as this machine is set up.

    The best match comes first. Built-in results are then called with tool_dispatcher, action call.
    """
    if not query.strip():
        raise KsadkError(
            "query is empty", code="query_required", hint="Say what you want to do.",
            query=query, profile=profile, results=[], deferred_tool_names=[],
        )  # fmt: skip
    limit = min(max(max_results or USUAL_RESULTS, 1), MAX_RESULTS)
    chosen = selection.select(None, profile)
    every = selection.select("default")
    index, outside = _index(external.snapshot()[0])
    wanted = {tool.name for tool in chosen if include_disabled or selection.is_enabled(tool)}
    without = [position for position, tool in enumerate(every) if tool.name not in wanted]
    if not include_disabled:
        without += [len(every) + at for at, item in enumerate(outside) if not item["enabled"]]
    results = []
    for hit in index.search(query, limit, without=without):
        at = hit.position - len(every)
        found = _found(every[hit.position]) if at < 0 else _found_outside(outside[at])
        results.append({**found, "score": hit.score, "reason": hit.reason})
    return {
        "ok": True,
        "query": query,
        "profile": profile,
        "results": results,
        "deferred_tool_names": [item["name"] for item in results],
    }


def _dispatch(
    action: str, tool_name: str | None, arguments: Any, include: str | list[str] | None, profile: str
) -> dict[str, Any]:
    if action not in ACTIONS:
        raise KsadkError(
            f"there is no action {action!r}", code="unknown_action", hint="Use list, describe or call.",
            action=action,
        )  # fmt: skip
    tools = _dispatched(None if include is None else _frozen(include), profile)
    if action == "list":
        return {"ok": True, "tools": _specs(tools.values()), "tool_count": len(tools)}
    tool = _target(tools, tool_name)
    if action == "describe":
        parameters = copy.deepcopy(tool.parameters.json_schema)
        return {"ok": True, "tool": {**_specs([tool])[0], "parameters": parameters}}
    given = read_arguments(arguments)
    if not tool.enabled():
        raise KsadkError(
            f"{tool.name} cannot work as this machine is set up", code="tool_disabled",
            hint="component_status tells what is there.", tool_name=tool.name,
        )  # fmt: skip
    result = current_gateway().call(tool, (), given)
    if not isinstance(result, dict):
        return {"ok": True, "tool_name": tool.name, "result": result}
    if result.get("type") == "approval_required":
        return {**result, "dispatched_tool_name": tool.name}
    return {"ok": result.get("ok") is not False, "tool_name": tool.name, "result": result}


def _target(tools: dict[str, Tool], tool_name: str | None) -> Tool:
    if tool_name is None or not tool_name.strip():
        raise KsadkError(
            "tool_name is missing", code="missing_tool_name", hint="The action list tells the names."
        )
    if tool_name in DISPATCHERS:
        raise KsadkError(
            "the dispatcher does not call itself", code="dispatcher_self_call", tool_name="tool_dispatcher"
        )
    if tool_name not in tools:
        raise UnknownToolError(
            f"there is no tool {tool_name!r} here", hint="The action list tells the names.",
            tool_name=tool_name,
        )  # fmt: skip
    return tools[tool_name]


def _frozen(include: str | Iterable[str]) -> tuple[str, ...]:
    return (include,) if isinstance(include, str) else tuple(include)


@functools.lru_cache(maxsize=128)
def _dispatched(include: tuple[str, ...] | None, profile: str) -> dict[str, Tool]:
    return {tool.name: tool for tool in selection.select(include, profile) if tool.name not in DISPATCHERS}


def _specs(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    tools = list(tools)
    specs = selection.descriptors(tools)
    for tool, spec in zip(tools, specs, strict=True):
        spec["args"] = selection.argument_names(tool)
    return specs


def _found(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "group": tool.group,
        "args": selection.argument_names(tool),
        "risk_level": tool.policy.risk_level,
        "enabled": selection.is_enabled(tool),
        "boundary": tool.boundary,
        "execution": "builtin",
    }


def _found_outside(item: dict[str, Any]) -> dict[str, Any]:
    keys = ("name", "description", "group", "args", "risk_level", "enabled", "boundary", "execution")
    return {key: item[key] for key in keys}


@functools.lru_cache(maxsize=1)
def _index(revision: int) -> tuple[ToolIndex, list[dict[str, Any]]]:  # noqa: ARG001  # what it is kept under
    """The index of the built-in tools, then the external ones, which are returned too."""
    from ksadk.tools.search import Document, ToolIndex

    ours = [
        Document(
            tool.name,
            tool.description,
            tool.group,
            tuple(selection.argument_names(tool)),
            # "search", "read" or "status" alone is about the agent's own files.
            prior=1.1 if tool.group == "workspace" else 1.0,
        )
        for tool in selection.select("default")
    ]
    _, outside = external.snapshot()
    theirs = [
        Document(item["name"], item["description"], item["group"], tuple(item["args"])) for item in outside
    ]
    return ToolIndex(ours + theirs), outside
