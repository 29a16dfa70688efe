"""Data to stdout, words to stderr, and the table of exit statuses."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TextIO

import typer

from ksadk.errors import CODES, Kind, KsadkError

EXIT_STATUS: dict[Kind, int] = {
    "failed": 1,
    "usage": 2,
    "unreachable": 3,
    "authentication": 4,
    "timeout": 5,
    "approval": 6,
    "denied": 7,
    "unavailable": 8,
}
"""The exit status of each kind of error; 0 is done, 130 is interrupted."""

json_wanted: ContextVar[bool] = ContextVar("json_wanted", default=False)
"""Whether `--json` was given."""

json_lines: ContextVar[bool] = ContextVar("json_lines", default=False)
"""Whether each JSON document is one line."""

only_status: ContextVar[int | None] = ContextVar("only_status", default=None)
"""The one exit status of every failure of ours, where a command's status is that of what it runs."""

a2a_errors: ContextVar[bool] = ContextVar("a2a_errors", default=False)
"""Whether errors are told as A2A's clients tell them: with `a2aCode`, and the name that they share for
"usage"."""


def write(text: str) -> None:
    """Data, to stdout. That a reader has gone away is no error."""
    shown = visible(text, keep="\n\t") if sys.stdout.isatty() else text
    try:
        sys.stdout.write(shown)
        sys.stdout.flush()
    except BrokenPipeError:
        close_stdout()


def write_json(value: Any) -> None:
    """One JSON document, or with `-o jsonl` one line of them, as raw UTF-8 on any locale. A lone surrogate is
    written as JSON's escape of it, and on a terminal so is whatever `visible` escapes."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=None if json_lines.get() else 2) + "\n"
    if sys.stdout.isatty():
        text = visible(text, keep="\n", escape=lambda character: json.dumps(character)[1:-1])
    write_utf8(text)


def write_utf8(text: str) -> None:
    """Text to stdout as it is, in UTF-8 on any locale."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        close_stdout()


def say(text: str) -> None:
    """Words for a person, to stderr."""
    write_to_stderr(text + "\n")


def write_to_stderr(text: str) -> None:
    """Text to stderr. That nobody reads it is no error."""
    _to_stderr(visible(text, keep="\n\t") if sys.stderr.isatty() else text)


def _to_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:  # nobody reads it, or there is no room for it: the exit status still tells
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def close_stdout() -> None:
    """Let what is still buffered go nowhere: nobody reads it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show(value: Any, text: Callable[[Any], str]) -> None:
    """A value as JSON where `--json` was given, else as the text that `text` makes of it."""
    if json_wanted.get():
        write_json(value)
    else:
        write(text(value))


def show_result(
    result: Any,
    text: Callable[[Any], str],
    words: Callable[[Mapping[str, Any]], tuple[str, str | None]] | None = None,
    warning_words: Callable[[str], str] = str,
) -> None:
    """A tool's result, and the exit status that it asks for.

    With `--json`, the result as it is. Otherwise its text; a failure goes to stderr in words (those of
    `words`, or of `words_of`), as does a warning, and a call that needs approval prints its envelope, since
    whoever reads stdout has to answer it.
    """
    status = result_status(result)
    failed = isinstance(result, Mapping) and result.get("ok") is False
    if json_wanted.get() or (failed and result.get("approval_required") is True):
        write_json(result)
    elif not failed or "error_message" not in result:
        write(text(result))
    if isinstance(result, Mapping) and isinstance(result.get("warning"), str) and not json_wanted.get():
        say(f"warning: {warning_words(result['warning'])}")
    if failed:
        say_error(*(words or words_of)(result))
    if status:
        raise typer.Exit(status)


def forget_persisted(result: Mapping[str, Any]) -> None:
    """Delete what a result's budget put into files: it was shown, and nobody else knows of it."""
    for kept in result.get("persisted_outputs", {}).values():
        os.unlink(kept["path"])  # noqa: PTH108  # which would be another import at each start


def result_status(result: Any) -> int:
    """The exit status of a tool's result."""
    if not isinstance(result, Mapping) or result.get("ok") is not False:
        return 0
    if result.get("approval_required") is True:
        return exit_status("approval_required")
    if "error_type" not in result and "result" in result:  # what a dispatched tool said
        return result_status(result["result"]) or exit_status("failed")
    return exit_status(str(result.get("error_type", "failed")))


def exit_status(code: str) -> int:
    """The exit status of an error code."""
    only = only_status.get()
    if only is not None:
        return only
    known = CODES.get(code)
    return EXIT_STATUS[known.kind if known else "failed"]


def words_of(result: Mapping[str, Any]) -> tuple[str, str | None]:
    """The message and the hint of a result that says no."""
    if result.get("approval_required") is True:
        request = result["approval_request"]
        from agentengine_cli.terminal import at_terminal

        why = (
            "nobody gave it" if at_terminal() else "nobody can be asked where stdin or stderr is no terminal"
        )
        again = f"      Then run this again with --approval {request['id']}"
        return (
            f"{request['tool_name']} needs approval, and {why}",
            f"In a terminal: agentengine approvals approve {request['id']}\n"
            + (f"{again}, or use --yes." if "dispatched_tool_name" not in result else f"{again}."),
        )
    if "error_message" not in result and isinstance(result.get("result"), Mapping):
        return words_of(result["result"])
    message = str(result.get("error_message") or result.get("error_type") or "it did not succeed")
    reason = result.get("reason")
    if isinstance(reason, str) and reason and reason not in message:
        message = f"{message}: {reason}"
    hint = result.get("hint")
    return message, str(hint) if hint else None


def report(error: KsadkError) -> int:
    """An error that travelled to the root: words on stderr, with `--json` a document on stdout."""
    return report_words(error.error_type, error.message, error.hint, error.details.get("a2a_code"))


def report_words(code: str, message: str, hint: str | None, a2a_code: int | str | None = None) -> int:
    """Say what failed, on what, and what to try; returns the exit status."""
    if json_wanted.get():
        document: dict[str, Any] = {"code": code, "message": message, "hint": hint}
        if a2a_errors.get():
            document |= {"code": "A2ACLI_ERR_USAGE" if code == "usage" else code, "a2aCode": a2a_code}
        try:
            write_json({"error": document})
        except OSError:  # there is no room for it: the words and the exit status still tell
            close_stdout()
    say_error(message if only_status.get() is None else f"{message} [{code}]", hint)
    return exit_status(code)


def say_error(message: str, hint: str | None) -> None:
    """The two lines of an error."""
    label = "\033[31merror:\033[0m" if colour(sys.stderr) else "error:"
    text = f"{label} {visible(message, keep=chr(10))}\n"
    if hint:
        text += f"hint: {visible(hint, keep=chr(10))}\n"
    _to_stderr(text)


def colour(stream: TextIO) -> bool:
    """Whether to colour what goes to a stream: on a terminal, unless NO_COLOR; FORCE_COLOR everywhere."""
    from ksadk.settings import Settings

    settings = Settings.from_env()
    if settings.no_color:
        return False
    return settings.force_color or stream.isatty()


_SHOWN_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | {chr(n) for n in range(0xFE00, 0xFE10)}
"""Characters that show nothing, though they count as letters or marks."""


def _escape(character: str) -> str:
    simple = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if simple:
        return simple
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def visible(text: str, *, keep: str = "", escape: Callable[[str], str] = _escape) -> str:
    """Text with its control, format, bidirectional and private characters shown as escapes.

    What a model or a file wrote can then neither move the cursor nor reorder what a person reads.
    """
    if text.isascii() and text.isprintable():
        return text
    import unicodedata

    return "".join(
        character
        if character in keep
        or (unicodedata.category(character) not in _SHOWN_ESCAPED and character not in _BLANK)
        else escape(character)
        for character in text
    )


def columns(rows: Iterable[Sequence[str]], *, width: int | None = None) -> str:
    """Rows as aligned columns. The last column is wrapped at `width`, if given, under its own start.

    Where the others leave it no room, a row becomes a block of lines, one a value.
    """
    table = [list(row) for row in rows]
    if not table:
        return ""
    count = max(len(row) for row in table)
    widths = [max((_cells(row[i]) for row in table if i < len(row)), default=0) for i in range(count - 1)]
    if width is not None and sum(size + 2 for size in widths) > width - 20:
        return _records(table)
    lines: list[str] = []
    for row in table:
        start = "".join(
            cell + " " * (size - _cells(cell) + 2) for cell, size in zip(row[:-1], widths, strict=False)
        )
        lines.extend(_wrapped(start, row[-1], width))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _cells(text: str) -> int:
    """How many columns of a terminal a text takes: an East Asian wide character takes two."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


def _records(table: list[list[str]]) -> str:
    """Rows that are too wide for the terminal, one value a line; a first row in capitals names the values."""
    heads = table.pop(0) if all(cell.isupper() for cell in table[0]) else [""] * len(table[0])
    size = max(map(len, heads)) + 1
    blocks = (
        "".join(f"{head.lower().ljust(size)}{cell}\n" for head, cell in zip(heads, row, strict=False) if cell)
        for row in table
    )
    return "\n".join(blocks)


def _wrapped(start: str, last: str, width: int | None) -> list[str]:
    room = (width or 0) - len(start)
    if width is None or len(last) <= room or room < 20:
        return [start + last]
    import textwrap

    pieces = textwrap.wrap(last, room) or [""]
    return [start + pieces[0], *(" " * len(start) + piece for piece in pieces[1:])]


def terminal_width() -> int | None:
    """The columns of the terminal on stdout, or None where it is no terminal."""
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None
