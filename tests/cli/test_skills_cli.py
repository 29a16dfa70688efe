"""`skills list`, `search`, `load`: data on stdout, words on stderr, and nothing raw on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from support import ended

Command = Callable[..., Any]


@pytest.fixture
def skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "skills"
    monkeypatch.setenv("KSADK_LOCAL_SKILLS_DIR", str(place))
    monkeypatch.setenv("KSADK_SKILL_CACHE_DIR", str(tmp_path / "cache"))
    write(place / "diagram", "Draws.", "metadata: {version: '1.2', tags: chart}\n", "Draw\nit.")
    write(place / "liuchengtu", "根据描述绘制流程图。")
    return place


def write(directory: Path, about: str, more: str = "", body: str = "Do it.") -> Path:
    directory.mkdir(parents=True)
    text = f"---\nname: {directory.name}\ndescription: {about}\n{more}---\n{body}\n"
    (directory / "SKILL.md").write_text(text)
    return directory


def test_a_list_is_a_table_and_with_json_the_whole_result(skills: Path, command: Command) -> None:
    done = command("skills", "list")
    assert (done.status, done.stderr) == (0, "")
    head, first, second = done.stdout.splitlines()
    assert head.split() == ["NAME", "VERSION", "SPACE", "DESCRIPTION"]
    assert first.split() == ["diagram", "1.2", "local", "Draws."]
    assert "根据描述绘制流程图。" in second
    assert [skill["name"] for skill in command("skills", "list", "--json").json["skills"]] == [
        "diagram", "liuchengtu",
    ]  # fmt: skip
    assert "configured" in command("skills", "list", "--source", "--space", "local").stdout


def test_what_was_left_out_is_said_on_stderr(skills: Path, command: Command) -> None:
    (skills / "bad").mkdir()
    (skills / "bad" / "SKILL.md").write_text("no frontmatter\n")
    done = command("skills", "list")
    assert (done.status, "bad" in done.stdout) == (0, False)
    assert "warning: refused: " in done.stderr
    assert "2 loaded, 1 refused: " in done.stderr
    assert command("skills", "list", "--json").stderr == ""


def test_a_search_finds_also_in_chinese(skills: Path, command: Command) -> None:
    assert command("skills", "search", "流程图").stdout.splitlines()[1].startswith("liuchengtu")
    found = command("skills", "search", "chart", "--json").json["results"]
    assert [(item["name"], item["score"], item["reason"]) for item in found] == [("diagram", 65, "tag")]
    assert command("skills", "search", "zzz").stdout == "No skill matches.\n"


def test_instructions_go_to_stdout_and_everything_else_to_stderr(skills: Path, command: Command) -> None:
    done = command("skills", "load", "diagram")
    assert (done.status, done.stdout) == (0, "Draw\nit.\n")
    for word in ("diagram 1.2, of local", "sha256:", str(skills.parent / "cache")):
        assert word in done.stderr
    assert command("skills", "load", "diagram", "--json").json["instructions"] == "Draw\nit."


@pytest.mark.parametrize(
    ("line", "status", "code", "words"),
    [
        ("load diagarm", 1, "skill_not_found", "Did you mean 'diagram'?"),
        ("load diagram --space s", 8, "skill_service_not_configured", "KSADK_SKILL_SERVICE_URL"),
        ("list --space s", 8, "skill_service_not_configured", "KSADK_SKILL_SERVICE_URL"),
        ("search _", 2, "query_required", "Say what to look for."),
    ],
)
def test_what_fails_ends_with_its_status_and_what_to_do(
    line: str, status: int, code: str, words: str, skills: Path, command: Command
) -> None:
    arguments = [word.replace("_", " ") for word in line.split()]
    done = command("skills", *arguments)
    assert (done.status, done.stdout) == (status, "")
    assert words in done.stderr
    assert command("skills", *arguments, "--json").json["error_type"] == code


def test_with_nothing_configured_a_list_says_what_to_set(command: Command) -> None:
    done = command("skills", "list")
    assert (done.status, done.stdout) == (8, "")
    assert "KSADK_LOCAL_SKILLS_DIR" in done.stderr


def test_a_projects_own_skills_are_shown_when_they_are_asked_for(command: Command) -> None:
    write(Path(".agents/skills/own").absolute(), "Of the project.")
    done = command("skills", "list")
    assert (done.status, "own" in done.stdout) == (0, False)
    assert "agentengine trust" in done.stderr
    assert "own" in command("skills", "list", "--project").stdout
    assert command("skills", "load", "own", "--project").stdout == "Do it.\n"
    assert command("skills", "load", "own").status == 1


def test_on_a_terminal_no_control_character_of_a_skill_is_printed(skills: Path) -> None:
    write(skills / "evil", '"\\e]0;title\\a\\e[2J\\u202eok"', body="IGNORE \x1b[2J\x1b]52;c;AAAA\x07")
    for line in ("list", "search evil", "load evil"):
        child = pexpect.spawn(
            sys.executable, ["-m", "agentengine_cli", "skills", *line.split()], encoding="utf-8",
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"}, timeout=60, dimensions=(50, 200),
        )  # fmt: skip
        status, printed = ended(child)
        assert status == 0
        assert not {"\x1b", "\x07", "\u202e"} & set(printed)
        assert "\\x1b" in printed


@pytest.fixture
def served(tmp_path: Path, skills: Path) -> Iterator[dict[str, str]]:
    """The skills, served by a process of this program to others; what these set."""
    token = tmp_path / "token"
    token.write_text("a-token-of-32-characters-or-more\n")
    child = subprocess.Popen(
        [sys.executable, "-m", "agentengine_cli", "skills", "serve", str(skills), "--port", "0",
         "--space", "team", "--token-file", str(token), "-o", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        import json

        ready = json.loads(child.stdout.readline())
        yield {
            "KSADK_SKILL_SERVICE_URL": ready["url"], "KSADK_SKILL_SPACE_IDS": "team",
            "KSADK_SKILL_SERVICE_TOKEN": token.read_text().strip(), "KSADK_LOCAL_SKILLS_DIR": "",
        }  # fmt: skip
    finally:
        child.terminate()
        child.communicate(timeout=20)


def test_skills_are_listed_found_and_loaded_from_a_service(
    served: dict[str, str], monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.delenv("KSADK_LOCAL_SKILLS_DIR")
    for name, value in served.items():
        if value:
            monkeypatch.setenv(name, value)
    assert "diagram" in command("skills", "list", "--space", "team").stdout
    assert command("skills", "search", "diagram").status == 0
    done = command("skills", "load", "diagram")
    assert (done.status, done.stdout) == (0, "Draw\nit.\n")
    assert "of team" in done.stderr
    monkeypatch.setenv("KSADK_SKILL_SERVICE_TOKEN", "wrong-token-wrong-token-wrong")
    failed = command("skills", "load", "diagram")
    assert failed.status == 4
    assert "wrong-token" not in failed.stderr
    nothing = command("skills", "list")
    assert (nothing.status, nothing.stdout) == (4, "")
    assert "answered HTTP 401" in nothing.stderr
