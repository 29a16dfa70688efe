"""What the skill tools have in common: finding skills for the current project, and telling of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ksadk.errors import KsadkError
from ksadk.settings import Settings
from ksadk.toolsets.skill_trust import project_trusted

if TYPE_CHECKING:
    from ksadk.skills.catalogue import Catalogue, Entry
    from ksadk.skills.loader import LocalSkill
    from ksadk.skills.ranking import SkillIndex

_MAX_WARNINGS = 50
_SCRIPT_FILES_SHOWN = 20


def load_one(skill_name: str, space_id: str | None) -> tuple[LocalSkill, list[str]]:
    """The skill of that name, as a verified copy, and what is to be said of it."""
    if not skill_name.strip():
        raise KsadkError(
            "skill_name is empty",
            code="skill_name_required",
            hint="Pass the exact name of a skill.",
            available_skills=[],
        )
    from ksadk.skills.runtime.loader import load_skill as load

    loaded = load(skill_name, project_trusted=project_trusted(), space_id=space_id)
    return loaded.skills[0], list(loaded.warnings)


def described(skill: LocalSkill, warnings: Sequence[str]) -> dict[str, Any]:
    """What is told of a loaded skill, but for its instructions."""
    from dataclasses import asdict

    from ksadk.skills.publishing import contract_of

    ref, scripts = skill.ref, skill.script_files
    allowed = skill.allowed_tools
    return {
        "ok": True,
        "name": skill.name,
        "description": skill.description,
        "skill_id": ref.skill_id if ref else skill.name,
        "version_id": ref.version_id if ref else "",
        "version": skill.version,
        "space_id": skill.space_id,
        "digest": skill.digest,
        "cache_hit": skill.cache_hit,
        "root_dir": str(skill.root_dir),
        "has_scripts_dir": (skill.root_dir / "scripts").is_dir(),
        "script_files": list(scripts[:_SCRIPT_FILES_SHOWN]),
        "script_count": len(scripts),
        "allowed_tools": None if allowed is None else [str(grant) for grant in allowed.grants],
        "license": skill.license,
        "compatibility": skill.compatibility,
        "contract": asdict(contract_of(skill)),
        "warnings": list(warnings),
    }


def usage(skill: LocalSkill) -> str:
    """How an agent goes on from a skill's instructions."""
    words = ["Follow the instructions where they fit the task; paths in them are relative to root_dir."]
    if skill.script_files:
        words.append(f"Its scripts are run with execute_skills, skill_names=[{skill.name!r}].")
    if skill.allowed_tools is not None:
        words.append(f"Use no other tools for it than {str(skill.allowed_tools) or 'none at all'}.")
    return " ".join(words)


def find(space_id: str | None, **empty: Any) -> Catalogue:
    """The skills that there are; `empty` are the fields of a result that an error has too."""
    from ksadk.skills.catalogue import find_skills, service_client

    settings = Settings.from_env()
    fields = {"skill_space_ids": asked_spaces(space_id), **empty}
    with service_client(settings) as client:
        try:
            found = find_skills(
                settings,
                client=client,
                project_trusted=project_trusted(),
                space_ids=[space_id] if space_id else None,
            )
        except KsadkError as error:
            error.details = fields | error.details
            raise
    return found.required(**fields)


def asked_spaces(space_id: str | None) -> list[str]:
    """The ids of the spaces that a call is about."""
    from ksadk.skills.service_address import configured_spaces

    return [space_id] if space_id else configured_spaces(Settings.from_env())


def listed(entry: Entry) -> dict[str, Any]:
    """What a listing tells of a skill."""
    return {
        "name": entry.name,
        "description": entry.description,
        "version": entry.version,
        "space_id": entry.space_id,
        "source": entry.source,
        "aliases": list(entry.aliases),
        "tags": list(entry.tags),
    }


def told(found: Catalogue) -> dict[str, Any]:
    """What a listing left out or took otherwise than it is written, in words."""
    warnings: Iterable[str] = (*found.warnings, *(f"refused: {why}" for why in found.refused))
    shown = list(dict.fromkeys(warnings))
    if len(shown) > _MAX_WARNINGS:
        shown = [*shown[:_MAX_WARNINGS], f"and {len(shown) - _MAX_WARNINGS} more"]
    return {"summary": found.summary(), "warnings": shown}


def ranked(found: Catalogue, query: str, limit: int) -> list[dict[str, Any]]:
    """What a search tells of the skills of a catalogue that fit a query best, best first."""
    entries = tuple(found.entries.values())
    return [
        {**listed(entries[hit.position]), "score": hit.score, "reason": hit.reason}
        for hit in _index(entries).search(query, limit)
    ]


@functools.lru_cache(maxsize=2)
def _index(entries: tuple[Entry, ...]) -> SkillIndex:
    from ksadk.skills.ranking import SkillIndex

    return SkillIndex(entries)
