"""Walking a workspace: what is there, without following links and without what tools may not see."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ksadk.workspace.files import read_bytes
from ksadk.workspace.globs import IgnoreRule, read_ignore_file, verdict
from ksadk.workspace.paths import (
    GIT,
    Place,
    WorkspaceError,
    is_private,
    os_errors,
    own_directories,
    relative_to,
)

_IGNORE_FILES = (".ignore", ".gitignore")
_MAX_IGNORE_BYTES = 256 * 1024


@dataclass(frozen=True)
class Entry:
    """A directory entry: `path` is relative to the root, `state` is the entry's own (links not followed)."""

    path: str
    name: str
    state: os.stat_result

    @property
    def kind(self) -> str:
        """`file`, `directory`, `symlink` or `other`."""
        mode = self.state.st_mode
        if stat.S_ISREG(mode):
            return "file"
        if stat.S_ISDIR(mode):
            return "directory"
        return "symlink" if stat.S_ISLNK(mode) else "other"


@dataclass
class Skipped:
    """What a walk left out."""

    ignored: int = 0
    links: int = 0
    unreadable: int = 0


@dataclass(frozen=True)
class _Rules:
    """The rules of one directory's ignore files, the stronger file first."""

    depth: int
    files: tuple[tuple[IgnoreRule, ...], ...]


class _OutOfTime(Exception):
    """The deadline of a walk has passed."""


@dataclass
class Walk:
    """A walk over the files below a directory, in the order of their paths, name by name.

    ignoring: leave out what `.gitignore` and `.ignore` files between the root and the entry name. Git's own
    directory is always left out, unless the walk starts inside it.
    deadline: a reading of `time.monotonic()` at which the walk ends; `out_of_time` then says so.
    """

    root: Path
    ignoring: bool = False
    deadline: float = float("inf")
    skipped: Skipped = field(default_factory=Skipped)
    out_of_time: bool = False
    _closed: frozenset[str] = frozenset()

    def files(self, start: Path) -> Iterator[Entry]:
        """The regular files below `start`."""
        for entry in self.entries(start, recursive=True):
            if entry.kind == "file":
                yield entry

    def entries(self, start: Path, *, recursive: bool) -> Iterator[Entry]:
        """What is in `start`, and with `recursive` below it too; a directory comes before its entries.

        Raises as the system says where `start` cannot be read. Directories below it that cannot are counted.
        """
        try:
            yield from self._entries(start, recursive)
        except _OutOfTime:
            self.out_of_time = True

    def _entries(self, start: Path, recursive: bool) -> Iterator[Entry]:
        shown = relative_to(self.root, start)
        self._closed = frozenset(
            relative_to(self.root, path)
            for path in own_directories(self.root)
            if path.is_relative_to(self.root)
        )
        # A stack of our own: a hostile tree is deeper than the interpreter's.
        with os_errors(shown):
            stack = [self._inside(start, "" if shown == "." else shown, self._rules_above(start))]
        while stack:
            rules, entries = stack[-1]
            entry = next(entries, None)
            if entry is None:
                stack.pop()
                continue
            self._check_time()
            is_directory = entry.kind == "directory"
            if rules and self._ignored(rules, entry.path, is_directory):
                self.skipped.ignored += 1
                continue
            if entry.kind == "symlink":
                self.skipped.links += 1
            yield entry
            if recursive and is_directory and entry.name != GIT:
                try:
                    stack.append(self._inside(self.root / entry.path, entry.path, rules))
                except OSError:
                    self.skipped.unreadable += 1

    def _check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise _OutOfTime

    def _inside(
        self, directory: Path, prefix: str, rules: tuple[_Rules, ...]
    ) -> tuple[tuple[_Rules, ...], Iterator[Entry]]:
        """The rules that hold in a directory, and its entries."""
        if self.ignoring:
            rules = self._with_rules_of(directory, prefix, rules)
        return rules, iter(self._scan(directory, prefix))

    def _scan(self, directory: Path, prefix: str) -> list[Entry]:
        found: list[Entry] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                self._check_time()
                path = f"{prefix}/{entry.name}" if prefix else entry.name
                if not is_private(entry.name) and path not in self._closed:
                    try:
                        found.append(Entry(path, entry.name, entry.stat(follow_symlinks=False)))
                    except FileNotFoundError:
                        pass  # deleted since
        return sorted(found, key=lambda entry: entry.name)

    def _rules_above(self, start: Path) -> tuple[_Rules, ...]:
        if not self.ignoring or start == self.root:
            return ()
        rules: tuple[_Rules, ...] = ()
        for directory in reversed([parent for parent in start.parents if parent.is_relative_to(self.root)]):
            shown = relative_to(self.root, directory)
            rules = self._with_rules_of(directory, "" if shown == "." else shown, rules)
        return rules

    def _with_rules_of(self, directory: Path, prefix: str, rules: tuple[_Rules, ...]) -> tuple[_Rules, ...]:
        files = tuple(filter(None, (self._read_rules(directory / name) for name in _IGNORE_FILES)))
        depth = prefix.count("/") + 1 if prefix else 0
        return (*rules, _Rules(depth, files)) if files else rules

    def _ignored(self, rules: tuple[_Rules, ...], path: str, is_directory: bool) -> bool:
        names = path.split("/")
        for nearest in reversed(rules):
            for file_rules in nearest.files:
                said = verdict(file_rules, names[nearest.depth :], is_directory, self._check_time)
                if said is not None:
                    return said
        return False

    def _read_rules(self, path: Path) -> tuple[IgnoreRule, ...]:
        self._check_time()
        try:
            data, _ = read_bytes(Place(path.parent, path.name, path, path), _MAX_IGNORE_BYTES)
        except WorkspaceError:
            return ()
        return read_ignore_file(data.decode("utf-8", "surrogateescape").removeprefix("\ufeff"))
