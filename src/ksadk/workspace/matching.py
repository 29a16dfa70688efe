"""Finding a snippet in a text, and putting another in its place without disturbing what stays the same."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

_QUOTES = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b", "'") | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
)
_TOKEN = re.compile(r"\r\n|\w+|[^\w]")
_MAX_COMPARED_TOKENS = 1_000
_CRLF = re.compile("\r\n")


@dataclass(frozen=True)
class Match:
    """Where a snippet was found: [start, end) in the text as it is."""

    start: int
    end: int


@dataclass(frozen=True)
class Found:
    """The matches of a snippet, left to right and apart from each other, and how loosely they were found.

    `overlapping` is set where counting from the other end would find it at other places.
    """

    matches: list[Match]
    how: str = "exact"
    """`exact`, `line_endings` or `quotes` (which also lets line endings differ)."""
    overlapping: bool = False


def find(text: str, snippet: str) -> Found:
    """Look for the snippet as it is; failing that with LF and CRLF alike; failing that with straight and
    curly quotes alike too."""
    spots = _spots(text, snippet)
    if spots:
        return _found([Match(spot, spot + len(snippet)) for spot in spots], "exact", text, snippet)
    flat = _Flat(text)
    for how, wide, narrow in (
        ("line_endings", flat.text, snippet.replace("\r\n", "\n")),
        ("quotes", flat.text.translate(_QUOTES), snippet.replace("\r\n", "\n").translate(_QUOTES)),
    ):
        spots = _spots(wide, narrow)
        if spots:
            matches = [Match(flat.place(spot), flat.place(spot + len(narrow))) for spot in spots]
            return _found(matches, how, wide, narrow)
    return Found([])


def replaced(text: str, found: Found, old: str, new: str) -> str:
    """The text with every match replaced by `new`: to the letter after an exact match; else changing only
    what `old` and `new` differ in, so that the file's own line ends and quotes stay."""
    pieces, done = [], 0
    become: dict[str, str] = {}
    for match in found.matches:
        there = text[match.start : match.end]
        if there not in become:
            become[there] = new if found.how == "exact" else _merged(there, old, new)
        pieces += [text[done : match.start], become[there]]
        done = match.end
    return "".join([*pieces, text[done:]])


class _Flat:
    """A text with LF for CRLF, and where each of its characters stands in the original."""

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self._ends = [found.start() - nth for nth, found in enumerate(_CRLF.finditer(text))]

    def place(self, position: int) -> int:
        return position + bisect_left(self._ends, position)


def _spots(text: str, snippet: str) -> list[int]:
    return list(_each(text, snippet))


def _each(text: str, snippet: str) -> Iterator[int]:
    spot = text.find(snippet)
    while spot >= 0:
        yield spot
        spot = text.find(snippet, spot + len(snippet))


def _found(matches: list[Match], how: str, text: str, snippet: str) -> Found:
    mirrored = sorted(len(text) - spot - len(snippet) for spot in _each(text[::-1], snippet[::-1]))
    return Found(matches, how, overlapping=mirrored != _spots(text, snippet))


def _merged(there: str, old: str, new: str) -> str:
    """`there`, which matches `old`, with the differences between `old` and `new` made to it."""
    kept, before, after = _TOKEN.findall(there), _TOKEN.findall(old), _TOKEN.findall(new)
    ending = "\r\n" if "\r\n" in there else "\n"
    pieces: list[str] = []
    for same, low, high, left, right in _changes([*map(_key, before)], [*map(_key, after)]):
        if same:
            pieces += kept[low:high]
        else:
            pieces += [ending if _key(token) == "\n" else token for token in after[left:right]]
    return "".join(pieces)


def _changes(before: list[str], after: list[str]) -> Iterator[tuple[bool, int, int, int, int]]:
    """Stretches of the two lists, and whether they are the same. Of long lists only the beginning and the
    end are compared, since comparing all can take minutes."""
    if max(len(before), len(after)) <= _MAX_COMPARED_TOKENS:
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        for tag, low, high, left, right in matcher.get_opcodes():
            yield tag == "equal", low, high, left, right
        return
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    low, left = len(before) - tail, len(after) - tail
    yield True, 0, head, 0, head
    yield False, head, low, head, left
    yield True, low, len(before), left, len(after)


def _common(first: list[str], second: list[str]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def _key(token: str) -> str:
    return "\n" if token == "\r\n" else token
