"""How much a command may use, and the cgroup that holds all its processes to it, where one is ours."""

from __future__ import annotations

import functools
import itertools
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ksadk.sandbox.base import Denial

MIB = 1024 * 1024
_PREFIX = "ksadk-"
_REMOVE_SECONDS = 1.0
_UCOUNTS_KERNEL = (5, 14)
_numbers = itertools.count()


@dataclass(frozen=True)
class Limits:
    """Of one command. Memory, CPU time and file size hold for each process; where a cgroup is ours, memory
    holds for all of them together too.

    memory_bytes: what a process allocates; its reserved addresses are not counted, of which node has many.
    processes: processes and threads, all together.
    file_bytes: of a file that is written.
    tmp_bytes: of /tmp, which is memory; shm_bytes: of /dev/shm.
    """

    memory_bytes: int = 2048 * MIB
    processes: int = 512
    file_bytes: int = 1024 * MIB
    tmp_bytes: int = 512 * MIB
    shm_bytes: int = 64 * MIB


def cpu_seconds(timeout: float) -> int:
    """More than a process can use in its time: it ends one that nobody is left to end."""
    return int(timeout + 5) * (os.cpu_count() or 1)


def process_limit(limits: Limits) -> int:
    """What the limit of processes must be set to.

    Older kernels count all of the user's processes, also those outside, against it.
    """
    if kernel() >= _UCOUNTS_KERNEL:
        return limits.processes
    return limits.processes + _threads_of_user(os.getuid())


@functools.cache
def kernel() -> tuple[int, ...]:
    """The first two numbers of the system's release."""
    words = os.uname().release.replace("-", ".").split(".")
    return tuple(int(word) for word in words[:2] if word.isdigit())


def _threads_of_user(uid: int) -> int:
    count = 0
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                count += len(os.listdir(f"/proc/{entry.name}/task"))  # noqa: PTH208
        except OSError:
            continue  # ended
    return count


def processes_are_limited() -> bool:
    """Whether the limit of processes holds: the system does not hold root to it but in a cgroup."""
    return os.getuid() != 0 or bool(_parents())


class Cgroup:
    """A cgroup of one command. `drop` when its processes have ended."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories

    @classmethod
    def make(cls, limits: Limits) -> Cgroup | None:
        """A new one, or None where this program is given none to divide."""
        made: list[Path] = []
        name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}-{secrets.token_hex(4)}"
        group = cls(made)
        try:
            for parent, settings in _parents():
                directory = parent / name
                directory.mkdir()
                made.append(directory)
                for file, value in settings:
                    _write(directory / file, str(getattr(limits, value)) if value != "0" else "0")
        except OSError:
            group.drop()
            return None
        return group if made else None

    def add(self, pids: Sequence[int]) -> bool:
        """Put processes in, and what they start. False where the system did not let us."""
        try:
            for directory in self._directories:
                for pid in pids:
                    (directory / "cgroup.procs").write_text(str(pid))
        except OSError:
            return False
        return True

    def holds(self, pids: Sequence[int]) -> bool:
        """Whether processes are in it now, put in if they were not."""
        held = [set(map(int, _words(directory / "cgroup.procs"))) for directory in self._directories]
        return all(held_here.issuperset(pids) for held_here in held) or self.add(pids)

    def denials(self, limits: Limits) -> Iterator[Denial]:
        """What it refused to its processes."""
        if any(_count(directory / file, "oom_kill") for directory in self._directories for file in _MEMORY):
            yield Denial(
                "memory", f"all processes together have {limits.memory_bytes // MIB} MiB of memory",
                "a higher limit: --memory, or Limits.memory_bytes",
            )  # fmt: skip
        if any(_count(directory / "pids.events", "max") for directory in self._directories):
            yield Denial("processes", f"there are at most {limits.processes} processes", "Limits.processes")

    def drop(self) -> None:
        """Remove it. What is still in it goes first; that is waited for, but not long."""
        end = time.monotonic() + _REMOVE_SECONDS
        for directory in self._directories:
            while not _removed(directory) and time.monotonic() < end:
                time.sleep(0.002)


_MEMORY = ("memory.events", "memory.oom_control")
_V2 = (("memory.max", "memory_bytes"), ("memory.swap.max", "0"), ("pids.max", "processes"))
_V1: Mapping[str, Sequence[tuple[str, str]]] = {
    "memory": (("memory.limit_in_bytes", "memory_bytes"),),
    "pids": (("pids.max", "processes"),),
}


@functools.cache
def _parents() -> tuple[tuple[Path, Sequence[tuple[str, str]]], ...]:
    """The cgroups that ours are made in, with the files of limits to set; both limits or none."""
    mounts = dict(_mounts())
    own = dict(_own())
    if "" in mounts and "" in own:
        directory = mounts[""] / own[""].lstrip("/")
        for parent in (directory, *directory.parents):
            if not parent.is_relative_to(mounts[""]):
                break
            if _divisible(parent) and {"memory", "pids"} <= _words(parent / "cgroup.subtree_control"):
                _sweep(parent)
                return ((parent, _V2),)
    found = []
    for controller, settings in _V1.items():
        parent = mounts.get(controller, Path("/nowhere")) / own.get(controller, "").lstrip("/")
        if not _divisible(parent):
            return ()
        found.append((parent, settings))
    for parent, _ in found:
        _sweep(parent)
    return tuple(found)


def _own() -> Iterator[tuple[str, str]]:
    """The cgroup of this process for each controller of version 1, and "" for version 2."""
    for line in _lines(Path("/proc/self/cgroup")):
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _mounts() -> Iterator[tuple[str, Path]]:
    for line in _lines(Path("/proc/self/mountinfo")):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        place = Path(before.split(" ")[4])
        if kind == "cgroup2":
            yield "", place
        elif kind == "cgroup":
            yield from ((word, place) for word in options.split(","))


def _divisible(directory: Path) -> bool:
    return os.access(directory, os.W_OK) and os.access(directory / "cgroup.procs", os.W_OK)


def _sweep(parent: Path) -> None:
    """Remove what killed programs left."""
    for directory in parent.glob(f"{_PREFIX}*"):
        pid = directory.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):  # noqa: PTH110
            _removed(directory)


def _removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _write(file: Path, value: str) -> None:
    try:
        file.write_text(value)
    except FileNotFoundError:
        if value != "0":  # without swap there is nothing to turn off
            raise


def _count(file: Path, word: str) -> int:
    return next((int(line.split()[1]) for line in _lines(file) if line.split()[:1] == [word]), 0)


def _words(file: Path) -> set[str]:
    return {word for line in _lines(file) for word in line.split()}


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
