"""Reading part of a file, and stamping what was read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ksadk.workspace.files import read_bytes
from ksadk.workspace.left_overs import reported, told
from ksadk.workspace.paths import Place, WorkspaceError, locate
from ksadk.workspace.read_state import Content, ReadStates, WorkspaceReadState
from ksadk.workspace.text import Document, line_ending, split_lines

DEFAULT_MAX_CHARS = 20_000
MIN_MAX_CHARS = 1_000
MAX_MAX_CHARS = 100_000


def read(
    root: Path,
    states: ReadStates,
    path: str,
    start_line: int | None = None,
    end_line: int | None = None,
    include_line_numbers: bool = True,
    encoding: str | None = None,
) -> dict[str, Any]:
    """Lines `start_line` to `end_line` (from 1, both included), and where they stand in the file.

    Raises `invalid_range`, `file_too_large`, `not_found`, what `Document.decode` does, and the like.
    """
    place = locate(root, path)
    with told(root, path):
        data, state = read_bytes(place)
    document = Document.decode(data, place.shown, encoding)
    lines = split_lines(document.text)
    total = len(lines)
    start, end = _line_range(place, start_line, end_line, total)
    chosen = lines[start - 1 : end]
    partial = len(chosen) < total
    stamp(states, place, Content(data), state, start, end, total)
    content = "\n".join(
        f"{number} | {line}" for number, line in enumerate(chosen, start)
    ) if include_line_numbers else "\n".join(chosen)  # fmt: skip
    result: dict[str, Any] = {
        "ok": True,
        "path": place.shown,
        "size": state.st_size,
        "size_bytes": state.st_size,
        "mtime_ns": state.st_mtime_ns,
        "start_line": start,
        "end_line": end,
        "line_count": len(chosen),
        "read_range": {"start": start, "end": end},
        "total_lines": total,
        "line_ending": line_ending(document.text),
        "encoding": document.encoding,
        "partial": partial,
        "suggested_action": _rest(start, end, total),
        "content": content,
    }
    return reported([place], result)


def stamp(
    states: ReadStates,
    place: Place,
    content: Content,
    state: os.stat_result,
    start: int = 1,
    end: int | None = None,
    total: int | None = None,
) -> WorkspaceReadState:
    """Record that these bytes of a file are known to the session."""
    if total is None:
        data = content.data
        total = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    end = total if end is None else end
    known = WorkspaceReadState(
        path=place.relative, mtime_ns=state.st_mtime_ns, size_bytes=len(content.data), start_line=start,
        end_line=end, total_lines=total, partial=start > 1 or end < total, content_sha256=content.sha256,
    )  # fmt: skip
    states.put(place, known)
    return known


def stamp_written(
    states: ReadStates, place: Place, content: Content, state: os.stat_result, total: int | None = None
) -> None:
    """Record what was written, `total` lines. Where that fails the file is written all the same: it must be
    read again."""
    try:
        stamp(states, place, content, state, total=total)
    except WorkspaceError:
        states.forget(place)


def clamp_max_chars(max_chars: int | None) -> int:
    """A read's budget in characters: 1,000 to 100,000, and 20,000 where none is asked for."""
    if max_chars is None:
        return DEFAULT_MAX_CHARS
    return min(max(max_chars, MIN_MAX_CHARS), MAX_MAX_CHARS)


def after_trimming(result: dict[str, Any]) -> dict[str, Any]:
    """A read's result whose `content` was cut to its budget, with what to do to see the rest."""
    if not result["truncated"]:
        return result
    whole_lines = result["content"].count("\n")
    next_line = result["start_line"] + whole_lines
    if whole_lines:
        advice = f"The content is cut. Go on with start_line={next_line}."
    else:
        advice = f"Line {next_line} is longer than max_chars; search shows parts of it."
    return result | {"partial": True, "suggested_action": advice}


def _line_range(place: Place, start: int | None, end: int | None, total: int) -> tuple[int, int]:
    first = 1 if start is None else start
    last = max(total, first) if end is None else end
    backwards = first < 1 or last < first
    if backwards or first > max(total, 1):
        has = f"{place.shown} has {total} line{'s' * (total != 1)}"
        wrong = f"; {first} to {last} is not a range of them" if backwards else f", and no line {first}"
        raise WorkspaceError(
            has + wrong,
            code="invalid_range",
            hint="Lines are counted from 1, and start_line is not after end_line." if backwards else None,
            path=place.shown, total_lines=total,
        )  # fmt: skip
    return first, min(last, total)


def _rest(start: int, end: int, total: int) -> str | None:
    if end < total:
        return f"Lines {end + 1} to {total} were not read. Go on with start_line={end + 1}."
    if start > 1:
        return f"Lines 1 to {start - 1} were not read."
    return None
