"""Light checks of one file. They find what does not parse; a project's own linters find the rest."""

from __future__ import annotations

import ast
import json
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from ksadk.workspace import charsets
from ksadk.workspace.files import read_bytes
from ksadk.workspace.paths import WorkspaceError, locate
from ksadk.workspace.text import Document, position, split_lines

LINT_MODEL = "built_in_lightweight"
LANGUAGES = ("auto", "python", "json", "markdown", "text")
MAX_TRAILING_BLANKS = 20

_BY_SUFFIX = {
    ".py": "python", ".pyi": "python", ".json": "json", ".md": "markdown", ".markdown": "markdown",
}  # fmt: skip
_NAME = r"[\w\x80-\U0010ffff]"
_BLANK = r"(?:[ \t\f]|\\\r?\n)*+"
_DOTTED = re.compile(rf"(?<!{_NAME})(?>{_NAME}+{_BLANK}\.{_BLANK})++")
_MAX_DOTTED = 1_000_000
"""Dots times characters of a dotted name. In an import Python's parser copies what it has at each dot, which
for the longest name that a file can hold takes hours, in which no other thread runs."""

_OUTSIDE_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')


class Issue(NamedTuple):
    severity: str
    line: int
    column: int
    message: str


def lint(root: Path, path: str, language: str = "auto", encoding: str | None = None) -> dict[str, Any]:
    """The issues of a file, with lines and columns from 1; `ok` is false only for errors, not warnings.

    `checked` says what was looked for: `syntax` where there is a parser, else `nul` and `trailing_blanks`.

    Raises `unsupported_language`, and what keeps a file from being read.
    """
    if language not in LANGUAGES:
        raise WorkspaceError(
            f"{language!r} is not a language of this check", code="unsupported_language",
            hint=f"It knows {', '.join(LANGUAGES)}.",
        )  # fmt: skip
    place = locate(root, path)
    data, _ = read_bytes(place)
    document = Document.decode(data, place.shown, encoding)
    if language == "auto":
        language = _BY_SUFFIX.get(Path(place.shown).suffix.lower(), "text")
    check, checked = _CHECKS.get(language, (_plain, ("nul", "trailing_blanks")))
    issues = check(document.text)
    if language == "python":
        issues = _declared_otherwise(data, document, place.shown) or issues
    result: dict[str, Any] = {
        "ok": not any(issue.severity == "error" for issue in issues),
        "path": place.shown,
        "language": language,
        "encoding": document.encoding,
        "checked": list(checked),
        "issues": [issue._asdict() for issue in issues],
        "lint_model": LINT_MODEL,
    }
    if not result["ok"]:
        first = next(issue for issue in issues if issue.severity == "error")
        result |= {
            "error_type": "lint_errors",
            "error_message": f"{place.shown}:{first.line}:{first.column}: {first.message}",
        }
    return result


def _python(text: str) -> list[Issue]:
    if "\0" in text:
        return _nul(text)
    for found in _DOTTED.finditer(text):
        if found[0].count(".") * len(found[0]) > _MAX_DOTTED:
            return [
                Issue("error", *position(text, found.start()), "the dotted name is too long to be parsed")
            ]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the file's own code would warn of goes to nobody here
            ast.parse(text)
    except SyntaxError as error:
        line, column = _in_our_lines(text, error.lineno or 1, error.offset or 1)
        return [Issue("error", line, column, error.msg)]
    except (RecursionError, MemoryError):
        return [Issue("error", 1, 1, "the code is nested too deeply to be parsed")]
    except ValueError as error:
        return [Issue("error", 1, 1, str(error))]
    return []


def _in_our_lines(text: str, line: int, column: int) -> tuple[int, int]:
    """A place as Python counts it, for whom a carriage return by itself ends a line too."""
    if text.count("\r") == text.count("\r\n"):
        return line, column
    starts = [0, *(found.end() for found in re.finditer("\r\n?|\n", text))]
    ours, first = position(text, starts[min(line, len(starts)) - 1])
    return ours, first + column - 1


def _declared_otherwise(data: bytes, document: Document, shown: str) -> list[Issue]:
    """Python reads no source whose byte order mark says UTF-8 and whose declaration another encoding."""
    mark = document.charset.mark
    declared = charsets.declared(data.removeprefix(mark), shown) if mark else None
    if declared in (None, document.encoding):
        return []
    return [Issue("error", 1, 1, f"the byte order mark says {document.encoding}, the declaration {declared}")]


def _json(text: str) -> list[Issue]:
    try:
        json.loads(text, parse_int=str, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return [Issue("error", error.lineno, error.colno, error.msg)]
    except RecursionError:
        return [Issue("error", 1, 1, "the JSON is nested too deeply to be parsed")]
    except _NotJson as error:
        spot = next(found.start() for found in _OUTSIDE_STRINGS.finditer(text) if found[1] == str(error))
        return [Issue("error", *position(text, spot), f"{error} is not JSON")]
    return []


class _NotJson(Exception):
    pass


def _refuse_constant(word: str) -> None:
    raise _NotJson(word)


def _plain(text: str) -> list[Issue]:
    issues = _nul(text)
    blanks = 0
    for number, line in enumerate(split_lines(text), 1):
        kept = line.rstrip(" \t")
        if kept != line:
            issues.append(Issue("warning", number, len(kept) + 1, "blanks at the end of the line"))
            blanks += 1
            if blanks == MAX_TRAILING_BLANKS:
                break
    return issues


def _nul(text: str) -> list[Issue]:
    spot = text.find("\0")
    if spot < 0:
        return []
    return [Issue("error", *position(text, spot), "a NUL character")]


_CHECKS = {"python": (_python, ("syntax",)), "json": (_json, ("syntax",))}
