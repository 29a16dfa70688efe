"""Whether an agent's skills run in a sandbox, are only read, or are not offered."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

from ksadk.settings import Settings
from ksadk.skills.findings import SKILL_MD

SkillsMode = Literal["sandbox", "local", "off"]

_OFF = frozenset({"none", "disabled"})


def skills_mode(settings: Settings, project: Path) -> SkillsMode:
    """What `KSADK_SKILLS_MODE` says; of `auto`, the first of these that says something.

    The skill runtime's backend, then the sandbox's (`sandbox`, or `off` where it is turned off); a template
    of E2B (`sandbox`); a directory with skills (`local`): `KSADK_LOCAL_SKILLS_DIR`, the cache of packages,
    `skills/` of the project. Else `off`.
    """
    if settings.skills_mode != "auto":
        return cast(SkillsMode, settings.skills_mode)
    for backend in (settings.skill_runtime_backend, settings.sandbox_backend):
        if backend:
            return "off" if backend in _OFF else "sandbox"
    if settings.skill_runtime_template_id or settings.sandbox_template_id:
        return "sandbox"
    directories = (settings.local_skills_dir, settings.skill_cache_dir, project / "skills")
    return "local" if any(directory and _has_skills(directory) for directory in directories) else "off"


def _has_skills(directory: Path) -> bool:
    try:
        return any((entry / SKILL_MD).is_file() for entry in directory.iterdir())
    except OSError:
        return False
