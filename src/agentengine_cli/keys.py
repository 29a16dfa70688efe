"""Single keys and lines from the terminal that a person sits at."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_WAIT = 3600.0
END_OF_INPUT = "\x04"


class KeyReader:
    """Reads single keys from the terminal, and leaves it as it was, also when the program is ended or
    stopped and continued. What was typed before the question is thrown away."""

    def __enter__(self) -> KeyReader:
        self._fd = sys.stdin.fileno()
        self._saved = termios.tcgetattr(self._fd)
        self._handlers = {
            signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)),
            signal.SIGCONT: signal.signal(signal.SIGCONT, lambda *_: self._take()),
        }
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._give_back()

    def _take(self) -> None:
        tty.setcbreak(self._fd, termios.TCSANOW)

    def _give_back(self) -> None:
        termios.tcsetattr(self._fd, termios.TCSANOW, self._saved)

    def read(self, until: float) -> str:
        """One key; `END_OF_INPUT` when nobody is there any more, "" when the time is over."""
        while (left := until - time.time()) > 0:
            ready, _, _ = select.select([self._fd], [], [], min(left, LONGEST_WAIT))
            if ready:
                return self._byte()
        return ""

    def more_than_a_line_end(self) -> bool:
        """Whether a key came with others behind it, as part of a word; a line end behind it is read."""
        while select.select([self._fd], [], [], 0)[0]:
            if not self._byte().isspace():
                return True
        return False

    def forget(self) -> None:
        """Throw away what was typed and not read yet."""
        termios.tcflush(self._fd, termios.TCIFLUSH)

    def line(self, question: str) -> str:
        """A line of words. The line end that followed the key, if it did, is not the answer."""
        ready, _, _ = select.select([self._fd], [], [], 0.05)
        words = os.read(self._fd, 1).strip() if ready else b""
        with self.released():
            sys.stderr.write(question)
            sys.stderr.flush()
            # What came before the terminal read by lines is given without waiting for its end.
            while not words.endswith(b"\n") and (more := os.read(self._fd, 4096)):
                words += more
        return words.decode("utf-8", "replace").strip()

    @contextmanager
    def released(self) -> Iterator[None]:
        """The terminal as it was, inside a `with` block."""
        self._give_back()
        try:
            yield
        finally:
            self._take()

    def _byte(self) -> str:
        try:
            data = os.read(self._fd, 1)
        except OSError:
            data = b""
        return data.decode("ascii", "replace") if data else END_OF_INPUT
