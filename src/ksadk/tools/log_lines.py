"""The decision log as text: one line, its hash, and the files that lines are in."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ksadk.errors import KsadkError

NOTHING = "0" * 64
"""What the first line gives as the hash of the line before it."""

MAX_LINE_BYTES = 256 * 1024
"""No line is longer; what is longer is no line."""

CURRENT = "decisions.jsonl"
_ROTATED = re.compile(r"decisions-([1-9][0-9]{0,17})\.jsonl")
_HASHED = re.compile(rb'(\{.*),"hash":"([0-9a-f]{64})"\}')


class LogUnavailable(KsadkError):
    """The decision log cannot be written or read."""

    code = "log_unavailable"


class NoLine(ValueError):
    """Bytes that are no line of the log as it was written; the message says why."""


class Line(NamedTuple):
    """A line whose own hash is right."""

    number: int
    before: str
    hash: str
    fields: dict[str, Any]


class LogFile(NamedTuple):
    """One file of the log; `last` is the number of the last line of a file that was rotated away, else 0."""

    path: Path
    last: int


def encode(fields: Mapping[str, Any]) -> tuple[bytes, str]:
    """A line with its line end, and its hash: the SHA-256 of the line's text without `,"hash":"..."`."""
    body = json.dumps(fields, separators=(",", ":"))
    digest = hashlib.sha256(body.encode("ascii")).hexdigest()
    return f'{body[:-1]},"hash":"{digest}"}}\n'.encode("ascii"), digest


def decode(raw: bytes) -> Line:
    """A line, without its line end. Raises `NoLine` where it is not as it was written."""
    found = _HASHED.fullmatch(raw)
    if found is None:
        raise NoLine("it is no line of this log")
    if hashlib.sha256(found[1] + b"}").hexdigest().encode() != found[2]:
        raise NoLine("it was changed: its hash is that of another text")
    try:
        fields = json.loads(raw)
        return Line(int(fields["n"]), str(fields["prev"]), fields["hash"], fields)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise NoLine("it is no line of this log") from None


def number_of(raw: bytes) -> int | None:
    """The number that bytes claim to have in the log, whether or not they are a line as it was written."""
    found = re.match(rb'\{"n":([1-9][0-9]{0,17}),', raw)
    return int(found[1]) if found else None


def rotated_name(last: int) -> str:
    """What a file is called when it is rotated away behind the line of that number."""
    return f"decisions-{last}.jsonl"


def log_files(directory: Path) -> list[LogFile]:
    """The files of a log, the oldest first; the current one, where there is one, is the last."""
    try:
        names = [path.name for path in directory.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(directory, error) from error
    found = [(int(match[1]), name) for name in names if (match := _ROTATED.fullmatch(name))]
    files = [LogFile(directory / name, last) for last, name in sorted(found)]
    return [*files, LogFile(directory / CURRENT, 0)] if CURRENT in names else files


def open_to_read(path: Path) -> BinaryIO:
    """A file of the log. Raises `LogUnavailable`; a link, a FIFO or a device is not one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise unreadable(path, OSError(errno.EINVAL, "it is no regular file"))
    return os.fdopen(descriptor, "rb")


def open_current(directory: Path) -> BinaryIO | None:
    """The file that is written to now, or None where there is none.

    Open it before the others are listed: then a rotation in between hides no line.
    """
    try:
        return open_to_read(directory / CURRENT)
    except LogUnavailable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def raw_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file as they are, with their line ends; what has none is the last. A line that is too
    long to be one comes in pieces."""
    while raw := file.readline(MAX_LINE_BYTES):
        yield raw


def unreadable(path: Path, error: OSError) -> LogUnavailable:
    """What is said of a part of the log that the system does not let be read."""
    return LogUnavailable(
        f"the decision log {path} cannot be read: {error.strerror}",
        hint="See to that file and its directory; they belong to you alone.",
    )
