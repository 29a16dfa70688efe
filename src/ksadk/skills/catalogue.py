"""Which skills there are: those of this machine, then those of each space, each name once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ksadk.sessions import project_dir
from ksadk.settings import Settings
from ksadk.skills import local
from ksadk.skills.errors import SkillError, SkillServiceError
from ksadk.skills.findings import SKILL_MD
from ksadk.skills.index_cache import index_dir
from ksadk.skills.models import LOCAL_SPACE, SkillRef
from ksadk.skills.service_address import configured_spaces, service_configured

if TYPE_CHECKING:
    import httpx

    from ksadk.skills.service_client import SkillServiceClient

ClientOf = Callable[[], "SkillServiceClient"]

MAX_SPACE_ID = 256
"""How many characters the id of a space may have."""

MAX_NAME = 100
MAX_NAMES = 100
MAX_REASONS = 5
"""How much of a name that is not there is shown, how many names are offered instead, and how many refusals a
summary tells."""


class Entry(NamedTuple):
    """A skill that can be loaded: from `directory` where it is on this machine, else by its `ref`."""

    name: str
    description: str
    version: str
    space_id: str
    source: str
    """Where it is, in words: configured, project or user; of a remote one the name of its space."""
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    directory: Path | None = None
    ref: SkillRef | None = None

    @property
    def key(self) -> str:
        """What no other skill of a catalogue has: the name, whatever its case."""
        return self.name.lower()


@dataclass(frozen=True)
class Catalogue:
    """Skills by their keys, in order.

    configured: whether there is a place that skills may be in.
    warnings: what was left out, and why.
    refused: local directories whose SKILL.md cannot be loaded, each with why.
    repaired: how many are taken as their authors meant them.
    failed: of the warnings those about whole places: spaces that could not be asked, untrusted projects.
    """

    entries: dict[str, Entry]
    configured: bool = False
    warnings: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    repaired: int = 0
    failed: tuple[str, ...] = ()

    def named(self, name: str) -> Entry:
        """The skill of that name. Raises `skill_not_found`, which says which names are near."""
        entry = self.entries.get(name.strip().lower())
        if entry is not None:
            return entry
        import difflib

        near = difflib.get_close_matches(name.strip().lower(), self.entries, n=3)
        known = " or ".join(repr(self.entries[key].name) for key in near)
        named = "`agentengine skills list`, or the tool list_skills, gives the names."
        ending = f"/{name.strip()}: ".lower()
        why = (*self.failed, *(refused for refused in self.refused if ending in refused.lower()))
        raise SkillError(
            "; ".join([f"there is no skill {name[:MAX_NAME]!r}", *why[:MAX_REASONS]]),
            code="skill_not_found",
            hint=f"Did you mean {known}?" if known else named,
            name=name[:MAX_NAME],
            available_skills=[entry.name for entry in self.entries.values()][:MAX_NAMES],
        )

    def required(self, **details: Any) -> Catalogue:
        """This, where there is a place that skills may be in. Raises `skill_service_not_configured`, with
        `details`."""
        if self.configured:
            return self
        raise SkillServiceError(
            "no skills are configured",
            code="skill_service_not_configured",
            hint="Put skills into ~/.agents/skills, or set KSADK_LOCAL_SKILLS_DIR, or"
            " KSADK_SKILL_SERVICE_URL with KSADK_SKILL_SPACE_IDS.",
            **details,
        )

    def has(self, name: str) -> bool:
        """Whether there is a skill of that name, whatever its case."""
        return name.strip().lower() in self.entries

    def before(self, other: Catalogue) -> Catalogue:
        """Both, where those of this one hide others of the same name."""
        hidden = (
            f"the skill {entry.name} of {entry.space_id} is hidden by that of {self.entries[key].space_id}"
            for key, entry in other.entries.items()
            if key in self.entries
        )
        return Catalogue(
            self.entries | {key: entry for key, entry in other.entries.items() if key not in self.entries},
            self.configured or other.configured,
            (*self.warnings, *other.warnings, *hidden),
            (*self.refused, *other.refused),
            self.repaired + other.repaired,
            (*self.failed, *other.failed),
        )

    def summary(self) -> str:
        """Such as "34 loaded, 1 repaired, 1 refused: bad/SKILL.md:2:1: ..."."""
        counted = [f"{len(self.entries)} loaded"]
        if self.repaired:
            counted.append(f"{self.repaired} repaired")
        if self.refused:
            counted.append(f"{len(self.refused)} refused: {'; '.join(self.refused[:MAX_REASONS])}")
        return ", ".join(counted)


def find_skills(
    settings: Settings,
    *,
    client: ClientOf,
    project_trusted: bool = False,
    space_ids: Sequence[str] | None = None,
) -> Catalogue:
    """The skills of this machine, then those of the spaces; of one name the first counts.

    client: makes the client of the service; not called where there is no space to ask it for.
    project_trusted: whether the skills that are in the project itself count.
    space_ids: only these, of which `local` is this machine; all that are configured if left out.

    A space that fails, or a skill that cannot be read, is a warning. Raises the first error where no
    space can be asked and there is no other place that skills may be in.
    """
    for space_id in space_ids or ():
        check_space_id(space_id)
    found = Catalogue({})
    if space_ids is None or LOCAL_SPACE in space_ids:
        found = local_skills(settings, project_trusted=project_trusted)
    failure: SkillError | None = None
    for space in [None] if space_ids is None else dict.fromkeys(space_ids):
        if space == LOCAL_SPACE or not spaces_configured(settings, space):
            continue
        try:
            found = found.before(remote_skills(settings, client, space))
        except SkillError as error:
            failure = failure or error
            what = f"the space {space}" if space else "the Skill Service"
            told = (f"{what} was left out: {error.message}",)
            found = found.before(Catalogue({}, warnings=told, failed=told))
    if failure is not None and not found.configured:
        raise failure
    return found


def check_space_id(space_id: str) -> None:
    """Raise `invalid_space_id` unless it is one: 1 to 256 printable characters."""
    if not (0 < len(space_id) <= MAX_SPACE_ID and space_id.isprintable()):
        raise SkillError(
            f"{space_id[:40]!r} is no id of a space of skills",
            code="invalid_space_id",
            hint="It has 1 to 256 printable characters; list_skill_spaces gives them.",
        )


def spaces_configured(settings: Settings, space_id: str | None = None) -> bool:
    """Whether there is a service, and a space to ask it for."""
    return bool(space_id or configured_spaces(settings)) and service_configured(settings)


def local_skills(settings: Settings, *, project_trusted: bool, keep: bool = True) -> Catalogue:
    """The skills of this machine. keep: what was read of them, so that the next listing need not."""
    places = local.sources(settings, project=project_dir(settings), project_trusted=project_trusted)
    found = local.find_local_skills(places, cache=index_dir(settings) if keep else None)
    entries: dict[str, Entry] = {}
    for skill in found.skills:
        entry = Entry(
            skill.name, skill.description, skill.version, LOCAL_SPACE, skill.source,
            skill.aliases, skill.tags, skill.examples, skill.directory,
        )  # fmt: skip
        entries.setdefault(entry.key, entry)
    repaired = (
        f"{skill.directory / SKILL_MD}:{finding}; {finding.fix}"
        for skill in found.skills
        for finding in skill.findings
        if finding.repaired
    )
    return Catalogue(
        entries, bool(places), (*found.warnings, *repaired), tuple(map(str, found.refused)), found.repaired,
        found.failed,
    )  # fmt: skip


def remote_skills(settings: Settings, client: ClientOf, space_id: str | None = None) -> Catalogue:
    """The skills of the spaces, or of one. Raises `SkillServiceError` where the service cannot be asked."""
    from ksadk.skills.manifest import load_manifest  # its queue and threads are not for listing local skills

    manifest = load_manifest(settings, client=client(), limit=None, space_id=space_id)
    entries: dict[str, Entry] = {}
    for ref in manifest.skills:
        entry = Entry(
            ref.name, ref.description, ref.version or ref.version_id, ref.space_id,
            ref.space_name or ref.space_id, ref.aliases, ref.tags, ref.examples, None, ref,
        )  # fmt: skip
        entries.setdefault(entry.key, entry)
    return Catalogue(entries, True, manifest.warnings, failed=manifest.failed)


@contextmanager
def service_client(settings: Settings, transport: httpx.BaseTransport | None = None) -> Iterator[ClientOf]:
    """A way to the client of the service that the environment names: made when it is first called, and closed
    with the block."""
    with ExitStack() as stack:

        @functools.cache
        def client() -> SkillServiceClient:
            from ksadk.skills.service_client import SkillServiceClient

            return stack.enter_context(SkillServiceClient.from_env(settings, transport=transport))

        yield client
