"""Which skills a workflow is run with: those that are named, else those that are set, else the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ksadk.settings import Settings
from ksadk.toolsets.skill_trust import project_trusted

if TYPE_CHECKING:
    from ksadk.skills.loader import LocalSkill

LEAST_SCORE = 40
"""From here on a skill fits a prompt: two words of what it is about, or its name."""


class Chosen(NamedTuple):
    """Skills as verified copies, what was noticed when they were loaded, and why it is these."""

    skills: Sequence[LocalSkill] = ()
    warnings: Sequence[str] = ()
    why: str = ""


def choose_skills(prompt: str, names: Sequence[str] | None) -> Chosen:
    """The skills of these names, else of `KSADK_SELECTED_SKILL_NAMES`, else the best one for the prompt.

    Raises `skill_not_found`, and what keeps a skill from being loaded.
    """
    from ksadk.skills.runtime.base import normalize_skill_names

    if names:
        return _load(names, f"{', '.join(names)}: named by the caller")
    bound = normalize_skill_names(Settings.from_env().selected_skill_names)
    if bound:
        return _load(bound, f"{', '.join(bound)}: named by KSADK_SELECTED_SKILL_NAMES")
    return _best(prompt)


def _load(names: Sequence[str], why: str) -> Chosen:
    from ksadk.skills.runtime.loader import load_skills

    found = load_skills(skill_names=names, project_trusted=project_trusted())
    return Chosen(found.skills, found.warnings, why)


def _best(prompt: str) -> Chosen:
    from ksadk.skills.catalogue import find_skills, service_client
    from ksadk.skills.ranking import SkillIndex

    settings = Settings.from_env()
    with service_client(settings) as client:
        found = find_skills(settings, client=client, project_trusted=project_trusted())
    entries = list(found.entries.values())
    hits = [hit for hit in SkillIndex(entries).search(prompt, 1) if hit.score >= LEAST_SCORE]
    if not hits:
        return Chosen(warnings=found.warnings, why=f"none of {len(entries)} skills fits the prompt")
    name = entries[hits[0].position].name
    return _load([name], f"{name}: chosen for the prompt ({hits[0].reason}, score {hits[0].score})")
