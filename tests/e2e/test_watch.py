"""`approvals watch`: what waits in every project, answered in place."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import QUESTION, Asked, Run, Spawn, ended

LIST = "A number opens one; q ends"
NOTHING = "Nothing waits for approval"


def write(name: str) -> tuple[str, ...]:
    return ("workspace", "write", name, "--content", "x", "--root", ".")


def test_what_comes_is_listed_and_answered_in_place(
    terminal: Spawn, agentengine: Run, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = terminal("approvals", "watch")
    child.expect(NOTHING)
    first = asked(*write("one.txt"))
    child.expect(LIST)
    assert "one.txt" in child.before
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    second = asked(*write("two.txt"))
    child.expect(LIST)
    assert "two.txt" in child.before
    child.send("2")
    child.expect(QUESTION)
    assert "two.txt" in child.before
    child.send("y")
    child.expect(f"approved {second['id']}")
    child.expect(LIST)
    assert "two.txt" not in child.before
    child.send("1")
    child.expect(QUESTION)
    child.send("n")
    child.expect(f"denied {first['id']}")
    child.expect(NOTHING)
    child.send("q")
    assert ended(child)[0] == 0
    assert agentengine(*write("two.txt"), "--approval", second["id"]).returncode == 0
    shown = agentengine("approvals", "log").stdout
    assert "the person at /dev/pts/" in shown


def test_one_that_cannot_be_answered_does_not_end_it(terminal: Spawn, asked: Asked, file: Path) -> None:
    asked("workspace", "delete", "f.txt", "--root", ".")
    asked(*write("two.txt"))
    file.write_text("other\n")
    child = terminal("approvals", "watch")
    child.expect(LIST)
    child.send("1")
    child.expect("error:")
    child.expect(LIST)
    child.send("2")
    child.expect(QUESTION)
    child.send("q")
    child.expect("still waits")
    child.expect(LIST)
    child.send("7")
    child.send("q")
    assert ended(child)[0] == 0


def test_what_is_answered_elsewhere_leaves_the_list(terminal: Spawn, agentengine: Run, asked: Asked) -> None:
    request = asked(*write("one.txt"))
    child = terminal("approvals", "watch")
    child.expect(LIST)
    assert agentengine("approvals", "deny", request["id"]).returncode == 0
    child.expect(NOTHING)
    child.sendcontrol("c")
    assert ended(child)[0] == 130


def test_without_a_terminal_it_says_so(agentengine: Run) -> None:
    watched = agentengine("approvals", "watch")
    assert watched.returncode == 6
    assert "watching needs a terminal" in watched.stderr
    assert "agentengine approvals list" in watched.stderr


def test_inside_a_tool_it_is_refused(agentengine: Run) -> None:
    watched = agentengine("approvals", "watch", KSADK_INSIDE_TOOL="1")
    assert watched.returncode == 7
