"""Whether a sandbox has mounted what it was meant to, and nothing else of this machine.

bwrap follows links when it mounts. A command that runs in the same workspace at that moment may have put one
there, in the place of what was looked at before.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from ksadk.sandbox.base import SandboxError

_ESCAPED = re.compile(rb"\\([0-7]{3})")


class _Mount(NamedTuple):
    """A mount: which file system it is of, what of that, and where it is seen."""

    device: bytes
    root: bytes
    place: bytes

    def place_of(self, other: _Mount) -> bytes | None:
        """Where in this mount the root of another one is; None where it is not in it."""
        if other.device != self.device or not _is_below(other.root, self.root):
            return None
        below = other.root[len(self.root.rstrip(b"/")) :]
        return (self.place.rstrip(b"/") + below) or b"/"


def check_mounts(pid: int, sources: Collection[bytes]) -> None:
    """Raise `SandboxError` where a process has anything of this machine's file systems mounted that is not
    below one of `sources`. File systems that its sandbox made for itself are none of this machine's."""
    here = list(_mounts("self"))
    devices = {mount.device for mount in here}
    for mount in _mounts(str(pid)):
        places = [place for one in here if (place := one.place_of(mount)) is not None]
        if mount.device in devices and not any(_is_below(place, top) for place in places for top in sources):
            raise SandboxError(
                "the sandbox is not as it must be, so the command was not started: "
                f"{mount.place.decode(errors='replace')} is {mount.root.decode(errors='replace')}",
                hint="Something changed the workspace while the sandbox was made. Run the command again.",
            )


def _is_below(path: bytes, top: bytes) -> bool:
    return path == top or path.startswith(top.rstrip(b"/") + b"/")


def _mounts(process: str) -> Iterator[_Mount]:
    for line in Path(f"/proc/{process}/mountinfo").read_bytes().splitlines():
        _, _, device, root, place, *_ = line.split(b" ")
        yield _Mount(device, _plain(root), _plain(place))


def _plain(path: bytes) -> bytes:
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), path)
