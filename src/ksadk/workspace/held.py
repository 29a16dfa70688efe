"""Directories that are reached name by name from the root and held open.

A path that was checked may be another one when it is used: somebody may have put a link in the place of a
directory. A held directory stays the one that it is, and names in it are given with `dir_fd`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_HOLD = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""With O_PATH a directory need not be readable to be passed through."""


@contextmanager
def held(root: Path, directory: Path, *, make: bool = False) -> Iterator[int]:
    """A descriptor of `directory`, which is `root` or in it; only good as the `dir_fd` of other calls.

    No link below the root is followed. With `make`, directories that are missing are made. Raises `OSError`.
    """
    descriptor = os.open(root, _HOLD)
    try:
        for name in directory.relative_to(root).parts:
            below = _below(descriptor, name, make)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def sync(directory: int) -> None:
    """Have what was done in a held directory outlive a crash, where the file system can promise that.

    It is done already: that a directory cannot be opened or synchronised makes it no failure.
    """
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _below(directory: int, name: str, make: bool) -> int:
    try:
        return os.open(name, _HOLD, dir_fd=directory)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another process was there first
        os.mkdir(name, dir_fd=directory)
    return os.open(name, _HOLD, dir_fd=directory)
