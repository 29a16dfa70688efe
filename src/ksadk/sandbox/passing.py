"""The latest bytes of a pipe, held in another pipe: they are moved there by the system, which copies none."""

from __future__ import annotations

import fcntl
import os
from typing import Protocol

_PASSING_BYTES = 1024 * 1024


class Tail(Protocol):
    """What keeps the last bytes of a stream."""

    tail: int

    def space(self) -> memoryview:
        """Where the next bytes go."""

    def took(self, count: int) -> None:
        """So many bytes were put there."""

    def skipped(self, count: int) -> None:
        """So many bytes came that are not the last ones."""


class Passing:
    """Takes a pipe's bytes on their way to what keeps the last ones. Linux only: see `can_pass`."""

    def __init__(self, kept: Tail) -> None:
        self._kept = kept
        self._held = 0
        self._out, self._into = os.pipe()
        self._nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        enlarge(self._out, _PASSING_BYTES)

    def take(self, pipe: int) -> int:
        """Take some bytes of a pipe that has some, or has ended; returns how many, 0 at its end."""
        while True:
            try:
                count = os.splice(pipe, self._into, _PASSING_BYTES, flags=os.SPLICE_F_NONBLOCK)
            except BlockingIOError:
                self._make_room()
            else:
                self._held += count
                return count

    def _make_room(self) -> None:
        """Of many bytes those that are not the last ones go. Few may fill a pipe too, in small pieces: they
        are copied to where they are kept."""
        surplus = self._held - self._kept.tail
        if surplus < self._kept.tail:
            self.drain()
            return
        self._held -= surplus
        self._kept.skipped(surplus)
        while surplus:
            surplus -= os.splice(self._out, self._nowhere, surplus)

    def drain(self) -> None:
        """Give what is held to what keeps it."""
        while self._held:
            count = os.readv(self._out, [self._kept.space()[: self._held]])
            self._kept.took(count)
            self._held -= count

    def close(self) -> None:
        """Give what is held, and close."""
        self.drain()
        for descriptor in (self._out, self._into, self._nowhere):
            os.close(descriptor)


def can_pass() -> bool:
    """Whether this system moves bytes from pipe to pipe."""
    return hasattr(os, "splice")


def enlarge(pipe: int, size: int) -> None:
    """Let a pipe hold more, so that writer and reader take turns less often; where the system lets us."""
    setting: int | None = getattr(fcntl, "F_SETPIPE_SZ", None)
    if setting is not None:
        try:
            fcntl.fcntl(pipe, setting, size)
        except OSError:
            pass  # as large as it was
