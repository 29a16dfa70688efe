"""What tests share beside fixtures."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pexpect

Run = Callable[..., subprocess.CompletedProcess[str]]
"""`agentengine("tools", "list", stdin="...", SOME_VARIABLE="...")`, in a process of its own."""

Spawn = Callable[..., "pexpect.spawn[str]"]
"""The same at a terminal of its own."""

Asked = Callable[..., dict[str, Any]]
"""A call that nobody is there to approve; returns the request of its envelope."""

QUESTION = "approve\\? "


def ended(child: pexpect.spawn[str]) -> tuple[int, str]:
    """The exit status of a program at a terminal, and what it printed since it was last looked at."""
    child.expect(pexpect.EOF)
    printed = child.before or ""
    child.close()
    return child.exitstatus, printed.replace("\r\n", "\n")
