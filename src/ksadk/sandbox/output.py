"""What a process prints, read as it comes: all is taken, the beginning and the end kept, in fixed memory."""

from __future__ import annotations

import codecs
import mmap
import os
import select
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ksadk.sandbox.passing import Passing, can_pass, enlarge

HEAD_BYTES = 1024 * 1024
TAIL_BYTES = 256 * 1024

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
        self.tail = tail
        self._head = head
        self._late = 0  # bytes after the head, and after what was skipped last
        # Pages of it exist from when they are written to, so a silent command costs none.
        self._memory = mmap.mmap(-1, head + tail)
        self._view = memoryview(self._memory)

    @property
    def full(self) -> bool:
        """Whether of what comes only the last `tail` bytes are kept."""
        return self.size >= self._head

    def space(self) -> memoryview:
        """Where the next bytes go."""
        if not self.full:
            return self._view[self.size : self._head]
        return self._view[self._head + self._late % self.tail :]

    def took(self, count: int) -> None:
        """So many bytes were put there."""
        if self.full:
            self._late += count
        self.size += count

    def skipped(self, count: int) -> None:
        """So many bytes came that are not the last ones, `full` as this is."""
        self.size += count
        self._late = 0

    @property
    def missing(self) -> int:
        """How many bytes in the middle are not kept."""
        return max(0, self.size - self._head - min(self._late, self.tail))

    def data(self) -> bytes:
        """What is kept; whole where nothing is missing."""
        return b"".join(self._parts())

    def _parts(self) -> tuple[memoryview, memoryview, memoryview]:
        """What is kept, as it is in memory: the head, and the two parts of the tail."""
        turn = self._head + (self._late % self.tail if self._late > self.tail else 0)
        end = self._head + min(self._late, self.tail)
        return self._view[: min(self.size, self._head)], self._view[turn:end], self._view[self._head : turn]

    def text(self) -> Text:
        """What is kept, as text. Where something is missing, a line in its place says so, and a last one."""
        first, *last = self._parts()
        if not self.missing:
            text, errors = decode(b"".join((first, *last)) if self._late else first)
            return Text(text, self.size, False, errors)
        head, head_errors = decode(_without_cut_end(first))
        tail, tail_errors = decode(_without_cut_start(b"".join(last)))
        gap = f"\n[... {self.missing} bytes left out ...]\n"
        end = f"\n[{self.size} bytes of output in all; {self.missing} in the middle are left out]\n"
        return Text("".join((head, gap, tail, end)), self.size, True, head_errors + tail_errors)

    def close(self) -> None:
        """Give the memory back."""
        self._view.release()
        self._memory.close()


Data = bytes | memoryview


def decode(data: Data) -> tuple[str, int]:
    """UTF-8 text, with U+FFFD for what is none, and the number of these."""
    text = codecs.decode(data, "utf-8", "replace")
    if _REPLACEMENT not in text:
        return text, 0
    return text, text.count(_REPLACEMENT) - bytes(data).count(_REPLACEMENT_BYTES)


def _without_cut_end(data: memoryview) -> memoryview:
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

    `observe` is given the number of the pipe, and what was read from it. At the limit `exceeded` becomes True
    and `at_limit` is called, once; reading goes on, so that nobody waits for it, and what comes is dropped.
    """

    def __init__(
        self,
        pipes: dict[int, Kept],
        limit: int,
        at_limit: Callable[[], None],
        observe: Callable[[int, bytes], None] | None = None,
    ) -> None:
        self.exceeded = False
        self._pipes = dict(pipes)
        self._limit = limit
        self._at_limit = at_limit
        self._taken = 0
        self._finished = False
        self._passing: dict[int, Passing] = {}
        self._observe = observe
        self._can_pass = observe is None and can_pass()  # who observes has to be given the bytes
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
        for pipe in pipes:
            enlarge(pipe, _PIPE_BYTES)
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
        try:
            while self._pipes:
                for pipe, _ in poll.poll():
                    if pipe == self._wake:
                        return
                    if not self._take(pipe):
                        poll.unregister(pipe)
                        del self._pipes[pipe]
        finally:
            for passing in self._passing.values():
                passing.close()

    def _take(self, pipe: int) -> bool:
        kept = self._pipes[pipe]
        if self.exceeded:
            return bool(os.read(pipe, _PIPE_BYTES))
        if kept.full and self._can_pass:
            if pipe not in self._passing:
                self._passing[pipe] = Passing(kept)
            count = self._passing[pipe].take(pipe)
        else:
            space = kept.space()
            count = os.readv(pipe, [space])
            kept.took(count)
            if count and self._observe is not None:
                self._observe(pipe, bytes(space[:count]))
        self._taken += count
        if self._taken > self._limit:
            self.exceeded = True
            self._at_limit()
        return count > 0
