"""A workspace's files in a sandbox that is somewhere else: which go in, and what has become of them there."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ksadk.sandbox.base import (
    WORKSPACE_DIRECTORY,
    SandboxBackend,
    SandboxError,
    SandboxInputFile,
    SandboxSession,
)
from ksadk.sandbox.changes import (
    SKIPPED_NAMES,
    Changes,
    Digests,
    FileChange,
    Limits,
    Taking,
    TrackedSession,
    is_entered,
)
from ksadk.sandbox.trees import read_beneath, walk
from ksadk.sessions import STATE_DIR

_LIST_SECONDS = 120
_DIGEST_CHARS = 64


@dataclass
class SyncedWorkspace:
    """The files of a workspace that go into a sandbox, by the limits.

    `files` are for the backend. `skipped` counts what does not go in, by the reason: `too_large`,
    `too_many` (files or bytes in all), `unreadable`, `link`, `special` and `directory` (those that are never
    synced).
    """

    root: Path
    limits: Limits
    files: list[SandboxInputFile] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path, limits: Limits | None = None) -> SyncedWorkspace:
        """Find out which files of a workspace go in; none is read whole where it is too large."""
        synced = cls(root, limits or Limits.from_env())
        total = 0
        for found in walk(root, is_entered):
            if found.is_directory:
                if not is_entered(found.name):
                    synced._skip("directory")
                continue
            if not found.is_file:
                synced._skip("link" if found.is_link else "special")
                continue
            size = found.state.st_size
            if size > synced.limits.file_bytes:
                synced._skip("too_large")
                continue
            if len(synced.files) >= synced.limits.files or total + size > synced.limits.total_bytes:
                synced._skip("too_many")
                continue
            data = found.read(synced.limits.file_bytes)
            if data is None:
                synced._skip("unreadable")
                continue
            total += len(data)
            synced.digests[found.path] = _digest(data)
            target = f"{WORKSPACE_DIRECTORY}/{found.path}"
            synced.files.append(SandboxInputFile(root / found.path, target))
        return synced

    def missing(self) -> dict[str, int]:
        """What `skipped` has, but for directories, which are never wanted there."""
        return {reason: count for reason, count in self.skipped.items() if reason != "directory"}

    def remove(self) -> None:
        """Nothing was made for it on this machine."""

    def _skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def changes(self, session: SandboxSession) -> Changes:
        """What commands have made of the files. Raises `SandboxError` where it cannot be found out."""
        now, large = _listed(session, self.limits.file_bytes)
        taking = Taking(self.limits)
        for path, size in large.items():
            taking.fits(path, size)
        for path, digest in now.items():
            if digest == self.digests.get(path):
                continue
            before, stale = self._before(path)
            after = session.read_file(f"{WORKSPACE_DIRECTORY}/{path}")
            if after != before and taking.fits(path, len(after)):
                taking.take(FileChange(path, before, after, stale))
        for path in self.digests.keys() - now.keys() - large.keys():
            before, stale = self._before(path)
            if before is not None:
                taking.take(FileChange(path, before, None, stale))
        return taking.done()

    def _before(self, path: str) -> tuple[bytes | None, bool]:
        """What a file of the workspace holds, and whether that is something else than went in."""
        found = read_beneath(self.root, path, self.limits.file_bytes)
        sent = self.digests.get(path)
        if found is None:
            return None, sent is not None
        return found[0], _digest(found[0]) != sent


class SyncingBackend:
    """Starts sandboxes that are somewhere else, with a workspace's files in them."""

    def __init__(self, root: Path, backend: SandboxBackend) -> None:
        self._root = root
        self._backend = backend

    def create_session(
        self,
        *,
        session_id: str,
        env: Mapping[str, str] | None = None,
        input_files: Sequence[SandboxInputFile] | None = None,
    ) -> TrackedSession:
        """Start one with the workspace's files, and further ones. Raises `SandboxError`."""
        synced = SyncedWorkspace.of(self._root)
        session = self._backend.create_session(
            session_id=session_id, env=env, input_files=[*synced.files, *(input_files or ())]
        )
        return TrackedSession(session, synced)


def _listed(session: SandboxSession, limit: int) -> tuple[Digests, dict[str, int]]:
    """The digests of the files that are in the sandbox's workspace now, and the sizes of those that have more
    than `limit` bytes, which are not read."""
    names = " -o ".join(f"-name {shlex.quote(name)}" for name in sorted(SKIPPED_NAMES))
    find = f"find . -mindepth 1 -type d \\( {names} -o -iname {STATE_DIR} \\) -prune -o -type f"
    line = (
        f"cd {WORKSPACE_DIRECTORY} 2>/dev/null || exit 0; set -o pipefail;"
        f" {{ {find} -size +{limit}c -printf '%s  %p\\0'"
        f" && {find} ! -size +{limit}c -print0 | xargs -0 -r sha256sum -z --; }} | base64 -w 0"
    )
    done = session.run_command(line, timeout=_LIST_SECONDS)
    if not done.ok or done.stdout_truncated:
        why = (
            "there are too many files"
            if done.ok
            else done.stderr.strip() or f"it ended with {done.exit_code}"
        )
        raise SandboxError(f"what has changed in the sandbox cannot be listed: {why}")
    return _understood(done.stdout)


def _understood(text: str) -> tuple[dict[str, str], dict[str, int]]:
    """What the sandbox printed, which may have changed the programs that print it."""
    found: dict[str, str] = {}
    large: dict[str, int] = {}
    try:
        items = base64.b64decode(text).split(b"\0")
    except ValueError as error:
        raise SandboxError("what has changed in the sandbox cannot be listed: its list is none") from error
    for item in items:
        known, _, path = item.partition(b"  ./")
        try:
            name = path.decode("utf-8")
        except UnicodeDecodeError:
            continue  # no path that a workspace tool takes
        if name and len(known) == _DIGEST_CHARS:
            found[name] = known.decode("ascii", "replace")
        elif name and known.isdigit() and len(known) < _DIGEST_CHARS:
            large[name] = int(known)
    return found, large


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
