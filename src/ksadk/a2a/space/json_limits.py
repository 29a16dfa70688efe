"""Limits on JSON from a stranger, held while its bytes come in and before a parser sees them."""

from __future__ import annotations

import re
from itertools import accumulate

from ksadk.a2a.space.errors import A2AEgressError

# Possessive, so that no text takes more than one pass.
_IN_STRING = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_STRING = re.compile(rb'"' + _IN_STRING + rb'"', re.DOTALL)
_UP_TO_AN_OPEN_STRING = re.compile(rb'(?:[^"]*+"' + _IN_STRING + rb'")*+[^"]*+', re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_SLICE = 64 * 1024


class JsonLimits:
    """Takes the bytes of one JSON text in any pieces; `feed` raises at the first that is over a limit.

    depth: levels of arrays and objects. string_bytes: the length of a string, as it is written.
    A byte 0 is refused as well: no JSON in UTF-8 has one, and JSON in UTF-16 would hide what is in it.
    """

    def __init__(self, depth: int, string_bytes: int) -> None:
        self._max_depth = depth
        self._max_string = string_bytes
        # So that no string which begins and ends in a slice can be over the limit.
        self._slice = min(_SLICE, string_bytes)
        self._depth = 0
        # A string that has begun: its bytes up to now, and whether a backslash is the last of them.
        self._string: int | None = None
        self._escaped = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes. `A2A_EGRESS_LIMIT_EXCEEDED` if they are over a limit, `A2A_EGRESS_REFUSED`
        if they are not UTF-8."""
        if 0 in data:
            raise A2AEgressError("the agent's answer is not UTF-8", code="A2A_EGRESS_REFUSED")
        for start in range(0, len(data), self._slice):
            self._take(data[start : start + self._slice])

    def _take(self, data: bytes) -> None:
        if self._string is not None:
            data = self._after_string(data)
        closed = _UP_TO_AN_OPEN_STRING.match(data)
        assert closed is not None  # it matches nothing as well
        self._nest(_STRING.sub(b"", closed[0]))
        begun = data[closed.end() + 1 :]
        if closed.end() < len(data):
            self._string, self._escaped = len(begun), _ends_in_escape(begun)

    def _after_string(self, data: bytes) -> bytes:
        """What comes after the string that has begun; nothing while it goes on."""
        assert self._string is not None
        # As if it had begun just here.
        prefix = b'"\\' if self._escaped else b'"'
        string = _STRING.match(prefix + data)
        inside = data if string is None else data[: string.end() - len(prefix) - 1]
        self._string += len(inside)
        if self._string > self._max_string:
            raise _exceeded(f"a text of more than {self._max_string:,} bytes")
        if string is None:
            self._escaped = _ends_in_escape(prefix + data)
            return b""
        self._string = None
        return data[len(inside) + 1 :]

    def _nest(self, outside: bytes) -> None:
        brackets = outside.translate(None, _NO_BRACKET)
        levels = list(accumulate((_STEP[bracket] for bracket in brackets), initial=self._depth))
        if max(levels) > self._max_depth:
            raise _exceeded(f"more than {self._max_depth} levels")
        self._depth = levels[-1]


def _ends_in_escape(text: bytes) -> bool:
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 1


def _exceeded(what: str) -> A2AEgressError:
    return A2AEgressError(f"the agent's answer has {what}", code="A2A_EGRESS_LIMIT_EXCEEDED")
