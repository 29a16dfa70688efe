"""Reading and replacing whole files: regular ones only, and all or nothing."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ksadk.workspace.held import held, sync
from ksadk.workspace.paths import SEE_LIST, Place, WorkspaceError, check_writable_place, os_errors

MAX_TEXT_BYTES = 2 * 1024 * 1024
LOCK_SECONDS = 10.0

_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_bytes(place: Place, limit: int = MAX_TEXT_BYTES) -> tuple[bytes, os.stat_result]:
    """The bytes of a regular file and its state. A FIFO or device is not opened for more than a look.

    Raises `is_a_directory`, `not_a_regular_file`, `file_too_large`, and what the system says.
    """
    _check_not_root(place)
    with os_errors(place.shown), held(place.root, place.real.parent) as parent:
        descriptor = os.open(place.real.name, _LOOK, dir_fd=parent)
        try:
            state = os.fstat(descriptor)
            _check_regular(state, place.shown)
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1) if state.st_size <= limit else b""
        finally:
            os.close(descriptor)
    if state.st_size > limit or len(data) > limit:
        raise WorkspaceError(
            f"{place.shown} has {state.st_size:,} bytes; the limit is {limit:,}", code="file_too_large",
            hint="Search it, or read it with a command.", path=place.shown, size_bytes=state.st_size,
        )  # fmt: skip
    return data, state


def current_state(place: Place) -> os.stat_result | None:
    """The state of the regular file that a write would replace, or None where there is none.

    Raises if the place cannot be written: a protected path, a directory, a FIFO, a read-only file.
    """
    _check_not_root(place)
    check_writable_place(place)
    with os_errors(place.shown):
        try:
            state = place.real.lstat()
        except FileNotFoundError:
            return None
    _check_regular(state, place.shown)
    if not state.st_mode & 0o222 or not os.access(place.real, os.W_OK):
        raise WorkspaceError(
            f"{place.shown} is read-only", code="read_only_file",
            hint="Its owner can make it writable (chmod u+w).", path=place.shown,
        )  # fmt: skip
    return state


def check_parent(place: Place) -> None:
    """Raise `not_a_directory` where a file stands in the way of the directories that a write would make."""
    for parent in place.real.parents:
        if parent == place.root or parent.is_dir():
            break
        if parent.exists() or parent.is_symlink():
            raise WorkspaceError(
                f"{place.shown}: a part of the path is a file, not a directory", code="not_a_directory",
                hint=SEE_LIST, path=place.shown,
            )  # fmt: skip
    if place.real.parent.is_dir() and not os.access(place.real.parent, os.W_OK):
        raise WorkspaceError(f"{place.shown}: permission denied", code="permission_denied", path=place.shown)


def replace(
    place: Place,
    data: bytes,
    *,
    before: bytes | None = None,
    in_place: bool = False,
    create_only: bool = False,
) -> os.stat_result:
    """Write a file so that readers see the old bytes or the new ones, and a crash leaves one of the two.

    The mode, and where possible the owner and the extended attributes, are those of the file replaced.
    Directories that are missing are made. Returns the new file's state.
    """
    current_state(place)
    with os_errors(place.shown), held(place.root, place.real.parent, make=True) as parent:
        temporary = f".{secrets.token_hex(12)}.tmp"
        try:
            state = _write_new(parent, temporary, place.real.name, data)
            os.replace(temporary, place.real.name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:  # whatever ended it, nothing of it stays behind
            with suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise
        sync(parent)
    return state


def remove(place: Place) -> str:
    """Delete a file, a link (not what it leads to) or an empty directory; says which of them it was."""
    kind = removable(place)
    with os_errors(place.shown), held(place.root, place.entry.parent) as parent:
        if kind == "directory":
            os.rmdir(place.entry.name, dir_fd=parent)
        else:
            os.unlink(place.entry.name, dir_fd=parent)
        sync(parent)
    return kind


def removable(place: Place) -> str:
    """What `remove` would delete: `file`, `symlink` or `directory`. Raises as it would."""
    if place.is_root:
        raise WorkspaceError("the workspace root cannot be deleted", code="workspace_root", path=place.shown)
    check_writable_place(place)
    with os_errors(place.shown):
        mode = place.entry.lstat().st_mode
        if stat.S_ISLNK(mode):
            return "symlink"
        if not stat.S_ISDIR(mode):
            return "file"
        count = len(list(place.entry.iterdir()))
    if count:
        raise WorkspaceError(
            f"the directory {place.shown} is not empty ({count} entries)", code="directory_not_empty",
            hint="Delete what is in it first.", path=place.shown, entry_count=count,
        )  # fmt: skip
    return "directory"


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Let one writer at a time, of all threads and processes that use these tools, change a workspace."""
    with os_errors("."):
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise WorkspaceError(
                    f"another program has held the workspace for {LOCK_SECONDS:.0f} seconds",
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
        raise _directory_error("the workspace root", place.shown)


def _check_regular(state: os.stat_result, shown: str) -> None:
    if stat.S_ISDIR(state.st_mode):
        raise _directory_error(shown, shown)
    if not stat.S_ISREG(state.st_mode):
        raise WorkspaceError(f"{shown} is not a regular file", code="not_a_regular_file", path=shown)


def _directory_error(name: str, shown: str) -> WorkspaceError:
    return WorkspaceError(
        f"{name} is a directory, not a file", code="is_a_directory",
        hint="list_workspace_files shows what is in it.", path=shown,
    )  # fmt: skip


def _write_new(parent: int, temporary: str, name: str, data: bytes) -> os.stat_result:
    """Write a new file that shall take the place of `name` in a held directory, if that is there."""
    try:
        before = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        before = None
    # Never wider than the file replaced, whose mode the file system may not let us set.
    mode = 0o666 if before is None else before.st_mode & 0o777
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(temporary, flags, mode, dir_fd=parent), "wb") as file:  # noqa: PTH123  # of a descriptor
        file.write(data)
        file.flush()
        if before is not None:
            _copy_ownership(before, file.fileno())
            _copy_attributes(parent, name, file.fileno())
        os.fsync(file.fileno())
        return os.fstat(file.fileno())


def _copy_ownership(before: os.stat_result, descriptor: int) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(descriptor, before.st_uid, before.st_gid)
        except PermissionError:
            pass  # only root can give a file away; the writer owns it then
    try:
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
    except OSError:
        pass  # a file system without modes


def _copy_attributes(parent: int, name: str, descriptor: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    try:
        old = os.open(name, _LOOK, dir_fd=parent)
    except PermissionError:
        return  # a file that may be written but not read
    with open(old, "rb") as file:  # noqa: PTH123  # of a descriptor
        for attribute in _attributes(file.fileno()):
            try:
                os.setxattr(descriptor, attribute, os.getxattr(file.fileno(), attribute))
            except OSError:
                pass  # the security module's own attributes are not ours to set


def _attributes(descriptor: int) -> list[str]:
    try:
        return os.listxattr(descriptor)
    except OSError:
        return []  # a file system without attributes
