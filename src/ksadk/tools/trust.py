"""Which projects the user trusts: a directory, and the SHA-256 of its configuration's bytes.

A file that has changed by one byte is not the one that was trusted. What is trusted is kept in the user's
state directory, where no workspace tool writes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ksadk.errors import KsadkError
from ksadk.settings import Settings

_VERSION = 1


class TrustUnavailable(KsadkError):
    """What is trusted cannot be read or written; then nothing is trusted."""

    code = "trust_unavailable"


@dataclass(frozen=True)
class Trust:
    """One project that is trusted: its directory without links, the file's name, its digest, and since when
    (seconds since the epoch)."""

    directory: str
    file: str
    digest: str
    since: float


def is_trusted(directory: str, digest: str) -> bool:
    """Whether a project is trusted with a configuration of that digest; not, where that cannot be told."""
    try:
        trust = trusted().get(os.path.realpath(directory))
    except TrustUnavailable:
        return False
    return trust is not None and trust.digest == digest


def trusted() -> dict[str, Trust]:
    """Every project that is trusted, by its directory. Raises `TrustUnavailable`."""
    path = _file()
    try:
        kept = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unavailable(path, error.strerror or "it cannot be read") from error
    except (ValueError, RecursionError) as error:
        raise _unavailable(path, "it is damaged") from error
    return _from_json(kept, path)


def trust(directory: str, file: str, digest: str) -> Trust:
    """Trust a project with its configuration as it is now."""
    with _locked():
        every = trusted()
        new = Trust(os.path.realpath(directory), file, digest, time.time())
        every[new.directory] = new
        _keep(every)
    return new


def revoke(directory: str) -> bool:
    """Trust a project no more; False where it was not trusted."""
    with _locked():
        every = trusted()
        found = every.pop(os.path.realpath(directory), None)
        if found is not None:
            _keep(every)
    return found is not None


def _file() -> Path:
    return Settings.from_env().state_dir() / "trust.json"


def _from_json(kept: Any, path: Path) -> dict[str, Trust]:
    if isinstance(kept, dict) and isinstance(kept.get("version"), int) and kept["version"] > _VERSION:
        raise _unavailable(path, "it was written by a newer version of this program")
    try:
        return {item["directory"]: Trust(**item) for item in kept["projects"]}
    except (TypeError, KeyError) as error:
        raise _unavailable(path, "it is damaged") from error


def _keep(every: dict[str, Trust]) -> None:
    path = _file()
    text = json.dumps({"version": _VERSION, "projects": [asdict(item) for item in every.values()]}, indent=2)
    new = path.with_name(f"{path.name}.new")  # one writer at a time: the lock is held
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="ascii") as stream:  # noqa: PTH123  # a descriptor
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(path)
    except OSError as error:
        raise _unavailable(path, error.strerror or "it cannot be written") from error


@contextmanager
def _locked() -> Iterator[None]:
    import fcntl

    path = _file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path.with_name("trust.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unavailable(path, error.strerror or "it cannot be written") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _unavailable(path: Path, words: str) -> TrustUnavailable:
    return TrustUnavailable(
        f"what is trusted cannot be told: {path}: {words}",
        hint="See to that file, or move it away; then nothing is trusted.",
    )
