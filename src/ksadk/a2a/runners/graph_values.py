"""What goes into a graph of LangGraph, and what comes out of it, as its schema says."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from ksadk.a2a.runners.base import Artifact, Call, DataPart, Event, RunnerError, Text
from ksadk.a2a.runners.langchain import chunk_events
from ksadk.a2a.runners.values import in_words, json_value

MESSAGES = "messages"
TEXT_KEYS = ("input", "query", "question", "text")
"""Of several keys that take text, the first of these that is there."""


class GraphShape:
    """The keys of a graph's input and output."""

    def __init__(self, graph: Any) -> None:
        hints = _hints(graph)
        self.keys = tuple(hints)
        texts = [key for key, hint in hints.items() if _is_text(hint)]
        usual = [key for key in TEXT_KEYS if key in texts]
        self.text_key = MESSAGES if MESSAGES in hints else (usual or texts or [""])[0]
        channels = graph.output_channels
        self.outputs = (channels,) if isinstance(channels, str) else tuple(channels)
        only_messages = self.keys == (MESSAGES,) or not self.keys
        text = self.text_key or not self.keys
        self.input_modes: tuple[str, ...] = ("text/plain",) * bool(text)
        self.input_modes += ("application/json",) * (not only_messages)

    def input_of(self, call: Call) -> Any:
        """A graph's input.

        A data part whose keys are all the graph's own is the input, or the part of it that it names. The
        text is the graph's next human message, or the value of its key for text. Other parts go into the
        message as JSON or a URL. A graph whose input is no mapping gets the text.
        """
        if not self.keys:
            return call.text
        given: dict[str, Any] = {}
        rest = []
        for part in call.parts:
            if (
                isinstance(part, DataPart)
                and isinstance(part.data, dict)
                and set(part.data) <= set(self.keys)
            ):
                given |= part.data
            else:
                rest.append(part)
        if rest and self.text_key not in given:
            if not self.text_key:
                raise RunnerError(f"the graph takes data with {', '.join(self.keys)}, and was given text")
            text = "\n".join(in_words(part) for part in rest)
            given[self.text_key] = [HumanMessage(text)] if self.text_key == MESSAGES else text
        return given

    def result_of(self, values: Any, given: Any, said: str) -> Iterator[Event]:
        """What a graph's final state says that was not `said` yet.

        The last message, or the only text among the values that are not those `given`: then that is the
        answer, whatever was streamed on the way; other values are an artifact.
        """
        if not isinstance(values, Mapping):
            yield from _text(values, said)
            return
        if MESSAGES in self.outputs:
            messages = values.get(MESSAGES) or []
            last = messages[-1] if isinstance(messages, list) and messages else None
            if isinstance(last, AIMessage) and not said.rstrip().endswith(last.text.strip()):
                yield from chunk_events(last)
            return
        given = given if isinstance(given, Mapping) else {}
        made = {
            key: values[key] for key in self.outputs if key in values and values[key] != given.get(key, _NONE)
        }
        if len(made) == 1 and isinstance(text := next(iter(made.values())), str):
            yield from _text(text, said)
        elif made:
            yield Artifact((DataPart(json_value(made)),))


_NONE = object()


def _text(value: Any, said: str) -> Iterator[Event]:
    if isinstance(value, str):
        if value.strip() and value.strip() != said.strip():
            yield Text(value, replace=bool(said))
    elif value is not None:
        yield Artifact((DataPart(json_value(value)),))


def _hints(graph: Any) -> dict[str, Any]:
    """The types of a graph's input by key. Read from the annotations: pydantic makes no JSON Schema of
    `typing.TypedDict` before Python 3.12."""
    schema = getattr(getattr(graph, "builder", None), "input_schema", None)
    if schema is not None:
        try:
            return typing.get_type_hints(schema)
        except NameError:
            return dict(getattr(schema, "__annotations__", {}))
    properties = graph.get_input_jsonschema().get("properties", {})
    return {key: str if item.get("type") == "string" else object for key, item in properties.items()}


def _is_text(hint: Any) -> bool:
    return hint in (str, "str") or str in typing.get_args(hint)
