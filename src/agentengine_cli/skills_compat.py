"""`agentengine skills compat`: what other hosts make of a skill."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentengine_cli import output
from agentengine_cli.base import Command, new_group

if TYPE_CHECKING:
    from ksadk.skills.compat import Compared

app = new_group("Try skills in other hosts.")


@app.command("compat", cls=Command)
def compat(
    path: Annotated[
        Path, typer.Argument(metavar="[PATH]", help="A skill, its SKILL.md, or a directory of skills.")
    ] = Path(),
) -> None:
    """Let other hosts load a skill, and show what each makes of it: the specification's own validator
    (skills-ref), Google ADK and deepagents, where they are installed.

    Each runs in a process of its own, which is given no variable; nothing of the skill is run. The exit
    status is 1 where one does not take the skill, or understands it in another way than this program.

    \b
    Example:
      agentengine skills compat my-skill
    """
    from ksadk.skills.compat import compare

    skills = list(map(_as_json, compare(path)))
    ok = all(skill["agreed"] for skill in skills)
    output.show({"ok": ok, "skills": skills}, lambda _: _as_text(skills))
    if not ok:
        raise typer.Exit(output.exit_status("failed"))


def _as_json(compared: "Compared") -> dict[str, Any]:
    ours = compared.ours
    if isinstance(ours, Exception):
        found = ours.details.get("findings", ())
        problems = [f"{f['line']}:{f['column']}: {f['message']}" for f in found] or [ours.message]
        own: dict[str, Any] = {"loads": False, "problems": problems}
    else:
        own = {
            "loads": True, "name": ours.name, "description": ours.description,
            "problems": list(map(str, ours.findings)),
        }  # fmt: skip
    hosts = [
        {"host": verdict.host, "installed": False}
        if verdict.version is None
        else {**vars(verdict), "installed": True, "agrees": verdict.agrees}
        for verdict in compared.verdicts
    ]
    return {"path": str(compared.directory), "agreed": compared.agreed, "ours": own, "hosts": hosts}


def _as_text(skills: list[dict[str, Any]]) -> str:
    lines = []
    for skill in skills:
        lines.append(skill["path"])
        lines += _told("agentengine", skill["ours"])
        for host in skill["hosts"]:
            if not host["installed"]:
                lines.append(f"  {host['host']} is not installed")
                continue
            lines += _told(f"{host['host']} {host['version']}".rstrip(), host)
            lines += [
                f"    understands its {key} in another way{_instead(host, key)}" for key in host["differs"]
            ]
    return output.visible("\n".join(lines), keep="\n") + "\n"


def _told(host: str, found: dict[str, Any]) -> list[str]:
    takes = f"loads it as {found['name']}" if found["loads"] else "does not load it"
    problems = "\n".join(found["problems"]).splitlines()
    return [f"  {host} {takes}", *(f"    {line}" for line in problems)]


def _instead(host: dict[str, Any], key: str) -> str:
    value = host[key]
    shown = " ".join(value) if isinstance(value, tuple) else str(value)
    return f": {shown[:100]!r}"
