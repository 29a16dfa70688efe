"""What a lock file would say of the skills that are there now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ksadk.settings import Settings
from ksadk.skills.catalogue import find_skills, service_client
from ksadk.skills.lock_file import Locked, SkillLock
from ksadk.skills.runtime.loader import SkillLoader

if TYPE_CHECKING:
    import httpx


def current_lock(
    names: Iterable[str] = (),
    *,
    project_trusted: bool = False,
    service_transport: httpx.BaseTransport | None = None,
) -> tuple[SkillLock, tuple[str, ...]]:
    """The skills as a project would load them now, and warnings: those of these names, or all without names.

    Each is fetched and verified, whatever the lock file says of it. Raises `SkillError` where one that was
    found cannot be loaded, so that no lock is made that leaves it out.
    """
    settings = Settings.from_env()
    with service_client(settings, service_transport) as client:
        catalogue = find_skills(settings, client=client, project_trusted=project_trusted)
        wanted = list(names) or [entry.name for entry in catalogue.entries.values()]
        result = SkillLoader(settings, client, locked=False).load_named(wanted, catalogue)
    skills = {skill.name: Locked(skill.version, skill.digest) for skill in result.skills}
    refused = (f"refused: {why}" for why in catalogue.refused)
    return SkillLock(skills), tuple(dict.fromkeys([*catalogue.warnings, *refused, *result.warnings]))
