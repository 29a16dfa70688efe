"""Rules on the words of shell commands: what a rule on `argv` is about, part by part of a line.

Allowing and tightening are not mirror images. A line is allowed when every part of it is; one that denies or
asks holds as soon as it may be about one part.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ksadk.tools.rule_conditions import BadRule

if TYPE_CHECKING:
    from ksadk.tools.command_policy import Judgement
    from ksadk.tools.commands.findings import Part

MAX_WORDS = 100
"""In one rule."""

_UNKNOWN = "\0"

_FREE = ("harmless", "wrapper")
"""Parts that need no rule: they change nothing, or only start another part."""

_VOUCHED = ("unknown_program", "network")
"""What is asked about since the policy does not know the program: a rule for it is somebody's word for it."""

_LIFTED = ("recursive_delete", "refused_program", "git_refused", "metadata_host")
"""Refusals of a program and its words, and not of a place that is written to."""


@dataclass(frozen=True)
class Argv:
    """The words of a command that a rule is about: those that it begins with, or, if `exact`, all of them."""

    words: tuple[str, ...]
    exact: bool = False

    def tightens(self, judged: Judgement, line: str) -> bool:
        """Whether a rule that denies or asks is about a line: about a part, as far as can be told."""
        if any(self._may_be(part) for part in judged.parts):
            return True
        return not judged.proven and _name(self.words[0]) in re.sub(r"[\\'\"]", "", line)

    def allows(self, part: Part, *, own: bool) -> bool:
        """Whether an allow rule lets a part through. Only one of the user's `own` lifts a refusal, and only
        for exactly its words."""
        if part.around.reason != "harmless":
            return False
        finding = part.finding
        if finding.verdict == "reject":
            return own and self.exact and can_be_lifted(part) and self._is(part)
        if finding.verdict == "ask":
            vouched = self.exact or finding.reason in _VOUCHED
            return vouched and part.fixed and self._is(part)
        return self._is(part)

    def _is(self, part: Part) -> bool:
        words = part.argv if self.exact else part.argv[: len(self.words)]
        return words == self.words

    def _may_be(self, part: Part) -> bool:
        """Whether a part may turn out to be the command. Flags in front of a word, each with a value, are
        passed over, and so is the directory of the program."""
        if not part.argv:
            return False
        first, *rest = part.argv
        if _UNKNOWN in first:
            return True
        if _name(first) != _name(self.words[0]):
            return False
        at = 0
        for wanted in self.words[1:]:
            while at < len(rest) and not _may_equal(rest[at], wanted) and rest[at].startswith("-"):
                at += 1 if at + 1 < len(rest) and _may_equal(rest[at + 1], wanted) else 2
            if at >= len(rest) or not _may_equal(rest[at], wanted):
                return False
            if _UNKNOWN in rest[at]:
                return True
            at += 1
        return not self.exact or at == len(rest)


def can_be_lifted(part: Part) -> bool:
    """Whether a rule of the user's own, of exactly its words, lifts the refusal of a part."""
    return part.fixed and part.finding.reason in _LIFTED and part.around.reason == "harmless"


def _name(word: str) -> str:
    return posixpath.basename(word)


def _may_equal(word: str, wanted: str) -> bool:
    if _UNKNOWN not in word:
        return word == wanted
    return re.fullmatch(".*".join(map(re.escape, word.split(_UNKNOWN))), wanted, re.DOTALL) is not None


def all_allowed(judged: Judgement, rules: Iterable[tuple[Argv, bool]]) -> bool:
    """Whether the rules that allow, each with whether it is the user's own, together let a line through."""
    given = list(rules)
    needing = [part for part in judged.parts if not _is_free(part)]
    return judged.proven and bool(needing) and all(_is_allowed(part, given) for part in needing)


def refused_parts(judged: Judgement, rules: Sequence[tuple[Argv, bool]]) -> list[Part]:
    """The parts whose refusal no rule lifts."""
    refused = [part for part in judged.parts if part.finding.verdict == "reject"]
    return [part for part in refused if not _is_allowed(part, rules)]


def _is_free(part: Part) -> bool:
    return part.finding.reason in _FREE and part.around.reason == "harmless"


def _is_allowed(part: Part, rules: Iterable[tuple[Argv, bool]]) -> bool:
    return any(argv.allows(part, own=own) for argv, own in rules)


def read_argv(written: Any) -> tuple[tuple[str, ...], bool]:
    """The words as a file of rules has them, `[git, log]` or `{equals: [git, push]}`, and whether there may
    be no others; raises `BadRule`."""
    exact = isinstance(written, Mapping) and list(written) == ["equals"]
    words = written["equals"] if exact else written
    plain = isinstance(words, list) and 0 < len(words) <= MAX_WORDS
    if not plain or not all(isinstance(word, str) and "\0" not in word for word in words) or not words[0]:
        raise BadRule("argv is the words that a command begins with, [git, log], or {equals: [git, push]}")
    return tuple(words), exact
