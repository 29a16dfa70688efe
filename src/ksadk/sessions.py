"""Where a session keeps its files."""

from __future__ import annotations

from pathlib import Path

from ksadk.runtime_context import get_current_account_id, get_current_project
from ksadk.settings import Settings


def project_dir(settings: Settings | None = None) -> Path:
    """The project that this process works for: `KSADK_PROJECT_DIR`, else the current directory."""
    chosen = get_current_project()
    if chosen is not None:
        return chosen
    settings = settings or Settings.from_env()
    return (settings.project_dir or Path.cwd()).absolute()


def resolve_local_session_dir(settings: Settings | None = None) -> Path:
    """The directory of the session's files: `AGENTENGINE_UI_DIR`, else `.agentengine/ui` in the project.

    With an account set, a directory of its own below that. Nothing is created.
    """
    settings = settings or Settings.from_env()
    base = (settings.ui_dir or project_dir(settings) / ".agentengine" / "ui").absolute()
    account = get_current_account_id()
    if not account:
        return base
    import hashlib  # OpenSSL, which most calls never need

    return base / "accounts" / hashlib.sha256(account.encode("utf-8", "surrogatepass")).hexdigest()[:32]
