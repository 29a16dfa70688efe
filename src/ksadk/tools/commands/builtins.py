"""Builtins of bash that do more with some arguments: set variables, run subscripts, load files."""

from __future__ import annotations

import re
from collections.abc import Callable

from ksadk.tools.commands.findings import HARMLESS, PROJECT, Finding, unclear
from ksadk.tools.commands.flags import read_flags
from ksadk.tools.commands.words import Word

DECLARATIONS = frozenset({"declare", "typeset", "local", "export", "readonly"})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SET_HERE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\+?=.*)?", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]+")
_GUARDED = re.compile(
    r"IFS|ENV|HOME|SHELL.*|BASH.*|PS[0-4]|PROMPT_COMMAND|LD_.*|DYLD_.*|GIT_.*|.*PATH|.*PAGER|.*EDITOR|VISUAL"
    r"|BROWSER|PYTHON(?!UNBUFFERED|DONTWRITEBYTECODE|WARNINGS|HASHSEED|UTF8|IOENCODING).*|NODE_OPTIONS|PERL.*"
    r"|RUBY.*|JAVA.*|JDK.*|.*OPTS?|.*OPTIONS|.*FLAGS|LESS.*|MAN.*|XDG_.*|SSH.*|.*COMMAND|.*PROGRAM|.*WRAPPER"
    r"|.*LAUNCHER|.*COMPILER|CC|CXX|LD|AR|MAKE.*|npm_.*|NPM_.*|.*PROXY|.*proxy|.*PRELOAD.*|.*PLUGINS?|.*CONFIG.*"
    r"|.*RSH|TAR_.*|GCONV.*|POSIXLY_CORRECT|GLOBIGNORE|FIGNORE|EXECIGNORE|HOSTALIASES|LOCALDOMAIN|MALLOC_.*"
    r"|TERMINFO.*|RUST(?!_BACKTRACE|_LOG|_TEST).*|CARGO(?!_TERM).*|GO(?!OS|ARCH|111MODULE)[A-Z]+|.*_HOME|.*_RUNNER"
    r"|LUA_INIT.*|PHP.*|OPENSSL_.*|MAVEN_.*|CMAKE_(?!BUILD_PARALLEL_LEVEL|BUILD_TYPE).*|ZDOTDIR|TAPE|XZ_.*|GLIBC_.*"
    r"|GIO_.*|GTK_.*|R_(?:HOME|PROFILE|ENVIRON|LIBS).*|JULIA_.*|ERL_.*|SSLKEYLOGFILE|INPUTRC|WGETRC"
    r"|(?:PIP|UV|POETRY|PDM|HATCH|YARN|PNPM|BUNDLE|GEM|COMPOSER|DOTNET|MSBUILD|COVERAGE|DENO|BUN)_.*"
)
"""Variables by which other programs choose what they run or where they look."""

_OPTIONS = frozenset(
    {"errexit", "nounset", "pipefail", "xtrace", "verbose", "noglob", "noclobber", "errtrace"}
)
_SHOPT = frozenset({"nullglob", "globstar", "failglob", "dotglob", "nocaseglob", "inherit_errexit"})
_ARITHMETIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_COMPARED = frozenset({"=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"}) | _ARITHMETIC
_UNARY = re.compile(r"-[abcdefghknoprstuwxzGLNOS]")
_ACTIVATE = re.compile(r"(?:\./)?(?:\.venv|venv|env|\.env)/bin/activate")


def guarded(name: str) -> Finding | None:
    """What there is to say of setting a variable, if anything."""
    if _GUARDED.fullmatch(name) is None:
        return None
    return Finding("ask", "environment", f"sets {name}, which other programs go by")


def judge_builtin(name: str, words: tuple[Word, ...]) -> Finding | None:
    """The finding about one of these builtins; None for any other program."""
    if name in DECLARATIONS:
        return _declare(name, words)
    judge = _JUDGES.get(name)
    return judge(words) if judge is not None else None


def _declare(name: str, words: tuple[Word, ...]) -> Finding:
    for word in words:
        found = _SET_HERE.fullmatch(word.text)
        if found is None or (word.splits and "=" not in word.text):
            if word.known and re.fullmatch(r"-[rxagAp]+", word.text):
                continue
            return unclear(f"{name} of something unusual")
        finding = guarded(found[1])
        if finding is not None:
            return finding
    return HARMLESS


def _test(words: tuple[Word, ...]) -> Finding:
    if words and words[-1].text == "]":
        words = words[:-1]
    if words and words[0].text == "!":
        words = words[1:]
    strange = unclear("a test that may run what is in a variable")
    if any(word.splits for word in words):
        return strange
    if len(words) == 2:
        return HARMLESS if _UNARY.fullmatch(words[0].text) else strange
    if len(words) == 3:
        return HARMLESS if words[1].text in _COMPARED else strange
    joined = [number for number, word in enumerate(words) if word.text in ("-a", "-o")]
    if len(words) > 3:
        first = joined[0] if joined else len(words)
        if not 0 < first < len(words) - 1 or not all(word.known for word in words):
            return strange
        plain = not any(word.text in ("-v", "-R") for word in words)
        return HARMLESS if plain else strange
    return HARMLESS


def _double_test(words: tuple[Word, ...]) -> Finding:
    for number, word in enumerate(words):
        strange = word.text in ("-v", "-R")
        if word.text in _ARITHMETIC:
            sides = (*words[max(0, number - 1) : number], *words[number + 1 : number + 2])
            strange = not all(_NUMBER.fullmatch(side.text) for side in sides)
        if strange:
            return unclear("a test that may run what is in a variable")
    return HARMLESS


def _set(words: tuple[Word, ...]) -> Finding:
    number = 0
    while number < len(words):
        text = words[number].text
        number += 1
        if text == "--" or (not words[number - 1].may_be_flag and not text.startswith("+")):
            return HARMLESS
        if not re.fullmatch(r"[-+][euxvfCEaTn]*o?", text):
            return unclear("set changes how the line is read")
        if text.endswith("o"):
            if number < len(words) and words[number].text not in _OPTIONS:
                return unclear("set changes how the line is read")
            number += 1
    return HARMLESS


def _shopt(words: tuple[Word, ...]) -> Finding:
    plain = all(word.text in _SHOPT or word.text in ("-s", "-u", "-q") for word in words)
    return HARMLESS if plain else unclear("shopt changes how the line is read")


def _unset(words: tuple[Word, ...]) -> Finding:
    return _names(tuple(word for word in words if word.text not in ("-v", "-f")), "unset")


def _read(words: tuple[Word, ...]) -> Finding:
    reading = read_flags("-ers -n= -N= -t= -p= -d= -u= -a=", words)
    arrays = [value.word for value in reading.values if value.flag == "-a"]
    if reading.problem:
        return unclear(f"read: {reading.problem}")
    return _names((*reading.operands, *arrays), "read")


def _names(words: tuple[Word, ...], name: str) -> Finding:
    for word in words:
        if not word.known or not _NAME.fullmatch(word.text):
            return unclear(f"{name} of something unusual")
        finding = guarded(word.text)
        if finding is not None:
            return finding
    return HARMLESS


def _printf(words: tuple[Word, ...]) -> Finding:
    if words and words[0].text == "-v":
        return _names(words[1:2], "printf")
    if words and words[0].may_be_flag and not words[0].text.startswith(("--", "- ")):
        return unclear("printf may set a variable")
    return HARMLESS


def _getopts(words: tuple[Word, ...]) -> Finding:
    return _names(words[1:2], "getopts")


def _wait(words: tuple[Word, ...]) -> Finding:
    plain = all(word.text == "-n" or not word.text.startswith("-") for word in words)
    return HARMLESS if plain else unclear("wait of something unusual")


def _source(words: tuple[Word, ...]) -> Finding:
    if len(words) == 1 and words[0].known and _ACTIVATE.fullmatch(words[0].text):
        return PROJECT
    return Finding("ask", "runs_code", "runs a file in this shell, whatever is in it")


_JUDGES: dict[str, Callable[[tuple[Word, ...]], Finding]] = {
    "test": _test, "[": _test, "[[": _double_test, "set": _set, "shopt": _shopt, "unset": _unset,
    "read": _read,
    "printf": _printf, "getopts": _getopts, "wait": _wait, "source": _source, ".": _source,
}  # fmt: skip
NAMES = DECLARATIONS | frozenset(_JUDGES)
