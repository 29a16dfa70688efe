"""What tests share beside fixtures."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """A disk of 1 MiB at a directory. Skips the test where none can be mounted."""
    place.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a disk can be mounted by root only, and not in every container")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Fill a disk to the last byte; returns the file that does."""
    with (place / "filling").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC
    return place / "filling"
