"""What `--debug` prints on stderr: what this run stands on, and the traceback of whatever went wrong.

No secret is in it: the values of secret settings, and of other variables whose name says that they are
secret, are replaced wherever they would be printed.
"""

from __future__ import annotations

import platform
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

from agentengine_cli import output
from ksadk.errors import watcher
from ksadk.masking import masker
from ksadk.settings import UNREAD, Settings

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


def _say(text: str) -> None:
    for line in masker(_environ.get())(text).split("\n"):
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
