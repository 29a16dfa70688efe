"""What commands have made of a workspace that they saw a copy of: the files that are not as they were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ksadk.sandbox.base import SandboxSession
from ksadk.sessions import STATE_DIR
from ksadk.settings import Settings

SKIPPED_NAMES = frozenset({".git", "__pycache__", ".venv", "node_modules", ".pytest_cache"})
"""Directories that are neither put into a remote sandbox nor looked at for changes."""


def is_entered(name: str) -> bool:
    """Whether what is in a directory of that name belongs to the workspace's own files."""
    return name not in SKIPPED_NAMES and name.casefold() != STATE_DIR


@dataclass(frozen=True)
class Limits:
    """How many files, and how many bytes of one and of all, go into a sandbox or come back."""

    files: int
    file_bytes: int
    total_bytes: int

    @classmethod
    def from_env(cls, settings: Settings | None = None) -> Limits:
        settings = settings or Settings.from_env()
        return cls(
            settings.sandbox_sync_max_files,
            settings.sandbox_sync_max_file_bytes,
            settings.sandbox_sync_max_total_bytes,
        )


@dataclass(frozen=True)
class FileChange:
    """A file that is not as it was: `before` None where it is new, `after` None where it is deleted.

    `stale` where the workspace's own file has changed meanwhile: what it held is not known any more.
    `executable` where it may be run now.
    """

    path: str
    before: bytes | None
    after: bytes | None
    stale: bool = False
    executable: bool = False


@dataclass
class Changes:
    """All that has changed, in the order of the paths. `left_out` is what cannot come back: path and why."""

    files: list[FileChange] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.files or self.left_out)

    def only(self, paths: Iterable[str]) -> Changes:
        """Those of some files."""
        wanted = set(paths)
        return Changes([change for change in self.files if change.path in wanted], self.left_out)


class TrackedWorkspace(Protocol):
    """What was put into a sandbox, and can be compared with what is there now."""

    root: Path

    def missing(self) -> dict[str, int]:
        """How many of its entries are not in the sandbox, by the reason."""

    def changes(self, session: SandboxSession) -> Changes:
        """Compare. Raises `SandboxError`."""

    def remove(self) -> None:
        """The sandbox has ended: delete what was made for it on this machine."""


class TrackedSession:
    """A sandbox that works on a copy of a workspace, and what the copy was made from."""

    def __init__(self, session: SandboxSession, workspace: TrackedWorkspace) -> None:
        self.workspace = workspace
        self.workspace_root = workspace.root
        self._session = session
        self.sandbox_id = session.sandbox_id
        self.write_file = session.write_file
        self.read_file = session.read_file
        self.run_command = session.run_command
        self.get_host = session.get_host

    def changes(self) -> Changes:
        """What commands have made of the copy. Raises `SandboxError`."""
        return self.workspace.changes(self._session)

    def kill(self) -> None:
        """End the sandbox, and delete what was made for it."""
        try:
            self._session.kill()
        finally:
            self.workspace.remove()


class Taking:
    """Takes changes as far as the limits let it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = 0
        self.changes = Changes()

    def leave_out(self, path: str, why: str) -> None:
        self.changes.left_out.append((path, why))

    def fits(self, path: str, size: int) -> bool:
        """Whether a file of that size can still be taken; where not, it is left out."""
        limits = self._limits
        if size > limits.file_bytes:
            self.leave_out(path, f"has {size:,} bytes, and {limits.file_bytes:,} is the limit of a file")
        elif len(self.changes.files) >= limits.files:
            self.leave_out(path, f"is one more than {limits.files:,} files")
        elif self._bytes + size > limits.total_bytes:
            self.leave_out(path, f"would make it more than {limits.total_bytes:,} bytes in all")
        else:
            return True
        return False

    def take(self, change: FileChange) -> None:
        self._bytes += len(change.after or b"")
        self.changes.files.append(change)

    def done(self) -> Changes:
        self.changes.files.sort(key=lambda change: change.path)
        self.changes.left_out.sort()
        return self.changes


Digests = Mapping[str, str]
"""The SHA-256 of files, by their paths."""
