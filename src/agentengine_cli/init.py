"""`agentengine init`: a small agent to start from."""

from __future__ import annotations

import json
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from agentengine_cli import output
from agentengine_cli.base import Command
from ksadk.config_file import FRAMEWORKS, Framework
from ksadk.errors import KsadkError
from ksadk.project_files import has_kind

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
    with _words_for(directory, "cannot be looked at"):
        if os.path.lexists(directory) and not has_kind(directory, stat.S_ISDIR):
            raise typer.BadParameter(f"{directory} is not a directory", param_hint="DIR")
        real = os.path.realpath(directory)
    agent_name = Path(real).name or "agent" if name is None else name.strip()
    if not agent_name.isprintable() or not agent_name:
        raise typer.BadParameter("a name of one printable line is expected", param_hint="--name")
    files = {
        "agent.py": (_TEMPLATES / f"{chosen}.txt").read_text(encoding="utf-8"),
        "agentengine.yaml": _config(agent_name, chosen),
    }
    _refuse_existing(directory, list(files), force=force)
    texts = {directory / file: text for file, text in files.items()} | _gitignore(directory)
    _write_all(directory, texts)
    written = [*files, *([".gitignore"] if len(texts) > len(files) else [])]
    document = {"ok": True, "directory": str(directory), "framework": chosen, "files": written}
    output.show(document, lambda _: _words(directory, written))


@contextmanager
def _words_for(path: Path, what: str) -> Iterator[None]:
    """Say what the system did not let be done with a path."""
    try:
        yield
    except OSError as error:
        raise KsadkError(f"{path} {what}: {error.strerror}", code="io_error") from error


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
    with _words_for(directory, "cannot be looked at"):
        stuck = [file for file in there if has_kind(directory / file, stat.S_ISDIR)]
    if stuck or (there and not force):
        raise KsadkError(
            f"nothing was written: {directory} has {' and '.join(there)} already",
            code="file_exists",
            hint="Give another directory." if stuck else "Give another directory, or --force to overwrite.",
            files=there,
        )


def _gitignore(directory: Path) -> dict[Path, str]:
    """The .gitignore to write, with what is in it already; nothing where it needs no change.

    Through a link, what it leads to is written, if that is in the directory.
    """
    path = directory / ".gitignore"
    if not os.path.lexists(path):
        return {path: f"{STATE_PATTERN}\n"}
    with _words_for(path, "cannot be read"):
        present = _content(path)
    if any(line.strip().rstrip("/") in {".agentengine", "/.agentengine"} for line in present.splitlines()):
        return {}
    target = path
    if path.is_symlink():
        target = Path(os.path.realpath(path))
        if not target.is_relative_to(os.path.realpath(directory)):
            raise _in_the_way(path, f"leads to {target}", f"Put the line {STATE_PATTERN} there yourself.")
    separator = "" if not present or present.endswith("\n") else "\n"
    return {target: f"{present}{separator}{STATE_PATTERN}\n"}


def _content(path: Path) -> str:
    if not has_kind(path, stat.S_ISREG):
        raise _in_the_way(path, "is not a file", "Move it away, or give another directory.")
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _in_the_way(path: Path, why: str, hint: str) -> KsadkError:
    return KsadkError(f"nothing was written: {path} {why}", code="file_exists", hint=hint, files=[path.name])


def _write_all(directory: Path, texts: dict[Path, str]) -> None:
    """Write every file or none: first beside its place, so that whoever looks sees the old or the new."""
    written: dict[Path, Path] = {}
    try:
        with _words_for(directory, "cannot be written"):
            directory.mkdir(parents=True, exist_ok=True)
            for path, text in texts.items():
                handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".agentengine-")
                written[path] = Path(temporary)
                with os.fdopen(handle, "wb") as stream:
                    stream.write(text.encode("utf-8", "surrogateescape"))
                written[path].chmod(_mode(path))
            for path in texts:
                written[path].replace(path)
                del written[path]
    finally:
        for left in written.values():
            left.unlink(missing_ok=True)


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
        f"Wrote {', '.join(files)} in {place}\n"
        f"Next: agentengine a2a card {argument}\n"
        f"  or: agentengine a2a serve {argument}\n",
        keep="\n",
    )
