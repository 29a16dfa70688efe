"""Files that only this user reads: a key, tokens, credentials. Each is there whole, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from ksadk.errors import KsadkError
from ksadk.whole_files import replace_file


def write_private(path: Path, data: bytes) -> None:
    """Write a file of mode 0600 in a directory of mode 0700, in the place of what was there. It is on the
    disk when this returns."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, data)
        _sync(path.parent)
    except OSError as error:
        raise _unusable(path, f"cannot be written: {error.strerror}") from error


def read_private(path: Path) -> bytes | None:
    """The bytes of a file, None if there is none. One that others can read or write is refused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:  # which is an error for a directory
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise _unusable(path, "can be read or changed by others: chmod 600 it")
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error


def read_or_make(path: Path, make: Callable[[], bytes]) -> bytes:
    """The bytes of a file, which is made where there is none. Two processes that make one at a time both get
    the one that is there."""
    data = read_private(path)
    if data is None:
        fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        write_private(fresh, make())
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        except OSError as error:
            raise _unusable(path, f"cannot be made: {error.strerror}") from error
        finally:
            fresh.unlink(missing_ok=True)
        data = read_private(path)
    if not data:
        raise _unusable(path, "is empty")
    return data


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: Path, why: str) -> KsadkError:
    return KsadkError(f"{path} {why}", code="a2a_center_files_unusable")
