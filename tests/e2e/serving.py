"""Agents in directories of their own, served by `agentengine a2a serve` in processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import QUESTION, Run, Spawn, ended

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> Path:
    """A copy of an example in the current directory."""
    return Path(
        shutil.copytree(EXAMPLES / name, name, ignore=shutil.ignore_patterns(".agentengine", "__py*"))
    )


@contextmanager
def serving(directory: Path, *options: str, **environ: str) -> Iterator[str]:
    """The URL of the agent in a directory."""
    command = [sys.executable, "-W", "ignore", "-m", "agentengine_cli", "a2a", "serve", str(directory)]
    log = Path(f"{directory.name}.log")
    with log.open("a") as stderr:
        server = subprocess.Popen(
            [*command, "--port", "0", "-o", "json", *options],
            stdout=subprocess.PIPE, stderr=stderr, text=True, env={**os.environ, **environ},
        )  # fmt: skip
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line, log.read_text()
            yield json.loads(line)["url"]
        finally:
            server.terminate()
            try:
                server.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
                raise


def call(agentengine: Run, url: str, *arguments: str) -> dict[str, Any]:
    """The task that a call ends with."""
    done = agentengine("a2a", "call", "-a", url, *arguments, "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    task: dict[str, Any] = json.loads(done.stdout)["task"]
    return task


def state(task: dict[str, Any]) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_").lower()


def said(task: dict[str, Any]) -> str:
    """The text of a task's answer."""
    return "".join(
        part.get("text", "")
        for artifact in task.get("artifacts", [])
        if artifact.get("name") != "reasoning"
        for part in artifact["parts"]
    )


def request_of(task: dict[str, Any]) -> dict[str, Any]:
    """The approval request that a task waits for."""
    assert state(task) == "input_required", task
    (request,) = (
        part["data"]["approval_request"]
        for part in task["status"]["message"]["parts"]
        if "approval_request" in part.get("data", {})
    )
    assert isinstance(request, dict)
    return request


def finished(agentengine: Run, url: str, task_id: str) -> dict[str, Any]:
    """A task once it has ended, or asks."""
    done = agentengine("a2a", "status", task_id, "-a", url, "--wait", "--timeout", "20s", "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    task: dict[str, Any] = json.loads(done.stdout)
    return task


def decide(terminal: Spawn, request_id: str, key: str = "y") -> None:
    """A person answers a request at a terminal of their own."""
    child = terminal("approvals", "approve", request_id)
    child.expect(QUESTION)
    child.send(key)
    ended(child)
