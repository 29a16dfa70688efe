"""The places of a workspace that decide what other programs run: after a run they are as they were before.

A mount cannot protect what is not there yet, nor what is in a directory that gets another name. So these
places are looked at before and after: what is new or changed is moved out, and what was there comes back.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ksadk.project_files import PROTECTED_PATHS
from ksadk.sandbox.base import SandboxError
from ksadk.sandbox.programs import system_program
from ksadk.sandbox.trees import read_beneath, walk
from ksadk.sessions import STATE_DIR

_GIT = ".git"
_PRIVATE = STATE_DIR
"""Not compared by what is in it: a sandbox has no such directory, so it is enough that it is the same one."""
_MAX_BYTES = 16 * 1024 * 1024
"""Of everything at these places together."""


@dataclass(frozen=True)
class Removed:
    """What was found at a protected place after a run: `change` is what had happened to it (`new`,
    `changed`, `deleted`), `moved_to` where it is now, if anything was there."""

    path: str
    change: str
    moved_to: str

    def to_result(self) -> dict[str, Any]:
        """As it stands in a tool's result."""
        return {"path": self.path, "change": self.change, "moved_to": self.moved_to or None}


class _Item(NamedTuple):
    """One entry of a protected place: its mode, and its bytes, or where the link leads. Of a file that cannot
    be read, or is too large, what tells it from another; it is not put back."""

    mode: int
    content: bytes = b""
    whole: bool = True


_Items = dict[str, _Item]
"""By their paths from the place, which is itself the empty one. Nothing where there is nothing."""


class ProtectedPlaces:
    """The protected places of a workspace, as they were at some moment; `look` says as they are now.

    aside: the directory, not in the workspace, for what is moved out of it.
    """

    def __init__(self, root: Path, aside: Path, before: dict[str, _Items]) -> None:
        self._root = root
        self._aside = aside
        self._before = before

    @classmethod
    def look(cls, root: Path, aside: Path) -> ProtectedPlaces:
        """Raises `SandboxError` where more is at these places than could be put back."""
        with _told(root):
            before = {path: _items_of(root, path) for path in (_GIT, *_watched(root))}
        size = sum(len(item.content) for items in before.values() for item in items.values())
        if size > _MAX_BYTES:
            raise SandboxError(
                f"the protected places of {root} hold {size:,} bytes, more than can be put back after a run",
                hint=f"Protected are {', '.join(PROTECTED_PATHS)}.",
            )
        return cls(root, aside, before)

    @classmethod
    def from_json(cls, root: Path, aside: Path, text: bytes) -> ProtectedPlaces:
        """What `to_json` wrote."""
        before = {
            path: {below: _Item(mode, base64.b64decode(data), whole) for below, mode, data, whole in items}
            for path, items in json.loads(text).items()
        }
        return cls(root, aside, before)

    def to_json(self) -> bytes:
        """All of it, for another program that runs commands there at the same time."""
        written = {
            path: [
                [below, item.mode, base64.b64encode(item.content).decode(), item.whole]
                for below, item in items.items()
            ]
            for path, items in self._before.items()
        }
        return json.dumps(written).encode()

    def check(self) -> list[Removed]:
        """Put everything back as it was; returns what had been changed. Raises `protected_path_changed`
        where that cannot be done."""
        with _told(self._root):
            _open_up(self._root / _GIT)
            return [
                removed for path, before in self._before.items() if (removed := self._check(path, before))
            ]

    def _check(self, path: str, before: _Items) -> Removed | None:
        now = _items_of(self._root, path)
        if now == before or (path == _GIT and _is_usual(now) and _is_usual(before)):
            return None
        return self._put_back(path, before, now)

    def _put_back(self, path: str, before: _Items, now: _Items) -> Removed:
        place = self._root / path
        moved_to = ""
        if now:
            self._aside.mkdir(mode=0o700, parents=True, exist_ok=True)
            moved_to = str(self._aside / f"{secrets.token_hex(8)}-{place.name}")
            _move(place, moved_to)
        if path != _PRIVATE:
            _restore(place, before)
        return Removed(path, "changed" if before and now else "new" if now else "deleted", moved_to)


@contextmanager
def _told(root: Path) -> Iterator[None]:
    """What the system does not let be done at protected places is told as what it is."""
    try:
        yield
    except OSError as error:
        raise SandboxError(
            f"the protected places of {root} cannot be kept as they are: {error.filename}: {error.strerror}",
            code="protected_path_changed",
            hint=f"Look at {', '.join(PROTECTED_PATHS)} before anything else runs there.",
        ) from error


def _items_of(root: Path, path: str) -> _Items:
    return _items(root / path, within=path not in (_PRIVATE, _GIT))


def _watched(root: Path) -> list[str]:
    """The protected paths, and what in the workspace they lead to where links are on the way."""
    paths = list(PROTECTED_PATHS)
    for path in PROTECTED_PATHS:
        real = Path(os.path.realpath(root / path))
        if real.is_relative_to(root) and real != root:
            paths.append(real.relative_to(root).as_posix())
    return list(dict.fromkeys(paths))


def _is_usual(git: _Items) -> bool:
    """Whether `.git` is a directory or absent: it may come and go, what is in it is looked at by itself."""
    return not git or stat.S_ISDIR(git[""].mode)


def _items(place: Path, *, within: bool) -> _Items:
    """What is at a place, and `within` it; nothing where a link is on the way."""
    if os.path.realpath(place.parent) != str(place.parent):
        return {}
    try:
        state = place.lstat()
    except OSError:
        return {}
    if not stat.S_ISDIR(state.st_mode):
        return {"": _item(place, state)}
    if not within:  # which directory it is
        return {
            "": _Item(stat.S_IFDIR, f"{state.st_dev} {state.st_ino}".encode() if place.name != _GIT else b"")
        }
    try:
        below = {found.path: _item(place / found.path, found.state) for found in walk(place, lambda _: True)}
    except OSError:  # not to be read, as its mode says
        below = {}
    return {"": _Item(state.st_mode), **below}


def _item(place: Path, state: os.stat_result) -> _Item:
    if stat.S_ISLNK(state.st_mode):
        return _Item(state.st_mode, os.fsencode(place.readlink()))
    if not stat.S_ISREG(state.st_mode):
        return _Item(state.st_mode)
    found = read_beneath(place.parent, place.name, _MAX_BYTES)
    if found is None:  # too large, or not to be read: whether it is the same one
        return _Item(
            state.st_mode, f"{state.st_ino} {state.st_size} {state.st_ctime_ns}".encode(), whole=False
        )
    return _Item(state.st_mode, found[0])


def _open_up(directory: Path) -> None:
    """Let a directory be entered, changed and so moved: a command may have taken that from its user."""
    every = os.R_OK | os.W_OK | os.X_OK
    if directory.is_dir() and not directory.is_symlink() and not os.access(directory, every):
        directory.chmod(stat.S_IMODE(directory.stat().st_mode) | stat.S_IRWXU)


def _move(place: Path, target: str) -> None:
    _open_up(place)
    try:
        place.rename(target)
    except OSError:
        # To another file system. mv takes trees of any depth, and FIFOs.
        done = subprocess.run(
            [system_program("mv"), "--", str(place), target],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            why = done.stderr.decode(errors="replace").strip()
            raise SandboxError(
                f"{place} was changed in a sandbox, and cannot be moved out of the workspace: {why}",
                code="protected_path_changed",
                hint="Look at it, and delete it, before anything else runs there.",
            ) from None


def _restore(place: Path, items: _Items) -> None:
    if not items:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if os.path.realpath(place.parent) != str(place.parent):
        return  # a link leads elsewhere now, where nothing is protected
    for path, item in sorted(items.items()):
        target = place / path if path else place
        if stat.S_ISLNK(item.mode):
            target.symlink_to(os.fsdecode(item.content))
        elif stat.S_ISDIR(item.mode):
            target.mkdir()
        elif stat.S_ISREG(item.mode) and item.whole:
            with target.open("xb") as file:
                file.write(item.content)
            target.chmod(stat.S_IMODE(item.mode))
    for path, item in sorted(items.items(), reverse=True):
        if stat.S_ISDIR(item.mode):
            (place / path if path else place).chmod(stat.S_IMODE(item.mode))
