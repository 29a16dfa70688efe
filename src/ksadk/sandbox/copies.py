"""A copy of a workspace on this machine, for commands whose changes shall be looked at first."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ksadk.runtime_context import get_current_account_id
from ksadk.sandbox.base import SandboxBackend, SandboxError, SandboxInputFile, SandboxSession
from ksadk.sandbox.changes import (
    Changes,
    FileChange,
    Limits,
    Taking,
    TrackedSession,
    is_entered,
)
from ksadk.sandbox.left_overs import copies_directory
from ksadk.sandbox.programs import system_program
from ksadk.sandbox.records import COPY, Facts, Record, account_tag
from ksadk.sandbox.trees import read_beneath, remove_tree, walk
from ksadk.sessions import STATE_DIR

_AT_ONCE = 200
"""Names that one program is given."""


class _Stamp(NamedTuple):
    """What tells a file from any other that came to stand there. Nobody in a sandbox can set a ctime."""

    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, state: os.stat_result) -> _Stamp:
        return cls(state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


class WorkspaceCopy:
    """All of a workspace but this program's own files, at `directory`. Its owner calls `remove` or `keep`."""

    def __init__(self, root: Path, directory: Path, limits: Limits | None = None) -> None:
        self.root = root
        self.directory = directory
        self._kept = False
        self._limits = limits or Limits.from_env()
        # Written down first: what is killed while it copies leaves nothing that nobody knows of.
        self._record = Record.make(
            Facts(
                f"copy-{directory.name}",
                COPY,
                str(root),
                time.time(),
                directory=str(directory),
                account=account_tag(get_current_account_id()),
                pid=os.getpid(),
            )
        )
        try:
            directory.mkdir(mode=0o700, parents=True)
            self._originals = dict(_stamps(root))
            _copy(root, directory)
            self._copied = dict(_stamps(directory))
        except BaseException:
            self.remove()
            raise

    @classmethod
    def of(cls, root: Path) -> WorkspaceCopy:
        """A copy in the user's state. Raises `SandboxError` where there is no room for it, or no right."""
        try:
            return cls(root, copies_directory() / secrets.token_hex(8))
        except OSError as error:
            raise SandboxError(f"{root} cannot be copied: {error.filename}: {error.strerror}") from error

    def changes(self, _session: SandboxSession) -> Changes:
        """What commands have made of the copy."""
        taking = Taking(self._limits)
        seen: set[str] = set()
        for found in walk(self.directory, is_entered):
            if found.is_directory:
                continue
            seen.add(found.path)
            if self._copied.get(found.path) == _Stamp.of(found.state):
                continue
            if not found.is_file:
                taking.leave_out(found.path, "is a link" if found.is_link else "is no regular file")
            elif taking.fits(found.path, found.state.st_size):
                after = found.read(self._limits.file_bytes)
                self._take(taking, found.path, after, executable=bool(found.state.st_mode & 0o100))
        for path in self._copied.keys() - seen:
            self._take(taking, path, None, deleted=True)
        return taking.done()

    def missing(self) -> dict[str, int]:
        """Nothing: a copy is whole."""
        return {}

    @property
    def copy_id(self) -> str:
        """The id under which it is listed once it is kept."""
        return self._record.facts.sandbox_id

    def keep(self) -> None:
        """Let it outlive its sandbox and this program, until somebody ends it by its id."""
        self._record.change(replace(self._record.facts, kept=True))
        self._record.release()
        self._kept = True

    def remove(self) -> None:
        """Delete the copy, unless it is kept."""
        if not self._kept:
            remove_tree(self.directory)
            self._record.drop()

    def _take(
        self,
        taking: Taking,
        path: str,
        after: bytes | None,
        *,
        executable: bool = False,
        deleted: bool = False,
    ) -> None:
        if after is None and not deleted:
            taking.leave_out(path, "cannot be read")
            return
        found = read_beneath(self.root, path, self._limits.file_bytes)
        before = None if found is None else found[0]
        now = None if found is None else _Stamp.of(found[1])
        if before != after:
            stale = now != self._originals.get(path)
            taking.take(FileChange(path, before, after, stale, executable))


class OnCopyBackend:
    """Starts sandboxes that each work on a copy of their own.

    backend_of: what starts them for a workspace, given that.
    """

    def __init__(self, root: Path, backend_of: Callable[[Path], SandboxBackend]) -> None:
        self._root = root
        self._backend_of = backend_of

    def create_session(
        self,
        *,
        session_id: str,
        env: Mapping[str, str] | None = None,
        input_files: Sequence[SandboxInputFile] | None = None,
    ) -> TrackedSession:
        """Copy the workspace, and start one on the copy. Raises `SandboxError`."""
        copy = WorkspaceCopy.of(self._root)
        try:
            backend = self._backend_of(copy.directory)
            session = backend.create_session(session_id=session_id, env=env, input_files=input_files)
        except BaseException:
            copy.remove()
            raise
        return TrackedSession(session, copy)


def _stamps(top: Path) -> Iterator[tuple[str, _Stamp]]:
    """Of every entry that is no directory, by its path."""
    for found in walk(top, is_entered):
        if not found.is_directory:
            yield found.path, _Stamp.of(found.state)


def _copy(root: Path, directory: Path) -> None:
    names = [name for name in sorted(entry.name for entry in root.iterdir()) if name.casefold() != STATE_DIR]
    for start in range(0, len(names), _AT_ONCE):
        # cp keeps links, modes and times, and shares the blocks of files where the file system can.
        command = [system_program("cp"), "-a", "--reflink=auto", "-t", str(directory), "--"]
        command += [f"./{name}" for name in names[start : start + _AT_ONCE]]
        done = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode:
            why = done.stderr.decode(errors="replace").strip().partition("\n")[0]
            raise SandboxError(f"{root} cannot be copied: {why}")
