"""What was read of which file, kept on disk so that every process of a session knows it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ksadk.sessions import make_session_dir
from ksadk.workspace.paths import Place, WorkspaceError, from_os_error, modified

_STEP = 1 << 16


@dataclass(frozen=True)
class WorkspaceReadState:
    """The file as it was last read or written through the workspace tools.

    `content_sha256` is that of the whole file, also after a partial read: an edit is allowed while the
    bytes are the same, whatever the clock says.
    """

    path: str
    mtime_ns: int
    size_bytes: int
    start_line: int
    end_line: int
    total_lines: int
    partial: bool
    content_sha256: str


class Content:
    """The bytes of a file, and their SHA-256 in hexadecimal digits."""

    def __init__(self, data: bytes, like: Content | None = None, same: int = 0) -> None:
        """`like` begins with the same `same` bytes, which need not be hashed again."""
        steps = same // _STEP if like else 0
        self._hashes: list[hashlib._Hash] = like._hashes[: steps + 1] if like else [hashlib.sha256()]
        view = memoryview(data)
        for start in range(steps * _STEP, len(data), _STEP):
            self._hashes.append(self._hashes[-1].copy())
            self._hashes[-1].update(view[start : start + _STEP])
        self.data = data
        self.sha256 = self._hashes[-1].hexdigest()


@dataclass(frozen=True)
class ReadStates:
    """The read states of one session: one small private file each, in `directory`, named by a hash."""

    directory: Path

    @classmethod
    def of_session(cls, base: Path, account: str, session: str) -> ReadStates:
        """The states of one session of an account, below `base`."""
        return cls(base / _hashed(f"{account}\0{session}"))

    def get(self, place: Place) -> WorkspaceReadState | None:
        """The state, or None for a file that was not read. A record that cannot be read is none."""
        try:
            values = json.loads(self._file(place).read_bytes())
            return WorkspaceReadState(**{item.name: values[item.name] for item in fields(WorkspaceReadState)})
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def put(self, place: Place, state: WorkspaceReadState) -> None:
        """Keep a state; another process sees the old record or the new one.

        Raises `WorkspaceError` where that cannot be written; `KsadkError` as `make_session_dir` does.
        """
        try:
            self._write(self._file(place), json.dumps(asdict(state)))
        except OSError as error:
            cause = from_os_error(error, str(self.directory))
            raise WorkspaceError(
                f"what is read of {place.shown} cannot be recorded, and could not be edited: {cause.message}",
                code=cause.code, path=place.shown,
                hint="Make the directory writable, or set AGENTENGINE_UI_DIR to another one.",
            ) from error  # fmt: skip

    def forget(self, place: Place) -> None:
        """Drop the state of one file. One that stays does no harm: it allows edits of the same bytes only."""
        with suppress(OSError):
            self._file(place).unlink()

    def clear(self) -> None:
        """Drop every state of the session."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def check(self, place: Place, content: Content) -> WorkspaceReadState:
        """What is known of a file. Raises `file_not_read`, or `file_modified_since_read` if its bytes are not
        those that were read."""
        state = self.get(place)
        if state is None:
            raise WorkspaceError(
                f"{place.shown} has not been read in this session", code="file_not_read",
                hint="Read it first.", path=place.shown,
                suggested_action=f"Call read_workspace_file on {place.shown}, then edit it.",
            )  # fmt: skip
        if state.content_sha256 != content.sha256:
            raise modified(place)
        return state

    def _write(self, target: Path, record: str) -> None:
        make_session_dir(self.directory, 0o700)
        temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "w") as file:  # noqa: PTH123  # of a descriptor
                file.write(record)
            temporary.replace(target)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def _file(self, place: Place) -> Path:
        key = f"{place.root}\0{place.relative}"
        return self.directory / f"{_hashed(key)}.json"


def _hashed(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:40]
