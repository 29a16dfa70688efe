"""An agent of DeepAgents with the workspace tools of the gateway; its model is a scripted one.

It makes a plan, writes a file, which a person must approve, and reports.
"""

import itertools
from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from ksadk.toolsets import get_agentengine_tools


class Scripted(GenericFakeChatModel):
    """Says what it was given to say, whatever tools there are."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Take the tools, which the script knows."""
        return self


def call(name: str, **arguments: Any) -> AIMessage:
    """A message in which the model calls a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": name, "type": "tool_call"}])


SCRIPT = [
    call("write_todos", todos=[{"content": "write the report", "status": "in_progress"}]),
    call("write_workspace_file", path="report.txt", content="All is well.\n"),
    AIMessage("The report is written."),
]

agent = create_deep_agent(
    model=Scripted(messages=itertools.cycle(SCRIPT), disable_streaming=True),
    tools=get_agentengine_tools("write_workspace_file"),
)
