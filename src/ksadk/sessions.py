"""Where a session keeps its files."""

from __future__ import annotations

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


def make_session_dir(directory: Path, mode: int = 0o777) -> None:
    """Make a directory for a session's files, with those above it; `mode` is for it alone.

    A `.agentengine` that is made for it is kept out of version control by a `.gitignore` of its own.
    """
    state = next((above for above in (directory, *directory.parents) if above.name == STATE_DIR), None)
    new = state is not None and not state.exists()
    directory.mkdir(mode=mode, parents=True, exist_ok=True)
    if state is not None and new:
        try:
            with (state / ".gitignore").open("x", encoding="utf-8") as file:
                file.write("*\n")
        except FileExistsError:
            pass  # another process was there first
