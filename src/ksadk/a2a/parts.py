"""Between the protocol's messages and what agents see: parts, times, and messages of an agent."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal

from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict, SerializeToJsonError
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from ksadk.a2a.runners.base import DataPart, Part, RawPart, TextPart, UrlPart

SNAPSHOT_KEY = "ksadk_output_snapshot"
"""In the metadata of a part that replaces what its artifact held, and does not only repeat it."""
THOUGHT_KEY = "adk_thought"
"""In the metadata of a part that is reasoning."""
REASONING: Literal["reasoning"] = "reasoning"
"""The name of artifacts that are reasoning."""

ADK_METADATA = ParseDict(
    {"https://google.github.io/adk-docs/a2a/a2a-extension/": {"adk_agent_executor_v2": True}}, Struct()
)
"""In the metadata of tasks and statuses: tells an ADK client that reasoning is marked part by part."""


_LARGEST_EXACT = 2**53


def part_from_wire(part: pb.Part) -> Part:
    """A part of a message as an agent sees it."""
    match part.WhichOneof("content"):
        case "raw":
            return RawPart(part.raw, part.filename, part.media_type)
        case "url":
            return UrlPart(part.url, part.filename, part.media_type)
        case "data":
            return DataPart(value_of(part.data), part.media_type)
        case _:
            return TextPart(part.text, part.media_type)


def value_of(data: Value | Struct) -> Any:
    """The JSON value of a data part or of metadata. The protocol holds every number as a double and keeps no
    order of keys: a whole number that a double holds exactly is an int here, and keys are sorted."""
    return _plain(MessageToDict(data))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(value[key]) for key in sorted(value)}
        case list():
            return [_plain(item) for item in value]
        case float() if value.is_integer() and abs(value) <= _LARGEST_EXACT:
            return int(value)
        case _:
            return value


def parts_from_wire(parts: Iterable[pb.Part]) -> tuple[Part, ...]:
    """The parts of a message as an agent sees them."""
    return tuple(part_from_wire(part) for part in parts)


def part_to_wire(part: Part) -> pb.Part:
    """What an agent gave, as a part of the protocol."""
    match part:
        case TextPart(text, media_type):
            return pb.Part(text=encodable(text), media_type=media_type)
        case DataPart(data, media_type):
            made = data_part(data, media_type)
            check_values(pb.Message(parts=[made]))
            return made
        case RawPart(raw, filename, media_type):
            return pb.Part(raw=raw, filename=encodable(filename), media_type=media_type)
        case UrlPart(url, filename, media_type):
            return pb.Part(url=url, filename=encodable(filename), media_type=media_type)


def data_part(data: Any, media_type: str = "") -> pb.Part:
    """A part that holds a JSON value."""
    return pb.Part(data=ParseDict(data, Value()), media_type=media_type)


def encodable(text: str) -> str:
    """The text, with a question mark for what UTF-8 has no bytes for: halves of surrogate pairs, as which
    Python reads stray bytes in names of files."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def check_values(message: pb.Message) -> None:
    """Raise `ValueError` where a task that holds the message could not be read again: JSON has no infinite
    numbers (1e999 is one), and values that are nested too deep are written and not read."""
    structs = [part.metadata for part in message.parts if part.HasField("metadata")]
    if message.HasField("metadata"):
        structs.append(message.metadata)
    values = [part.data for part in message.parts if part.HasField("data")]
    if not structs and not values:
        return
    try:
        for value in (*structs, *values):
            MessageToDict(value)
        parts = [*(pb.Part(metadata=value) for value in structs), *(pb.Part(data=value) for value in values)]
        task = pb.Task(status=pb.TaskStatus(message=pb.Message(parts=parts)))
        pb.Task.FromString(task.SerializeToString())
    except (ValueError, SerializeToJsonError, DecodeError, EncodeError, RecursionError) as error:
        raise ValueError("data is nested too deep, or holds a number that JSON does not have") from error


def text_of(parts: Iterable[pb.Part]) -> str:
    """The text among parts, a line end between two."""
    return "\n".join(part.text for part in parts if part.WhichOneof("content") == "text")


def agent_message(parts: Iterable[pb.Part], *, context_id: str, task_id: str = "") -> pb.Message:
    """A message of the agent's."""
    return pb.Message(
        role=pb.ROLE_AGENT,
        message_id=str(uuid.uuid4()),
        task_id=task_id,
        context_id=context_id,
        parts=parts,
    )


def now() -> Timestamp:
    """The time to the millisecond (5.6.1). It is never a whole second, since those lose their fraction as
    JSON."""
    at = datetime.now(UTC)
    milliseconds = max(at.microsecond // 1000, 1)
    return Timestamp(seconds=int(at.timestamp()), nanos=milliseconds * 1_000_000)
