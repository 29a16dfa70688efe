"""Reads the rules of one file: each with its line, and with what is wrong with it."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Literal

from ksadk.config_file import compose
from ksadk.errors import KsadkError
from ksadk.project_files import ProjectFileError, text_of
from ksadk.tools.argv_rules import read_argv
from ksadk.tools.rule_conditions import BadRule, Condition, read_condition, text_size
from ksadk.tools.rule_meaning import KEYS, TOOL, meant, verdict_near
from ksadk.tools.rule_self_tests import self_test
from ksadk.tools.rules import VERDICTS, Rule, Verdict

Source = Literal["user", "project"]
State = Literal["holds", "expired", "bad", "ignored"]

MAX_NODES = 50_000
"""Values in the rules of a file, each counted as often as an alias repeats it."""

MAX_RULES = 2_000
"""Rules in a file; those behind them are bad."""

MAX_CONDITIONS, MAX_TESTS = 200, 50
"""In one rule: conditions, those inside `any` among them, and calls in `match` and `not_match`."""

MAX_TEST_WORK = 20_000_000
"""Characters of conditions times those of their self-tests, of all rules of a file: a few seconds."""

MEND = "Mend the file: until then no call is made that its rules could be about."


class InvalidRules(KsadkError, ValueError):
    """A file of rules that cannot be read, or a rule that cannot be saved; names the file and line."""

    code = "invalid_rules"


@dataclass(frozen=True)
class Entry:
    """One rule as it is written, and the `rule` that holds for it.

    A rule that is bad (`problem` says why) allows nothing; one that should have denied or asked does so for
    every call of its tool, until it is mended. `project` is a real path.
    """

    source: Source
    file: str
    line: int
    verdict: Verdict | None
    tool: str
    where: Mapping[str, Any]
    reason: str
    expires: str
    project: str
    rule: Rule | None
    problem: str = ""
    argv: Any = None

    def state(self, now: float, *, trusted: bool) -> State:
        """What has become of it. A rule of a project that is not trusted is ignored if it would allow."""
        if self.problem:
            return "bad"
        if self.rule is not None and self.rule.expired(now):
            return "expired"
        if self.source == "project" and self.verdict == "allow" and not trusted:
            return "ignored"
        return "holds"


@dataclass(frozen=True, eq=False)
class RuleFile:
    """The rules of one file; `digest` is the SHA-256 of its bytes."""

    source: Source
    path: str
    digest: str
    entries: tuple[Entry, ...]

    def standing(self, *, trusted: bool) -> list[Rule]:
        """The rules that hold, those that have expired among them."""
        tightening_only = self.source == "project" and not trusted
        rules = [entry.rule for entry in self.entries if entry.rule is not None]
        return [rule for rule in rules if rule.verdict != "allow" or not tightening_only]


def read_rules(path: str, data: bytes, source: Source) -> RuleFile:
    """The rules in the bytes of a file: the user's, or a project's `agentengine.yaml`.

    Raises `InvalidRules` where the file as a whole cannot be read; a rule that is bad is one of the entries.
    """
    digest = hashlib.sha256(data).hexdigest()
    if source == "project" and b"approval" not in data and b"\\" not in data:
        return RuleFile(source, path, digest, ())  # it can hold no rules, so it need not be YAML
    reader = _Reader(path, source)
    return RuleFile(source, path, digest, tuple(map(reader.entry, reader.items(data))))


@dataclass
class _Draft:
    """What has been read of a rule so far."""

    line: int
    verdict: Verdict | None = None
    tool: str = ""
    where: dict[str, Any] = field(default_factory=dict)
    conditions: dict[str, Condition] = field(default_factory=dict)
    reason: str = ""
    argv: Any = None
    words: tuple[str, ...] | None = None
    exact: bool = False
    expires: str = ""
    moment: float | None = None
    project: str = ""
    tests: dict[str, list[Any]] = field(default_factory=dict)


class _Reader:
    def __init__(self, path: str, source: Source) -> None:
        self._path = path
        self._source: Source = source
        self._nodes = 0
        self._rules = self._work = 0

    def items(self, data: bytes) -> list[Any]:
        """The node of each rule."""
        path = Path(self._path)
        try:
            root = compose(path, text_of(path, data))
        except ProjectFileError as error:
            raise InvalidRules(error.message, hint=MEND) from error
        if root is None or _is_null(root):
            return []
        if self._source == "user":
            rules = self._members(root, ("rules",), "a file of rules begins with rules:").get("rules")
        else:
            members = self._members(root, None, "an agentengine.yaml has keys and values")
            approval = members.get("approval")
            if approval is None or _is_null(approval):
                return []
            rules = self._members(approval, ("rules",), "approval has rules:").get("rules")
        if rules is None or _is_null(rules):
            return []
        if rules.id != "sequence":
            raise self._fail(_line(rules), "rules must be a list, each rule after a -")
        return list(rules.value)

    def _members(self, node: Any, known: tuple[str, ...] | None, otherwise: str) -> dict[str, Any]:
        if node.id != "mapping":
            raise self._fail(_line(node), otherwise)
        members: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if known is not None and name not in known:
                raise self._fail(_line(key), f"unknown key {name[:80]!r}; {otherwise}")
            if name in members and name in ("rules", "approval"):
                raise self._fail(_line(key), f"{name} is given twice")
            members[name] = value
        return members

    def _fail(self, line: int, message: str) -> InvalidRules:
        return InvalidRules(f"{self._path}:{line}: {message}", hint=MEND)

    def entry(self, node: Any) -> Entry:
        """One rule; what is wrong with it is told in it."""
        draft = _Draft(_line(node))
        self._rules += 1
        problem = ""
        try:
            if self._rules > MAX_RULES:
                raise BadRule(f"a file has at most {MAX_RULES:,} rules")
            self._read(node, draft)
            rule = self._rule(draft)
            self_test(rule, draft.tests)
        except (ValueError, KsadkError) as error:
            problem = error.message if isinstance(error, KsadkError) else str(error)
            rule = None
        except RecursionError:
            problem, rule = "it is nested too deeply", None
        if problem:
            draft.verdict, draft.tool = meant(node)
            rule = self._in_its_place(draft, problem)
        return Entry(
            self._source, self._path, draft.line, draft.verdict, draft.tool, draft.where, draft.reason,
            draft.expires, draft.project, rule, problem, draft.argv,
        )  # fmt: skip

    def _rule(self, draft: _Draft) -> Rule:
        assert draft.verdict is not None
        return Rule(
            draft.verdict, draft.tool, reason=draft.reason, argv=draft.words, exact=draft.exact,
            where=draft.conditions, expires=draft.moment, project=draft.project, file=self._path,
            line=draft.line, own=self._source == "user",
        )  # fmt: skip

    def _in_its_place(self, draft: _Draft, problem: str) -> Rule | None:
        """What holds instead of a bad rule: the same for every call of its tool, unless it would allow."""
        if draft.verdict in (None, "allow"):
            return None
        return Rule(
            draft.verdict, draft.tool or "*", reason=f"this rule is broken: {problem}",
            expires=draft.moment, file=self._path, line=draft.line,
        )  # fmt: skip

    def _read(self, node: Any, draft: _Draft) -> None:
        if node.id != "mapping":
            raise BadRule("a rule has keys and values, such as deny: run_command")
        if any(key.id != "scalar" for key, _ in node.value):
            raise BadRule("a key is no text, or is given twice")
        members = {key.value: value for key, value in node.value}
        self._verdict(members, draft)
        if len(members) < len(node.value):
            raise BadRule("a key is given twice")
        unknown = next((name for name in members if name not in KEYS), None)
        if unknown is not None:
            near = difflib.get_close_matches(unknown[:64], KEYS, 1)
            known = f"did you mean {near[0]}?" if near else "known are " + ", ".join(KEYS)
            raise BadRule(f"unknown key {unknown[:80]!r}; {known}")
        draft.reason = self._text(members, "reason")
        draft.expires = str(members["expires"].value) if "expires" in members else ""
        draft.moment = _moment(draft.expires) if "expires" in members else None
        draft.project = self._text(members, "project")
        if draft.project and not draft.project.startswith("/"):
            raise BadRule("project is the whole path of a directory, beginning with /")
        if draft.project:  # calls name theirs without links
            draft.project = os.path.realpath(draft.project)
        self._where(members.get("where"), draft)
        if "argv" in members:
            draft.argv = self._value(members["argv"])
            draft.words, draft.exact = read_argv(draft.argv)
        for kind in ("match", "not_match"):
            calls = self._value(members[kind]) if kind in members else []
            if not isinstance(calls, list):
                raise BadRule(f"{kind} is a list of calls")
            draft.tests[kind] = calls
        if sum(map(len, draft.tests.values())) > MAX_TESTS:
            raise BadRule(f"match and not_match have at most {MAX_TESTS} calls in all")
        parsed = 10 if draft.words else 0  # reading a line of shell is as much work
        self._work += (text_size(draft.where) + parsed) * text_size(draft.tests)
        if self._work > MAX_TEST_WORK:
            raise BadRule("the conditions and self-tests up to here are too long to be tried")

    def _verdict(self, members: Mapping[str, Any], draft: _Draft) -> None:
        found = [verdict for verdict in VERDICTS if verdict in members]
        if not found:
            near = next(((key, word) for key in members if (word := verdict_near(key))), None)
            raise BadRule(
                f"unknown key {near[0][:80]!r}; did you mean {near[1]}?" if near
                else "it has none of deny, ask and allow"
            )  # fmt: skip
        draft.verdict = found[0]
        tool = self._value(members[found[0]])
        if not isinstance(tool, str) or not TOOL.fullmatch(tool):
            raise BadRule(f"{found[0]} takes the name of a tool, or a pattern with * and ?")
        draft.tool = tool
        if len(found) > 1:
            raise BadRule(f"it has both {found[0]} and {found[1]}")

    def _where(self, node: Any, draft: _Draft) -> None:
        if node is None:
            return
        where = self._value(node)
        if not isinstance(where, dict):
            raise BadRule("where has an argument's name and a condition on each line")
        draft.where = where
        if sum(map(_conditions_in, where.values())) > MAX_CONDITIONS:
            raise BadRule(f"a rule has at most {MAX_CONDITIONS} conditions")
        draft.conditions = {name: read_condition(name, value) for name, value in where.items()}

    def _text(self, members: Mapping[str, Any], key: str) -> str:
        if key not in members:
            return ""
        value = self._value(members[key])
        if not isinstance(value, str):
            raise BadRule(f"{key} must be text")
        return value

    def _value(self, node: Any) -> Any:
        """The value of a node, as JSON has it."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise BadRule(f"the rules of this file hold more than {MAX_NODES:,} values")
        if node.id == "mapping":
            members: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = self._value(key_node)
                if not isinstance(key, str) or key in members:
                    raise BadRule("a key is no text, or is given twice")
                members[key] = self._value(value_node)
            return members
        if node.id == "sequence":
            return [self._value(item) for item in node.value]
        return _scalar(node)


def _conditions_in(written: Any) -> int:
    members = written.get("any") if isinstance(written, Mapping) else None
    return sum(map(_conditions_in, members)) if isinstance(members, list) else 1


def _scalar(node: Any) -> Any:
    kind, text = node.tag.rpartition(":")[2], node.value
    if kind == "null":
        return None
    if kind == "bool":
        return bool(text.lower() == "true")
    if kind == "int":
        return int(text.replace("_", ""), 0 if text.lower().lstrip("+-").startswith(("0x", "0o")) else 10)
    if kind == "float":
        return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    if kind in ("str", "timestamp"):
        return text
    raise BadRule(f"{node.tag} is no type of a value here")


def _moment(text: str) -> float:
    """The moment at which a rule ends: the end of a day, in this machine's time, or an RFC 3339 time."""
    try:
        if len(text) == 10:
            day = date.fromisoformat(text) + timedelta(days=1)
            return datetime.combine(day, time()).timestamp()
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise BadRule(f"expires is {text[:40]!r}: a date such as 2027-01-31 is expected") from None
    if moment.tzinfo is None:
        raise BadRule("expires has a time without a time zone; write it as 2027-01-31T12:00:00Z")
    return moment.timestamp()


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _is_null(node: Any) -> bool:
    return bool(node.id == "scalar" and node.tag.endswith(":null"))
