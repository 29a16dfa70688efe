"""A directory that is this user's own: nobody else can change what is in it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from ksadk.skills.errors import SkillError
from ksadk.skills.trees import DIRECTORY

_IN_THE_WAY = (errno.EEXIST, errno.ENOTDIR, errno.ELOOP)


def hold_own(path: Path, refusal: Callable[[str], SkillError]) -> int:
    """A descriptor of a directory that is this user's own, made with mode 0700 if it is not there.

    Raises `OSError`, and where somebody else could change what is in it what `refusal` makes of why: words
    that go on from the path.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, DIRECTORY)
    except OSError as error:
        if error.errno in _IN_THE_WAY:
            raise refusal("is no directory, or a link") from error
        raise
    state = os.fstat(descriptor)
    why = ""
    if state.st_uid != os.geteuid():
        why = "belongs to another user"
    elif state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        why = "can be written to by others"
    if why:
        os.close(descriptor)
        raise refusal(why)
    return descriptor
