"""Built-in tools as the objects that agent frameworks take."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

from ksadk.errors import ToolDefinitionError
from ksadk.tools.registry import Tool, public_function, tool_of


def as_tools(tools: Iterable[Tool | Callable[..., Any]]) -> list[Any]:
    """Objects that LangChain, LangGraph and Google ADK take as they are, also side by side.

    Each is a LangChain tool that can be called like the function it is made of. Where langchain-core is not
    installed it is the function.
    """
    if importlib.util.find_spec("langchain_core") is None:
        return [public_function(_tool(item).name) for item in tools]
    from ksadk.toolsets.adapters.langchain import AgentEngineTool

    return [AgentEngineTool.of(_tool(item)) for item in tools]


def as_adk_tools(tools: Iterable[Tool | Callable[..., Any]]) -> list[Any]:
    """Google ADK tools, of functions or of what `get_agentengine_tools` gives.

    ADK drops a model's undeclared arguments before it calls a function; these see and refuse them.
    """
    from ksadk.toolsets.adapters.adk import AgentEngineAdkTool

    return [AgentEngineAdkTool(_tool(item)) for item in tools]


def as_openai_agents_tools(tools: Iterable[Tool | Callable[..., Any]]) -> list[Any]:
    """Tools of the OpenAI Agents SDK, of functions or of what `get_agentengine_tools` gives.

    `function_tool` takes plain functions only, and drops a model's undeclared arguments; these see and
    refuse them.
    """
    from ksadk.toolsets.adapters.openai_agents import openai_agents_tool

    return [openai_agents_tool(_tool(item)) for item in tools]


def _tool(item: Tool | Callable[..., Any]) -> Tool:
    tool = item if isinstance(item, Tool) else tool_of(item)
    if tool is None:
        raise ToolDefinitionError(f"{item!r} is not a built-in tool")
    return tool
