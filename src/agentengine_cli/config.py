"""`agentengine config`: the settings, and where each comes from."""

from __future__ import annotations

from typing import Any

from agentengine_cli import output
from agentengine_cli.base import APPROVAL_MODE, Command, new_group
from ksadk.errors import SettingsError
from ksadk.masking import without_user_info
from ksadk.settings import UNREAD, Settings, Variable

app = new_group("Show the settings and where each comes from.")


@app.callback()
def group() -> None:
    """Show the settings and where each comes from."""


@app.command("show", cls=Command)
def show() -> None:
    """Show every setting: its value, and the variable or file that it comes from.

    Of a secret, only whether it is set. A value that cannot be used is shown as bad, with the reason.

    \b
    Examples:
      agentengine config show
      agentengine --env-file .env config show --json
    """
    settings = Settings.from_env()
    shown = [setting(settings, variable) for variable in Settings.variables()]
    output.show({"ok": True, "settings": shown}, lambda value: _table(value["settings"]))


def setting(settings: Settings, variable: Variable[Any]) -> dict[str, Any]:
    """One setting as `--json` prints it; `value` is null for what is secret, bad or not set."""
    name, file = settings.origin(variable.field)
    error = None
    value: Any = None
    try:
        value = getattr(settings, variable.field)
    except SettingsError as bad:
        error = without_user_info(bad.message)
    if variable.field == "tool_approval_mode" and not name:
        value = APPROVAL_MODE
    return {
        "name": name or variable.names[0],
        "names": list(variable.names),
        "value": None if variable.secret or error else _plain(value),
        "secret": variable.secret,
        "set": bool(name),
        "origin": ("env-file" if file else "environment") if name else "default",
        "file": file or None,
        "error": error,
        "read": variable.field not in UNREAD,
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it, without the user and password of a URL."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return without_user_info(str(value))


def _table(settings: list[dict[str, Any]]) -> str:
    rows = [("NAME", "ORIGIN", "VALUE")]
    rows += [(s["name"], _origin(s), output.visible(_value(s))) for s in settings]
    unread = [s["name"] for s in settings if s["set"] and not s["read"]]
    more = f"\nThis release does not read {', '.join(unread)}.\n" if unread else ""
    return output.columns(rows, width=output.terminal_width()) + more


def _origin(shown: dict[str, Any]) -> str:
    return f"--env-file {output.visible(shown['file'])}" if shown["file"] else str(shown["origin"])


def _value(shown: dict[str, Any]) -> str:
    value = shown["value"]
    if shown["error"]:
        return f"bad: {shown['error']}"
    if shown["secret"]:
        return "set" if shown["set"] else "not set"
    if value is None or value in ("", []):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
