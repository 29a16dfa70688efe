"""The files of a directory that anybody may have filled, read, deleted, and put into an empty one.

Directories are held open, and names in them are given with `dir_fd`: no link is followed, no FIFO waited for.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ksadk.skills.errors import SkillPackageError
from ksadk.skills.limits import MAX_DEPTH, MAX_EXPANDED_BYTES, MAX_MEMBERS, too_large

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags with which a directory is held."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TreeFile(NamedTuple):
    """A file: its path from the top, with slashes, its permissions, and its bytes."""

    path: str
    mode: int
    data: bytes

    def plain(self) -> TreeFile:
        """As it is kept: of its permissions only whether its owner may execute it."""
        return self._replace(mode=0o755 if self.mode & stat.S_IXUSR else 0o644)


class TreeDirectory(NamedTuple):
    """A directory: its path from the top, with slashes."""

    path: str


def walk(top: int, leave_out: Callable[[str], bool] = lambda _: False) -> Iterator[TreeFile | TreeDirectory]:
    """All that is below a held directory, in order; `leave_out` says of a name that it is no part of that.

    Raises `SkillPackageError` for what is neither file nor directory, and over the limits; and `OSError`.
    """
    yield from _walk(top, "", _Room(MAX_EXPANDED_BYTES), leave_out)


def read_file(held: int, name: str, limit: int) -> bytes:
    """The bytes of a file in a held directory. Raises `SkillPackageError` over a limit, and `OSError`."""
    return _read(held, name, name, _Room(limit)).data


class _Room:
    """How much may still come."""

    def __init__(self, size: int) -> None:
        self.members = MAX_MEMBERS
        self.bytes = self._limit = size

    def take(self, path: str, count: int = 0) -> None:
        self.members -= 1
        self.bytes -= count
        if self.members < 0 or self.bytes < 0:
            limit = f"{MAX_MEMBERS} files and directories" if self.members < 0 else f"{self._limit} bytes"
            raise too_large(f"with {path[:200]!r} it has more than {limit}")


def _walk(
    held: int, prefix: str, room: _Room, leave_out: Callable[[str], bool]
) -> Iterator[TreeFile | TreeDirectory]:
    with os.scandir(held) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        if leave_out(entry.name):
            continue
        path = prefix + entry.name
        if entry.is_symlink() or not (entry.is_dir() or entry.is_file()):
            what = "a symbolic link" if entry.is_symlink() else "neither a file nor a directory"
            raise SkillPackageError(
                f"{path[:200]!r} is {what}; a skill is files and directories only",
                code="unsafe_skill_package",
            )
        if entry.is_file():
            yield _read(held, entry.name, path, room)
            continue
        if path.count("/") + 2 > MAX_DEPTH:
            raise too_large(f"{path[:200]!r} is a directory at a depth of {MAX_DEPTH}")
        room.take(path)
        yield TreeDirectory(path)
        with below(held, entry.name) as inner:
            yield from _walk(inner, path + "/", room, leave_out)


def _read(held: int, name: str, path: str, room: _Room) -> TreeFile:
    descriptor = os.open(name, _READ, dir_fd=held)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise SkillPackageError(f"{path[:200]!r} is no file any more", code="unsafe_skill_package")
        room.take(path, state.st_size)
        data = _read_all(descriptor, state.st_size)
    finally:
        os.close(descriptor)
    if len(data) != state.st_size:
        raise SkillPackageError(f"{path[:200]!r} changes while it is read", code="skill_changing")
    return TreeFile(path, stat.S_IMODE(state.st_mode), data)


def _read_all(descriptor: int, size: int) -> bytes:
    """The bytes of an open file that is said to have `size`; one more where it has grown."""
    parts, left = [], size + 1
    while left > 0 and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def write(top: int, files: Iterable[TreeFile], directories: Iterable[str] = ()) -> None:
    """Put files, whose names were checked, into a held directory, and have all that outlive a crash.

    Nothing that is there is written to. Raises `OSError`.
    """
    made = {""}
    for file in files:
        above, _, name = file.path.rpartition("/")
        with _inside(top, above, made) as held:
            write_file(held, name, file.data, file.mode)
    for path in directories:
        with _inside(top, path, made):
            pass
    for path in made:
        with _inside(top, path, made) as held:
            os.fsync(held)


def write_file(held: int, name: str, data: bytes, mode: int) -> None:
    """Make a file in a held directory and have it on the disk. Raises `OSError`, also where it exists."""
    descriptor = os.open(name, _CREATE, 0o600, dir_fd=held)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def below(held: int, name: str) -> Iterator[int]:
    """Hold a directory in a held one. Raises `OSError`, also where a link is in its place."""
    descriptor = os.open(name, DIRECTORY, dir_fd=held)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _inside(top: int, path: str, made: set[str]) -> Iterator[int]:
    """Hold a directory below `top`; those on the way that are not in `made` are made, and added to it."""
    held = os.dup(top)
    try:
        here = ""
        for name in filter(None, path.split("/")):
            here = f"{here}/{name}" if here else name
            if here not in made:
                os.mkdir(name, 0o755, dir_fd=held)
                made.add(here)
            held, above = os.open(name, DIRECTORY, dir_fd=held), held
            os.close(above)
        yield held
    finally:
        os.close(held)


def remove(path: Path) -> None:
    """Delete a file, or a directory whatever the modes in it are, and however deep it is. What cannot be
    deleted stays."""
    with contextlib.suppress(OSError):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        else:
            _remove_tree(path)


def _remove_tree(top: Path) -> None:
    """Directories are brought up to `top` one after the other, so that no path and no stack becomes long."""
    brought_up = (top / f"{secrets.token_hex(8)}-{number}" for number in itertools.count())
    waiting, emptied = [top], []
    while waiting:
        directory = waiting.pop()
        emptied.append(directory)
        with contextlib.suppress(OSError):
            directory.chmod(0o700)
            for entry in list(os.scandir(directory)):
                with contextlib.suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        os.unlink(entry.path)  # noqa: PTH108  # a path of text
                        continue
                    place = Path(entry.path)
                    place.chmod(0o700)
                    waiting.append(place if directory == top else place.rename(next(brought_up)))
    for directory in reversed(emptied):  # between the renames it would take ten times as long
        with contextlib.suppress(OSError):
            directory.rmdir()
