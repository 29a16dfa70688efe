"""`a2a serve --approve-here`: the person at the server's own terminal is asked."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import QUESTION, Spawn

AGENT = """
from ksadk.toolsets.workspace import write_workspace_file

def root_agent(text: str) -> str:
    result = write_workspace_file("note.txt", text)
    return "written" if result.get("ok") else str(result.get("error_type"))
"""


@pytest.mark.parametrize(("key", "said"), [("y", "written"), ("n", "approval_rejected")])
def test_one_key_at_the_terminal_of_the_server_decides(
    tmp_path: Path, terminal: Spawn, key: str, said: str
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "agent.py").write_text(AGENT)
    server = terminal("a2a", "serve", str(project), "--port", "0", "--approve-here")
    server.expect(r"serving project at (http://[\d.:]+)")
    assert server.match is not None
    url = server.match[1]
    answers: list[Any] = []

    def call() -> None:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "buy tea"}]}
        response = httpx.post(
            f"{url}/a2a/v1/message:send",
            json={"message": message},
            headers={"A2A-Version": "1.0"},
            timeout=20,
        )
        answers.append(response.json()["task"])

    caller = threading.Thread(target=call)
    caller.start()
    server.expect(QUESTION)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", server.before or "")
    assert "note.txt" in shown and "buy tea" in shown
    caller.join(20)  # the task waits, so the call came back
    assert answers[0]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    server.send(key)
    task = _ended(url, answers[0]["id"])
    assert task["artifacts"][0]["parts"] == [{"text": said}]
    assert [path.read_text() for path in project.rglob("note.txt")] == (["buy tea"] if key == "y" else [])


def _ended(url: str, task_id: str) -> dict[str, Any]:
    for _ in range(200):
        task: dict[str, Any] = httpx.get(
            f"{url}/a2a/v1/tasks/{task_id}", headers={"A2A-Version": "1.0"}
        ).json()
        if task["status"]["state"] not in ("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING"):
            return task
        threading.Event().wait(0.05)
    raise AssertionError(task)
