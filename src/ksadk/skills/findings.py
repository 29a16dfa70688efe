"""What is to be said about a SKILL.md, each with its place."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

SKILL_MD = "SKILL.md"
MAX_FINDINGS = 100

_LINE_END = re.compile(r"\r\n|\n|\r")


class Edit(NamedTuple):
    """Characters from `start` to `end` of a text, and what is to stand in their place."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Finding:
    """One thing about a SKILL.md, with its line and column (from 1, in characters) and how to mend it.

    An `error` is against the specification, a `warning` is not. repaired: what the author meant was taken.
    refuses: the skill cannot be loaded with it.
    """

    severity: Literal["error", "warning"]
    code: str
    message: str
    line: int = 1
    column: int = 1
    fix: str = ""
    repaired: bool = False
    refuses: bool = False

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.message}"


@dataclass
class Findings:
    """Findings as they are made about one text."""

    text: str
    found: list[Finding] = field(default_factory=list)
    _lines: list[int] = field(default_factory=list)

    def error(self, index: int, code: str, message: str, fix: str = "", *, refuses: bool = False) -> None:
        """Something against the specification, at a character's place in the text."""
        self.found.append(Finding("error", code, message, *self.place(index), fix, False, refuses))

    def warning(self, index: int, code: str, message: str, fix: str = "", *, repaired: bool = False) -> None:
        """Something that is taken, but to be said."""
        self.found.append(Finding("warning", code, message, *self.place(index), fix, repaired))

    def in_order(self) -> tuple[Finding, ...]:
        """The findings by their places; of more than 100 those that count most, and that there are more."""
        found = sorted(self.found, key=lambda finding: (not finding.refuses, finding.severity))
        more = len(found) - MAX_FINDINGS
        if more > 0:
            found = [
                *found[:MAX_FINDINGS],
                Finding("warning", "more", f"{more:,} more findings are not told"),
            ]
        return tuple(sorted(found, key=lambda finding: (finding.line, finding.column)))

    def place(self, index: int) -> tuple[int, int]:
        """The line and the column of a character; a byte order mark has no column."""
        if not self._lines:
            self._lines += [0, *(end.end() for end in _LINE_END.finditer(self.text))]
        line = bisect_right(self._lines, index)
        column = index - self._lines[line - 1] + 1
        return line, max(column - (line == 1 and self.text.startswith("\ufeff")), 1)
