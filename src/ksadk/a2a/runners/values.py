"""What agents' values mean: the events of what a callable gives, and the parts of what it asks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from ksadk.a2a.runners.base import (
    Artifact,
    DataPart,
    Event,
    Part,
    RawPart,
    RunnerError,
    Text,
    TextPart,
    Thinking,
    UrlPart,
)

_EVENTS = get_args(Event)
_PARTS = get_args(Part)


def events_of(value: Any) -> Iterator[Event]:
    """What an agent says by a value that it returns or yields.

    Nothing for None, the answer's next text for a text, an artifact for parts and for other JSON values; an
    event is itself. A dict as `stream_a2a_agent_events` yields it is the text or thinking that it tells of.
    """
    if value is None:
        return
    if isinstance(value, _EVENTS):
        yield value
    elif isinstance(value, str):
        if value:
            yield Text(value)
    elif isinstance(value, _PARTS):
        yield Artifact((value,))
    elif isinstance(value, Sequence) and value and all(isinstance(item, _PARTS) for item in value):
        yield Artifact(tuple(value))
    elif event := stream_event(value):
        yield event
    else:
        yield Artifact((DataPart(json_value(value)),))


def stream_event(value: Any) -> Text | Thinking | None:
    """The event that a dict `{"type", "delta", "replace"}` tells of.

    Its type is `text`, `thinking`, or a name that begins with `text.` or `reasoning.`.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("delta"), str):
        return None
    kind = str(value.get("type")).partition(".")[0]
    replace = value.get("replace") is True
    if kind == "text":
        return Text(value["delta"], replace)
    if kind in ("thinking", "reasoning"):
        return Thinking(value["delta"], replace)
    return None


def json_value(value: Any) -> Any:
    """A value as JSON has it; raises `RunnerError` where it cannot."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise RunnerError(
            f"the agent gave {type(value).__name__}: no text, part, event or JSON value ({error})"
        ) from error


def question_parts(asked: Any) -> tuple[Part, ...]:
    """The parts of a question: a text, a part, several of them, or any other value as data.

    Data that has its question in words (`question`, `message`, `prompt`, `hint`) begins with these.
    """
    if isinstance(asked, str):
        return (TextPart(asked),)
    if isinstance(asked, _PARTS):
        return (asked,)
    if isinstance(asked, Sequence) and asked and all(isinstance(item, (str, *_PARTS)) for item in asked):
        return tuple(TextPart(item) if isinstance(item, str) else item for item in asked)
    value = json.loads(json.dumps(asked, default=str))
    words = _words(value)
    return (TextPart(words), DataPart(value)) if words else (DataPart(value),)


def in_words(part: Part) -> str:
    """A part as text, for a model that takes nothing else."""
    if isinstance(part, DataPart):
        return json.dumps(part.data, ensure_ascii=False)
    if isinstance(part, UrlPart):
        return part.url
    if isinstance(part, RawPart):
        return f"[file {part.filename or 'without a name'}, {len(part.data)} bytes]"
    return part.text


def _words(value: Any) -> str:
    if not isinstance(value, Mapping):
        return ""
    texts = (value.get(key) for key in ("question", "message", "prompt", "hint"))
    return next((text for text in texts if isinstance(text, str) and text), "")
