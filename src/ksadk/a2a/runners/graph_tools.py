"""Keeps the results of tool calls that finished beside one that has paused, so that they run once.

A `ToolNode` runs all calls of a message in one step, and LangGraph runs a step that was interrupted again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.messages import ToolMessage, messages_from_dict, messages_to_dict
from langgraph.prebuilt import ToolNode

from ksadk.a2a.runners.journal import Journal, current_journal

_MARK = "__ksadk_remembers__"


def remember_tool_calls(graph: Any) -> None:
    """Wrap the tool calls of a graph's nodes and of its subgraphs' nodes. Outside a run nothing changes."""
    graphs = [graph, *(subgraph for _, subgraph in graph.get_subgraphs(recurse=True))]
    for one in graphs:
        for node in one.nodes.values():
            for part in (node.bound, *getattr(node.bound, "steps", ())):
                if isinstance(part, ToolNode) and not hasattr(part, _MARK):
                    _wrap(part)


def _wrap(node: ToolNode) -> None:
    inner, ainner = node._wrap_tool_call, node._awrap_tool_call

    def call(request: Any, execute: Callable[[Any], Any]) -> Any:
        journal, place = _place(request)
        if journal is None:
            return inner(request, execute) if inner else execute(request)
        known = journal.entry(place)
        if known:
            return _read(known["result"])
        result = inner(request, execute) if inner else execute(request)
        journal.write(place, result=_written(result))
        return result

    async def acall(request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
        journal, place = _place(request)
        if journal is None:
            return await (ainner(request, execute) if ainner else execute(request))
        known = journal.entry(place)
        if known:
            return _read(known["result"])
        result = await (ainner(request, execute) if ainner else execute(request))
        journal.write(place, result=_written(result))
        return result

    node._wrap_tool_call = call
    if inner is None or ainner is not None:  # else the node uses the synchronous one for both
        node._awrap_tool_call = acall
    setattr(node, _MARK, True)


def _place(request: Any) -> tuple[Journal | None, str]:
    journal = current_journal()
    place = "" if journal is None else journal.place(f"tool call {request.tool_call['id']}")
    return (journal, place) if place else (None, "")


def _written(result: Any) -> Any:
    """JSON for messages. Commands are kept while the server runs only."""
    if isinstance(result, ToolMessage):
        return {"messages": messages_to_dict([result])}
    return result


def _read(kept: Any) -> Any:
    if isinstance(kept, dict):
        return messages_from_dict(kept["messages"])[0]
    return kept
