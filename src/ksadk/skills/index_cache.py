"""What a listing tells of each SKILL.md, kept so that thousands need not be read again.

A record holds for the file that it was made of, told by inode, size, and the times of its content and of its
inode. Permissions are in no record: they are read from the skill itself when it is loaded.
"""

from __future__ import annotations

import json
import os
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ksadk.settings import Settings
from ksadk.whole_files import replace_file

VERSION = 1
MAX_BYTES = 64 * 1024 * 1024
RACY_NS = 2_000_000_000
"""A file that changed so shortly before the index was begun may change again and keep its times."""

Identity = list[int]
"""Inode, size, modification and change time in nanoseconds."""


def index_dir(settings: Settings) -> Path:
    """Where indexes are kept: in the user's state, where no project writes."""
    return settings.state_dir() / "skills"


def identity(status: os.stat_result) -> Identity:
    """By what a file that changed is told from itself as it was."""
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


class Index:
    """The records of one source, by directory. Nothing is raised: an index that fails only costs time."""

    def __init__(self, cache: Path | None, source: str) -> None:
        """Read the index of a source; one that is damaged, or that others may write, counts as empty."""
        self._source = source
        name = f"index-{zlib.crc32(os.fsencode(source)):08x}.json"
        self._path = cache / name if cache is not None else None
        self._begun = time.time_ns()
        self._written, self._old = self._read()
        self._new: dict[str, tuple[Identity, list[Any]]] = {}
        self._changed = False

    def get(self, directory: str, status: os.stat_result) -> list[Any] | None:
        """The record of a directory's SKILL.md as it is now, if there is one."""
        found = self._old.get(directory)
        now = identity(status)
        if not isinstance(found, list) or len(found) != 2 or found[0] != now or self._is_racy(now):
            return None
        record = found[1]
        if not isinstance(record, list):
            return None
        self._new[directory] = now, record
        return record

    def remembered(self) -> Iterator[tuple[str, list[Any]]]:
        """The directories and their records as they were when the index was written."""
        for directory, found in self._old.items():
            if isinstance(found, list) and len(found) == 2 and isinstance(found[1], list):
                yield directory, found[1]

    def put(self, directory: str, status: os.stat_result, record: list[Any]) -> None:
        """Keep a record that JSON can hold. `status` is of before the file was read."""
        self._new[directory] = identity(status), record
        self._changed = True

    def write(self) -> None:
        """Keep what was put and what was got since; nothing is written where nothing changed."""
        if self._path is None or not (self._changed or len(self._new) != len(self._old)):
            return
        document = {"version": VERSION, "source": self._source, "written": self._begun, "skills": self._new}
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._path, json.dumps(document, separators=(",", ":")).encode())

    def _is_racy(self, now: Identity) -> bool:
        return max(now[2], now[3]) > self._written - RACY_NS

    def _read(self) -> tuple[int, dict[str, Any]]:
        """When the index was begun, and its records."""
        if self._path is None:
            return 0, {}
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as stream:  # noqa: PTH123  # a descriptor
                status = os.fstat(descriptor)
                mine = status.st_uid == os.geteuid() and not status.st_mode & 0o022
                if not (mine and stat.S_ISREG(status.st_mode) and status.st_size <= MAX_BYTES):
                    return 0, {}
                document = json.loads(stream.read(MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return 0, {}
        if not isinstance(document, dict) or document.get("version") != VERSION:
            return 0, {}
        written, skills = document.get("written"), document.get("skills")
        if document.get("source") != self._source or type(written) is not int or not isinstance(skills, dict):
            return 0, {}
        return written, skills
