"""What the current session has read of the workspace."""

from __future__ import annotations

import shutil
from pathlib import Path

from ksadk.runtime_context import get_current_account_id, get_current_session_id
from ksadk.sessions import check_session_dir, resolve_local_session_dir
from ksadk.toolsets.workspace import workspace_root
from ksadk.workspace.files import read_bytes
from ksadk.workspace.paths import Place, locate
from ksadk.workspace.read_state import Content, ReadStates, WorkspaceReadState
from ksadk.workspace.reading import stamp

__all__ = ["WorkspaceReadState", "clear_read_state", "get_read_state", "record_read_state"]


def record_read_state(
    path: Path | str, *, start_line: int = 1, end_line: int | None = None, total_lines: int | None = None
) -> WorkspaceReadState:
    """Record that a file, as it is now, is known to the session, so that it may be edited.

    path: relative to the workspace root, or absolute and inside it. Lines count from 1.
    """
    place = _place(path)
    data, state = read_bytes(place)
    return stamp(states(), place, Content(data), state, start_line, end_line, total_lines)


def get_read_state(path: Path | str) -> WorkspaceReadState | None:
    """What the session knows of a file, or None if it has not been read."""
    return states().get(_place(path))


def clear_read_state(session_id: str | None = None) -> None:
    """Forget what a session has read; without an id, what every session of the account has."""
    if session_id is not None:
        states(session_id).clear()
    else:
        shutil.rmtree(_directory(), ignore_errors=True)


def states(session_id: str | None = None) -> ReadStates:
    """The states of a session, the current one by default, kept where all its processes find them."""
    session = get_current_session_id() if session_id is None else session_id
    return ReadStates.of_session(_directory(), get_current_account_id(), session)


def _directory() -> Path:
    directory = resolve_local_session_dir() / "reads"
    check_session_dir(directory)
    return directory


def _place(path: Path | str) -> Place:
    return locate(workspace_root(), str(path))
