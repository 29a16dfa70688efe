"""Renames in a held directory that replace nothing unseen: two names exchanged, or a free name taken.

Linux has them as flags of renameat2, which Python does not offer. Where the C library, the kernel or the file
system lacks them there is a way round, with a gap that each function states.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache

_NOREPLACE = 1
_EXCHANGE = 2
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS}


def exchange(directory: int, one: str, other: str) -> bool:
    """Let two entries of a held directory trade their names, at once. False, and nothing done, where that is
    not supported. Raises `OSError`, as if one of them is gone."""
    return renameat2(directory, one, other, _EXCHANGE)


def take(directory: int, temporary: str, name: str) -> None:
    """Rename a file of ours to `name`, which must be free: `FileExistsError`.

    Without support a second link does it. Without links, what takes the name between a look and the rename
    is replaced.
    """
    if renameat2(directory, temporary, name, _NOREPLACE):
        return
    try:
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=directory, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    else:
        os.unlink(temporary, dir_fd=directory)


def renameat2(directory: int, source: str, target: str, flags: int) -> bool:
    """The system call, both names in the same directory; False where it or its flag is not supported."""
    number = _renameat2()(directory, os.fsencode(source), os.fsencode(target), flags)
    if number in _UNSUPPORTED:
        return False
    if number:
        raise OSError(number, os.strerror(number), source, None, target)
    return True


@cache
def _renameat2() -> Callable[[int, bytes, bytes, int], int]:
    """The C library's function, as one that returns an error number."""
    import ctypes  # 2 ms, which only those who write pay

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return lambda *_: errno.ENOSYS
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)

    def call(directory: int, source: bytes, target: bytes, flags: int) -> int:
        return ctypes.get_errno() if function(directory, source, directory, target, flags) else 0

    return call
