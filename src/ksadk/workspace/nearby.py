"""The lines of a text that most resemble a snippet that is not in it, found in bounded time."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from ksadk.workspace.text import window

_WORD = re.compile(r"\w+")
_LINE_CHARS = 200
_COMPARED = 40
_SMALL_FILE_LINES, _SMALL_FILE_CHARS = 200, 100_000
_WORDS, _FOUND_OF_EACH = 12, 300
_PIECES, _PIECE_CHARS = 16, 4
_LOOKED_BACK = 500
_CANDIDATES = 5
_MIN_SCORE = 0.3
_FOLLOWING = 20


class Candidate(NamedTuple):
    """A place in the text like the snippet's first line; `score` is 0 to 1."""

    score: float
    following: int
    """How many of the lines that come next are those of the snippet, 20 at most."""
    start: int


def candidates(text: str, snippet: str) -> list[Candidate]:
    """At most five places, the best first. The text and the snippet have LF at line ends.

    Places are where words of the snippet's first line that is not blank are found: of each of its twelve
    longest words the first 300 places, so that the work is bounded whatever the text.
    """
    anchor = first_line(snippet)
    wanted = snippet[anchor : anchor + _LINE_CHARS].partition("\n")[0].strip()
    following = snippet[anchor:].split("\n", _FOLLOWING + 1)[1 : _FOLLOWING + 1]
    words = sorted(set(_WORD.findall(wanted)), key=len, reverse=True)[:_WORDS]
    votes, begins = _votes(text, wanted, words)
    if not votes:
        spots = range(0, max(1, len(wanted) - _PIECE_CHARS + 1), 3)
        pieces = [wanted[spot : spot + _PIECE_CHARS] for spot in spots][:_PIECES]
        votes, begins = _votes(text, wanted, pieces)
    if len(text) <= _SMALL_FILE_CHARS and text.count("\n") <= _SMALL_FILE_LINES:
        votes.update(dict.fromkeys((found.start() for found in re.finditer("^", text, re.MULTILINE)), 0))
    likely = heapq.nlargest(_COMPARED, votes, key=lambda start: (votes[start], -start))
    pairs = _pairs(wanted)
    scored = []
    for start in likely:
        line = text[start : start + _LINE_CHARS].partition("\n")[0].strip()
        begin = begins.get(start, start)
        part = text[begin : begin + len(wanted)].partition("\n")[0]
        score = max(_likeness(pairs, _pairs(line)), _likeness(pairs, _pairs(part)))
        if score >= _MIN_SCORE:
            scored.append(Candidate(score, _same_lines(text, start, following), start))
    return heapq.nlargest(_CANDIDATES, scored, key=lambda found: (*found[:2], -found.start))


def first_line(snippet: str) -> int:
    """Where the first line that is not blank begins."""
    text = snippet.lstrip()
    return snippet.rfind("\n", 0, len(snippet) - len(text)) + 1


def shown(text: str, start: int, end: int | None = None) -> dict[str, Any]:
    """`{line, text, snippet}` of the line at a place: its number from 1, the line, and the line with its
    neighbours. Of a long line the part around [start, end) is shown."""
    low, high = _line_at(text, start)
    around = [(low, high)]
    if low:
        around.insert(0, _line_at(text, low - 1))
    after = text.find("\n", high) + 1
    if 0 < after < len(text):
        around.append(_line_at(text, after))
    line = window(text[low:high], start - low, (start if end is None else end) - low)[0]
    return {
        "line": text.count("\n", 0, low) + 1,
        "text": line,
        "snippet": "\n".join(
            line if place == (low, high) else window(text[slice(*place)], 0, 0)[0] for place in around
        ),
    }


def _votes(text: str, wanted: str, words: list[str]) -> tuple[Counter[int], dict[int, int]]:
    """How many of the words each line holds, by where the line starts (of lines without end, a part); and
    where in the line the text wanted would begin, by the first of the words."""
    votes: Counter[int] = Counter()
    begins: dict[int, int] = {}
    for word in words:
        offset = wanted.find(word)
        found = {
            _start_of_line(text, spot, offset): max(0, spot - offset) for spot in _first_spots(text, word)
        }
        votes.update(found.keys())
        begins = found | begins
    return votes, begins


def _first_spots(text: str, word: str) -> Iterator[int]:
    spot = -1
    for _ in range(_FOUND_OF_EACH):
        spot = text.find(word, spot + 1)
        if spot < 0:
            break
        yield spot


def _start_of_line(text: str, spot: int, offset: int) -> int:
    found = text.rfind("\n", max(0, spot - _LOOKED_BACK), spot)
    if found >= 0 or spot <= _LOOKED_BACK:
        return found + 1
    return max(0, spot - offset)


def _same_lines(text: str, start: int, following: list[str]) -> int:
    """How many of the lines that follow are the ones wanted."""
    end = text.find("\n", start)
    for count, line in enumerate(following):
        if end < 0 or not text.startswith(line, end + 1):
            return count
        after = end + 1 + len(line)
        if after < len(text) and text[after] != "\n":
            return count
        end = after
    return len(following)


def _pairs(line: str) -> Counter[str]:
    return Counter(map(str.__add__, line, line[1:])) or Counter([line])


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    """The share of neighbouring characters that two lines have in common."""
    return 2 * (one & other).total() / (one.total() + other.total())


def _line_at(text: str, spot: int) -> tuple[int, int]:
    """Where the line at a place begins and ends, without its line end."""
    start, end = text.rfind("\n", 0, spot) + 1, text.find("\n", spot)
    if end < 0:
        return start, len(text)
    return start, end - (end > start and text[end - 1] == "\r")
