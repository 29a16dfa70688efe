r"""Regular expressions that match a whole text in time that grows with the text, whatever the pattern.

A subset: characters, `.` (any character), sets, `\d \w \s` and their opposites in ASCII's meaning,
`\n \r \t`, groups, `|`, and `* + ? {n} {n,} {n,m}`. Python's own matcher tries one way after the other, and
a pattern such as `(a+)+b` makes it try more ways than there is time for; here all are followed at once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

MAX_PATTERN = 1_000
MAX_STATES = 500
MAX_DEPTH = 50

_Fits = Callable[[str], object]


@dataclass(frozen=True)
class _Part:
    """A piece of a pattern: the states that can begin and end it (bits), and whether it can be empty."""

    first: int
    last: int
    empty: bool


class LinearRegex:
    """A compiled pattern. Raises `ValueError` with words for a person where it is none of the subset."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise ValueError(f"a regular expression has at most {MAX_PATTERN:,} characters")
        self._pattern = pattern
        self._at = 0
        self._fits: list[_Fits] = []
        self._follow: list[int] = []
        whole = self._alternatives(0)
        if self._at < len(pattern):
            self._fail("a ) closes nothing")
        self._first, self._last, self._empty = whole.first, whole.last, whole.empty
        self._states_of: dict[str, int] = {}

    def matches(self, text: str) -> bool:
        """Whether the whole text fits."""
        if not text:
            return self._empty
        current, reachable = 0, self._first
        for character in text:
            current = reachable & self._fitting(character)
            if not current:
                return False
            reachable = self._after(current)
        return bool(current & self._last)

    def _fitting(self, character: str) -> int:
        found = self._states_of.get(character)
        if found is None:
            found = sum(1 << state for state, fits in enumerate(self._fits) if fits(character))
            self._states_of[character] = found
        return found

    def _after(self, states: int) -> int:
        reachable = 0
        while states:
            lowest = states & -states
            reachable |= self._follow[lowest.bit_length() - 1]
            states ^= lowest
        return reachable

    def _alternatives(self, depth: int) -> _Part:
        if depth > MAX_DEPTH:
            self._fail(f"groups are nested more than {MAX_DEPTH} deep")
        whole = self._sequence(depth)
        while self._take("|"):
            other = self._sequence(depth)
            whole = _Part(whole.first | other.first, whole.last | other.last, whole.empty or other.empty)
        return whole

    def _sequence(self, depth: int) -> _Part:
        whole = _Part(0, 0, True)
        while self._peek() not in ("", "|", ")"):
            whole = self._joined(whole, self._repeated(depth))
        return whole

    def _repeated(self, depth: int) -> _Part:
        begun = self._at
        part = self._atom(depth)
        least, most = self._bounds()
        ended = self._at
        if not part.first:  # an empty group, however often
            return part
        whole = _Part(0, 0, True)
        for count in range(max(least, most or 1)):
            if count:  # each repetition has states of its own, so the atom is read again
                self._at = begun
                part = self._atom(depth)
            if count >= least:
                part = _Part(part.first, part.last, True)
            if most is None and count == max(least, 1) - 1:
                self._link(part.last, part.first)
            whole = self._joined(whole, part)
        self._at = ended
        return whole

    def _joined(self, left: _Part, right: _Part) -> _Part:
        self._link(left.last, right.first)
        return _Part(
            left.first | (right.first if left.empty else 0),
            right.last | (left.last if right.empty else 0),
            left.empty and right.empty,
        )

    def _link(self, sources: int, targets: int) -> None:
        for state in range(len(self._follow)):
            if sources >> state & 1:
                self._follow[state] |= targets

    def _bounds(self) -> tuple[int, int | None]:
        """How often the atom before is there: at least, and at most (None: no limit)."""
        for sign, bounds in {"*": (0, None), "+": (1, None), "?": (0, 1)}.items():
            if self._take(sign):
                return self._single(bounds)
        if self._peek() != "{":
            return 1, 1
        found = re.compile(r"\{(\d{1,3})(,(\d{0,3}))?\}", re.ASCII).match(self._pattern, self._at)
        if found is None:
            self._fail("a { is no {n}, {n,} or {n,m} below 1,000; write a plain one \\{")
        self._at = found.end()
        least = int(found[1])
        most = least if found[2] is None else int(found[3]) if found[3] else None
        if most is not None and (most < least or most == 0):
            self._fail(f"{found[0]} is no number of times")
        return self._single((least, most))

    def _single(self, bounds: tuple[int, int | None]) -> tuple[int, int | None]:
        if self._peek() in ("*", "+", "?", "{"):
            self._fail("a repetition of a repetition")
        return bounds

    def _atom(self, depth: int) -> _Part:
        character = self._next("it ends too early")
        if character == "(":
            if self._take("?") and not self._take(":"):
                self._fail("a group that begins with (? and is not (?:")
            part = self._alternatives(depth + 1)
            if not self._take(")"):
                self._fail("a ( is not closed")
            return part
        if character == "[":
            return self._state(_one_of(self._set()))
        if character == ".":
            return self._state(lambda _: True)
        if character == "\\":
            return self._state(self._escaped())
        if character in "*+?{":
            self._fail(f"{character} has nothing to repeat")
        if character in "^$":
            self._fail(f"{character} is not needed: the whole text must fit; write a plain one \\{character}")
        return self._state(character.__eq__)

    def _state(self, fits: _Fits) -> _Part:
        if len(self._fits) == MAX_STATES:
            self._fail(f"with its repetitions it has more than {MAX_STATES} characters")
        bit = 1 << len(self._fits)
        self._fits.append(fits)
        self._follow.append(0)
        return _Part(bit, bit, False)

    def _escaped(self) -> _Fits:
        character = self._next("the \\ at its end escapes nothing")
        if character in "dwsDWS":
            return _one_of("\\" + character)
        plain = {"n": "\n", "r": "\r", "t": "\t"}.get(character)
        if plain is None and (character.isalnum() or not character.isascii()):
            self._fail(f"\\{character} is not known")
        return (plain or character).__eq__

    def _set(self) -> str:
        """A set as it is written, checked to mean what it seems to."""
        begun = self._at - 1
        self._take("^")
        first = True
        while first or self._peek() != "]":
            character = self._next("a [ is not closed")
            if character == "\\":
                escaped = self._next("a [ is not closed")
                if escaped not in "dwsDWSnrt" and (escaped.isalnum() or not escaped.isascii()):
                    self._fail(f"\\{escaped} in a set")
            elif character == "[" or (character in "-&|~" and self._peek() == character):
                self._fail(f"a plain {character} in a set; write it \\{character}")
            first = False
        self._at += 1
        written = self._pattern[begun : self._at]
        try:
            re.compile(written, re.ASCII)
        except re.error as error:
            self._fail(f"{written} is no set: {error.msg}")
        return written

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._at += 1
        return True

    def _next(self, otherwise: str) -> str:
        character = self._peek()
        if not character:
            self._fail(otherwise)
        self._at += 1
        return character

    def _fail(self, words: str) -> NoReturn:
        raise ValueError(f"the regular expression cannot be used: {words} (at character {self._at})")


@functools.lru_cache(maxsize=256)
def _one_of(written: str) -> _Fits:
    return re.compile(written, re.ASCII | re.DOTALL).fullmatch
