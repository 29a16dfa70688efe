"""What `--debug` prints on stderr: what this run stands on, and the traceback of whatever went wrong.

No secret is in it: the values of secret settings, and of other variables whose name says that they are
secret, are replaced wherever they would be printed.
"""

from __future__ import annotations

import json
import platform
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from agentengine_cli import output
from ksadk.errors import watcher
from ksadk.settings import UNREAD, Settings

MASK = "<secret>"
SHORTEST_PART = 4
"""A value is replaced whatever its length; a part of it, such as a password in a URL, from here on."""

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|DSN|COOKIE|AUTH", re.IGNORECASE)
_environ: ContextVar[Mapping[str, str]] = ContextVar("debug_environ")
"""The environment of this run. It is kept, since a file's variables are gone when an error is shown."""


def start() -> None:
    """Print the errors of this run from here on, also those that become a tool's result."""
    _environ.set(dict(Settings.from_env().given()))
    watcher.set(trace)


def tell_surroundings() -> None:
    """Print what this run stands on."""
    _environ.set(dict(Settings.from_env().given()))
    for line in _facts():
        _say(line)


def trace(error: BaseException) -> None:
    """Print the traceback of an error, with those of its causes."""
    _say("".join(traceback.format_exception(error)).rstrip("\n"))


def tell_end(status: int, seconds: float) -> None:
    """Print how the run ended."""
    _say(f"exit status {status} after {1000 * seconds:.0f} ms")


def masked(text: str, environ: Mapping[str, str]) -> str:
    """A text without the secrets of an environment."""
    secrets = sorted(_secrets(environ), key=len, reverse=True)
    return re.sub("|".join(map(re.escape, secrets)), MASK, text) if secrets else text


def _say(text: str) -> None:
    for line in masked(output.without_user_info(text), _environ.get()).split("\n"):
        output.say(f"debug: {output.visible(line)}")


def _facts() -> Iterator[str]:
    from importlib.metadata import version

    yield f"agentengine {version('agentengine-cli')}, Python {platform.python_version()}, {sys.platform}"
    yield f"run by {sys.executable}"
    settings = Settings.from_env()
    for variable in Settings.variables():
        name, file = settings.origin(variable.field)
        if name:
            value = "is set" if variable.secret else f"is {settings.given()[name]!r}"
            unread = ", which this release does not read" if variable.field in UNREAD else ""
            yield f"{name} {value} ({file or 'environment'}){unread}"


def _secrets(environ: Mapping[str, str]) -> set[str]:
    """Every text that must not be shown, also as `repr`, JSON and URLs write it."""
    known = {name: variable.secret for variable in Settings.variables() for name in variable.names}
    found: set[str] = set()
    for name, value in environ.items():
        if value.strip() and known.get(name, bool(_SECRET_NAME.search(name))):
            found |= {value, value.strip()}
            found |= {part for part in _parts(value.strip()) if len(part) >= SHORTEST_PART}
    written = (lambda text: repr(text)[1:-1], lambda text: json.dumps(text)[1:-1], quote, unquote)
    return found | {way(text) for text in found for way in written}


def _parts(value: str) -> Iterator[str]:
    """What is secret by itself inside a value: its lines, the texts of JSON, the password of a URL."""
    yield from value.splitlines()
    try:
        yield from _texts(json.loads(value))
    except (ValueError, RecursionError):
        pass
    try:
        address = urlsplit(value)
        yield from (part for part in (address.password, address.username) if part)
    except ValueError:
        pass


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
