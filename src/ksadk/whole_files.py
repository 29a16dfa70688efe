"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Put a file with these bytes and permissions in the place of what is at a path, in one step: whoever
    looks sees the old or the new one. It is on the disk before it is there.

    A link at the path is replaced itself. Raises `OSError`, and then all is as it was.
    """
    beside = path.with_name(f".ksadk-{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(beside, flags, 0o600), "wb") as stream:  # noqa: PTH123  # a descriptor
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
