"""`agentengine skills list`, `search` and `load`: find skills, and read them."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

from collections.abc import Callable
from typing import Annotated, Any

import typer

from agentengine_cli import output
from agentengine_cli.base import new_group
from agentengine_cli.calls import ReadCommand, run_tool
from ksadk.toolsets.skill_trust import project_skills_scope

list_app = new_group("List skills.")
search_app = new_group("Find skills.")
load_app = new_group("Read a skill.")

Space = Annotated[
    str | None, typer.Option("--space", metavar="ID", help="Only this space; local is this machine.")
]
Project = Annotated[
    bool,
    typer.Option("--project", help="Also the project's own skills, though the project is not trusted."),
]


@list_app.command("list", cls=ReadCommand)
def list_skills(
    space: Space = None,
    source: Annotated[bool, typer.Option("--source", help="Show where each comes from.")] = False,
    project: Project = False,
) -> None:
    """List the skills that can be used here: of this machine, then of each space, each name once.

    What was left out, and why, is said on stderr.

    \b
    Examples:
      agentengine skills list
      agentengine skills list --space local --source
    """
    with project_skills_scope(project):
        result = run_tool("list_skills", {"space_id": space})
    output.show_result(result, _with_warnings("skills", "source" if source else "", "No skill is there."))


@search_app.command("search", cls=ReadCommand)
def search(
    query: Annotated[str, typer.Argument(help="What the skill should be about, in any language.")],
    limit: Annotated[int, typer.Option("--limit", help="How many results, 50 at most.")] = 10,
    space: Space = None,
    project: Project = False,
) -> None:
    """Find skills by name, alias, tag, description and examples. The best comes first.

    \b
    Examples:
      agentengine skills search "draw a diagram"
      agentengine skills search svg --limit 3
    """
    with project_skills_scope(project):
        result = run_tool("search_skills", {"query": query, "max_results": limit, "space_id": space})
    output.show_result(result, _with_warnings("results", "reason", "No skill matches."))


@load_app.command("load", cls=ReadCommand)
def load(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The exact name.")],
    space: Space = None,
    project: Project = False,
) -> None:
    """Print a skill's instructions, ready for a model's context. Nothing of the skill is run.

    They are of a verified copy. Where that is, and what else there is to know, is said on stderr.

    \b
    Examples:
      agentengine skills load word-count
      agentengine skills load word-count --json
    """
    with project_skills_scope(project):
        result = run_tool("load_skill", {"skill_name": name, "space_id": space})
    output.show_result(result, _instructions)


def _with_warnings(field: str, more: str, nothing: str) -> Callable[[dict[str, Any]], str]:
    """The skills of a result as a table; on stderr what the result says of what is not among them."""

    def shown(result: dict[str, Any]) -> str:
        _warn(result)
        if result["warnings"]:
            output.say(output.visible(result["summary"]))
        return _table(result[field], more) if result[field] else f"{nothing}\n"

    return shown


def _warn(result: dict[str, Any]) -> None:
    for warning in result["warnings"]:
        output.say(f"warning: {output.visible(warning)}")


def _table(skills: list[dict[str, Any]], more: str) -> str:
    keys = ["name", "version", "space_id", *filter(None, [more]), "description"]
    rows = [[output.visible(skill[key]) for key in keys] for skill in skills]
    heads = [key.removesuffix("_id").upper() for key in keys]
    return output.columns([heads, *rows], width=output.terminal_width())


def _instructions(result: dict[str, Any]) -> str:
    _warn(result)
    facts = [("skill", f"{result['name']} {result['version']}".strip() + f", of {result['space_id']}")]
    facts += [("digest", result["digest"]), ("files", result["root_dir"])]
    scripts = ", ".join(result["script_files"])
    more = result["script_count"] - len(result["script_files"])
    if scripts:
        facts.append(("scripts", f"{scripts}, and {more} more" if more else scripts))
    if result["allowed_tools"] is not None:
        facts.append(("allowed", " ".join(result["allowed_tools"]) or "no tool"))
    facts += [(point, text) for point, text in result["contract"].items() if text]
    unstated = ", ".join(point for point, text in result["contract"].items() if not text)
    if unstated:
        facts.append(("unstated", unstated))
    output.say(output.columns((name, output.visible(text)) for name, text in facts).rstrip("\n"))
    body: str = result["instructions"]
    return body if body.endswith("\n") else body + "\n"
