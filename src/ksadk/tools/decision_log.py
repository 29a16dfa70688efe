"""The decision log: one line for each decision and result, appended, each with the hash of the line before.

The number, the place and the hash of the last line are kept beside the file, in the approval store, whose
write lock makes processes take turns. A process that is killed between the two leaves a line that the store
does not know, or a part of one; the next that writes adopts or cuts it, and writes a line that says so.
"""

from __future__ import annotations

import errno
import io
import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.log_lines import (
    CURRENT,
    MAX_LINE_BYTES,
    NOTHING,
    Line,
    LogUnavailable,
    NoLine,
    decode,
    encode,
    log_files,
    open_to_read,
    raw_lines,
    rotated_name,
)

ROTATION_BYTES = 16 * 1024 * 1024
"""The size from which on a file is put aside and the next one begun."""

LEAST_ROOM = 256 * 1024
"""Bytes that a disk must have free for a line, and for the store's journal meanwhile."""

_MAX_TAIL = 4 * 1024 * 1024
"""How much behind the last known line is looked through for lines to adopt."""

_MAX_REPAIRS = 4
"""How many lines `repair` are adopted at most: those of one process that mends are three at most."""


class Head(NamedTuple):
    """Where the log ends: its last line's number and hash, the size of the current file up to there, and the
    number that the first line of that file has."""

    lines: int = 0
    size: int = 0
    hash: str = NOTHING
    first: int = 1


class DecisionLog:
    """The log of one user, in the directory `log` beside the store; the files are 0600 in a directory 0700.

    rotation_bytes: the size from which on a new file is begun.
    """

    def __init__(self, store: ApprovalStore, *, rotation_bytes: int = ROTATION_BYTES) -> None:
        self.directory = store.path.parent / "log"
        self.path = self.directory / CURRENT
        self._store = store
        self._rotation_bytes = rotation_bytes

    def append(self, fields: Mapping[str, Any]) -> int:
        """Write one line, with its number, the time and the hashes around `fields`; returns its number.

        It is on the disk when this returns. Raises `log_unavailable` where it cannot be.
        """
        written = False
        while (
            not written
        ):  # each step is kept before the next, so that a kill leaves one of them undone at most
            with self._store.transaction() as db:
                try:
                    head, written = self._step(db, fields)
                except OSError as error:
                    raise self._unwritable(error) from error
                _save_head(db, head)
        return head.lines

    def check(self) -> int:
        """Find out whether a line could be written, without writing or making anything; returns how many
        lines are known. Raises `log_unavailable`."""
        try:
            _require_room(self.directory)
            if os.path.lexists(self.path):
                with _opened(self.path, os.O_RDWR):
                    pass
        except OSError as error:
            raise self._unwritable(error) from error
        if not self._store.path.exists():
            return 0
        with self._store.transaction() as db:
            return (read_head(db) or Head()).lines

    def _unwritable(self, error: OSError) -> LogUnavailable:
        return LogUnavailable(
            f"the decision log {self.path} cannot be written: {error.strerror}",
            hint="See to that file, its directory and the room on its disk.",
        )

    def transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """What is kept beside the files; nobody writes to the log meanwhile."""
        return self._store.transaction()

    def _step(self, db: sqlite3.Connection, fields: Mapping[str, Any]) -> tuple[Head, bool]:
        """Mend the log or begin a new file where that is to be done, else write the line; returns the head
        then, and whether the line was written."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        recorded = read_head(db)
        if recorded and self._is_half_rotated(recorded):
            return _begin_file(db, recorded), False
        head = recorded or self._found_head()
        with _opened(self.path) as file:
            caught_up, remarks = _catch_up(file, head)
            if recorded is None and head.lines:
                remarks.insert(0, f"the store had no record of this log; it goes on behind line {head.lines}")
            if not remarks and caught_up.size >= self._rotation_bytes:
                return self._rotate(db, caught_up), False
            lines: list[Mapping[str, Any]] = [{"event": "repair", "found": remark} for remark in remarks] or [
                fields
            ]
            for line in lines:
                caught_up = _add(file, caught_up, self._store.now(), line)
            os.fsync(file)
        if head.first > head.lines:
            self._keep_names()
        return caught_up, not remarks

    def _is_half_rotated(self, head: Head) -> bool:
        """Whether a process was killed after it had put the file aside, and before the store knew.

        Only the very file that the store knows is believed, and only where no other has taken its place.
        """
        if not head.size or os.path.lexists(self.path):
            return False
        try:
            with open_to_read(self.directory / rotated_name(head.lines)) as stream:
                if os.fstat(stream.fileno()).st_size != head.size:
                    return False
                stream.seek(max(head.size - MAX_LINE_BYTES, 0))
                last = stream.read().removesuffix(b"\n").rpartition(b"\n")[2]
            return decode(last).hash == head.hash
        except (LogUnavailable, NoLine):
            return False

    def _rotate(self, db: sqlite3.Connection, head: Head) -> Head:
        self.path.rename(self.directory / rotated_name(head.lines))
        return _begin_file(db, head)

    def _keep_names(self) -> None:
        """Make sure that a new file, and the new name of the one before, outlive a loss of power."""
        directory = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _found_head(self) -> Head:
        """The head that the newest file tells of, where the store was lost."""
        for file in reversed(log_files(self.directory)):
            first, last, size = 0, None, 0
            with open_to_read(file.path) as stream:
                for raw in raw_lines(stream):
                    try:
                        line = decode(raw.removesuffix(b"\n"))
                    except NoLine:
                        continue
                    first, last, size = first or line.number, line, stream.tell()
            if last is not None:
                begun = last.number + 1 if file.last else first
                return Head(last.number, 0 if file.last else size, last.hash, begun)
        return Head()


def read_head(db: sqlite3.Connection) -> Head | None:
    """What the store knows of the log, or None where it knows nothing."""
    row = db.execute("SELECT lines, size, hash, first FROM log_head").fetchone()
    return None if row is None else Head(*row)


def rotated_files(db: sqlite3.Connection) -> dict[int, Head]:
    """What the store knows of each file that was put aside, by the number of its last line."""
    rows = db.execute("SELECT last, size, hash, first FROM log_files")
    return {row[0]: Head(*row) for row in rows}


def _save_head(db: sqlite3.Connection, head: Head) -> None:
    db.execute("INSERT OR REPLACE INTO log_head (id, lines, size, hash, first) VALUES (1, ?, ?, ?, ?)", head)


def _begin_file(db: sqlite3.Connection, head: Head) -> Head:
    db.execute("INSERT OR REPLACE INTO log_files (last, size, hash, first) VALUES (?, ?, ?, ?)", head)
    return Head(head.lines, 0, head.hash, head.lines + 1)


def _require_room(directory: Path) -> None:
    """Raise the error that making a file in a directory, or in the first one above it that is there, and
    writing a line into it would end with."""
    while not os.path.lexists(directory):
        directory = directory.parent
    if not directory.is_dir():
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    disk = os.statvfs(directory)
    if disk.f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    if not os.access(directory, os.W_OK | os.X_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    blocks = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
    if (disk.f_blocks and blocks * disk.f_frsize < LEAST_ROOM) or (disk.f_files and not disk.f_ffree):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def _opened(path: Path, kind: int = os.O_RDWR | os.O_CREAT) -> Iterator[int]:
    """The current file, to be read and appended to; made where there is none."""
    file = os.open(path, kind | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        yield file
    finally:
        os.close(file)


def _catch_up(file: int, head: Head) -> tuple[Head, list[str]]:
    """The head at the end of the file, and what is to be said of a file that does not end where the store
    says. What a killed process can have left is adopted, a part of a line is cut off; anything else is left
    for `verify` to find."""
    size = os.fstat(file).st_size
    if size == head.size:
        return head, []
    if size < head.size:
        remark = f"the file ended at byte {size}, and the store knows {head.size} bytes of it"
        return head._replace(size=_end_line(file, size)), [remark]
    tail = os.pread(file, _MAX_TAIL, head.size)
    adopted = _adopted(tail, head)
    remarks = []
    if adopted.lines > head.lines:
        remarks.append(f"the store did not know of {_lines(head.lines + 1, adopted.lines)}; adopted")
    rest = tail[adopted.size - head.size :]
    if not rest:
        return adopted, remarks
    if b"\n" not in rest and head.size + len(tail) == size:
        os.ftruncate(file, adopted.size)
        remarks.append(f"a part of a line behind line {adopted.lines} was cut off: {len(rest)} bytes")
        return adopted, remarks
    found = f"{size - adopted.size} bytes behind line {adopted.lines}"
    remarks.append(f"{found} that no killed process leaves were found; left as they are")
    return adopted._replace(size=_end_line(file, size)), remarks


def _adopted(tail: bytes, head: Head) -> Head:
    """The head behind the lines of a tail that follow on it, and that a killed process can have left."""
    before: list[Line] = []
    for raw in io.BytesIO(tail):
        try:
            line = decode(raw.removesuffix(b"\n"))
        except NoLine:
            break
        if not raw.endswith(b"\n") or (line.number, line.before) != (head.lines + 1, head.hash):
            break
        if not can_be_left(line, before):
            break
        before.append(line)
        head = Head(line.number, head.size + len(raw), line.hash, head.first)
    return head


def can_be_left(line: Line, before: Sequence[Line]) -> bool:
    """Whether killed processes can have left a line behind others that the store does not know: there is one
    line at most, and the repairs of those that were killed while they mended that."""
    return not before or (line.fields.get("event") == "repair" and len(before) <= _MAX_REPAIRS)


def _lines(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first} to {last}"


def _end_line(file: int, size: int) -> int:
    """Let what is written next begin a line; returns the size of the file then."""
    if size and os.pread(file, 1, size - 1) != b"\n":
        return size + os.write(file, b"\n")
    return size


def _add(file: int, head: Head, moment: float, fields: Mapping[str, Any]) -> Head:
    """Write a line at the end of the file, whole or not at all; returns the head behind it."""
    number = head.lines + 1
    line, digest = encode({"n": number, "time": _utc(moment), **fields, "prev": head.hash})
    left = memoryview(line)
    try:
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        os.ftruncate(file, head.size)
        raise
    return Head(number, head.size + len(line), digest, head.first)


def _utc(moment: float) -> str:
    """A time in UTC to the millisecond, as RFC 3339 writes it."""
    milliseconds = round(moment * 1000)
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000))
    return f"{whole}.{milliseconds % 1000:03d}Z"
