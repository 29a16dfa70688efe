"""`agentengine init`: a small agent to start from."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from agentengine_cli import output
from agentengine_cli.base import Command
from ksadk.config_file import FRAMEWORKS, Framework
from ksadk.errors import KsadkError

STATE_PATTERN = ".agentengine/"

_TEMPLATES = Path(__file__).parent / "templates"
_VARIABLES: dict[Framework, str] = {
    "python": "agent",
    "langgraph": "graph",
    "langchain": "agent",
    "deepagents": "agent",
    "google-adk": "root_agent",
}

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=Command)
def init(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where to write it; made if it is not there.")
    ] = Path(),
    framework: Annotated[
        str, typer.Option("--framework", metavar="NAME", help=f"One of {', '.join(FRAMEWORKS)}.")
    ] = "python",
    name: Annotated[
        str | None, typer.Option("--name", help="The agent's name; the directory's if not given.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Write a small agent: agent.py, agentengine.yaml, and a .gitignore for this program's own files.

    Nothing that is there is overwritten without --force; to a .gitignore one line is added.

    \b
    Example:
      agentengine init my-agent --framework langgraph
    """
    chosen = next((word for word in FRAMEWORKS if word == framework), None)
    if chosen is None:
        raise typer.BadParameter(
            f"{framework!r} is not one of {', '.join(FRAMEWORKS)}", param_hint="--framework"
        )
    if directory.exists() and not directory.is_dir():
        raise typer.BadParameter(f"{directory} is not a directory", param_hint="DIR")
    agent_name = directory.absolute().resolve().name or "agent" if name is None else name.strip()
    if not agent_name.isprintable() or not agent_name:
        raise typer.BadParameter("a name of one printable line is expected", param_hint="--name")
    files = {
        "agent.py": (_TEMPLATES / f"{chosen}.txt").read_text(encoding="utf-8"),
        "agentengine.yaml": _config(agent_name, chosen),
    }
    _refuse_existing(directory, list(files), force=force)
    files |= _gitignore(directory / ".gitignore")
    _write_all(directory, files)
    document = {"ok": True, "directory": str(directory), "framework": chosen, "files": list(files)}
    output.show(document, lambda _: _words(directory, list(files)))


def _config(name: str, framework: Framework) -> str:
    # A text in JSON is a quoted text in YAML.
    return f"""\
name: {json.dumps(name, ensure_ascii=False)}
description: "Answers questions."
version: "0.1.0"
framework: {framework}
entry_point: agent.py
agent_variable: {_VARIABLES[framework]}
skills:
  - id: general
    name: General
    description: "Answers questions in plain words."
    tags: [general]
"""


def _refuse_existing(directory: Path, files: list[str], *, force: bool) -> None:
    there = [file for file in files if os.path.lexists(directory / file)]
    stuck = [file for file in there if (directory / file).is_dir()]
    if stuck or (there and not force):
        raise KsadkError(
            f"nothing was written: {directory} has {' and '.join(there)} already",
            code="file_exists",
            hint="Give another directory." if stuck else "Give another directory, or --force to overwrite.",
            files=there,
        )


def _gitignore(path: Path) -> dict[str, str]:
    """The .gitignore to write, with what is in it already; nothing where it needs no change."""
    present = path.read_bytes().decode("utf-8", "surrogateescape") if path.is_file() else ""
    if any(line.strip().rstrip("/") in {".agentengine", "/.agentengine"} for line in present.splitlines()):
        return {}
    separator = "" if not present or present.endswith("\n") else "\n"
    return {path.name: f"{present}{separator}{STATE_PATTERN}\n"}


def _write_all(directory: Path, files: dict[str, str]) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            _write(directory / file, text)
    except OSError as error:
        raise KsadkError(f"{error.filename or directory} cannot be written: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    """Write a file in one step: whoever looks sees the old content or the new."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))
        Path(temporary).chmod(_mode(path))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _mode(path: Path) -> int:
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _words(directory: Path, files: list[str]) -> str:
    place = str(directory)
    argument = shlex.quote(f"./{place}" if place.startswith("-") else place)
    return output.visible(
        f"Wrote {', '.join(files)} in {place}\nNext: agentengine a2a card {argument}\n", keep="\n"
    )
