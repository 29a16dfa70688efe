"""The directory that one run of a workflow works in: nobody else's, and gone when it is not needed."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ksadk.settings import Settings
from ksadk.skills.errors import SkillRuntimeError
from ksadk.skills.limits import MIB
from ksadk.skills.own_directory import hold_own
from ksadk.skills.runtime.artifacts import Artifacts, entries
from ksadk.skills.trees import remove

KEPT_SECONDS = 7 * 24 * 3600
"""How long artifacts that nobody took are kept."""

KEPT_RUNS = 200
"""How many runs of a session have their artifacts kept."""

MAX_INPUT_BYTES = 100 * MIB
"""Of one input file."""

_LOCK = ".lock"


@dataclass(frozen=True)
class RunDirectory:
    """A run's directory: `work/`, where scripts run, with `input/` in it, `output/`, and the skills."""

    path: Path

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def output(self) -> Path:
        return self.path / "output"

    @property
    def input(self) -> Path:
        return self.work / "input"

    def reopen(self) -> None:
        """Make the run's own directories accessible again, if a script has closed them."""
        for place in (self.path, self.output):
            with contextlib.suppress(OSError):
                if not place.is_symlink():
                    place.chmod(0o700)

    def add_skill(self, name: str, root: Path) -> Path:
        """Put a copy of a skill's verified files there, at a place that nothing ran before could prepare."""
        place = Path(tempfile.mkdtemp(prefix="skill-", dir=self.path)) / _file_name(name)
        try:
            shutil.copytree(root, place, symlinks=True)
        except OSError as error:  # what `shutil` raises is one
            raise SkillRuntimeError(f"{name} cannot be copied: {error}", code="io_error") from error
        return place

    def add_inputs(self, files: Sequence[str | Path]) -> None:
        """Put copies of files there. Raises `SkillRuntimeError` for one that cannot be read, or is too
        large, and for two of the same name."""
        for file in map(Path, files):
            data = read_input(file)
            try:
                with (self.input / file.name).open("xb") as copy:
                    copy.write(data)
            except FileExistsError as error:
                raise _bad_input(f"two input files are called {file.name}") from error


def _file_name(name: str) -> str:
    return name if re.fullmatch(r"[\w-][\w.-]*", name) else "skill"


def read_input(file: Path) -> bytes:
    """The bytes of an input file. Raises `SkillRuntimeError`."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # no FIFO is waited for
        with open(descriptor, "rb") as opened:  # noqa: PTH123  # a descriptor
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise _bad_input(f"{file} is no regular file")
            data = opened.read(MAX_INPUT_BYTES + 1)
    except OSError as error:
        raise _bad_input(f"the input {file} cannot be read: {error.strerror}") from error
    if len(data) > MAX_INPUT_BYTES:
        raise _bad_input(f"the input {file} has more than {MAX_INPUT_BYTES:,} bytes")
    return data


def _bad_input(message: str) -> SkillRuntimeError:
    return SkillRuntimeError(message, code="skill_input_unusable")


@contextmanager
def run_directory(settings: Settings, *, account: str, session: str) -> Iterator[RunDirectory]:
    """A new run's directory, locked while it is in use. At the end only `output/` is left of it, and where
    that is empty, nothing.

    It is below `KSADK_SKILL_WORKDIR`, else below `ksadk-skill-workflow` in the directory of temporary files,
    which is refused where somebody else could write to it. Accounts and sessions are kept apart. Runs that
    are over are deleted after 7 days, or when a session has more than 200.
    """
    of_session = _of_session(settings, account, session)
    _sweep(of_session)
    name = f"{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(4)}"
    with _locked(of_session / f"{name}{_LOCK}"):
        run = RunDirectory(of_session / name)
        for directory in (run.path, run.work, run.output, run.input):
            directory.mkdir(mode=0o700)
        try:
            yield run
        finally:
            run.reopen()
            with contextlib.suppress(FileNotFoundError):
                for entry in os.scandir(run.path):
                    if entry.name != run.output.name:
                        remove(Path(entry.path))
            if not any(entries(run.output, Artifacts())):
                forget(run.path)


def forget(run: Path) -> None:
    """Delete the directory of a run that is over."""
    remove(run)
    run.with_name(run.name + _LOCK).unlink(missing_ok=True)


def _of_session(settings: Settings, account: str, session: str) -> Path:
    """The directory of a session's runs, made if it is not there."""
    if settings.skill_workdir is not None:
        base = Path(os.path.realpath(settings.skill_workdir))
    else:
        base = Path(os.path.realpath(tempfile.gettempdir())) / "ksadk-skill-workflow"
    place = base
    _make_own(place)
    for name in (_tag("account", account), _tag("session", session)):
        place /= name
        _make_own(place)
    return place


def _make_own(directory: Path) -> None:
    """Make a directory, or raise where it is there and somebody else could put something into it."""
    try:
        os.close(hold_own(directory, lambda why: _unusable(f"{directory} {why}")))
    except OSError as error:
        raise _unusable(f"{directory} cannot be made: {error.strerror}") from error


def _unusable(message: str) -> SkillRuntimeError:
    return SkillRuntimeError(
        f"{message}, so no workflow runs in it",
        code="skill_workdir_unusable",
        hint="Set KSADK_SKILL_WORKDIR to a directory of your own.",
    )


def _tag(kind: str, name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{kind}-{digest[:32]}" if name else f"no-{kind}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sweep(of_session: Path) -> None:
    """Delete runs that are over: those that are old, and the oldest where there are too many."""
    locks = sorted(of_session.glob(f"*{_LOCK}"))
    surplus = len(locks) - KEPT_RUNS
    for number, lock in enumerate(locks):
        with contextlib.suppress(OSError):
            if number >= surplus and time.time() - lock.stat().st_mtime < KEPT_SECONDS:
                continue
            with lock.open("rb") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while the run is in use
                forget(lock.with_suffix(""))
