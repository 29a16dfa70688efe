"""Which projects the user trusts: a directory, and the SHA-256 of its configuration's bytes.

A file that has changed by one byte is not the one that was trusted. What is trusted is kept in the user's
state directory, where no workspace tool writes.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ksadk.config_file import read_config
from ksadk.errors import KsadkError
from ksadk.project_files import find_config, read_file
from ksadk.settings import Settings
from ksadk.tools.rule_reader import Entry, read_rules
from ksadk.whole_files import replace_file

_VERSION = 1
_LATEST = 253_402_300_800.0
"""The end of the year 9999, in seconds since the epoch: no later time has a date."""


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


@dataclass(frozen=True)
class Offer:
    """What a project's configuration, as it is now, would be trusted with."""

    directory: str
    file: str
    digest: str
    rules: tuple[Entry, ...]
    workspace: Path | None


def offer(directory: Path) -> Offer:
    """Read what trusting a project would mean; everything is of the same bytes, whose digest it has.

    Raises `project_not_found` where there is no configuration, and what is wrong with one.
    """
    path = find_config(directory)
    if path is None:
        raise KsadkError(
            f"{directory} has no agentengine.yaml",
            code="project_not_found",
            hint="A project is trusted with what its configuration says. `agentengine init` writes one; an"
            " empty file will do.",
        )
    data = read_file(path)
    rules = read_rules(str(path), data, "project")
    return Offer(os.path.realpath(directory), path.name, rules.digest, rules.entries, _workspace(path, data))


def digest_of(directory: Path) -> str:
    """The digest of a project's configuration as it is now; empty where there is none."""
    path = find_config(directory)
    return "" if path is None else hashlib.sha256(read_file(path)).hexdigest()


def trusted_workspace(directory: Path) -> Path | None:
    """The `workspace` of a project that is trusted, or None where it names none or is not trusted."""
    path = find_config(directory)
    if path is None:
        return None
    data = read_file(path)
    if b"workspace" not in data or not is_trusted(str(directory), hashlib.sha256(data).hexdigest()):
        return None
    return _workspace(path, data)


def _workspace(path: Path, data: bytes) -> Path | None:
    named = read_config(path, data).workspace
    if not named:
        return None
    project = Path(os.path.realpath(path.parent))
    workspace = Path(os.path.realpath(project / named))
    if not workspace.is_relative_to(project):
        raise KsadkError(
            f"{path}: the workspace {named} is outside of the project",
            code="invalid_project_file",
            hint="Name a directory in the project, or give --root.",
        )
    if not workspace.is_dir():
        raise KsadkError(
            f"{path}: the workspace {named} is not a directory",
            code="workspace_root_missing",
            hint="Make it, or give --root.",
        )
    return workspace


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
        every = [Trust(**item) for item in kept["projects"]]
    except (TypeError, KeyError) as error:
        raise _unavailable(path, "it is damaged") from error
    if not all(map(_is_whole, every)):
        raise _unavailable(path, "it is damaged")
    return {item.directory: item for item in every}


def _is_whole(item: Trust) -> bool:
    """Whether what a file holds of a project is of the right types, and a time that there can be."""
    texts = (item.directory, item.file, item.digest)
    if not all(isinstance(text, str) for text in texts) or type(item.since) not in (int, float):
        return False
    return 0 <= item.since < _LATEST


def _keep(every: dict[str, Trust]) -> None:
    path = _file()
    text = json.dumps({"version": _VERSION, "projects": [asdict(item) for item in every.values()]}, indent=2)
    try:
        replace_file(path, f"{text}\n".encode())
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
