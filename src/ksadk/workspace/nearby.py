"""The lines of a text that most resemble a snippet that is not in it, found in bounded time."""

from __future__ import annotations

import difflib
import heapq
import re
import time
from typing import Any

from ksadk.workspace.text import split_lines, window

_WORD = re.compile(r"\w+")
_LINE_CHARS = 200
_COMPARED = 40
_SMALL_FILE_LINES = 200
_SECONDS = 0.25
_CANDIDATES = 5
_MIN_SCORE = 0.3


def nearby_candidates(text: str, snippet: str) -> list[dict[str, Any]]:
    """At most five `{line, text, snippet, score}`, the best first; `snippet` adds a line on either side.

    Lines are compared with the snippet's first line that is not blank: in a large file only the forty that
    share the most words with it.
    """
    wanted = next((line.strip() for line in snippet.split("\n") if line.strip()), "")[:_LINE_CHARS]
    words = set(_WORD.findall(wanted)) or {wanted}
    lines = split_lines(text)
    deadline = time.monotonic() + _SECONDS
    rough: list[tuple[int, int]] = []
    for index, line in enumerate(lines):
        shared = len(words.intersection(_WORD.findall(line[:_LINE_CHARS])))
        if shared or len(lines) <= _SMALL_FILE_LINES or wanted[:12] in line[:_LINE_CHARS]:
            rough.append((shared, -index))
        if not index % 1000 and time.monotonic() > deadline:
            break
    scored = []
    for _, negative in heapq.nlargest(_COMPARED, rough):
        line = lines[-negative].strip()[:_LINE_CHARS]
        score = difflib.SequenceMatcher(None, wanted, line, autojunk=False).ratio()
        if score >= _MIN_SCORE:
            scored.append((score, negative))
        if time.monotonic() > deadline:
            break
    return [_candidate(lines, -negative, score) for score, negative in heapq.nlargest(_CANDIDATES, scored)]


def shown_line(lines: list[str], index: int) -> dict[str, Any]:
    """`{line, text, snippet}` of a line: its number from 1, the line, and the line with its neighbours."""
    around = lines[max(0, index - 1) : index + 2]
    return {
        "line": index + 1,
        "text": window(lines[index], 0, 0)[0],
        "snippet": "\n".join(window(line, 0, 0)[0] for line in around),
    }


def _candidate(lines: list[str], index: int, score: float) -> dict[str, Any]:
    return shown_line(lines, index) | {"score": round(score, 3)}
