"""Finding the lines of one file that match: the same way whatever has named the file."""

from __future__ import annotations

import os
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ksadk.workspace.paths import WorkspaceError
from ksadk.workspace.patterns import Pattern
from ksadk.workspace.tree import checking

MAX_FILE_BYTES = 1024 * 1024
"""Of a file whose lines are shown."""

MAX_LOOKED_INTO = 64 * MAX_FILE_BYTES
"""Of a file that is looked into, to say that something is there."""

_MAX_LINE_BYTES = 16 * MAX_FILE_BYTES
_MAX_PROGRAM = 10_000
"""Instructions of a compiled expression. At worst each of them takes 5 ns for each byte of a line."""
_MAX_STEPS = 1_000_000_000
"""Instructions times bytes of a line that is looked at: some seconds at worst, which hold up no thread."""
_MAX_PATTERN_BYTES = 100_000
"""What ripgrep takes in one argument, with room to spare."""
_AT_ONCE = 50_000_000
"""Instructions times bytes between two looks at the clock: a quarter of a second at worst."""
_UTF16 = (BOM_UTF16_LE, BOM_UTF16_BE)

_Span = tuple[int, int]


class Hit(NamedTuple):
    """A line that matched, in bytes: the line is [start, stop), the first match in it [first, last)."""

    number: int
    start: int
    stop: int
    first: int
    last: int


class Scanner:
    """Looks for one pattern. Raises `unsupported_regex` for an expression that is too large."""

    def __init__(self, pattern: Pattern, deadline: float = float("inf")) -> None:
        self._check = checking(deadline)
        self._folded = pattern.folded and pattern.needle is not None
        if pattern.needle is None:
            self._find, self._piece = _expression(pattern)
        else:
            self._find, self._piece = _text(pattern.needle), MAX_LOOKED_INTO

    def hits(self, data: bytes) -> Iterator[Hit]:
        """The lines of a text that match, in order. Raises `OutOfTime`."""
        haystack = data.lower() if self._folded else data
        size = len(data) - data.endswith(b"\n")
        number, counted, at = 1, 0, 0
        while at < len(data):
            end = size if at + self._piece >= size else _line_end(data, at + self._piece, size)
            found = self._find(haystack, at, end)
            self._check()
            if found is None:
                at = end + 1
                continue
            start = max(at, data.rfind(b"\n", at, found[0]) + 1)
            stop = _line_end(data, found[0], len(data))
            number += data.count(b"\n", counted, start)
            counted, at = start, stop + 1
            stop -= data.endswith(b"\r", start, stop) and stop < len(data)
            yield Hit(number, start, stop, min(found[0], stop), min(found[1], stop))

    def is_in(self, descriptor: int) -> bool:
        """Whether a line of a large file matches, read piece by piece from where the descriptor stands.

        A file with NUL bytes before that, or with a line of more than 16 MiB, counts as one that does not.
        """
        rest = os.read(descriptor, MAX_FILE_BYTES).removeprefix(BOM_UTF8)
        if rest.startswith(_UTF16):
            return False
        more = True
        while more and b"\0" not in rest and len(rest) <= _MAX_LINE_BYTES:
            self._check()
            piece = os.read(descriptor, MAX_FILE_BYTES)
            more = bool(piece)
            whole = rest.rfind(b"\n") + 1 if more else len(rest)
            if next(self.hits(rest[:whole]), None):
                return True
            rest = rest[whole:] + piece
        return False


def as_text(data: bytes) -> bytes | None:
    """The text of a file in UTF-8, as far as it is that, without its mark; None if it is binary."""
    if data.startswith(_UTF16):
        try:
            data = data.decode("utf-16").encode()
        except UnicodeError:
            return None
    return None if b"\0" in data else data.removeprefix(BOM_UTF8)


def _line_end(data: bytes, at: int, size: int) -> int:
    found = data.find(b"\n", at, size)
    return size if found < 0 else found


def _text(needle: bytes) -> Callable[[bytes, int, int], _Span | None]:
    def find(data: bytes, start: int, end: int) -> _Span | None:
        found = data.find(needle, start, end)
        return None if found < 0 else (found, found + len(needle))

    return find


def _expression(pattern: Pattern) -> tuple[Callable[[bytes, int, int], _Span | None], int]:
    """How to find an expression, and how many bytes to give it at once."""
    matcher = _compiled(pattern)
    longest = _MAX_STEPS // matcher.programsize

    def find(data: bytes, start: int, end: int) -> _Span | None:
        if end - start > longest:
            return None
        found = next(matcher.finditer(data, start, end), None)
        return None if found is None else found.span()

    return find, _AT_ONCE // matcher.programsize


def _compiled(pattern: Pattern) -> Any:
    import re2

    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    try:
        if len(pattern.ripgrep.encode()) > _MAX_PATTERN_BYTES:
            raise re2.error
        matcher = re2.compile(pattern.re2, options)
        if matcher.programsize > _MAX_PROGRAM:
            raise re2.error
    except re2.error:
        raise WorkspaceError(
            "the regular expression is too large", code="unsupported_regex",
            hint="Search for less at once, or with smaller repetitions.",
        ) from None  # fmt: skip
    return matcher
