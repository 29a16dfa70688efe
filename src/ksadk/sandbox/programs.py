"""The programs of this machine that sandboxes are made and looked after with.

They run outside, so none is taken from where a command inside may have put it: a workspace, or an environment
of Python, whose directory of programs leads PATH while it is active.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ksadk.runtime_context import get_current_workspace_root
from ksadk.sessions import resolve_local_session_dir
from ksadk.settings import Settings

_SYSTEM = ("/usr/bin", "/bin", "/usr/sbin", "/sbin")


def search_path() -> list[str]:
    """The directories of PATH that programs are taken from."""
    root = os.path.realpath(get_current_workspace_root() or resolve_local_session_dir() / "workspace")
    given = Settings.from_env().given().get("PATH", os.defpath).split(":")
    return [directory for directory in given if _is_ours(directory, root)]


def find_program(name: str, *more: str) -> str | None:
    """A program on that path, or in one of `more` directories; None where it is in none. Starts nothing."""
    return shutil.which(name, path=":".join((*search_path(), *more)) or os.devnull)


def system_program(name: str) -> str:
    """A program that every system has: the system's own."""
    return shutil.which(name, path=":".join(_SYSTEM)) or find_program(name) or f"{_SYSTEM[0]}/{name}"


def _is_ours(directory: str, root: str) -> bool:
    if not directory.startswith("/"):  # from wherever this program was started, as the empty one is, too
        return False
    real = Path(os.path.realpath(directory))
    return not real.is_relative_to(root) and not (real.parent / "pyvenv.cfg").exists()
