"""Directories that are reached name by name from the root and held open.

A path that was checked may be another one when it is used: somebody may have put a link in the place of a
directory. A held directory stays the one that it is, and names in it are given with `dir_fd`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HOLD = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for a directory, which with O_PATH need not be readable to be passed through."""

LOOK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags, beside one of access, for what may be anything: no link is followed, and no FIFO waited for."""

_PART = 1 << 16


@contextmanager
def held(root: Path, directory: Path, *, make: bool = False, as_far: bool = False) -> Iterator[int]:
    """A descriptor of `directory`, which is `root` or in it; only good as the `dir_fd` of other calls.

    No link below the root is followed. Directories that are missing are made with `make`; with `as_far` the
    last one that is there is held. Raises `OSError`.
    """
    descriptor = os.open(root, HOLD)
    try:
        for name in directory.relative_to(root).parts:
            try:
                below = _below(descriptor, name, make)
            except FileNotFoundError:
                if as_far:
                    break
                raise
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def state_of(directory: int, name: str) -> os.stat_result | None:
    """The state of an entry of a held directory, a link's own; None where there is none."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


@contextmanager
def opened(directory: int, name: str, access: int = os.O_RDONLY) -> Iterator[int]:
    """A descriptor of a file in a held directory; no link is followed, and no FIFO waited for."""
    descriptor = os.open(name, access | LOOK, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_up_to(descriptor: int, count: int) -> bytes:
    """The first `count` bytes of an open file, or all of fewer.

    All is asked for each time: what is not needed of that costs nothing, and the memory for it, which the C
    library keeps then, need not be got from the system again for each file.
    """
    parts, left = [], count
    while left > 0 and (part := os.read(descriptor, count)):
        parts.append(part)
        left -= len(part)
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    return data[:count]


def holds(directory: int, name: str, data: bytes) -> bool:
    """Whether an entry of a held directory is a regular file of just these bytes."""
    try:
        with opened(directory, name) as descriptor:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode) or state.st_size != len(data):
                return False
            done = 0
            while part := os.read(descriptor, _PART):  # small parts: memory for all at once is slow to get
                if not data.startswith(part, done):
                    return False
                done += len(part)
            return done == len(data)
    except OSError:
        return False


def may_write(directory: int, name: str) -> bool:
    """Whether the system would let this process write to an entry of a held directory."""
    effective = os.access in os.supports_effective_ids
    return os.access(name, os.W_OK, dir_fd=directory, effective_ids=effective, follow_symlinks=False)


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
        return os.open(name, HOLD, dir_fd=directory)
    except FileNotFoundError:
        if not make:
            raise
    try:
        os.mkdir(name, dir_fd=directory)
    except FileExistsError:
        pass  # another process was there first
    else:
        sync(directory)
    return os.open(name, HOLD, dir_fd=directory)
