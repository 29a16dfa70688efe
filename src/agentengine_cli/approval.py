"""The prompt: shows a person what a call would do, and takes one key.

It is drawn on stderr, and only when stdin and stderr are terminals. Whatever a model or a file wrote is shown
with its control and bidirectional characters escaped, and a long value keeps its end.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import termios
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from agentengine_cli.keys import END_OF_INPUT, KeyReader
from agentengine_cli.output import visible
from agentengine_cli.terminal import session_key
from ksadk.errors import KsadkError
from ksadk.settings import Settings
from ksadk.tools.approvals import ApprovalRequest, Decision, iso

VALUE_WIDTH = 400
PREVIEW_LINES = 60
LONG_PREVIEW = 15

_KEYS = (
    ("y", "yes, once"),
    ("s", "yes, this exact call for the session"),
    ("a", "always: save a rule"),
    ("e", "edit the arguments"),
    ("n", "no"),
    ("f", "no, and say why"),
    ("?", "everything"),
    ("q", "stop"),
)


class Prompt:
    """Asks the person at this terminal. Remembers that they have gone, or want to stop."""

    def __init__(self, *, keys: str = "ysaenf?q", console: Console | None = None) -> None:
        self._keys = keys if session_key() else keys.replace("s", "")
        self._console = console or Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self.stopped = False
        self._ended: Decision | None = None
        self._draft: str | None = None

    def __call__(self, request: ApprovalRequest, note: str = "") -> Decision:
        if self._ended is not None:
            return self._ended
        try:
            with KeyReader() as keys:
                self._draw(request, note, keys, everything=False)
                while True:
                    key = keys.read(request.expires_at)
                    decision = self._answer(key, request, keys, _person())
                    if decision is not None:
                        return decision
        except termios.error:  # the terminal has gone
            self._ended = Decision("nobody")
            return self._ended

    def edit(self, request: ApprovalRequest) -> Decision:
        """Begin with the editor; raises when it does not leave arguments."""
        self._draft = edited_text(arguments_text(request))
        return Decision("edit", arguments=arguments_of(self._draft))

    def _answer(self, key: str, request: ApprovalRequest, keys: KeyReader, by: str) -> Decision | None:
        if key == "":
            return Decision("expired")
        if key == END_OF_INPUT:
            self._ended = Decision("nobody")
            return self._ended
        if key not in self._keys or (key != "f" and keys.more_than_a_line_end()):
            keys.forget()  # words that were meant for something else may hold a key
            return None
        self._console.print(Text(key))
        if key == "?":
            self._draw(request, "", keys, everything=True)
            return None
        if key == "f":
            return Decision("deny", by=by, reason=keys.line("why? "))
        if key == "e":
            return self._edit(request, keys, by)
        if key == "a":
            return self._always(request, keys, by)
        if key == "q":
            self.stopped = True
            self._ended = Decision("deny", by=by, reason="stopped at the prompt")
            return self._ended
        return Decision("deny" if key == "n" else "approve", by=by, for_session=key == "s")

    def _edit(self, request: ApprovalRequest, keys: KeyReader, by: str) -> Decision | None:
        text = self._draft or arguments_text(request)
        with keys.released():
            try:
                self._draft = edited_text(text)
                return Decision("edit", by=by, arguments=arguments_of(self._draft))
            except KsadkError as error:
                problem = error.message
        self._console.print(Text(f"{visible(problem)}; e edits it again", style="red"))
        self._draw_keys(keys)
        return None

    def _always(self, request: ApprovalRequest, keys: KeyReader, by: str) -> Decision | None:
        from agentengine_cli.rule_prompt import RulePrompt

        try:
            saved = RulePrompt(request, keys, self._console).ask()
        except KsadkError as error:
            self._console.print(Text(visible(error.message), style="red"))
            saved = None
        if saved is not None:
            return Decision("approve", by=f"{by}, who saved the rule {saved.file}:{saved.line}")
        self._draw_keys(keys)
        return None

    def _draw(self, request: ApprovalRequest, note: str, keys: KeyReader, *, everything: bool) -> None:
        show(request, self._console, everything=everything)
        if note:
            what = (
                f"the edited arguments do not work: {visible(note)}; e edits them again, y runs what is above"
            )
            self._console.print(Text(what, style="red"))
        if request.plan.diff.count("\n") > LONG_PREVIEW:
            again = (
                f"{visible(request.plan.summary)} ({request.risk_level} risk, {visible(request.plan.where)})"
            )
            self._console.print(Text(again, style="bold"))
        self._draw_keys(keys)

    def _draw_keys(self, keys: KeyReader) -> None:
        line, used = Text(), 0
        for key, meaning in _KEYS:
            if key not in self._keys:
                continue
            size = len(f"{key} {meaning}   ")
            if used and used + size > self._console.width:
                line.append("\n")
                used = 0
            line.append(key, style="bold").append(f" {meaning}   ")
            used += size
        line.append("\napprove? ", style="bold")
        keys.forget()  # typed before the question was there
        self._console.print(line, end="")


def show(request: ApprovalRequest, console: Console, *, everything: bool) -> None:
    """What a call would do, in plain words, with its preview."""
    plan = request.plan
    console.print()
    console.print(Text(visible(plan.summary), style="bold"))
    facts = [
        ("tool", visible(request.tool_name)),
        ("risk", visible(request.risk_level)),
        ("effects", visible(", ".join(request.side_effects)) or "none declared"),
        ("runs in", visible(plan.where)),
    ]
    if everything:
        facts += [
            ("id", request.id),
            ("expires", iso(request.expires_at)),
            ("digest", request.arguments_digest),
        ]
    for label, value in facts:
        style = {"high": "red", "critical": "bold red", "medium": "yellow"}.get(value, "")
        console.print(Text(f"  {label:<9}").append(value, style=style))
    shown = request.arguments.items()
    for name, value in shown:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        console.print(Text(f"  {visible(name)} = ", style="dim").append(_value(text, everything)))
    for label, text in plan.details:
        console.print(Text(f"  {visible(label)}: {_value(text, everything)}"))
    for line in _preview(plan.diff, everything):
        console.print(line)


def _value(text: str, everything: bool, keep: str = "") -> str:
    """A value on one line; a long one loses its middle, never its end."""
    if not everything and len(text) > VALUE_WIDTH:
        half = VALUE_WIDTH // 2
        left_out = f" [... {len(text) - 2 * half} characters ...] "
        return visible(text[:half], keep=keep) + left_out + visible(text[-half:], keep=keep)
    return visible(text, keep=keep)


def _preview(diff: str, everything: bool) -> list[Text]:
    lines = diff.split("\n")[: -1 if diff.endswith("\n") else None] if diff else []
    styled = [Text(_value(line, everything, keep="\t"), style=_style(line)) for line in lines]
    if everything or len(styled) <= PREVIEW_LINES:
        return styled
    half = PREVIEW_LINES // 2
    left_out = Text(f"[... {len(styled) - 2 * half} lines; ? shows everything ...]", style="bold")
    return [*styled[:half], left_out, *styled[-half:]]


def _style(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def arguments_text(request: ApprovalRequest) -> str:
    """A call's arguments as a person edits them."""
    return json.dumps(request.arguments, ensure_ascii=False, indent=2) + "\n"


def edited_text(text: str) -> str:
    """Let the person edit a text in their editor."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "arguments.json"
        file.write_text(text, "utf-8", "surrogatepass")
        editor = Settings.from_env().editor
        try:
            command = [*shlex.split(editor), str(file)]
        except ValueError as error:
            raise KsadkError(f"the editor {editor!r} is not a command: {error}") from error
        try:
            subprocess.run(command, check=True)
        except OSError as error:
            raise KsadkError(f"the editor {command[0]} cannot be started: {error.strerror}") from error
        except subprocess.CalledProcessError as error:
            raise KsadkError(f"the editor {command[0]} did not finish") from error
        try:
            return file.read_text("utf-8", "surrogatepass")
        except (OSError, ValueError) as error:
            raise KsadkError(f"what the editor left cannot be read: {error}") from error


def arguments_of(text: str) -> dict[str, Any]:
    """The arguments in an edited text."""
    try:
        edited = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise KsadkError(f"the edited arguments are not JSON: {error}") from error
    if not isinstance(edited, dict):
        raise KsadkError("the edited arguments are not a JSON object")
    return edited


def _person() -> str:
    try:
        return f"the person at {os.ttyname(sys.stdin.fileno())}"
    except OSError:
        return "the person at this terminal"
