"""One command in a sandbox of E2B: its output taken as it comes, and its processes ended with its time."""

from __future__ import annotations

import contextlib
import inspect
import re
import secrets
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from ksadk.sandbox.base import (
    CANNOT_RUN_EXIT_CODE,
    OUTPUT_LIMIT_EXIT_CODE,
    TIMEOUT_EXIT_CODE,
    LeftProcess,
    SandboxCommandResult,
)
from ksadk.sandbox.e2b_service import names
from ksadk.sandbox.observing import Observer, Stream
from ksadk.sandbox.output import Kept, Text
from ksadk.sandbox.running import OUTPUT_LIMIT_BYTES, Why

RETAINED_LIMIT_BYTES = 16 * 1024 * 1024
"""A command that prints more is ended, where the SDK cannot but keep in memory all that was printed."""

_EARLY_SECONDS = 0.2
"""Clocks differ: an end this short before the time was over is that of the time."""

_LATE_SECONDS = 5
"""How long after the time is over E2B may take to say so."""

_KILL_SECONDS = 20

_MARK = "KSADK_SAFE_RUN"

_KILL = """for round in 1 2 3 4 5; do
found=$(grep -lszxF {mark} /proc/[0-9]*/environ | tr -dc '0-9\\n')
[ -n "$found" ] || break
for pid in $found; do tr '\\0\\n' '  ' 2>/dev/null < /proc/$pid/cmdline; echo; done
kill -KILL $found 2>/dev/null
done"""
"""Ends all processes with a command's mark in their environment, again for those that they started meanwhile,
and prints what they were."""

_CWD = re.compile(r"\bcwd\b")


class _TooMuch(Exception):
    """A command has printed more than is taken."""


class _Taken:
    """What a command has printed so far. Over the limit, and once closed, taking raises `_TooMuch`."""

    def __init__(self, limit: int, observer: Observer | None = None) -> None:
        self.errors = 0
        self._observer = observer
        self._stdout, self._stderr = Kept(), Kept()
        self._left = limit
        self._lock = threading.Lock()

    def take_stdout(self, text: str) -> None:
        self._take(self._stdout, "stdout", text)

    def take_stderr(self, text: str) -> None:
        self._take(self._stderr, "stderr", text)

    def close(self) -> tuple[Text, Text]:
        """Take no more; what there is of both."""
        with self._lock:
            self._left = -1
            texts = self._stdout.text(), self._stderr.text()
            self._stdout.close()
            self._stderr.close()
        return texts

    def _take(self, kept: Kept, stream: Stream, text: str) -> None:
        printed = text.encode("utf-8", "replace")
        data = memoryview(printed)
        with self._lock:
            if self._left < 0:
                raise _TooMuch
            self._left -= len(data)
            if self._observer is not None:
                self._observer.offer(stream, printed)
            self.errors += text.count("\ufffd")
            while data:
                with kept.space() as space:
                    size = min(len(space), len(data))
                    space[:size] = data[:size]
                kept.took(size)
                data = data[size:]
            if self._left < 0:
                raise _TooMuch


class Command:
    """A line of bash for a sandbox. The SDK is only given the variables and the directory that there are."""

    def __init__(
        self,
        sandbox: Any,
        line: str,
        *,
        seconds: float,
        envs: dict[str, str],
        cwd: str = "",
        observer: Observer | None = None,
    ) -> None:
        run: Callable[..., Any] = sandbox.commands.run
        self._sandbox = sandbox
        self._line = line
        self._seconds = seconds
        self._in_directory = bool(cwd)
        self._streams = _takes(run, "background")
        forgets = _takes(run, "retain_output")
        self._taken = _Taken(OUTPUT_LIMIT_BYTES if forgets else RETAINED_LIMIT_BYTES, observer)
        self._mark = secrets.token_hex(8)
        self._why: Why = "ended"
        self._code = 0
        self._seconds_taken = 0.0
        self._left: tuple[LeftProcess, ...] = ()
        self._options: dict[str, Any] = {"timeout": seconds}
        if self._streams:
            envs = envs | {_MARK: self._mark}
            self._options["background"] = True
        if forgets:
            self._options["retain_output"] = False
        if envs:
            self._options["envs"] = envs
        if cwd:
            self._options["cwd"] = cwd

    def run(self) -> None:
        """Run it to its end, its time's or its output's. Raises what the SDK does where it could not run."""
        began = time.monotonic()
        try:
            done = self._waited_for()
            if done is not None:
                self._code = _exit_code(done.exit_code, getattr(done, "error", None))
            if done is None or (self._code == 128 + signal.SIGKILL and self._is_late(began)):
                self._why = "timeout"
        except _TooMuch:
            self._why = "output"
        except Exception as error:
            if self._is_late(began) and "TimeoutException" in names(error):
                self._why = "timeout"
            elif self._in_directory and _is_of_directory(error):
                self._code = CANNOT_RUN_EXIT_CODE
                self._taken.take_stderr(f"{error}\n")
            else:
                raise
        except BaseException:
            self._kill()
            raise
        if self._why != "ended":
            self._left = self._kill()
        self._seconds_taken = time.monotonic() - began

    def result(self) -> SandboxCommandResult:
        """What its run came to."""
        taken, why = self._taken, self._why
        out, err = taken.close()
        codes = {"timeout": TIMEOUT_EXIT_CODE, "output": OUTPUT_LIMIT_EXIT_CODE}
        return SandboxCommandResult(
            stdout=out.text, stderr=err.text, exit_code=codes.get(why, self._code),
            timed_out=why == "timeout", encoding_errors=taken.errors, left_processes=self._left,
            stdout_bytes=out.size, stderr_bytes=err.size,
            stdout_truncated=out.truncated, stderr_truncated=err.truncated,
            output_limit_exceeded=why == "output", duration_seconds=self._seconds_taken,
        )  # fmt: skip

    def _waited_for(self) -> Any:
        """What `_done` returns, or None where the SDK does not come back in time.

        The SDK waits in a thread of its own: in native code, it would not let Ctrl-C through, and the time is
        counted here whatever a connection does.
        """
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(self._done())
            except Exception as error:  # noqa: BLE001  # raised where it is waited for
                future.set_exception(error)

        threading.Thread(target=work, name="ksadk-e2b-command", daemon=True).start()
        ended, _ = wait([future], timeout=self._seconds + _LATE_SECONDS)
        return future.result() if ended else None

    def _done(self) -> Any:
        """What has an exit code: the SDK's result, or its exception for a code that is not 0."""
        try:
            done = self._sandbox.commands.run(self._line, **self._options)
            if self._streams:
                return self._followed(done)
        except Exception as error:
            if "CommandExitException" not in names(error):
                raise
            done = error
        if not self._streams:
            self._taken.take_stdout(done.stdout or "")
            self._taken.take_stderr(done.stderr or "")
        return done

    def _followed(self, handle: Any) -> Any:
        """Take what a command prints until its end. However that goes, its stream is closed here: one that
        the garbage collector closes can lock up the SDK's connections for good."""
        try:
            return handle.wait(on_stdout=self._taken.take_stdout, on_stderr=self._taken.take_stderr)
        finally:
            handle.disconnect()

    def _is_late(self, began: float) -> bool:
        return time.monotonic() - began >= self._seconds - _EARLY_SECONDS

    def _kill(self) -> tuple[LeftProcess, ...]:
        """End what runs of it; returns what that was."""
        script = _KILL.format(mark=f"{_MARK}={self._mark}")
        with contextlib.suppress(Exception):  # the sandbox may be gone, and with it what ran
            printed = self._sandbox.commands.run(script, timeout=_KILL_SECONDS).stdout
            return tuple(LeftProcess(0, text) for text in map(str.strip, printed.splitlines()) if text)
        return ()


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of that name."""
    return name in inspect.signature(function).parameters


def _is_of_directory(error: Exception) -> bool:
    return "InvalidArgumentException" in names(error) and bool(_CWD.search(str(error)))


def _exit_code(code: int, error: str | None) -> int:
    """A shell's exit code; E2B has -1 and words for a shell that a signal ended."""
    if code >= 0:
        return code
    words = (error or "").lower()
    for number in signal.valid_signals():
        name = (signal.strsignal(number) or "").split(":")[0].lower()
        if name and name in words:
            return 128 + number
    return 128 + signal.SIGKILL
