"""One command as a process of this machine: started, read, timed, and ended with all that it started."""

from __future__ import annotations

import functools
import math
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from ksadk.sandbox.base import (
    OUTPUT_LIMIT_EXIT_CODE,
    TIMEOUT_EXIT_CODE,
    Denial,
    LeftProcess,
    SandboxCommandResult,
    SandboxError,
)
from ksadk.sandbox.observing import Observer
from ksadk.sandbox.output import HEAD_BYTES, TAIL_BYTES, Kept, Reader

OUTPUT_LIMIT_BYTES = 1024 * 1024 * 1024
"""A command that prints more than this is ended."""

GRACE_SECONDS = 1.0
"""Between asking a process to end and killing it."""

DRAIN_SECONDS = 0.5
"""How long what is still in the pipes is waited for once the processes are gone."""

_POLL_MAX = 2**31 - 1

Why = Literal["ended", "timeout", "output", "stopped"]
Finish = Callable[["Running", Why], tuple[LeftProcess, ...]]
"""Ends the process, if it still runs, and all that it started; says what there was to end."""


@dataclass(frozen=True)
class Ended:
    """How a process ended: `stdout` and `stderr` are the bytes that are kept."""

    exit_code: int
    why: Why
    left: tuple[LeftProcess, ...]
    stdout: Kept
    stderr: Kept
    seconds: float

    def result(self, denials: tuple[Denial, ...] = ()) -> SandboxCommandResult:
        """The same as a command's result; the kept bytes are given back."""
        out, err = self.stdout.text(), self.stderr.text()
        self.stdout.close()
        self.stderr.close()
        code = {"timeout": TIMEOUT_EXIT_CODE, "output": OUTPUT_LIMIT_EXIT_CODE}.get(self.why, self.exit_code)
        return SandboxCommandResult(
            stdout=out.text, stderr=err.text, exit_code=code,
            timed_out=self.why == "timeout", encoding_errors=out.errors + err.errors,
            left_processes=self.left,
            stdout_bytes=out.size, stderr_bytes=err.size,
            stdout_truncated=out.truncated, stderr_truncated=err.truncated,
            output_limit_exceeded=self.why == "output",
            denials=denials, duration_seconds=self.seconds,
        )  # fmt: skip


class Running:
    """A process that runs, in a session of its own, its output read by a thread.

    The deadline is watched apart from the output: neither much of it nor none of it moves the deadline. Use
    it as a context manager: whatever ends the block ends the process.

    finish: ends it, and what it started.
    stdin: what it reads; nothing by default.
    limit: bytes of output at which it is ended; head, tail: how much of each stream is kept.
    observer: is offered what it prints.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        finish: Finish,
        *,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
        limit: int = OUTPUT_LIMIT_BYTES,
        head: int = HEAD_BYTES,
        tail: int = TAIL_BYTES,
        observer: Observer | None = None,
    ) -> None:
        self._began = time.monotonic()
        self._finish = finish
        self._exceeded = self._stopped = self._closed = False
        self._waking = threading.Lock()
        self._wake, self._waker = os.pipe()
        try:
            self.process = subprocess.Popen(
                argv, env=dict(env), cwd=cwd, pass_fds=pass_fds, start_new_session=True, bufsize=0,
                stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            os.close(self._wake)
            os.close(self._waker)
            raise SandboxError(f"{argv[0]} cannot be started: {error}") from error
        assert self.process.stdout is not None and self.process.stderr is not None
        self._kept = Kept(head, tail), Kept(head, tail)
        pipes = self.process.stdout.fileno(), self.process.stderr.fileno()
        observe = None
        if observer is not None:
            observe = functools.partial(_offer, observer, pipes[0])
        self._reader = Reader(dict(zip(pipes, self._kept, strict=True)), limit, self._on_limit, observe)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, if it was not waited for, and close what is open."""
        try:
            if self.process.returncode is None:
                self._finish(self, "stopped")
        finally:
            self._close()

    def stop(self) -> None:
        """End it before its time; from any thread."""
        self._stopped = True
        self._notify()

    def wait(self, deadline: float) -> Ended:
        """Wait until it has ended, or its time is over (`deadline`, as `time.monotonic` counts), or it was
        stopped, or printed too much; then end what is left."""
        why: Why = "ended"
        if not self._exited(deadline - time.monotonic()):
            why = "stopped" if self._stopped else "output" if self._exceeded else "timeout"
        left = self._finish(self, why)
        code = self.process.wait()
        self._reader.finish(DRAIN_SECONDS)
        seconds = time.monotonic() - self._began
        return Ended(128 - code if code < 0 else code, why, left, *self._kept, seconds)

    def exited(self, seconds: float) -> bool:
        """Whether the process ends within that time, whatever else happens."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _exited(self, seconds: float) -> bool:
        """Whether the process ends within that time, and before something wakes us."""
        if not hasattr(os, "pidfd_open"):
            return self._exited_slowly(seconds)
        try:
            pidfd = os.pidfd_open(self.process.pid)
        except ProcessLookupError:
            return True
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.register(self._wake, select.POLLIN)
            return any(fd == pidfd for fd, _ in poll.poll(min(max(0, math.ceil(seconds * 1000)), _POLL_MAX)))
        finally:
            os.close(pidfd)

    def _exited_slowly(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not (self._stopped or self._exceeded):
            left = end - time.monotonic()
            if self.exited(max(0, min(left, 0.05))):
                return True
            if left <= 0:
                return False
        return False

    def _on_limit(self) -> None:
        self._exceeded = True
        self._notify()

    def _notify(self) -> None:
        with self._waking:
            if not self._closed:
                os.write(self._waker, b"!")

    def _close(self) -> None:
        self._reader.finish(0)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        with self._waking:
            self._closed = True
            os.close(self._wake)
            os.close(self._waker)


def _offer(observer: Observer, stdout: int, pipe: int, data: bytes) -> None:
    observer.offer("stdout" if pipe == stdout else "stderr", data)


class Runs:
    """What runs in a session now, so that another thread can end it all."""

    def __init__(self) -> None:
        self.ended = False
        self._lock = threading.Lock()
        self._running: set[Running] = set()

    @contextmanager
    def holding(self, running: Running) -> Iterator[None]:
        """Let `end` reach a process inside a `with` block. Raises `sandbox_ended` where that was called."""
        with self._lock:
            if self.ended:
                raise SandboxError("the sandbox was ended", code="sandbox_ended")
            self._running.add(running)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(running)

    def end(self) -> None:
        """Stop every process, and any that is held from now on."""
        with self._lock:
            self.ended = True
            for running in self._running:
                running.stop()
