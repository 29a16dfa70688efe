"""`skills lint` and `skills compat` at the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ksadk.skills import compat_hosts

Command = Callable[..., Any]


@pytest.fixture(autouse=True)
def skills() -> None:
    """A skill that is well, one that can be repaired, and one that is none."""
    for name, text in {
        "bad": "---\nname: bad\n---\n",
        "colon": "---\nname: colon\ndescription: Use when: x\n---\nDo it.\n",
        "good": "---\nname: good\ndescription: Does it.\n---\nDo it.\n",
    }.items():
        Path("skills", name).mkdir(parents=True)
        Path("skills", name, "SKILL.md").write_text(text)


TEXT = """\
skills/bad/SKILL.md:2:1: error: there is no description
    fix: description: What it does, and when to use it.
skills/colon/SKILL.md:3:14: warning: the value of description is not YAML without quotes
    fix: description: "Use when: x"
3 skills: 2 can be loaded, 1 only as repaired, 1 refused
"""


def test_findings_are_shown_with_file_line_column_and_fix(command: Command) -> None:
    done = command("skills", "lint", "skills")
    assert (done.status, done.stdout, done.stderr) == (1, TEXT, "")


def test_warnings_alone_are_no_failure(command: Command) -> None:
    assert command("skills", "lint", "skills/colon").status == 0
    done = command("skills", "lint", "skills/good")
    assert (done.status, done.stdout) == (0, "1 skill: 1 can be loaded\n")


def test_a_repair_is_written_and_said(command: Command) -> None:
    done = command("skills", "lint", "--fix", "skills/colon")
    assert (done.status, done.stdout) == (
        0, "skills/colon/SKILL.md: 1 repaired in the file\n1 skill: 1 can be loaded\n"
    )  # fmt: skip
    assert 'description: "Use when: x"\n' in Path("skills/colon/SKILL.md").read_text()


def test_a_name_with_a_line_end_makes_no_line_of_its_own(command: Command) -> None:
    Path("skills/good").rename("skills/x\n9 skills: 9 can be loaded")
    done = command("skills", "lint", "skills")
    assert "skills/x\\n9 skills: 9 can be loaded/SKILL.md:2:7: error: " in done.stdout
    assert "\n9 skills" not in done.stdout


def test_the_findings_are_json(command: Command) -> None:
    done = command("skills", "lint", "--publish", "--json", "skills/colon")
    assert done.status == 1
    (skill,) = done.json["skills"]
    assert (done.json["ok"], skill["errors"], len(skill["findings"])) == (False, 6, 7)
    assert skill["findings"][0] == {
        "severity": "warning", "code": "quotes_missing", "line": 3, "column": 14, "repaired": True,
        "message": "the value of description is not YAML without quotes",
        "fix": 'description: "Use when: x"', "refuses": False,
    }  # fmt: skip


def test_a_place_without_skills_is_an_error(command: Command) -> None:
    Path("empty").mkdir()
    done = command("skills", "lint", "empty")
    assert (done.status, done.stderr) == (
        1, "error: empty holds no SKILL.md\nhint: Name a skill, or a directory of them.\n"
    )  # fmt: skip


def test_what_is_shown_of_a_strangers_skill_moves_no_cursor(command: Command) -> None:
    Path("skills/good/SKILL.md").write_text('---\nname: good\ndescription: d\n"\\e[2J": x\n---\n')
    assert "\x1b" not in command("skills", "lint", "skills").stdout


NO_HOSTS = """\
skills/good
  agentengine loads it as good
  not-there is not installed
"""


def test_a_host_that_is_not_installed_is_said_to_be(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compat_hosts, "HOSTS", {"not-there": None})
    done = command("skills", "compat", "skills/good")
    assert (done.status, done.stdout) == (0, NO_HOSTS)


def test_the_specifications_validator_says_what_it_makes_of_skills(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("skills_ref")
    monkeypatch.setattr(compat_hosts, "HOSTS", {"skills-ref": None})
    Path("skills/good/SKILL.md").write_text("---\nname: good\ndescription: a --- b\n---\nDo it.\n")
    done = command("skills", "compat", "skills", "--json")
    assert done.status == 1
    hosts = {Path(skill["path"]).name: skill["hosts"][0] for skill in done.json["skills"]}
    assert {name: (host["loads"], host["differs"]) for name, host in hosts.items()} == {
        "bad": (False, []), "colon": (False, []), "good": (True, ["description", "body"]),
    }  # fmt: skip
    shown = command("skills", "compat", "skills").stdout
    assert "    understands its description in another way: 'a'\n" in shown
    assert "  agentengine does not load it\n    2:1: there is no description\n" in shown
