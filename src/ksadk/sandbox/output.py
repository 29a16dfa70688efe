"""What a process prints, read as it comes: all is taken, the beginning and the end kept, in fixed memory."""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import threading
from collections.abc import Callable
from dataclasses import dataclass

HEAD_BYTES = 2 * 1024 * 1024
TAIL_BYTES = 2 * 1024 * 1024

_PIPE_BYTES = 1024 * 1024
_REPLACEMENT = "\ufffd"
_REPLACEMENT_BYTES = _REPLACEMENT.encode()


@dataclass(frozen=True)
class Text:
    """A stream as text. `size` is how many bytes there were; `errors` how many places were no UTF-8."""

    text: str
    size: int
    truncated: bool
    errors: int


class Kept:
    """The first `head` bytes of a stream and the last `tail`. Taking more costs no more memory, and no time
    that depends on how much there was."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self.size = 0
        self._head = head
        self._tail = tail
        # Pages of it exist from when they are written to, so a silent command costs none.
        self._memory = mmap.mmap(-1, head + tail)
        self._view = memoryview(self._memory)

    def space(self) -> memoryview:
        """Where the next bytes go."""
        if self.size < self._head:
            return self._view[self.size : self._head]
        return self._view[self._head + (self.size - self._head) % self._tail :]

    def took(self, count: int) -> None:
        """So many bytes were put there."""
        self.size += count

    @property
    def truncated(self) -> bool:
        return self.size > self._head + self._tail

    def data(self) -> bytes:
        """What is kept; whole unless `truncated`."""
        if not self.truncated:
            return bytes(self._view[: self.size])
        return b"".join(self._ends())

    def _ends(self) -> tuple[bytes, bytes]:
        turn = self._head + (self.size - self._head) % self._tail
        return bytes(self._view[: self._head]), b"".join((self._view[turn:], self._view[self._head : turn]))

    def text(self) -> Text:
        """What is kept, as text. Where something is missing, a line in its place says so, and a last one."""
        if not self.truncated:
            text, errors = decode(self.data())
            return Text(text, self.size, False, errors)
        first, last = self._ends()
        head, head_errors = decode(_without_cut_end(first))
        tail, tail_errors = decode(_without_cut_start(last))
        missing = self.size - self._head - self._tail
        gap = f"\n[... {missing} bytes left out ...]\n"
        end = f"\n[{self.size} bytes of output in all; {missing} in the middle are left out]\n"
        return Text(head + gap + tail + end, self.size, True, head_errors + tail_errors)

    def close(self) -> None:
        """Give the memory back."""
        self._view.release()
        self._memory.close()


def decode(data: bytes) -> tuple[str, int]:
    """UTF-8 text, with U+FFFD for what is none, and the number of these."""
    text = data.decode("utf-8", "replace")
    if _REPLACEMENT not in text:
        return text, 0
    return text, text.count(_REPLACEMENT) - data.count(_REPLACEMENT_BYTES)


def _without_cut_end(data: bytes) -> bytes:
    """The bytes without a character at their end whose rest was cut off."""
    for length in range(1, min(4, len(data) + 1)):
        byte = data[-length]
        if byte & 0xC0 == 0x80:
            continue  # the lead is before it
        needed = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return data[:-length] if needed > length else data
    return data


def _without_cut_start(data: bytes) -> bytes:
    """The bytes without the rest of a character whose lead was cut off."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


class Reader:
    """Reads pipes in a thread of its own, until they end, `stop` is called, or there was more than `limit`.

    At the limit `exceeded` becomes True and `at_limit` is called, once; reading goes on, so that nobody waits
    for it, and what comes is dropped.
    """

    def __init__(self, pipes: dict[int, Kept], limit: int, at_limit: Callable[[], None]) -> None:
        self.exceeded = False
        self._pipes = dict(pipes)
        self._limit = limit
        self._at_limit = at_limit
        self._taken = 0
        self._finished = False
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
        for pipe in pipes:
            _enlarge(pipe)
        self._thread = threading.Thread(target=self._run, name="ksadk-output", daemon=True)
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Wait for the end of the pipes, but no longer than that, and read no more."""
        if self._finished:
            return
        self._finished = True
        self._thread.join(seconds)
        os.close(self._waker)
        self._thread.join()
        os.close(self._wake)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        for pipe in self._pipes:
            poll.register(pipe, select.POLLIN)
        while self._pipes:
            for pipe, _ in poll.poll():
                if pipe == self._wake:
                    return
                if not self._take(pipe):
                    poll.unregister(pipe)
                    del self._pipes[pipe]

    def _take(self, pipe: int) -> bool:
        kept = self._pipes[pipe]
        if self.exceeded:
            return bool(os.read(pipe, _PIPE_BYTES))
        count = os.readv(pipe, [kept.space()])
        kept.took(count)
        self._taken += count
        if self._taken > self._limit:
            self.exceeded = True
            self._at_limit()
        return count > 0


def _enlarge(pipe: int) -> None:
    """Let a pipe hold more, so that writer and reader take turns less often; where the system lets us."""
    size: int | None = getattr(fcntl, "F_SETPIPE_SZ", None)
    if size is not None:
        try:
            fcntl.fcntl(pipe, size, _PIPE_BYTES)
        except OSError:
            pass  # as large as it was
