"""Interpreters: whether they run a file of the project, a text of the line, or what they are sent."""

from __future__ import annotations

import re
from typing import Protocol

from ksadk.tools.commands.findings import PROJECT, READS, WRAPS, Finding, unclear, worst
from ksadk.tools.commands.flags import read_flags
from ksadk.tools.commands.operands import Writes, leads_elsewhere
from ksadk.tools.commands.places import leads_outside, may_be_code
from ksadk.tools.commands.scripts import awk_only_transforms, python_does
from ksadk.tools.commands.words import UNKNOWN, Redirect, Word, shown

SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash"})
_FLAGS = {
    "python3": "-uBOIEsSqbvP -W= -X=",
    "node": "--test --watch --check -c --no-warnings --enable-source-maps --test-reporter= --trace-warnings "
    "--test-name-pattern= --max-old-space-size= --experimental-vm-modules",
    "ruby": "-wc",
    "perl": "-wc",
    "php": "-l",
    "lua": "",
    "Rscript": "--vanilla",
    "java": "%cp= %classpath= %ea %jar",
}
NAMES = SHELLS | frozenset(_FLAGS)
_SHELL_FLAGS = re.compile(r"[-+][euxvnc]+|--norc|--noprofile")
_SHELL_OPTION = re.compile(r"[-+][euxvn]*o")
_SHELL_OPTIONS = frozenset({"pipefail", "errexit", "nounset", "xtrace"})
_MODULES = frozenset(
    {
        "pytest", "unittest", "mypy", "ruff", "black", "isort", "flake8", "pylint", "pyright", "coverage",
        "pip", "build", "venv", "json.tool", "compileall", "py_compile", "doctest", "tox", "nox", "bandit",
        "vulture", "pre_commit", "mkdocs",
    }
)  # fmt: skip
"""Modules that `python -m` runs as the program of that name, which the tables know."""


_CODE = {
    "computes": READS,
    "imports": PROJECT,
    None: Finding("ask", "runs_code", "runs Python code that is given here"),
}


class Starter(Protocol):
    """The judge, as far as programs that start others need it."""

    def nested_line(self, word: Word, *, same_shell: bool = False) -> Finding:
        """Judge the text of a word as a line."""

    def named(self, name: str, rest: tuple[Word, ...], redirects: list[Redirect], written: Writes) -> Finding:
        """Judge a program by its name and arguments."""


def judge_interpreter(
    judge: Starter, name: str, rest: tuple[Word, ...], redirects: list[Redirect], written: Writes
) -> Finding:
    """What an interpreter runs."""
    if name in SHELLS:
        return _shell(judge, name, rest, redirects)
    if name == "python3":
        module = next((number for number, word in enumerate(rest) if word.text == "-m"), len(rest))
        before = read_flags(_FLAGS[name], rest[:module])
        if module + 1 < len(rest) and not before.problem and not before.operands:
            return _module(judge, rest[module + 1 :], redirects, written)
        if len(rest) == 2 and rest[0].text == "-c" and rest[1].known:
            return _CODE[python_does(shown(rest[1].text))]
    reading = read_flags(_FLAGS[name], rest, first_operand_ends=True)
    if reading.problem:
        return Finding("ask", "runs_code", f"{name} may run code that is given here: {reading.problem}")
    if any(leads_elsewhere(value) for value in reading.values):
        return Finding("ask", "runs_code", f"{name} runs code from outside of the workspace")
    if name == "node" and rest and rest[0].text == "--test":
        files = read_flags(_FLAGS[name], rest).operands
        return worst([PROJECT, *(_file(name, word) for word in files)])
    return _file(name, reading.operands[0]) if reading.operands else _sent(name)


def judge_watch(judge: Starter, rest: tuple[Word, ...]) -> Finding:
    """What watch runs again and again: its operands are one line of shell."""
    reading = read_flags("-dtceg -n= --interval= --differences?", rest, first_operand_ends=True)
    words = rest[reading.rest :]
    if reading.problem or not words:
        return unclear(f"watch: {reading.problem or 'of nothing'}")
    text = " ".join(word.text for word in words)
    plain = not any(word.splits for word in words)
    return judge.nested_line(Word(text, 0, 0, splits=not plain))


def _module(judge: Starter, words: tuple[Word, ...], redirects: list[Redirect], written: Writes) -> Finding:
    name = words[0].text
    if words[0].known and name in _MODULES:
        return judge.named(name.replace("pre_commit", "pre-commit"), words[1:], redirects, written)
    return Finding("ask", "runs_code", "runs a Python module that is not known")


def _file(name: str, word: Word) -> Finding:
    if not word.known or word.text == "-" or leads_outside(word.text):
        return Finding("ask", "runs_code", f"{name} runs code from outside of the workspace")
    if not may_be_code(word.text):
        return Finding("ask", "runs_code", f"{name} runs a file whose name is not that of code")
    return PROJECT


def _sent(name: str) -> Finding:
    return Finding("ask", "runs_code", f"{name} runs what it is sent")


def _shell(judge: Starter, name: str, rest: tuple[Word, ...], redirects: list[Redirect]) -> Finding:
    at, given, only_reads = 0, False, False
    while at < len(rest) and (rest[at].may_be_flag or rest[at].text.startswith("+")):
        text = rest[at].text
        at += 1
        if _SHELL_OPTION.fullmatch(text):
            at += 1
            if at > len(rest) or rest[at - 1].text not in _SHELL_OPTIONS:
                return Finding("ask", "runs_code", f"{name} with an option that is not known")
        elif not _SHELL_FLAGS.fullmatch(text):
            return Finding("ask", "runs_code", f"{name}: {text.replace(UNKNOWN, '...')} is not known")
        elif not text.startswith("--"):
            given |= "c" in text
            only_reads |= text.startswith("-") and "n" in text
    if given:
        return judge.nested_line(rest[at]) if at < len(rest) else _sent(name)
    if at < len(rest):
        return READS if only_reads else _file(name, rest[at])
    return _standard_input(judge, name, redirects)


def _standard_input(judge: Starter, name: str, redirects: list[Redirect]) -> Finding:
    sources = [redirect for redirect in redirects if redirect.operator in ("<<", "<<<", "<", "<>", "<&")]
    if len(sources) != 1:
        return _sent(name)
    source = sources[0]
    if source.operator == "<":
        return _file(name, source.target)
    text = source.body if source.operator == "<<" else source.target
    if text is None or source.operator not in ("<<", "<<<"):
        return _sent(name)
    return worst([WRAPS, judge.nested_line(text)])


def judge_awk(rest: tuple[Word, ...]) -> Finding:
    """What awk does: a program that only transforms text is fine."""
    reading = read_flags("-F= -v= --field-separator= --assign= --version", rest, first_operand_ends=True)
    program = reading.operands[0] if reading.operands else None
    if reading.problem or program is None or UNKNOWN in program.text or program.splits:
        return unclear("awk may run programs or write files")
    if not awk_only_transforms(program.text):
        return unclear("awk may run programs or write files")
    return READS
