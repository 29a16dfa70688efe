"""Finding lines in the files of a workspace, with the same answer from either engine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from ksadk.workspace.engines import Engine, Hit, OutOfTime, batch, best_engine
from ksadk.workspace.files import read_bytes
from ksadk.workspace.globs import Glob
from ksadk.workspace.listing import clamp_results, readable
from ksadk.workspace.paths import Place, WorkspaceError, locate, os_errors
from ksadk.workspace.patterns import Pattern, literal, regex
from ksadk.workspace.text import BOM, split_lines, window
from ksadk.workspace.tree import Walk

MAX_FILE_BYTES = 1024 * 1024
MAX_CONTEXT_LINES = 20
SECONDS = 10.0

_FIRST_BATCH = 64
_LARGEST_BATCH = 4_096
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Query:
    """What is looked for, and where. Lines are matched one at a time."""

    text: str
    path: str = "."
    is_regex: bool = False
    glob: str | None = None
    case_sensitive: bool = False
    context_lines: int = 0
    max_results: int = 100

    def pattern(self) -> Pattern:
        make = regex if self.is_regex else literal
        return make(self.text, case_sensitive=self.case_sensitive)


@dataclass
class _Search:
    """One search as it goes."""

    walk: Walk
    files: list[str] = field(default_factory=list)
    searched: int = 0
    large_files: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)
    out_of_time: bool = False


def search(
    root: Path, query: Query, engine: Engine | None = None, seconds: float = SECONDS
) -> dict[str, Any]:
    """The lines that match, by path and then line; the result of `search_workspace_files`.

    Hidden files are searched; links are not followed, and files over 1 MiB, files with NUL bytes and what
    `.gitignore` and `.ignore` name are left out. Raises `invalid_regex`, `unsupported_regex`,
    `invalid_query`, `invalid_glob`, `not_found`, and `search_timeout` when time runs out with nothing found.
    """
    pattern = query.pattern()
    engine = engine or best_engine(root)
    place = locate(root, query.path)
    deadline = time.monotonic() + seconds
    state = _Search(Walk(root, ignoring=True, deadline=deadline))
    _collect(state, place, Glob(query.glob) if query.glob is not None else None)
    limit = clamp_results(query.max_results)
    context = min(max(query.context_lines, 0), MAX_CONTEXT_LINES)
    for hits in _hits(state, engine, root, pattern, limit, deadline):
        state.results += _results(root, hits, engine.counts, context, limit + 1 - len(state.results))
        if len(state.results) > limit:
            break
    state.out_of_time |= state.walk.out_of_time
    if state.out_of_time and not state.results:
        raise WorkspaceError(
            f"the search was stopped after {seconds:g} seconds", code="search_timeout",
            hint="Search in fewer files (path, glob), or for something simpler.",
            query=query.text, search_backend=engine.name,
        )  # fmt: skip
    return _answer(state, query, place, engine, context, limit)


def fitting(results: Sequence[dict[str, Any]], chars: int) -> list[dict[str, Any]]:
    """The first results whose JSON has at most `chars` characters together; one at least."""
    kept: list[dict[str, Any]] = []
    for result in results:
        chars -= len(json.dumps(result, ensure_ascii=False))
        if chars < 0 and kept:
            break
        kept.append(result)
    return kept


def _collect(state: _Search, place: Place, glob: Glob | None) -> None:
    with os_errors(place.shown):
        start_state = place.real.stat()
    if not place.real.is_dir():
        read_bytes(place, max(MAX_FILE_BYTES, start_state.st_size))  # a FIFO, or one that cannot be read
        _add(state, place.relative, start_state)
        return
    below = "" if place.relative == "." else place.relative + "/"
    for entry in state.walk.files(place.real):
        if glob is None or glob.matches(entry.path) or glob.matches(entry.path.removeprefix(below)):
            _add(state, entry.path, entry.state)


def _add(state: _Search, path: str, file: os.stat_result) -> None:
    if file.st_size > MAX_FILE_BYTES:
        state.large_files += 1
    elif not os.access(state.walk.root / path, os.R_OK):
        state.walk.skipped.unreadable += 1
    else:
        state.files.append(path)


def _hits(
    state: _Search, engine: Engine, root: Path, pattern: Pattern, limit: int, deadline: float
) -> Iterator[list[Hit]]:
    """Hits in the order of the files, a batch at a time: few files first, since few may be enough."""
    order = {path: index for index, path in enumerate(state.files)}
    size, start = _FIRST_BATCH, 0
    while start < len(state.files):
        files = batch(state.files, start, size)
        start += len(files)
        state.searched = start
        try:
            hits = engine.run(root, pattern, files, limit + 1, deadline)
        except OutOfTime as late:
            state.out_of_time = True
            hits, start = late.hits, len(state.files)
        yield sorted(hits, key=lambda hit: (order[hit.path], hit.line))
        if len(hits) < limit:
            size = min(size * 4, _LARGEST_BATCH)


def _results(
    root: Path, hits: Sequence[Hit], counts: str, context: int, room: int
) -> Iterator[dict[str, Any]]:
    for path, of_file in groupby(hits, key=lambda hit: hit.path):
        lines = _lines(root, path)
        for hit in of_file:
            if room and hit.line <= len(lines):
                yield _result(path, lines, hit, counts, context)
                room -= 1


def _lines(root: Path, path: str) -> list[str]:
    """The lines of a file that was searched; none if it is not text, or is no longer what it was."""
    real = root / path
    try:
        data, _ = read_bytes(Place(root, readable(path), real, real), MAX_FILE_BYTES)
    except WorkspaceError:
        return []
    if b"\0" in data or data.startswith(_UTF16):
        return []
    return split_lines(data.removeprefix(BOM).decode("utf-8", "surrogateescape"))


def _result(path: str, lines: list[str], hit: Hit, counts: str, context: int) -> dict[str, Any]:
    index = hit.line - 1
    line, start, end = lines[index], hit.start, hit.end
    if counts == "bytes":
        data = line.encode("utf-8", "surrogateescape")
        start, end = (len(data[:at].decode("utf-8", "surrogateescape")) for at in (start, end))
    text, cut = window(line, start, end)
    before = [readable(window(near, 0, 0)[0]) for near in lines[max(0, index - context) : index]]
    after = [readable(window(near, 0, 0)[0]) for near in lines[index + 1 : index + 1 + context]]
    result = {
        "path": readable(path),
        "line": hit.line,
        "column": start + 1,
        "text": readable(text),
        "snippet": "\n".join([*before, readable(text), *after]),
        "context_before": before,
        "context_after": after,
    }
    if cut:
        result["line_truncated"] = True
    if readable(text) != text:
        result["not_utf8"] = True
    return result


def _answer(
    state: _Search, query: Query, place: Place, engine: Engine, context: int, limit: int
) -> dict[str, Any]:
    skipped = state.walk.skipped
    results = state.results[:limit]
    answer: dict[str, Any] = {
        "ok": True,
        "query": query.text,
        "searched_path": place.shown,
        "results": results,
        "match_count": len(results),
        "truncated": len(state.results) > limit or state.out_of_time,
        "context_lines": context,
        "search_backend": engine.name,
        "files_searched": state.searched,
        "skipped": {
            "ignored": skipped.ignored,
            "large_files": state.large_files,
            "links": skipped.links,
            "unreadable": skipped.unreadable,
        },
    }
    if state.out_of_time:
        answer["timed_out"] = True
    if not state.files:
        answer["note"] = _why_nothing(answer["skipped"])
    return answer


def _why_nothing(skipped: dict[str, int]) -> str:
    words = {
        "ignored": "left out by .gitignore or .ignore",
        "large_files": "larger than 1 MiB",
        "links": "symbolic links",
        "unreadable": "not readable",
    }
    reasons = [f"{count} {words[name]}" for name, count in skipped.items() if count]
    because = f" ({', '.join(reasons)})" if reasons else ": none is there that fits path and glob"
    return f"No file was searched{because}. This does not say that the text is nowhere."
