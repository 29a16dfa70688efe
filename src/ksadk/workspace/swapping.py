"""Putting new bytes in the place of a file, so that nobody's are lost: not the old ones, not the new ones,
and not what another program writes in between.

The new bytes are written beside the file, under a name that is known for each file. Then the two trade names,
and only now that nobody can get at what was replaced by its name is it compared with what was to be replaced.
A process that is killed on the way leaves one of the two under the known name.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from ksadk.workspace.exchange import exchange, take
from ksadk.workspace.held import holds, opened, read_up_to, sync
from ksadk.workspace.paths import MAX_NAME_BYTES, Place, already_exists, check_regular, modified

SUFFIX = ".agentengine-swap"


def swap_names(name: str) -> Iterator[str]:
    """The names for bytes that are to take the place of `name`: the first that is free is used. No end."""
    first = f".{name}{SUFFIX}"
    if len(os.fsencode(first)) > MAX_NAME_BYTES - len(".999"):
        first = f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:40]}{SUFFIX}"
    yield first
    yield from (f"{first}.{number}" for number in itertools.count(2))


@dataclass(frozen=True)
class _New:
    """New bytes that are on the disk, in a held directory, beside the file whose place they are to take."""

    parent: int
    name: str
    data: bytes
    state: os.stat_result

    def drop(self) -> None:
        """Delete them if that is what the name still means: it may be what they replaced, or they may have
        been changed while they stood there."""
        with suppress(OSError):
            now = os.stat(self.name, dir_fd=self.parent, follow_symlinks=False)
            is_ours = (now.st_dev, now.st_ino) == (self.state.st_dev, self.state.st_ino)
            if is_ours and holds(self.parent, self.name, self.data):
                os.unlink(self.name, dir_fd=self.parent)


def put(
    parent: int,
    place: Place,
    data: bytes,
    *,
    old: os.stat_result | None,
    before: bytes | None,
    create_only: bool,
) -> os.stat_result:
    """Make `data` the content of a file in a held directory; `old` is the state of what it replaces.

    With `before`, only if it still has these bytes; with `create_only`, only if there is none.
    """
    new = _write_beside(parent, place.real.name, data, old)
    try:
        if before is not None:
            _swap(new, place, before)
        elif create_only:
            take(parent, new.name, place.real.name)
        else:
            os.replace(new.name, place.real.name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException as error:  # whatever ended it, what is ours does not stay behind
        new.drop()
        if create_only and isinstance(error, FileExistsError):
            raise already_exists(place) from error
        raise
    sync(parent)
    return new.state


def write_through(parent: int, place: Place, data: bytes, before: bytes | None) -> os.stat_result:
    """Write into the file itself, so that all its links show it. A crash on the way leaves a mixture.

    Space that the file would need more is taken before anything of it changes.
    """
    with opened(parent, place.real.name, os.O_WRONLY if before is None else os.O_RDWR) as descriptor:
        state = os.fstat(descriptor)
        check_regular(state, place.shown)
        size = state.st_size
        if before is not None and (size != len(before) or read_up_to(descriptor, size + 1) != before):
            raise modified(place)
        if len(data) > size:
            _grow(descriptor, size, len(data))
        os.lseek(descriptor, 0, os.SEEK_SET)
        _write(descriptor, data)
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
        return os.fstat(descriptor)


def _swap(new: _New, place: Place, before: bytes) -> None:
    """Let new bytes take the place of a file that holds `before`; one that does not gets its place back."""
    name = place.real.name
    try:
        exchanged = exchange(new.parent, new.name, name)
    except FileNotFoundError:
        raise modified(place) from None
    if not exchanged:
        if not holds(new.parent, name, before):
            raise modified(place)
        os.replace(new.name, name, src_dir_fd=new.parent, dst_dir_fd=new.parent)
    elif holds(new.parent, new.name, before):
        os.unlink(new.name, dir_fd=new.parent)
    else:
        # Should yet another version have come to stand there, it keeps the temporary name; should the name
        # have been deleted, the one before it does.
        with suppress(OSError):
            exchange(new.parent, new.name, name)
        new.drop()
        sync(new.parent)
        raise modified(place)


def _write_beside(parent: int, name: str, data: bytes, old: os.stat_result | None) -> _New:
    """Write a new file next to the one that it is for, with the mode, owner and attributes of that."""
    # Never wider than the file replaced, whose mode the file system may not let us set.
    mode = 0o666 if old is None else old.st_mode & 0o777
    temporary, descriptor = _create(parent, name, mode)
    try:
        _write(descriptor, data)
        if old is not None:
            _copy_ownership(old, descriptor)
            _copy_attributes(parent, name, descriptor)
        os.fsync(descriptor)
        return _New(parent, temporary, data, os.fstat(descriptor))
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise
    finally:
        os.close(descriptor)


def _create(parent: int, name: str, mode: int) -> tuple[str, int]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for temporary in swap_names(name):
        try:
            return temporary, os.open(temporary, flags, mode, dir_fd=parent)
        except FileExistsError:
            pass  # left over by a process that was killed
    raise AssertionError("swap_names has an end")


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _grow(descriptor: int, size: int, wanted: int) -> None:
    """Take the disk space for a file that shall become longer, or leave it as long as it is."""
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, size, wanted - size)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _copy_ownership(old: os.stat_result, descriptor: int) -> None:
    now = os.fstat(descriptor)
    for owner in ((old.st_uid, old.st_gid), (-1, old.st_gid)):
        if (now.st_uid, now.st_gid) == (old.st_uid, old.st_gid):
            break
        with suppress(PermissionError):  # only root can give a file away; the writer owns it then
            os.fchown(descriptor, *owner)
            now = os.fstat(descriptor)
    mode = stat.S_IMODE(old.st_mode)
    # Whoever could not be given the file must not lend out the writer's rights instead of its own.
    if now.st_uid != old.st_uid:
        mode &= ~stat.S_ISUID
    if now.st_gid != old.st_gid:
        mode &= ~stat.S_ISGID
    if stat.S_IMODE(now.st_mode) != mode:
        with suppress(OSError):  # a file system without modes
            os.fchmod(descriptor, mode)


def _copy_attributes(parent: int, name: str, descriptor: int) -> None:
    """Give a new file the extended attributes of the old one, access lists among them, and no others."""
    if not hasattr(os, "listxattr"):
        return
    try:
        with opened(parent, name) as old:
            attributes = {attribute: os.getxattr(old, attribute) for attribute in os.listxattr(old)}
    except OSError:
        return  # a file that may be written but not read, or a file system without attributes
    for attribute in os.listxattr(descriptor):
        if attribute not in attributes:  # from the directory's default access list
            with suppress(OSError):
                os.removexattr(descriptor, attribute)
    for attribute, value in attributes.items():
        with suppress(OSError):  # the security module's own attributes are not ours to set
            os.setxattr(descriptor, attribute, value)
