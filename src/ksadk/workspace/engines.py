"""What names the files that a search scans: ripgrep, or a walk of our own that stands in for it.

ripgrep names files in which a line matches, and the walk all files; either leaves out what the other does.
Neither's word is the last: each file is opened and scanned again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from ksadk.workspace.directories import Directories, Names
from ksadk.workspace.globs import Glob
from ksadk.workspace.paths import PRIVATE, WorkspaceError
from ksadk.workspace.patterns import Pattern
from ksadk.workspace.protected import GIT
from ksadk.workspace.tree import OutOfTime, Sieve, Walk, checking, scope_above

_OF_SECONDS = 0.8
"""How much of the time ripgrep has; the rest is for what it has found until then."""
_POLL_SECONDS = 0.25
_PLAIN_GLOB = re.compile(r"\*?[A-Za-z0-9_.-]+")
_SEARCH = (
    "--no-config", "--files-with-matches", "--null", "--hidden", "--no-messages", "--no-ignore-messages",
    "--no-require-git", "--no-ignore-parent", "--no-ignore-global", "--no-ignore-exclude",
    "--case-sensitive", "--regex-size-limit=200M", f"--glob=!{GIT}", f"--iglob=!{PRIVATE}",
)  # fmt: skip


class Stalled(Exception):
    """ripgrep waits for something that may never come, such as a FIFO called `.gitignore`."""


@dataclass
class Wanted:
    """Which files a search is about. `out_of_time` is set by an engine that could not name them all."""

    root: Path
    directories: Directories
    start: Names
    pattern: Pattern
    glob: Glob | None
    begun: float
    deadline: float
    out_of_time: bool = False

    def fits_glob(self, path: str) -> bool:
        if self.glob is None or self.glob.matches(path):
            return True
        below = "".join(f"{name}/" for name in self.start)
        return self.glob.matches(path.removeprefix(below))


class Engine(Protocol):
    """Names, in order, every file below a directory that an ignoring walk comes to and that may match."""

    @property
    def name(self) -> Literal["rg", "python"]: ...

    def candidates(self, wanted: Wanted) -> Iterator[Names]: ...


class PythonEngine:
    """The engine that is always there."""

    name: Literal["python"] = "python"

    def candidates(self, wanted: Wanted) -> Iterator[Names]:
        """Raises `OutOfTime` when the deadline ends the walk."""
        walk = Walk(wanted.root, ignoring=True, deadline=wanted.deadline)
        for entry in walk.files(wanted.root.joinpath(*wanted.start)):
            if wanted.fits_glob(entry.path):
                yield tuple(entry.path.split("/"))
        if walk.out_of_time:
            raise OutOfTime


@dataclass(frozen=True)
class RipgrepEngine:
    """ripgrep, told to follow no configuration."""

    program: Path
    name: Literal["rg"] = "rg"

    def candidates(self, wanted: Wanted) -> Iterator[Names]:
        """Raises `search_failed` if the program breaks, and `Stalled`."""
        check = checking(wanted.deadline)
        sieve = Sieve(wanted.root, wanted.directories, wanted.start, check)
        above = scope_above(wanted.directories, wanted.start, check)
        paths = self._run(wanted, [] if not above.may_overrule else ["--no-ignore"])
        paths.sort(key=lambda path: path.replace(b"/", b"\0"))  # name by name: NUL is in none, and the least
        return self._sifted(wanted, sieve, paths)

    def _sifted(self, wanted: Wanted, sieve: Sieve, paths: list[bytes]) -> Iterator[Names]:
        for data in paths:
            path = os.fsdecode(data)
            names = tuple(path.split("/"))
            if wanted.fits_glob(path) and sieve.admits(names):
                yield names

    def _run(self, wanted: Wanted, options: list[str]) -> list[bytes]:
        glob = wanted.glob.pattern if wanted.glob is not None else ""
        if _PLAIN_GLOB.fullmatch(glob):  # a type leaves ignore files in force, which --glob would not
            options = [*options, f"--type-add=wanted:{glob}", "--type=wanted"]
        command = [str(self.program), *_SEARCH, *options, "-e", wanted.pattern.ripgrep, "--"]
        command.append("./" + "/".join(wanted.start))
        output, errors, status = self._output(command, wanted)
        if status < 0 or (status not in (0, 1) and errors):
            words = errors.decode("utf-8", "replace").strip().splitlines()
            raise WorkspaceError(
                f"the search program rg failed: {words[0] if words else f'signal {-status}'}",
                code="search_failed",
            )
        return [path.removeprefix(b"./") for path in output.split(b"\0")[:-1]]

    def _output(self, command: list[str], wanted: Wanted) -> tuple[bytes, bytes, int]:
        until = wanted.begun + (wanted.deadline - wanted.begun) * _OF_SECONDS
        with _started(command, wanted.directories) as process:
            worked = None
            while True:
                left = max(0.0, min(_POLL_SECONDS, until - time.monotonic()))
                try:
                    return (*process.communicate(timeout=left), process.returncode)
                except subprocess.TimeoutExpired:
                    before, worked = worked, _work(process.pid)
                except BaseException:
                    process.kill()
                    raise
                wanted.out_of_time = time.monotonic() >= until
                stalled = worked is not None and worked == before
                if wanted.out_of_time or stalled:
                    process.kill()
                    output, errors = process.communicate()
                    if wanted.out_of_time:
                        return output, errors, 0
                    raise Stalled


def best_engine(root: Path) -> Engine:
    """ripgrep if it is installed outside the workspace, else the Python engine."""
    found = shutil.which("rg")
    if found is None or not Path(found).is_absolute():
        return PythonEngine()
    program = Path(found).resolve()
    return PythonEngine() if program.is_relative_to(root) else RipgrepEngine(program)


def _started(command: list[str], directories: Directories) -> subprocess.Popen[bytes]:
    held = Path(f"/proc/self/fd/{directories.hold(())}")  # the root that was opened, whatever its path is now
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            command, cwd=held if held.exists() else directories.root, env={},
            stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
        )  # fmt: skip
    except OSError as error:
        raise WorkspaceError(
            f"the search program cannot be started: {error}", code="search_failed"
        ) from error


def _work(process: int) -> tuple[str, str] | None:
    """The time that a process has worked for, where the system tells."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[11], fields[12]
