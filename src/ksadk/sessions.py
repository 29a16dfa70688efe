"""Where a session keeps its files."""

from __future__ import annotations

import os
from pathlib import Path

from ksadk.errors import KsadkError
from ksadk.runtime_context import get_current_account_id, get_current_project
from ksadk.settings import Settings

STATE_DIR = ".agentengine"
"""Where a project keeps what this program writes for itself."""


def project_dir(settings: Settings | None = None) -> Path:
    """The project worked for: the one in scope, else `KSADK_PROJECT_DIR`, else the current directory."""
    chosen = get_current_project()
    if chosen is not None:
        return chosen
    settings = settings or Settings.from_env()
    try:
        return (settings.project_dir or Path.cwd()).absolute()
    except FileNotFoundError as error:
        raise KsadkError(
            "the current directory is not there any more",
            code="no_current_directory",
            hint="Go to another one, or set KSADK_PROJECT_DIR.",
        ) from error


def resolve_local_session_dir(settings: Settings | None = None) -> Path:
    """The directory of the session's files: `AGENTENGINE_UI_DIR`, else `.agentengine/ui` in the project.

    With an account set, a directory of its own below that. Nothing is created.
    """
    settings = settings or Settings.from_env()
    base = (settings.ui_dir or project_dir(settings) / STATE_DIR / "ui").absolute()
    account = get_current_account_id()
    if not account:
        return base
    import hashlib  # OpenSSL, which most calls never need

    return base / "accounts" / hashlib.sha256(account.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def check_session_dir(directory: Path) -> None:
    """Raise `workspace_outside_project` where a link puts a session's directory in another place.

    It stays in `AGENTENGINE_UI_DIR` if that is set, else in the project: a project's files may be anybody's,
    and a link among them is nobody's choice. A directory that is not below these names is not judged.
    """
    settings = Settings.from_env()
    base = settings.ui_dir or project_dir(settings)
    sessions = (settings.ui_dir or base / STATE_DIR).absolute()
    if not directory.is_relative_to(sessions):
        return
    real = Path(os.path.realpath(directory))
    if not real.is_relative_to(os.path.realpath(base)):
        raise KsadkError(
            f"{directory} is to hold a session's files, but a link puts it outside of {base}: at {real}",
            code="workspace_outside_project",
            hint="Delete the link if you did not make it, or name a directory in AGENTENGINE_UI_DIR.",
        )


def make_session_dir(directory: Path, mode: int = 0o777) -> None:
    """Make a directory for a session's files, with those above it; `mode` is for it alone.

    A `.agentengine` that is made for it is kept out of version control by a `.gitignore` of its own. Raises
    as `check_session_dir` does.
    """
    check_session_dir(directory)
    state = next((above for above in (directory, *directory.parents) if above.name == STATE_DIR), None)
    new = state is not None and not state.exists()
    directory.mkdir(mode=mode, parents=True, exist_ok=True)
    if state is not None and new:
        try:
            with (state / ".gitignore").open("x", encoding="utf-8") as file:
                file.write("*\n")
        except FileExistsError:
            pass  # another process was there first
