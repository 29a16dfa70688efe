"""`agentengine skills lint`: what is wrong with skills."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentengine_cli import output
from agentengine_cli.base import Command, new_group

if TYPE_CHECKING:
    from ksadk.skills.lint import Linted

app = new_group("Check skills.")


@app.command("lint", cls=Command)
def lint(
    path: Annotated[
        Path, typer.Argument(metavar="[PATH]", help="A skill, its SKILL.md, or a directory of skills.")
    ] = Path(),
    fix: Annotated[
        bool, typer.Option("--fix", help="Write the repairs whose meaning is sure; nothing else changes.")
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="Also want all that a public skill has to state.")
    ] = False,
) -> None:
    """Hold skills against the Agent Skills specification. Errors make the exit status 1, warnings do not.

    A skill may have errors and still be loaded, since what its author meant is clear; other hosts may not
    take it. A restriction of its tools is never repaired: whoever wrote it has to say what was meant.

    \b
    Examples:
      agentengine skills lint .agents/skills
      agentengine skills lint my-skill --fix
      agentengine skills lint my-skill --publish
    """
    from ksadk.skills.lint import lint

    linted = lint(path, fix=fix, publish=publish)
    errors = sum(skill.errors for skill in linted)
    document = {"ok": not errors, "skills": list(map(_as_json, linted)), "summary": _summary(linted)}
    output.show(document, lambda _: _as_text(linted))
    if errors:
        raise typer.Exit(output.exit_status("failed"))


def _as_json(skill: "Linted") -> dict[str, Any]:
    findings = [vars(finding) for finding in skill.findings]
    return {"path": str(skill.path), "errors": skill.errors, "fixed": skill.fixed, "findings": findings}


def _as_text(linted: "list[Linted]") -> str:
    lines = []
    for skill in linted:
        for finding in skill.findings:
            place = f"{skill.path}:{finding.line}:{finding.column}"
            lines.append(f"{place}: {finding.severity}: {finding.message}")
            if finding.fix:
                lines.append(f"    fix: {finding.fix}")
        if skill.fixed:
            lines.append(f"{skill.path}: {skill.fixed} repaired in the file")
    return "".join(f"{output.visible(line)}\n" for line in [*lines, _summary(linted)])


def _summary(linted: "list[Linted]") -> str:
    """Such as "3 skills: 2 can be loaded, 1 repaired; 1 refused"."""
    refused = sum(any(finding.refuses for finding in skill.findings) for skill in linted)
    repaired = sum(any(finding.repaired for finding in skill.findings) for skill in linted)
    words = [f"{len(linted) - refused} can be loaded"]
    if repaired:
        words.append(f"{repaired} only as repaired")
    if refused:
        words.append(f"{refused} refused")
    return f"{len(linted)} {'skill' if len(linted) == 1 else 'skills'}: {', '.join(words)}"
