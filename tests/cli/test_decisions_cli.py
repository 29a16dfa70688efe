"""`approvals log`, `verify` and `suggest`, and what a command does when the log cannot be written."""

from __future__ import annotations

import json
import os
import resource
import select
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import fill, small_disk, unprivileged

from ksadk.settings import Settings
from ksadk.tools.decision_log import DecisionLog
from ksadk.tools.gateway import ToolGateway
from ksadk.toolsets.selection import load_builtin_tools

Command = Callable[..., Any]
WRITE = ("workspace", "write", "docs/a.txt", "--root", ".", "--content")
LONG = "x" * 60_000
LONG_WRITE = (*WRITE, LONG, "--yes", "--audit-args")
"""A call whose line is long, too."""


def log() -> DecisionLog:
    return DecisionLog(ToolGateway().store)


@pytest.fixture
def called(command: Command) -> None:
    """One call that was approved, one that nobody was asked about, and one that could not work."""
    assert command(*WRITE, "one", "--yes").status == 0
    assert command(*WRITE, "two").status == 6
    assert command("workspace", "delete", "/etc/passwd", "--root", ".").status == 7


def test_the_log_is_a_table_of_what_was_decided_and_by_whom(command: Command, called: None) -> None:
    shown = command("approvals", "log")
    assert shown.status == 0
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert rows[0] == ["TIME", "LINE", "TOOL", "RISK", "WHAT", "BY"]
    assert [row[1:5] for row in rows[1:]] == [
        ["1", "write_workspace_file", "medium", "allowed"],
        ["2", "write_workspace_file", "medium", "done,"],
        ["3", "write_workspace_file", "medium", "approval_required"],
        ["4", "delete_workspace_file", "high", "not_started"],
    ]
    assert rows[1][-1] == "--yes"


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ([], [1, 2, 3, 4]),
        (["--limit", "2"], [3, 4]),
        (["--limit", "0"], [1, 2, 3, 4]),
        (["--tool", "delete_workspace_file"], [4]),
        (["--outcome", "allowed"], [1, 2]),
        (["--outcome", "approval_required"], [3]),
        (["--since", "1h"], [1, 2, 3, 4]),
        (["--since", "2001-01-01"], [1, 2, 3, 4]),
        (["--since", "2999-01-01T00:00:00Z"], []),
    ],
)
def test_options_choose_lines(command: Command, called: None, options: list[str], numbers: list[int]) -> None:
    shown = command("approvals", "log", "--json", *options).json
    assert shown["ok"]
    assert [line["n"] for line in shown["lines"]] == numbers


@pytest.mark.parametrize("option", [("--outcome", "perhaps"), ("--since", "yesterday"), ("--limit", "-1")])
def test_an_option_that_makes_no_sense_is_a_usage_error(command: Command, option: tuple[str, str]) -> None:
    ended = command("approvals", "log", *option)
    assert ended.status == 2
    assert option[0] in ended.stderr


def test_the_rule_that_decided_is_named_with_its_line(command: Command) -> None:
    assert command("approvals", "rules", "add", "deny", "delete_workspace_file").status == 0
    assert command("workspace", "delete", "f.txt", "--root", ".").status == 7
    (rule,) = command("approvals", "rules", "list", "--json").json["rules"]
    place = f"{rule['file']}:{rule['line']}"
    line = command("approvals", "log", "--json").json["lines"][-1]
    assert (line["outcome"], line["by"], line["rule"]) == (
        "denied_by_rule", "a rule", f"deny delete_workspace_file at {place}",
    )  # fmt: skip
    assert place in command("approvals", "log").stdout


def test_an_empty_log_says_so(command: Command) -> None:
    assert command("approvals", "log").stdout == "The decision log is empty.\n"
    assert command("approvals", "verify").stdout == "The decision log is empty.\n"
    assert command("approvals", "log", "--json").json == {"ok": True, "lines": [], "unreadable": 0}


def test_audit_args_and_log_all_are_options_of_a_call(command: Command) -> None:
    Path("f.txt").write_text("text\n")
    assert command("workspace", "read", "f.txt", "--root", ".").status == 0
    assert command("approvals", "log", "--json").json["lines"] == []
    assert command("workspace", "read", "f.txt", "--root", ".", "--log-all", "--audit-args").status == 0
    decision, result = command("approvals", "log", "--json").json["lines"]
    assert decision["arguments"]["path"] == "f.txt"
    assert result["ok"]


def test_an_answer_given_elsewhere_is_a_line(command: Command) -> None:
    asked = command(*WRITE, "one").json["approval_request"]["id"]
    assert command("approvals", "deny", asked, "--reason", "no").status == 0
    line = command("approvals", "log", "--json").json["lines"][-1]
    assert (line["outcome"], line["by"], line["request"]) == (
        "approval_rejected", "agentengine approvals deny", asked,
    )  # fmt: skip
    assert "code" not in line
    assert command("approvals", "verify").status == 0


def test_verify_ends_with_0_or_1_and_says_which_line(command: Command, called: None) -> None:
    ended = command("approvals", "verify")
    assert (ended.status, ended.stdout) == (0, "lines 1 to 4 are as they were written\n")
    path = log().path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[2:]]))
    ended = command("approvals", "verify")
    assert ended.status == 1
    assert ended.stdout == "decisions.jsonl: line 2 is missing: removed before line 3\n"
    report = command("approvals", "verify", "--json")
    assert (report.status, report.json["ok"]) == (1, False)
    assert report.json["problems"] == [
        {"file": "decisions.jsonl", "at": 0, "line": 2, "problem": "is missing: removed before line 3"}
    ]


def test_a_line_that_cannot_be_read_is_counted(command: Command, called: None) -> None:
    path = log().path
    path.write_bytes(path.read_bytes().replace(b'{"n":2', b'("n":2'))
    shown = command("approvals", "log")
    assert len(shown.stdout.splitlines()) == 4
    assert "1 lines cannot be read: agentengine approvals verify" in shown.stderr


def test_what_a_line_holds_cannot_move_the_cursor(command: Command) -> None:
    log().append({"event": "decision", "tool": "a\x1b[2J\nb", "outcome": "allowed", "by": "\u202e"})
    shown = command("approvals", "log").stdout
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert len(shown.splitlines()) == 2


# When it cannot be written


def test_an_approved_command_does_not_start_without_its_line(command: Command) -> None:
    log().path.mkdir(parents=True)
    ended = command(*WRITE, "one", "--yes")
    assert ended.status == 8
    assert "error: the decision log" in ended.stderr
    assert "hint: " in ended.stderr
    assert command(*WRITE, "one", "--yes", "--json").json["error_type"] == "log_unavailable"
    assert not Path("docs").exists()


def test_a_command_that_needs_no_approval_runs_and_warns(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "off")
    log().path.mkdir(parents=True)
    ended = command(*WRITE, "one")
    assert ended.status == 0
    assert "warning: this call is not in the decision log" in ended.stderr
    assert Path("docs/a.txt").read_text() == "one"


@pytest.mark.parametrize("name", ["log", "verify", "suggest"])
def test_a_log_that_cannot_be_read_is_said_in_clear_words(command: Command, name: str) -> None:
    log().directory.mkdir(parents=True)
    log().path.symlink_to("/dev/full")
    ended = command("approvals", name)
    assert ended.status == 8
    assert "error: the decision log" in ended.stderr
    assert "cannot be read" in ended.stderr


def test_a_home_that_is_a_file_keeps_a_call_that_needs_approval_from_starting(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("file").absolute()))
    assert command(*WRITE, "one", "--yes").status == 8
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "off")
    ended = command(*WRITE, "one", "--json")
    assert (ended.status, ended.json["ok"]) == (0, True)
    assert "decision log" in ended.json["warning"]


def long_log(command: Command) -> None:
    """A log that is longer than the store, whose file has room inside for another long request."""
    for _ in range(6):
        assert command(*LONG_WRITE).status == 0
        store = sqlite3.connect(ToolGateway().store.path)
        with store:
            store.execute("DELETE FROM requests")
        store.close()
    assert command(*WRITE, "one", "--yes").status == 0
    assert log().path.stat().st_size > ToolGateway().store.path.stat().st_size


def is_refused(command: Command, status: int, stderr: str) -> None:
    """A call ended with 8 and without effect, and the chain is whole."""
    assert status == 8, stderr
    assert "cannot be" in stderr
    assert Path("docs/a.txt").read_text() == "one"
    assert command("approvals", "verify").status == 0


def test_a_log_that_may_not_grow_keeps_a_call_that_needs_approval_from_starting(command: Command) -> None:
    """As on a full disk, where none can be mounted: a part of the line fits."""
    long_log(command)
    size = log().path.stat().st_size

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20_000, size + 20_000))

    ended = subprocess.run(
        [sys.executable, "-m", "agentengine_cli", *LONG_WRITE],
        capture_output=True, text=True, preexec_fn=no_room, timeout=30,
    )  # fmt: skip
    is_refused(command, ended.returncode, ended.stderr)
    assert ended.stderr.startswith("error: the decision log ")
    assert log().path.stat().st_size == size
    assert command(*LONG_WRITE).status == 0
    assert command("approvals", "verify").status == 0


def test_a_full_disk_keeps_a_call_that_needs_approval_from_starting(command: Command) -> None:
    """To the last byte, and then with a page more each time, until there is room for all of it."""
    state = ToolGateway().store.path.parent
    with small_disk(state):
        assert command(*WRITE, "one", "--yes").status == 0
        filling = fill(state)
        full = filling.stat().st_size
        for left in range(0, full, 4096):
            os.truncate(filling, full - left)
            ended = command(*WRITE, "two", "--yes")
            if ended.status == 0:
                break
            is_refused(command, ended.status, ended.stderr)
        assert left > 0, "it was full at first"
        assert Path("docs/a.txt").read_text() == "two"
        filling.unlink()
        assert command(*WRITE, "three", "--yes").status == 0
        assert command("approvals", "verify").status == 0


def as_a_plain_user(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs the program where file modes hold, though root runs the tests."""
    return subprocess.run(
        [*unprivileged(), sys.executable, "-m", "agentengine_cli", *arguments],
        capture_output=True, text=True, timeout=30, env={**os.environ, **environ},
    )  # fmt: skip


def test_in_a_home_that_is_read_only_only_what_needs_no_approval_runs(called: None) -> None:
    for path in (log().directory, log().directory.parent):
        path.chmod(0o500)
    for path in (log().path, ToolGateway().store.path):
        path.chmod(0o400)
    ended = as_a_plain_user(*WRITE, "three", "--yes")
    assert ended.returncode == 8, ended.stderr
    assert "error: the approval store" in ended.stderr
    assert Path("docs/a.txt").read_text() == "one"
    ended = as_a_plain_user(*WRITE, "four", KSADK_TOOL_APPROVAL_MODE="off")
    assert ended.returncode == 0, ended.stderr
    assert "warning: this call is not in the decision log" in ended.stderr
    assert Path("docs/a.txt").read_text() == "four"


def test_a_log_that_the_user_may_not_read_is_said_in_clear_words(called: None) -> None:
    log().path.chmod(0)
    for name in ("log", "verify"):
        ended = as_a_plain_user("approvals", name)
        assert ended.returncode == 8, ended.stderr
        assert "decisions.jsonl cannot be read: Permission denied" in ended.stderr
    assert as_a_plain_user(*WRITE, "three", "--yes").returncode == 8
    assert Path("docs/a.txt").read_text() == "one"


# Following


def started(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "agentengine_cli", "approvals", "log", "--follow", *arguments],
        stdout=subprocess.PIPE, bufsize=0,
    )  # fmt: skip


@pytest.fixture
def following(called: None) -> Iterator[subprocess.Popen[bytes]]:
    process = started("--json", "--limit", "1")
    yield process
    process.kill()
    process.communicate(timeout=10)


def next_line(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], 20)[0], "nothing came"
    return json.loads(process.stdout.readline())


def test_follow_prints_lines_as_they_come_also_behind_a_rotation(
    following: subprocess.Popen[bytes],
) -> None:
    assert next_line(following)["n"] == 4
    rotating = DecisionLog(ToolGateway().store, rotation_bytes=1)
    for number in range(5, 9):
        rotating.append({"event": "decision", "tool": f"t{number}"})
        assert (line := next_line(following))["n"] == number, line
    assert rotating.path.read_bytes().count(b"\n") == 1


def test_follow_ends_when_its_reader_has_gone(following: subprocess.Popen[bytes]) -> None:
    assert next_line(following)["n"] == 4
    assert following.stdout is not None
    following.stdout.close()
    following.stdout = None
    assert following.wait(timeout=20) == 0


def test_ctrl_c_ends_follow(called: None) -> None:
    process = started()
    assert process.stdout is not None
    assert b"TIME" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    process.stdout.close()


# Suggestions


def answer(
    tool: str, arguments: dict[str, Any], by: str, outcome: str = "allowed", root: str | None = None
) -> None:
    """A request that was kept, and the line of what somebody said. Its workspace is this directory."""
    from ksadk.tools.approvals import new_request
    from ksadk.tools.registry import Plan, find

    load_builtin_tools()
    store = ToolGateway().store
    request = new_request(
        find(tool), arguments, Plan("s", "w", ""), project=str(Path.cwd()),
        workspace_root=str(Path.cwd()) if root is None else root,
    )  # fmt: skip
    store.create(request)
    log().append(
        {"event": "decision", "tool": tool, "outcome": outcome, "by": by, "request": request.id,
         "project": str(Path.cwd())}
    )  # fmt: skip


def test_what_a_person_approves_again_and_again_is_suggested(command: Command) -> None:
    for number in range(14):
        answer("edit_workspace_file", {"path": f"docs/{number}.md", "old_text": "a"}, "the person at tty")
    for _ in range(6):
        answer("delete_workspace_file", {"path": "tmp/x"}, "the person at tty")
        answer("write_workspace_file", {"path": "src/a.py", "content": ""}, "--yes")
    answer("delete_workspace_file", {"path": "tmp/x"}, "the person at tty", "approval_rejected")
    shown = command("approvals", "suggest", "--json").json
    (suggestion,) = shown["suggestions"]
    assert (suggestion["tool"], suggestion["where"]) == (
        "edit_workspace_file", {"path": f"{Path.cwd()}/docs/**"},
    )  # fmt: skip
    assert (suggestion["approved"], suggestion["denied"]) == (14, 0)
    text = command("approvals", "suggest").stdout
    assert "edit_workspace_file: approved 14 times, denied 0" in text
    assert suggestion["command"] in text
    assert suggestion["yaml"] in text
    assert not (Settings.from_env().config_dir() / "rules.yaml").exists(), "nothing is saved"
    assert "Nothing was approved 15 times" in command("approvals", "suggest", "--times", "15").stdout


@pytest.mark.parametrize("denied", ["docs/private/key", "docs/a/b/c.md", "docs/no.md"])
def test_a_directory_in_which_something_was_denied_is_not_suggested(command: Command, denied: str) -> None:
    for number in range(6):
        answer("write_workspace_file", {"path": f"docs/{number}.md", "content": ""}, "the person at tty")
    assert len(command("approvals", "suggest", "--json").json["suggestions"]) == 1
    answer("write_workspace_file", {"path": denied, "content": ""}, "me", "approval_rejected")
    assert command("approvals", "suggest", "--json").json["suggestions"] == []


def test_a_call_whose_arguments_are_not_kept_is_told_of_and_holds_back(command: Command) -> None:
    for number in range(6):
        answer("edit_workspace_file", {"path": f"docs/{number}.md"}, "the person at tty")
    lost = {"event": "decision", "tool": "edit_workspace_file", "project": str(Path.cwd())}
    log().append({**lost, "outcome": "allowed", "by": "the person at tty", "request": "appr_gone1"})
    ended = command("approvals", "suggest")
    assert "docs/**" in ended.stdout
    assert "1 approved calls of edit_workspace_file are not counted" in ended.stderr
    log().append({**lost, "outcome": "approval_rejected", "by": "me", "request": "appr_gone2"})
    ended = command("approvals", "suggest")
    assert "docs/**" not in ended.stdout
    assert "nothing is suggested for edit_workspace_file" in ended.stderr


def test_of_high_risk_only_exact_calls_are_suggested(command: Command, tmp_path: Path) -> None:
    other = tmp_path / "other[1]"
    other.mkdir()
    for number in range(6):
        answer("delete_workspace_file", {"path": f"docs/{number}.md"}, "the person at tty", root=str(other))
    assert command("approvals", "suggest", "--json").json["suggestions"] == []
    for _ in range(4):
        answer("delete_workspace_file", {"path": "docs/0.md"}, "the person at tty", root=str(other))
    (suggestion,) = command("approvals", "suggest", "--json").json["suggestions"]
    assert suggestion["where"] == {"path": f"{tmp_path}/other[[]1]/docs/0.md"}
    rules = Settings.from_env().config_dir() / "rules.yaml"
    rules.parent.mkdir(parents=True, exist_ok=True)
    rules.write_text("rules:\n" + suggestion["yaml"])
    call = "delete_workspace_file path=docs/{}.md"
    assert decided(command, call.format(0), "--root", str(other)) == "allow"
    assert decided(command, call.format(1), "--root", str(other)) == "none"
    assert decided(command, call.format(0), "--root", ".") == "none"


def test_workspaces_are_counted_apart_and_an_unknown_one_not_at_all(command: Command, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for root in (*[str(other)] * 3, *[str(Path.cwd())] * 3, *[""] * 6):
        answer("edit_workspace_file", {"path": "docs/a.md"}, "the person at tty", root=root)
    ended = command("approvals", "suggest", "--times", "4")
    assert "Nothing was approved 4 times" in ended.stdout
    assert "6 approved calls of edit_workspace_file are not counted: their workspace" in ended.stderr
    shown = command("approvals", "suggest", "--times", "3", "--json").json["suggestions"]
    assert sorted(s["where"]["path"] for s in shown) == sorted(
        f"{root}/docs/**" for root in (other, Path.cwd())
    )
    answer("edit_workspace_file", {"path": "src/a"}, "me", "approval_rejected", root="")
    ended = command("approvals", "suggest", "--times", "3")
    assert "nothing is suggested for edit_workspace_file" in ended.stderr
    assert "/docs/" not in ended.stdout


def decided(command: Command, call: str, *options: str) -> str:
    """What the rules say of a call."""
    verdict: str = command("approvals", "rules", "test", call, *options, "--json").json["decision"]
    return verdict


@pytest.mark.parametrize(
    ("tool", "arguments", "call", "other"),
    [
        ("edit_workspace_file", {"path": "docs/a b.md"}, "edit_workspace_file path=docs/c.md",
         "edit_workspace_file path=src/c.md"),
        ("edit_workspace_file", {"path": "./f.txt"}, "edit_workspace_file path=f.txt",
         "edit_workspace_file path=g.txt"),
        ("run_command", {"command": "make $b"}, "run_command command='make $b'",
         "run_command command=make"),
    ],
)  # fmt: skip
def test_a_suggestion_is_a_rule_that_lets_the_like_through_and_nothing_else(
    command: Command, tool: str, arguments: dict[str, Any], call: str, other: str
) -> None:
    """Its command line and its YAML say the same, and the rules take both."""
    for _ in range(5):
        answer(tool, arguments, "the person at tty")
    (suggestion,) = command("approvals", "suggest", "--json").json["suggestions"]
    words = shlex.split(suggestion["command"])
    assert words[:6] == ["agentengine", "approvals", "rules", "add", "allow", tool]
    words[4] = "ask"  # one that allows is saved at a terminal only
    added = command(*words[1:])
    assert added.status == 0, added.stderr
    assert decided(command, call, "--root", ".") == "ask"
    assert decided(command, other, "--root", ".") == "none"
    rules = Settings.from_env().config_dir() / "rules.yaml"
    rules.write_text("rules:\n" + suggestion["yaml"])
    assert decided(command, call, "--root", ".") == "allow"
    assert decided(command, other, "--root", ".") == "none"
