"""Reading, replacing and deleting whole files: regular ones only, and all or nothing.

Whatever is looked at or changed here is reached through held directories; what a path was when it was located
is no more than a hint where to go.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ksadk.workspace.held import held, may_write, opened, read_up_to, state_of, sync
from ksadk.workspace.paths import (
    Place,
    WorkspaceError,
    already_exists,
    check_regular,
    directory_error,
    modified,
    os_errors,
)
from ksadk.workspace.protected import check_other_names, check_writable_place
from ksadk.workspace.swapping import put, write_through

MAX_TEXT_BYTES = 2 * 1024 * 1024
LOCK_SECONDS = 10.0


class Removable(NamedTuple):
    """A directory entry that can be deleted: `kind` is `file`, `symlink` or `directory`."""

    kind: str
    state: os.stat_result
    target: str = ""
    """What a link says that it leads to."""


def read_bytes(place: Place, limit: int = MAX_TEXT_BYTES) -> tuple[bytes, os.stat_result]:
    """The bytes of a regular file and its state. A FIFO, socket or device is not opened.

    Raises `is_a_directory`, `not_a_regular_file`, `file_too_large`, and what the system says.
    """
    _check_not_root(place)
    name = place.real.name
    with os_errors(place.shown), held(place.root, place.real.parent) as parent:
        check_regular(os.stat(name, dir_fd=parent, follow_symlinks=False), place.shown)
        with opened(parent, name) as descriptor:
            state = os.fstat(descriptor)
            check_regular(state, place.shown)
            data = read_up_to(descriptor, limit + 1) if state.st_size <= limit else b""
    if state.st_size > limit or len(data) > limit:
        raise WorkspaceError(
            f"{place.shown} has {state.st_size:,} bytes; the limit is {limit:,}", code="file_too_large",
            hint="Search it, or read it with a command.", path=place.shown, size_bytes=state.st_size,
        )  # fmt: skip
    return data, state


def current_state(place: Place, *, in_place: bool = False) -> os.stat_result | None:
    """The state of the regular file that a write would replace, or None where there is none.

    Raises if the place cannot be written: a protected path, a directory, a FIFO, a read-only file; and,
    unless it is to be written `in_place`, a file with several names (`hard_linked_file`).
    """
    _check_not_root(place)
    check_writable_place(place)
    try:
        with os_errors(place.shown), held(place.root, place.real.parent) as parent:
            return _replaceable(parent, place, in_place)
    except WorkspaceError as error:
        if error.code == "not_found":  # a directory on the way
            return None
        raise


def check_parent(place: Place) -> None:
    """Raise `not_a_directory` where a file stands in the way of the directories that a write would make, and
    `permission_denied` where nothing may be made."""
    with os_errors(place.shown), held(place.root, place.real.parent, as_far=True) as parent:
        if not may_write(parent, "."):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def replace(
    place: Place,
    data: bytes,
    *,
    before: bytes | None = None,
    in_place: bool = False,
    create_only: bool = False,
) -> os.stat_result:
    """Write a file so that readers see the old bytes or the new ones, and a crash leaves one of them whole.

    before: replace only a file that still has these bytes (`file_modified_since_read`), which is found out
    when it is replaced: another program's version is given its name back.
    create_only: replace nothing (`already_exists`).
    in_place: write through the file that is there, for all its hard links; a crash may leave a mixture.
    Without it a file with several is refused (`hard_linked_file`).

    The mode, and where possible the owner and the extended attributes, are those of the file replaced. Unless
    `before` is given, directories that are missing are made. Returns the new file's state.
    """
    _check_not_root(place)
    check_writable_place(place)
    make = before is None
    with os_errors(place.shown), held(place.root, place.real.parent, make=make) as parent:
        old = _replaceable(parent, place, in_place)
        if old is None and before is not None:
            raise modified(place)
        if old is not None and create_only:
            raise already_exists(place)
        if old is not None and in_place:
            return write_through(parent, place, data, before)
        return put(parent, place, data, old=old, before=before, create_only=create_only)


def remove(place: Place) -> str:
    """Delete a file, a link (not what it leads to) or an empty directory; says which of them it was."""
    with _deleting(place) as parent:
        kind = _removable(parent, place).kind
        if kind == "directory":
            os.rmdir(place.entry.name, dir_fd=parent)
        else:
            os.unlink(place.entry.name, dir_fd=parent)
        sync(parent)
    return kind


def removable(place: Place) -> Removable:
    """What `remove` would delete. Raises as it would."""
    with _deleting(place) as parent:
        return _removable(parent, place)


@contextmanager
def _deleting(place: Place) -> Iterator[int]:
    if place.is_root:
        raise WorkspaceError("the workspace root cannot be deleted", code="workspace_root", path=place.shown)
    check_writable_place(place)
    with os_errors(place.shown), held(place.root, place.entry.parent) as parent:
        yield parent


def _removable(parent: int, place: Place) -> Removable:
    state = os.stat(place.entry.name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISLNK(state.st_mode):
        return Removable("symlink", state, os.readlink(place.entry.name, dir_fd=parent))
    if not stat.S_ISDIR(state.st_mode):
        return Removable("file", state)
    with opened(parent, place.entry.name, os.O_RDONLY | os.O_DIRECTORY) as directory:
        count = len(os.listdir(directory))  # noqa: PTH208  # of a descriptor
    if count:
        raise WorkspaceError(
            f"the directory {place.shown} is not empty ({count} entries)", code="directory_not_empty",
            hint="Delete what is in it first.", path=place.shown, entry_count=count,
        )  # fmt: skip
    return Removable("directory", state)


@contextmanager
def locked(root: Path, seconds: float | None = None) -> Iterator[None]:
    """Let one writer at a time, of all threads and processes that use these tools, change a workspace.

    Waits for `LOCK_SECONDS`, or so many `seconds`; raises `workspace_busy`.
    """
    patience = LOCK_SECONDS if seconds is None else seconds
    with os_errors("."):
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + patience
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise WorkspaceError(
                    f"another program has held the workspace for {patience:.0f} seconds",
                    code="workspace_busy", hint="Try again.",
                )  # fmt: skip
            time.sleep(0.002)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_not_root(place: Place) -> None:
    if place.is_root:
        raise directory_error("the workspace root", place.shown)


def _replaceable(parent: int, place: Place, in_place: bool) -> os.stat_result | None:
    """The state of the file that may be replaced in a held directory, or None where there is none."""
    name = place.real.name
    state = state_of(parent, name)
    if state is None:
        return None
    check_regular(state, place.shown)
    if not state.st_mode & 0o222 or not may_write(parent, name):
        raise WorkspaceError(
            f"{place.shown} is read-only", code="read_only_file",
            hint="Its owner can make it writable (chmod u+w).", path=place.shown,
        )  # fmt: skip
    if state.st_nlink > 1 and not in_place:
        raise WorkspaceError(
            f"{place.shown} is one of {state.st_nlink} names (hard links) of a file; replacing it would"
            " part it from the others", code="hard_linked_file",
            hint="in_place writes into the file itself; a crash may then leave it half written.",
            path=place.shown, link_count=state.st_nlink,
        )  # fmt: skip
    if state.st_nlink > 1:
        check_other_names(place, state)
    return state
