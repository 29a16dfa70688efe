"""Whether a person can be asked at this terminal, and which terminal session it is."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import TextIO

from ksadk.errors import KsadkError
from ksadk.settings import Settings


def at_terminal() -> bool:
    """Whether a person can be asked here: stdin and stderr are terminals, and no tool started this."""
    return _is_terminal(sys.stdin) and _is_terminal(sys.stderr) and not Settings.from_env().inside_tool


def need_a_person(doing: str, hint: str = "Run it in a terminal of your own.") -> None:
    """Raise unless a person does this: at a terminal, and in nothing that a tool started."""
    if Settings.from_env().inside_tool:
        raise KsadkError(
            f"{doing} is refused in what a tool started",
            code="approval_inside_tool",
            hint="A person has to: run it in a terminal of your own.",
        )
    if not at_terminal():
        raise KsadkError(f"{doing} needs a terminal", code="no_terminal", hint=hint)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()  # None: it was closed before the program began


def session_key() -> str:
    """What "the session" is: the terminal, its session leader and when that process started.

    Empty where that cannot be told, and then nothing is approved for a session.
    """
    try:
        leader = os.getsid(0)
        terminal = os.ttyname(sys.stdin.fileno())
        started = _start_of(leader)
    except (OSError, ValueError, AttributeError):
        return ""
    return hashlib.sha256(f"{terminal}\0{leader}\0{started}".encode()).hexdigest() if started else ""


def _start_of(process: int) -> str:
    stat = Path(f"/proc/{process}/stat")
    if stat.exists():
        # The name, in parentheses, may hold spaces; the start time is the 20th field behind it.
        return stat.read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    import subprocess

    told = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(process)], capture_output=True, text=True, check=False
    )
    return told.stdout.strip()
