"""Where a workspace path leads, and which places no tool may touch."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ksadk.errors import KsadkError
from ksadk.settings import Settings

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4096

_MAX_LINKS = 40
"""In a chain of links; Linux follows no more."""

PRIVATE = ".agentengine"
"""A directory that tools may neither write nor read nor see, at any depth."""

_OF_SESSIONS = ("accounts", "reads", "tool-results")
"""What the directory of sessions holds beside the usual root."""

GIT = ".git"
PROTECTED_IN_ROOT = frozenset({"agentengine.yaml", "ksadk.yaml"})
"""Files that tools may not write; nor anything of git's: these places decide what other programs run."""


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
    entry = _entry(root, shown)
    place = Place(root, shown, _inside(root, shown, root / shown) if follow else entry, entry)
    own = [str(directory) for directory in own_directories(root)]
    if (
        is_private(shown)
        or is_private(place.relative)
        or any(_is_in(path, directory) for path in {str(place.real), str(entry)} for directory in own)
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


def check_writable_place(place: Place) -> None:
    """Raise `protected_path` if the path, or the file that it leads to, is one that tools may not change.

    Protected are the names of `is_protected`, what those in the root lead to where they are links, and what
    is in a directory of git under another name (a bare repository), or would make a directory one.
    """
    name = next(filter(is_protected, (place.shown, place.relative, relative_to(place.root, place.entry))), "")
    if not name and not any(
        _is_gits(path) or _is_led_to(place.root, path) for path in {place.real, place.entry}
    ):
        return
    raise WorkspaceError(
        f"{name or place.shown} is protected: it decides what other programs run", code="protected_path",
        hint="Change it yourself, in an editor, if you mean to.", path=place.shown,
    )  # fmt: skip


def check_written_together(places: Iterable[Place]) -> None:
    """Raise `protected_path` if files, none of which does so alone, would make a directory one of git's."""
    made = {str(path) for place in places for path in (place.real, *place.real.parents)}
    for path in made:
        directory, name = os.path.split(path)
        if name in _GIT_MARKS and _is_git_directory(directory, name, made):
            raise WorkspaceError(
                f"these files would make {directory} a directory of git, which decides what programs run",
                code="protected_path", hint="Write them yourself if you mean to.", path=directory,
            )  # fmt: skip


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


def modified(place: Place) -> WorkspaceError:
    """The error about a file that is not what the caller knows of it."""
    return WorkspaceError(
        f"{place.shown} has changed since it was read", code="file_modified_since_read",
        hint="Read it again.", path=place.shown,
        suggested_action=f"Call read_workspace_file on {place.shown}, and edit what it holds now.",
    )  # fmt: skip


def _links_in(directory: Path) -> list[Path]:
    """Links among the program's own files, which may be kept somewhere else: in a collection, say."""
    try:
        with os.scandir(directory) as entries:
            return [Path(entry.path) for entry in entries if entry.is_symlink()]
    except OSError:
        return []


def own_directories(root: Path) -> tuple[Path, ...]:
    """Where this program keeps approvals, rules and sessions: closed to its tools in any workspace."""
    settings = Settings.from_env()
    own = [settings.state_dir(), settings.config_dir(), root / PRIVATE]
    own += [link for directory in own[:2] for link in _links_in(directory)]
    if settings.ui_dir is not None:
        sessions = Path(os.path.realpath(settings.ui_dir))
        if sessions == root:
            own += [sessions / name for name in _OF_SESSIONS]
        elif not root.is_relative_to(sessions):  # as the usual root is
            own.append(sessions)
    return tuple(Path(os.path.realpath(path)) for path in own)


def is_protected(shown: str) -> bool:
    """Whether a path from the root is protected by its name, in any mix of capitals."""
    parts = _folded(shown)
    return PRIVATE in parts or GIT in parts or parts[0] in PROTECTED_IN_ROOT


def is_private(shown: str) -> bool:
    """Whether a path from the root is inside a directory that tools may not see."""
    return PRIVATE in _folded(shown)


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


def _inside(root: Path, shown: str, path: Path) -> Path:
    with os_errors(shown):
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(root):
            raise _outside(
                shown, f"{_link_out(root, shown)} is a link that leads outside",
                "Links are followed only to places inside the workspace.",
            )  # fmt: skip
    return real


def _link_out(root: Path, shown: str) -> str:
    """The first part of a path that leads outside, which is a link."""
    parts = shown.split("/")
    heads = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    out = (head for head in heads if not Path(os.path.realpath(root / head)).is_relative_to(root))
    return next(out, shown)


def _entry(root: Path, shown: str) -> Path:
    if shown == ".":
        return root
    parent, _, name = shown.rpartition("/")
    return _inside(root, shown, root / parent) / name


def _outside(path: str, why: str, hint: str) -> WorkspaceError:
    return WorkspaceError(
        f"workspace path must stay inside the workspace root: {path}: {why}", code="path_outside_workspace",
        hint=hint, path=path,
    )  # fmt: skip


_GIT_MARKS = ("HEAD", "commondir", "objects", "refs")


def _is_gits(path: Path) -> bool:
    """Whether a path is inside a directory of git, above the root too, or would complete one."""
    directory, *names = path.parts
    if any(name.casefold() == GIT for name in names):
        return True
    for name in names:
        if _is_git_directory(directory, name):
            return True
        directory = _join(directory, name)
    return False


def _is_git_directory(directory: str, name: str, made: Set[str] = frozenset()) -> bool:
    """Whether git takes a directory for one of its own once `name`, and what is in `made`, is in it.

    git looks for HEAD, objects and refs; the last two may be where a file commondir says.
    """

    def there(mark: str) -> bool:
        path = _join(directory, mark)
        return mark.casefold() == name.casefold() or path in made or os.path.lexists(path)

    return there("HEAD") and (there("commondir") or (there("objects") and there("refs")))


def _is_led_to(root: Path, path: Path) -> bool:
    """Whether a protected name in the root is a link that leads to a path, or by way of it."""
    for name in (*PROTECTED_IN_ROOT, GIT, PRIVATE):
        first = _join(str(root), name)
        if not os.path.islink(first):  # noqa: PTH114  # as in _join
            if _is_in(str(path), first):
                return True
            continue
        link = Path(first)
        for _ in range(_MAX_LINKS):
            if path == link:
                return True
            if not link.is_symlink():
                break
            target = link.parent / link.readlink()
            link = Path(os.path.realpath(target.parent)) / target.name
        if path.is_relative_to(os.path.realpath(first)):
            return True
    return False


def _join(directory: str, name: str) -> str:
    return os.path.join(directory, name)  # noqa: PTH118  # a Path for each takes many times as long


def _is_in(path: str, directory: str) -> bool:
    """Whether an absolute path without links is that of a directory or of something in it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _folded(shown: str) -> tuple[str, ...]:
    return tuple(part.casefold() for part in shown.split("/"))
