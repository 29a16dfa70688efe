"""Messages that are sent in a Space: what they may hold, and the hash that a call is permitted for."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from a2a.types import Message, Role
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError, SerializeToJsonError

from ksadk.a2a.parts import check_values
from ksadk.a2a.space.errors import InvalidMessage
from ksadk.a2a.space.models import RemoteTask

MAX_PARTS = 64
MAX_MESSAGE_ID = 128
"""Characters."""
MAX_MESSAGE_BYTES = 1024 * 1024
"""Of the message as canonical JSON."""

_TOKENS = uuid.UUID("8d6f0c1e-7d0b-5f0e-9a51-5b1d7f3c2a64")


def canonical_json(value: Any) -> bytes:
    """JSON as it is hashed: keys sorted, no blanks, UTF-8 that is not escaped."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


@dataclass(frozen=True)
class SpaceMessage:
    """A message that keeps the rules, as A2A writes it. The hash is of what the caller gave: the agent's own
    ids, which a follow-up also carries, are not in it."""

    document: Mapping[str, Any]
    sha256: str

    @property
    def message_id(self) -> str:
        """The message's id."""
        return str(self.document["messageId"])

    @property
    def request(self) -> dict[str, Any]:
        """The message as a `SendMessageRequest`."""
        return {"message": dict(self.document)}

    def of(self, remote: RemoteTask) -> SpaceMessage:
        """The message as one of a task and context of the agent's."""
        ids = {"taskId": remote.task_id, "contextId": remote.context_id}
        return SpaceMessage({**self.document, **ids}, self.sha256)


def checked_message(
    message: str | Mapping[str, Any] | Message, *, idempotency_token: str = ""
) -> SpaceMessage:
    """A message from a text, from A2A's JSON, or from the SDK's type; it is given an id where it has none,
    the same one for the same token.

    `InvalidMessage`: not by the user, not 1 to 64 parts, an id of over 128 characters, over 1 MiB, or with
    ids of a task or context, which are the platform's to set.
    """
    parsed = _parsed(message)
    if not parsed.message_id:
        parsed.message_id = str(uuid.uuid5(_TOKENS, idempotency_token) if idempotency_token else uuid.uuid4())
    if parsed.role == Role.ROLE_UNSPECIFIED:
        parsed.role = Role.ROLE_USER
    _check(parsed)
    try:
        check_values(parsed)
        document = MessageToDict(parsed)
        data = canonical_json(document)
    except (ValueError, SerializeToJsonError, RecursionError) as error:
        raise InvalidMessage(f"the message cannot be written as JSON: {error}") from error
    if len(data) > MAX_MESSAGE_BYTES:
        raise InvalidMessage(
            f"the message is {len(data):,} bytes of JSON; at most {MAX_MESSAGE_BYTES:,} are sent"
        )
    return SpaceMessage(document, hashlib.sha256(data).hexdigest())


def _parsed(message: str | Mapping[str, Any] | Message) -> Message:
    document: Mapping[str, Any]
    if isinstance(message, Message):
        copy = Message()
        copy.CopyFrom(message)
        return copy
    document = {"parts": [{"text": message}]} if isinstance(message, str) else message
    try:
        return ParseDict(dict(document), Message(), max_recursion_depth=64)
    except (ParseError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidMessage(f"the message is not one of A2A 1.0: {error}") from error


def _check(message: Message) -> None:
    if message.role != Role.ROLE_USER:
        raise InvalidMessage("only messages of the user are sent, with the role ROLE_USER")
    if message.task_id or message.context_id:
        raise InvalidMessage(
            "the message names a task or a context of its own",
            hint="Leave out taskId and contextId; continue_task goes on with a task.",
        )
    if len(message.message_id) > MAX_MESSAGE_ID or not message.message_id.isprintable():
        raise InvalidMessage(f"messageId is not of at most {MAX_MESSAGE_ID} printable characters")
    if not 1 <= len(message.parts) <= MAX_PARTS:
        raise InvalidMessage(f"the message has {len(message.parts)} parts; 1 to {MAX_PARTS} are sent")
    for number, part in enumerate(message.parts):
        if not part.WhichOneof("content"):
            raise InvalidMessage(f"part {number} of the message is empty")
