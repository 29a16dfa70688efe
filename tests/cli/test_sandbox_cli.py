"""`agentengine sandbox`: what it runs, prints, and ends with."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from e2b_server import E2BServer
from e2b_server.service import KEY

from ksadk.sandbox import records
from ksadk.sandbox.probe import probe
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.rule_edits import add_rule

Command = Callable[..., Any]


@pytest.fixture(autouse=True)
def project() -> None:
    """A workspace in the current directory; the tests are skipped where the sandbox does not work."""
    verdict = probe()
    if verdict.diagnosis is not None:
        pytest.skip(verdict.diagnosis.message)
    Path("f.txt").write_text("one\ntwo\n")


def sandboxed(command: Command, *arguments: str) -> Any:
    return command("sandbox", "run", "--root", ".", *arguments)


# Exit statuses


@pytest.mark.parametrize(
    ("line", "status"),
    [("true", 0), ("exit 7", 7), ("exit 124", 124), ("exit 255", 255), ("kill -9 $$", 137)],
)
def test_the_status_is_the_commands_own(command: Command, line: str, status: int) -> None:
    done = sandboxed(command, "--yes", "--", "bash", "-c", line)
    assert done.status == status, done.stderr


def test_a_command_that_is_not_there_is_127(command: Command) -> None:
    done = sandboxed(command, "--yes", "--", "no-such-program-of-ours")
    assert (done.status, done.stdout) == (127, "")
    assert "not found" in done.stderr


def test_time_that_is_over_is_124(command: Command) -> None:
    done = sandboxed(command, "--yes", "--timeout", "1s", "--", "sleep", "30")
    assert done.status == 124
    assert "its time was over" in done.stderr


OURS = [
    (["--", "true"], "approval_required"),
    (["--no-input", "--", "true"], "approval_required"),
    (["--yes", "--", "rm", "-rf", "x"], "command_rejected"),
    (["--yes"], "usage"),
    (["--bad", "--", "true"], "usage"),
    (["--yes", "--timeout", "1h", "--", "true"], "usage"),
    (["--yes", "--timeout", "soon", "--", "true"], "usage"),
    (["--yes", "--memory", "much", "--", "true"], "usage"),
    (["--yes", "--code", "nothing.py"], "usage"),
    (["--yes", "--code", "f.txt", "--", "true"], "usage"),
    (["--yes", "--language", "python", "--", "true"], "usage"),
    (["--yes", "--code", "f.txt", "--language", "cobol"], "unsupported_language"),
    (["--approval", "appr_nothing"], "approval_not_found"),
    (["--approval", "appr_nothing", "--", "true"], "approval_not_found"),
]


@pytest.mark.parametrize(("arguments", "code"), OURS, ids=lambda value: " ".join(value)[:40])
def test_all_that_is_ours_is_125_with_its_code(command: Command, arguments: list[str], code: str) -> None:
    done = sandboxed(command, *arguments)
    assert (done.status, done.stdout) == (125, "")
    assert f"[{code}]" in done.stderr
    done = sandboxed(command, "--json", *arguments)
    assert done.status == 125
    found = done.json.get("error", done.json)
    assert code in (found.get("code"), found.get("error_type"), found.get("type"))


def test_no_sandbox_is_125_and_says_what_to_do(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "none")
    done = sandboxed(command, "--yes", "--", "true")
    assert done.status == 125
    assert "[SandboxError]" in done.stderr and "hint:" in done.stderr


def test_other_commands_keep_the_table_of_statuses(command: Command) -> None:
    assert command("sandbox", "kill", "nothing").status == 1
    assert command("sandbox", "kill").status == 2
    assert "[" not in command("sandbox", "kill", "nothing").stderr


# What is printed


def test_streams_go_where_they_belong(command: Command) -> None:
    done = sandboxed(command, "--yes", "--", "bash", "-c", "cat f.txt; echo oops >&2")
    assert (done.stdout, done.stderr) == ("one\ntwo\n", "oops\n")


def test_an_output_over_the_budget_is_whole_and_leaves_no_file(command: Command) -> None:
    done = sandboxed(command, "--yes", "--", "seq", "100000")
    assert done.stdout == "".join(f"{number}\n" for number in range(1, 100001))
    assert not any(Path().rglob("*seq*")) and not list(Path().rglob("run_command*"))


def test_json_is_the_tools_result(command: Command) -> None:
    done = sandboxed(command, "--yes", "--json", "--", "bash", "-c", "echo hi; exit 3")
    assert done.status == 3
    assert (done.json["stdout"], done.json["exit_code"], done.json["ok"]) == ("hi\n", 3, False)


def test_what_was_blocked_is_said(command: Command) -> None:
    done = sandboxed(command, "--yes", "--", "bash", "-c", "exec 3<>/dev/tcp/192.0.2.1/80")
    assert "network" in done.stderr and "--net" in done.stderr


def test_a_refusal_says_what_would_allow_it(command: Command) -> None:
    done = sandboxed(command, "--yes", "--", "git", "push")
    assert "refused: git push" in done.stderr
    assert "--exact --argv 'git push'" in done.stderr


def test_words_are_words_and_not_lines_of_shell(command: Command) -> None:
    done = sandboxed(command, "--yes", "--", "printf", "%s|", "a b", "$HOME", "*", "'", "; exit 9")
    assert (done.status, done.stdout) == (0, "a b|$HOME|*|'|; exit 9|")


@pytest.mark.parametrize("arguments", [["--", "echo", "-n", "--json"], ["echo", "-n", "--json"]])
def test_what_follows_the_command_is_the_commands(command: Command, arguments: list[str]) -> None:
    assert sandboxed(command, "--yes", *arguments).stdout == "--json"


# Code


@pytest.mark.parametrize(
    ("name", "code", "options"),
    [
        ("s.py", "print('py')", []),
        ("s.sh", "echo py", []),
        ("s.txt", "echo py", ["--language", "bash"]),
        ("s", "print('py')", []),
    ],
)
def test_code_of_a_file(command: Command, name: str, code: str, options: list[str]) -> None:
    Path(name).write_text(code)
    done = sandboxed(command, "--yes", "--code", name, *options)
    assert (done.status, done.stdout) == (0, "py\n"), done.stderr


def test_code_of_stdin(agentengine: Callable[..., Any]) -> None:
    done = agentengine("sandbox", "run", "--root", ".", "--yes", "--code", "-", stdin="print(6 * 7)")
    assert (done.returncode, done.stdout) == (0, "42\n")


# Asking


def test_a_rule_answers(command: Command) -> None:
    add_rule({"allow": "run_command", "argv": ["cat"]})
    assert sandboxed(command, "--", "cat", "f.txt").stdout == "one\ntwo\n"
    assert sandboxed(command, "--", "touch", "f.txt").status == 125
    assert sandboxed(command, "--net", "--", "cat", "f.txt").status == 125, "the rule is about no network"


def test_a_request_that_was_approved_runs(command: Command) -> None:
    done = sandboxed(command, "--json", "--", "cat", "f.txt")
    request = done.json["approval_request"]["id"]
    ToolGateway().store.decide(request, "approved", by="test")
    done = sandboxed(command, "--memory", "64M", "--approval", request)
    assert "[approval_stale]" in done.stderr, "it was shown with other limits"
    done = sandboxed(command, "--approval", request)
    assert (done.status, done.stdout) == (0, "one\ntwo\n")
    assert "[approval_used]" in sandboxed(command, "--approval", request).stderr


def test_a_dry_run_shows_what_each_part_does_and_runs_nothing(command: Command) -> None:
    done = sandboxed(command, "--dry-run", "--net", "--", "bash", "-c", "touch made && git status")
    assert done.status == 0
    assert "touch made" in done.stdout and "git status" in done.stdout and "with a network" in done.stdout
    assert not Path("made").exists()
    assert sandboxed(command, "--dry-run", "--", "git", "push").status == 125


# Memory


def test_memory_is_limited_as_asked(command: Command) -> None:
    take = "x = bytearray(300 * 1024 * 1024); print(len(x))"
    Path("take.py").write_text(take)
    assert sandboxed(command, "--yes", "--code", "take.py").status == 0
    done = sandboxed(command, "--yes", "--memory", "128M", "--code", "take.py")
    assert done.status != 0 and "memory" in done.stderr.lower()


# Copies


MAKE = ["bash", "-c", "sed -i s/two/2/ f.txt; echo new > n.txt"]


def test_changes_in_a_copy_are_shown_and_not_taken_over_by_yes(command: Command) -> None:
    done = sandboxed(command, "--yes", "--diff", "--", *MAKE)
    assert (done.status, done.stdout) == (0, "")
    assert "-two\n+2\n" in done.stderr and "nothing was taken over" in done.stderr
    assert Path("f.txt").read_text() == "one\ntwo\n"
    assert ToolGateway().store.list() == []
    assert list(records.recorded()) == []


def test_changes_in_a_copy_are_taken_over_where_a_rule_allows_it(command: Command) -> None:
    add_rule({"allow": "apply_sandbox_changes"})
    done = sandboxed(command, "--yes", "--diff", "--json", "--", *MAKE)
    assert done.status == 0
    assert [item["path"] for item in done.json["applied"]] == ["f.txt", "n.txt"]
    assert (Path("f.txt").read_text(), Path("n.txt").read_text()) == ("one\n2\n", "new\n")


def test_a_command_that_changes_nothing_says_so(command: Command) -> None:
    done = sandboxed(command, "--yes", "--diff", "--", "cat", "f.txt")
    assert (done.stdout, done.stderr) == ("one\ntwo\n", "nothing was changed\n")


def test_a_copy_can_be_kept_listed_and_ended(command: Command, agentengine: Callable[..., Any]) -> None:
    done = sandboxed(command, "--yes", "--diff", "--keep", "--json", "--", *MAKE)
    [copy] = done.json["kept"]
    [item] = command("sandbox", "list", "--json").json["sandboxes"]
    assert (item["sandbox_id"], item["state"], item["workspace"]) == (copy, "kept", str(Path.cwd()))
    assert Path(item["directory"], "n.txt").read_text() == "new\n"
    assert copy in command("sandbox", "list").stdout
    assert agentengine("--complete", "sandboxes").stdout == f"{copy}\t{Path.cwd()}\n"
    assert command("sandbox", "kill", copy).status == 0
    assert not Path(item["directory"]).exists()
    assert command("sandbox", "list").stdout == "There is no sandbox.\n"


def test_a_sandbox_of_e2b_can_be_kept_and_ended_later(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_TEMPLATE_ID", "base")
    with tempfile.TemporaryDirectory(prefix="e2b-") as directory, E2BServer(Path(directory)) as server:
        for name, value in {**server.environ, "E2B_API_KEY": KEY}.items():
            monkeypatch.setenv(name, value)
        done = sandboxed(command, "--yes", "--", "cat", "f.txt")
        assert (done.status, done.stdout, done.stderr) == (0, "one\ntwo\n", "")
        assert server.sandboxes == {}
        Path("large").write_bytes(bytes(3 << 20))
        done = sandboxed(command, "--yes", "--", "true")
        assert done.stderr == "files of the workspace that are not in the sandbox: 1 too large\n"
        done = sandboxed(command, "--yes", "--keep", "--json", "--", "false")
        [kept] = done.json["kept"]
        assert (done.status, list(server.sandboxes)) == (1, [kept])
        [item] = command("sandbox", "list", "--json").json["sandboxes"]
        assert (item["sandbox_id"], item["state"], item["backend"]) == (kept, "kept", "e2b")
        assert command("sandbox", "kill", kept).status == 0
        assert (server.sandboxes, list(records.recorded())) == ({}, [])


def test_where_there_is_nothing_to_keep_it_is_said(command: Command) -> None:
    assert "nothing was kept" in sandboxed(command, "--yes", "--keep", "--", "true").stderr


# Status


def test_status_tells_the_boundary_and_starts_nothing(command: Command) -> None:
    done = command("sandbox", "status")
    assert done.status == 0
    assert "bubblewrap" in done.stdout and "no host shell is exposed" in done.stdout


def test_a_probe_tells_what_is_promised_and_what_was_measured(command: Command) -> None:
    done = command("sandbox", "status", "--probe", "--json")
    assert done.status == 0, done.stdout
    names = {check["name"] for check in done.json["checks"] if check["holds"]}
    assert {"write outside", "read files", "network", "see processes", "leave a daemon", "memory"} <= names
    assert done.json["probe"] == "passed"


@pytest.mark.parametrize("found", ["", "it was written"])
def test_a_probe_ends_with_1_where_a_promise_does_not_hold(
    command: Command, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    from ksadk.sandbox import escapes

    monkeypatch.setattr(escapes, "ATTEMPTS", {"write outside": ("nothing is written", lambda _: found)})
    done = command("sandbox", "status", "--probe")
    assert done.status == (1 if found else 0)
    assert (found or "held") in done.stdout
    assert ("does not hold what it promises: write outside" in done.stderr) == bool(found)


def test_a_document_of_the_status_has_both(command: Command) -> None:
    assert json.loads(command("sandbox", "status", "--json").stdout)["ok"] is True
