"""A Space in two terminals: a center with two agents in one, the commands that reach them in the other."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from a2a_process import Serving, serving
from space_wire import AGENT, SPACE, TASK, WORKS, changed, configuration, http, platform
from support import Run, Spawn

EXPORTS = re.compile(r"^  (export .*)$", re.MULTILINE)


@pytest.fixture
def center(tmp_path: Path) -> Iterator[Serving]:
    """`agentengine a2a center demo`."""
    with serving("demo", verb="center", log=tmp_path / "center.log", TMPDIR=str(tmp_path)) as it:
        yield it


@pytest.fixture
def there(center: Serving, monkeypatch: pytest.MonkeyPatch) -> Serving:
    """The center, with what it says to export exported in this terminal."""
    shell = "\n".join([*EXPORTS.findall(center.said()), "env -0"])
    printed = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True, env={}).stdout
    for line in printed.split("\0"):
        if line.startswith("KSADK_"):
            monkeypatch.setenv(*line.split("=", 1))
    return center


def value(text: str, label: str) -> str:
    found = re.search(rf"^{label}: (.*)$", text, re.MULTILINE)
    assert found, text
    return found[1]


def as_json(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_documents_four_commands(there: Serving, agentengine: Run) -> None:
    found = agentengine("a2a", "discover", "--space-id", "space-demo", "--skill", "research")
    assert (found.returncode, found.stderr) == (0, "")
    agent_id = value(found.stdout, "Agent")
    called = agentengine("a2a", "call", "--space-id", "space-demo", agent_id, "总结本周研究")
    assert called.returncode == 0, called.stderr
    assert value(called.stdout, "Status") == "input_required"
    assert "总结本周研究" in called.stdout
    task_id = value(called.stdout, "Task")
    stands = agentengine("a2a", "status", "--space-id", "space-demo", task_id)
    assert (value(stands.stdout, "Task"), value(stands.stdout, "Status")) == (task_id, "input_required")
    stopped = agentengine("a2a", "cancel", "--space-id", "space-demo", task_id)
    assert (stopped.returncode, value(stopped.stdout, "Status")) == (0, "canceled")
    assert as_json(agentengine("a2a", "status", task_id, "--json"))["status"] == "canceled"


def test_what_to_export_is_the_last_thing_that_is_said_while_all_goes_well(
    there: Serving, agentengine: Run
) -> None:
    before = there.said()
    (agent,) = as_json(agentengine("a2a", "discover", "--skill", "echo", "--json"))
    assert as_json(agentengine("a2a", "call", agent["agent_id"], "hi", "--json"))["text"] == "hi"
    assert there.said() == before


def test_a_question_is_answered_with_the_command_that_is_shown(there: Serving, agentengine: Run) -> None:
    (agent,) = as_json(agentengine("a2a", "discover", "--skill", "research", "--json"))
    asked = agentengine("a2a", "call", agent["agent_id"], "hi")
    command = value(asked.stdout, "Resume").replace("ANSWER", "yes").split()[1:]
    answered = agentengine(*command)
    assert (value(answered.stdout, "Status"), "yes" in answered.stdout) == ("completed", True)


def test_a_question_is_answered_at_the_terminal(there: Serving, agentengine: Run, terminal: Spawn) -> None:
    (agent,) = as_json(agentengine("a2a", "discover", "--skill", "research", "--json"))
    child = terminal("a2a", "call", agent["agent_id"], "hi", "--interactive")
    child.expect("answer> ")
    child.sendline("yes please")
    child.expect("Status: completed")
    child.expect("yes please")


def test_what_an_agent_says_is_streamed_and_kept_by_the_center(
    there: Serving, agentengine: Run, tmp_path: Path
) -> None:
    (agent,) = as_json(agentengine("a2a", "discover", "--skill", "echo", "--json"))
    streamed = agentengine("a2a", "call", agent["agent_id"], "one two three", "--stream")
    assert (streamed.returncode, streamed.stderr) == (0, "")
    assert streamed.stdout.count("one two three") == 1
    assert value(streamed.stdout, "Thinking") == "That is 3 words."
    (database,) = tmp_path.glob("a2a-center-*/center.db")
    with contextlib.closing(sqlite3.connect(database)) as kept:
        ((state, events),) = kept.execute("SELECT state, event_count FROM a2a_center_tasks").fetchall()
    assert (state, events > 1) == ("completed", True)


def test_when_the_center_is_gone_its_agents_are_unreachable(there: Serving, agentengine: Run) -> None:
    (agent, _) = as_json(agentengine("a2a", "discover", "--json"))
    assert there.end(signal.SIGKILL) == -signal.SIGKILL  # which leaves the tokens behind
    done = agentengine("a2a", "call", agent["agent_id"], "hi", "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (3, "A2A_CONTROL_PLANE_UNAVAILABLE")


def test_an_interrupted_call_says_how_to_go_on(terminal: Spawn, tmp_path: Path) -> None:
    working = changed("hosted_send", "COMPLETED", "WORKING")
    still = changed("hosted_get", "COMPLETED", "WORKING")
    no_stream = http('{"jsonrpc":"2.0","id":"*","error":{"code":-32004,"message":"no"}}')
    with platform(**WORKS, SendMessage=working, SubscribeToTask=no_stream, GetTask=still) as server:
        child = terminal("a2a", "call", AGENT, "hi", **configuration(server, tmp_path / "tokens"))
        while "GetTask" not in server.operations():
            assert child.isalive()
            time.sleep(0.05)
        child.sendintr()
        child.expect(f"task {TASK} goes on: agentengine a2a status --space-id {SPACE} {TASK} --wait")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 130
