"""TAB in real shells, each at a terminal of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from support import Run

SCRIPTS = Path(__file__).resolve().parents[2] / "completions"
PROGRAM = Path(sys.executable).parent
PROMPT = "READY> "
SET_PROMPT = "REA''DY> "
"""As it is typed, so that the shell's echo of it is not taken for the prompt."""
SHELLS = {
    "bash": (
        ["--norc", "--noprofile", "-i"],
        "bind 'set enable-bracketed-paste off'; bind 'set bell-style none';"
        f" . {SCRIPTS}/agentengine.bash; PS1='{SET_PROMPT}'",
    ),
    "zsh": (
        ["-f", "-i"],
        f"unset zle_bracketed_paste; unsetopt beep; fpath=({SCRIPTS} $fpath);"
        f" autoload -U compinit; compinit -D; PS1='{SET_PROMPT}'",
    ),
}

CASES = {
    "agentengine too": "agentengine tools ",
    "ksadk approvals sh": "ksadk approvals show ",
    "agentengine tools call rea": "agentengine tools call read_workspace_file ",
    "agentengine tools call nothing_like_it": "agentengine tools call nothing_like_it",
    "agentengine tools call --ye": "agentengine tools call --yes ",
    "agentengine tools call --session rea": "agentengine tools call --session rea",
    "agentengine tools call --session own rea": "agentengine tools call --session own read_workspace_file ",
    "agentengine tools call read_workspace_file pa": "agentengine tools call read_workspace_file path=",
    "agentengine tools call read_workspace_file --root . path=REA":
        "agentengine tools call read_workspace_file --root . path=README.md ",
    "agentengine approvals rules add den": "agentengine approvals rules add deny ",
    "agentengine approvals rules add ask web_f": "agentengine approvals rules add ask web_fetch ",
    "agentengine approvals rules add deny read_workspace_file pa":
        "agentengine approvals rules add deny read_workspace_file path=",
    "agentengine tools list --profile foc": "agentengine tools list --profile focused ",
    "agentengine tools list --profile=foc": "agentengine tools list --profile=focused ",
    "agentengine tools list web web_f": "agentengine tools list web web_fetch ",
    "agentengine tools describe run_code --format ope":
        "agentengine tools describe run_code --format openai ",
    "agentengine workspace read --root . REA": "agentengine workspace read --root . README.md ",
    "agentengine workspace read REA": "agentengine workspace read REA",
    "agentengine workspace read --root=. REA": "agentengine workspace read --root=. README.md ",
    "agentengine workspace read -- --root": "agentengine workspace read -- --root",
    "agentengine workspace read --root sr": "agentengine workspace read --root src/",
    "agentengine --env-file REA": "agentengine --env-file README.md ",
    "agentengine --env-file x tools descr": "agentengine --env-file x tools describe ",
}  # fmt: skip


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> Iterator[pexpect.spawn[str]]:
    """A shell with our completion and nothing of the user's, in a project that has files."""
    name = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    Path("src").mkdir()
    Path("README.md").write_text("# x\n")
    arguments, first = SHELLS[name]
    path = f"{PROGRAM}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    child = pexpect.spawn(name, arguments, env=environ, encoding="utf-8", dimensions=(50, 300), timeout=10)
    child.sendline(first)
    child.expect_exact(PROMPT)
    yield child
    child.close(force=True)


def press(child: pexpect.spawn[str], line: str, wanted: str) -> None:
    """Type a line and TAB, and see what it has become; `Q`, typed behind it, ends what TAB was to do."""
    child.send(f"{line}\tQ")
    child.expect(re.escape(wanted) + "(\b.)?Q")  # zsh draws again what it may take back
    child.send("\x03")
    child.expect_exact(PROMPT)


def test_tab_completes_commands_options_values_and_live_names(shell: pexpect.spawn[str]) -> None:
    for line, wanted in CASES.items():
        press(shell, line, wanted)


def test_tab_completes_the_id_of_a_request_that_waits(shell: pexpect.spawn[str], agentengine: Run) -> None:
    call = agentengine("workspace", "write", "a.txt", "--content", "x", "--root", ".")
    request = json.loads(call.stdout)["approval_request"]["id"]
    press(shell, "agentengine approvals approve appr", f"agentengine approvals approve {request} ")
    press(shell, "agentengine tools call --approval app", f"agentengine tools call --approval {request} ")
    press(shell, "agentengine skills list --space app", "agentengine skills list --space app")


def test_tab_completes_the_names_of_skills(shell: pexpect.spawn[str], agentengine: Run) -> None:
    skill = Path(os.environ["HOME"]) / ".agents/skills/word-count"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: word-count\ndescription: Counts words.\n---\n")
    agentengine("skills", "list")
    for command in ("load", "execute", "lock"):
        press(shell, f"agentengine skills {command} wo", f"agentengine skills {command} word-count ")


def test_tab_runs_no_program_of_the_project(shell: pexpect.spawn[str]) -> None:
    Path("agentengine").write_text("#!/bin/sh\ntouch ran\necho read_something_else\n")
    Path("agentengine").chmod(0o755)
    press(shell, "./agentengine tools call rea", "./agentengine tools call read_workspace_file ")
    assert not Path("ran").exists()


def test_tab_says_nothing_where_the_program_breaks(shell: pexpect.spawn[str], tmp_path: Path) -> None:
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "agentengine").write_text("#!/bin/sh\necho a fault >&2\nexit 1\n")
    (broken / "agentengine").chmod(0o755)
    shell.sendline(f"export PATH={broken}:/usr/bin:/bin")
    shell.expect_exact(PROMPT)
    press(shell, "agentengine tools call rea", "agentengine tools call rea")
    press(shell, "agentengine too", "agentengine tools ")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_offers_the_same(agentengine: Run) -> None:
    Path("src").mkdir()
    Path("README.md").write_text("# x\n")
    path = f"{PROGRAM}{os.pathsep}{os.environ['PATH']}"
    for line, wanted in CASES.items():
        offered = subprocess.run(
            ["fish", "--no-config", "-c", f"source {SCRIPTS}/agentengine.fish; complete -C $argv[1]", line],
            env={**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"},
            capture_output=True, text=True, timeout=20, check=True,
        )  # fmt: skip
        words = [row.partition("\t")[0] for row in offered.stdout.splitlines()]
        assert words == ([] if wanted == line else [wanted.rstrip().rpartition(" ")[2]]), line
        assert offered.stderr == ""
