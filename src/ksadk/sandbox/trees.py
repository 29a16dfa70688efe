"""Files below a directory that something hostile may have filled: no link is followed, no FIFO waited for."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ksadk.sandbox.programs import system_program

MAX_DEPTH = 64
"""Directories inside each other that are entered."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Found(NamedTuple):
    """An entry: its path from the top, with slashes, its state, and the held directory that it is in, which
    is good until the walk goes on."""

    path: str
    state: os.stat_result
    parent: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.state.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.state.st_mode)

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.state.st_mode)

    def read(self, limit: int) -> bytes | None:
        """The bytes of a file, or None where it has more than `limit` or cannot be read."""
        return _read(self.parent, self.name, limit)


def walk(top: Path, enter: Callable[[str], bool]) -> Iterator[Found]:
    """Every entry below a directory, in order. A directory that `enter` does not want by its name, that is
    too deep, or that cannot be opened, is given, and what is in it is not. Raises `OSError` for the top."""
    stack: list[tuple[str, int, list[str]]] = []
    try:
        stack.append(_opened("", os.open(top, _DIRECTORY)))
        while stack:
            prefix, parent, names = stack[-1]
            if not names:
                os.close(stack.pop()[1])
                continue
            name = names.pop()
            try:
                state = os.stat(name, dir_fd=parent, follow_symlinks=False)
            except OSError:
                continue  # gone since
            found = Found(prefix + name, state, parent)
            yield found
            if found.is_directory and len(stack) < MAX_DEPTH and enter(name):
                try:
                    stack.append(_opened(found.path + "/", os.open(name, _DIRECTORY, dir_fd=parent)))
                except OSError:
                    continue
    finally:
        for _, parent, _ in stack:
            os.close(parent)


def read_beneath(top: Path, path: str, limit: int) -> tuple[bytes, os.stat_result] | None:
    """The bytes and the state of a file at a path from the top, or None where there is none, it has more
    than `limit` bytes, or a link or `..` is on the way."""
    *above, name = path.split("/")
    if ".." in above:
        return None
    held = os.open(top, _DIRECTORY)
    try:
        for part in above:
            deeper = os.open(part, _DIRECTORY, dir_fd=held)
            os.close(held)
            held = deeper
        data = _read(held, name, limit)
        return None if data is None else (data, os.stat(name, dir_fd=held, follow_symlinks=False))
    except OSError:
        return None
    finally:
        os.close(held)


def remove_tree(path: Path) -> None:
    """Delete a directory with all that is in it, however deep that is and whatever its modes are."""
    # Programs that are made for it: Python's own goes by recursion, which a hostile tree ends.
    for name, *flags in (("chmod", "-R", "u+rwX"), ("rm", "-rf")):
        command = [system_program(name), *flags, "--", str(path)]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def _opened(prefix: str, descriptor: int) -> tuple[str, int, list[str]]:
    try:
        return prefix, descriptor, sorted(os.listdir(descriptor), reverse=True)
    except OSError:
        os.close(descriptor)
        raise


def _read(parent: int, name: str, limit: int) -> bytes | None:
    try:
        descriptor = os.open(name, _FILE, dir_fd=parent)
    except OSError:
        return None
    with open(descriptor, "rb") as file:  # noqa: PTH123  # of a descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = file.read(limit + 1)
    return data if len(data) <= limit else None
