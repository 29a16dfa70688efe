"""Unified diffs of whole files, in bounded time."""

from __future__ import annotations

import difflib
from itertools import takewhile

from ksadk.workspace.text import split_keeping_ends

CONTEXT = 3
MAX_COMPARED_LINES = 4_000


def unified(before: str, after: str, shown: str) -> str:
    """A unified diff with three lines of context; empty when the texts are the same.

    Where more than 4,000 lines lie between the first and the last change, that stretch is shown as taken
    out and put in as a whole: comparing it line by line can take minutes.
    """
    old, new = split_keeping_ends(before), split_keeping_ends(after)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    skip = max(0, head - CONTEXT)
    old = old[skip : len(old) - max(0, tail - CONTEXT)]
    new = new[skip : len(new) - max(0, tail - CONTEXT)]
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        hunks = _replaced(old, new, head - skip, min(tail, CONTEXT))
    else:
        hunks = list(difflib.unified_diff(old, new, n=CONTEXT))[2:]
    if not hunks:
        return ""
    lines = [f"--- a/{shown}\n", f"+++ b/{shown}\n"]
    for line in hunks:
        if line.startswith("@@"):
            lines.append(_shifted(line, skip))
        else:
            lines.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(lines)


def _common(first: list[str], second: list[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _replaced(old: list[str], new: list[str], head: int, tail: int) -> list[str]:
    kept_head, kept_tail = old[:head], old[len(old) - tail :]
    return [
        f"@@ -1,{len(old)} +1,{len(new)} @@\n",
        *(" " + line for line in kept_head),
        *("-" + line for line in old[head : len(old) - tail]),
        *("+" + line for line in new[head : len(new) - tail]),
        *(" " + line for line in kept_tail),
    ]


def _shifted(header: str, skip: int) -> str:
    """`@@ -1,3 +1,4 @@` moved down by `skip` lines."""
    _, old, new, _ = header.split(" ", 3)
    return f"@@ {_moved(old, skip)} {_moved(new, skip)} @@\n"


def _moved(part: str, skip: int) -> str:
    start, comma, count = part[1:].partition(",")
    return f"{part[0]}{int(start) + skip}{comma}{count}"
