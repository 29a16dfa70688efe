"""Real terminals and real processes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from support import Asked, Run, Spawn


@pytest.fixture
def terminal() -> Iterator[Spawn]:
    """Starts the program at a terminal of its own: `terminal("workspace", "edit", ...)`."""
    started: list[pexpect.spawn[str]] = []

    def spawn(*arguments: str, program: list[str] | None = None, **environ: str) -> pexpect.spawn[str]:
        command, *first = program or [sys.executable, "-m", "agentengine_cli"]
        child = pexpect.spawn(
            command,
            [*first, *arguments],
            env={**os.environ, "TERM": "xterm", **environ},
            encoding="utf-8",
            codec_errors="replace",
            dimensions=(50, 120),
            timeout=30,
        )
        started.append(child)
        return child

    yield spawn
    for child in started:
        child.close(force=True)


@pytest.fixture
def asked(agentengine: Run) -> Asked:
    """Makes a call that nobody is there to approve; returns the request of its envelope."""

    def ask(*arguments: str) -> dict[str, Any]:
        call = agentengine(*arguments)
        assert call.returncode == 6, call.stderr
        request: dict[str, Any] = json.loads(call.stdout)["approval_request"]
        return request

    return ask


@pytest.fixture
def file(agentengine: Run) -> Path:
    """f.txt, which was read, in the current directory."""
    path = Path("f.txt")
    path.write_text("one\ntwo\nthree\n")
    assert agentengine("workspace", "read", "f.txt", "--root", ".").returncode == 0
    return path
