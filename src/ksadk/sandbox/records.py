"""What is written down of each sandbox, so that one whose program was killed is found and ended later.

A record is a file in the user's state directory, locked for as long as the program that made it lives. The
system takes the lock away with the program, however that ended; nothing has to watch it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ksadk.settings import Settings

MARK = "KSADK_SAFE_SANDBOX_ID"
"""By this variable the processes of a sandbox are known once their program is gone."""

COPY = "copy"
"""The backend of a record that is of a workspace's copy alone."""

_SUFFIX = ".json"
_MAX_BYTES = 64 * 1024


@dataclass(frozen=True)
class Facts:
    """What a record says of a sandbox.

    Times are seconds since the epoch; `expires_at` None where it is kept for as long as its program lives.
    `account` tells accounts apart, and does not name them.
    `kept` where it shall outlive its program, until it expires, if ever. `directory` is a copy of a workspace
    that goes with it, and `mark` what its processes on this machine have in the variable `MARK`.
    """

    sandbox_id: str
    backend: str
    workspace: str
    created_at: float
    expires_at: float | None = None
    kept: bool = False
    account: str = ""
    directory: str = ""
    mark: str = ""
    pid: int = 0


class Record:
    """A record that this program holds. `drop` deletes it, `release` leaves it for others to find."""

    def __init__(self, path: Path, descriptor: int, facts: Facts) -> None:
        self.path = path
        self.facts = facts
        self._descriptor = descriptor

    @classmethod
    def make(cls, facts: Facts) -> Record:
        """Write down a sandbox that this program has started. Raises `OSError`."""
        directory = records_directory()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = directory / (secrets.token_hex(8) + _SUFFIX)
        # Locked before it has a name that others look at.
        beside = path.with_suffix(".new")
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _write(descriptor, facts)
            beside.rename(path)
        except BaseException:
            os.close(descriptor)
            beside.unlink(missing_ok=True)
            raise
        return cls(path, descriptor, facts)

    def change(self, facts: Facts) -> None:
        """Write down something else of the same sandbox."""
        _write(self._descriptor, facts)
        self.facts = facts

    def drop(self) -> None:
        """The sandbox is gone, and so is the record."""
        self.path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Hold it no longer."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def records_directory() -> Path:
    """Where records are."""
    return Settings.from_env().state_dir() / "sandboxes"


def recorded() -> Iterator[tuple[Facts, bool]]:
    """Every sandbox that is written down, and whether its program lives."""
    for path in _paths():
        record = _take(path)
        if record is not None:
            facts = record.facts
            record.release()
            yield facts, False
        else:
            known = _read(path)
            if known is not None:
                yield known, True


def account_tag(account: str) -> str:
    """What a record has of an account."""
    return hashlib.sha256(account.encode("utf-8", "surrogatepass")).hexdigest()[:32] if account else ""


def left_over(now: float) -> Iterator[Record]:
    """The sandboxes that nobody answers for any more: their program is gone, and they are not kept or have
    expired. Each is held by this program until it is dropped or released."""
    for path in _paths():
        record = _take(path)
        if record is None:
            continue
        facts = record.facts
        if facts.kept and (facts.expires_at is None or facts.expires_at > now):
            record.release()
        else:
            yield record


def take(sandbox_id: str) -> Record | None:
    """The record of a sandbox whose program is gone, held by this program now."""
    for path in _paths():
        record = _take(path)
        if record is None:
            continue
        if record.facts.sandbox_id == sandbox_id:
            return record
        record.release()
    return None


def _paths() -> list[Path]:
    try:
        return sorted(path for path in records_directory().iterdir() if path.suffix == _SUFFIX)
    except OSError:
        return []


def _take(path: Path) -> Record | None:
    """A record that no living program holds, or None."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:  # else another program ended it in this moment
            facts = _facts(os.pread(descriptor, _MAX_BYTES, 0))
            if facts is not None:
                return Record(path, descriptor, facts)
            path.unlink(missing_ok=True)  # cut short by a full disk: it names no sandbox
    except OSError:
        pass  # held
    os.close(descriptor)
    return None


def _read(path: Path) -> Facts | None:
    try:
        with path.open("rb") as file:
            return _facts(file.read(_MAX_BYTES))
    except OSError:
        return None


def _facts(data: bytes) -> Facts | None:
    try:
        fields: dict[str, Any] = json.loads(data)
        return Facts(**fields)
    except (ValueError, TypeError):
        return None


def _write(descriptor: int, facts: Facts) -> None:
    data = json.dumps(asdict(facts)).encode()
    # Blanks over the rest of a longer one: a program that is killed in here leaves a whole record.
    os.pwrite(descriptor, data.ljust(os.fstat(descriptor).st_size), 0)
