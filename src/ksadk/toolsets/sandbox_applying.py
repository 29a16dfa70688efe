"""Taking over what commands changed in a copy of the workspace: shown, checked, and written by its engine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ksadk.sandbox.changes import Changes, FileChange
from ksadk.tools.registry import Plan, Target
from ksadk.toolsets.sandbox_runs import Where, changed_in_sandbox
from ksadk.workspace.diffs import unified
from ksadk.workspace.files import check_parent, current_state, locked, read_bytes, remove, replace
from ksadk.workspace.held import held, opened
from ksadk.workspace.paths import Place, WorkspaceError, locate, modified
from ksadk.workspace.protected import check_written_together
from ksadk.workspace.text import Change, Document


class _Taken(NamedTuple):
    """What can be taken over, each with its place in the workspace, and what cannot."""

    where: Where
    sandbox_id: str
    files: list[tuple[Place, FileChange]]
    left_out: list[tuple[str, str]]


def show() -> dict[str, Any]:
    """The result of `sandbox_changes`."""
    taken = _taken(None)
    return {
        "ok": True,
        "sandbox_id": taken.sandbox_id,
        "changes": [_told(change) for _, change in taken.files],
        "left_out": _reasons(taken.left_out),
        "diff": _diff(change for _, change in taken.files),
    }


def plan(paths: Sequence[str] | None) -> Plan:
    """What `apply_sandbox_changes` would do; raises as it would."""
    taken = _taken(paths)
    _check(taken)
    count = len(taken.files)
    return Plan(
        summary=f"Take over {count} changed file{'s' * (count != 1)} from {taken.where.name}",
        where=f"workspace {taken.where.root}",
        content_digest=_digest(taken),
        diff=_diff(change for _, change in taken.files),
        details=tuple(("left out", f"{path} {why}") for path, why in taken.left_out),
    )


def targets(paths: Sequence[str] | None) -> dict[str, Target]:
    """The files that it acts on, for rules about paths."""
    taken = _taken(paths)
    items = tuple((place.shown, place.relative) for place, _ in taken.files)
    return {"path": Target("path", items, str(taken.where.root))}


def apply(paths: Sequence[str] | None) -> dict[str, Any]:
    """The result of `apply_sandbox_changes`. All is checked before the first file is written; should the
    disk fail in the middle, the error says in `applied` what was done."""
    taken = _taken(paths)
    applied: list[dict[str, Any]] = []
    with locked(taken.where.root):
        _check(taken)
        for place, change in taken.files:
            try:
                _commit(place, change)
            except WorkspaceError as error:
                error.details["applied"] = applied
                raise
            applied.append(_told(change))
    return {
        "ok": True,
        "sandbox_id": taken.sandbox_id,
        "applied": applied,
        "left_out": _reasons(taken.left_out),
    }


def _taken(paths: Sequence[str] | None) -> _Taken:
    where, sandbox_id, changes = changed_in_sandbox()
    if paths is not None:
        changes = _only(changes, paths)
    files = []
    left_out = list(changes.left_out)
    for change in changes.files:
        try:
            files.append((locate(where.root, change.path), change))
            current_state(files[-1][0], in_place=True)
        except WorkspaceError as error:
            if error.code not in ("protected_path", "path_outside_workspace", "invalid_path"):
                raise
            files = [item for item in files if item[1] is not change]
            left_out.append((change.path, error.message))
    return _Taken(where, sandbox_id, files, sorted(left_out))


def _only(changes: Changes, paths: Sequence[str]) -> Changes:
    unknown = set(paths) - {change.path for change in changes.files}
    if unknown:
        raise WorkspaceError(
            f"{', '.join(sorted(unknown))}: nothing has changed there that can be taken over",
            code="not_found",
        )
    return changes.only(paths)


def _check(taken: _Taken) -> None:
    """Raise what would keep one of the files from being written as it is shown."""
    stale = [change.path for _, change in taken.files if change.stale]
    if stale:
        raise WorkspaceError(
            f"{', '.join(stale)}: changed in the workspace too, since the sandbox was started",
            code="file_modified_since_read",
            hint="Take over the other files by naming them, or run the command again.",
            paths=stale,
        )
    for place, change in taken.files:
        state = current_state(place)
        if (state is None) != (change.before is None):
            raise modified(place)
        if state is None:
            check_parent(place)
    check_written_together(place for place, change in taken.files if change.after is not None)


def _commit(place: Place, change: FileChange) -> None:
    if change.after is None:
        if read_bytes(place)[0] != change.before:
            raise modified(place)
        remove(place)
    elif change.before is None:
        replace(place, change.after, create_only=True)
        if change.executable:
            with held(place.root, place.real.parent) as parent, opened(parent, place.real.name) as file:
                os.fchmod(file, os.fstat(file).st_mode | 0o111)
    else:
        replace(place, change.after, before=change.before)


def _told(change: FileChange) -> dict[str, Any]:
    kind = "new" if change.before is None else "deleted" if change.after is None else "changed"
    return {"path": change.path, "change": kind, "stale": change.stale}


def _reasons(left_out: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"path": path, "reason": why} for path, why in left_out]


def _diff(changes: Iterable[FileChange]) -> str:
    return "".join(map(_diff_of, changes))


def _diff_of(change: FileChange) -> str:
    before, after = change.before or b"", change.after or b""
    try:
        old = Document.decode(before, change.path)
        new = Document.decode(after, change.path, old.encoding if before else None)
    except WorkspaceError:
        return f"Binary file {change.path}: {len(before):,} bytes become {len(after):,}\n"
    text = unified(old.text, Change.between(old.text, new.text), change.path)
    if text:
        return text
    words = "An empty file" if not (before or after) else "Bytes that are not shown of the file"
    return f"{words} {change.path}: {_told(change)['change']}\n"


def _digest(taken: _Taken) -> str:
    """Over the root, and of each file its path, and what it was and becomes, or that it is absent."""
    digest = hashlib.sha256()
    parts = [os.fsencode(taken.where.root)]
    for place, change in taken.files:
        parts.append(os.fsencode(place.real))
        for content in (change.before, change.after):
            parts += [b"there" if content is not None else b"absent", content or b""]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
