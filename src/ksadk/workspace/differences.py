"""Why a snippet is not in a text: the place that it may mean, and in what it differs from that.

The time that this takes grows as the size of the text does, not faster.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate, groupby
from typing import Any, NamedTuple

from ksadk.workspace import nearby
from ksadk.workspace.folding import BLANKS, KINDS, fold, straight
from ksadk.workspace.text import common_length, position

_SHOWN = 24
_BLOCK = re.compile(r"(?s).{1,8192}[^\x00-\x7f]{0,64}")
_NUMBER = re.compile(r"^[ \t]*\d+ ?(?:[|:→]|\t) ?", re.MULTILINE)
_ESCAPE = re.compile(r"\\([ntr\"'\\])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\"}
_NAMES = {" ": "space", "\t": "tab", "\n": "line break", "\r": "carriage return", "\xa0": "no-break space"}


class NearMiss(NamedTuple):
    """The lines most like a snippet, as `{line, text, snippet, score}`, and the first difference from one, as
    `{kinds, line, column, message}`, if any place is like it at all."""

    candidates: list[dict[str, Any]]
    difference: dict[str, Any] | None


def near_miss(text: str, snippet: str) -> NearMiss:
    """Explain why `snippet` is not in `text`. Lines and columns count from 1."""
    text, snippet = text.replace("\r\n", "\n"), snippet.replace("\r\n", "\n")
    found = nearby.candidates(text, snippet)
    folded = _Folded(text)
    difference = _same_but(text, snippet, folded) or _copied_wrongly(text, snippet, folded)
    if difference is None and found:
        difference = _first_difference(text, snippet, found[0].start)
    shown = [nearby.shown(text, place.start) | {"score": round(place.score, 3)} for place in found]
    return NearMiss(shown, difference)


class _Folded:
    """A text without what people do not see or mind, and where its characters stand in the original."""

    def __init__(self, text: str) -> None:
        self._blocks = _BLOCK.findall(text)
        folded = [fold(block) for block in self._blocks]
        self._ends = list(accumulate(map(len, folded)))
        self.text = "".join(folded)

    def find(self, snippet: str) -> tuple[int, int] | None:
        """Where in the original a snippet stands, if it is there after folding both."""
        wanted = fold(snippet)
        spot = self.text.find(wanted) if wanted else -1
        return None if spot < 0 else (self._place(spot), self._place(spot + len(wanted) - 1) + 1)

    def _place(self, position: int) -> int:
        nth = bisect_right(self._ends, position)
        inside = position - (self._ends[nth - 1] if nth else 0)
        block = self._blocks[nth]
        sizes = range(len(block) + 1)
        size = bisect_right(sizes, inside, key=lambda size: len(fold(block[:size])))
        return sum(map(len, self._blocks[:nth])) + size - 1


def _same_but(text: str, snippet: str, folded: _Folded) -> dict[str, Any] | None:
    """The difference in blanks, letter case and the like only, where there is such a place."""
    place = folded.find(snippet)
    if place is None:
        return None
    start, end = _with_blanks(text, snippet, *place)
    there = text[start:end]
    kinds = [kind for kind in KINDS if fold(there, but=kind) != fold(snippet, but=kind)]
    same = common_length(straight(there), straight(snippet))
    if any(part[same : same + 1] in BLANKS for part in (there, snippet) if same < len(part)):
        same, has, sent = _blank_runs(there, snippet, same)
    else:
        while same and any(map(unicodedata.combining, there[same : same + 1] + snippet[same : same + 1])):
            same -= 1
        has, sent = _character(there, same), _character(snippet, same)
    words = " and ".join(KINDS[kind] for kind in kinds) or "invisible characters"
    return _told(
        text, start + same, kinds or ["unicode"],
        f"differs only in {words}: the file has {has}, you sent {sent}",
    )  # fmt: skip


def _copied_wrongly(text: str, snippet: str, folded: _Folded) -> dict[str, Any] | None:
    """Line numbers in the snippet, or escapes on one side and what they stand for on the other."""
    lines = [line for line in snippet.split("\n") if line.strip()]
    if all(map(_NUMBER.match, lines)):
        place = folded.find(_NUMBER.sub("", snippet))
        if place:
            number = lines[0][: _NUMBER.match(lines[0]).end()]  # type: ignore[union-attr]
            return _told(
                text, place[0], ["line_numbers"],
                f"old_text begins its lines with numbers ({number!r}), which are not part of the file",
            )  # fmt: skip
    escape = _ESCAPE.search(snippet)
    if escape and (place := folded.find(_ESCAPE.sub(lambda found: _ESCAPED[found[1]], snippet))):
        return _told(
            text, place[0], ["escapes"],
            f"old_text is escaped: it has {escape[0]}, two characters, where the file has one",
        )  # fmt: skip
    if "\n" in snippet.strip() and (place := folded.find(snippet.replace("\n", "\\n"))):
        return _told(
            text, place[0], ["escapes"],
            "the file has a backslash and an n where old_text has a line break",
        )  # fmt: skip
    return None


def _first_difference(text: str, snippet: str, start: int) -> dict[str, Any]:
    """Where the snippet stops being what is at the best candidate."""
    anchor = nearby.first_line(snippet)
    line = text[start : start + 1000].partition("\n")[0]
    wanted = snippet[anchor : anchor + 1000].partition("\n")[0].strip()
    sizes = range(len(wanted) + 1)
    size = bisect_right(sizes, False, key=lambda size: wanted[:size] not in line) - 1
    spot = line.find(wanted[:size]) if size > 2 else len(line) - len(line.lstrip())
    begin = anchor + snippet[anchor:].find(wanted)
    same = common_length(straight(text[start + spot :]), straight(snippet[begin:]))
    back = 0
    while back < min(same, _SHOWN // 2) and (snippet[begin + same - back - 1].isalnum()):
        back += 1
    has = _excerpt(text, start + spot + same, back, "the end of the file")
    sent = _excerpt(snippet, begin + same, back, "nothing more")
    return _told(text, start + spot + same, ["text"], f"the file has {has}, you sent {sent}")


def _told(text: str, spot: int, kinds: list[str], message: str) -> dict[str, Any]:
    line, column = position(text, spot)
    return {"kinds": kinds, "line": line, "column": column, "message": message}


def _with_blanks(text: str, snippet: str, start: int, end: int) -> tuple[int, int]:
    """The place with the blanks around it that those at the ends of the snippet stand for."""
    lead = snippet[: len(snippet) - len(snippet.lstrip(BLANKS))]
    trail = snippet[len(snippet.rstrip(BLANKS)) :]
    if lead:
        before = text[max(0, start - 1000) : start]
        run = before[len(before.rstrip(BLANKS)) :]
        parts = run.split("\n")
        start -= len("\n".join(parts[-lead.count("\n") - 1 :])) + (0 < lead.count("\n") < len(parts) - 1)
    if trail:
        after = text[end : end + 1000]
        run = after[: len(after) - len(after.lstrip(BLANKS))]
        end += len("\n".join(run.split("\n")[: trail.count("\n") + 1]))
    return start, end


def _blank_runs(there: str, snippet: str, same: int) -> tuple[int, str, str]:
    """Where the blanks begin that differ, and what each side has there."""
    begin = same
    while begin and there[begin - 1] in BLANKS and there[begin - 1] != "\n":
        begin -= 1
    runs = [part[begin : len(part) - len(part[begin:].lstrip(BLANKS))] for part in (there, snippet)]
    heads = [run.partition("\n")[0] for run in runs]
    if heads[0] != heads[1] and all("\n" in run or not run for run in runs):
        return begin, f"{_blanks(heads[0])} at the end of the line", _blanks(heads[1])
    return begin, _blanks(runs[0]), _blanks(runs[1])


def _blanks(run: str) -> str:
    """`4 spaces`, `a tab` or `a line break and 2 spaces`."""
    words = []
    for blank, group in groupby(run):
        count = len(list(group))
        name = _NAMES.get(blank, unicodedata.name(blank, "character").lower())
        code = "" if blank.isascii() else f" (U+{ord(blank):04X})"
        words.append(f"{'a' if count == 1 else count} {name}{'s' * (count > 1)}{code}")
    return " and ".join(words[:3]) + (" and more" if len(words) > 3 else "") or "none"


def _character(text: str, spot: int) -> str:
    """A character and the marks on it, with their numbers where they are not ASCII."""
    if spot >= len(text):
        return "nothing"
    end = spot + 1
    while end < min(len(text), spot + 4) and unicodedata.combining(text[end]):
        end += 1
    shown = text[spot:end]
    return f"{shown!r}" + ("" if shown.isascii() else f" ({' '.join(f'U+{ord(one):04X}' for one in shown)})")


def _excerpt(text: str, spot: int, back: int, at_end: str) -> str:
    shown = text[spot - back : spot + _SHOWN].partition("\n")[0]
    if shown:
        return repr(shown)
    return at_end if spot >= len(text) else "the end of the line"
