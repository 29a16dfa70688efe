"""The files of a project: where its configuration is, and how a stranger's file is read."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from ksadk.errors import KsadkError
from ksadk.sessions import STATE_DIR

CONFIG_NAMES = ("agentengine.yaml", "ksadk.yaml")
PROTECTED_PATHS = (STATE_DIR, *CONFIG_NAMES, ".git/hooks", ".git/config", ".git/commondir")
"""What decides which programs run: no tool, and no command in a sandbox, changes what is there. git takes its
configuration from where commondir leads."""

MAX_FILE_BYTES = 1024 * 1024


class ProjectFileError(KsadkError, ValueError):
    """A project's file that cannot be read. The message begins with the file, and its line where known."""

    code = "invalid_project_file"

    def __init__(self, path: Path, line: int | None, message: str, *, hint: str | None = None) -> None:
        where = f"{path}:{line}" if line else f"{path}"
        super().__init__(f"{where}: {message}", hint=hint)


def find_config(directory: Path) -> Path | None:
    """The project's `agentengine.yaml`, else its `ksadk.yaml`, else None."""
    paths = (directory / name for name in CONFIG_NAMES)
    return next((path for path in paths if is_file(path)), None)


def has_kind(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether what a path leads to is of a kind: `stat.S_ISREG`, say.

    False where nothing is there; `OSError` where the system does not tell.
    """
    try:
        return kind(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except ValueError:  # a character that no path has
        return False


def is_file(path: Path) -> bool:
    """Whether a project's file is there, which a directory that may not be searched does not tell."""
    return _looked_at(path, stat.S_ISREG)


def is_directory(path: Path) -> bool:
    """Whether a project's directory is there."""
    return _looked_at(path, stat.S_ISDIR)


def _looked_at(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        return has_kind(path, kind)
    except OSError as error:
        raise ProjectFileError(path, None, f"cannot be read: {error.strerror}") from error


def read_file(path: Path) -> bytes:
    """The bytes of a project's file of at most 1 MiB."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ProjectFileError(path, None, f"cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ProjectFileError(path, None, "is larger than 1 MiB")
    return data


def read_text(path: Path) -> str:
    """The UTF-8 text of a project's file; a byte order mark is left out."""
    return text_of(path, read_file(path))


def text_of(path: Path, data: bytes) -> str:
    """The text in the bytes of a file; a byte order mark is left out."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ProjectFileError(path, line, "is not UTF-8 text", hint="Save it as UTF-8.") from error
