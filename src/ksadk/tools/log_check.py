"""Whether the decision log is as it was written: which line was changed, removed, moved or cut off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ksadk.tools.decision_log import DecisionLog, Head, can_be_left, read_head, rotated_files
from ksadk.tools.log_lines import (
    CURRENT,
    MAX_LINE_BYTES,
    NOTHING,
    Line,
    LogFile,
    NoLine,
    decode,
    log_files,
    number_of,
    open_to_read,
    raw_lines,
    rotated_name,
)

MAX_PROBLEMS = 100
"""How many problems are told one by one."""


@dataclass
class Report:
    """What `verify` found. `first` and `last` are the lines that it looked at, 0 where there are none.

    A problem is `{file, at, line, problem}`: the name of the file, which line of the file it is (0: none that
    is there), the number that the line has in the log, and what is wrong with it. Notes are no faults: what a
    killed process left and a later one mended.
    """

    lines: int = 0
    first: int = 0
    last: int = 0
    problems: list[dict[str, Any]] = field(default_factory=list)
    more_problems: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the log is as it was written, from its first line on."""
        return not self.problems

    def problem(self, file: str, at: int, line: int, problem: str) -> None:
        """Add a problem, or count it where there are too many."""
        if len(self.problems) == MAX_PROBLEMS:
            self.more_problems += 1
        else:
            self.problems.append({"file": file, "at": at, "line": line, "problem": problem})


class _Gap(NamedTuple):
    """Lines that are not there, seen in that file at the line behind them."""

    file: str
    first: int
    last: int


def verify(log: DecisionLog) -> Report:
    """Read every line of the log and hold it against its hash, the line before it and the store.

    Raises `log_unavailable` where it cannot be read.
    """
    with log.transaction() as db:  # nobody writes meanwhile
        head, kept = read_head(db), rotated_files(db)
        files = log_files(log.directory)
        current = open_to_read(log.path) if files and not files[-1].last else None
        size = os.fstat(current.fileno()).st_size if current else 0
    # A file of that name that the store still takes for the current one: its process was killed.
    half_rotated = head is not None and head.size > 0 and bool(files) and files[-1].last == head.lines
    walk = _Walk(head, kept, half_rotated=half_rotated)
    for file in files:
        if file.last:
            with open_to_read(file.path) as stream:
                walk.file(file, raw_lines(stream))
        elif current is not None:
            with current:
                walk.file(file, _up_to(size, raw_lines(current)))
    return walk.finish()


def _up_to(size: int, lines: Iterator[bytes]) -> Iterator[bytes]:
    """The lines that were there when the log was `size` bytes long."""
    for raw in lines:
        size -= len(raw)
        if size < 0:
            return
        yield raw


class _Walk:
    """Goes through the lines of all files in order."""

    def __init__(self, head: Head | None, kept: dict[int, Head], *, half_rotated: bool) -> None:
        self._head = head or Head()
        self._known = head is not None
        self._kept = kept
        self._report = Report()
        self._expected = 0  # the number of the next line; 0: no file was seen
        self._hash = ""  # of the line before; empty where that is not known
        self._put_aside = self._head.lines if half_rotated else 0  # the name of the file that was
        self._missing: list[_Gap] = []
        self._left: list[Line] = []  # the lines that the store does not know

    def file(self, file: LogFile, lines: Iterator[bytes]) -> None:
        """Go through the lines of one file."""
        name, end = file.path.name, 0
        for at, raw in enumerate(lines, start=1):
            end += len(raw)
            if not self._expected:
                self._begin(file, raw)
            if file.last or end <= self._head.size:
                self._line(name, at, raw)
            else:
                self._unrecorded(name, at, raw)

    def finish(self) -> Report:
        """What was found, the end of the log included."""
        report, head = self._report, self._head
        if not self._expected and self._known and head.lines:
            self._expected = head.first
            self._vouch_from(head.first)
        report.last = max(self._expected - 1, 0)
        report.first = report.first if report.last else 0
        for gap in self._missing:
            words = "is missing" if gap.first == gap.last else f"to line {gap.last} are missing"
            report.problem(gap.file, 0, gap.first, f"{words}: removed before line {gap.last + 1}")
        if self._expected and self._expected <= head.lines:
            words = "is missing" if self._expected == head.lines else f"to line {head.lines} are missing"
            report.problem(CURRENT, 0, self._expected, f"{words}: the log was cut off at its end")
        if not self._known and report.last:
            words = "the store knows nothing of this log, so that a cut at its end cannot be told"
            report.problem(CURRENT, 0, report.last, words)
        return report

    def _begin(self, file: LogFile, raw: bytes) -> None:
        """Find out which line the first file must begin with, and what that line follows on."""
        known = self._kept.get(file.last)
        if self._known and file.last in (0, self._put_aside):
            known = self._head
        first = known.first if known else number_of(raw) or 1
        self._expected = self._report.first = first
        if first == 1:
            self._hash = NOTHING
            return
        before = self._kept.get(first - 1)
        self._hash = before.hash if before else ""
        self._vouch_from(first)

    def _vouch_from(self, first: int) -> None:
        """Tell of the lines before the first one, whose files are gone: who deleted them cannot be told."""
        if first > 1:
            words = "is not" if first == 2 else f"to line {first - 1} are not"
            self._report.problem(rotated_name(first - 1), 0, 1, f"{words} there any more: deleted")

    def _line(self, name: str, at: int, raw: bytes) -> None:
        try:
            line = decode(raw.removesuffix(b"\n"))
        except NoLine as error:
            number = number_of(raw) or 0
            self._report.problem(name, at, number, str(error))
            if number == self._expected:
                self._expected, self._hash = number + 1, ""
            return
        if line.number < self._expected:
            self._report.problem(name, at, line.number, self._out_of_place(line.number))
            return
        if line.number > self._expected:
            self._missing.append(_Gap(name, self._expected, line.number - 1))
        elif self._hash and line.before != self._hash:
            words = f"it does not follow on line {line.number - 1}: one of the two was replaced"
            self._report.problem(name, at, line.number, words)
        self._accept(name, at, line)

    def _accept(self, name: str, at: int, line: Line) -> None:
        self._report.lines += 1
        self._expected, self._hash = line.number + 1, line.hash
        if line.fields.get("event") == "repair":
            self._report.notes.append(f"line {line.number}: {line.fields.get('found')}")
        if line.number == self._head.lines and line.hash != self._head.hash:
            self._report.problem(name, at, line.number, "it is not the last line that the store knows")

    def _out_of_place(self, number: int) -> str:
        """What is said of a line that stands behind a later one; it is not missing then."""
        for index, gap in enumerate(self._missing):
            if gap.first <= number <= gap.last:
                halves = (gap._replace(last=number - 1), gap._replace(first=number + 1))
                self._missing[index : index + 1] = [half for half in halves if half.first <= half.last]
                return f"it stands behind line {self._expected - 1}: lines were moved"
        return f"it stands behind line {self._expected - 1}: it does not belong there"

    def _unrecorded(self, name: str, at: int, raw: bytes) -> None:
        """A line that the store does not know: what a killed process left, or what somebody added."""
        if not raw.endswith(b"\n") and len(raw) < MAX_LINE_BYTES:
            self._report.notes.append("the last line is not whole; the next write cuts it off")
            return
        try:
            line = decode(raw.removesuffix(b"\n"))
        except NoLine as error:
            self._report.problem(name, at, number_of(raw) or 0, f"{error}, and the store does not know it")
            return
        if (line.number, line.before) != (self._expected, self._hash):
            words = f"it does not follow on line {self._expected - 1}, and the store does not know it"
            self._report.problem(name, at, line.number, words)
        elif not self._known or can_be_left(line, self._left):
            self._left.append(line)
            self._report.notes.append(
                f"line {line.number} is not known to the store; the next write adopts it"
            )
            self._accept(name, at, line)
        else:
            words = "the store does not know it, and no killed process leaves it there"
            self._report.problem(name, at, line.number, words)
