"""The program calls an agent that it serves itself: two real processes, over both bindings."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from a2a_replay import replaying
from support import Run, Spawn, ended

from ksadk.a2a import A2ARunError, stream_a2a_agent_events, stream_a2a_agent_to_writer

AGENT = """
import asyncio
from ksadk.a2a.runners.base import Failed, Text, Thinking

async def root_agent(call):
    if call.text.startswith("fail"):
        yield Text("half")
        raise RuntimeError("secret inside")
    if call.text.startswith("no"):
        yield Failed("not today")
        return
    yield Thinking("hm ")
    yield Text("say: ")
    for word in call.text.split():
        await asyncio.sleep(1.0 if call.text.startswith("slow") else 0)
        yield Text(word + " ")
"""


@pytest.fixture
def served() -> Iterator[str]:
    """The URL of an agent of ours, in a process of its own."""
    Path("agent.py").write_text(AGENT)
    with serving(".") as url:
        yield url


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    command = [sys.executable, "-m", "agentengine_cli", "a2a", "serve", *arguments, "--port", "0"]
    log = Path("serve.log")
    with log.open("w") as stream:
        server = subprocess.Popen(command, stdout=stream, stderr=stream, text=True)
        try:
            yield _address(log, server)
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(15)
            except subprocess.TimeoutExpired:
                server.kill()
                raise


def _address(log: Path, server: subprocess.Popen[str]) -> str:
    until = time.monotonic() + 30
    while time.monotonic() < until and server.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(f"it did not begin to listen: {log.read_text()}")


def test_a_server_of_ours_is_called_over_both_bindings_in_every_form(served: str, agentengine: Run) -> None:
    for transport in ("JSONRPC", "HTTP+JSON"):
        at = ("a2a", "call", "-a", served, "--transport", transport)
        whole = agentengine(*at, "你好 🚀", "-o", "json", LC_ALL="C")
        assert "你好 🚀" in whole.stdout
        task = json.loads(whole.stdout)["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        lines = [
            json.loads(line) for line in agentengine(*at, "a b", "--stream", "-o", "json").stdout.splitlines()
        ]
        assert lines[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        shown = agentengine(*at, "a b", "--stream").stdout
        assert "Thinking: hm \nArtifact: response\nText: say: \nText: a \nText: b \n" in shown
        looked = agentengine(
            "a2a", "status", task["id"], "-a", served, "--transport", transport, "-o", "json"
        )
        assert json.loads(looked.stdout)["id"] == task["id"]
        listed = agentengine("a2a", "tasks", "-a", served, "--transport", transport, "-o", "json")
        assert task["id"] in [item["id"] for item in json.loads(listed.stdout)["tasks"]]
    discovered = agentengine("a2a", "discover", served)
    assert "Problem:" not in discovered.stdout
    assert "Signature: absent\n" in discovered.stdout


def test_a_slow_task_is_sent_without_waiting_watched_and_canceled(served: str, agentengine: Run) -> None:
    sent = agentengine("a2a", "call", served, "slow " + "x " * 30, "--async", "-o", "json")
    task_id = json.loads(sent.stdout)["task"]["id"]
    late = agentengine("a2a", "status", task_id, "-a", served, "--wait", "--timeout", "1", "-o", "json")
    assert (late.returncode, json.loads(late.stdout)["error"]["code"]) == (5, "A2ACLI_ERR_TIMEOUT")
    canceled = agentengine("a2a", "cancel", task_id, "-a", served)
    assert (canceled.returncode, "State: canceled\n" in canceled.stdout) == (0, True)
    again = agentengine("a2a", "cancel", task_id, "-a", served, "-o", "json")
    assert (again.returncode, json.loads(again.stdout)["error"]["code"]) == (1, "TaskNotCancelableError")


def test_a_failure_is_told_by_the_command_and_raised_by_the_helper(served: str, agentengine: Run) -> None:
    done = agentengine("a2a", "call", served, "no", "--exit-status")
    assert done.returncode == 1
    assert "State: failed\nMessage: not today\n" in done.stdout
    with pytest.raises(A2ARunError, match="not today"):
        asyncio.run(stream_a2a_agent_to_writer(served, "no"))
    with pytest.raises(A2ARunError) as caught:
        asyncio.run(stream_a2a_agent_to_writer(served, "fail"))
    assert (caught.value.code, caught.value.text) == ("a2a_task_failed", "half")
    assert "secret" not in str(caught.value)


def test_thinking_and_text_come_in_order_through_the_helpers(served: str) -> None:
    async def run() -> list[tuple[str, str]]:
        return [(event["type"], event["delta"]) async for event in stream_a2a_agent_events(served, "a b")]

    assert asyncio.run(run()) == [("thinking", "hm "), ("text", "say: "), ("text", "a "), ("text", "b ")]


def test_a_task_that_is_not_known_begins_no_other(served: str, agentengine: Run) -> None:
    done = agentengine("a2a", "call", served, "hi", "--task-id", "nope", "-o", "json")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (1, "TaskNotFoundError")
    assert json.loads(agentengine("a2a", "tasks", "-a", served, "-o", "json").stdout).get("tasks", []) == []


def test_a_call_that_is_interrupted_tells_the_task(served: str) -> None:
    caller = subprocess.Popen(
        [sys.executable, "-m", "agentengine_cli", "a2a", "call", served, "slow " + "x " * 30, "--stream"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert caller.stdout is not None
    task_id = caller.stdout.readline().removeprefix("Task: ").strip()
    caller.send_signal(signal.SIGINT)
    _, told = caller.communicate(timeout=20)
    assert caller.returncode == 130
    assert f"task {task_id} goes on: agentengine a2a status {task_id} -a {served} --wait" in told


def test_at_a_terminal_the_agents_question_is_asked_and_answered(terminal: Spawn) -> None:
    with replaying({"SendMessage": ["task_question", "send_task"]}) as server:
        child = terminal("a2a", "call", server.url, "weather", "--interactive")
        child.expect("which city.*answer> ")
        child.sendline("Paris")
        status, printed = ended(child)
        assert (status, "State: completed" in printed) == (0, True)
        message = server.last("SendMessage").json["params"]["message"]
        assert (message["taskId"], message["parts"]) == ("t-1", [{"text": "Paris"}])


@pytest.mark.parametrize(("key", "decision"), [("y", "approve"), ("n", "reject")])
def test_another_agents_request_for_approval_is_shown_as_its_own(
    terminal: Spawn, key: str, decision: str
) -> None:
    with replaying({"SendMessage": ["task_approval", "send_task"]}) as server:
        child = terminal("a2a", "call", server.url, "go", "--interactive")
        child.expect(re.escape(f"The agent at {server.url} asks for approval"))
        child.expect("approve\\? ")
        assert "\x1b[2J" not in child.before
        assert "\\x1b[2J" in child.before
        child.send("s")  # no key for the session, and none that saves a rule
        child.send("a")
        time.sleep(0.3)
        child.send(key)
        assert ended(child)[0] == 0
        part = server.last("SendMessage").json["params"]["message"]["parts"][0]
        assert part == {
            "data": {"kind": "approval_decision", "approval_request_id": "apr_1", "decision": decision}
        }
        assert not list(Path.home().glob("config/**/rules.yaml"))
