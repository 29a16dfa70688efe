"""Showing what a command prints while it runs, to somebody who may be slow, or may fail."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Literal, Self

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]
"""Is given what a command prints, as it comes, piece by piece."""

WAITING_BYTES = 4 * 1024 * 1024
"""How much may wait for an observer that is slower than the command."""

LAST_SECONDS = 5.0
"""How long an observer is waited for once the command has ended."""


class Observer:
    """Calls `on_output` in a thread of its own, so that no command waits for it.

    Where more than `limit` bytes wait, what comes is left out, and a line says so. Once it has raised, it is
    not called any more. Use it as a context manager: the end of the block waits for it, `seconds` at most.
    """

    def __init__(
        self, on_output: OnOutput, limit: int = WAITING_BYTES, *, seconds: float | None = LAST_SECONDS
    ) -> None:
        self._on_output = on_output
        self._limit = limit
        self._seconds = seconds
        self._waiting: deque[tuple[Stream, bytes]] = deque()
        self._size = 0
        self._left_out = {"stdout": 0, "stderr": 0}
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="ksadk-observer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            for stream in ("stdout", "stderr"):
                self._tell_left_out(stream)
            self._closed = True
            self._changed.notify()
        self._thread.join(self._seconds)

    def offer(self, stream: Stream, data: bytes) -> None:
        """Hand over what was printed. Returns at once."""
        with self._changed:
            if self._closed:
                return
            if self._size + len(data) > self._limit:
                self._left_out[stream] += len(data)
                return
            self._tell_left_out(stream)
            self._put(stream, data)
            self._changed.notify()

    def _tell_left_out(self, stream: Stream) -> None:
        count, self._left_out[stream] = self._left_out[stream], 0
        if count:
            self._put(stream, b"\n[... %d bytes not shown ...]\n" % count)

    def _put(self, stream: Stream, data: bytes) -> None:
        self._waiting.append((stream, data))
        self._size += len(data)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._closed:
                        return
                    self._changed.wait()
                stream, data = self._waiting.popleft()
            try:
                self._on_output(stream, data)
            except Exception:  # noqa: BLE001  # a stranger's, and no reason to end the command
                with self._changed:
                    self._closed = True
                return
            with self._changed:
                self._size -= len(data)
