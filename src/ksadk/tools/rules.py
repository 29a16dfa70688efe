"""Rules that decide a call before anyone is asked: deny over ask over allow."""

from __future__ import annotations

import fnmatch
import functools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ksadk.errors import KsadkError
from ksadk.tools.argv_rules import Argv, all_allowed, refused_parts
from ksadk.tools.registry import Target, Tool, builtin_tools, registered
from ksadk.tools.rule_conditions import Condition, Subject, alternatives, clean_path, holds, same

if TYPE_CHECKING:
    from ksadk.tools.command_policy import Judgement
    from ksadk.tools.commands.findings import Part

Verdict = Literal["deny", "ask", "allow"]
VERDICTS: tuple[Verdict, ...] = ("deny", "ask", "allow")
"""The strictest first."""


@dataclass(frozen=True)
class Rule:
    """One rule: for which tool (a name or a pattern with * and ?), with which arguments, and what holds.

    `arguments` must all be equal to the call's, and all conditions of `where` must hold. `expires` is the
    moment, in seconds since the epoch, from which it does not hold; `project` the only project that it is
    for. `file` and `line` say where it is written. `argv` makes it a rule about the commands in the line of
    shell that the argument `command` is, namely those that begin with these words, or if `exact` have no
    others; an allow rule is then for one part of the line, and all must be allowed. `own` where it is the
    user's: only such a rule lifts a refusal of the command policy.
    """

    verdict: Verdict
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    argv: tuple[str, ...] | None = None
    exact: bool = False
    where: Mapping[str, Condition] = field(default_factory=dict)
    expires: float | None = None
    project: str = ""
    file: str = ""
    line: int = 0
    own: bool = True

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise KsadkError(f"a rule is deny, ask or allow, not {self.verdict!r}", code="unsupported_rule")
        if self.argv is not None and (isinstance(self.argv, str) or not all(self.argv[:1]) or not self.argv):
            raise KsadkError("argv is one or more words", code="unsupported_rule")

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
        return self.concerns(call) and (self.argv is None or self._words_fit(self.argv, call))

    def _words_fit(self, words: tuple[str, ...], call: Call) -> bool:
        argv, judged = Argv(tuple(words), self.exact), call.judged
        if judged is None:  # as for a condition on an argument that the tool does not have
            return self.verdict != "allow" and call.complete and self.tool in call.tool_names
        if self.verdict == "allow":
            return all_allowed(judged, [(argv, self.own)])
        return argv.tightens(judged, str(call.line))

    def concerns(self, call: Call) -> bool:
        """The same, the words of a command aside."""
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
    """A call as rules see it. `targets` is asked for what the call acts on when a condition is about it;
    `line` is the line of shell that it runs: the argument `command`, unless its tool says another.

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
        self.line: str | None = arguments.get("command")
        self._targets = targets
        self._found: Mapping[str, Target] | None = None

    @functools.cached_property
    def tool_names(self) -> tuple[str, ...]:
        """The tool's name, and the others under which the same tool is built in."""
        tool = registered(self.tool_name)
        first = tool.facts.get("compat_alias_for", tool.name) if tool else self.tool_name
        others = (each.name for each in builtin_tools() if each.facts.get("compat_alias_for") == first)
        return tuple(dict.fromkeys((self.tool_name, first, *others)))

    @functools.cached_property
    def judged(self) -> Judgement | None:
        """What the command policy says of the line that the call runs, or None where it runs none."""
        from ksadk.tools.command_policy import judge_command

        return judge_command(self.line) if isinstance(self.line, str) else None

    @classmethod
    def of(cls, tool: Tool, arguments: Mapping[str, Any], project: str = "") -> Call:
        """A call of a tool with its canonical arguments."""
        call = cls(tool.name, arguments, tool.targets, project)
        if tool.line is not None:
            call.line = tool.line(arguments)
        return call

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
    standing = [rule for rule in rules if not rule.expired(moment)]
    matching = [rule for rule in standing if rule.covers(call)]
    decides = min(matching, key=lambda rule: VERDICTS.index(rule.verdict), default=None)
    return decides or _together(standing, call)


def _together(rules: Iterable[Rule], call: Call) -> Rule | None:
    """The first of the allow rules on words of commands that let a line through only together, or None."""
    allowing = [rule for rule in rules if rule.verdict == "allow" and rule.argv and rule.concerns(call)]
    if not allowing or call.judged is None or not all_allowed(call.judged, _words_of(allowing)):
        return None
    return allowing[0]


def _words_of(rules: Iterable[Rule]) -> list[tuple[Argv, bool]]:
    return [(Argv(tuple(rule.argv), rule.exact), rule.own) for rule in rules if rule.argv]


def still_refused(rules: Iterable[Rule], call: Call, now: float | None = None) -> list[Part]:
    """The parts of a call's line that the command policy refuses, and that no rule of the user's lifts."""
    moment = time.time() if now is None else now
    allowing = [rule for rule in rules if rule.verdict == "allow" and not rule.expired(moment)]
    given = _words_of(rule for rule in allowing if rule.concerns(call))
    return [] if call.judged is None else refused_parts(call.judged, given)
