"""What tests share beside fixtures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
"""`agentengine("tools", "list", stdin="...", SOME_VARIABLE="...")`, in a process of its own."""

Spawn = Callable[..., "pexpect.spawn[str]"]
"""The same at a terminal of its own."""

Asked = Callable[..., dict[str, Any]]
"""A call that nobody is there to approve; returns the request of its envelope."""

QUESTION = "approve\\? "

EDIT = ("workspace", "edit", "f.txt", "--old", "two", "--new", "2", "--root", ".")
"""A risky call on the fixture `file`, which holds BEFORE, and AFTER once it has run."""
BEFORE, AFTER = "one\ntwo\nthree\n", "one\n2\nthree\n"

TO_ZWEI = 'file.write_text(file.read_text().replace(\'"new_text": "2"\', \'"new_text": "zwei"\'))'
"""What an `editor` does to the arguments of EDIT, which then leave EDITED."""
EDITED = "one\nzwei\nthree\n"


def editor(script: str) -> str:
    """The VISUAL of an editor that runs a line of Python, in which `file` is the path of what it edits."""
    program = Path("editor.py").absolute()
    program.write_text(f"import pathlib, sys\nfile = pathlib.Path(sys.argv[1])\n{script}\n")
    return f"{sys.executable} {program}"


def ended(child: pexpect.spawn[str]) -> tuple[int, str]:
    """The exit status of a program at a terminal, and what it printed since it was last looked at."""
    child.expect(pexpect.EOF)
    printed = child.before or ""
    child.close()
    return child.exitstatus, printed.replace("\r\n", "\n")


def unprivileged() -> list[str]:
    """What to put before a command so that file modes hold for it, though root runs the tests."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root reads everything, and there is no setpriv to take that from it")
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
