"""What the programs of the table do, by their flags and operands."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ksadk.tools.commands.findings import CHANGES, HARMLESS, PROJECT, READS, Finding, unclear, worst
from ksadk.tools.commands.flags import Reading, Value, read_flags
from ksadk.tools.commands.places import (
    SINKS,
    is_protected,
    judge_write,
    leads_outside,
    may_be_code,
    protected,
)
from ksadk.tools.commands.programs import PROGRAMS
from ksadk.tools.commands.scripts import sed_only_transforms
from ksadk.tools.commands.words import UNKNOWN, Word

_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--r(?:e(?:c(?:u(?:r(?:s(?:i(?:v(?:e)?)?)?)?)?)?)?)?")
_MAKE_VARIABLE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)[:+?]?=(?P<value>.*)", re.DOTALL)
_MAKE_PROGRAMS = re.compile(
    r"SHELL|\.SHELLFLAGS|MAKE.*|CC|CXX|CPP|LD|AR|AS|RM|.*(?:COMMAND|PROGRAM|SHELL|EXEC)"
)
_PLAIN_VALUE = re.compile(r"[\w./:@,+=-]*", re.ASCII)
_CMAKE_PROGRAMS = re.compile(
    r"(?!CMAKE_EXPORT_COMPILE_COMMANDS\b)[A-Z_]*(?:COMPILER|LAUNCHER|COMMAND|PROGRAM|TOOLCHAIN|EXECUTABLE|LINKER"
    r"|MODULE_PATH|RULES|PROJECT_\w*INCLUDE)"
)
_LOADED = frozenset({"-f", "--format", "-R", "--reporter", "--output-format", "-cp", "-classpath"})
"""Flags whose value may be code: a formatter, a reporter, a class path."""
_DOCTEST = frozenset({"pytest", "py.test", "doctest"})
"""Programs that run the examples of a text that they are given."""
_TAR_LIST = re.compile(r"-?[tvfzjJ]*t[tvfzjJ]*")
_TAR_CREATE = re.compile(r"-?(?=[cvfzjJ]*c)[cvzjJ]*f")
_MODE = re.compile(r"[ugoa]*[+=-][rwxX]+|0?[0-7]{3}")
_GOALS = {"mvn": re.compile(r"[A-Za-z][\w-]*"), "gradle": re.compile(r"[\w:-]+")}
_COMPILER = frozenset({"-W", "-f", "-m"})
_COMPILER_VALUE = re.compile(r"(?!.*(?:plugin|use-ld|dump|profile|llvm))[\w+=-]*", re.ASCII)

_DELETE = frozenset({"rm", "unlink", "truncate"})
_EMPTY = frozenset({"mkdir", "rmdir", "touch", "venv", *_DELETE})
"""What these leave behind is no code."""
_INTO = frozenset({"cp", "mv", "ln"})
"""Programs whose last operand may be a directory, into which the others are put."""

_GCC = dict.fromkeys(("g++", "cc", "c++", "clang", "clang++"), "gcc")

Writes = list[Word]


def judge_known(name: str, words: tuple[Word, ...], writes: Writes, *, elsewhere: bool) -> Finding | None:
    """The finding about a program of the table, or None where it is not in it. Files in which it puts
    something are added to `writes`."""
    entry = PROGRAMS.get(name)
    if entry is None:
        return None
    kind, flags = entry
    if kind in ("any", "shell"):
        return READS if kind == "any" else HARMLESS
    if kind == "tar":
        return _tar(words, writes, elsewhere=elsewhere)
    if kind == "sed":
        flags += " -e= -i? --expression= --in-place?"
    if name == "rm" and any(_RECURSIVE.fullmatch(word.text) for word in words):
        return Finding("reject", "recursive_delete", "deletes directories with all that is in them")
    reading = read_flags(flags, words)
    if reading.problem:
        return unclear(f"{name}: {reading.problem}")
    if kind == "archive" and not (words and words[0].text.startswith("-")):
        return unclear(f"{name} may overwrite files")
    special = _SPECIAL.get(kind)
    finding = special(_GCC.get(name, name), reading, writes) if special is not None else READS
    written = [value.word for value in reading.values if value.written]
    if kind == "write":
        files = reading.operands[-1:] if name == "cp" else reading.operands
        written += files
        writes += [] if name in _EMPTY else files
    places = [judge_write(word, elsewhere=elsewhere) for word in (*writes, *written)]
    return worst([finding, *(place for place in places if place is not None)])


def judge_chmod(words: tuple[Word, ...], *, elsewhere: bool) -> Finding:
    """What chmod does: an ordinary mode for named files of the workspace is fine."""
    mode = words[0].text if words else ""
    if not _MODE.fullmatch(mode) or any(word.may_be_flag for word in words[1:]):
        return unclear("chmod: only plain modes of named files are known to be harmless")
    places = [judge_write(word, elsewhere=elsewhere) for word in words[1:]]
    return worst([CHANGES, *(place for place in places if place is not None)])


def judge_dd(words: tuple[Word, ...], *, elsewhere: bool) -> Finding:
    """What dd does: nobody copies raw data unasked, and nobody over a device."""
    written = [word._replace(text=word.text[3:]) for word in words if word.text.startswith("of=")]
    places = [judge_write(word, elsewhere=elsewhere) for word in written]
    return worst([unclear("dd copies raw data"), *(place for place in places if place is not None)])


def leads_elsewhere(value: Value) -> bool:
    """Whether the value of a flag is code that is neither the workspace's nor the system's."""
    places = value.word.text.split(":") if value.flag in _LOADED else []
    return any(leads_outside(place) and not place.startswith("/usr/") for place in places)


def _none(name: str, reading: Reading, writes: Writes) -> Finding:  # noqa: ARG001
    return unclear(f"{name} with names is not known to be harmless") if reading.operands else PROJECT


def _one(name: str, reading: Reading, writes: Writes) -> Finding:  # noqa: ARG001
    return unclear(f"{name} writes to its second file") if len(reading.operands) > 1 else READS


def _pager(name: str, reading: Reading, writes: Writes) -> Finding:  # noqa: ARG001
    commands = any(word.text.startswith("+") for word in reading.operands)
    return unclear(f"{name} may run commands of its own") if commands else READS


def _date(name: str, reading: Reading, writes: Writes) -> Finding:  # noqa: ARG001
    plain = all(word.text.startswith("+") for word in reading.operands)
    return READS if plain else unclear("date sets the clock")


def _write(name: str, reading: Reading, writes: Writes) -> Finding:  # noqa: ARG001
    files = reading.operands
    if name in _DELETE:
        return Finding("ask", "deletes", f"{name} deletes what is in files")
    if not files and name != "tee":
        return unclear(f"{name} of nothing")
    if name not in _INTO:
        return CHANGES
    if name != "cp" and SINKS.fullmatch(files[-1].text):
        return Finding("reject", "device", f"{name} puts a file in the place of a device")
    if name == "mv" and _is_temporary(files[-1]) and not all(map(_is_temporary, files)):
        return Finding("ask", "deletes", "moves files to /tmp, which may not outlive the line")
    if any(map(_is_vague, files[:-1])):
        return unclear(f"{name} of whatever is there")
    return into_protected(files) or CHANGES


def into_protected(files: Sequence[Word]) -> Finding | None:
    """The refusal of files that would be at a protected path once they are put where the last one says."""
    into = files[-1].text.rstrip("/")
    named = (f"{into}/{word.text.rstrip('/').rpartition('/')[2]}" for word in files[:-1])
    return next((protected(path) for path in named if is_protected(path)), None)


def _is_temporary(word: Word) -> bool:
    return f"{word.text}/".startswith("/tmp/")


def _is_vague(word: Word) -> bool:
    last = word.text.rstrip("/").rpartition("/")[2]
    return last in ("", ".", "..") or (word.glob and not last.strip("*?"))


def _code(name: str, reading: Reading, writes: Writes) -> Finding:  # noqa: ARG001
    for word in reading.operands:
        text = word.text
        strange = text.startswith("@") or "://" in text or (name in _DOCTEST and not may_be_code(text))
        if word.splits or strange or leads_outside(text):
            return Finding("ask", "runs_code", f"{name} may run code from outside of the workspace")
    goals = _GOALS.get(name)
    if goals is not None and not all(goals.fullmatch(word.text) for word in reading.operands):
        return unclear(f"{name} with a goal that may run any program")
    for value in reading.values:
        if name != "gcc" and leads_elsewhere(value):
            return Finding("ask", "runs_code", f"{name} may run code from outside of the workspace")
        if value.flag == "-p" and name in _DOCTEST and not value.word.text.startswith("no:"):
            return unclear(f"{name} is told to load a plugin")
        strange = name == "gcc" and value.flag in _COMPILER and not _COMPILER_VALUE.fullmatch(value.word.text)
        if strange or (value.flag == "--cov-report" and leads_outside(value.word.text.rpartition(":")[2])):
            return unclear(f"{name} may start a program or write elsewhere: {value.flag}")
    return PROJECT


def _pip(name: str, reading: Reading, writes: Writes) -> Finding:  # noqa: ARG001
    given = [*reading.operands, *(value.word for value in reading.values)]
    local = all(word.known and "://" not in word.text and not leads_outside(word.text) for word in given)
    if not local or any(not word.text.startswith((".", "./")) for word in reading.operands):
        return Finding("ask", "network", "installs packages that are named here, and runs their code")
    return PROJECT


def _go_run(name: str, reading: Reading, writes: Writes) -> Finding:
    if (
        not reading.operands
        or "@" in reading.operands[0].text
        or not reading.operands[0].text.startswith(".")
    ):
        main = reading.operands[0].text if reading.operands else ""
        if not main.endswith(".go") or leads_outside(main):
            return Finding("ask", "runs_code", "runs a Go package that may come from anywhere")
    return _code(name, Reading(reading.operands[:1], []), writes)


def _make(name: str, reading: Reading, writes: Writes) -> Finding:  # noqa: ARG001
    for value in reading.values:
        text = value.word.text
        if value.flag in ("-f", "--file", "-C", "--directory") and (
            text == "-" or leads_outside(text) or UNKNOWN in text or not may_be_code(text)
        ):
            return Finding("ask", "runs_code", "make goes by a file that may be anybody's")
    for word in reading.operands:
        set_here = _MAKE_VARIABLE.fullmatch(word.text)
        text = set_here["value"] if set_here else word.text
        programs = set_here is not None and _MAKE_PROGRAMS.fullmatch(set_here["name"])
        if not word.known or programs or not _PLAIN_VALUE.fullmatch(text) or word.text.startswith("-"):
            return unclear("make is given more than targets and plain values")
    return PROJECT


def _cmake(name: str, reading: Reading, writes: Writes) -> Finding:  # noqa: ARG001
    for value in reading.values:
        if value.flag == "-D" and (not value.word.known or _CMAKE_PROGRAMS.match(value.word.text)):
            return unclear("cmake is told which programs to run")
    places = [*reading.operands, *(value.word for value in reading.values if value.flag == "-S")]
    if any(word.text.startswith(("/", "~", UNKNOWN)) for word in places):
        return Finding("ask", "runs_code", "cmake goes by files from outside of the workspace")
    late = [word.text for word in reading.operands if word.text.startswith("-")]
    if any(not re.fullmatch(r"-[jks]\d*", text) for text in late) or any(w.splits for w in reading.operands):
        return unclear("cmake is given more than directories")
    return PROJECT


def _cargo(name: str, reading: Reading, writes: Writes) -> Finding:  # noqa: ARG001
    if any(word.splits for word in reading.operands[:1]):
        return unclear(f"{name} is given what only the run will tell")
    return PROJECT


def _sed(name: str, reading: Reading, writes: Writes) -> Finding:  # noqa: ARG001
    given = [value.word for value in reading.values if value.flag in ("-e", "--expression")]
    files = reading.operands
    if not given:
        given, files = files[:1], files[1:]
    if not all(_is_exact(word) and sed_only_transforms(word.text) for word in given):
        return unclear("sed may run programs or write files")
    if any(value.flag in ("-i", "--in-place") for value in reading.values):
        writes += files
        return CHANGES
    return READS


def _is_exact(word: Word) -> bool:
    return UNKNOWN not in word.text and not word.splits


_SPECIAL: dict[str, Callable[[str, Reading, Writes], Finding]] = {
    "none": _none, "one": _one, "date": _date, "pager": _pager, "write": _write, "code": _code, "pip": _pip,
    "gorun": _go_run, "make": _make, "cmake": _cmake, "cargo": _cargo, "sed": _sed,
}  # fmt: skip


def _tar(words: tuple[Word, ...], writes: Writes, *, elsewhere: bool) -> Finding:
    if words and all(word.known and not word.text.startswith("--") for word in words):
        letters, rest = words[0].text, words[1:]
        if any(":" in word.text for word in rest[:1]):
            return unclear("tar may take it for a file of another machine")
        if not any(word.text.startswith("-") for word in rest):
            if _TAR_LIST.fullmatch(letters):
                return READS
            if _TAR_CREATE.fullmatch(letters) and rest:
                writes.append(rest[0])
                return judge_write(rest[0], elsewhere=elsewhere) or CHANGES
    return unclear("tar may overwrite files, or run programs")
