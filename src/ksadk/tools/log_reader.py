"""Reading the decision log: its last lines, and those that come."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ksadk.tools.log_lines import CURRENT, LogFile, log_files, open_current, open_to_read, raw_lines

Wanted = Callable[[dict[str, Any]], bool]


class Lines(NamedTuple):
    """Lines of the log, the oldest first; how many others could not be read, and the number of the last line
    that was looked at, wanted or not."""

    lines: list[dict[str, Any]]
    unreadable: int
    last: int


def last_lines(directory: Path, limit: int | None, wanted: Wanted) -> Lines:
    """The last lines that are wanted, `limit` at most. Their hashes are not looked at; `verify` does."""
    found: list[dict[str, Any]] = []
    unreadable = last = 0
    for stream in _newest_first(directory):
        room = None if limit is None else limit - len(found)
        if room == 0 and last:
            break
        kept: deque[dict[str, Any]] = deque(maxlen=room)
        for line in map(parse, raw_lines(stream)):
            if line is None:
                unreadable += 1
                continue
            last = max(last, line["n"])
            if wanted(line):
                kept.append(line)
        found[:0] = kept
    return Lines(found, unreadable, last)


def _newest_first(directory: Path) -> Iterator[BinaryIO]:
    """The files of the log, each open while it is looked at. What is rotated away or begun meanwhile is
    neither given twice nor out of turn."""
    current = open_current(directory)
    files = [file for file in log_files(directory) if file.last]
    if current is not None:
        with current:
            status = os.fstat(current.fileno())
            files = list(takewhile(lambda file: not _is(file.path, status), files))
            yield current
    for file in reversed(files):
        with open_to_read(file.path) as stream:
            yield stream


def _is(path: Path, status: os.stat_result) -> bool:
    return os.path.samestat(path.lstat(), status)


def parse(raw: bytes) -> dict[str, Any] | None:
    """The fields of a line, or None where it has no number and event, or no end yet."""
    try:
        fields = json.loads(raw) if raw.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    if isinstance(fields, dict) and isinstance(fields.get("n"), int) and isinstance(fields.get("event"), str):
        return fields
    return None


class Follower:
    """Gives the lines that are written behind line `after`, also where files are rotated meanwhile."""

    def __init__(self, directory: Path, after: int) -> None:
        self._directory = directory
        self._last = after
        self._stream: BinaryIO | None = None

    def new(self) -> list[dict[str, Any]]:
        """The lines that came since this was last called."""
        if self._stream is not None and self._is_current(self._stream):
            return list(self._more(self._stream))
        self.close()
        self._stream = open_current(self._directory)
        lines: list[dict[str, Any]] = []
        for file in log_files(self._directory):
            if file.last > self._last:
                lines += self._rest_of(file)
        return lines if self._stream is None else [*lines, *self._more(self._stream)]

    def close(self) -> None:
        """Let go of the file that is read."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _rest_of(self, file: LogFile) -> list[dict[str, Any]]:
        with open_to_read(file.path) as stream:
            return list(self._more(stream))

    def _is_current(self, stream: BinaryIO) -> bool:
        try:
            now = (self._directory / CURRENT).stat()
        except OSError:
            return False
        return os.path.samestat(now, os.fstat(stream.fileno()))

    def _more(self, stream: BinaryIO) -> Iterator[dict[str, Any]]:
        """The lines from where the stream stands; one that has no end yet is left to be read again."""
        while raw := stream.readline():
            if not raw.endswith(b"\n"):
                stream.seek(-len(raw), os.SEEK_CUR)
                return
            line = parse(raw)
            if line is not None and line["n"] > self._last:
                self._last = line["n"]
                yield line
