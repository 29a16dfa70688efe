"""`agentengine a2a serve`, or another command that serves, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Serving:
    """What is served: where it is, its process, and what the process has said."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, self.said()
        self.told: dict[str, Any] = json.loads(line)
        self.url: str = self.told["url"]

    def said(self) -> str:
        """What is on stderr."""
        return self.log.read_text("utf-8")

    def end(self, number: int) -> int:
        """Send a signal; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(20)


@contextmanager
def serving(
    *arguments: str,
    log: Path,
    port: str = "0",
    cwd: Path | None = None,
    group: str = "a2a",
    verb: str = "serve",
    **environ: str,
) -> Iterator[Serving]:
    """Serve until the block ends."""
    command = [sys.executable, "-m", "agentengine_cli", group, verb, *arguments]
    with log.open("a", encoding="utf-8") as stderr:
        process = subprocess.Popen(
            [*command, "--port", port, "-o", "json"],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=cwd,
            env={**os.environ, **environ},
        )
    try:
        yield Serving(process, log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            finally:
                process.kill()
        assert process.stdout is not None
        process.stdout.close()
