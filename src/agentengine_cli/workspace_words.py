"""What the workspace tools say, in the words of the commands: options where the tools name arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentengine_cli import output

SHOWN_LINES = 5

_EVERY_COMMAND = {
    "list_workspace_files": "agentengine workspace list",
    "read_workspace_file": "agentengine workspace read",
}
_HOW = {"encoding=": "--encoding", "in_place": "--in-place"}
_OPTIONS: dict[str, dict[str, str]] = {
    "read_workspace_file": {
        r"start_line=(\d+)": r"--start-line \1",
        "start_line": "--start-line",
        "end_line": "--end-line",
        "max_chars": "--max-chars",
    }
    | _HOW,
    "write_workspace_file": {"Set overwrite": "Leave out --no-overwrite"} | _HOW,
    "edit_workspace_file": {
        "set expected_replacements": "give --expected",
        "set replace_all": "give --replace-all",
        "expected_replacements": "--expected",
        "old_text": "--old",
        "new_text": "--new",
    }
    | _HOW,
    "multi_edit_workspace_file": _HOW,
    "lint_workspace_file": _HOW,
    "search_workspace_files": {"Set is_regex to false": "Leave out --regex", "path, glob": "a path, --glob"},
}
"""By tool, regular expressions for what its sentences name. The edits of multi-edit are JSON: they keep their
words."""


def in_options(tool: str, sentence: str) -> str:
    """A sentence of a tool with options in place of arguments; the same words in a file's name stay."""
    for pattern, option in (_EVERY_COMMAND | _OPTIONS.get(tool, {})).items():
        sentence = re.sub(rf"(?<![\w./-]){pattern}(?![\w/-]|\.\w)", option, sentence)
    return sentence


def failure(tool: str, result: Mapping[str, Any]) -> tuple[str, str | None]:
    """The message and the hint of a result that says no, with the lines that it is about."""
    message, hint = output.words_of(result)
    if result.get("approval_required") is True:
        return message, hint
    message = in_options(tool, message)
    if "failed_edit_index" in result and not message.startswith("edits["):
        message = f"edits[{result['failed_edit_index']}]: {message}"
    if result.get("candidates"):
        message += f"\nIt could be: {', '.join(result['candidates'])}"
    if "difference" in result:
        found = result["difference"]
        message += f"\nAt line {found['line']}, column {found['column']}: {found['message']}"
    lines = _lines("Most like it:", result.get("nearby_candidates")) or _lines(
        "It is here:", result.get("matches")
    )
    return message + lines, hint and in_options(tool, hint)


def _lines(title: str, found: list[dict[str, Any]] | None) -> str:
    shown = "".join(f"\n  {place['line']}: {place['text']}" for place in (found or [])[:SHOWN_LINES])
    return shown and f"\n{title}{shown}"
