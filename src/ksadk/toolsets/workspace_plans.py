"""What a call of a workspace tool would do, found out without doing it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ksadk.tools.registry import Plan
from ksadk.workspace import editing, writing
from ksadk.workspace.charsets import UTF8
from ksadk.workspace.diffs import unified
from ksadk.workspace.files import MAX_TEXT_BYTES, locked, read_bytes
from ksadk.workspace.left_overs import told
from ksadk.workspace.paths import Place, WorkspaceError
from ksadk.workspace.read_state import ReadStates
from ksadk.workspace.text import Change, Document

NOT_ATOMIC = "written through, not in one step: a crash may leave a mixture of old and new"


def write(root: Path, path: str, content: str, overwrite: bool, encoding: str | None, in_place: bool) -> Plan:
    """The plan of `write_workspace_file`; raises as the call would."""
    planned = writing.prepare(root, path, content, overwrite, encoding, in_place)
    diff = _diff(planned)
    verb = "Create" if planned.replaced is None else "Replace"
    summary = f"{verb} {planned.place.shown} ({len(planned.after):,} bytes)"
    details = [*_unseen(planned, diff), *_encoding(planned.encoding), *_not_atomic(planned.in_place)]
    return _plan(root, summary, [_touched(planned)], diff, details)


def write_all(root: Path, files: object, overwrite: bool) -> Plan:
    """The plan of `write_workspace_files`; raises as the call would."""
    planned = writing.prepare_all(root, files, overwrite)
    diffs = [_diff(item) for item in planned]
    made = sum(item.replaced is None for item in planned)
    summary = f"Write {len(planned)} files: {made} new, {len(planned) - made} replaced"
    details = [detail for item in zip(planned, diffs, strict=True) for detail in _unseen(*item)]
    return _plan(root, summary, map(_touched, planned), "".join(diffs), details)


def edit(
    root: Path,
    states: ReadStates,
    path: str,
    edits: Sequence[editing.Edit],
    how: editing.How,
    *,
    numbered: bool = False,
) -> Plan:
    """The plan of the two edit tools; raises as the call would.

    It waits for who is writing: between a file's replacement and its record the file would seem changed.
    """
    with told(root, path), locked(root):
        planned = editing.prepare(root, states, path, edits, how, numbered=numbered)
    count = planned.replacements
    summary = f"Edit {planned.place.shown}: {count} replacement{'s' * (count != 1)}"
    details = [("warning", planned.warning)] if planned.warning else []
    details += [*_encoding(planned.encoding), *_not_atomic(how.in_place)]
    return _plan(root, summary, [(planned.place, planned.before)], planned.diff, details)


def delete(root: Path, path: str) -> Plan:
    """The plan of `delete_workspace_file`; raises as the call would."""
    place, (kind, state, target) = writing.what_goes(root, path)
    content: bytes | None = None
    if kind == "file":
        summary = f"Delete the file {place.shown} ({state.st_size:,} bytes)"
        content = _content(place, state)
    elif kind == "symlink":
        summary = f"Delete the link {place.shown}, not what it leads to ({target})"
        content = target.encode("utf-8", "surrogateescape")
    else:
        summary = f"Delete the empty directory {place.shown}"
    return _plan(root, summary, [(place, content)], "", [("goes", place.shown), ("kind", kind)])


def _plan(
    root: Path,
    summary: str,
    touched: Iterable[tuple[Place, bytes | None]],
    diff: str,
    details: Iterable[tuple[str, str]],
) -> Plan:
    return Plan(
        summary=summary,
        where=f"workspace {root}",
        content_digest=_digest(root, touched),
        diff=diff,
        details=tuple(details),
    )


def _digest(root: Path, touched: Iterable[tuple[Place, bytes | None]]) -> str:
    """Over the root, and path and bytes (or absence) of each file, each with its length before it."""
    digest = hashlib.sha256()
    parts = [str(root).encode("utf-8", "surrogateescape")]
    for place, content in touched:
        parts += [
            str(place.real).encode("utf-8", "surrogateescape"),
            b"there" if content is not None else b"absent",
        ]
        parts.append(content or b"")
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _diff(planned: writing.Write) -> str:
    if max(len(planned.after), len(planned.before or b"")) > MAX_TEXT_BYTES:
        return ""
    try:
        before = Document.decode(planned.before or b"", planned.place.shown)
    except WorkspaceError:
        return ""
    after = Document.decode(planned.after, planned.place.shown, planned.encoding)
    return unified(before.text, Change.between(before.text, after.text), planned.place.shown)


def _unseen(planned: writing.Write, diff: str) -> list[tuple[str, str]]:
    """What the diff does not show."""
    shown = planned.place.shown
    if planned.replaced is not None and planned.before is None:
        return [("replaces", f"{shown}: a large file")]
    if planned.before and not diff and planned.before != planned.after:
        return [("replaces", f"{shown}: {len(planned.before):,} bytes that are not shown")]
    if planned.before == planned.after:
        return [("unchanged", shown)]
    return []


def _encoding(name: str) -> list[tuple[str, str]]:
    return [] if name == UTF8 else [("encoding", name)]


def _not_atomic(in_place: bool) -> list[tuple[str, str]]:
    return [("in place", NOT_ATOMIC)] if in_place else []


def _touched(planned: writing.Write) -> tuple[Place, bytes | None]:
    if planned.replaced is not None and planned.before is None:
        return planned.place, _content(planned.place, planned.replaced)
    return planned.place, planned.before


def _content(place: Place, state: os.stat_result) -> bytes:
    """The bytes of a file that would go; of one that is large or cannot be read, its state."""
    try:
        return read_bytes(place, writing.MAX_WRITE_BYTES)[0]
    except WorkspaceError:
        return f"{state.st_dev} {state.st_ino} {state.st_size} {state.st_mtime_ns}".encode()
