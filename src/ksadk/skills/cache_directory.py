"""A directory that is this user's own, in which things are there as a whole or not at all.

Whoever writes holds a lock, so that a half-made thing that stands there was left by one who was killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ksadk.skills.errors import SkillPackageError
from ksadk.skills.own_directory import hold_own
from ksadk.skills.trees import DIRECTORY, remove

LOCK_SECONDS = 60.0
_POLL_SECONDS = 0.02
_LOCK, _STAGE = "lock", "stage"
_NOT_WHAT_IT_WAS = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO}
_FULL = {errno.ENOSPC, errno.EDQUOT}

Check = Callable[[int], str | None]
"""Says where in a held directory the skill is, and None where the directory is not what it should be. May
raise `SkillPackageError` for that too."""


class CacheDirectory:
    """Things are published in it under names that their maker chose; each is a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self, name: str, check: Check) -> str | None:
        """What the check of a thing says; None too where none is there."""
        with self._held() as held:
            return _checked(held, name, check)

    def publish(self, name: str, fill: Callable[[int], None], check: Check) -> Path | None:
        """Have a thing of that name there, made by `fill` in an empty held directory, unless one that passes
        its check is there. One that does not pass is moved aside: where to, else None.

        Raises `SkillPackageError` with nothing published: `no_space`, `io_error`, `skill_cache_busy`,
        `skill_cache_unsafe`, or what `fill` raised.
        """
        with self._held() as held, self._locked(held):
            remove(self.path / _STAGE)
            if _checked(held, name, check) is not None:
                return None
            aside = self._move_aside(held, name)
            os.mkdir(_STAGE, 0o700, dir_fd=held)
            try:
                stage = os.open(_STAGE, DIRECTORY, dir_fd=held)
                try:
                    fill(stage)
                    os.fsync(stage)
                finally:
                    os.close(stage)
                os.rename(_STAGE, name, src_dir_fd=held, dst_dir_fd=held)
            except BaseException:
                remove(self.path / _STAGE)
                raise
            os.fsync(held)
            return aside

    def _move_aside(self, held: int, name: str) -> Path | None:
        """Where to; of one name only the last is kept, if what was moved there before can be deleted."""
        if not os.path.lexists(self.path / name):
            return None
        number = 0
        while True:
            aside = f"changed-{name}" + (f"-{number}" if number else "")
            remove(self.path / aside)
            if not os.path.lexists(self.path / aside):
                os.rename(name, aside, src_dir_fd=held, dst_dir_fd=held)
                return self.path / aside
            number += 1

    @contextmanager
    def _held(self) -> Iterator[int]:
        try:
            descriptor = hold_cache(self.path)
            try:
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            words = f"the skill cache {self.path}: {error.strerror}"
            if error.errno in _FULL:
                raise SkillPackageError(
                    words, code="no_space", hint="Make room, or name another place in KSADK_SKILL_CACHE_DIR."
                ) from error
            raise SkillPackageError(words, code="io_error") from error

    @contextmanager
    def _locked(self, held: int) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(_LOCK, flags, 0o600, dir_fd=held)
        try:
            until = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise SkillPackageError(
                            f"another process has held the skill cache {self.path} for {LOCK_SECONDS:.0f} s",
                            code="skill_cache_busy",
                        ) from None
                    time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)


def hold_cache(path: Path) -> int:
    """A descriptor of a directory that things are kept in, as `hold_own` gives it. Raises `OSError`, and
    `SkillPackageError` (`skill_cache_unsafe`) where somebody else could change what is in it."""
    return hold_own(path, partial(_unsafe, path))


def _unsafe(path: Path, why: str) -> SkillPackageError:
    return SkillPackageError(
        f"the skill cache {path} {why}, so what is in it could be anybody's",
        code="skill_cache_unsafe",
        hint="Name a directory that only you can write to in KSADK_SKILL_CACHE_DIR.",
    )


def _checked(held: int, name: str, check: Check) -> str | None:
    try:
        descriptor = os.open(name, DIRECTORY, dir_fd=held)
        try:
            return check(descriptor)
        finally:
            os.close(descriptor)
    except SkillPackageError:
        return None
    except OSError as error:
        if error.errno in _NOT_WHAT_IT_WAS:
            return None
        raise
