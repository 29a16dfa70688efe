"""The key `a`: a rule is chosen and seen, saved, and then holds; and trust, at a real terminal."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from support import QUESTION, Run, Spawn, ended

from ksadk.settings import Settings

EDIT = ("workspace", "edit", "f.txt", "--root", ".", "--old")
WHICH = "which rule\\? "
SAVE = "save it to .*n "
TRUST = "with this\\? y yes   n no"


def rules_file() -> Path:
    return Path(Settings.from_env().config_dir_text()) / "rules.yaml"


def judged(agentengine: Run, call: str) -> dict[str, Any]:
    done = agentengine("approvals", "rules", "test", call, "--root", ".", "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_same_edit_is_asked_about_until_a_rule_allows_it(
    terminal: Spawn, file: Path, agentengine: Run
) -> None:
    for old, new in (("two", "2"), ("2", "zwei")):
        child = terminal(*EDIT, old, "--new", new)
        child.expect(QUESTION)
        child.send("y")
        assert ended(child)[0] == 0
    child = terminal(*EDIT, "zwei", "--new", "two", NO_COLOR="1")
    child.expect(QUESTION)
    child.send("a")
    child.expect(WHICH)
    path = Path.cwd() / "f.txt"
    assert "1 exactly this call" in child.before
    assert f"path: {path}" in child.before
    assert f"path: {path.parent}/**" in child.before
    child.send("2")
    child.expect(SAVE)
    assert "old_text=two" in child.before, "an earlier call is an example"
    assert not rules_file().exists()
    child.send("y")
    status, printed = ended(child)
    assert status == 0, printed
    assert f"saved {rules_file()}:3" in printed

    fourth = agentengine(*EDIT, "two", "--new", "deux")
    assert fourth.returncode == 0, fourth.stderr
    assert file.read_text() == "one\ndeux\nthree\n"
    found = judged(agentengine, "edit_workspace_file path=f.txt")
    assert (found["decision"], found["outcome"]) == ("allow", "runs")
    assert (found["file"], found["line"]) == (str(rules_file()), 3)
    assert judged(agentengine, "edit_workspace_file path=g.txt")["outcome"] == "asks"
    log = agentengine("approvals", "log", "--json").stdout
    assert f"{rules_file()}:3" in log

    assert agentengine("approvals", "rules", "remove", "1").returncode == 0
    assert agentengine(*EDIT, "deux", "--new", "two").returncode == 6
    assert judged(agentengine, "edit_workspace_file path=f.txt")["outcome"] == "asks"


def test_a_width_can_be_looked_at_and_left(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT, "two", "--new", "2", NO_COLOR="1")
    child.expect(QUESTION)
    child.send("a")
    child.expect(WHICH)
    child.send("1")
    child.expect(SAVE)
    assert "it allows no other call" in child.before
    child.send("n")
    child.expect(WHICH)
    child.send("b")
    child.expect("approve\\? ")
    child.send("n")
    assert ended(child)[0] == 7
    assert not rules_file().exists()


def test_words_that_were_meant_for_something_else_save_nothing(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT, "two", "--new", "2")
    child.expect(QUESTION)
    child.send("a")
    child.expect(WHICH)
    child.send("12 yes")
    child.send("2")
    child.expect(SAVE)
    child.send("yes please")
    time.sleep(0.1)
    child.send("n")
    child.expect(WHICH)
    child.sendeof()
    child.expect("approve\\? ")
    child.send("n")
    assert ended(child)[0] == 7
    assert not rules_file().exists()


def test_a_high_risk_call_is_offered_one_rule_alone(terminal: Spawn) -> None:
    Path("d").mkdir()
    Path("d/f.txt").write_text("x\n")
    child = terminal("workspace", "delete", "d/f.txt", "--root", ".", NO_COLOR="1")
    child.expect(QUESTION)
    child.send("a")
    child.expect(WHICH)
    assert "1 exactly this call" in child.before
    assert "\n2 " not in child.before
    assert "in d/" not in child.before
    child.send("b")
    child.expect("approve\\? ")
    child.send("n")
    assert ended(child)[0] == 7


def test_a_rule_that_asks_is_named_where_no_other_would_help(terminal: Spawn, agentengine: Run) -> None:
    assert agentengine("approvals", "rules", "add", "ask", "write_workspace_file").returncode == 0
    child = terminal("workspace", "write", "g.txt", "--content", "x", "--root", ".", NO_COLOR="1")
    child.expect(QUESTION)
    child.send("a")
    child.expect(f"the rule {rules_file()}:3 asks about this call")
    child.expect("approve\\? ")
    child.send("y")
    assert ended(child)[0] == 0


def test_a_rule_can_be_saved_where_a_request_is_answered_elsewhere(terminal: Spawn, agentengine: Run) -> None:
    call = agentengine("workspace", "write", "g.txt", "--content", "x", "--root", ".")
    request = json.loads(call.stdout)["approval_request"]["id"]
    child = terminal("approvals", "approve", request, NO_COLOR="1")
    child.expect(QUESTION)
    child.send("a")
    child.expect(WHICH)
    child.send("2")
    child.expect(SAVE)
    child.send("y")
    assert ended(child)[0] == 0
    kept = json.loads(agentengine("approvals", "show", request, "--json").stdout)["request"]
    assert kept["state"] == "approved"
    assert f"who saved the rule {rules_file()}:3" in kept["decided_by"]
    assert agentengine("workspace", "write", "g.txt", "--content", "y", "--root", ".").returncode == 0


def test_a_rule_that_cannot_be_saved_leaves_the_question(terminal: Spawn, file: Path) -> None:
    rules_file().parent.parent.mkdir(parents=True, exist_ok=True)
    rules_file().parent.symlink_to("/dev/null")
    child = terminal("workspace", "write", "g.txt", "--content", "x", "--root", ".", NO_COLOR="1")
    child.expect(QUESTION)
    child.send("a")
    child.expect(WHICH)
    child.send("1")
    child.expect(SAVE)
    child.send("y")
    child.expect("cannot be written")
    child.expect("approve\\? ")
    child.send("n")
    assert ended(child)[0] == 7


@pytest.fixture
def project() -> Path:
    """A project that would allow everything, in a workspace of its own."""
    Path("inner").mkdir()
    config = Path("agentengine.yaml")
    config.write_text("workspace: inner\napproval:\n  rules:\n    - allow: '*'\n")
    return config


def test_a_project_that_allows_everything_does_so_only_while_it_is_trusted(
    terminal: Spawn, agentengine: Run, project: Path
) -> None:
    write = ("workspace", "write", "g.txt", "--content", "x")
    assert agentengine(*write).returncode == 6
    child = terminal("trust", NO_COLOR="1")
    child.expect(TRUST)
    assert "- allow: '*'" in child.before
    assert f"work in {Path.cwd()}/inner" in child.before
    child.send("y")
    assert ended(child)[0] == 0
    assert agentengine(*write).returncode == 0
    assert Path("inner/g.txt").read_text() == "x"
    project.write_text(project.read_text() + "\n")
    assert agentengine(*write).returncode == 6


def test_a_projects_own_skills_are_shown_before_they_are_trusted_and_used_then(
    terminal: Spawn, agentengine: Run
) -> None:
    skill = Path(".agents/skills/own")
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: own\ndescription: D.\n---\nDo it.\n")
    Path("agentengine.yaml").write_text("name: n\n")
    assert "not trusted" in agentengine("skills", "list").stderr
    child = terminal("trust", NO_COLOR="1")
    child.expect(TRUST)
    assert f"skills in {Path.cwd() / '.agents/skills'} would be used" in child.before
    child.send("y")
    assert ended(child)[0] == 0
    assert "own" in agentengine("skills", "list").stdout
    assert agentengine("trust", "--revoke").returncode == 0
    assert "own" not in agentengine("skills", "list").stdout


def test_a_project_is_not_trusted_without_a_yes(terminal: Spawn, agentengine: Run, project: Path) -> None:
    for keys, status in (("n", 7), ("\x04", 7)):
        child = terminal("trust")
        child.expect(TRUST)
        child.send(keys)
        assert ended(child)[0] == status
    child = terminal("trust", KSADK_INSIDE_TOOL="1")
    assert ended(child)[0] == 7
    assert json.loads(agentengine("trust", "--list", "--json").stdout)["projects"] == []


def test_a_project_that_changes_while_it_is_shown_is_trusted_with_what_was_shown(
    terminal: Spawn, agentengine: Run, project: Path
) -> None:
    child = terminal("trust")
    child.expect(TRUST)
    project.write_text("approval:\n  rules:\n    - allow: 'delete_*'\n")
    child.send("y")
    assert ended(child)[0] == 0
    [listed] = json.loads(agentengine("trust", "--list", "--json").stdout)["projects"]
    assert listed["state"] == "void"
