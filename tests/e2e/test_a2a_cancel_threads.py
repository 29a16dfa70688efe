"""Cancel of agents that work in threads: either they have stopped, or the cancel is an error."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from serving import call, finished, said, serving, state
from support import Run

HANGS = """
def root_agent(text):
    yield "begun"
    open("gate").close()
    open("went-on", "w").close()
    yield "too late"
"""
LOOPS = """
import time

def root_agent(text):
    yield "begun"
    while True:
        open("alive", "w").close()
        time.sleep(0.01)
"""


def begun(agentengine: Run, url: str) -> str:
    """The id of a task that is at work."""
    task_id = str(call(agentengine, url, "go", "--async")["id"])
    for _ in range(50):
        looked = agentengine("a2a", "status", task_id, "-a", url, "-o", "json")
        if said(json.loads(looked.stdout)) == "begun":
            return task_id
    raise AssertionError(looked.stdout)


def test_a_thread_inside_of_a_call_that_does_not_return_makes_the_cancel_an_error(agentengine: Run) -> None:
    Path("agent.py").write_text(HANGS)
    os.mkfifo("gate")  # whose opening does not return before somebody writes
    with serving(Path.cwd()) as url:
        task_id = begun(agentengine, url)
        canceled = agentengine("a2a", "cancel", task_id, "-a", url, "-o", "json")
        assert json.loads(canceled.stdout)["error"]["code"] == "TaskNotCancelableError"
        Path("gate").write_text("")
        task = finished(agentengine, url, task_id)
    assert (state(task), said(task)) == ("failed", "begun")
    assert not Path("went-on").exists()


def test_a_loop_in_a_thread_has_stopped_when_the_cancel_succeeds(agentengine: Run) -> None:
    Path("agent.py").write_text(LOOPS)
    with serving(Path.cwd()) as url:
        task_id = begun(agentengine, url)
        canceled = agentengine("a2a", "cancel", task_id, "-a", url, "-o", "json")
        assert state(json.loads(canceled.stdout)) == "canceled"
        Path("alive").unlink()
        time.sleep(0.5)
        assert not Path("alive").exists()
