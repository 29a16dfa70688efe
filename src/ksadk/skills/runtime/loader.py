"""Loads skills: verified copies of those of this machine, then of each space, then the public ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ksadk.sessions import project_dir
from ksadk.settings import Settings
from ksadk.skills.catalogue import Catalogue, ClientOf, Entry, find_skills, service_client
from ksadk.skills.errors import SkillError
from ksadk.skills.loader import LocalSkill, load_local_skill
from ksadk.skills.lock_file import LOCK_NAME, SkillLock
from ksadk.skills.models import LOCAL_SPACE
from ksadk.skills.package_store import PackageStore, SkillPackage, cache_dir
from ksadk.skills.ranking import SkillIndex
from ksadk.skills.runtime.base import normalize_skill_names

if TYPE_CHECKING:
    import httpx

_NOT_VERIFIED = frozenset({"content_hash_mismatch", "content_hash_missing", "invalid_content_hash"})


@dataclass(frozen=True)
class SkillLoadResult:
    """Skills in the order of their places, and what was left out or is not as it should be."""

    skills: tuple[LocalSkill, ...] = ()
    warnings: tuple[str, ...] = ()


def load_skills(
    *,
    prompt: str = "",
    skill_names: Iterable[str] | str | None = None,
    service_transport: httpx.BaseTransport | None = None,
    project_trusted: bool = False,
    space_ids: Sequence[str] | None = None,
    locked: bool = True,
) -> SkillLoadResult:
    """Load skills as verified copies, whose files nothing changes any more.

    prompt: where there are more than KSADK_SKILL_MANIFEST_LIMIT skills, those that fit it best are loaded.
    skill_names: exact names, whatever their case; KSADK_SELECTED_SKILL_NAMES if left out; else all skills.
    service_transport: carries the requests to the Skill Service.
    project_trusted: whether the skills in the project itself count.
    space_ids: only these spaces, of which `local` is this machine; all that are configured if left out.
    locked: whether a skill has to be as the project's skills.lock says, where there is one.

    Raises `SkillError`: `skill_not_found`, a skill that was named and cannot be loaded, and of any skill
    a package that is not the one that its space lists, unless KSADK_SKILL_ALLOW_HASH_MISMATCH. A skill that
    was not named and cannot be loaded for another reason is a warning.
    """
    settings = Settings.from_env()
    names = normalize_skill_names(skill_names) or normalize_skill_names(settings.selected_skill_names)
    with service_client(settings, service_transport) as client:
        find = partial(find_skills, settings, project_trusted=project_trusted, client=client)
        loader = SkillLoader(settings, client, locked=locked)
        if names:
            return loader.load_named(names, _holding(names, find, space_ids))
        return loader.load_fitting(prompt, find(space_ids=space_ids))


def load_skill(
    skill_name: str, *, project_trusted: bool = False, space_id: str | None = None
) -> SkillLoadResult:
    """Load the one skill of that exact name, whatever its characters, as `load_skills` does."""
    settings = Settings.from_env()
    space_ids = [space_id] if space_id else None
    with service_client(settings) as client:
        find = partial(find_skills, settings, project_trusted=project_trusted, client=client)
        return SkillLoader(settings, client).load_named([skill_name], _holding([skill_name], find, space_ids))


def _holding(
    names: Iterable[str], find: Callable[..., Catalogue], space_ids: Sequence[str] | None
) -> Catalogue:
    """A catalogue to look names up in: no service is asked where this machine has them all."""
    if space_ids is None or LOCAL_SPACE in space_ids:
        local = find(space_ids=[LOCAL_SPACE])
        if all(local.has(name) for name in names):
            return local
    return find(space_ids=space_ids)


class SkillLoader:
    """Loads skills of a catalogue. `client` is called where a package is to be downloaded."""

    def __init__(self, settings: Settings, client: ClientOf, *, locked: bool = True) -> None:
        self._client = client
        self._limit = settings.skill_manifest_limit
        self._allow_mismatch = settings.skill_allow_hash_mismatch
        self._store = PackageStore(cache_dir(settings))
        self._lock = SkillLock.read(project_dir(settings) / LOCK_NAME) if locked else None

    def load_named(self, names: Iterable[str], catalogue: Catalogue) -> SkillLoadResult:
        """Load each of these skills, or raise why one cannot be."""
        found = dict.fromkeys(map(catalogue.required(available_skills=[]).named, names))
        warnings: list[str] = []
        skills = tuple(self._load(entry, warnings) for entry in found)
        return SkillLoadResult(skills, tuple(dict.fromkeys(warnings)))

    def load_fitting(self, prompt: str, catalogue: Catalogue) -> SkillLoadResult:
        """Load every skill, or where there are too many those that fit a prompt best."""
        warnings = [*catalogue.warnings, *(f"refused: {why}" for why in catalogue.refused)]
        skills = []
        for entry in self._chosen(prompt, list(catalogue.entries.values()), warnings):
            try:
                skills.append(self._load(entry, warnings))
            except SkillError as error:
                if error.code in _NOT_VERIFIED:
                    raise
                warnings.append(f"the skill {entry.name} was left out: {error.message}")
        return SkillLoadResult(tuple(skills), tuple(dict.fromkeys(warnings)))

    def _chosen(self, prompt: str, entries: list[Entry], warnings: list[str]) -> Iterable[Entry]:
        if len(entries) <= self._limit:
            return entries
        fitting = sorted(hit.position for hit in SkillIndex(entries).search(prompt, self._limit))
        warnings.append(
            f"{len(fitting) or self._limit} of {len(entries)} skills are loaded, "
            + ("those that fit the prompt best" if fitting else "the first ones")
            + " (KSADK_SKILL_MANIFEST_LIMIT)"
        )
        return [entries[position] for position in fitting] or entries[: self._limit]

    def _load(self, entry: Entry, warnings: list[str]) -> LocalSkill:
        package = self._package(entry)
        warnings += package.warnings
        try:
            skill = load_local_skill(package.root_dir, default_name=entry.name)
        except FileNotFoundError as error:
            raise SkillError(f"the skill {entry.name} has no SKILL.md any more") from error
        if skill.name.lower() != entry.key:
            # Rules, locks and people go by the listed name: what is in a package cannot take another's.
            warnings.append(f"the skill {entry.name} calls itself {skill.name!r} in its SKILL.md")
        warnings += (
            f"{entry.name}: SKILL.md:{finding}"
            for finding in skill.findings
            if finding.repaired or finding.severity == "error"
        )
        version = skill.version if entry.ref is None else entry.version
        if self._lock is not None:
            self._lock.check(entry.name, version, package.digest)
        return replace(
            skill, name=entry.name, version=version, space_id=entry.space_id, ref=entry.ref,
            digest=package.digest, cache_hit=package.cache_hit,
        )  # fmt: skip

    def _package(self, entry: Entry) -> SkillPackage:
        if entry.directory is not None:
            return self._store.pin(entry.directory)
        assert entry.ref is not None
        return self._store.fetch(
            entry.ref, lambda ref: self._client().download(ref), allow_mismatch=self._allow_mismatch
        )
