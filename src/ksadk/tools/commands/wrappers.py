"""Programs that start another program: what is theirs of a line, and where the other begins."""

from __future__ import annotations

import re
from typing import NamedTuple

from ksadk.tools.commands.findings import Finding, unclear
from ksadk.tools.commands.flags import read_flags, read_table
from ksadk.tools.commands.programs import PROGRAMS
from ksadk.tools.commands.words import UNKNOWN, Assignment, Word, shown

_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)

_TABLE = {
    "timeout": ("-k= -s= -v --foreground --preserve-status --kill-after= --signal=", 1),
    "nice": ("-# -n= --adjustment=", 0),
    "nohup": ("", 0),
    "stdbuf": ("-i= -o= -e= --input= --output= --error=", 0),
    "setsid": ("-cfw --wait --fork --ctty", 0),
    "ionice": ("-t -c= -n= --class= --classdata=", 0),
    "time": ("-pv", 0),
    "command": ("-p", 0),
    "builtin": ("", 0),
    "exec": ("-cl", 0),
    "busybox": ("", 0),
    "xargs": (
        "-0rtx -n= -P= -L= -s= -d= -I= -E= --null --no-run-if-empty --max-args= --max-procs= --delimiter= "
        "--max-lines= --replace= --verbose",
        0,
    ),
    "env": ("-i0v -u= --ignore-environment --unset=", 0),
    "uv run": ("--frozen --locked --no-sync --all-extras --dev --quiet -q --extra= --group=", 0),
    "poetry run": ("", 0),
    "pdm run": ("", 0),
    "hatch run": ("", 0),
    "pipenv run": ("", 0),
    "bundle exec": ("", 0),
    "npx": ("--no-install --no", 0),
    "pnpm exec": ("", 0),
    "yarn exec": ("", 0),
    "xvfb-run": ("-a --auto-servernum", 0),
}
"""The harmless flags of each, and how many operands of its own come first."""

WRAPPERS = frozenset(_TABLE)
LAUNCHERS = frozenset({"npx", "pnpm exec", "yarn exec"})
"""Those that fetch a package of that name where none is installed."""
LAUNCHED = frozenset({"jest", "vitest", "mocha", "tsc", "eslint", "prettier", "stylelint"})
"""What they may start: packages whose names are known."""


class Inner(NamedTuple):
    """What a wrapper starts, or what is not harmless about the wrapper itself."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...] = ()
    problem: Finding | None = None


def unwrap(name: str, words: tuple[Word, ...]) -> Inner:
    """What the wrapper `name` starts with these arguments."""
    flags, own = _TABLE[name]
    reading = read_flags(flags, words, first_operand_ends=True)
    if reading.problem:
        return Inner(words[reading.rest :], problem=unclear(f"{name}: {reading.problem}"))
    rest = list(reading.operands if _ended(words, reading.rest) else words[reading.rest :])
    if any(word.splits for word in rest[:own]):
        return Inner(tuple(rest[own:]), problem=unclear(f"{name} of what only the run will tell"))
    rest = rest[own:]
    assignments = []
    if name == "env":
        while rest and (found := _ASSIGNED.fullmatch(rest[0].text)):
            assignments.append(Assignment(found[1], rest.pop(0)._replace(text=found[2])))
    if name == "xargs":
        rest = _with_input(rest, [value.word.text for value in reading.values if value.flag in _REPLACED])
    return Inner(tuple(rest), tuple(assignments))


_REPLACED = ("-I", "--replace")


def _ended(words: tuple[Word, ...], rest: int) -> bool:
    """Whether the flags were ended by --, behind which all words are operands."""
    return rest >= len(words) or any(word.text == "--" for word in words[:rest])


def _with_input(words: list[Word], replaced: list[str]) -> list[Word]:
    """The words that xargs runs, with what it reads: behind them, or in place of {}."""
    if not words:
        return words
    if replaced:
        return [
            word._replace(text=word.text.replace(text, UNKNOWN), known=False) if text in word.text else word
            for word in words
            for text in (replaced[-1] or "{}",)
        ]
    end = words[-1].end
    return [*words, Word(UNKNOWN, end, end, known=False, splits=True)]


_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


class Found(NamedTuple):
    """What find does: the commands that it runs on what it finds, and what else is not only reading."""

    commands: list[tuple[Word, ...]]
    problem: Finding | None


def read_find(words: tuple[Word, ...], outside: bool) -> Found:
    """What find does with these arguments. `outside`: it begins outside of the workspace."""
    commands: list[tuple[Word, ...]] = []
    table = read_table(PROGRAMS["find"][1])
    at, problem = 0, None
    while at < len(words):
        word = words[at]
        at += 1
        if word.text in _FIND_RUNS:
            end = next((n for n in range(at, len(words)) if words[n].text in (";", "+")), len(words))
            if end == len(words):
                problem = unclear("find runs a command that has no end")
            commands.append(tuple(_on_found(inner) for inner in words[at:end]))
            at = end + 1
        elif word.text in table.valued:
            at += 1
            if at > len(words) or words[at - 1].splits or words[at - 1].glob:
                problem = problem or unclear("find: an argument may become several")
        elif word.text == "-delete":
            problem = _deletes(outside)
        elif word.text not in table.plain and word.may_be_flag:
            text = shown(word.text).replace(UNKNOWN, "...")
            problem = problem or unclear(f"find: {text} is not known to be harmless")
    return Found(commands, problem)


def _deletes(outside: bool) -> Finding:
    if outside:
        return Finding("reject", "recursive_delete", "deletes what it finds outside of the workspace")
    return Finding("ask", "deletes", "deletes what it finds")


def _on_found(word: Word) -> Word:
    """A word of a command that find runs: {} is a file that it found, whose path begins as find's does."""
    if "{}" not in word.text:
        return word
    return word._replace(text=word.text.replace("{}", f"./{UNKNOWN}"), known=False)
