"""Write the generated files: reference pages, man pages and the shells' completion scripts.

`python scripts/reference.py --check` writes nothing and fails when one of them is not current.
"""

from __future__ import annotations

import sys
from pathlib import Path

from completion_scripts import scripts
from man_pages import man_pages
from program import PROGRAM, raw_commands

from agentengine_cli.output import EXIT_STATUS
from ksadk.errors import CODES
from ksadk.settings import UNREAD, Settings

ROOT = Path(__file__).resolve().parent.parent
GENERATED = "<!-- Written by `make docs`; do not edit. -->\n"


def pages() -> dict[str, str]:
    """Every generated file by its path, with the text that it should have."""
    return {
        "docs/cli.md": cli_page(),
        "docs/environment.md": environment_page(),
        "docs/errors.md": errors_page(),
        **scripts(),
        **man_pages(),
    }


def cli_page() -> str:
    parts = [GENERATED, "# Commands\n"]
    for path, command, context in raw_commands():
        context.terminal_width = context.max_content_width = 100
        help_text = command.get_help(context).rstrip()
        parts.append(f"## {f'{PROGRAM} {path}'.rstrip()}\n\n```text\n{help_text}\n```\n")
    return "\n".join(parts)


def environment_page() -> str:
    lines = [
        GENERATED,
        "# Environment variables\n",
        "A variable is read when a call needs it. A value that cannot be used is an error that names it.",
        "Where several names are given, the first that is set holds. Secrets are never shown.\n",
        "`agentengine config show` tells which hold, and `--env-file FILE` reads them from a file; see",
        "[setup.md](setup.md). What is marked as not read is declared, and does nothing in this release.\n",
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
        if variable.field in UNREAD:
            meaning = f"*Not read by this release.* {meaning}"
        lines.append(f"| {names} | {shown} | {meaning} |")
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    lines = [
        GENERATED,
        "# Errors and exit statuses\n",
        "A failure has words for a person and a code for a program. The code is the `error_type` of a",
        'tool\'s result, and the `error.code` of `{"error": {"code", "message", "hint"}}`, which `--json`',
        "prints when a command has no result at all. Its kind decides the exit status. 0 is done, 130 is",
        "interrupted. `sandbox run` ends with the status of the command that it ran, and with 125 for every",
        "failure of its own; see [the sandbox](sandbox.md).\n",
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
    wanted = pages()
    stale = [name for name, text in wanted.items() if not _is_current(ROOT / name, text)]
    stale += [f"man/{page.name}" for page in (ROOT / "man").glob("*.1") if f"man/{page.name}" not in wanted]
    if "--check" not in sys.argv:
        for name in stale:
            _write(ROOT / name, wanted.get(name))
            print(f"wrote {name}" if name in wanted else f"removed {name}")
    if stale and "--check" in sys.argv:
        print(f"not current, run `make docs`: {', '.join(stale)}")
        return 1
    return 0


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text


def _write(path: Path, text: str | None) -> None:
    if text is None:  # the page of a command that is no more
        path.unlink()
        return
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
