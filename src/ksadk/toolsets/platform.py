"""The tool that tells an agent what it is bound to."""

from __future__ import annotations

from typing import Any

from ksadk.runtime_context import get_current_workspace_root
from ksadk.sessions import project_dir, resolve_local_session_dir
from ksadk.settings import Settings
from ksadk.tools.registry import builtin
from ksadk.toolsets import sandbox, selection, skill_runtime
from ksadk.toolsets.skill_trust import project_trusted


def get_platform_tools() -> list[Any]:
    """component_status, as agent frameworks take it."""
    from ksadk.toolsets.frameworks import as_tools

    return as_tools([component_status])


@builtin(group="platform", boundary="local_settings")
def component_status() -> dict[str, Any]:
    """Report what this agent is bound to: model, knowledge base, memory, skill spaces, A2A Spaces, sandbox,
    workspace.

    Nothing is started or contacted.
    """
    from ksadk.masking import without_user_info
    from ksadk.skills.local import sources
    from ksadk.skills.runtime.modes import skills_mode
    from ksadk.skills.service_address import configured_spaces

    settings = Settings.from_env()
    project = project_dir(settings)
    places = sources(settings, project=project, project_trusted=project_trusted())
    sandbox_backend = sandbox.backend(settings)
    runs_commands = sandbox.enabled(settings)
    isolated = sandbox.isolated(settings)
    spaces = configured_spaces(settings)
    return {
        "ok": True,
        "summary": {
            "model": settings.model_name,
            "knowledge_base_bound": bool(settings.kb_dataset_id),
            "long_term_memory_bound": bool(settings.ltm_namespace),
            "skill_space_bound": bool(spaces),
            "a2a_space_bound": bool(settings.a2a_space_ids),
            "isolated_execution": _word(isolated),
            "sandbox_direct_tools": _word(runs_commands),
        },
        "skill_space": {
            "space_ids": spaces,
            "user_space_ids": list(settings.skill_space_ids),
            "public_space_ids": list(settings.public_skill_space_ids),
            "local_directories": [str(place.directory) for place in places if not place.left_out],
            "mode": skills_mode(settings, project),
            "service_url": settings.skill_service_url,
            "tools": selection.names_of_group("skill"),
        },
        "skill_runtime": {
            "backend": skill_runtime.chosen_runtime(settings),
            "enabled": skill_runtime.runtime_enabled(settings),
            "template_bound": bool(skill_runtime.runtime_template(settings)),
        },
        "a2a_space": {
            "space_ids": list(settings.a2a_space_ids),
            "control_plane_url": without_user_info(settings.a2a_control_plane_url),
            "public_egress": settings.a2a_enable_public_egress,
            "tools": selection.names_of_group("a2a"),
        },
        "sandbox": {
            "backend": sandbox_backend,
            "enabled": runs_commands,
            "template_bound": bool(settings.sandbox_template_id),
            "tools": selection.names_of_group("sandbox"),
        },
        "workspace": {
            "root": str(get_current_workspace_root() or resolve_local_session_dir(settings) / "workspace"),
            "tools": selection.names_of_group("workspace"),
            "boundary": "workspace_root",
            "editing_model": "read_before_edit",
        },
    }


def _word(enabled: bool) -> str:
    return "enabled" if enabled else "not_enabled"
