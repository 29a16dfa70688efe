"""The directories of a workspace one after the other, each reached name by name and held open.

Of those that were passed on the way the upper ones stay open, so that a neighbour is one step away.
"""

from __future__ import annotations

import os
from pathlib import Path

from ksadk.workspace.held import HOLD, LOOK

_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

MAX_HELD = 64
"""How many levels stay open; below them only the directory asked for last."""

Names = tuple[str, ...]
"""A path from the root, name by name; empty for the root."""


def names_of(path: str) -> Names:
    """The names of a path from the root, which is `.` itself."""
    return () if path == "." else tuple(path.split("/"))


class Directories:
    """Directories below a root, which are opened without following a link. A context manager."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._held = [os.open(root, HOLD)]
        self._deep: int | None = None
        self._names: Names = ()

    def __enter__(self) -> Directories:
        return self

    def __exit__(self, *error: object) -> None:
        self._leave(0)
        os.close(self._held.pop())

    def hold(self, names: Names) -> int:
        """A descriptor of a directory, good as the `dir_fd` of other calls until the next call of this.

        Raises `OSError`, also where a link stands in the way.
        """
        if names != self._names:
            self._go(names)
        return self._held[-1] if self._deep is None else self._deep

    def listing(self, names: Names) -> int:
        """A new descriptor of a directory, whose entries can be read. Raises `OSError`."""
        return os.open(".", _LIST, dir_fd=self.hold(names))

    def open(self, names: Names) -> int:
        """A new descriptor of a file to read, which is not waited for if it is a FIFO. Raises `OSError`."""
        return os.open(names[-1], os.O_RDONLY | LOOK, dir_fd=self.hold(names[:-1]))

    def _go(self, names: Names) -> None:
        if self._deep is not None and names[:-1] == self._names:
            self._take_deep(os.open(names[-1], HOLD, dir_fd=self._deep), names)
            return
        shared = 0
        for old, new in zip(self._names[:MAX_HELD], names, strict=False):
            if old != new:
                break
            shared += 1
        self._leave(shared)
        for name in names[shared:MAX_HELD]:
            self._held.append(os.open(name, HOLD, dir_fd=self._held[-1]))
            self._names = (*self._names, name)
        for depth in range(MAX_HELD, len(names)):
            above = self._held[-1] if self._deep is None else self._deep
            self._take_deep(os.open(names[depth], HOLD, dir_fd=above), names[: depth + 1])

    def _take_deep(self, descriptor: int, names: Names) -> None:
        if self._deep is not None:
            os.close(self._deep)
        self._deep, self._names = descriptor, names

    def _leave(self, depth: int) -> None:
        """Close what is deeper than `depth` names."""
        if self._deep is not None:
            os.close(self._deep)
            self._deep = None
        while len(self._held) > depth + 1:
            os.close(self._held.pop())
        self._names = self._names[: len(self._held) - 1]
