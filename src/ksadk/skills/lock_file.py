"""`skills.lock`: which version of each skill a project loads, to be reviewed and kept with its source."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from ksadk.skills.errors import SkillError
from ksadk.skills.models import ContentHash
from ksadk.whole_files import replace_file

LOCK_NAME = "skills.lock"
MAX_BYTES = 1024 * 1024
MAX_SHOWN = 100
"""How many characters of a version are shown."""

_VERSION = 1


class Locked(NamedTuple):
    """One version of a skill. digest: the hash of its archive, `sha256:...`; of a local skill, of its files.
    version: "" where it says none."""

    version: str
    digest: str

    def __str__(self) -> str:
        return f"version {self.version[:MAX_SHOWN]} ({self.digest})" if self.version else self.digest


class Difference(NamedTuple):
    """A skill that is not as it was locked. `locked` is None for a new one, `found` for one that is gone."""

    name: str
    locked: Locked | None
    found: Locked | None

    def __str__(self) -> str:
        if self.locked is None:
            return f"the skill {self.name!r} is not in {LOCK_NAME}: it is {self.found}"
        if self.found is None:
            return f"the skill {self.name!r} is in {LOCK_NAME} with {self.locked}, and not there"
        return f"the skill {self.name!r} is in {LOCK_NAME} with {self.locked}, and is now {self.found}"


@dataclass(frozen=True)
class SkillLock:
    """Skills by name."""

    skills: Mapping[str, Locked]

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Of a file; None where there is none. Raises `SkillError` (`invalid_lock_file`) where it is another:
        a broken one must not mean that everything may be loaded."""
        text = _text_of(path)
        if text is None:
            return None
        try:
            kept = json.loads(text, object_pairs_hook=_once)
            json.dumps(kept, ensure_ascii=False).encode()  # escapes can make characters that no text has
            if kept["version"] is True or kept["version"] != _VERSION:
                raise ValueError(f"its version is {str(kept['version'])[:20]}, and {_VERSION} is read")
            return cls({name: _locked(item) for name, item in kept["skills"].items()})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SkillError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise _invalid(path, why) from error

    def write(self, path: Path) -> None:
        """Replace a file whole: the same skills make the same bytes. Raises `OSError`."""
        skills = {name: locked._asdict() for name, locked in sorted(self.skills.items())}
        text = json.dumps({"version": _VERSION, "skills": skills}, indent=2, ensure_ascii=False) + "\n"
        replace_file(path, text.encode(), mode=0o644)

    def check(self, name: str, version: str, digest: str) -> None:
        """Raise `SkillError` (`skill_lock_mismatch`) with the difference, unless it is locked just so."""
        found = Locked(version, digest)
        if self.skills.get(name) != found:
            raise SkillError(
                f"{Difference(name, self.skills.get(name), found)}",
                code="skill_lock_mismatch",
                hint="Look at what changed; `agentengine skills lock NAME` then takes it as it is.",
            )

    def differences(self, found: SkillLock) -> Iterator[Difference]:
        """In what the skills that were found are not as they are here, by name."""
        for name in sorted(self.skills.keys() | found.skills.keys()):
            here, there = self.skills.get(name), found.skills.get(name)
            if here != there:
                yield Difference(name, here, there)


def _text_of(path: Path) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        if path.is_symlink():
            raise _invalid(path, "it is a link that leads nowhere") from error
        return None
    except OSError as error:
        raise _invalid(path, str(error.strerror)) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _invalid(path, "it is no file")
        with open(descriptor, "rb", closefd=False) as stream:  # of a descriptor
            data = stream.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_BYTES:
        raise _invalid(path, f"it is over {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _invalid(path, "it is not UTF-8") from error


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} is there twice")
        found[key] = value
    return found


def _locked(item: Any) -> Locked:
    version, digest = item["version"], item["digest"]
    if not isinstance(version, str) or not isinstance(digest, str):
        raise TypeError("a version or digest is no text")
    return Locked(version, str(ContentHash.parse(digest)))


def _invalid(path: Path, why: str) -> SkillError:
    return SkillError(
        f"{path} is no lock file: {why}",
        code="invalid_lock_file",
        hint="Restore it, or delete it and run agentengine skills lock.",
    )
