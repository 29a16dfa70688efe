"""Finding lines in the files of a workspace, with the same answer from either engine."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ksadk.workspace.directories import Directories, Names, names_of
from ksadk.workspace.engines import Engine, PythonEngine, Stalled, Wanted, best_engine
from ksadk.workspace.globs import Glob
from ksadk.workspace.listing import clamp_results
from ksadk.workspace.paths import Place, WorkspaceError, check_regular, locate, os_errors
from ksadk.workspace.patterns import Pattern, literal, regex
from ksadk.workspace.scanning import MAX_FILE_BYTES, MAX_LOOKED_INTO, Hit, Scanner, as_text
from ksadk.workspace.text import readable, window
from ksadk.workspace.tree import OutOfTime, Walk

MAX_CONTEXT_LINES = 20
SECONDS = 10.0

_EXPLAINED_ENTRIES = 10_000
"""How many entries are looked at to say why nothing was found, once one file was there to be searched."""


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

    directories: Directories
    scanner: Scanner
    context: int
    limit: int
    large_files: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)
    out_of_time: bool = False

    def scan(self, candidates: Iterable[Names]) -> None:
        """Take results from files, until there are more than asked for, or no time is left."""
        try:
            for names in candidates:
                self._scan_file(names)
                if len(self.results) > self.limit:
                    break
        except OutOfTime:
            self.out_of_time = True

    def _scan_file(self, names: Names) -> None:
        try:
            descriptor = self.directories.open(names)
        except OSError:
            return  # gone since, or not readable
        try:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                return
            if state.st_size > MAX_FILE_BYTES:
                small = state.st_size <= MAX_LOOKED_INTO
                self.large_files += small and self.scanner.is_in(descriptor)
                return
            data = as_text(_read(descriptor, state.st_size))
        except OSError:
            return
        finally:
            os.close(descriptor)
        if data is not None:
            path = readable("/".join(names))
            room = self.limit + 1 - len(self.results)
            for hit in islice(self.scanner.hits(data), room):
                self.results.append(_result(path, data, hit, self.context))


def search(
    root: Path, query: Query, engine: Engine | None = None, seconds: float = SECONDS
) -> dict[str, Any]:
    """The lines that match, by path and then line; the result of `search_workspace_files`.

    Hidden files are searched; links are not followed, and files over 1 MiB, files with NUL bytes and what
    ignore files name are left out. Raises `invalid_regex`, `unsupported_regex`, `invalid_query`,
    `invalid_glob`, `not_found`, and `search_timeout` when time runs out with nothing found.
    """
    begun = time.monotonic()
    deadline = begun + seconds
    pattern = query.pattern()
    scanner = Scanner(pattern, deadline)
    engine = engine or best_engine(root)
    place = locate(root, query.path)
    glob = Glob(query.glob) if query.glob is not None else None
    with os_errors(place.shown):
        directories = Directories(root)
    with directories:
        context = min(max(query.context_lines, 0), MAX_CONTEXT_LINES)
        state = _Search(directories, scanner, context, clamp_results(query.max_results))
        wanted = Wanted(root, directories, names_of(place.relative), pattern, glob, begun, deadline)
        found = _state(directories, place)
        if stat.S_ISDIR(found.st_mode):
            engine = _scan_below(state, wanted, engine)
        else:
            state.scan([wanted.start])
        why = {} if state.results else _explain(wanted, found, state.large_files)
    if state.out_of_time and not state.results:
        raise WorkspaceError(
            f"the search was stopped after {seconds:g} seconds", code="search_timeout",
            hint="Search in fewer files (path, glob), or for something simpler.",
            query=query.text, search_backend=engine.name,
        )  # fmt: skip
    return _answer(state, query, place, engine, why)


def fitting(results: Sequence[dict[str, Any]], chars: int) -> list[dict[str, Any]]:
    """The first results whose JSON has at most `chars` characters together; one at least."""
    kept: list[dict[str, Any]] = []
    for result in results:
        chars -= len(json.dumps(result, ensure_ascii=False))
        if chars < 0 and kept:
            break
        kept.append(result)
    return kept


def _state(directories: Directories, place: Place) -> os.stat_result:
    """The state of the directory or file to search in. Raises if it can be neither listed nor read."""
    names = names_of(place.relative)
    with os_errors(place.shown):
        state = os.stat(
            names[-1] if names else ".", dir_fd=directories.hold(names[:-1]), follow_symlinks=False
        )
        if stat.S_ISDIR(state.st_mode):
            os.close(directories.listing(names))
        else:
            check_regular(state, place.shown)  # a device is not opened, not even for a look
            os.close(directories.open(names))
    return state


def _scan_below(state: _Search, wanted: Wanted, engine: Engine) -> Engine:
    """Search in a directory; says which engine named the files."""
    try:
        candidates = engine.candidates(wanted)
    except Stalled:
        engine = PythonEngine()
        candidates = engine.candidates(wanted)
    except OutOfTime:
        candidates, state.out_of_time = iter(()), True
    state.scan(candidates)
    state.out_of_time |= wanted.out_of_time
    return engine


def _read(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, size + 1)
    while len(data) != size:  # written to since, or a file system that gives less at once
        more = os.read(descriptor, MAX_FILE_BYTES + 1 - len(data))
        if not more:
            break
        data += more
    return data


def _result(path: str, data: bytes, hit: Hit, context: int) -> dict[str, Any]:
    line = data[hit.start : hit.stop]
    text = line.decode("utf-8", "surrogateescape")
    first, last = hit.first - hit.start, hit.last - hit.start
    if len(text) != len(line):
        first, last = (len(line[:at].decode("utf-8", "surrogateescape")) for at in (first, last))
    shown, cut = window(text, first, last)
    written = readable(shown)
    before = _lines_before(data, hit.start, context)
    after = list(islice(_lines_from(data, _next_line(data, hit.stop)), context))
    result = {
        "path": path,
        "line": hit.number,
        "column": first + 1,
        "text": written,
        "snippet": "\n".join([*before, written, *after]),
        "context_before": before,
        "context_after": after,
    }
    if cut:
        result["line_truncated"] = True
    if written != shown:
        result["not_utf8"] = True
    return result


def _lines_before(data: bytes, start: int, count: int) -> list[str]:
    begin = start
    for _ in range(count):
        if begin:
            begin = data.rfind(b"\n", 0, begin - 1) + 1
    return list(_lines_from(data[:start], begin)) if count else []


def _lines_from(data: bytes, at: int) -> Iterator[str]:
    """The lines from an offset on as context shows them."""
    while at < len(data):
        end = _next_line(data, at)
        line = data[at:end].removesuffix(b"\n")
        if len(line) < end - at:
            line = line.removesuffix(b"\r")
        yield readable(window(line.decode("utf-8", "surrogateescape"), 0, 0)[0])
        at = end


def _next_line(data: bytes, at: int) -> int:
    found = data.find(b"\n", at)
    return len(data) if found < 0 else found + 1


def _answer(
    state: _Search, query: Query, place: Place, engine: Engine, why: dict[str, Any]
) -> dict[str, Any]:
    results = state.results[: state.limit]
    answer: dict[str, Any] = {
        "ok": True,
        "query": query.text,
        "searched_path": place.shown,
        "results": results,
        "match_count": len(results),
        "truncated": len(state.results) > state.limit or state.out_of_time,
        "context_lines": state.context,
        "search_backend": engine.name,
        "skipped": {"large_files": state.large_files},
        **why,
    }
    if state.out_of_time:
        answer["timed_out"] = True
    return answer


def _explain(wanted: Wanted, start: os.stat_result, large_matching: int) -> dict[str, Any]:
    """What was skipped where nothing was found, and a note if nothing was searched, or something is there
    that is not shown."""
    walk = Walk(wanted.root, ignoring=True, deadline=wanted.deadline)
    large = binary = 0
    searched = False
    entries = _states(walk, wanted) if stat.S_ISDIR(start.st_mode) else iter([(wanted.start, start)])
    for seen, (names, state) in enumerate(entries, 1):
        if state is not None and state.st_size > MAX_FILE_BYTES:
            large += 1
        elif state is not None and not searched:  # one text is enough to know
            searched = _is_text(wanted.directories, names, state.st_size)
            binary += not searched
        if seen >= _EXPLAINED_ENTRIES and searched:
            complete = False
            break
    else:
        complete = not walk.out_of_time
    skipped: dict[str, Any] = {
        "ignored": walk.skipped.ignored,
        "large_files": large,
        "links": walk.skipped.links,
        "unreadable": walk.skipped.unreadable,
        "complete": complete,
    }
    if not searched:
        skipped["binary_files"] = binary
    if large_matching:
        files = f"{large_matching} file{'s' * (large_matching != 1)}"
        return {"skipped": skipped, "note": f"It is in {files} over 1 MiB, of which no lines are shown."}
    return {"skipped": skipped} if searched else {"skipped": skipped, "note": _why_nothing(skipped)}


def _states(walk: Walk, wanted: Wanted) -> Iterator[tuple[Names, os.stat_result | None]]:
    """Each entry below the place, with its state if it is a file that can be read and fits; else None."""
    for entry in walk.entries(wanted.root.joinpath(*wanted.start), recursive=True):
        state = None
        if entry.kind == "file" and wanted.fits_glob(entry.path):
            state = walk.state(entry) if walk.may_read(entry) else None
            walk.skipped.unreadable += state is None
        yield names_of(entry.path), state


def _is_text(directories: Directories, names: Names, size: int) -> bool:
    try:
        descriptor = directories.open(names)
    except OSError:
        return False  # gone since
    try:
        return as_text(_read(descriptor, size)) is not None
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _why_nothing(skipped: dict[str, Any]) -> str:
    words = {
        "ignored": "left out by ignore files",
        "large_files": "larger than 1 MiB",
        "binary_files": "with NUL bytes",
        "links": "symbolic links",
        "unreadable": "not readable",
    }
    reasons = [f"{skipped[name]} {said}" for name, said in words.items() if skipped[name]]
    because = f" ({', '.join(reasons)})" if reasons else ": none is there that fits path and glob"
    return f"No file was searched{because}. This does not say that the text is nowhere."
