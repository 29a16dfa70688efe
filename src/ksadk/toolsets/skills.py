"""Tools that find skills, load their instructions, and run them in an isolated runtime."""

from __future__ import annotations

from typing import Any

from ksadk.errors import KsadkError
from ksadk.tools.registry import Plan, builtin
from ksadk.toolsets.skill_finding import (
    asked_spaces,
    described,
    find,
    listed,
    load_one,
    ranked,
    told,
    usage,
)
from ksadk.toolsets.skill_runtime import chosen_runtime, runtime_enabled

_MAX_RESULTS = 50


def get_skill_tools() -> list[Any]:
    """list_skills, search_skills, load_skill and execute_skills, as agent frameworks take them."""
    from ksadk.toolsets.frameworks import as_tools

    return as_tools([list_skills, search_skills, load_skill, execute_skills])


@builtin(group="skill", boundary="skill_service")
def list_skills(space_id: str | None = None) -> dict[str, Any]:
    """List the skills that can be used here, local and remote, each once.

    space_id: only the skills of this space; "local" is this machine.

    Each skill has name, description, version and space_id. `warnings` tell what was left out, and why.
    """
    found = find(space_id, skills=[])
    return {
        "ok": True,
        "skills": [listed(entry) for entry in found.entries.values()],
        "skill_space_ids": asked_spaces(space_id),
        **told(found),
    }


@builtin(group="skill", boundary="skill_service")
def search_skills(query: str, max_results: int = 10, space_id: str | None = None) -> dict[str, Any]:
    """Search skills by name, alias, tag, description and examples.

    query: what the skill should be about, in any language.
    max_results: how many to return, 1 to 50.
    space_id: only the skills of this space; "local" is this machine.

    Each result has name, description, version, score and reason; the best comes first.
    """
    if not query.strip():
        raise KsadkError(
            "query is empty", code="query_required", hint="Say what to look for.", query=query, results=[]
        )
    found = find(space_id, query=query, results=[])
    results = ranked(found, query, min(max(max_results, 1), _MAX_RESULTS))
    return {"ok": True, "query": query, "results": results, **told(found)}


@builtin(group="skill", boundary="skill_service", side_effects=("skill_cache_write",))
def load_skill(skill_name: str, space_id: str | None = None) -> dict[str, Any]:
    """Load a skill's instructions, to be followed by the agent itself. Nothing of the skill is run.

    skill_name: the exact name, as list_skills or search_skills gives it.
    space_id: the space to take it from; "local" is this machine.

    Returns instructions, version, root_dir (a verified copy of its files) and script_files. A name that is
    not there returns available_skills.
    """
    skill, warnings = load_one(skill_name, space_id)
    return {
        **described(skill, warnings),
        "execution_context": "outer_agent",
        "instructions": skill.body,
        "usage": usage(skill),
    }


def _plan_execute(workflow_prompt: str, skill_names: list[str] | str | None = None) -> Plan:
    from ksadk.toolsets import skill_runs

    return skill_runs.plan_execute(workflow_prompt, skill_names)


@builtin(
    group="skill", boundary="isolated_skill_runtime", risk="high",
    side_effects=("isolated_runtime_execution",), plan=_plan_execute, enabled=runtime_enabled,
    large_fields=("stdout", "stderr"), backend=chosen_runtime,
)  # fmt: skip
def execute_skills(workflow_prompt: str, skill_names: list[str] | str | None = None) -> dict[str, Any]:
    """Run a workflow with skills in the isolated skill runtime. Use it only when a skill fits the task.

    workflow_prompt: the user's own words.
    skill_names: exact names of the skills to use, in their order; the best for the prompt if left out.

    Returns exit_code, stdout, stderr, duration_ms, timed_out, `skills` with what became of each, and
    output_files, the paths of what was made. `ok` is true when all of it exited with 0 in time.
    """
    from ksadk.toolsets import skill_runs

    return skill_runs.execute(workflow_prompt, skill_names)
