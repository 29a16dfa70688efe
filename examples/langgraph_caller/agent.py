"""A graph of LangGraph whose node calls another agent, and passes on what that thinks and says as it comes.

The other agent's address is in REMOTE_AGENT.
"""

import os
from typing import TypedDict

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph

from ksadk.a2a import stream_a2a_agent_to_writer

REMOTE_AGENT = os.environ.get("REMOTE_AGENT", "http://127.0.0.1:8081")


class State(TypedDict):
    """What is asked, and what came of it."""

    query: str
    result: str


async def call_remote(state: State) -> dict[str, str]:
    """Ask the other agent."""
    output = await stream_a2a_agent_to_writer(REMOTE_AGENT, state["query"], writer=get_stream_writer())
    return {"result": output}


builder = StateGraph(State)
builder.add_node(call_remote)
builder.add_edge(START, "call_remote")
builder.add_edge("call_remote", END)
graph = builder.compile()
