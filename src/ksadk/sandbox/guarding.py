"""Protected places while several commands run in one workspace, of one program or of several.

What one command has just changed must not be taken for what was there by another that begins. So they all go
by what was there before the first of those that run at once, which is in a file that they hold a lock on.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ksadk.sandbox.base import SandboxError
from ksadk.sandbox.protected import ProtectedPlaces, Removed

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Guard:
    """The protected places of a workspace, while it is held."""

    def __init__(self, places: ProtectedPlaces, lock: Path) -> None:
        self._places = places
        self._lock = lock

    def check(self) -> list[Removed]:
        """As `ProtectedPlaces.check`, one at a time: what one puts back, another must not move out."""
        descriptor = os.open(self._lock, _OPEN, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            return self._places.check()
        finally:
            os.close(descriptor)


@contextmanager
def guarded(root: Path, state: Path) -> Iterator[Guard]:
    """Hold the protected places of a workspace, a path without links, for one command.

    state: the directory of the user's state, where what is moved out of the workspace goes, too.
    Raises `SandboxError` where that cannot be written, and as `ProtectedPlaces.look` does.
    """
    directory, aside = state / "protected", state / "moved-out"
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    with ExitStack() as stack:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(directory / f"{name}.json", _OPEN, 0o600)
            stack.callback(os.close, descriptor)
            places = _before(descriptor, root, aside)
        except OSError as error:
            raise SandboxError(
                f"{error.filename or directory}: {error.strerror}; no command runs where it is not checked",
                hint="See to the directory of the user's state, XDG_STATE_HOME.",
            ) from error
        yield Guard(places, directory / f"{name}.lock")


def _before(descriptor: int, root: Path, aside: Path) -> ProtectedPlaces:
    """What was there before the first of the commands that run now; the lock is shared from here on."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits for whoever looks at this moment
            try:
                return ProtectedPlaces.from_json(root, aside, os.pread(descriptor, _size(descriptor), 0))
            except ValueError:  # whoever did was killed meanwhile
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    places = ProtectedPlaces.look(root, aside)
    os.ftruncate(descriptor, 0)
    with open(descriptor, "wb", closefd=False) as file:  # of a descriptor
        file.write(places.to_json())
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return places


def _size(descriptor: int) -> int:
    return os.fstat(descriptor).st_size
