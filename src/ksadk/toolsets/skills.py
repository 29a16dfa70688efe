"""Tools that find skills, load their instructions, and run them in an isolated runtime.

This release reads no skills and has no runtime: each tool says what is missing.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ksadk.errors import KsadkError
from ksadk.settings import Settings
from ksadk.tools.registry import builtin

AVAILABLE_RUNTIMES: frozenset[str] = frozenset()
"""The skill runtimes that this release can start."""

_VARIABLES = "KSADK_SKILL_SERVICE_URL with KSADK_SKILL_SPACE_IDS, or KSADK_LOCAL_SKILLS_DIR"


def runtime_backend(settings: Settings | None = None) -> str:
    """The runtime that skills run in: the one that is named, else the sandbox's, else e2b where a template
    is, else disabled."""
    settings = settings or Settings.from_env()
    named = settings.skill_runtime_backend
    if not named and settings.sandbox_backend != "none":
        named = settings.sandbox_backend
    if not named and runtime_template(settings):
        named = "e2b"
    return "disabled" if named in {"", "none"} else named


def runtime_template(settings: Settings) -> str:
    """The E2B template that skills run in; empty where none is bound."""
    return settings.skill_runtime_template_id or settings.sandbox_template_id


def runtime_enabled() -> bool:
    """Whether the configured skill runtime can be started."""
    return runtime_backend() in AVAILABLE_RUNTIMES


def skill_space_ids(settings: Settings) -> list[str]:
    """The user's skill spaces, then the public ones, each once."""
    return list(dict.fromkeys([*settings.skill_space_ids, *settings.public_skill_space_ids]))


def get_skill_tools() -> list[Any]:
    """list_skills, search_skills, load_skill and execute_skills, as agent frameworks take them."""
    from ksadk.toolsets.frameworks import as_tools

    return as_tools([list_skills, search_skills, load_skill, execute_skills])


@builtin(group="skill", boundary="skill_service")
def list_skills(space_id: str | None = None) -> dict[str, Any]:
    """List the skills that can be used here, local and remote, each once.

    space_id: only the skills of this space.

    Each skill has name, description, version and space_id.
    """
    raise _no_skills(space_id, skills=[])


@builtin(group="skill", boundary="skill_service")
def search_skills(query: str, max_results: int = 10, space_id: str | None = None) -> dict[str, Any]:
    """Search skills by name, alias, tag, description and examples.

    query: what the skill should be about.
    max_results: how many to return.
    space_id: only the skills of this space.

    Each result has name, description, version, score and reason.
    """
    if not query.strip():
        raise KsadkError(
            "query is empty", code="query_required", hint="Say what to look for.", query=query, results=[]
        )
    raise _no_skills(space_id, query=query, results=[], max_results=max_results)


@builtin(group="skill", boundary="skill_service", side_effects=("skill_cache_write",))
def load_skill(skill_name: str, space_id: str | None = None) -> dict[str, Any]:
    """Load a skill's instructions, to be followed by the agent itself. Nothing of the skill is run.

    skill_name: the exact name, as list_skills or search_skills gives it.
    space_id: the space to take it from.

    Returns instructions, version, root_dir and script_files.
    """
    if not skill_name.strip():
        raise KsadkError(
            "skill_name is empty",
            code="skill_name_required",
            hint="Pass the exact name of a skill.",
            available_skills=[],
        )
    raise _no_skills(space_id, name=skill_name, available_skills=[])


def _refuse_workflow(
    workflow_prompt: str,
    skill_names: list[str] | str | None = None,  # noqa: ARG001  # called with the tool's own arguments
) -> NoReturn:
    if not workflow_prompt.strip():
        raise KsadkError(
            "workflow_prompt is empty", code="workflow_prompt_required", hint="Say what the skills should do."
        )
    name = runtime_backend()
    missing = (
        "no skill runtime is set" if name == "disabled" else f"the skill runtime {name} is not available"
    )
    raise KsadkError(
        f"{missing}, so nothing was run",
        code="skill_runtime_disabled",
        hint="This release has no skill runtime. load_skill gives instructions that need none.",
        execution_context=f"skill-runtime/{name}",
    )


@builtin(
    group="skill", boundary="isolated_skill_runtime", risk="high",
    side_effects=("isolated_runtime_execution",), plan=_refuse_workflow, enabled=runtime_enabled,
    large_fields=("stdout", "stderr"), backend=runtime_backend,
)  # fmt: skip
def execute_skills(workflow_prompt: str, skill_names: list[str] | str | None = None) -> dict[str, Any]:
    """Run a workflow with skills in the isolated skill runtime. Use it only when a skill fits the task.

    workflow_prompt: the user's own words.
    skill_names: exact names of the skills to use; the runtime chooses if left out.

    Returns exit_code, stdout, stderr, duration_ms and output_files. `ok` is true when it exited with 0 in
    time.
    """
    _refuse_workflow(workflow_prompt, skill_names)


def _no_skills(space_id: str | None, **details: Any) -> KsadkError:
    """What is missing; `details` are the fields that a success would have, empty."""
    settings = Settings.from_env()
    spaces = [space_id] if space_id else skill_space_ids(settings)
    if settings.local_skills_dir is None and not (settings.skill_service_url and spaces):
        return KsadkError(
            "no skills are configured",
            code="skill_service_not_configured",
            hint=f"Set {_VARIABLES}.",
            skill_space_ids=spaces,
            **details,
        )
    return KsadkError(
        "skills are configured, but this release cannot read them",
        code="skill_service_unavailable",
        hint="Go on without skills.",
        skill_space_ids=spaces,
        **details,
    )
