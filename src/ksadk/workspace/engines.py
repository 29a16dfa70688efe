"""The two programs that look for a pattern in files: ripgrep, and a Python one that stands in for it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ksadk.workspace.paths import WorkspaceError
from ksadk.workspace.patterns import Pattern

_WORKER = Path(__file__).with_name("search_worker.py")
_MAX_ARGUMENT_BYTES = 100_000
"""Of file names in one ripgrep command; every system takes more than that."""


class Hit(NamedTuple):
    """A line that matched: [start, end) is the first match, in bytes or characters as the engine counts."""

    path: str
    line: int
    start: int
    end: int


class OutOfTime(Exception):
    """The engine was killed at the deadline; `hits` is what it had found."""

    def __init__(self, hits: list[Hit]) -> None:
        super().__init__()
        self.hits = hits


@dataclass(frozen=True)
class Engine:
    """Runs a program over files; both programs find the same lines."""

    name: Literal["rg", "python"]
    counts: Literal["bytes", "characters"]
    command: Callable[[Pattern, int], list[str]]
    takes_names: bool
    """Whether files are named in arguments, not on standard input."""
    read: Callable[[Any], Iterator[Hit]]

    def run(
        self, root: Path, pattern: Pattern, files: Sequence[str], limit: int, deadline: float
    ) -> list[Hit]:
        """The hits in files, in any order, at most `limit` for each file.

        Raises `OutOfTime` at the deadline (of `time.monotonic()`), `search_failed` if the program breaks.
        """
        command = self.command(pattern, limit)
        if self.takes_names:
            command += [f"./{path}" for path in files]
        hits: list[Hit] = []
        errors: list[bytes] = []
        done = False
        with _started(command, root) as process:
            killer = threading.Timer(max(0.0, deadline - time.monotonic()), process.kill)
            helpers = [
                killer,
                threading.Thread(target=self._feed, args=(process, pattern, files, limit)),
                threading.Thread(target=_drain, args=(process.stderr, errors)),
            ]
            for helper in helpers:
                helper.start()
            try:
                for record in _records(process.stdout):
                    done = done or _is_last(record)
                    hits.extend(self.read(record))
            finally:
                killer.cancel()
                process.kill()  # its output has ended, or nobody wants it
                for helper in helpers:
                    helper.join()
        if not done and time.monotonic() >= deadline:
            raise OutOfTime(hits)
        if not done:
            words = b"".join(errors).decode("utf-8", "replace").strip().splitlines()
            raise WorkspaceError(
                f"the search program {self.name} failed: {words[0] if words else process.returncode}",
                code="search_failed",
            )
        return hits

    def _feed(
        self, process: subprocess.Popen[bytes], pattern: Pattern, files: Sequence[str], limit: int
    ) -> None:
        stream = process.stdin
        assert stream is not None
        try:
            if not self.takes_names:
                order = {"pattern": pattern.python, "files": list(files), "limit": limit}
                stream.write(json.dumps(order).encode())
            stream.close()
        except BrokenPipeError:
            pass  # killed, or broken: its exit tells


def batch(files: Sequence[str], start: int, size: int) -> Sequence[str]:
    """The files from `start` on that one run takes: at most `size`, and no more than an argument list holds.

    The same for every engine, so that a search which ends early has looked at the same files.
    """
    end, room = start, _MAX_ARGUMENT_BYTES
    while end < len(files) and end - start < size:
        room -= len(os.fsencode(files[end])) + 3
        if room < 0 and end > start:
            break
        end += 1
    return files[start:end]


def python_engine() -> Engine:
    """The engine that is always there."""

    def command(pattern: Pattern, limit: int) -> list[str]:  # noqa: ARG001  # both come on standard input
        return [sys.executable, "-I", "-S", "-X", "utf8", str(_WORKER)]

    return Engine("python", "characters", command, takes_names=False, read=_read_worker)


def ripgrep_engine(program: Path) -> Engine:
    """ripgrep, told to follow no configuration and to take no decision about which files to search."""

    def command(pattern: Pattern, limit: int) -> list[str]:
        return [
            str(program), "--no-config", "--json", "--text", "--no-ignore", "--hidden", "--case-sensitive",
            "--max-count", str(limit), "-e", pattern.ripgrep, "--",
        ]  # fmt: skip

    return Engine("rg", "bytes", command, takes_names=True, read=_read_ripgrep)


def best_engine(root: Path) -> Engine:
    """ripgrep if it is installed outside the workspace, else the Python engine."""
    found = shutil.which("rg")
    if found is None or not Path(found).is_absolute():
        return python_engine()
    program = Path(found).resolve()
    return python_engine() if program.is_relative_to(root) else ripgrep_engine(program)


def _started(command: list[str], root: Path) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(command, cwd=root, env={}, stdin=pipe, stdout=pipe, stderr=pipe)
    except OSError as error:
        raise WorkspaceError(
            f"the search program cannot be started: {error}", code="search_failed"
        ) from error


def _is_last(record: Any) -> bool:
    return record == "done" or (isinstance(record, dict) and record["type"] == "summary")


def _records(stream: Any) -> Iterator[Any]:
    for line in stream:
        if line.endswith(b"\n"):  # a program that was killed leaves half a line
            yield json.loads(line)


def _drain(stream: Any, into: list[bytes]) -> None:
    into.append(stream.read())


def _read_worker(record: Any) -> Iterator[Hit]:
    if record != "done":
        yield Hit(*record)


def _read_ripgrep(record: Any) -> Iterator[Hit]:
    if record["type"] == "match":
        data = record["data"]
        path = os.fsdecode(_bytes_of(data["path"])).removeprefix("./")
        if data["submatches"]:
            first = data["submatches"][0]
            start, end = first["start"], first["end"]
        else:  # an empty match at the very end of a file is found, but not placed
            start = end = len(_bytes_of(data["lines"]))
        yield Hit(path, data["line_number"], start, end)


def _bytes_of(value: dict[str, str]) -> bytes:
    """ripgrep's JSON gives text where bytes are UTF-8, base64 where they are not."""
    return base64.b64decode(value["bytes"]) if "bytes" in value else value["text"].encode()
