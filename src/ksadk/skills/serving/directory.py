"""What a directory of skills offers: its spaces, and of each skill the one version that it has now.

A directory with a SKILL.md is a skill of the space that is named after the directory they are all in. One
without, which holds skills, is a space of its own. The space `public` is what the service itself offers.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ksadk.errors import KsadkError
from ksadk.skills.errors import SkillError
from ksadk.skills.findings import SKILL_MD
from ksadk.skills.key_files import key_files
from ksadk.skills.limits import MAX_MEMBERS
from ksadk.skills.loader import LocalSkill, load_local_skill
from ksadk.skills.member_names import is_left_out
from ksadk.skills.models import ContentHash
from ksadk.skills.packing import pack

log = logging.getLogger(__name__)

_Stamp = tuple[object, ...]


@dataclass(frozen=True)
class ServedSkill:
    """A skill as it is now. Its version is its content: other bytes are another version id."""

    space_id: str
    skill: LocalSkill
    content_hash: ContentHash

    @property
    def skill_id(self) -> str:
        """Of space and name, as a download is asked for without its space."""
        return f"{self.space_id}/{self.skill.name}"

    @property
    def version_id(self) -> str:
        """The beginning of the hash of the archive."""
        return self.content_hash.hex[:32]


@dataclass(frozen=True)
class Spaces:
    """The spaces, each with its skills by name, in order; and the skills of all of them by id."""

    by_id: Mapping[str, tuple[ServedSkill, ...]]

    def skill(self, skill_id: str) -> ServedSkill | None:
        """The skill of an id, if there is one."""
        return next((it for it in self.skills() if it.skill_id == skill_id), None)

    def skills(self) -> Iterator[ServedSkill]:
        """All of them."""
        for skills in self.by_id.values():
            yield from skills


class ServedDirectory:
    """Looks at the directory whenever it is asked, and reads only what has changed. What cannot be served is
    told in the log, once, and left out. It may be used by several threads."""

    def __init__(self, directory: Path, *, space_id: str = "") -> None:
        """space_id: the space of the skills that are in no further directory; that directory's name if empty.

        Raises `KsadkError` where there is no such directory, or where it is a skill itself.
        """
        if not directory.is_dir():
            raise KsadkError(f"{directory} is no directory", code="not_found")
        if (directory / SKILL_MD).exists():
            raise KsadkError(
                f"{directory} is a skill, not a directory of skills",
                code="usage",
                hint=f"Serve the directory that it is in: {directory.resolve().parent}",
            )
        self.path = directory
        self.space_id = space_id or directory.resolve().name or "skills"
        self._lock = threading.Lock()
        self._known: dict[tuple[str, Path], tuple[_Stamp, ServedSkill | str]] = {}
        self._told: set[str] = set()
        self.spaces()

    def spaces(self) -> Spaces:
        """What there is now."""
        with self._lock:
            seen: dict[tuple[str, Path], tuple[_Stamp, ServedSkill | str]] = {}
            found: dict[str, dict[str, ServedSkill]] = {}
            for space_id, place in self._places():
                skills = found.setdefault(space_id, {})
                entry = seen[space_id, place] = self._looked_at(space_id, place)
                served = entry[1]
                if isinstance(served, str):
                    self._tell(f"{place} is not served: {served}")
                elif skills.setdefault(served.skill.name, served) is not served:
                    first = skills[served.skill.name].skill.root_dir
                    self._tell(f"{place} is not served: {first} has the name {served.skill.name}, too")
            self._known = seen
        if not found:
            found[self.space_id] = {}
        return Spaces(
            {space: tuple(skills[name] for name in sorted(skills)) for space, skills in found.items()}
        )

    def archive(self, served: ServedSkill) -> bytes | None:
        """The bytes of a version; None where the skill has changed since."""
        try:
            data = pack(served.skill.root_dir)
        except SkillError:
            return None
        return data if ContentHash.of(data) == served.content_hash else None

    def _places(self) -> Iterator[tuple[str, Path]]:
        """Where skills are, with the space of each."""
        for place in self._directories(self.path):
            if _holds_skill(place):
                yield self.space_id, place
            else:
                inner = self._directories(place)
                yield from ((place.name, directory) for directory in inner if _holds_skill(directory))

    def _directories(self, place: Path) -> list[Path]:
        try:
            with os.scandir(place) as entries:
                names = sorted(entry.name for entry in entries if entry.is_dir() and entry.name[0] != ".")
        except OSError as error:
            self._tell(f"{place} is not served: {error.strerror}")
            return []
        odd = [name for name in names if not name.isprintable() or "," in name]  # ids are listed with commas
        if odd:
            self._tell(f"{place}: a name with a comma, or that is not printable, is not served: {odd}")
        return [place / name for name in names if name not in odd]

    def _looked_at(self, space_id: str, place: Path) -> tuple[_Stamp, ServedSkill | str]:
        try:
            stamp = tuple(_stamps(place))
            known = self._known.get((space_id, place))
            if known is not None and known[0] == stamp:
                return known
            data = pack(place)
            for file in key_files(data):
                self._tell(f"{place} is served with {file}, which may hold a key or a password")
            return stamp, ServedSkill(space_id, load_local_skill(place), ContentHash.of(data))
        except SkillError as error:
            return stamp, error.message
        except OSError as error:
            return (), f"{error.strerror or error}"

    def _tell(self, words: str) -> None:
        if words not in self._told:
            self._told.add(words)
            log.warning("%s", words)


def _holds_skill(place: Path) -> bool:
    return os.path.lexists(place / SKILL_MD)


def _stamps(place: Path) -> Iterator[tuple[object, ...]]:
    """What changes when a file below a directory does; of no more files than a skill may have."""
    left = MAX_MEMBERS + 1
    waiting = [str(place)]
    while waiting and left > 0:
        with os.scandir(waiting.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if is_left_out(entry.name):
                    continue
                left -= 1
                found = entry.stat(follow_symlinks=False)
                yield (
                    entry.path,
                    found.st_mode,
                    found.st_ino,
                    found.st_size,
                    found.st_mtime_ns,
                    found.st_ctime_ns,
                )
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
