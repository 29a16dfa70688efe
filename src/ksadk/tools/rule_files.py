"""Which rules hold now: the user's `rules.yaml`, and those of the current project's `agentengine.yaml`.

Every call asks, so what has not changed is not read again, and where no file is nothing is imported.
"""

from __future__ import annotations

import functools
import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from ksadk.errors import KsadkError
from ksadk.project_files import CONFIG_NAMES, MAX_FILE_BYTES
from ksadk.runtime_context import get_current_project
from ksadk.settings import Settings
from ksadk.tools.registry import builtin_tools

if TYPE_CHECKING:
    from ksadk.tools.rule_reader import InvalidRules, RuleFile, Source
    from ksadk.tools.rules import Rule

FILE_NAME = "rules.yaml"
YOUNG_SECONDS = 0.1
"""A file that changed less long ago is read again: its next change could leave its stamp as it is."""


class Stamp(NamedTuple):
    """What tells one state of a file from another."""

    path: str
    device: int
    inode: int
    size: int
    changed: int
    """Nanoseconds: of the content, and below, of the file's entry."""
    touched: int


def standing_rules() -> tuple[Rule, ...]:
    """The rules that hold now, those that have expired among them.

    Raises `InvalidRules` where a file that is there cannot be read.
    """
    settings = Settings.from_env()
    user = _stamp(f"{settings.config_dir_text()}/{FILE_NAME}", must_be_file=True)
    project = _project_stamp(settings)
    if user is None and project is None:
        return ()
    files = [_read(user, "user")] if user else []
    if project is None or not (found := _read(project, "project")).entries:
        return _standing(tuple(files), trusted=False)
    return _standing((*files, found), trusted=_trusts(found))


def rule_files() -> list[tuple[RuleFile | InvalidRules, bool]]:
    """Each file of rules that is there, or why it cannot be read; and whether its allow rules count."""
    found: list[tuple[RuleFile | InvalidRules, bool]] = []
    sources: tuple[tuple[Source, str], ...] = (("user", user_file()), ("project", project_file() or ""))
    for source, path in sources:
        from ksadk.tools.rule_reader import InvalidRules

        try:
            stamp = _stamp(path, must_be_file=source == "user") if path else None
            if stamp is not None:
                file = _read(stamp, source)
                found.append((file, source == "user" or _trusts(file)))
        except InvalidRules as error:
            found.append((error, False))
    return found


def any_file() -> bool:
    """Whether there is a file of rules, or one that might hold some."""
    return os.path.lexists(user_file()) or project_file() is not None


def user_file() -> str:
    """The path of the user's own rules."""
    return f"{Settings.from_env().config_dir_text()}/{FILE_NAME}"


def project_file() -> str | None:
    """The path of the current project's configuration, or None where there is none."""
    stamp = _project_stamp(Settings.from_env())
    return stamp.path if stamp else None


def project_text() -> str:
    """The current project's directory, without links; empty where the current directory is gone."""
    directory = _project_directory(Settings.from_env())
    return os.path.realpath(directory) if directory else ""


def read_bytes(path: str) -> bytes:
    """The bytes of a file of rules, 1 MiB at most; raises `InvalidRules`."""
    from ksadk.tools.rule_reader import MEND, InvalidRules

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would make it wait
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _unreadable(path, "it is no file")
        with os.fdopen(descriptor, "rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidRules(f"{path}: cannot be read: {error.strerror}", hint=MEND) from error
    if len(data) > MAX_FILE_BYTES:
        raise InvalidRules(f"{path}: is larger than 1 MiB", hint=MEND)
    return data


def _project_directory(settings: Settings) -> str:
    chosen = get_current_project() or settings.project_dir
    if chosen is not None:
        return str(chosen)
    try:
        return os.getcwd()  # noqa: PTH109  # text: a Path costs as much as the rest of this
    except FileNotFoundError:
        return ""


def _project_stamp(settings: Settings) -> Stamp | None:
    directory = _project_directory(settings)
    if not directory:
        return None
    for name in CONFIG_NAMES:
        path = f"{directory}/{name}"
        if os.access(path, os.F_OK):  # half the cost of a stat that raises, and most projects have none
            stamp = _stamp(path, must_be_file=False)
            if stamp is not None:
                return stamp
    return None


def _stamp(path: str, *, must_be_file: bool) -> Stamp | None:
    try:
        status = os.stat(path)  # noqa: PTH116  # text: see `_project_directory`
    except (FileNotFoundError, NotADirectoryError) as error:
        if must_be_file and os.path.islink(path):  # noqa: PTH114  # text: see `_project_directory`
            raise _unreadable(path, "it is a link that leads nowhere") from error  # rules were meant to hold
        return None
    except OSError as error:
        raise _unreadable(path, str(error.strerror)) from error
    if not stat.S_ISREG(status.st_mode):
        if must_be_file:
            raise _unreadable(path, "it is no file")
        return None
    return Stamp(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _unreadable(path: str, words: str) -> KsadkError:
    from ksadk.tools.rule_reader import MEND, InvalidRules

    return InvalidRules(f"{path}: cannot be read: {words}", hint=MEND)


def _read(stamp: Stamp, source: Source) -> RuleFile:
    tools = sum(1 for _ in builtin_tools())  # the self-tests of rules are about those that are there
    if time.time_ns() - max(stamp.changed, stamp.touched) < YOUNG_SECONDS * 1e9:
        return _read_anew.__wrapped__(stamp, source, tools)
    return _read_anew(stamp, source, tools)


@functools.lru_cache(maxsize=64)
def _read_anew(stamp: Stamp, source: Source, tools: int) -> RuleFile:  # noqa: ARG001  # part of the key
    from ksadk.tools.rule_reader import read_rules

    return read_rules(stamp.path, read_bytes(stamp.path), source)


@functools.lru_cache(maxsize=64)
def _standing(files: tuple[RuleFile, ...], *, trusted: bool) -> tuple[Rule, ...]:
    return tuple(rule for file in files for rule in file.standing(trusted=trusted))


def _trusts(file: RuleFile) -> bool:
    if all(entry.verdict != "allow" for entry in file.entries):
        return False  # there is nothing that trust would change
    from ksadk.tools.trust import is_trusted

    return is_trusted(os.path.dirname(file.path), file.digest)  # noqa: PTH120  # text in, text out
