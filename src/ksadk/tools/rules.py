"""Rules that decide a call before anyone is asked: deny over ask over allow."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ksadk.errors import KsadkError

Verdict = Literal["deny", "ask", "allow"]
_ORDER: tuple[Verdict, ...] = ("deny", "ask", "allow")


@dataclass(frozen=True)
class Rule:
    """One rule: for which tool (a name or a pattern with * and ?), with which arguments, and what holds.

    `arguments` must all be equal to the call's. A rule on `argv`, the words of a shell command, is refused
    with the code `unsupported_rule`: it would need a shell grammar, and is never approximated.
    """

    verdict: Verdict
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    argv: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.verdict not in _ORDER:
            raise KsadkError(f"a rule is deny, ask or allow, not {self.verdict!r}", code="unsupported_rule")
        if self.argv is not None:
            raise KsadkError(
                f"the rule {self.verdict} {self.tool} has argv, which this release cannot judge",
                code="unsupported_rule",
                hint="Write the rule for the tool's arguments.",
            )

    def matches(self, tool_name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether this rule is about that call."""
        if not fnmatch.fnmatchcase(tool_name, self.tool):
            return False
        return all(name in arguments and arguments[name] == value for name, value in self.arguments.items())


def decide(rules: Iterable[Rule], tool_name: str, arguments: Mapping[str, Any]) -> Rule | None:
    """The rule that decides a call, the strictest of those that match, or None."""
    matching = [rule for rule in rules if rule.matches(tool_name, arguments)]
    return min(matching, key=lambda rule: _ORDER.index(rule.verdict), default=None)
