"""Where a workspace path leads, and which places no tool may even see."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ksadk.errors import KsadkError
from ksadk.sessions import STATE_DIR
from ksadk.settings import Settings

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4096

PRIVATE = STATE_DIR
"""A directory that tools may neither write nor read nor see, at any depth."""

_OF_SESSIONS = ("accounts", "reads", "tool-results")
"""What the directory of sessions holds beside the usual root."""


class WorkspaceError(KsadkError, ValueError):
    """A workspace operation that cannot be done; nothing was changed."""

    code = "workspace_error"


@dataclass(frozen=True)
class Place:
    """A path that was checked: `shown` is its name as the caller gave it, cleaned, relative to the root.

    `real` is where it leads once links are followed, and `entry` the directory entry itself (the parent's
    links followed, a link at the end not), which is what a deletion removes.
    """

    root: Path
    shown: str
    real: Path
    entry: Path

    @cached_property
    def relative(self) -> str:
        """The path of the file itself, relative to the root: one name per file, whatever link led there."""
        return relative_to(self.root, self.real)

    @property
    def is_root(self) -> bool:
        return self.real == self.root or self.entry == self.root


def locate(root: Path, path: str, *, follow: bool = True) -> Place:
    """Find where `path` leads inside `root`, which must be free of links (`Path.resolve()`).

    Without `follow`, a link at the end of the path is itself the place, wherever it leads.
    An absolute path that lies in the root means that file; otherwise a leading `/` means the root. A
    backslash is a slash. Raises `WorkspaceError`: `invalid_path`, `path_too_long`,
    `path_outside_workspace`; `protected_path` for a place that tools may not even read.
    """
    shown = _from_root(root, path)
    look = _Look(root)
    entry = _entry(look, root, shown)
    place = Place(root, shown, _inside(look, root, shown, str(root / shown)) if follow else entry, entry)
    if (
        is_private(shown)
        or is_private(place.relative)
        or any(
            is_in(path, directory)
            for directory in _own_directories(look, root)
            for path in {str(place.real), str(entry)}
        )
    ):
        raise WorkspaceError(
            f"{path} is private to the program, and closed to workspace tools", code="protected_path",
            path=shown,
        )  # fmt: skip
    return place


def clean(path: str) -> str:
    """`path` relative to the root, with slashes, and without `.` and inner `..`; the root itself is `.`."""
    if not isinstance(path, str):
        raise WorkspaceError("a path must be text", code="invalid_path")
    if "\0" in path:
        raise WorkspaceError("a path cannot contain a NUL character", code="invalid_path")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise WorkspaceError("a path cannot contain half of a surrogate pair", code="invalid_path") from None
    shown = posixpath.normpath(path.replace("\\", "/").lstrip("/") or ".")
    if shown == ".." or shown.startswith("../"):
        raise _outside(
            path, "its '..' leads out", "Give a path relative to the workspace root, without leading '..'."
        )
    if size > MAX_PATH_BYTES or any(len(part.encode()) > MAX_NAME_BYTES for part in shown.split("/")):
        raise WorkspaceError(
            f"the path is too long: a name may have {MAX_NAME_BYTES} bytes, a path {MAX_PATH_BYTES}",
            code="path_too_long", hint="Give a shorter one.",
        )  # fmt: skip
    return shown


def check_regular(state: os.stat_result, shown: str) -> None:
    """Raise `is_a_directory`, `not_a_regular_file`, or for a link, which did not lead on, `link_loop`."""
    if stat.S_ISLNK(state.st_mode):
        raise from_os_error(OSError(errno.ELOOP, os.strerror(errno.ELOOP)), shown)
    if stat.S_ISDIR(state.st_mode):
        raise directory_error(shown, shown)
    if not stat.S_ISREG(state.st_mode):
        raise WorkspaceError(f"{shown} is not a regular file", code="not_a_regular_file", path=shown)


def directory_error(name: str, shown: str) -> WorkspaceError:
    return WorkspaceError(
        f"{name} is a directory, not a file", code="is_a_directory",
        hint="list_workspace_files shows what is in it.", path=shown,
    )  # fmt: skip


def already_exists(place: Place) -> WorkspaceError:
    """The error about a file that may not be there yet."""
    return WorkspaceError(
        f"{place.shown} exists already", code="already_exists", hint="Set overwrite to replace it.",
        path=place.shown,
    )  # fmt: skip


def modified(place: Place) -> WorkspaceError:
    """The error about a file that is not what the caller knows of it."""
    return WorkspaceError(
        f"{place.shown} has changed since it was read", code="file_modified_since_read",
        hint="Read it again.", path=place.shown,
        suggested_action=f"Call read_workspace_file on {place.shown}, and edit what it holds now.",
    )  # fmt: skip


def closed_to_tools(root: Path) -> frozenset[str]:
    """The program's own directories in a workspace, by their paths from the root."""
    own = own_directories(root)
    return frozenset(relative_to(root, Path(path)) for path in own if is_in(path, str(root)))


def own_directories(root: Path) -> Iterator[str]:
    """The program's own directories, in a workspace and elsewhere, whether they are there or not."""
    return _own_directories(_Look(root), root)


def is_private(shown: str) -> bool:
    """Whether a path from the root is inside a directory that tools may not see."""
    return PRIVATE in folded(shown)


def is_in(path: str, directory: str) -> bool:
    """Whether an absolute path without links is that of a directory or of something in it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def folded(shown: str) -> tuple[str, ...]:
    """The names of a path from the root, without the difference between capitals and small letters."""
    return tuple(part.casefold() for part in shown.split("/"))


def relative_to(root: Path, path: Path) -> str:
    """`path` relative to `root`, with slashes."""
    return path.relative_to(root).as_posix()


@contextmanager
def os_errors(shown: str) -> Iterator[None]:
    """Turn what the system says into a `WorkspaceError` about `shown`."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, shown) from error


def from_os_error(error: OSError, shown: str) -> WorkspaceError:
    unknown = ("io_error", error.strerror or str(error), None)
    code, words, hint = _OS_ERRORS.get(error.errno or 0, unknown)
    details: dict[str, Any] = {"path": shown}
    return WorkspaceError(f"{shown}: {words}", code=code, hint=hint, **details)


SEE_LIST = "list_workspace_files shows what is there."
"""The hint of an error about a path that is not what the caller took it for."""

_OS_ERRORS: dict[int, tuple[str, str, str | None]] = {
    errno.ENOENT: ("not_found", "there is no such file or directory", SEE_LIST),
    errno.ENOTDIR: ("not_a_directory", "a part of the path is a file, not a directory", SEE_LIST),
    errno.EISDIR: ("is_a_directory", "this is a directory, not a file", SEE_LIST),
    errno.EEXIST: ("already_exists", "it exists already", SEE_LIST),
    errno.ENOTEMPTY: ("directory_not_empty", "the directory is not empty", "Delete what is in it first."),
    errno.EACCES: ("permission_denied", "permission denied", "Its owner can change its mode (chmod)."),
    errno.EPERM: ("permission_denied", "the operation is not permitted", None),
    errno.EROFS: ("permission_denied", "the file system is read-only", None),
    errno.ENAMETOOLONG: ("path_too_long", "the path is too long", "Give a shorter one."),
    errno.ELOOP: ("link_loop", "the symbolic links go round in a loop", "Delete one of the links."),
    errno.ENXIO: ("not_a_regular_file", "there is nothing behind this device or socket", None),
    errno.EFBIG: ("file_too_large", "the file would be larger than the system lets it be", None),
    errno.ENOSPC: ("no_space", "no space is left on the device", "Delete something, and try again."),
    errno.EDQUOT: ("no_space", "the disk quota is used up", "Delete something, and try again."),
}


def _from_root(root: Path, path: str) -> str:
    """A caller's path, cleaned and relative to the root."""
    shown = clean(path)
    if not path.startswith(("/", "\\")):
        return shown
    absolute = Path(posixpath.normpath("/" + path.replace("\\", "/").lstrip("/")))
    if absolute.is_relative_to(root):
        return relative_to(root, absolute)
    # The root, or a directory in it, under another name. A link at the end of the path is not followed:
    # it is an entry of its own.
    for directory in reversed(absolute.parents):
        real = Path(os.path.realpath(directory))
        if real.is_relative_to(root):
            return relative_to(root, real / absolute.relative_to(directory))
    if os.path.realpath(absolute) == str(root):
        return "."
    if os.path.lexists(absolute) and not os.path.lexists(root / shown):
        raise _outside(
            path, "it is an absolute path to another place", "Give a path relative to the workspace root."
        )
    return shown


class _Look:
    """Finds real paths, of several that begin alike, with one look at each name that is no link."""

    def __init__(self, root: Path) -> None:
        """`root` is free of links."""
        self._plain = {"/", str(root), *map(str, root.parents)}

    def real(self, path: str) -> str:
        """The same as `os.path.realpath`."""
        if not path.startswith("/") or "/../" in path or path.endswith("/.."):
            return os.path.realpath(path)
        end = 0
        while end < len(path):
            found = path.find("/", end + 1)
            end = len(path) if found < 0 else found
            if path[:end] not in self._plain:
                try:
                    is_link = stat.S_ISLNK(os.lstat(path[:end]).st_mode)
                except OSError:
                    break  # where nothing is, or nothing can be seen, no link is followed
                if is_link:
                    return os.path.realpath(path)
                self._plain.add(path[:end])
        return path


def _own_directories(look: _Look, root: Path) -> Iterator[str]:
    """Where this program keeps approvals, rules and sessions: closed to its tools in any workspace."""
    settings = Settings.from_env()
    yield look.real(str(root / PRIVATE))
    for directory in (str(settings.state_dir()), settings.config_dir_text()):
        yield look.real(directory)
        yield from map(os.path.realpath, _links_in(directory))
    if settings.ui_dir is not None:
        sessions = look.real(str(settings.ui_dir))
        if sessions == str(root):
            yield from (look.real(str(root / name)) for name in _OF_SESSIONS)
        elif not is_in(str(root), sessions):  # as the usual root is
            yield sessions


def _links_in(directory: str) -> list[str]:
    """Links among the program's own files, which may be kept somewhere else: in a collection, say."""
    try:
        with os.scandir(directory) as entries:
            return [entry.path for entry in entries if entry.is_symlink()]
    except OSError:
        return []


def _inside(look: _Look, root: Path, shown: str, path: str) -> Path:
    with os_errors(shown):
        real = look.real(path)
        if not is_in(real, str(root)):
            raise _outside(
                shown, f"{_link_out(root, shown)} is a link that leads outside",
                "Links are followed only to places inside the workspace.",
            )  # fmt: skip
    return Path(real)


def _link_out(root: Path, shown: str) -> str:
    """The first part of a path that leads outside, which is a link."""
    parts = shown.split("/")
    heads = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    out = (head for head in heads if not Path(os.path.realpath(root / head)).is_relative_to(root))
    return next(out, shown)


def _entry(look: _Look, root: Path, shown: str) -> Path:
    if shown == ".":
        return root
    parent, _, name = shown.rpartition("/")
    return _inside(look, root, shown, str(root / parent)) / name


def _outside(path: str, why: str, hint: str) -> WorkspaceError:
    return WorkspaceError(
        f"workspace path must stay inside the workspace root: {path}: {why}", code="path_outside_workspace",
        hint=hint, path=path,
    )  # fmt: skip
