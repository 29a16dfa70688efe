"""No command makes a connection, looks a name up, or starts a program that would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WATCHED = """
import sys

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.gethostbyname"):
        sys.stderr.write(f"REACHED OUT: {event} {arguments}\\n")
        raise SystemExit(99)

sys.addaudithook(watch)
from agentengine_cli.main import run
sys.exit(run(sys.argv[1:]))
"""
COMMANDS = [
    "--help",
    "--version",
    "tools list",
    "tools search read",
    "tools describe web_fetch",
    "tools call component_status",
    "tools call workspace_status",
    "tools call list_skills",
    "tools call sandbox_status",
    "workspace status",
    "workspace write a.txt --content x --yes",
    "workspace read a.txt",
    "workspace search x",
    "approvals list --all",
    "a2a card . --name a --url https://agent.example.com",
    "a2a card --check card.json",
    "init new",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_reaches_out_to_nobody(command: str) -> None:
    Path("card.json").write_text("{}")
    ran = subprocess.run(
        [sys.executable, "-c", WATCHED, *command.split()], capture_output=True, text=True, timeout=60
    )
    assert "REACHED OUT" not in ran.stderr
    assert ran.returncode in (0, 1, 8), ran.stderr


def test_the_watch_notices_a_connection() -> None:
    reaches = WATCHED.replace("from agentengine_cli.main import run", "import socket").replace(
        "sys.exit(run(sys.argv[1:]))", "socket.create_connection(('127.0.0.1', 9))"
    )
    ran = subprocess.run([sys.executable, "-c", reaches], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 99
