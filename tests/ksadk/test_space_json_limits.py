"""Limits on JSON are held whatever pieces its bytes come in, and before its parser sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ksadk.a2a.space.errors import A2AEgressError
from ksadk.a2a.space.json_limits import JsonLimits

DEPTH, STRING = 4, 16


def refused(*pieces: bytes, depth: int = DEPTH, string: int = STRING) -> str:
    """The code that the pieces are refused with, or nothing."""
    limits = JsonLimits(depth, string)
    try:
        for piece in pieces:
            limits.feed(piece)
    except A2AEgressError as error:
        return error.code
    return ""


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def strings_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings_of(item)
    elif isinstance(value, dict):
        yield from value
        yield from strings_of(list(value.values()))


def longest_of(value: Any, **dumping: Any) -> int:
    written = (json.dumps(text, **dumping).encode()[1:-1] for text in strings_of(value))
    return max(map(len, written), default=0)


def cut(text: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(edges)]


LETTERS = st.text('\\"[]{}a\n\U0001f680', max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | LETTERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LETTERS, inner, max_size=3),
    max_leaves=20,
)


@given(JSON, st.booleans(), st.lists(st.integers(0, 10_000), max_size=12))
@example("\\" * 8, False, [2, 3, 4])
@example('"' * 8, False, [2, 3, 4])
def test_json_is_refused_exactly_where_it_is_over_a_limit(value: Any, ascii: bool, places: list[int]) -> None:
    text = json.dumps(value, ensure_ascii=ascii).encode()
    over = depth_of(value) > DEPTH or longest_of(value, ensure_ascii=ascii) > STRING
    assert refused(*cut(text, places)) == ("A2A_EGRESS_LIMIT_EXCEEDED" if over else "")


@given(st.binary(max_size=80), st.lists(st.integers(0, 100), max_size=12))
def test_the_verdict_is_the_same_for_any_bytes_in_any_pieces(data: bytes, places: list[int]) -> None:
    assert refused(*cut(data, places)) == refused(data)


@given(st.lists(st.sampled_from([b"[", b"{", b"]", b"}", b'"', b"\\", b"a"]), max_size=60))
def test_the_verdict_is_the_same_for_any_structure_in_single_bytes(letters: list[bytes]) -> None:
    assert refused(*letters) == refused(b"".join(letters))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"[" * DEPTH, ""),
        (b"[" * (DEPTH + 1), "A2A_EGRESS_LIMIT_EXCEEDED"),
        (b"[]" * 1000, ""),
        (b'{"a":' * (DEPTH + 1), "A2A_EGRESS_LIMIT_EXCEEDED"),
        (b'"' + b"[" * STRING + b'"', ""),
        (b'"' + b"a" * STRING, ""),
        (b'"' + b"a" * (STRING + 1), "A2A_EGRESS_LIMIT_EXCEEDED"),
        (b'"\\"' + b"a" * (STRING - 1), "A2A_EGRESS_LIMIT_EXCEEDED"),
        (b'{"' + b"k" * (STRING + 1) + b'":1}', "A2A_EGRESS_LIMIT_EXCEEDED"),
        (b"<html>it's \"broken" + b" " * 4, ""),
        (json.dumps([1]).encode("utf-16"), "A2A_EGRESS_REFUSED"),
        (json.dumps([1]).encode("utf-32-be"), "A2A_EGRESS_REFUSED"),
    ],
)
def test_a_text_is_judged_up_to_where_it_is_broken_off(text: bytes, code: str) -> None:
    assert refused(text) == code


def test_a_reader_that_counts_brackets_in_texts_would_be_noticed() -> None:
    text = b'["' + b"[" * 10 + b'"]'
    assert refused(text) == ""
    assert text.count(b"[") > DEPTH
