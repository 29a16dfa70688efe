"""The skills of this machine: where they are looked for, and what a listing tells of each."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ksadk.sessions import project_dir
from ksadk.settings import Settings
from ksadk.skills.errors import SkillError
from ksadk.skills.findings import SKILL_MD, Finding
from ksadk.skills.index_cache import Index, index_dir

SHARED = Path(".agents", "skills")
"""Where hosts of skills share them, in a project and in the user's home."""

MAX_DEPTH = 4
MAX_DIRECTORIES = 10_000

LEADS_OUT = "a link leads out of the project"
"""Why what is behind it is not even looked at: a stranger's link may lead to a disk that does not answer."""

_NO_SKILLS = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})

Kind = Literal["configured", "project", "user"]


@dataclass(frozen=True)
class Source:
    """A directory of skills. left_out: why nothing of it is taken; empty where it is."""

    directory: Path
    kind: Kind
    left_out: str = ""


@dataclass(frozen=True)
class LocalManifest:
    """What a listing tells of a skill. `source` is the kind of its source."""

    name: str
    description: str
    directory: Path
    source: Kind
    version: str = ""
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Refused:
    """A directory that was meant to be a skill, and is none. findings: what is wrong with its SKILL.md."""

    directory: Path
    why: str
    findings: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        return f"{self.directory}: {self.why}"


@dataclass(frozen=True)
class LocalSkills:
    """What was found. Of one name the first counts; that the others are hidden is among the warnings.

    repaired: how many are taken as their authors meant them, and not as they are written.
    failed: of the warnings those about whole sources, of which nothing is taken.
    """

    skills: tuple[LocalManifest, ...] = ()
    refused: tuple[Refused, ...] = ()
    repaired: int = 0
    warnings: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Place(NamedTuple):
    """A directory that may be a skill. problem: why its SKILL.md is not even looked at."""

    directory: str
    status: os.stat_result | None
    problem: str = ""


def sources(settings: Settings, *, project: Path, project_trusted: bool) -> tuple[Source, ...]:
    """The directories that may hold skills, those first whose skills win.

    `KSADK_LOCAL_SKILLS_DIR`; `.agents/skills` and `skills` in the project, which may be a stranger's, so that
    they are left out unless it is trusted; `.agents/skills` in the user's home. What is not there is no
    source, but for what a variable names.
    """
    found: dict[str, Source] = {}
    if settings.local_skills_dir is not None:
        configured = Source(Path(os.path.abspath(settings.local_skills_dir)), "configured")  # noqa: PTH100
        found[os.path.realpath(configured.directory)] = configured
    user = _home_skills()
    users = "" if user is None else os.path.realpath(user)
    for directory in (project / SHARED, project / "skills"):
        real = os.path.realpath(directory)
        if os.path.isdir(directory) and real != users:  # noqa: PTH112  # also where nobody may look
            inside = Path(real).is_relative_to(os.path.realpath(project))
            why = "" if inside else LEADS_OUT
            if inside and not project_trusted:
                why = (
                    "the project is not trusted: see agentengine trust, or name it in KSADK_LOCAL_SKILLS_DIR"
                )
            found.setdefault(real, Source(directory.absolute(), "project", why))
    if user is not None and os.path.isdir(user):  # noqa: PTH112
        found.setdefault(os.path.realpath(user), Source(user, "user"))
    return tuple(found.values())


def find_local_skills(places: Sequence[Source], *, cache: Path | None) -> LocalSkills:
    """The skills of the sources. One that cannot be used is refused, and hides no other.

    cache: a directory for indexes, so that only what changed is read; None reads every SKILL.md.
    """
    skills: dict[str, LocalManifest] = {}
    refused: list[Refused] = []
    warnings: list[str] = []
    failed: list[str] = []
    for source in places:
        if source.left_out:
            if source.left_out == LEADS_OUT or next(walk(source.directory, []), None) is not None:
                failed.append(f"{source.directory} was left out: {source.left_out}")
            continue
        for found in _read_source(source, cache, warnings):
            if isinstance(found, Refused):
                refused.append(found)
                continue
            first = skills.setdefault(found.name.casefold(), found)
            if first is not found:
                warnings.append(f"{found.directory} is hidden: {first.directory} is the skill {first.name}")
    repaired = sum(any(finding.repaired for finding in skill.findings) for skill in skills.values())
    return LocalSkills(tuple(skills.values()), tuple(refused), repaired, (*failed, *warnings), tuple(failed))


def remembered_skills(settings: Settings) -> Iterator[LocalManifest]:
    """The skills that the last listings found in the user's own sources. No source is looked into."""
    for source in sources(settings, project=project_dir(settings), project_trusted=False):
        if source.kind == "project":
            continue
        for directory, record in Index(index_dir(settings), os.path.realpath(source.directory)).remembered():
            found = _of_record(directory, source.kind, record)
            if isinstance(found, LocalManifest):
                yield found


def walk(root: Path, warnings: list[str]) -> Iterator[Place]:
    """The directories with a SKILL.md at and below a directory, in the order of their names.

    Four levels deep, 10,000 directories at most, and never through a link; what that leaves out is added to
    the warnings.
    """
    waiting = [(str(root), 0)]
    looked = 0
    while waiting:
        directory, depth = waiting.pop()
        looked += 1
        if looked > MAX_DIRECTORIES:
            warnings.append(f"{root}: only the first {MAX_DIRECTORIES:,} directories were looked at")
            return
        try:
            status = os.lstat(f"{directory}/{SKILL_MD}")
        except FileNotFoundError:
            if depth < MAX_DEPTH:
                below = yield from _below(directory, warnings)
                waiting += [(path, depth + 1) for path in reversed(below)]
        except OSError as error:
            yield Place(directory, None, f"{SKILL_MD} cannot be looked at: {error.strerror}")
        else:
            yield Place(directory, status)


def _below(directory: str, warnings: list[str]) -> Generator[Place, None, list[str]]:
    """The directories in one; yields links that were meant to be skills."""
    try:
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        warnings.append(f"{directory} cannot be read: {error.strerror}")
        return []
    below = []
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _NO_SKILLS:
                below.append(entry.path)
        elif entry.is_symlink() and os.path.lexists(f"{entry.path}/{SKILL_MD}"):
            yield Place(entry.path, None, "it is a link, and skills behind links are not taken")
        elif entry.name.lower() == SKILL_MD.lower():
            yield Place(directory, None, f"{entry.name} has to be named {SKILL_MD}")
    return below


def _read_source(
    source: Source, cache: Path | None, warnings: list[str]
) -> Iterator[LocalManifest | Refused]:
    index = Index(cache, os.path.realpath(source.directory))
    for place in walk(source.directory, warnings):
        record = None if place.status is None else index.get(place.directory, place.status)
        found = None if record is None else _of_record(place.directory, source.kind, record)
        if found is None:
            try:
                found, record = _read_skill(place, source.kind)
            except FileNotFoundError:
                continue  # it was deleted meanwhile
            if record is not None and place.status is not None:
                index.put(place.directory, place.status, record)
        yield found
    index.write()


def _read_skill(place: Place, kind: Kind) -> tuple[LocalManifest | Refused, list[Any] | None]:
    """A skill of its own file, and what the index keeps of it: None where that may change without it."""
    if place.status is None or not stat.S_ISREG(place.status.st_mode):
        link = place.status is not None and stat.S_ISLNK(place.status.st_mode)
        why = place.problem or f"{SKILL_MD} is {'a link' if link else 'no file'}"
        return Refused(Path(place.directory), why), None
    from ksadk.skills.loader import read_skill_md
    from ksadk.skills.parsing import parse_skill_md

    directory = os.path.basename(place.directory)  # noqa: PTH119  # a Path for each is felt
    try:
        document = parse_skill_md(read_skill_md(place.directory), directory=directory)
    except SkillError as error:
        return Refused(Path(place.directory), error.message), None
    fields = document.fields
    record = [
        fields.name or directory, fields.description, fields.told("version"), fields.words("aliases"),
        fields.words("tags"), fields.words("examples"),
        [list(vars(finding).values()) for finding in document.findings],
        "" if document.refusal is None else f"{SKILL_MD}:{document.refusal}",
    ]  # fmt: skip
    return _manifest(place.directory, kind, record), record


def _manifest(directory: str, kind: Kind, record: Sequence[Any]) -> LocalManifest | Refused:
    name, description, version, aliases, tags, examples, found, why = record
    findings = tuple(Finding(*values) for values in found) if found else ()
    if why:
        return Refused(Path(directory), why, findings)
    return LocalManifest(
        name, description, Path(directory), kind, version,
        tuple(aliases), tuple(tags), tuple(examples), findings,
    )  # fmt: skip


def _of_record(directory: str, kind: Kind, record: list[Any]) -> LocalManifest | Refused | None:
    """What an index says; None where it is not what this program writes."""
    if list(map(type, record)) != _RECORD:
        return None
    texts = [text for words in record[3:6] for text in words]
    findings = record[6]
    if not all(type(text) is str for text in texts) or not all(
        type(values) is list and list(map(type, values)) == _FINDING for values in findings
    ):
        return None
    return _manifest(directory, kind, record)


_RECORD: list[type] = [str, str, str, list, list, list, list, str]
_FINDING: list[type] = [str, str, str, int, int, str, bool, bool]


def _home_skills() -> Path | None:
    try:
        return Path("~").expanduser() / SHARED
    except RuntimeError:  # nobody knows where the home is
        return None
