"""What is in a workspace."""

from __future__ import annotations

import heapq
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ksadk.workspace.globs import Glob
from ksadk.workspace.paths import WorkspaceError, locate, os_errors
from ksadk.workspace.text import readable
from ksadk.workspace.tree import Entry, Walk

SAMPLED_FILES = 50
MAX_RESULTS = 5_000

_Found = tuple[Entry, os.stat_result]

_WEIGHTS: dict[str, Callable[[os.stat_result], int]] = {
    "mtime": lambda state: state.st_mtime_ns,
    "size": lambda state: state.st_size,
}
_ORDERS = ("name", *_WEIGHTS)
"""By path, name by name; the newest first; the largest first. Equal ones are in the order of their paths."""


def status(root: Path) -> dict[str, Any]:
    """The root and its first 50 files. Raises `permission_denied` if the root cannot be read."""
    walk = Walk(root)
    sample = itertools.islice(_with_states(walk, walk.files(root)), SAMPLED_FILES)
    files = [{"path": readable(entry.path), "size": state.st_size} for entry, state in sample]
    return {
        "ok": True,
        "workspace_root": str(root),
        "file_count_sampled": len(files),
        "files": files,
        "unreadable": walk.skipped.unreadable,
    }


def list_entries(
    root: Path,
    path: str = ".",
    glob: str | None = None,
    recursive: bool = False,
    include_dirs: bool = True,
    max_results: int = 500,
    sort_by: str = "name",
) -> dict[str, Any]:
    """The entries of a directory, links as links; the result of `list_workspace_files`.

    Raises `not_found`, `not_a_directory`, `permission_denied`, `invalid_glob`, `invalid_sort_by`.
    """
    if sort_by not in _ORDERS:
        raise WorkspaceError(
            f"{sort_by!r} is not an order", code="invalid_sort_by", hint=f"One of {', '.join(_ORDERS)}."
        )
    pattern = Glob(glob) if glob is not None else None
    limit = clamp_results(max_results)
    place = locate(root, path)
    with os_errors(place.shown):
        if not stat.S_ISDIR(place.real.stat().st_mode):
            raise WorkspaceError(
                f"{place.shown} is a file, not a directory", code="not_a_directory",
                hint="read_workspace_file shows a file.", path=place.shown,
            )  # fmt: skip

    walk = Walk(root)
    chosen = walk.entries(place.real, recursive=recursive)
    if not include_dirs:
        chosen = (entry for entry in chosen if entry.kind != "directory")
    if pattern is not None:
        chosen = (entry for entry in chosen if pattern.matches(_below(entry.path, place.relative)))
    first = _first(_with_states(walk, chosen), sort_by, limit + 1)
    return {
        "ok": True,
        "path": place.shown,
        "recursive": recursive,
        "entries": [_described(*found) for found in first[:limit]],
        "truncated": len(first) > limit,
        "unreadable": walk.skipped.unreadable,
    }


def clamp_results(max_results: int) -> int:
    return min(max(max_results, 1), MAX_RESULTS)


def _with_states(walk: Walk, entries: Iterable[Entry]) -> Iterator[_Found]:
    """Entries of a walk as they come, with their states; without those that are gone by then."""
    for entry in entries:
        state = walk.state(entry)
        if state is not None:
            yield entry, state


def _first(found: Iterator[_Found], sort_by: str, count: int) -> list[_Found]:
    if sort_by == "name":  # the order of the walk
        return list(itertools.islice(found, count))
    weight = _WEIGHTS[sort_by]
    return heapq.nlargest(count, found, key=lambda one: weight(one[1]))


def _below(path: str, start: str) -> str:
    return path if start == "." else path.removeprefix(start + "/")


def _described(entry: Entry, state: os.stat_result) -> dict[str, Any]:
    return {
        "name": readable(entry.name),
        "path": readable(entry.path),
        "type": entry.kind,
        "size": state.st_size if entry.kind == "file" else 0,
        "mtime_ns": state.st_mtime_ns,
    }
