"""Graphs of LangGraph to be run in tests, with models that say what they were given to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph


class Scripted(GenericFakeChatModel):
    """A chat model that says what it was given to say, and takes any tools."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def model(*messages: AIMessage | str) -> Scripted:
    streams = all(isinstance(message, str) for message in messages)
    return Scripted(messages=iter(messages), disable_streaming=not streams)


def tool_call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": arguments, "id": f"call-{name}-{len(arguments)}", "type": "tool_call"}


def messages_graph(*nodes: Callable[..., Any], saver: Any = None) -> Any:
    return chain(MessagesState, *nodes, saver=saver)


def chain(state: Any, *nodes: Callable[..., Any], saver: Any = None) -> Any:
    graph = StateGraph(state)
    names = [f"node{number}" for number, _ in enumerate(nodes)]
    for name, node in zip(names, nodes, strict=True):
        graph.add_node(name, node)
    for before, after in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=saver)


def echo(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"{len(state['messages'])}: {state['messages'][-1].text}")]}
