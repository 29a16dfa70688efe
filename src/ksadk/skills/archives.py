"""The archive of a skill: a zip whose every name is checked before anything of it is written."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ksadk.skills.errors import SkillPackageError
from ksadk.skills.findings import SKILL_MD
from ksadk.skills.limits import (
    MAX_ARCHIVE_BYTES,
    MAX_EXPANDED_BYTES,
    MAX_MEMBERS,
    MAX_RATIO,
    RATIO_FREE_BYTES,
    too_large,
)
from ksadk.skills.member_names import check_name, check_twins, is_clutter
from ksadk.skills.trees import TreeDirectory, TreeFile
from ksadk.skills.zip_reader import ZipMember, expand, members_of

_KINDS = {0, stat.S_IFREG, stat.S_IFDIR}


@dataclass(frozen=True)
class Archive:
    """An archive that may be unpacked, as far as that can be told without expanding it.

    root: the directory in it that is the skill, "" for its top.
    directories: those that have an entry of their own, or that a file is in.
    """

    data: bytes
    members: tuple[ZipMember, ...]
    directories: frozenset[str]
    root: str

    @classmethod
    def read(cls, data: bytes) -> Archive:
        """Of the bytes of a zip. Raises `SkillPackageError`, whose code says why it is not taken:
        `invalid_skill_package`, `skill_package_too_large` or `unsafe_skill_package`."""
        if len(data) > MAX_ARCHIVE_BYTES:
            raise too_large(f"its archive is {len(data)} bytes, and {MAX_ARCHIVE_BYTES} are the most")
        files: list[ZipMember] = []
        directories: list[ZipMember] = []
        for member in members_of(data):
            is_directory = _check_kind(member)
            path = member.name[: -1 if is_directory else None]
            check_name(path)
            if not is_clutter(path):
                (directories if is_directory else files).append(member)
        names = [member.name for member in files]
        named = [member.name[:-1] for member in directories]
        check_twins(names, named)
        _check_size(len(data), sum(member.size for member in files))
        every = frozenset(
            above for path in [*names, *(f"{name}/" for name in named)] for above in _above(path)
        )
        if len(files) + len(every) > MAX_MEMBERS:
            raise too_large(f"it has more than {MAX_MEMBERS} files and directories")
        return cls(data, tuple(files), every, _root(names))

    def files(self) -> Iterator[TreeFile]:
        """Every file, expanded when its turn comes. Raises `SkillPackageError`, when what was expanded before
        is of no use either."""
        for member in self.members:
            yield self.file(member)

    def agreeing(self, entries: Iterable[TreeFile | TreeDirectory]) -> Iterator[TreeFile | TreeDirectory]:
        """What is given, as long as each file is as it is here. Raises `SkillPackageError` for another."""
        members = {member.name: member for member in self.members}
        for entry in entries:
            if isinstance(entry, TreeFile):
                member = members.get(entry.path)
                if member is None or member.size != len(entry.data) or self.file(member) != entry:
                    raise SkillPackageError(f"{entry.path[:200]!r} is not as the archive has it")
            yield entry

    def file(self, member: ZipMember) -> TreeFile:
        """One file, expanded, as it is kept."""
        return TreeFile(member.name, member.mode, expand(self.data, member)).plain()


def _check_kind(member: ZipMember) -> bool:
    """Whether a member is a directory; what is neither that nor a file is refused."""
    kind = stat.S_IFMT(member.mode)
    is_directory = member.name.endswith("/")
    if kind not in _KINDS:
        what = "a symbolic link" if kind == stat.S_IFLNK else "a device, FIFO or socket"
        raise SkillPackageError(
            f"{member.name[:200]!r} is {what}; a skill is files and directories only",
            code="unsafe_skill_package",
        )
    if (kind != 0 and (kind == stat.S_IFDIR) != is_directory) or (
        member.is_dos_directory and not is_directory
    ):
        raise SkillPackageError(
            f"{member.name[:200]!r} is said to be a file and a directory", code="unsafe_skill_package"
        )
    if is_directory and member.size:
        raise SkillPackageError(f"the archive cannot be used: the directory {member.name[:200]!r} has bytes")
    return is_directory


def _check_size(packed: int, expanded: int) -> None:
    if expanded > MAX_EXPANDED_BYTES:
        raise too_large(f"its files are {expanded} bytes, and {MAX_EXPANDED_BYTES} are the most")
    if expanded > RATIO_FREE_BYTES and expanded > packed * MAX_RATIO:
        raise too_large(f"its archive expands to more than {MAX_RATIO} times its own size")


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _root(names: list[str]) -> str:
    if SKILL_MD in names:
        return ""
    found = [name.split("/")[0] for name in names if name.count("/") == 1 and name.endswith(f"/{SKILL_MD}")]
    if len(found) == 1:
        return found[0]
    raise SkillPackageError(
        f"the archive has more than one skill: {', '.join(sorted(found))[:200]}"
        if found
        else f"the archive has no {SKILL_MD}, at its top or in a directory there"
    )
