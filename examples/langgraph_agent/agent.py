"""A graph of LangGraph that thinks, asks, and pauses for approval, also over a restart of the server.

`weather` asks which city; `save TEXT` writes a file by a tool of the gateway, which a person must approve;
anything else is answered by the model, which is a scripted one here.
"""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from ksadk.toolsets.workspace import write_workspace_file

STATE = Path(__file__).parent / ".agentengine"

model = GenericFakeChatModel(messages=itertools.cycle(["I am only a script."]))


def consider(state: MessagesState) -> dict[str, Any]:
    """Finishes before the next node pauses, and so is run once."""
    with (STATE / "steps.log").open("a", encoding="utf-8") as file:
        file.write("considered\n")
    get_stream_writer()({"type": "thinking", "delta": "Let me see. ", "replace": False})
    return {}


def act(state: MessagesState) -> dict[str, Any]:
    """Do what the last message says."""
    text = state["messages"][-1].text
    if text == "weather":
        return {"messages": [AIMessage(f"It is sunny in {interrupt('Which city?')}.")]}
    if text.startswith("save "):
        result = write_workspace_file("note.txt", text.removeprefix("save "))
        return {
            "messages": [AIMessage("Saved." if result["ok"] else f"Not saved: {result['error_message']}.")]
        }
    return {"messages": [model.invoke(state["messages"])]}


@asynccontextmanager
async def graph() -> AsyncIterator[Any]:
    """The graph, with its threads in a database beside it."""
    STATE.mkdir(exist_ok=True)
    builder = StateGraph(MessagesState)
    builder.add_node(consider)
    builder.add_node(act)
    builder.add_edge(START, "consider")
    builder.add_edge("consider", "act")
    builder.add_edge("act", END)
    async with AsyncSqliteSaver.from_conn_string(str(STATE / "threads.db")) as saver:
        yield builder.compile(checkpointer=saver)
