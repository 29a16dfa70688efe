"""Writing whole files, and deleting."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksadk.workspace import charsets
from ksadk.workspace.files import (
    MAX_TEXT_BYTES,
    Removable,
    check_parent,
    current_state,
    locked,
    read_bytes,
    removable,
    remove,
    replace,
)
from ksadk.workspace.left_overs import reported, told
from ksadk.workspace.paths import Place, WorkspaceError, already_exists, locate
from ksadk.workspace.protected import check_written_together
from ksadk.workspace.read_state import Content, ReadStates
from ksadk.workspace.reading import stamp_written
from ksadk.workspace.text import encode

MAX_FILES = 100
MAX_WRITE_BYTES = MAX_TEXT_BYTES
"""No more than can be read back."""


@dataclass(frozen=True)
class Write:
    """A file to be written, checked: `replaced` and `before` are the state and the bytes of what it replaces;
    None where there is nothing, and no bytes of what is too large to compare."""

    place: Place
    replaced: os.stat_result | None
    before: bytes | None
    after: bytes
    encoding: str
    in_place: bool = False


def prepare(
    root: Path,
    path: str,
    content: str,
    overwrite: bool,
    encoding: str | None = None,
    in_place: bool = False,
) -> Write:
    """Find out what a write would do; nothing is written.

    Raises `already_exists`, `is_a_directory`, `not_a_directory`, `protected_path`, `read_only_file`,
    `hard_linked_file` unless it shall be written `in_place`, `invalid_text`, `unsupported_encoding`,
    `file_too_large`.
    """
    place = locate(root, path)
    charset = charsets.of_new_file(content, place.shown, encoding)
    data = charset.mark + encode(content, place.shown, charset.name)
    if len(data) > MAX_WRITE_BYTES:
        raise WorkspaceError(
            f"{place.shown} would have {len(data):,} bytes; the limit is {MAX_WRITE_BYTES:,}",
            code="file_too_large", path=place.shown, size_bytes=len(data),
        )  # fmt: skip
    state = current_state(place, in_place=in_place or not overwrite)
    if state is None:
        check_parent(place)
        return Write(place, None, None, data, charset.name)
    if not overwrite:
        raise already_exists(place)
    before = read_bytes(place, MAX_WRITE_BYTES)[0] if state.st_size <= MAX_WRITE_BYTES else None
    return Write(place, state, before, data, charset.name, in_place)


def prepare_all(root: Path, items: object, overwrite: bool) -> list[Write]:
    """`prepare` for each `{path, content}` of a list; also raises `invalid_files`, `too_many_files` and
    `duplicate_path`. Errors about one item carry `failed_file_index`."""
    writes: list[Write] = []
    for index, (path, content) in enumerate(paths_and_contents(items)):
        try:
            writes.append(prepare(root, path, content, overwrite))
        except WorkspaceError as error:
            error.details["failed_file_index"] = index
            raise
    _check_apart(writes)
    check_written_together(write.place for write in writes)
    return writes


def paths_and_contents(items: object) -> list[tuple[str, str]]:
    """The path and the content of each of the files that one call writes; raises `invalid_files` and
    `too_many_files`."""
    if not isinstance(items, (list, tuple)) or not items:
        raise WorkspaceError(
            "files must be a list with at least one file", code="invalid_files",
            hint='Each file is {"path": ..., "content": ...}.',
        )  # fmt: skip
    if len(items) > MAX_FILES:
        raise WorkspaceError(
            f"{len(items)} files were given; one call writes at most {MAX_FILES}", code="too_many_files",
            hint="Nothing was written. Split the call.", file_count=len(items), max_files=MAX_FILES,
        )  # fmt: skip
    files: list[tuple[str, str]] = []
    for index, item in enumerate(items):
        try:
            files.append(_path_and_content(item))
        except WorkspaceError as error:
            error.details["failed_file_index"] = index
            raise
    return files


def write_file(
    root: Path,
    states: ReadStates,
    path: str,
    content: str,
    overwrite: bool = True,
    encoding: str | None = None,
    in_place: bool = False,
) -> dict[str, Any]:
    """Write one file; the result of `write_workspace_file`."""
    with told(root, path), locked(root):
        write = prepare(root, path, content, overwrite, encoding, in_place)
        _commit(states, write)
    result = {
        "ok": True,
        "path": write.place.shown,
        "absolute_path": str(write.place.real),
        "encoding": write.encoding,
        "size": len(write.after),
        "created": write.replaced is None,
    }
    return reported([write.place], result | ({"atomic": False} if write.in_place else {}))


def write_files(root: Path, states: ReadStates, files: object, overwrite: bool = True) -> dict[str, Any]:
    """Write several files, all checked before the first is written. Should the disk fail in the middle, the
    error says in `written` what was done."""
    written: list[dict[str, Any]] = []
    result: dict[str, Any] = {"ok": True, "written": written, "truncated": False}
    with locked(root):
        writes = prepare_all(root, files, overwrite)
        for write in writes:
            try:
                _commit(states, write)
            except WorkspaceError as error:
                error.details["written"] = written
                raise
            written.append({"path": write.place.shown, "size": len(write.after)})
    return reported([write.place for write in writes], result)


def delete(root: Path, states: ReadStates, path: str) -> dict[str, Any]:
    """Delete a file, a link or an empty directory; the result of `delete_workspace_file`."""
    with locked(root):
        place = locate(root, path, follow=False)
        kind = remove(place)
        if kind == "file":
            states.forget(place)
    return {"ok": True, "deleted": place.shown, "type": kind}


def what_goes(root: Path, path: str) -> tuple[Place, Removable]:
    """What `delete` would remove, and where."""
    place = locate(root, path, follow=False)
    return place, removable(place)


def _commit(states: ReadStates, write: Write) -> None:
    state = replace(
        write.place, write.after, before=write.before, in_place=write.in_place,
        create_only=write.replaced is None,
    )  # fmt: skip
    stamp_written(states, write.place, Content(write.after), state)


def _path_and_content(item: object) -> tuple[str, str]:
    if not isinstance(item, Mapping):
        raise WorkspaceError("a file must be an object with path and content", code="invalid_files")
    path, content = item.get("path"), item.get("content")
    if not isinstance(path, str) or not isinstance(content, str) or item.keys() - {"path", "content"}:
        raise WorkspaceError(
            "a file has a path and a content, both text, and nothing else", code="invalid_files"
        )
    return path, content


def _check_apart(writes: Sequence[Write]) -> None:
    """No file may be given twice, nor a file where another one needs a directory."""
    places = {write.place.real for write in writes}
    if len(places) < len(writes):
        raise WorkspaceError("a path is given twice", code="duplicate_path")
    for write in writes:
        if not places.isdisjoint(write.place.real.parents):
            raise WorkspaceError(
                f"{write.place.shown} would be inside another of the files", code="not_a_directory",
                path=write.place.shown,
            )  # fmt: skip
