"""The decision log as text: lines, what `verify` found, and suggested rules."""

from __future__ import annotations

import json
import select
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentengine_cli import output

if TYPE_CHECKING:
    from ksadk.tools.log_check import Report
    from ksadk.tools.log_reader import Lines
    from ksadk.tools.suggestions import Suggestions

POLL_SECONDS = 0.25
HEADS = ("TIME", "LINE", "TOOL", "RISK", "WHAT", "BY")
WIDTHS = (24, 6, 24, 8, 24)
"""Of all columns but the last, where lines are shown one by one."""


@dataclass(frozen=True)
class Filter:
    """Which lines are wanted; what is empty is not looked at. Only what was allowed has a result."""

    tool: str
    outcome: str
    since: str

    def __call__(self, line: dict[str, Any]) -> bool:
        if self.tool and line.get("tool") != self.tool:
            return False
        if self.outcome and self.outcome != ("allowed" if line["event"] == "result" else line.get("outcome")):
            return False
        return not self.since or str(line.get("time")) >= self.since


def table(lines: Lines) -> str:
    """Lines as aligned columns."""
    if not lines.lines:
        return "The decision log has no such lines.\n" if lines.last else "The decision log is empty.\n"
    return output.columns([HEADS, *map(_cells, lines.lines)], width=output.terminal_width())


def _cells(line: dict[str, Any]) -> tuple[str, ...]:
    by = str(line.get("rule") or line.get("by") or "")
    if line["event"] == "repair":
        by = str(line.get("found"))
    if line.get("rule") and line.get("request"):
        by = f"{line.get('by')}, asked by {line['rule']}"
    cells = (line.get("time"), line["n"], line.get("tool", ""), line.get("risk", ""), _what(line), by)
    return tuple(output.visible(str(cell)) for cell in cells)


def _what(line: dict[str, Any]) -> str:
    if line["event"] == "result":
        return f"{'done' if line.get('ok') else line.get('error_type')}, {line.get('ms')} ms"
    if line["event"] == "repair":
        return "repaired"
    code = line.get("code")
    return f"{line.get('outcome')} ({code})" if code else str(line.get("outcome"))


def follow(directory: Path, begun: Lines, wanted: Filter) -> None:
    """Print lines, and then those that come, until whoever reads them has gone or Ctrl-C ends it."""
    from ksadk.tools.log_reader import Follower

    if not output.json_wanted.get():
        _print(_in_columns(HEADS))
    for line in begun.lines:
        _print(_as_text(line))
    follower = Follower(directory, begun.last)
    while _reader_is_there():
        for line in filter(wanted, follower.new()):
            _print(_as_text(line))


def _as_text(line: dict[str, Any]) -> str:
    if not output.json_wanted.get():
        return _in_columns(_cells(line))
    text = json.dumps(line, ensure_ascii=False)
    if sys.stdout.isatty():
        text = output.visible(text, escape=lambda character: json.dumps(character)[1:-1])
    return text


def _in_columns(cells: tuple[str, ...]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells[:-1], WIDTHS, strict=True)]
    return "  ".join([*padded, cells[-1]]).rstrip()


def _print(text: str) -> None:
    """One line to stdout, at once. Raises BrokenPipeError where nobody reads it any more."""
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.buffer.flush()


def _reader_is_there() -> bool:
    """Wait a moment; returns whether somebody can still read what is printed."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    begun = time.monotonic()
    events = poll.poll(POLL_SECONDS * 1000)
    if any(event & select.POLLERR for _, event in events):
        return False
    time.sleep(max(0.0, POLL_SECONDS - (time.monotonic() - begun)))
    return True


def report(report: Report) -> str:
    """What `verify` found, in words."""
    if not report.last and report.ok:
        return "The decision log is empty.\n"
    lines = [_problem(problem) for problem in report.problems]
    if report.more_problems:
        lines.append(f"and {report.more_problems} more")
    lines += [f"note: {output.visible(note)}" for note in report.notes]
    if report.ok:
        lines.append(f"lines {report.first} to {report.last} are as they were written")
    return "\n".join(lines) + "\n"


def _problem(problem: dict[str, Any]) -> str:
    place = f"{problem['file']}:{problem['at']}" if problem["at"] else problem["file"]
    line = f"line {problem['line']}" if problem["line"] else "a line"
    joint = " " if problem["problem"].startswith(("is ", "to ")) else ": "
    return f"{place}: {line}{joint}{problem['problem']}"


def suggested(found: Suggestions, times: int) -> str:
    """Suggested rules: each as a command line and as YAML."""
    if not found.found:
        return f"Nothing was approved {times} times and never denied.\n"
    blocks = [f"{output.visible(s.tool)}: {s.reason}\n{s.command()}\n{s.yaml()}" for s in found.found]
    return "\n".join(blocks)


def notes(found: Suggestions) -> list[str]:
    """What the log cannot tell."""
    said = [
        f"{count} approved calls of {tool} are not counted: their arguments are kept no more"
        for tool, count in found.unknown.items()
    ]
    if found.unknown:
        said.append("--audit-args, or KSADK_TOOL_AUDIT_ARGS=1, keeps arguments in the log")
    said += [
        f"{count} approved calls of {tool} are not counted: "
        "their workspace is not known, or their path leads through a link"
        for tool, count in found.placeless.items()
    ]
    said += [
        f"nothing is suggested for {tool}: a call was denied, and what it was about is not known"
        for tool in found.held_back
    ]
    return said
