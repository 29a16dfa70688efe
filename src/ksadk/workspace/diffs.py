"""Unified diffs of whole files, in bounded time."""

from __future__ import annotations

import difflib
import json

from ksadk.workspace.text import Change, split_keeping_ends

CONTEXT = 3
MAX_COMPARED_LINES = 4_000


def unified(before: str, change: Change, shown: str) -> str:
    """A unified diff of a change, with three lines of context; empty when nothing changes.

    Where more than 4,000 lines lie between the first and the last change, that stretch is shown as taken
    out and put in as a whole: comparing it line by line can take minutes.
    """
    if before[change.start : change.end] == change.text:
        return ""
    head = before.rfind("\n", 0, change.start) + 1
    tail = _end_of_line(before, change)
    start, end = _lines_back(before, head), _lines_on(before, tail)
    old = split_keeping_ends(before[start:end])
    new = split_keeping_ends(before[start : change.start] + change.text + before[change.end : end])
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        hunks = _replaced(
            old, new, before.count("\n", start, head), len(split_keeping_ends(before[tail:end]))
        )
    else:
        hunks = list(difflib.unified_diff(old, new, n=CONTEXT))[2:]
    skip = before.count("\n", 0, start)
    lines = [f"--- {_name(f'a/{shown}')}\n", f"+++ {_name(f'b/{shown}')}\n"]
    for line in hunks:
        if line.startswith("@@"):
            lines.append(_shifted(line, skip))
        else:
            lines.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(lines)


def _name(path: str) -> str:
    """A name as git writes it: one that would not be a line of its own is quoted."""
    return path if path.isprintable() else json.dumps(path)


def _end_of_line(before: str, change: Change) -> int:
    """The end of the last line that a change touches, before and after it."""
    ends_line = (change.text or before[: change.start][-1:])[-1:] == "\n" or not (change.start or change.text)
    if ends_line and (change.end == 0 or before[change.end - 1] == "\n"):
        return change.end
    return before.find("\n", change.end) + 1 or len(before)


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
