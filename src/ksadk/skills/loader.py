"""A skill on this machine, read from its directory."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ksadk.skills.allowed_tools import AllowedTools
from ksadk.skills.errors import SkillError
from ksadk.skills.findings import SKILL_MD, Finding
from ksadk.skills.models import LOCAL_SPACE, SkillRef
from ksadk.skills.parsing import MAX_BYTES, Document, parse_skill_md

ENTRY_POINT = "scripts/run-workflow.sh"
MAX_SCRIPT_FILES = 1000


@dataclass(frozen=True)
class LocalSkill:
    """A skill that was read.

    body: the instructions. allowed_tools: None where the author restricts nothing.
    aliases, tags, examples, version: what the metadata says, else a field at the top.
    digest, ref, cache_hit: where it came from, set by whoever fetched it.
    """

    name: str
    description: str
    root_dir: Path
    skill_md: Path
    body: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    allowed_tools: AllowedTools | None = None
    version: str = ""
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    space_id: str = LOCAL_SPACE
    ref: SkillRef | None = None
    digest: str = ""
    cache_hit: bool = False

    @property
    def script_files(self) -> tuple[str, ...]:
        """The regular files below `scripts`, as paths from the skill's directory, sorted; 1,000 at most."""
        return tuple(sorted(_script_files(self.root_dir))[:MAX_SCRIPT_FILES])

    @property
    def entry_point(self) -> str | None:
        """The script that runs the skill as a workflow, if it has one."""
        try:
            status = (self.root_dir / ENTRY_POINT).lstat()
        except OSError:
            return None
        return ENTRY_POINT if stat.S_ISREG(status.st_mode) else None


def load_local_skill(directory: Path, *, default_name: str = "") -> LocalSkill:
    """Read the skill in a directory.

    default_name: its name where its SKILL.md gives none; the directory's if empty. Raises
    `FileNotFoundError` where there is no SKILL.md, and `SkillError` where it cannot be used: its `findings`
    are in the error's details.
    """
    directory = Path(directory)
    document = parse_skill_md(read_skill_md(directory))
    refusal = document.refusal
    if refusal is not None:
        raise SkillError(
            f"{directory / SKILL_MD}:{refusal}",
            hint=f"{refusal.fix[:1].upper()}{refusal.fix[1:]}." if refusal.fix else None,
            findings=[vars(finding) for finding in document.findings],
        )
    return _skill(directory, document, default_name)


def read_skill_md(directory: Path | str) -> bytes:
    """The bytes of a skill's SKILL.md; of one larger than 1 MiB more than that, so that it is noticed.

    Only a regular file is read, without waiting for anything: a link could lead to any file of the user's.
    Raises `FileNotFoundError` and `SkillError`.
    """
    path = f"{directory}/{SKILL_MD}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise FileNotFoundError(f"{directory} has no {SKILL_MD}") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SkillError(f"{path} is a link", hint="Put the file itself there.") from error
        raise SkillError(f"{path} cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SkillError(f"{path} is no regular file")
        return os.read(descriptor, min(status.st_size, MAX_BYTES) + 1)
    except OSError as error:
        raise SkillError(f"{path} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _skill(directory: Path, document: Document, default_name: str) -> LocalSkill:
    fields = document.fields
    return LocalSkill(
        name=fields.name or default_name or Path(os.path.abspath(directory)).name,  # noqa: PTH100  # links stay
        description=fields.description,
        root_dir=directory,
        skill_md=directory / SKILL_MD,
        body=document.body,
        license=fields.license,
        compatibility=fields.compatibility,
        metadata=fields.metadata,
        allowed_tools=fields.allowed_tools,
        version=fields.told("version"),
        aliases=fields.words("aliases"),
        tags=fields.words("tags"),
        examples=fields.words("examples"),
        findings=document.findings,
    )


def _script_files(root: Path) -> list[str]:
    found: list[str] = []
    for directory, directories, names in os.walk(root / "scripts"):
        directories.sort()
        for name in sorted(names):
            path = Path(directory, name)
            if stat.S_ISREG(path.lstat().st_mode):
                found.append(path.relative_to(root).as_posix())
        if len(found) > MAX_SCRIPT_FILES:
            break
    return found
