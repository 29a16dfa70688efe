"""What is in a workspace."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ksadk.workspace.globs import Glob
from ksadk.workspace.paths import WorkspaceError, locate, os_errors
from ksadk.workspace.tree import Entry, Walk

SAMPLED_FILES = 50
MAX_RESULTS = 5_000

_ORDERS: dict[str, Callable[[Entry], Any]] = {
    "name": lambda entry: entry.path,
    "mtime": lambda entry: (-entry.state.st_mtime_ns, entry.path),
    "size": lambda entry: (-entry.state.st_size, entry.path),
}
"""By name; the newest first; the largest first."""


def status(root: Path) -> dict[str, Any]:
    """The root and its first 50 files. Raises `permission_denied` if the root cannot be read."""
    walk = Walk(root)
    files = [
        {"path": readable(entry.path), "size": entry.state.st_size}
        for entry in itertools.islice(walk.files(root), SAMPLED_FILES)
    ]
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
        place.real.stat()
        if not place.real.is_dir():
            raise WorkspaceError(
                f"{place.shown} is a file, not a directory", code="not_a_directory",
                hint="read_workspace_file shows a file.", path=place.shown,
            )  # fmt: skip

    walk = Walk(root)

    def chosen() -> Iterator[Entry]:
        for entry in walk.entries(place.real, recursive=recursive):
            if not include_dirs and entry.kind == "directory":
                continue
            if pattern is None or pattern.matches(_below(entry.path, place.relative)):
                yield entry

    first = heapq.nsmallest(limit + 1, chosen(), key=_ORDERS[sort_by])
    return {
        "ok": True,
        "path": place.shown,
        "recursive": recursive,
        "entries": [_described(entry) for entry in first[:limit]],
        "truncated": len(first) > limit,
        "unreadable": walk.skipped.unreadable,
    }


def clamp_results(max_results: int) -> int:
    return min(max(max_results, 1), MAX_RESULTS)


def readable(path: str) -> str:
    """A path that can be shown and sent: bytes in a name that are not UTF-8 become U+FFFD."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _below(path: str, start: str) -> str:
    return path if start == "." else path.removeprefix(start + "/")


def _described(entry: Entry) -> dict[str, Any]:
    return {
        "name": readable(entry.name),
        "path": readable(entry.path),
        "type": entry.kind,
        "size": entry.state.st_size if entry.kind == "file" else 0,
        "mtime_ns": entry.state.st_mtime_ns,
    }
