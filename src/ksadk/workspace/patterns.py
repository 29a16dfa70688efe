r"""The regular expressions of search: a subset that ripgrep and RE2 read alike.

A pattern is parsed here and written out anew, so that both engines get the same meaning: `\w`, `\d`, `\s` and
`\b` are ASCII's, no set matches a line end, `^` and `$` are the ends of the line (the carriage return of a
CRLF is no part of it), and upper and lower case are alike unless asked for.

Refused, with either engine: look-around, back-references, named groups, flags, POSIX sets (`[[:alpha:]]`),
set operations, `\p`, `\A`, `\z`, `\B`, a literal `{`, possessive and doubled quantifiers.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from ksadk.workspace.paths import WorkspaceError

MAX_PATTERN_CHARS = 2_000
MAX_REPEAT = 1_000
MAX_DEPTH = 50

_Ranges = list[tuple[int, int]]
"""Of code points, both ends included."""

_NEVER: _Ranges = [(0x0A, 0x0A), (0x0D, 0x0D), (0xD800, 0xDFFF)]
"""In no set: what ends a line, and what no text in UTF-8 holds, though RE2 would find it there."""

_LAST_CODE = 0x10FFFF
_CLASSES: dict[str, _Ranges] = {
    "d": [(0x30, 0x39)],
    "w": [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)],
    "s": [(0x09, 0x09), (0x0B, 0x0C), (0x20, 0x20)],
}
_CONTROLS = {"t": "\t", "f": "\f", "v": "\v", "a": "\a"}


@dataclass(frozen=True)
class Pattern:
    """A search pattern in the words of each engine; of a text that can be found without one, its bytes too.

    needle: the bytes, in small letters if `folded`: then capitals of ASCII in a file are read as small.
    """

    re2: str
    ripgrep: str
    needle: bytes | None = None
    folded: bool = False


def literal(query: str, *, case_sensitive: bool) -> Pattern:
    """The pattern of a text that is searched for as it is."""
    _check_query(query)
    written = "".join(_either_case(char, case_sensitive) for char in query)
    if case_sensitive:
        return Pattern(written, written, query.encode())
    return Pattern(written, written, query.lower().encode() if query.isascii() else None, folded=True)


def regex(query: str, *, case_sensitive: bool) -> Pattern:
    """The pattern of a regular expression. Raises `invalid_regex`, `unsupported_regex`, `invalid_query`."""
    _check_query(query)
    re2, ripgrep = (_Parser(query, case_sensitive, boundary).parse() for boundary in (r"\b", r"(?-u:\b)"))
    return Pattern(f"(?m){re2}", ripgrep)


def _check_query(query: str) -> None:
    if not query:
        raise WorkspaceError("there is nothing to search for", code="query_required")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise WorkspaceError("the query holds half of a surrogate pair", code="invalid_query") from None
    if len(query) > MAX_PATTERN_CHARS or any(char in query for char in "\n\r\0"):
        raise WorkspaceError(
            f"a query has at most {MAX_PATTERN_CHARS:,} characters and no line end or NUL",
            code="invalid_query", hint="Search for one line of it.",
        )  # fmt: skip


def _either_case(char: str, case_sensitive: bool) -> str:
    variants = {char} if case_sensitive else _cases(char)
    if len(variants) == 1:
        return _written(ord(char))
    return _set_of((ord(variant), ord(variant)) for variant in variants)


def _cases(char: str) -> set[str]:
    """The characters that differ from `char` in case only."""
    folded = char.casefold()
    variants = {char, char.lower(), char.upper(), char.title(), folded, folded.upper()}
    return {variant for variant in variants if len(variant) == 1}


def _written(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\x{{{code:X}}}"


def _set_of(ranges: Iterable[tuple[int, int]]) -> str:
    """A set of either engine, without what is in no set."""
    kept = _without(ranges, _NEVER)
    return (
        "["
        + "".join(_written(low) + (f"-{_written(high)}" if low < high else "") for low, high in kept)
        + "]"
    )


def _without(ranges: Iterable[tuple[int, int]], others: _Ranges) -> _Ranges:
    """Ranges without what is in others: in order, and apart from each other."""
    merged: _Ranges = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    for low, high in others:
        merged = [
            piece
            for first, last in merged
            for piece in ((first, min(last, low - 1)), (max(first, high + 1), last))
            if piece[0] <= piece[1]
        ]
    return merged


def _all_but(ranges: Iterable[tuple[int, int]]) -> str:
    return _set_of(_without([(0, _LAST_CODE)], list(ranges)))


class _Parser:
    """A recursive descent over the subset, which writes what it reads; the engines differ in `boundary`."""

    def __init__(self, query: str, case_sensitive: bool, boundary: str) -> None:
        self._query = query
        self._at = 0
        self._case_sensitive = case_sensitive
        self._boundary = boundary

    def parse(self) -> str:
        written, _ = self._alternatives(0)
        if self._at < len(self._query):
            self._fail("a ) closes nothing")
        return written

    def _alternatives(self, depth: int) -> tuple[str, int]:
        """What was read, and how many times its largest repetition may repeat."""
        if depth > MAX_DEPTH:
            self._refuse("groups nested more than 50 deep")
        branches = [self._sequence(depth)]
        while self._take("|"):
            branches.append(self._sequence(depth))
        return "|".join(text for text, _ in branches), max(times for _, times in branches)

    def _sequence(self, depth: int) -> tuple[str, int]:
        written, most = [], 1
        while self._at < len(self._query) and self._peek() not in "|)":
            atom, times, repeatable = self._atom(depth)
            quantifier, factor = self._quantifier()
            if quantifier and not repeatable:
                self._refuse(f"{quantifier} after something that has no width")
            most = max(most, times * factor)
            if most > MAX_REPEAT:
                self._refuse(f"repetitions that multiply to more than {MAX_REPEAT:,}")
            written.append(atom + quantifier)
        return "".join(written), most

    def _atom(self, depth: int) -> tuple[str, int, bool]:
        char = self._next()
        if char == "(":
            return (*self._group(depth), True)
        if char == "[":
            return self._set(), 1, True
        if char == ".":
            return _all_but([]), 1, True
        if char == "^":
            return "^", 1, False
        if char == "$":
            return r"(?:\r?$)", 1, False
        if char == "\\":
            return self._escaped()
        if char in "*+?":
            self._fail(f"{char} has nothing to repeat")
        if char == "{":
            self._refuse("a plain {; write it \\{")
        return _either_case(char, self._case_sensitive), 1, True

    def _group(self, depth: int) -> tuple[str, int]:
        if self._peek() == "?":
            self._at += 1
            if not self._take(":"):
                self._refuse("a group that begins with (? and is not (?:")
        elif self._peek() == "*":
            self._refuse("a group that begins with (*")
        written, times = self._alternatives(depth + 1)
        if not self._take(")"):
            self._fail("a ( is not closed")
        return f"(?:{written})", times

    def _escaped(self) -> tuple[str, int, bool]:
        char = self._next("the \\ at its end escapes nothing")
        if char == "b":
            return self._boundary, 1, False
        if char.lower() in _CLASSES:
            inside = _CLASSES[char.lower()]
            return (_set_of(inside) if char.islower() else _all_but(inside)), 1, True
        return _either_case(self._plain(char), self._case_sensitive), 1, True

    def _plain(self, char: str) -> str:
        """The character that an escape stands for."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x":
            digits = self._query[self._at : self._at + 2]
            if len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
                self._at += 2
                value = chr(int(digits, 16))
                if value not in "\r\n\0":
                    return value
            self._refuse("\\x without two hexadecimal digits of a character inside a line")
        if char.isalnum() or char in "<>" or ord(char) > 126:
            self._refuse(f"\\{char}")
        return char

    def _quantifier(self) -> tuple[str, int]:
        factor = 1
        char = self._peek()
        if char and char in "*+?":
            self._at += 1
            written = char
        elif char == "{":
            written, factor = self._bounds()
        else:
            return "", 1
        if self._take("?"):
            written += "?"
        if self._peek() and self._peek() in "*+?{":
            self._refuse("a quantifier after a quantifier")
        return written, factor

    def _bounds(self) -> tuple[str, int]:
        inside, closed, _ = self._query[self._at + 1 :].partition("}")
        low, comma, high = inside.partition(",")
        numbers = [low, *([high] if high else [])]
        if not closed or not all(number.isascii() and number.isdigit() for number in numbers):
            self._refuse("a { that is no {n}, {n,} or {n,m}; write a plain one \\{")
        values = [int(number[:6]) for number in numbers]
        if max(values) > MAX_REPEAT:
            self._refuse(f"more than {MAX_REPEAT:,} repetitions")
        if values != sorted(values):
            self._fail(f"{{{inside}}} has its larger bound first")
        self._at += len(inside) + 2
        return "{" + ",".join(
            [str(values[0]), *([str(values[1]) if high else ""] if comma else [])]
        ) + "}", max(1, max(values))

    def _set(self) -> str:
        negated = self._take("^")
        items: _Ranges = []
        first = True
        while first or self._peek() != "]":
            if not self._peek():
                self._fail("a [ is not closed")
            items += self._set_item()
            first = False
        self._at += 1
        return _all_but(items) if negated else _set_of(items)

    def _set_item(self) -> _Ranges:
        pair = self._query[self._at : self._at + 2]
        if pair in ("&&", "--", "~~", "||") or pair in ("[:", "[.", "[="):
            self._refuse(f"{pair} in a set")
        low = self._set_char()
        if not isinstance(low, str):
            return low
        high = low
        if self._peek() == "-" and self._query[self._at + 1 : self._at + 2] not in ("]", ""):
            self._at += 1
            end = self._set_char()
            if not isinstance(end, str) or end < low:
                self._fail(f"{low}-{self._query[self._at - 1]} is not a range")
            high = end
        others = () if self._case_sensitive else _other_cases(ord(low), ord(high))
        return [(ord(low), ord(high)), *others]

    def _set_char(self) -> str | _Ranges:
        """One character, or a class such as `\\d`."""
        char = self._next("a [ is not closed")
        if char != "\\":
            return char
        char = self._next("the \\ at its end escapes nothing")
        if char in _CLASSES:
            return _CLASSES[char]
        if char.lower() in _CLASSES or char == "b":
            self._refuse(f"\\{char} in a set")
        return self._plain(char)

    def _peek(self) -> str:
        return self._query[self._at : self._at + 1]

    def _take(self, char: str) -> bool:
        if self._peek() != char:
            return False
        self._at += 1
        return True

    def _next(self, words: str = "it ends too early") -> str:
        char = self._peek()
        if not char:
            self._fail(words)
        self._at += 1
        return char

    def _fail(self, words: str) -> NoReturn:
        raise WorkspaceError(
            f"the regular expression is not one: {words} (at character {self._at})", code="invalid_regex",
            hint="Set is_regex to false to search for the text as it is.", query=self._query,
        )  # fmt: skip

    def _refuse(self, words: str) -> NoReturn:
        raise WorkspaceError(
            f"the regular expression has {words} (at character {self._at}), which search does not take",
            code="unsupported_regex",
            hint="It takes . [] () (?:) | ^ $ * + ? {n,m}, and \\w \\d \\s \\b in ASCII's meaning.",
            query=self._query,
        )  # fmt: skip


_LAST_CASED = 0x1E943


@functools.cache
def _cased() -> list[tuple[int, tuple[int, ...]]]:
    """Every character that has another case, in order, and those it has."""
    found = ((code, _cases(chr(code)) - {chr(code)}) for code in range(_LAST_CASED + 1))
    return [(code, tuple(map(ord, others))) for code, others in found if others]


@functools.lru_cache(maxsize=1_024)
def _other_cases(low: int, high: int) -> tuple[tuple[int, int], ...]:
    """What differs from the characters of a range in case only, as ranges."""
    if low == high:
        others = {ord(char) for char in _cases(chr(low))}
    else:
        table = _cased()
        first, last = bisect.bisect(table, (low,)), bisect.bisect(table, (high + 1,))
        others = {code for _, codes in table[first:last] for code in codes}
    return tuple(_without([(code, code) for code in others if not low <= code <= high], []))
