"""Glob patterns and ignore files, matched in time that no pattern or name can make explode."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ksadk.workspace.paths import WorkspaceError

MAX_PATTERN_CHARS = 1_000


@dataclass(frozen=True)
class Glob:
    """A glob over paths with slashes: `*` and `?` stay inside a name, `**` crosses directories.

    A pattern without a slash is matched against the last name.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern or len(self.pattern) > MAX_PATTERN_CHARS or "\0" in self.pattern:
            raise WorkspaceError(
                f"a glob has 1 to {MAX_PATTERN_CHARS:,} characters", code="invalid_glob",
                hint="For example *.py, or src/**/*.py.",
            )  # fmt: skip

    def matches(self, path: str) -> bool:
        pattern = self.pattern.removeprefix("./").lstrip("/")
        if "/" not in pattern:
            return name_matches(pattern, path.rpartition("/")[2])
        return path_matches(tuple(pattern.split("/")), path.split("/"))


def name_matches(pattern: str, name: str) -> bool:
    """Whether one name (without slashes) fits one pattern."""
    return _compiled(pattern)(name) is not None


def path_matches(pattern: tuple[str, ...], names: list[str]) -> bool:
    """Whether the names of a path fit the patterns, of which `**` stands for any number of names.

    Only the last `**` is ever tried again, as it is enough, so that the time is bounded by the product of
    the two lengths.
    """
    at = name = 0
    star, resume = -1, 0
    while name < len(names):
        if at < len(pattern) and pattern[at] == "**":
            star, resume = at, name
            at += 1
        elif at < len(pattern) and name_matches(pattern[at], names[name]):
            at += 1
            name += 1
        elif star >= 0:
            resume += 1
            at, name = star + 1, resume
        else:
            return False
    return all(rest == "**" for rest in pattern[at:])


@dataclass(frozen=True)
class IgnoreRule:
    """One line of an ignore file."""

    pattern: tuple[str, ...]
    anchored: bool
    only_directories: bool
    keep: bool

    @classmethod
    def read(cls, line: str) -> IgnoreRule | None:
        """The rule of a line, by the rules of gitignore; None for a blank or a comment."""
        line = line.rstrip("\r\n")
        line = re.sub(r"(?<!\\)((?:\\\\)*) +$", r"\1", line) if line.endswith(" ") else line
        if not line or line.startswith("#") or len(line) > MAX_PATTERN_CHARS:
            return None
        keep = line.startswith("!")
        line = line[keep:]
        only_directories = line.endswith("/")
        line = line.rstrip("/") if only_directories else line
        anchored = "/" in line
        parts = tuple(part for part in line.split("/") if part)
        if not parts:
            return None
        if parts[-1] == "**" and len(parts) > 1:
            parts = (*parts, "*")  # what is inside, not the directory itself
        return cls(tuple(map(_as_fnmatch, parts)), anchored, only_directories, keep)

    def matches(self, names: list[str], is_directory: bool) -> bool:
        """`names`: the path from the ignore file's directory."""
        if self.only_directories and not is_directory:
            return False
        if self.anchored:
            return path_matches(self.pattern, names)
        return name_matches(self.pattern[0], names[-1])


def read_ignore_file(text: str) -> tuple[IgnoreRule, ...]:
    """The rules of an ignore file, in order."""
    return tuple(rule for rule in map(IgnoreRule.read, text.split("\n")) if rule is not None)


def verdict(
    rules: Iterable[IgnoreRule],
    names: list[str],
    is_directory: bool,
    before_each: Callable[[], None] = lambda: None,
) -> bool | None:
    """Whether rules ignore a path; None where they say nothing. The last rule that fits decides.

    `before_each` is called before each rule is tried, of which there may be many; it may raise to end this.
    """
    said = None
    for rule in rules:
        before_each()
        if rule.matches(names, is_directory):
            said = not rule.keep
    return said


def _as_fnmatch(part: str) -> str:
    """A gitignore name pattern as one of fnmatch: `\\x` is a plain x, and `[^a]` is `[!a]`."""
    part = re.sub(r"\\(.)", lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], part)
    return part.replace("[^", "[!")


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Callable[[str], object]:
    # From Python 3.11 on fnmatch makes each star atomic, so that a name is walked through once for each.
    return re.compile(fnmatch.translate(pattern)).match
