"""Messages that are sent in a Space: the rules, and the hash that a call is permitted for."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from a2a.types import Message, Part, Role
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import given
from hypothesis import strategies as st
from space_wire import MESSAGE, request_bytes

from ksadk.a2a.space.errors import InvalidMessage
from ksadk.a2a.space.message_rules import MAX_MESSAGE_BYTES, canonical_json, checked_message
from ksadk.a2a.space.models import RemoteTask

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


def with_parts(*parts: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_USER", "parts": list(parts)} | changed


def test_the_hash_is_the_one_that_was_written_down() -> None:
    asked = json.loads(request_bytes("prepare_call").partition(b"\r\n\r\n")[2])
    assert checked_message(MESSAGE).sha256 == asked["MessageSha256"]
    literal = '{"messageId":"m-1","parts":[{"text":"总结本周研究"}],"role":"ROLE_USER"}'
    assert asked["MessageSha256"] == hashlib.sha256(literal.encode()).hexdigest()


def test_canonical_json_sorts_keys_and_escapes_no_letter() -> None:
    assert canonical_json({"b": [1, {"z": None, "a": "é"}], "a": "你好 🚀"}) == (
        '{"a":"你好 🚀","b":[1,{"a":"é","z":null}]}'.encode()
    )


def test_a_follow_up_keeps_the_hash_of_what_the_caller_gave() -> None:
    message = checked_message(MESSAGE)
    followed = message.of(RemoteTask("remote-task-1", "remote-context-1"))
    assert followed.sha256 == message.sha256
    assert followed.request == {
        "message": {**message.document, "taskId": "remote-task-1", "contextId": "remote-context-1"}
    }


def test_a_text_the_json_and_the_sdks_type_are_the_same_message() -> None:
    value = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="hi")])
    as_json = checked_message(with_parts({"text": "hi"}))
    assert checked_message(value) == as_json
    text = checked_message("hi")
    assert text.document == {**as_json.document, "messageId": text.message_id}


def test_the_callers_message_is_not_changed() -> None:
    value = Message(parts=[Part(text="hi")])
    given = {"parts": [{"text": "hi"}]}
    assert checked_message(value).message_id and checked_message(given).message_id
    assert (value.message_id, value.role, given) == ("", Role.ROLE_UNSPECIFIED, {"parts": [{"text": "hi"}]})


def test_the_same_token_gives_a_message_the_same_id() -> None:
    first, again = (checked_message("hi", idempotency_token="token-1") for _ in range(2))
    assert first == again
    assert checked_message("hi", idempotency_token="token-2").message_id != first.message_id
    assert checked_message("hi").message_id != checked_message("hi").message_id


REFUSED: dict[str, Any] = {
    "by an agent": with_parts({"text": "hi"}, role="ROLE_AGENT"),
    "with a task": with_parts({"text": "hi"}, taskId="t"),
    "with a context": with_parts({"text": "hi"}, contextId="c"),
    "without parts": with_parts(),
    "of 65 parts": with_parts(*[{"text": "hi"}] * 65),
    "with an empty part": with_parts({"text": "hi"}, {"mediaType": "text/plain"}),
    "with an id of 129 characters": with_parts({"text": "hi"}, messageId="m" * 129),
    "with an id of two lines": with_parts({"text": "hi"}, messageId="m\nn"),
    "over 1 MiB": with_parts({"text": "a" * MAX_MESSAGE_BYTES}),
    "over 1 MiB in UTF-8": with_parts({"text": "你" * (MAX_MESSAGE_BYTES // 3)}),
    "with an unknown field": with_parts({"text": "hi"}, kind="message"),
    "with parts that are none": {"messageId": "m", "role": "ROLE_USER", "parts": "hi"},
    "with half a surrogate pair": "\udc80",
    "with a number that JSON has not": with_parts({"data": {"n": float("inf")}}),
    "with a number beyond all floats": with_parts({"data": {"n": 10**400}}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_message_is_refused(name: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        checked_message(REFUSED[name])
    assert isinstance(caught.value, ValueError)
    assert caught.value.error_type == "A2A_INVALID_MESSAGE"


def test_data_that_is_nested_too_deep_is_refused() -> None:
    data: Any = 1
    for _ in range(200):
        data = [data]
    with pytest.raises(InvalidMessage):
        checked_message(with_parts({"data": data}))


@pytest.mark.parametrize("parts", [1, 64])
def test_a_message_has_1_to_64_parts(parts: int) -> None:
    assert len(checked_message(with_parts(*[{"text": "hi"}] * parts)).document["parts"]) == parts


def test_a_message_may_be_of_just_1_mib() -> None:
    room = MAX_MESSAGE_BYTES - len(canonical_json(with_parts({"text": ""})))
    assert checked_message(with_parts({"text": "a" * room}))
    with pytest.raises(InvalidMessage, match="1,048,577 bytes"):
        checked_message(with_parts({"text": "a" * (room + 1)}))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NUMBERS | TEXTS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=12,
    )
)  # fmt: skip
def test_the_hash_is_that_of_what_the_receiver_reads(data: Any) -> None:
    """Whatever the data, a server that parses the message that is sent finds the hash that was permitted."""
    message = checked_message(with_parts({"data": data}))
    received = Message()
    ParseDict(json.loads(json.dumps(message.request["message"])), received)
    assert hashlib.sha256(canonical_json(MessageToDict(received))).hexdigest() == message.sha256
