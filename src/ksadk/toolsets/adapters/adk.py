"""A built-in tool as a Google ADK tool."""

from __future__ import annotations

import copy
from typing import Any

from google.adk.tools import BaseTool
from google.genai import types

from ksadk.tools.registry import Tool
from ksadk.toolsets.model_calls import acall_for_model


class AgentEngineAdkTool(BaseTool):
    """Gets the model's arguments whole, so that unknown ones and `approval` are refused, not dropped."""

    def __init__(self, tool: Tool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._tool = tool

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=copy.deepcopy(self._tool.parameters.json_schema),
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:  # noqa: ARG002
        """Call the tool with the model's arguments."""
        return await acall_for_model(self._tool, args)
