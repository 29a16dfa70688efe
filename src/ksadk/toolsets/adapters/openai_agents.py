"""A built-in tool as a tool of the OpenAI Agents SDK."""

from __future__ import annotations

import copy
from typing import Any

from agents import FunctionTool

from ksadk.tools.registry import Tool
from ksadk.toolsets.model_calls import acall_for_model


def openai_agents_tool(tool: Tool) -> FunctionTool:
    """Gets the model's arguments whole, so that unknown ones and `approval` are refused, not dropped."""

    async def invoke(context: Any, arguments: str) -> Any:  # noqa: ARG001
        return await acall_for_model(tool, arguments)

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=copy.deepcopy(tool.parameters.json_schema),
        on_invoke_tool=invoke,
        # A strict schema needs every argument to be given; ours have defaults.
        strict_json_schema=False,
    )
