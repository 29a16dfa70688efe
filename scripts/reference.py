"""Write the generated files: docs/cli.md, docs/environment.md and docs/errors.md.

`python scripts/reference.py --check` writes nothing and fails when one of them is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from agentengine_cli.main import app
from agentengine_cli.output import EXIT_STATUS
from ksadk.errors import CODES
from ksadk.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
GENERATED = "<!-- Written by `make docs`; do not edit. -->\n"


def pages() -> dict[str, str]:
    """Every generated file by its path, with the text that it should have."""
    return {
        "docs/cli.md": cli_page(),
        "docs/environment.md": environment_page(),
        "docs/errors.md": errors_page(),
    }


def commands(command: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Every command below one, with its full name and context, in the order of the help."""
    context = command.context_class(command, info_name=path, parent=None)
    yield path, command, context
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), f"{path} {name}")


def cli_page() -> str:
    parts = [GENERATED, "# Commands\n"]
    root = typer.main.get_command(app)
    for path, command, context in commands(root, "agentengine"):
        context.terminal_width = context.max_content_width = 100
        help_text = command.get_help(context).rstrip()
        parts.append(f"## {path}\n\n```text\n{help_text}\n```\n")
    return "\n".join(parts)


def environment_page() -> str:
    lines = [
        GENERATED,
        "# Environment variables\n",
        "A variable is read when a call needs it. A value that cannot be used is an error that names it.",
        "Where several names are given, the first that is set holds. Secrets are never shown.\n",
        "| variable | default | meaning |",
        "| --- | --- | --- |",
    ]
    for variable in Settings.variables():
        names = "<br>".join(f"`{name}`" for name in variable.names)
        default = variable.default
        if variable.secret:
            shown = "secret"
        elif default in (None, "", ()):
            shown = ""
        else:
            shown = f"`{default}`"
        meaning = variable.help.replace("|", "\\|")
        lines.append(f"| {names} | {shown} | {meaning} |")
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    lines = [
        GENERATED,
        "# Errors and exit statuses\n",
        "A failure has words for a person and a code for a program. The code is the `error_type` of a",
        'tool\'s result, and the `error.code` of `{"error": {"code", "message", "hint"}}`, which `--json`',
        "prints when a command has no result at all. Its kind decides the exit status. 0 is done, 130 is",
        "interrupted.\n",
        "| exit status | kind |",
        "| --- | --- |",
        *(f"| {status} | {kind} |" for kind, status in EXIT_STATUS.items()),
        "",
        "| code | exit status | meaning |",
        "| --- | --- | --- |",
        *(f"| `{name}` | {EXIT_STATUS[code.kind]} | {code.meaning} |" for name, code in CODES.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    stale = []
    for name, text in pages().items():
        path = ROOT / name
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
            print(f"wrote {name}")
    if stale and "--check" in sys.argv:
        print(f"not current, run `make docs`: {', '.join(stale)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
