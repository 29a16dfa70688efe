"""The Python that a sandbox has: the workspace's own environment where it has one, else this machine's."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VENV = ".venv"
SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_NAMES = ("python", "python3")
_MAX_LINKS = 40


@dataclass(frozen=True)
class Python:
    """How a sandbox comes to its Python.

    directories: what is bound read-only at its own path, as (source, path) pairs, parents first.
    path: directories that lead PATH.
    links: (name, target) of programs that would be missing.
    """

    directories: tuple[tuple[str, str], ...] = ()
    path: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


def find_python(root: Path) -> Python:
    """The Python for the workspace `root`, a path without links. What a workspace says is not believed: a
    directory is bound only where an interpreter's own library is in it."""
    venv = root / VENV
    directories: dict[str, str] = {}
    path: tuple[str, ...] = ()
    if (venv / "pyvenv.cfg").is_file() and not venv.is_symlink():
        directories = dict(_prefixes(venv / "bin" / "python"))
        if directories or _is_system(os.path.realpath(venv / "bin" / "python")):
            directories[str(venv)] = str(venv)
            path = (str(venv / "bin"),)
    links = _links(directories)
    bound = tuple((source, place) for place, source in sorted(directories.items()))
    return Python(bound, path, links)


def _links(directories: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """`python` and `python3` for where the system has none; adds to `directories` what they need."""
    missing = [name for name in _NAMES if _system_program(name) is None]
    if not missing:
        return ()
    target = _system_program("python3")
    if target is None:
        target = os.path.realpath(sys.executable)
        directories.update(_prefixes(Path(sys.executable)))
    return tuple((name, target) for name in missing)


def _system_program(name: str) -> str | None:
    """A program that is there in a sandbox as it is on this machine."""
    for directory in SYSTEM_PATH:
        path = f"{directory}/{name}"
        if os.access(path, os.X_OK) and _is_system(os.path.realpath(path)):
            return path
    return None


def _is_system(path: str) -> bool:
    return path.startswith(("/usr/", "/bin/", "/sbin/", "/lib"))


def _prefixes(python: Path) -> Iterator[tuple[str, str]]:
    """Where an interpreter is installed, and the other paths that links to it go by: (path, source) pairs."""
    real = Path(os.path.realpath(python))
    prefix = real.parent.parent
    if _is_system(str(real)) or not _is_prefix(prefix, real):
        return
    yield str(prefix), str(prefix)
    for step in _steps(python):
        named = step.parent.parent
        if named != prefix and os.path.realpath(named) == str(prefix):
            yield str(named), str(prefix)


def _is_prefix(prefix: Path, executable: Path) -> bool:
    """Whether an interpreter's standard library is in a directory, and a home directory is not."""
    if not re.fullmatch(r"python[0-9.]*", executable.name) or executable.parent.name != "bin":
        return False
    if prefix == Path("/") or Path(os.path.realpath(Path("~").expanduser())).is_relative_to(prefix):
        return False
    return any(prefix.glob("lib*/python3.*/os.py"))


def _steps(link: Path) -> Iterator[Path]:
    """Where each link on the way leads, as it says it."""
    for _ in range(_MAX_LINKS):
        if not link.is_symlink():
            return
        link = Path(os.path.normpath(link.parent / link.readlink()))
        yield link
