"""`agentengine trust`: let a project's own configuration allow what it asks for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentengine_cli import output
from agentengine_cli.base import Command
from agentengine_cli.terminal import need_a_person
from ksadk.errors import KsadkError
from ksadk.tools import trust as kept

if TYPE_CHECKING:
    from ksadk.tools.trust import Offer, Trust

ANSWER_SECONDS = 600.0

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=Command)
def trust(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The project; the current directory if not given.")
    ] = Path(),
    every: Annotated[bool, typer.Option("--list", help="List what is trusted.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Trust the project no more.")] = False,
) -> None:
    """Trust a project: its rules may allow calls, its skills are used, and commands work in its workspace.

    What its configuration says is shown first, and the answer is a key at this terminal. Any change of the
    file ends the trust.

    \b
    Example:
      agentengine trust my-agent
    """
    if every and revoke:
        raise typer.BadParameter("only one of them can be given", param_hint="--list, --revoke")
    if every:
        _list()
    elif revoke:
        if not kept.revoke(str(directory)):
            raise KsadkError(f"{directory.absolute()} was not trusted", code="unknown_trust")
        output.show({"ok": True, "revoked": str(directory.resolve())}, lambda v: f"revoked {v['revoked']}\n")
    else:
        _ask(directory)


def _list() -> None:
    from ksadk.tools.approvals import iso

    projects = [
        {"directory": item.directory, "file": item.file, "digest": item.digest, "since": iso(item.since),
         "state": _state(item)}
        for item in kept.trusted().values()
    ]  # fmt: skip
    rows = [("DIRECTORY", "STATE", "SINCE", "FILE")]
    rows += [(output.visible(p["directory"]), p["state"], p["since"], p["file"]) for p in projects]
    nothing = "No project is trusted.\n"
    output.show({"ok": True, "projects": projects}, lambda _: output.columns(rows) if projects else nothing)


def _state(item: Trust) -> str:
    """trusted, or void where the file is no longer the one that was trusted."""
    try:
        return "trusted" if kept.digest_of(Path(item.directory)) == item.digest else "void"
    except KsadkError:
        return "void"


def _ask(directory: Path) -> None:
    need_a_person("trusting a project")
    from agentengine_cli.keys import END_OF_INPUT, KeyReader

    offered = kept.offer(directory)
    output.say(_as_text(offered))
    with KeyReader() as keys:
        keys.forget()
        output.say(f"trust {offered.directory} with this? y yes   n no")
        key = ""
        until = time.time() + ANSWER_SECONDS
        while key not in ("y", "n"):
            key = keys.read(until)
            if key in ("", END_OF_INPUT):
                raise KsadkError("nobody answered, so nothing is trusted", code="trust_refused")
            if key in ("y", "n") and keys.more_than_a_line_end():
                key = " "  # part of a word
    if key == "n":
        raise KsadkError("the project is not trusted", code="trust_refused")
    kept.trust(offered.directory, offered.file, offered.digest)
    output.show({"ok": True, "trusted": offered.directory}, lambda v: f"trusted {v['trusted']}\n")


def _skills(directory: Path) -> list[Path]:
    """Where the project keeps skills of its own."""
    from ksadk.settings import Settings
    from ksadk.skills.local import sources

    places = sources(Settings.from_env(), project=directory, project_trusted=True)
    return [place.directory for place in places if place.kind == "project" and not place.left_out]


def _as_text(offered: Offer) -> str:
    """What the file would be trusted with."""
    from ksadk.tools.rule_edits import rule_text

    lines = [f"{offered.file} in {offered.directory}", f"  SHA-256 {offered.digest}"]
    if offered.workspace is not None:
        lines.append(f"  commands would work in {offered.workspace}")
    for entry in offered.rules:
        if entry.problem:
            lines.append(f"  line {entry.line}: a rule that cannot be used: {entry.problem}")
            continue
        written = {entry.verdict or "": entry.tool, "argv": entry.argv, "where": entry.where}
        written |= {"expires": entry.expires}
        text = rule_text({key: value for key, value in written.items() if value})
        already = "" if entry.verdict == "allow" else ", which holds already"
        lines += [f"  line {entry.line}{already}:", *(f"    {line}" for line in text.splitlines())]
    skills = _skills(Path(offered.directory))
    lines += [f"  the skills in {place} would be used, whatever becomes of them" for place in skills]
    if offered.workspace is None and not offered.rules and not skills:
        lines.append("  it has no rules, no workspace and no skills, so trust changes nothing")
    return output.visible("\n".join(lines), keep="\n")
