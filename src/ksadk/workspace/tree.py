"""Walking a workspace: what is there, without following links and without what tools may not see."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Literal, NamedTuple

from ksadk.workspace.directories import Directories, Names, names_of
from ksadk.workspace.ignores import MAX_IGNORE_BYTES, RuleFile, Scope
from ksadk.workspace.paths import closed_to_tools, is_private, os_errors, relative_to
from ksadk.workspace.protected import GIT

Kind = Literal["file", "directory", "symlink", "other"]

_LONGEST_PATH = 4_093
"""In bytes. ripgrep names files by their paths, and no system call takes a longer one after `./`."""


class Entry(NamedTuple):
    """A directory entry: `path` is relative to the root; of a link, `kind` is the link's."""

    path: str
    name: str
    kind: Kind


_PATH = itemgetter(0)
_AT_ONCE = 1_000
"""Entries of a directory between two looks at the clock."""


@dataclass
class Skipped:
    """What a walk left out."""

    ignored: int = 0
    links: int = 0
    unreadable: int = 0


class OutOfTime(Exception):
    """The deadline has passed."""


def checking(deadline: float) -> Callable[[], None]:
    """A call that raises `OutOfTime` once `time.monotonic()` is past the deadline."""

    def check() -> None:
        if time.monotonic() > deadline:
            raise OutOfTime

    return check


@dataclass
class Walk:
    """A walk over the entries below a directory, in the order of their paths, name by name.

    ignoring: leave out what ignore files between the root and the entry name, and git's own directories.
    deadline: a reading of `time.monotonic()` at which the walk ends; `out_of_time` then says so.
    """

    root: Path
    ignoring: bool = False
    deadline: float = float("inf")
    skipped: Skipped = field(default_factory=Skipped)
    out_of_time: bool = False
    _directories: Directories | None = None
    _at: Names = ()

    def files(self, start: Path) -> Iterator[Entry]:
        """The regular files below `start`."""
        for entry in self.entries(start, recursive=True):
            if entry.kind == "file":
                yield entry

    def entries(self, start: Path, *, recursive: bool) -> Iterator[Entry]:
        """What is in `start`, and with `recursive` below it too; a directory comes before its entries.

        Git's own directory is never entered, unless the walk starts there. Raises as the system says where
        `start` cannot be read. Directories below it that cannot are counted.
        """
        shown = relative_to(self.root, start)
        with os_errors(shown):
            self._directories = Directories(self.root)
        try:
            with self._directories:
                yield from _Walking(self, self._directories, names_of(shown), recursive).entries()
        except OutOfTime:
            self.out_of_time = True

    def state(self, entry: Entry) -> os.stat_result | None:
        """The state of the entry that the walk gave last, no link followed; None if it is gone."""
        assert self._directories is not None
        try:
            above = self._directories.hold(self._at)
            return os.stat(entry.name, dir_fd=above, follow_symlinks=False)
        except OSError:
            return None

    def may_read(self, entry: Entry) -> bool:
        """Whether the file that the walk gave last can be read."""
        assert self._directories is not None
        try:
            return os.access(entry.name, os.R_OK, dir_fd=self._directories.hold(self._at))
        except OSError:
            return False


class _Walking:
    """One walk as it goes."""

    def __init__(self, walk: Walk, directories: Directories, start: Names, recursive: bool) -> None:
        self._walk = walk
        self._directories = directories
        self._start = start
        self._recursive = recursive
        self._check = checking(walk.deadline)
        self._closed = closed_to_tools(walk.root)

    def entries(self) -> Iterator[Entry]:
        walk = self._walk
        with os_errors("/".join(self._start) or "."):
            above = scope_above(self._directories, self._start, self._check) if walk.ignoring else Scope()
            top = self._inside(self._start, above)
        # A stack of our own: a hostile tree is deeper than the interpreter's.
        stack = [top]
        while stack:
            names, scope, left = stack[-1]
            entry = next(left, None)
            if entry is None:
                stack.pop()
                continue
            is_directory = entry.kind == "directory"
            if scope and scope.ignores((*names, entry.name), is_directory, self._check):
                walk.skipped.ignored += 1
                continue
            if walk.ignoring and _is_too_long(entry.path):
                walk.skipped.unreadable += 1
                continue
            walk.skipped.links += entry.kind == "symlink"
            walk._at = names
            yield entry
            if self._recursive and is_directory and entry.name != GIT:
                try:
                    stack.append(self._inside((*names, entry.name), scope))
                except OSError:
                    walk.skipped.unreadable += 1

    def _inside(self, names: Names, scope: Scope) -> tuple[Names, Scope, Iterator[Entry]]:
        """A directory, the ignore files that hold in it, and its entries. Raises `OSError`."""
        entries = self._scan(names)
        if self._walk.ignoring:
            scope = scope_inside(self._directories, names, scope, self._check)
        return names, scope, iter(entries)

    def _scan(self, names: Names) -> list[Entry]:
        prefix = "".join(f"{name}/" for name in names)
        found: list[Entry] = []
        descriptor = self._directories.listing(names)
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    name = entry.name
                    path = prefix + name
                    if path in self._closed or (name[0] == "." and self._hidden(name)):
                        continue
                    found.append(Entry(path, name, _kind(entry)))
                    if not len(found) % _AT_ONCE:
                        self._check()
        finally:
            os.close(descriptor)
        self._check()
        plain = "".join(map(_PATH, found)).isascii()  # then characters are in the order of bytes
        return sorted(found, key=_PATH if plain else lambda entry: os.fsencode(entry.name))

    def _hidden(self, name: str) -> bool:
        return is_private(name) or (self._walk.ignoring and name == GIT)


class Sieve:
    """Tells, of paths from the root in any order, which ones an ignoring walk from `start` would come to."""

    def __init__(self, root: Path, directories: Directories, start: Names, check: Callable[[], None]) -> None:
        self._directories = directories
        self._check = check
        self._closed = closed_to_tools(root)
        self._scopes: dict[Names, Scope | None] = {}
        """Of each directory that was asked about; None for those that the walk would not enter."""
        self._scopes[start] = self._entered(start, scope_above(directories, start, check))

    def admits(self, names: Names) -> bool:
        """Whether the walk would come to a file."""
        scope = self._scope(names[:-1])
        return scope is not None and self._visible(scope, names, False) and not _is_too_long("/".join(names))

    def _scope(self, names: Names) -> Scope | None:
        known = len(names)
        while names[:known] not in self._scopes:
            known -= 1
        scope = self._scopes[names[:known]]
        for depth in range(known + 1, len(names) + 1):
            here = names[:depth]
            if scope is not None:
                scope = self._entered(here, scope) if self._visible(scope, here, True) else None
            self._scopes[here] = scope
        return scope

    def _entered(self, names: Names, above: Scope) -> Scope | None:
        try:
            return scope_inside(self._directories, names, above, self._check)
        except OSError:
            return None  # gone since, or a link by now

    def _visible(self, scope: Scope, names: Names, is_directory: bool) -> bool:
        self._check()
        name = names[-1]
        if is_private(name) or name == GIT or (self._closed and "/".join(names) in self._closed):
            return False
        return not (scope and scope.ignores(names, is_directory, self._check))


def scope_above(directories: Directories, start: Names, check: Callable[[], None]) -> Scope:
    """The ignore files of the directories above a start. Raises `OSError`."""
    scope = Scope()
    for depth in range(len(start)):
        scope = scope_inside(directories, start[:depth], scope, check)
    return scope


def scope_inside(directories: Directories, names: Names, above: Scope, check: Callable[[], None]) -> Scope:
    """The ignore files that hold in a directory, given those above it. Raises `OSError`."""
    directories.hold(names)

    def read(name: str) -> RuleFile | None:
        check()
        data = _ignore_file(directories, (*names, name))
        return RuleFile.read(data, check) if data else None

    return above.inside(len(names), read)


def _ignore_file(directories: Directories, names: Names) -> bytes:
    """What an ignore file holds, or the file in the root that a link of its name leads to."""
    try:
        try:
            descriptor = directories.open(names)
        except OSError as error:
            if error.errno != errno.ELOOP:
                return b""
            real = Path(os.path.realpath(directories.root.joinpath(*names)))
            if not real.is_relative_to(directories.root):
                return b""
            descriptor = directories.open(real.relative_to(directories.root).parts)
        with open(descriptor, "rb") as file:  # noqa: PTH123  # of a descriptor
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return file.read(MAX_IGNORE_BYTES) if regular else b""
    except OSError:
        return b""


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "symlink" if entry.is_symlink() else "other"


def _is_too_long(path: str) -> bool:
    return len(path) > _LONGEST_PATH // 4 and len(os.fsencode(path)) > _LONGEST_PATH
