"""LangChain runnables (chains, models, older agents) as agents. What `create_agent` makes is a graph."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable

from ksadk.a2a.runners.base import Artifact, Call, DataPart, Event, RunnerError, Text, Thinking
from ksadk.a2a.runners.callable import CallableRunner, agent
from ksadk.a2a.runners.values import events_of, json_value


def langchain_runner(runnable: Runnable[Any, Any]) -> CallableRunner:
    """The runner of a runnable.

    It gets text, a list of messages, or a dict, as its input schema says; of a dict, the text is the value of
    `messages`, `input`, `question`, `query` or the only key; a data part gives the dict itself. Its chunks
    are the answer as they come; of dicts, the sum is an artifact at the end.
    """
    read = _InputReader(runnable)

    @agent(input_modes=read.modes)
    async def run(call: Call) -> AsyncIterator[Event]:
        whole: Any = None
        async for chunk in runnable.astream(read(call)):
            if isinstance(chunk, (str, BaseMessage)):
                for event in chunk_events(chunk):
                    yield event
            else:
                whole = chunk if whole is None else _sum(whole, chunk)
        for event in _whole_events(whole):
            yield event

    return CallableRunner(run)


def chunk_events(chunk: str | BaseMessage) -> Iterator[Event]:
    """The text and the reasoning in a piece of a model's answer, in their order."""
    if isinstance(chunk, str):
        yield from events_of(chunk)
        return
    for block in chunk.content_blocks:
        if block["type"] == "text" and block["text"]:
            yield Text(block["text"])
        elif block["type"] == "reasoning" and block.get("reasoning"):
            yield Thinking(block["reasoning"])


def _sum(whole: Any, chunk: Any) -> Any:
    try:
        return whole + chunk
    except TypeError:
        return {**whole, **chunk} if isinstance(whole, dict) and isinstance(chunk, dict) else chunk


def _whole_events(whole: Any) -> Iterator[Event]:
    if isinstance(whole, dict):
        words = [whole[key] for key in ("output", "answer", "text") if isinstance(whole.get(key), str)]
        messages = whole.get("messages")
        if words:
            yield Text(words[0])
        elif isinstance(messages, list) and messages and isinstance(messages[-1], AIMessage):
            yield from chunk_events(messages[-1])
        else:
            yield Artifact((DataPart(json_value(whole)),))
    else:
        yield from events_of(whole)


class _InputReader:
    """Makes a runnable's input of a message, by the runnable's schema."""

    _USUAL = ("messages", "input", "question", "query")

    def __init__(self, runnable: Runnable[Any, Any]) -> None:
        schema = runnable.get_input_jsonschema()
        self._keys = list(schema.get("properties", {})) if schema.get("type") == "object" else []
        usual = [key for key in self._USUAL if key in self._keys]
        self._key = usual[0] if usual else self._keys[0] if len(self._keys) == 1 else ""
        self.modes = ("text/plain", "application/json") if self._keys else ("text/plain",)

    def __call__(self, call: Call) -> Any:
        if not self._keys:
            return call.text
        given: dict[str, Any] = {}
        for part in call.parts:
            if isinstance(part, DataPart) and isinstance(part.data, dict):
                given |= part.data
        if call.text and self._key and self._key not in given:
            given[self._key] = [HumanMessage(call.text)] if self._key == "messages" else call.text
        elif call.text and not self._key:
            raise RunnerError(f"the chain takes data with {', '.join(self._keys)}, and was given text")
        return given
