"""A built-in tool as a LangChain tool that is also the function itself."""

from __future__ import annotations

import copy
import inspect
from typing import Any

from langchain_core.tools import StructuredTool

from ksadk.tools.registry import Tool, public_function
from ksadk.toolsets.model_calls import acall_for_model, call_for_model


class AgentEngineTool(StructuredTool):
    """A LangChain tool for what a model calls, and a callable for everyone else.

    LangChain and LangGraph hand the model's arguments to `invoke`, whole: `args_schema` is a JSON Schema, so
    nothing is dropped on the way, and unknown arguments and `approval` are refused. Google ADK and the
    OpenAI Agents SDK take any callable with a name, a docstring and a signature, which it has from the
    public function; calling it calls that.
    """

    @classmethod
    def of(cls, tool: Tool) -> AgentEngineTool:
        """The LangChain tool of a built-in tool."""
        function = public_function(tool.name)
        schema = {
            **copy.deepcopy(tool.parameters.json_schema),
            "title": tool.name,
            "description": tool.description,
        }
        made = cls(name=tool.name, description=tool.description, args_schema=schema, func=function)
        # Beside the fields: pydantic lets a model's own attributes be fields only.
        made.__dict__.update(
            __name__=function.__name__,
            __qualname__=function.__qualname__,
            __module__=function.__module__,
            __doc__=function.__doc__,
            __signature__=inspect.signature(function, eval_str=True),
            __annotations__=inspect.get_annotations(function, eval_str=True),
            __wrapped__=function,
            __ksadk_tool__=tool,
        )
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the public function."""
        return self.func(*args, **kwargs)

    def _run(self, /, **arguments: Any) -> Any:
        return call_for_model(self.__dict__["__ksadk_tool__"], arguments)

    async def _arun(self, /, **arguments: Any) -> Any:
        return await acall_for_model(self.__dict__["__ksadk_tool__"], arguments)
