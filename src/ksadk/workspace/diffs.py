"""Unified diffs of whole files, in bounded time."""

from __future__ import annotations

import difflib

from ksadk.workspace.text import common_length, split_keeping_ends

CONTEXT = 3
MAX_COMPARED_LINES = 4_000
_BLOCK = 1 << 15


def unified(before: str, after: str, shown: str) -> str:
    """A unified diff with three lines of context; empty when the texts are the same.

    Where more than 4,000 lines lie between the first and the last change, that stretch is shown as taken
    out and put in as a whole: comparing it line by line can take minutes.
    """
    if before == after:
        return ""
    head = before.rfind("\n", 0, common_length(before, after)) + 1
    tail = _whole_lines(before, after, _common_tail(before, after, head))
    start = _lines_back(before, head)
    end = _lines_on(before, len(before) - tail)
    old = split_keeping_ends(before[start:end])
    new = split_keeping_ends(after[start : len(after) - (len(before) - end)])
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        hunks = _replaced(old, new, before.count("\n", start, head), _count(before[len(before) - tail : end]))
    else:
        hunks = list(difflib.unified_diff(old, new, n=CONTEXT))[2:]
    skip = before.count("\n", 0, start)
    lines = [f"--- a/{shown}\n", f"+++ b/{shown}\n"]
    for line in hunks:
        if line.startswith("@@"):
            lines.append(_shifted(line, skip))
        else:
            lines.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(lines)


def _common_tail(one: str, other: str, head: int) -> int:
    """How many characters they have in common at the end, behind the first `head`."""
    limit = min(len(one), len(other)) - head
    done, step = 0, _BLOCK
    while step:
        size = min(step, limit - done)
        if size and _back(one, done, size) == _back(other, done, size):
            done += size
        else:
            step //= 2
    return done


def _back(text: str, done: int, size: int) -> str:
    end = len(text) - done
    return text[end - size : end]


def _whole_lines(before: str, after: str, tail: int) -> int:
    """The part of a common tail that is whole lines in both texts."""
    if all(len(text) == tail or text[len(text) - tail - 1] == "\n" for text in (before, after)):
        return tail
    found = before.find("\n", len(before) - tail)
    return 0 if found < 0 else len(before) - found - 1


def _lines_back(text: str, spot: int) -> int:
    """The start of the third line before the one that begins at `spot`."""
    for _ in range(CONTEXT):
        spot = text.rfind("\n", 0, max(0, spot - 1)) + 1
    return spot


def _lines_on(text: str, spot: int) -> int:
    """The end of the third line from `spot`, which begins one."""
    for _ in range(CONTEXT):
        found = text.find("\n", spot)
        if found < 0:
            return len(text)
        spot = found + 1
    return spot


def _count(text: str) -> int:
    return len(split_keeping_ends(text))


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
