"""`agentengine skills pack`: a skill's directory as an archive."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

import os
from pathlib import Path
from typing import Annotated

import typer

from agentengine_cli import output
from agentengine_cli.base import Command, new_group
from ksadk.errors import KsadkError

app = new_group("Pack a skill.")


@app.command("pack", cls=Command)
def pack(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The skill: a directory with SKILL.md.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where to write it; here, as DIR.zip, if not given."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite another file that is there.")] = False,
) -> None:
    """Pack a skill into a zip, and print its SHA-256: the same files make the same bytes on every machine.

    Links and devices are refused, as is whatever would be refused when the archive is unpacked. Version
    control, __pycache__ and what macOS leaves behind are left out. Files that look like keys or passwords,
    such as .env, are packed, and warned about.

    \b
    Examples:
      agentengine skills pack examples/skills/word-count
      agentengine skills pack skills/demo --out dist/demo-1.0.zip --json
    """
    from ksadk.skills.key_files import key_files
    from ksadk.skills.loader import load_local_skill
    from ksadk.skills.models import ContentHash
    from ksadk.skills.packing import pack

    try:
        skill = load_local_skill(directory)
    except FileNotFoundError as error:
        raise typer.BadParameter(f"{directory} has no SKILL.md", param_hint="DIR") from error
    real = Path(os.path.realpath(directory))
    path = out or Path(f"{real.name}.zip")
    if Path(os.path.realpath(path)).is_relative_to(real):
        raise typer.BadParameter(
            f"{path} would be a part of the skill itself; name a file elsewhere", param_hint="--out"
        )
    data = pack(directory)
    _write(path, data, force=force)
    warnings = [f"SKILL.md:{finding}" for finding in skill.findings]
    warnings += [f"{file} is in the archive, and may hold a key or a password" for file in key_files(data)]
    document = {
        "ok": True, "path": str(path), "name": skill.name, "version": skill.version,
        "content_hash": str(ContentHash.of(data)), "size": len(data),
        "warnings": warnings,
    }  # fmt: skip
    for warning in warnings:
        output.say(f"warning: {output.visible(warning)}")
    output.show(document, lambda _: f"{output.visible(str(path))}  {document['content_hash']}\n")


def _write(path: Path, data: bytes, *, force: bool) -> None:
    """Write a file whole or not at all; one that has these bytes already is let be."""
    from ksadk.whole_files import replace_file

    try:
        if path.is_file() and path.read_bytes() == data:
            return
        if os.path.lexists(path) and not (force and path.is_file()):
            raise KsadkError(
                f"nothing was written: {path} is there, and is something else",
                code="file_exists",
                hint="Give another file with --out, or --force to overwrite this one.",
            )
        replace_file(path, data, mode=0o644)
    except OSError as error:
        raise KsadkError(f"{path} cannot be written: {error.strerror}", code="io_error") from error
