"""Tools that look at spaces of skills, and at a skill before it is used. They are in no default set."""

from __future__ import annotations

from typing import Any

from ksadk.settings import Settings
from ksadk.tools.registry import builtin

PREVIEW_CHARS = 2_000
FILES_SHOWN = 200


@builtin(group="skill_spaces", boundary="skill_service")
def list_skill_spaces() -> dict[str, Any]:
    """List the spaces that skills may come from: this machine, the configured ones, and what else the Skill
    Service has for this account.

    Each space has space_id, name, description and kind: local, user, public, or other (one that is not
    configured; its skills are listed with its space_id).
    """
    from ksadk.skills.catalogue import local_skills, service_client
    from ksadk.skills.errors import SkillServiceError
    from ksadk.skills.models import LOCAL_SPACE
    from ksadk.skills.service_address import service_configured
    from ksadk.toolsets.skill_trust import project_trusted

    settings = Settings.from_env()
    local = local_skills(settings, project_trusted=project_trusted())
    spaces: dict[str, dict[str, Any]] = {}
    warnings: list[str] = []
    if local.configured:
        spaces[LOCAL_SPACE] = _space(LOCAL_SPACE, "local", "This machine", local.summary())
    elif not service_configured(settings):
        local.required(spaces=[])
    for kind, ids in (("user", settings.skill_space_ids), ("public", settings.public_skill_space_ids)):
        for space_id in ids:
            spaces.setdefault(space_id, _space(space_id, kind))
    if service_configured(settings):
        try:
            with service_client(settings) as client:
                listed = client().list_spaces()
        except SkillServiceError as error:
            if not spaces:
                raise
            warnings.append(f"the Skill Service was left out: {error.message}")
        else:
            warnings += listed.warnings
            for space in listed.spaces:
                known = spaces.setdefault(space.space_id, _space(space.space_id, "other"))
                known |= {"name": space.name or space.space_id, "description": space.description}
    return {"ok": True, "spaces": list(spaces.values()), "warnings": warnings}


@builtin(group="skill_spaces", boundary="skill_service", side_effects=("skill_cache_write",))
def preview_skill(skill_name: str, space_id: str | None = None) -> dict[str, Any]:
    """Look at a skill before it is used: what it is for, its files, and how its instructions begin.

    skill_name: the exact name, as list_skills or search_skills gives it.
    space_id: the space to take it from; "local" is this machine.

    Returns what load_skill does, with `preview` (the first 2,000 characters of the instructions) in their
    place, and `files`: path and size of each.
    """
    from ksadk.toolsets.skill_finding import described, load_one

    skill, warnings = load_one(skill_name, space_id)
    files = sorted(path for path in skill.root_dir.rglob("*") if path.is_file())
    return {
        **described(skill, warnings),
        "preview": skill.body[:PREVIEW_CHARS],
        "preview_truncated": len(skill.body) > PREVIEW_CHARS,
        "files": [
            {"path": path.relative_to(skill.root_dir).as_posix(), "size": path.stat().st_size}
            for path in files[:FILES_SHOWN]
        ],
        "file_count": len(files),
    }


def _space(space_id: str, kind: str, name: str = "", description: str = "") -> dict[str, Any]:
    return {"space_id": space_id, "name": name or space_id, "description": description, "kind": kind}
