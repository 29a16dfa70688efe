"""What the program answers a shell that completes: names, from its own state, and nothing else happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import Run

from agentengine_cli.completion import LIVE
from ksadk.sandbox.records import Facts, Record
from ksadk.tools.registry import builtin_tools
from ksadk.toolsets.selection import FURTHER_GROUPS, GROUPS, PROFILES, load_builtin_tools

WATCHED = """
import json, sys
events = []
def note(event, arguments):
    if event.split(".")[0] in ("socket", "subprocess", "os", "shutil", "sqlite3", "open"):
        events.append([event, [str(argument) for argument in arguments]])
sys.addaudithook(note)
from agentengine_cli import __main__
sys.argv[1:1] = ["--complete"]
try:
    __main__.main()
finally:
    print(json.dumps([events, sorted(sys.modules)]), file=sys.stderr)
"""
QUESTIONS = [[kind] for kind in LIVE if kind != "arguments"] + [["arguments", "write_workspace_file"]]


def names(agentengine: Run, *question: str, **environ: str) -> list[str]:
    done = agentengine("--complete", *question, **environ)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


def test_tools_groups_and_profiles_are_named(agentengine: Run) -> None:
    load_builtin_tools()
    tools = [tool.name for tool in builtin_tools()]
    assert sorted(names(agentengine, "tools")) == sorted(tools)
    assert names(agentengine, "groups") == [*GROUPS, *FURTHER_GROUPS]
    assert names(agentengine, "profiles") == list(PROFILES)
    assert set(names(agentengine, "toolsets")) == {*tools, *GROUPS, *FURTHER_GROUPS, *PROFILES}


def test_the_arguments_of_a_tool_end_with_what_follows_them(agentengine: Run) -> None:
    assert names(agentengine, "arguments", "write_workspace_file") == [
        "path=", "content=", "overwrite=", "encoding=", "in_place=",
    ]  # fmt: skip


def test_requests_are_named_while_they_can_be_answered_or_used(agentengine: Run, tmp_path: Path) -> None:
    ids = []
    for name in ("a", "b"):
        call = agentengine("workspace", "write", name, "--content", "x", "--root", ".")
        ids.insert(0, json.loads(call.stdout)["approval_request"]["id"])
    assert names(agentengine, "requests") == names(agentengine, "approved") == ids
    elsewhere = {"KSADK_PROJECT_DIR": str(tmp_path)}
    assert names(agentengine, "requests", **elsewhere) == ids
    assert names(agentengine, "approved", **elsewhere) == []
    assert agentengine("approvals", "deny", ids[0]).returncode == 0
    assert names(agentengine, "requests") == ids[1:]


def test_skills_are_named_as_the_last_listing_found_them(agentengine: Run, tmp_path: Path) -> None:
    place = skill_at(tmp_path / "skills" / "word-count").parent
    assert names(agentengine, "skills", KSADK_LOCAL_SKILLS_DIR=str(place)) == []
    agentengine("skills", "list", KSADK_LOCAL_SKILLS_DIR=str(place))
    skill_at(tmp_path / "skills" / "unseen")
    skill_at(Path(".agents/skills/of-the-project"))
    assert names(agentengine, "skills", KSADK_LOCAL_SKILLS_DIR=str(place)) == ["word-count"]


def skill_at(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / "SKILL.md").write_text(f"---\nname: {directory.name}\ndescription: D.\n---\n")
    return directory


def test_spaces_are_named_as_they_are_configured(agentengine: Run) -> None:
    done = agentengine("--complete", "spaces", KSADK_A2A_SPACE_IDS="space-demo, team-b")
    assert (done.stdout, done.stderr) == ("space-demo\t\nteam-b\t\n", "")
    assert agentengine("--complete", "spaces").stdout == ""


def test_a_store_that_is_none_or_broken_has_nothing(agentengine: Run) -> None:
    state = Path(os.environ["XDG_STATE_HOME"])
    assert names(agentengine, "requests") == []
    assert not state.exists()
    (state / "agentengine").mkdir(parents=True)
    (state / "agentengine/approvals.sqlite3").write_bytes(b"no database")
    assert names(agentengine, "requests") == []
    assert (state / "agentengine/approvals.sqlite3").read_bytes() == b"no database"


@pytest.mark.parametrize("question", [[], ["nothing"], ["arguments"], ["arguments", "no_such_tool"]])
def test_a_question_without_an_answer_is_silent(question: list[str], agentengine: Run) -> None:
    done = agentengine("--complete", *question)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_a_bad_setting_or_home_is_silent(agentengine: Run) -> None:
    done = agentengine("--complete", "approved", KSADK_PROJECT_DIR="~nobody-of-this-name/x")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_an_answer_starts_nothing_and_reads_no_project(
    question: list[str], agentengine: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_A2A_SPACE_IDS", "space-demo")
    agentengine("workspace", "write", "a.txt", "--content", "x", "--root", ".")  # so that there is a store
    Record.make(Facts("copy-1", "copy", "w", 0.0)).release()
    skill_at(Path(os.environ["HOME"]) / ".agents" / "skills" / "word-count")
    agentengine("skills", "list")
    for name in ("agentengine.yaml", "ksadk.yaml", "agent.py", "main.py", "typer.py", "ksadk.py", ".env"):
        Path(name).write_text("this is read by nothing (\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", WATCHED, *question],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events, modules = json.loads(done.stderr.splitlines()[-1])
    assert done.stdout
    kinds = {event for event, _ in events}
    assert "open" in kinds  # the hook works
    assert {kind for kind in kinds if kind.startswith(("socket", "subprocess"))} == set()
    assert kinds & {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.mkdir"} == set()
    here = str(Path.cwd())
    opened = [arguments[0] for event, arguments in events if event == "open"]
    opened = [path for path in opened if not path.isdecimal()]  # a descriptor, opened by its path before
    assert [path for path in opened if path.startswith(here) or not path.startswith(("/", "<", "b'/"))] == []
    assert "typer" not in modules


def test_names_that_a_shell_would_read_otherwise_are_not_offered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentengine_cli import completion

    hostile = ["$(touch ran)", "`ls`", "a b", "a;b", "*", "a\nb", "\x1b[2J", "-x'", ""]
    offered = [(name, "words\twith\x1b[31m colour\nand lines") for name in ["good", *hostile]]
    monkeypatch.setitem(completion.LIVE, "tools", lambda _: iter(offered))
    assert completion.main(["tools"]) == 0
    assert capsys.readouterr().out == "good\twords with [31m colour\n"
