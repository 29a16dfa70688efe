"""Glob patterns, matched in time that no pattern or name can make explode."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

from ksadk.workspace.paths import WorkspaceError

MAX_PATTERN_CHARS = 1_000
MAX_ALTERNATIVES = 100

_BRACES = re.compile(r"\{([^{},]*+(?:,[^{},]*+)++)\}")
"""Braces with no others in them, found without ever trying again."""


@dataclass(frozen=True)
class Glob:
    """A glob over paths with slashes: `*` and `?` stay inside a name, `**` crosses directories, and `{a,b}`
    is either of them.

    A pattern without a slash is matched against the last name.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern or len(self.pattern) > MAX_PATTERN_CHARS or "\0" in self.pattern:
            raise WorkspaceError(
                f"a glob has 1 to {MAX_PATTERN_CHARS:,} characters", code="invalid_glob",
                hint="For example *.py, or src/**/*.{js,ts}.",
            )  # fmt: skip
        _alternatives(self.pattern)

    def matches(self, path: str) -> bool:
        return any(_matches(pattern, path) for pattern in _alternatives(self.pattern))


def _matches(pattern: str, path: str) -> bool:
    if "/" not in pattern:
        return name_matches(pattern, path.rpartition("/")[2])
    return path_matches(tuple(pattern.split("/")), path.split("/"))


@functools.lru_cache(maxsize=64)
def _alternatives(pattern: str) -> tuple[str, ...]:
    """The patterns without braces that a glob stands for. Braces without a comma are plain characters."""
    waiting, plain = [pattern], dict[str, None]()
    while waiting:
        text = waiting.pop()
        braces = _BRACES.search(text)
        if braces is None:
            plain[text.removeprefix("./").lstrip("/")] = None
            continue
        before, after = text[: braces.start()], text[braces.end() :]
        waiting += [before + choice + after for choice in braces[1].split(",")]
        if len(waiting) + len(plain) > MAX_ALTERNATIVES:
            raise WorkspaceError(
                f"a glob stands for at most {MAX_ALTERNATIVES} patterns without braces", code="invalid_glob"
            )
    return tuple(plain)


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


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Callable[[str], object]:
    # From Python 3.11 on fnmatch makes each star atomic, so that a name is walked through once for each.
    return re.compile(fnmatch.translate(pattern)).match
