"""Rules that decide a call before anyone is asked: deny over ask over allow."""

from __future__ import annotations

import fnmatch
import functools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ksadk.errors import KsadkError
from ksadk.tools.registry import Target, Tool, builtin_tools, registered
from ksadk.tools.rule_conditions import Condition, Subject, alternatives, clean_path, holds, same

Verdict = Literal["deny", "ask", "allow"]
VERDICTS: tuple[Verdict, ...] = ("deny", "ask", "allow")
"""The strictest first."""


@dataclass(frozen=True)
class Rule:
    """One rule: for which tool (a name or a pattern with * and ?), with which arguments, and what holds.

    `arguments` must all be equal to the call's, and all conditions of `where` must hold. `expires` is the
    moment, in seconds since the epoch, from which it does not hold; `project` the only project that it is
    for. `file` and `line` say where it is written. A rule on `argv`, the words of a shell command, is refused
    with the code `unsupported_rule`: it would need a shell grammar, and is never approximated.
    """

    verdict: Verdict
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    argv: tuple[str, ...] | None = None
    where: Mapping[str, Condition] = field(default_factory=dict)
    expires: float | None = None
    project: str = ""
    file: str = ""
    line: int = 0

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise KsadkError(f"a rule is deny, ask or allow, not {self.verdict!r}", code="unsupported_rule")
        if self.argv is not None:
            raise KsadkError(
                f"the rule {self.verdict} {self.tool} has argv, which this release cannot judge",
                code="unsupported_rule",
                hint="Write the rule for the tool's arguments.",
            )

    @property
    def place(self) -> str:
        """FILE:LINE; empty where it is written in no file."""
        return f"{self.file}:{self.line}" if self.file else ""

    def expired(self, now: float) -> bool:
        """Whether its time is over."""
        return self.expires is not None and now >= self.expires

    def matches(self, tool_name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether this rule is about a call of a tool that declares nothing about itself."""
        return self.covers(Call(tool_name, arguments))

    def covers(self, call: Call) -> bool:
        """Whether this rule is about that call; its expiry is not looked at."""
        if not any(fnmatch.fnmatchcase(name, self.tool) for name in self._names(call)):
            return False
        if self.project and self.project != call.project:
            return False
        return all(
            name in call.arguments and same(value, call.arguments[name])
            for name, value in self.arguments.items()
        ) and all(self._holds(name, condition, call) for name, condition in self.where.items())

    def _names(self, call: Call) -> tuple[str, ...]:
        return (call.tool_name,) if self.verdict == "allow" else call.tool_names

    def _holds(self, name: str, condition: Condition, call: Call) -> bool:
        return any(self._fits(name, part, call) for part in alternatives(condition))

    def _fits(self, name: str, condition: Condition, call: Call) -> bool:
        tightening = self.verdict != "allow"
        subject = call.subject(name, whole=condition.whole)
        if subject is None:  # the tool has no such argument: a slip in a rule for just this tool fails closed
            return tightening and call.complete and self.tool in call.tool_names
        return holds(condition, subject, tightening)


class Call:
    """A call as rules see it. `targets` is asked for what the call acts on when a condition is about it.

    One that is not `complete` names only some of its arguments, as the self-tests of rules do.
    """

    def __init__(
        self,
        tool_name: str,
        arguments: Mapping[str, Any],
        targets: Callable[[Mapping[str, Any]], Mapping[str, Target]] | None = None,
        project: str = "",
        *,
        complete: bool = True,
    ) -> None:
        self.tool_name = tool_name
        self.complete = complete
        self.arguments = arguments
        self.project = project
        self._targets = targets
        self._found: Mapping[str, Target] | None = None

    @functools.cached_property
    def tool_names(self) -> tuple[str, ...]:
        """The tool's name, and the others under which the same tool is built in."""
        tool = registered(self.tool_name)
        first = tool.facts.get("compat_alias_for", tool.name) if tool else self.tool_name
        others = (each.name for each in builtin_tools() if each.facts.get("compat_alias_for") == first)
        return tuple(dict.fromkeys((self.tool_name, first, *others)))

    @classmethod
    def of(cls, tool: Tool, arguments: Mapping[str, Any], project: str = "") -> Call:
        """A call of a tool with its canonical arguments."""
        return cls(tool.name, arguments, tool.targets, project)

    def subject(self, name: str, *, whole: bool = False) -> Subject | None:
        """What a condition under that name is about, or None where the call has nothing of that name."""
        target = self._target(name)
        if target is not None:
            return Subject(target.kind, target.items, target.root)
        if name not in self.arguments:
            return None
        value = self.arguments[name]
        values = list(value) if isinstance(value, (list, tuple)) and not whole else [value]
        if name == "path" and all(isinstance(item, str) for item in values):
            return Subject("text_path", tuple((clean_path(item),) for item in values))
        return Subject("url" if name == "url" else "value", tuple((item,) for item in values))

    def _target(self, name: str) -> Target | None:
        if self._targets is None:
            return None
        if self._found is None:
            self._found = self._targets(self.arguments)
        return self._found.get(name)


def decide(
    rules: Iterable[Rule],
    tool_name: str,
    arguments: Mapping[str, Any],
    now: float | None = None,
) -> Rule | None:
    """The rule that decides a call of a tool that declares nothing about itself, or None."""
    return decide_call(rules, Call(tool_name, arguments), now)


def decide_call(rules: Iterable[Rule], call: Call, now: float | None = None) -> Rule | None:
    """The rule that decides a call: the strictest of those that match and have not expired, or None.

    Raises what `targets` raises where a condition needs it.
    """
    moment = time.time() if now is None else now
    matching = [rule for rule in rules if not rule.expired(moment) and rule.covers(call)]
    return min(matching, key=lambda rule: VERDICTS.index(rule.verdict), default=None)
