"""What a workflow made: regular files of its output directory, and nothing that leads elsewhere."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ksadk.skills.limits import MIB

MAX_FILES = 1000
MAX_FILE_BYTES = 100 * MIB
MAX_TOTAL_BYTES = 500 * MIB
MAX_ENTRIES = 20_000
"""How many entries of the directory are looked at."""

MAX_DEPTH = 64
"""How many directories deep a file may be."""

MAX_TOLD = 50
"""How many of the files that were left out are told, each with why."""

_ANNOUNCEMENT = "artifact="


@dataclass
class Artifacts:
    """`files` are paths relative to the output directory; `left_out` says why others are not among them."""

    files: list[str] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)

    def leave_out(self, path: str, reason: str) -> None:
        if len(self.left_out) < MAX_TOLD:
            self.left_out.append({"path": path, "reason": reason})


def announced(stdout: str) -> Iterator[str]:
    """The paths of the lines `artifact=<path>` that a script printed."""
    for line in stdout.splitlines():
        if line.startswith(_ANNOUNCEMENT):
            yield line.removeprefix(_ANNOUNCEMENT).strip()


def collect(output: Path, told: Iterable[str] = (), places: Sequence[str] = ()) -> Artifacts:
    """The artifacts that a workflow left in `output`: first those that it announced, in that order.

    told: announced paths, absolute as commands see them or relative. places: the paths at which commands see
        the output directory, and the one that they run in; a path is looked for in the former only.
    """
    found = Artifacts()
    total = 0
    for path, state in entries(output, found):
        reason = _refusal(path, state, len(found.files), total)
        if reason:
            found.leave_out(path, reason)
        else:
            total += state.st_size
            found.files.append(path)
    taken = set(found.files)
    first = []
    for name in dict.fromkeys(told):
        named = _relative(name, places)
        if named in taken:
            first.append(named)
        elif named is None or not any(item["path"] == named for item in found.left_out):
            found.leave_out(name, "was announced, and is no file of the output directory")
    found.files = list(dict.fromkeys([*first, *sorted(taken)]))
    return found


def entries(output: Path, found: Artifacts) -> Iterator[tuple[str, os.stat_result]]:
    """Every entry that is no directory, without following a link, not even in the place of `output`; `found`
    is told what cannot be looked at."""
    if output.is_symlink() or not output.is_dir():
        found.leave_out(output.name, "is no directory any more")
        return
    seen = 0

    def closed(error: OSError) -> None:
        found.leave_out(str(error.filename), "cannot be read")

    for directory, directories, files, descriptor in os.fwalk(output, follow_symlinks=False, onerror=closed):
        above = Path(directory).relative_to(output)
        if len(above.parts) == MAX_DEPTH and directories:  # the walk needs the stack for each further one
            found.leave_out(str(above), f"holds directories that are more than {MAX_DEPTH} deep")
            directories.clear()
        links = [name for name in directories if not _is_directory(name, descriptor)]
        for name in sorted([*files, *links]):
            seen += 1
            if seen > MAX_ENTRIES:
                found.leave_out(output.name, f"holds more than {MAX_ENTRIES:,} entries")
                return
            try:
                state = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:
                continue  # it went away
            yield str(above / name), state


def _is_directory(name: str, descriptor: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode)
    except OSError:
        return True  # it went away, and the walk passes over it


def _refusal(path: str, state: os.stat_result, count: int, total: int) -> str:
    """Why an entry is no artifact; empty where it is one."""
    if stat.S_ISLNK(state.st_mode):
        return "is a link"
    if not stat.S_ISREG(state.st_mode):
        return "is no regular file"
    if state.st_nlink > 1:
        return "is a hard link"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "has a name that is no text"
    return too_much(state.st_size, count, total)


def too_much(size: int, count: int, total: int) -> str:
    """Which limit a file of that size is over, after `count` files of `total` bytes; empty where none."""
    if size > MAX_FILE_BYTES:
        return f"has more than {MAX_FILE_BYTES // MIB} MiB"
    if count >= MAX_FILES:
        return f"is one more than {MAX_FILES:,} files"
    if total + size > MAX_TOTAL_BYTES:
        return f"would make it more than {MAX_TOTAL_BYTES // MIB} MiB in all"
    return ""


def _relative(name: str, places: Sequence[str]) -> str | None:
    """A path relative to the output directory, or None where it is outside."""
    if not posixpath.isabs(name):
        output, work = places
        inside = posixpath.normpath(posixpath.join(work, name))
        name = inside if inside.startswith(f"{output}/") else posixpath.join(output, name)
    path = posixpath.relpath(posixpath.normpath(name), places[0])
    return None if path in (".", "..") or path.startswith("../") else path
