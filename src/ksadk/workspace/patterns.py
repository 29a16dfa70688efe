r"""The regular expressions of search: a subset that ripgrep and Python read alike.

A pattern is parsed here and written out anew, so that both engines get the same meaning: `\w`, `\d`, `\s` and
`\b` are ASCII's, `.` and negated sets match one character but no line end, `^` and `$` are the ends of the
line (the carriage return of a CRLF is no part of it), and upper and lower case are alike unless asked for.

Refused, with either engine: look-around, back-references, named groups, flags, POSIX sets (`[[:alpha:]]`),
set operations, `\p`, `\A`, `\z`, `\B`, a literal `{`, possessive and doubled quantifiers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from ksadk.workspace.paths import WorkspaceError

MAX_PATTERN_CHARS = 2_000
MAX_REPEAT = 1_000
MAX_DEPTH = 50

# Python reads bytes that are not UTF-8 as lone surrogates; no set of either engine may match them.
_NEVER = r"\r\n"
_NEVER_PYTHON = _NEVER + r"\udc80-\udcff"
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\x0b\x0c "}
_CONTROLS = {"t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_ESCAPED = frozenset(r"\.+*?()|[]{}^$#&-~")


@dataclass(frozen=True)
class Pattern:
    """A search pattern in the words of each engine, to be matched against a line without its LF."""

    python: str
    ripgrep: str


def literal(query: str, *, case_sensitive: bool) -> Pattern:
    """The pattern of a text that is searched for as it is."""
    _check_query(query)
    written = "".join(_either_case(char, case_sensitive) for char in query)
    return Pattern(written, written)


def regex(query: str, *, case_sensitive: bool) -> Pattern:
    """The pattern of a regular expression. Raises `invalid_regex`, `unsupported_regex`, `invalid_query`."""
    _check_query(query)
    python = _Parser(query, case_sensitive, _NEVER_PYTHON, r"(?a:\b)", r"\r?\Z").parse()
    ripgrep = _Parser(query, case_sensitive, _NEVER, r"(?-u:\b)", r"(?:\r?$)").parse()
    return Pattern(python, ripgrep)


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
        return _escape(char)
    return "[" + "".join(sorted(variants)) + "]"


def _cases(char: str) -> set[str]:
    """The characters that differ from `char` in case only."""
    folded = char.casefold()
    variants = {char, char.lower(), char.upper(), char.title(), folded, folded.upper()}
    return {variant for variant in variants if len(variant) == 1}


def _escape(char: str) -> str:
    return "\\" + char if char in _ESCAPED else char


class _Parser:
    """A recursive descent over the subset, which writes what it reads in one engine's words."""

    def __init__(self, query: str, case_sensitive: bool, never: str, boundary: str, end: str) -> None:
        self._query = query
        self._at = 0
        self._case_sensitive = case_sensitive
        self._never = never
        self._boundary = boundary
        self._end = end

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
            return f"[^{self._never}]", 1, True
        if char == "^":
            return "^", 1, False
        if char == "$":
            return self._end, 1, False
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
            return (f"[{inside}]" if char.islower() else f"[^{inside}{self._never}]"), 1, True
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
        items: list[str] = []
        first = True
        while first or self._peek() != "]":
            if not self._peek():
                self._fail("a [ is not closed")
            items.append(self._set_item())
            first = False
        self._at += 1
        return f"[^{''.join(items)}{self._never}]" if negated else f"[{''.join(items)}]"

    def _set_item(self) -> str:
        pair = self._query[self._at : self._at + 2]
        if pair in ("&&", "--", "~~", "||") or pair in ("[:", "[.", "[="):
            self._refuse(f"{pair} in a set")
        low = self._set_char()
        if len(low) != 1:
            return low
        if self._peek() != "-" or self._query[self._at + 1 : self._at + 2] in ("]", ""):
            return self._range(low, low)
        self._at += 1
        high = self._set_char()
        if len(high) != 1 or high < low:
            self._fail(f"{low}-{high} is not a range")
        return self._range(low, high)

    def _set_char(self) -> str:
        """One character, or the inside of a class such as `\\d`."""
        char = self._next("a [ is not closed")
        if char != "\\":
            return char
        char = self._next("the \\ at its end escapes nothing")
        if char in _CLASSES:
            return _CLASSES[char]
        if char.lower() in _CLASSES or char == "b":
            self._refuse(f"\\{char} in a set")
        return self._plain(char)

    def _range(self, low: str, high: str) -> str:
        written = _escape(low) if low == high else f"{_escape(low)}-{_escape(high)}"
        if self._case_sensitive:
            return written
        others = set()
        for code in range(ord(low), min(ord(high), _LAST_CASED) + 1):
            if not _CASELESS[0] <= code <= _CASELESS[1]:
                others |= _cases(chr(code))
        extra = sorted(char for char in others if not low <= char <= high)
        return written + "".join(map(_escape, extra))

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
_CASELESS = (0x2E80, 0xA63F)
"""Ideographs and kana: a range of them is common, and has no case."""
