"""Which places no tool may change: those that decide what other programs run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Set
from pathlib import Path

from ksadk.project_files import CONFIG_NAMES
from ksadk.workspace.paths import (
    PRIVATE,
    Place,
    WorkspaceError,
    folded,
    is_in,
    own_directories,
    relative_to,
)

GIT = ".git"
"""A directory that tools may not change anything in, at any depth."""

_IN_ROOT = frozenset(CONFIG_NAMES)
"""Files that tools may not change in the root."""

_GIT_MARKS = ("HEAD", "commondir", "objects", "refs")

_MAX_LINKS = 40
"""In a chain of links; Linux follows no more."""


def is_protected(shown: str) -> bool:
    """Whether a path from the root is protected by its name, in any mix of capitals."""
    parts = folded(shown)
    return PRIVATE in parts or GIT in parts or parts[0] in _IN_ROOT


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
    raise _protected(name or place.shown, place)


def check_other_names(place: Place, state: os.stat_result) -> None:
    """Raise `protected_path` if another name (hard link) of a file is a protected one in the root, in `.git`
    there or in a directory above the file, or in one of the program's own directories. That of a nested
    repository is not looked for: the whole tree would have to be."""
    root = place.root
    tops = [*(root / name for name in _IN_ROOT), *(parent / GIT for parent in place.real.parents)]
    for path in (path for top in (*map(str, tops), *own_directories(root)) for path in _all_in(top)):
        try:
            other = os.lstat(path)
        except OSError:
            continue  # gone since
        if (other.st_dev, other.st_ino) == (state.st_dev, state.st_ino):
            raise _protected(f"{path}, which is the same file as {place.shown},", place)


def _all_in(top: str) -> Iterator[str]:
    """A path itself, and the files below it."""
    yield os.path.realpath(top)
    for directory, _, names in os.walk(top):
        yield from (_join(directory, name) for name in names)


def _protected(what: str, place: Place) -> WorkspaceError:
    return WorkspaceError(
        f"{what} is protected: it decides what other programs run", code="protected_path",
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
    for name in (*_IN_ROOT, GIT, PRIVATE):
        first = _join(str(root), name)
        if not os.path.islink(first):  # noqa: PTH114  # as in _join
            if is_in(str(path), first):
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
