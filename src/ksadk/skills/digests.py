"""One hash of a directory: the same wherever the same files are, and another one when any of them changes.

The hash is SHA-256 over the line `agentengine skill tree 1` and one record for each file, in the order of the
bytes of their paths: `x` where the owner may execute it, else `-`; a space; the SHA-256 of its bytes in
hexadecimal; a space; its path with slashes; a zero byte. Directories, times, owners and other permissions do
not count. Version control, `__pycache__` and what macOS leaves behind are no part of a skill.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ksadk.skills.errors import SkillPackageError
from ksadk.skills.member_names import is_left_out
from ksadk.skills.trees import TreeDirectory, TreeFile, walk

_HEADER = b"agentengine skill tree 1\n"


def tree_digest(directory: Path) -> str:
    """`sha256:` and the hash of a skill's directory, in hexadecimal. Raises as `contents` does."""
    return Listing.of(contents(directory)).digest()


def contents(directory: Path) -> Iterator[TreeFile | TreeDirectory]:
    """What a skill's directory, which may be named by a link, holds of the skill.

    Raises `SkillPackageError`: `unsafe_skill_package` for links, devices, FIFOs and sockets,
    `skill_package_too_large` over 2,000 files and directories or 100 MiB, and `not_found`,
    `permission_denied` or `io_error` where something cannot be read.
    """
    try:
        top = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield from walk(top, is_left_out)
        finally:
            os.close(top)
    except FileNotFoundError as error:
        raise SkillPackageError(f"{directory} is not there, or changes", code="not_found") from error
    except PermissionError as error:
        raise SkillPackageError(_words(directory, error), code="permission_denied") from error
    except OSError as error:
        raise SkillPackageError(_words(directory, error), code="io_error") from error


@dataclass(frozen=True)
class Listing:
    """What a tree is, without its bytes: each file's permissions and SHA-256 by path, and its directories."""

    files: Mapping[str, tuple[int, str]]
    directories: frozenset[str]

    @classmethod
    def of(cls, entries: Iterable[TreeFile | TreeDirectory]) -> Listing:
        """Of files that are at hand."""
        files, directories = {}, set()
        for entry in entries:
            if isinstance(entry, TreeFile):
                files[entry.path] = entry.mode, hashlib.sha256(entry.data).hexdigest()
            else:
                directories.add(entry.path)
        return cls(files, frozenset(directories))

    def digest(self) -> str:
        """The tree digest, as `tree_digest` gives it."""
        whole = hashlib.sha256(_HEADER)
        for path, (mode, digits) in sorted((os.fsencode(path), file) for path, file in self.files.items()):
            mark = b"x" if mode & stat.S_IXUSR else b"-"
            whole.update(b"%s %s %s\0" % (mark, digits.encode(), path))
        return f"sha256:{whole.hexdigest()}"


def _words(directory: Path, error: OSError) -> str:
    name = os.fsdecode(error.filename) if error.filename else ""
    where = f"{directory}: {name}" if name and name != str(directory) else str(directory)
    return f"{where}: {error.strerror}"
