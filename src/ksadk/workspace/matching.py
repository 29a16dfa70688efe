"""Finding a snippet in a text, and putting another in its place without disturbing what stays the same."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ksadk.workspace.folding import straight
from ksadk.workspace.text import Change

_TOKEN = re.compile(r"\r\n|\w+|[^\w]")
_MAX_COMPARED_TOKENS = 1_000
_MANY = 64

_Stretch = tuple[bool, int, int, int, int]
"""Whether two stretches of tokens are the same, and where each begins and ends."""


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
    curly quotes alike too. A match never begins or ends inside a CRLF."""
    narrow = snippet.replace("\r\n", "\n")
    lines = narrow.split("\n")
    places = _where_lines_are(text, lines) if _is_for_crlf(text, snippet) else None
    # In a text with CRLF one look finds that nothing is there as it is, and what is there otherwise.
    if places is None or any(_stands(text, snippet, place.start) for place in places):
        spots = list(_each(text, snippet))
        if spots and not _cuts_line_end(text, snippet, spots):
            return _found([Match(spot, spot + len(snippet)) for spot in spots], "exact", text, snippet, spots)
        places = _where_lines_are(text, lines)
    if places:
        return _apart(places)
    wide = text.replace("\r\n", "\n")
    for how in ("line_endings", "quotes"):
        if how == "quotes":
            wide, narrow = straight(wide), straight(narrow)
        elif places is not None:
            continue
        spots = list(_each(wide, narrow))
        if spots:
            return _found(_placed(text, spots, len(narrow)), how, wide, narrow, spots)
    return Found([])


def replaced(text: str, found: Found, old: str, new: str) -> Change:
    """Every match replaced by `new`: to the letter after an exact match; else changing only what `old` and
    `new` differ in, so that the file's own line ends and quotes stay."""
    if found.how == "exact":
        become = dict.fromkeys({text[match.start : match.end] for match in found.matches}, new)
    else:
        before, after = _TOKEN.findall(old), _TOKEN.findall(new)
        stretches = list(_stretches([*map(_key, before)], [*map(_key, after)]))
        places = {text[match.start : match.end] for match in found.matches}
        become = {there: _merged(there, stretches, after) for there in places}
    start = done = found.matches[0].start
    pieces = []
    for match in found.matches:
        pieces += [text[done : match.start], become[text[match.start : match.end]]]
        done = match.end
    return Change(start, done, "".join(pieces))


def _is_for_crlf(text: str, snippet: str) -> bool:
    """Whether the snippet has lines that end otherwise than the first one of the text, in a CRLF."""
    first = text.find("\n")
    return "\n" in snippet and snippet[-1] != "\r" and text.startswith("\r", max(0, first - 1), first)


def _stands(text: str, snippet: str, start: int) -> bool:
    """Whether a snippet is at a place as it is, or behind a carriage return there."""
    return text.startswith(snippet, start) or text.startswith("\r" + snippet, start)


def _each(text: str, snippet: str) -> Iterator[int]:
    spot = text.find(snippet)
    while spot >= 0:
        yield spot
        spot = text.find(snippet, spot + len(snippet))


def _cuts_line_end(text: str, snippet: str, spots: list[int]) -> bool:
    """Whether one of the matches begins or ends between the two characters of a CRLF."""
    size = len(snippet)
    return (snippet[0] == "\n" and any(spot and text[spot - 1] == "\r" for spot in spots)) or (
        snippet[-1] == "\r" and any(text.startswith("\n", spot + size) for spot in spots)
    )


def _where_lines_are(text: str, lines: list[str]) -> list[Match] | None:
    """Every place, also ones that overlap, where lines stand with LF or CRLF between them; None where the
    longest of them is there too often to look around each."""
    nth = max(range(len(lines)), key=lambda index: len(lines[index]))
    before, longest, after = lines[:nth], lines[nth], lines[nth + 1 :]
    places: list[Match] = []
    spot = -1
    for _ in range(_MANY):
        spot = text.find(longest, spot + 1)
        if spot < 0:
            return places
        start, end = _start_of(text, before, spot), _end_of(text, after, spot + len(longest))
        if start >= 0 and end >= 0:
            places.append(Match(start, end))
    return None


def _start_of(text: str, lines: list[str], start: int) -> int:
    """Where lines begin that end, with a line end, at a place; -1 if others are there."""
    for line in reversed(lines):
        if not text.endswith("\n", 0, start):
            return -1
        start -= 1 + text.endswith("\r\n", 0, start) + len(line)
        if start < 0 or not text.startswith(line, start):
            return -1
    return start


def _end_of(text: str, lines: list[str], end: int) -> int:
    """Where lines end that begin, with a line end, at a place; -1 if others are there."""
    for line in lines:
        if text.startswith("\r\n", end):
            end += 1
        elif not text.startswith("\n", end) or text[end - 1] == "\r":
            return -1
        end += 1
        if not text.startswith(line, end):
            return -1
        end += len(line)
    return -1 if text.startswith("\r\n", end - 1) else end


def _apart(places: list[Match]) -> Found:
    """The places apart from each other as counted from the start, and whether it differs from the end."""
    first, last = [places[0]], [places[-1]]
    for place in places:
        if place.start >= first[-1].end:
            first.append(place)
    for place in reversed(places):
        if place.end <= last[-1].start:
            last.append(place)
    return Found(first, "line_endings", overlapping=first != last[::-1])


def _placed(text: str, spots: list[int], size: int) -> list[Match]:
    """Where matches stand in a text, from where they do in the same with LF for CRLF."""
    matches, before, end = [], 0, 0
    for spot in spots:
        start = _forward(text, end, spot - before)
        end = _forward(text, start, size)
        matches.append(Match(start, end))
        before = spot + size
    return matches


def _forward(text: str, start: int, count: int) -> int:
    """The place `count` characters after `start`, with a CRLF counted as one."""
    end, seen = start + count, start
    while seen < end:
        more = text.count("\r\n", seen, end + 1)  # so that a CRLF across the end is taken in
        seen, end = end, end + more
    return end


def _found(matches: list[Match], how: str, text: str, snippet: str, spots: list[int]) -> Found:
    """`Found`, with whether the matches overlap with others so that counting from the end differs."""
    size = len(snippet)
    if not any(text.find(snippet, spot + 1, spot + 2 * size - 1) >= 0 for spot in spots):
        return Found(matches, how)
    mirrored = sorted(len(text) - spot - size for spot in _each(text[::-1], snippet[::-1]))
    return Found(matches, how, overlapping=mirrored != spots)


def _merged(there: str, stretches: list[_Stretch], after: list[str]) -> str:
    """`there`, a loose match, with changes made to it that put tokens of `after` in."""
    kept = _TOKEN.findall(there)
    ending = "\r\n" if "\r\n" in there else "\n"
    pieces: list[str] = []
    for same, low, high, left, right in stretches:
        if same:
            pieces += kept[low:high]
        else:
            pieces += [ending if _key(token) == "\n" else token for token in after[left:right]]
    return "".join(pieces)


def _stretches(before: list[str], after: list[str]) -> Iterator[_Stretch]:
    """Stretches of the two lists, and whether they are the same. What lies between a common beginning and
    common lines at the end is compared, unless it is so long that it would take seconds."""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    lines = next((size for size in range(tail, 0, -1) if before[-size - 1 : -size] == ["\n"]), 0)
    longest = max(len(before), len(after)) - head
    if longest - lines <= _MAX_COMPARED_TOKENS:
        tail = lines
    low, left = len(before) - tail, len(after) - tail
    yield True, 0, head, 0, head
    if longest - tail <= _MAX_COMPARED_TOKENS:
        matcher = difflib.SequenceMatcher(None, before[head:low], after[head:left], autojunk=False)
        for tag, first, last, other, end in matcher.get_opcodes():
            yield tag == "equal", head + first, head + last, head + other, head + end
    else:
        yield False, head, low, head, left
    yield True, low, len(before), left, len(after)


def _common(first: list[str], second: list[str]) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _key(token: str) -> str:
    return "\n" if token == "\r\n" else token
