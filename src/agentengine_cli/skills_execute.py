"""`agentengine skills execute`: run a workflow with skills, once it is approved."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from agentengine_cli import output, workspace_shown
from agentengine_cli.base import new_group
from agentengine_cli.calls import (
    CallCommand,
    builtin_tool,
    call_scope,
    options,
    read_text,
    run_tool,
    seconds_of,
)
from agentengine_cli.live import shown_live
from agentengine_cli.sandbox import ended_by_signals
from agentengine_cli.skills_read import Project

TOOL = "execute_skills"

app = new_group("Run a workflow with skills.")


@app.command("execute", cls=CallCommand)
def execute(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="The skills, in their order; the best one if left out."),
    ] = None,
    prompt: Annotated[
        str, typer.Option("--prompt", metavar="TEXT|@FILE|-", help="What they are to do, in your words.")
    ] = "",
    inputs: Annotated[
        list[Path] | None,
        typer.Option("--input", metavar="FILE", help="A file for the run's input/; may be given again."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Copy the artifacts there.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Let --out replace files that are there already.")
    ] = False,
    timeout: Annotated[
        str,
        typer.Option("--timeout", metavar="TIME", help="90s, 5m; 900s if unset. Then all is ended."),
    ] = "",
    project: Project = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen; run nothing, ask nobody.")
    ] = False,
) -> None:
    """Run a workflow with skills, once it is approved: what runs is exactly what was shown.

    A skill with scripts/run-workflow.sh is run in the skill runtime; one without is followed by the model of
    OPENAI_MODEL_NAME, if that is set. Their output is shown as it comes; what happens, and at the end the
    artifacts, on stderr. Exit status: 1 a skill failed, 5 the time was over.

    \b
    Examples:
      agentengine skills execute word-count --prompt @essay.txt
      agentengine skills execute word-count --prompt count --input essay.txt --out counts
      agentengine skills execute --prompt "count the words of this text" --dry-run
    """
    from ksadk.toolsets.skill_scope import SkillRunChoices, skill_run_scope
    from ksadk.toolsets.skill_trust import project_skills_scope

    if out is not None and out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is no directory", param_hint="--out")
    choices = SkillRunChoices(
        inputs=tuple(inputs or ()), timeout=math.ceil(seconds_of(timeout)) if timeout else None,
        on_step=_say_step,
    )  # fmt: skip
    arguments = _arguments(names, prompt)
    with skill_run_scope(choices), project_skills_scope(project):
        if dry_run:
            with call_scope(TOOL) as gateway:
                plan = gateway.preview(builtin_tool(TOOL), arguments)
            output.show_result(plan, workspace_shown.plan)
            return
        with ended_by_signals(), shown_live(all_on_stderr=output.json_wanted.get()):
            result = run_tool(TOOL, arguments)
    if out is not None and result.get("output_dir"):
        result = _taken(result, out, force)
    _end(result)


def _arguments(names: list[str] | None, prompt: str) -> dict[str, Any]:
    """The tool's arguments; none where a stored call is to run."""
    if not prompt:
        if options().approval and not names:
            return {}
        raise typer.BadParameter("what shall the skills do? Give --prompt", param_hint="--prompt")
    arguments: dict[str, Any] = {"workflow_prompt": read_text(prompt)}
    return arguments | ({"skill_names": names} if names else {})


def _say_step(words: str) -> None:
    """What happens now."""
    _say_line(f"[{words}]")


def _say_line(words: str) -> None:
    """One line, whatever a script or a model has put into its words."""
    output.say(output.visible(words))


def _taken(result: dict[str, Any], out: Path, force: bool) -> dict[str, Any]:
    """The result once its artifacts were copied."""
    from ksadk.skills.runtime.taking import take

    source = Path(result["output_dir"])
    taken = take(source, list(map(Path, result["output_files"])), out.absolute(), replace=force)
    left = [{"path": str(path), "reason": f"was not copied: {why}"} for path, why in taken.left]
    result |= {
        "output_files": [*map(str, taken.files), *(str(path) for path, _ in taken.left)],
        "output_dir": str(source if left else out.absolute()),
    }
    if not left:
        return result
    return result | {
        "ok": False, "error_type": result["error_type"] or "already_exists",
        "error_message": result["error_message"] or f"artifacts that were not copied to {out}: {len(left)}",
        "hint": result.get("hint") or "Use --force to replace what is there, or another --out.",
        "left_out": [*result.get("left_out", ()), *left],
    }  # fmt: skip


def _end(result: Mapping[str, Any]) -> None:
    """What is to be said when a workflow has ended, and the exit status that it asks for."""
    if "skills" not in result or output.json_wanted.get():
        output.show_result(result, str, _words if "skills" in result else None)
        return
    output.forget_persisted(result)
    for warning in result.get("warnings", ()):
        _say_line(f"warning: {warning}")
    for skill in result["skills"]:
        reason = f": {skill['reason']}" if skill["reason"] else ""
        _say_line(f"{skill['name']}: {skill['status']}{reason}")
    for item in result.get("left_out", ()):
        _say_line(f"left out: {item['path']} {item['reason']}")
    for file in result["output_files"]:
        _say_line(f"artifact: {file} ({Path(file).stat().st_size:,} bytes)")
    output.show_result(result, lambda _: "", _words)


def _words(result: Mapping[str, Any]) -> tuple[str, str | None]:
    if result.get("error_message"):
        return output.words_of(result)
    failed = next((skill for skill in result["skills"] if skill["status"] == "failed"), None)
    return f"{failed['name']} failed" if failed else "the workflow did not succeed", None
