"""Closed and full streams, missing directories and homes, signals, and terminals that go away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pexpect
import pytest
from support import AFTER, BEFORE, EDIT, QUESTION, Run, Spawn, ended

PROGRAM = f"{sys.executable} -m agentengine_cli"
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


def in_shell(line: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={**os.environ, **environ}, timeout=60, check=False,
    )  # fmt: skip


def program_after(preparation: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The program in an interpreter in which some lines of Python ran first."""
    return subprocess.run(
        [sys.executable, "-c", first(preparation), *arguments], stdin=subprocess.DEVNULL, capture_output=True,
        text=True, env={**os.environ, **environ}, timeout=60, check=False,
    )  # fmt: skip


def first(preparation: str) -> str:
    return f"{preparation}\nfrom agentengine_cli.__main__ import main\nmain()"


# Streams

ALL_WAYS = ["<&-", ">&-", "2>&-", ">&- 2>&- <&-"]


@pytest.mark.parametrize("streams", ALL_WAYS)
@pytest.mark.parametrize(
    ("command", "status"),
    [("tools search file --json", 0), ("tools describe nothing", 2), ("workspace write a --content x", 6)],
)
def test_closed_streams_change_no_status_and_crash_nothing(command: str, status: int, streams: str) -> None:
    done = in_shell(f"{PROGRAM} {command} {streams}")
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_a_closed_stdin_is_empty() -> None:
    done = in_shell(f"{PROGRAM} workspace write a.txt --content - --root . --yes <&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("a.txt").read_text() == ""


@FULL
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["tools search file", "tools search file --json", "--version"])
def test_what_cannot_be_written_is_a_failure_in_words(command: str, unbuffered: str) -> None:
    done = in_shell(f"{PROGRAM} {command} >/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


@FULL
@pytest.mark.parametrize("streams", [">/dev/full", "2>/dev/full", ">/dev/full 2>/dev/full"])
@pytest.mark.parametrize("command", ["tools describe nothing --json", "tools nothing --json"])
def test_an_error_that_cannot_be_written_keeps_its_status(command: str, streams: str) -> None:
    done = in_shell(f"{PROGRAM} {command} {streams}", PYTHONUNBUFFERED="")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_an_endless_file_is_a_usage_error(agentengine: Run) -> None:
    done = agentengine("workspace", "write", "a.txt", "--content", "@/dev/zero", "--root", ".", "--yes")
    assert done.returncode == 2
    assert "/dev/zero holds more than 67,108,864 bytes" in done.stderr
    assert not Path("a.txt").exists()


# Directories


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("tools describe web_fetch", 0),
        ("workspace list", 1),
        ("workspace list --root .", 2),
        ("workspace write a --content x", 1),
        ("approvals list", 1),
        ("tools call component_status", 1),
    ],
)
def test_a_current_directory_that_was_deleted_is_said(command: str, status: int) -> None:
    done = in_shell(f"mkdir gone && cd gone && rmdir ../gone && {PROGRAM} {command}")
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    if status == 1:
        assert done.stderr.startswith("error: the current directory is not there any more\nhint: ")


@pytest.mark.parametrize(
    "variable", ["KSADK_PROJECT_DIR", "AGENTENGINE_UI_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"]
)
def test_a_home_of_nobody_in_a_variable_is_said(agentengine: Run, variable: str) -> None:
    Path("a.txt").write_text("before")
    for command in (("workspace", "list"), ("workspace", "write", "a.txt", "--content", "x", "--yes")):
        done = agentengine(*command, "--json", **{variable: "~no-such-user/x"})
        assert done.returncode == 2
        told = json.loads(done.stdout)
        assert told.get("error_type", told.get("error", {}).get("code")) == "invalid_setting"
        assert f"{variable} is '~no-such-user/x'" in done.stderr
    assert Path("a.txt").read_text() == "before"


NO_HOME = """
import os, pwd
os.environ.pop("HOME")
def unknown(user):
    raise KeyError(user)
pwd.getpwuid = unknown
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("workspace", "list"), "hint: Set HOME or XDG_"),
        (("approvals", "list"), "hint: Set HOME or XDG_STATE_HOME."),
        (("workspace", "list", "--root", "~/x"), "~/x cannot be used"),
    ],
    ids=" ".join,
)
def test_a_user_without_a_home_is_told_what_to_set(arguments: tuple[str, ...], said: str) -> None:
    done = program_after(NO_HOME, *arguments, XDG_STATE_HOME="", XDG_CONFIG_HOME="")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_root_of_an_absurd_length_is_a_usage_error(agentengine: Run) -> None:
    done = agentengine("workspace", "list", "--root", "a" * 3000, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "usage"
    assert "File name too long" in done.stderr


# Signals

INTERRUPTED_IMPORT = """
import os, signal, sys
class Interrupts:
    def find_spec(name, path=None, target=None):
        if name == "MODULE":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts)
"""


@pytest.mark.parametrize("module", ["agentengine_cli.main", "typer", "agentengine_cli.workspace"])
def test_an_interrupt_while_the_program_still_imports_is_130_and_quiet(module: str) -> None:
    done = program_after(INTERRUPTED_IMPORT.replace("MODULE", module), "workspace", "list")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def modes(child: pexpect.spawn[str]) -> int:
    """The terminal's local modes."""
    flags: int = termios.tcgetattr(child.child_fd)[3]
    return flags


def test_a_program_that_is_ended_at_its_question_leaves_the_terminal_as_it_was(
    terminal: Spawn, file: Path
) -> None:
    line = f"sh -c 'echo $$ >pid; exec \"$@\"' sh {PROGRAM} {' '.join(EDIT)}; echo status=$?; read wait"
    child = terminal("-c", line, program=["bash"])
    before = modes(child)
    child.expect(QUESTION)
    assert not modes(child) & termios.ICANON
    os.kill(int(Path("pid").read_text()), signal.SIGTERM)
    child.expect("status=143")
    assert modes(child) == before
    assert before & termios.ECHO
    assert before & termios.ICANON
    assert file.read_text() == BEFORE


def test_a_program_that_was_stopped_takes_single_keys_again(terminal: Spawn, file: Path) -> None:
    """A shell gives the terminal back in its own modes when the program goes on."""
    child = terminal(*EDIT)
    shells = termios.tcgetattr(child.child_fd)
    child.expect(QUESTION)
    child.kill(signal.SIGSTOP)
    shells[3] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(child.child_fd, termios.TCSANOW, shells)
    child.kill(signal.SIGCONT)
    for _ in range(100):
        if not modes(child) & termios.ICANON:
            break
        time.sleep(0.02)
    child.send("y")
    assert ended(child)[0] == 0
    assert file.read_text() == AFTER


# Terminals


def test_a_terminal_without_a_name_is_asked_all_the_same(terminal: Spawn, file: Path) -> None:
    """As in a container whose terminal was opened outside of it."""
    nameless = "import os\ndef unknown(fd): raise OSError(25, 'no such device')\nos.ttyname = unknown"
    child = terminal(*EDIT, program=[sys.executable, "-c", first(nameless)], NO_COLOR="1")
    child.expect(QUESTION)
    assert "for the session" not in child.before, "which session is it?"
    child.send("y")
    assert ended(child)[0] == 0
    assert file.read_text() == AFTER


def test_a_terminal_that_goes_away_unnoticed_means_that_nobody_is_there(terminal: Spawn, file: Path) -> None:
    line = f"trap '' HUP; {PROGRAM} {' '.join(EDIT)} >out.json; echo $? >status"
    child = terminal("-c", line, program=["bash"])
    child.expect(QUESTION)
    child.ptyproc.fileobj.close()
    for _ in range(100):
        if Path("status").exists() and Path("status").read_text():
            break
        time.sleep(0.05)
    assert Path("status").read_text() == "6\n"
    assert json.loads(Path("out.json").read_text())["approval_required"] is True
    assert file.read_text() == BEFORE
