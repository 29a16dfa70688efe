"""What every command prints and how it ends: exit statuses, JSON and pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentengine_cli import output
from agentengine_cli.main import run
from ksadk import toolsets
from ksadk.errors import CODES, Code, Kind, KsadkError

Run = Callable[..., subprocess.CompletedProcess[str]]
PROGRAM = [sys.executable, "-m", "agentengine_cli"]
LONG = "word [red]bracketed[/red] [x] " * 10 + "中文\u202eevil"


def document(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception | list[dict[str, Any]]], None]:
    """Lets `tools list` raise an error, or list these tools."""

    def speak(what: Any) -> None:
        def describe(*_: Any, **__: Any) -> Any:
            if isinstance(what, BaseException):
                raise what
            return what

        monkeypatch.setattr(toolsets, "describe_agentengine_tools", describe, raising=False)

    return speak


def tool(description: str) -> dict[str, Any]:
    return {
        "name": "t", "group": "g", "risk_level": "low", "requires_approval": False, "enabled": True,
        "description": description,
    }  # fmt: skip


# Exit statuses


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("failed", 1),
        ("usage", 2),
        ("unreachable", 3),
        ("authentication", 4),
        ("timeout", 5),
        ("approval", 6),
        ("denied", 7),
        ("unavailable", 8),
    ],
)
def test_each_kind_of_error_has_its_exit_status(
    kind: Kind, status: int, spoken: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CODES, "of_that_kind", Code(kind, "x"))
    spoken(KsadkError("no", code="of_that_kind"))
    assert run(["tools", "list"]) == status
    assert output.result_status({"ok": False, "error_type": "of_that_kind"}) == status


def test_the_help_documents_every_exit_status(agentengine: Run) -> None:
    words = " ".join(agentengine("--help").stdout.split())
    for status in (0, *output.EXIT_STATUS.values(), 130):
        assert f" {status} " in words.partition("Exit status:")[2]


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("tools", "list"), 0, None),
        (("a2a", "card", "."), 1, "project_not_found"),
        (("tools", "describe", "nothing"), 2, "unknown_tool"),
        (("tools", "call", "read_workspace_file"), 2, "invalid_arguments"),
        (("tools", "nothing"), 2, "usage"),
        (("nothing",), 2, "usage"),
        (("workspace", "write", "a", "--content", "x", "--wait-approval", "0.1s"), 5, "approval_expired"),
        (("workspace", "write", "a", "--content", "x"), 6, "approval_required"),
        (("workspace", "read", "../secret"), 7, "path_outside_workspace"),
        (("approvals", "show", "appr_x"), 7, "approval_not_found"),
        (("tools", "call", "run_command", "command=ls"), 8, "SandboxError"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_ends_with_the_status_of_what_happened(
    agentengine: Run,
    arguments: tuple[str, ...],
    status: int,
    code: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "none")
    done = agentengine(*arguments, "--json")
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    said = document(done)
    given = said.get("error", {}).get("code") or said.get("error_type") or said.get("type")
    assert given == code
    assert agentengine(*arguments).returncode == status


def test_an_interrupted_command_ends_with_130(spoken: Callable[..., None]) -> None:
    spoken(KeyboardInterrupt())
    assert run(["tools", "list"]) == 130


def test_ctrl_c_while_a_command_waits_ends_it_with_130_and_no_traceback() -> None:
    process = subprocess.Popen(
        [*PROGRAM, "workspace", "write", "a", "--content", "x", "--wait-approval", "60s"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline().startswith("waiting for approval: agentengine approvals approve appr_")
    process.send_signal(signal.SIGINT)
    said, words = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "")
    assert "Traceback" not in words


def test_a_bug_looks_like_one(spoken: Callable[..., None]) -> None:
    spoken(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        run(["tools", "list"])


# JSON


@pytest.mark.parametrize("asked", ["--json", "-o json", "-ojson", "--output json", "--output=json"])
def test_json_can_be_asked_for_in_every_spelling_and_place(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in (
        f"describe no {asked}",
        f"describe {asked} no",
        f"describe no --bad {asked}",
        f"bad {asked}",
    ):
        assert run(["tools", *line.split()]) == 2
        said, words = capsys.readouterr()
        error = json.loads(said)["error"]
        assert error.keys() == {"code", "message", "hint"}
        assert words == f"error: {error['message']}\nhint: {error['hint']}\n"


def test_the_last_format_wins_and_text_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tools", "list", "--json", "-o", "text"]) == 0
    assert capsys.readouterr().out.startswith("NAME ")
    assert run(["tools", "list", "-o", "text", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert run(["tools", "list"]) == 0
    assert capsys.readouterr().out.startswith("NAME ")


def test_a_format_that_is_none_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tools", "list", "-o", "yaml"]) == 2
    assert "'yaml' is not text or json" in capsys.readouterr().err


def test_a_result_is_the_document_whatever_the_exit_status(agentengine: Run) -> None:
    done = agentengine("tools", "call", "read_workspace_file", "path=absent", "--json")
    result = document(done)
    assert (done.returncode, result["ok"]) == (1, False)
    assert result["error_message"] in done.stderr
    assert "error" not in result


def test_an_envelope_is_on_stdout_also_without_json_and_stderr_says_what_to_do(agentengine: Run) -> None:
    done = agentengine("workspace", "write", "a", "--content", "x")
    request_id = document(done)["approval_request"]["id"]
    assert f"agentengine approvals approve {request_id}" in done.stderr
    assert f"--approval {request_id}" in done.stderr


def test_json_is_neither_wrapped_nor_stripped_of_brackets(
    spoken: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    spoken([tool(LONG)])
    run(["tools", "list", "--json"])
    said = capsys.readouterr().out
    assert json.loads(said)["tools"][0]["description"] == LONG
    assert max(len(line) for line in said.splitlines()) > len(LONG)
    assert "中文" in said


@pytest.mark.parametrize(
    "environ",
    [
        {"PYTHONIOENCODING": "cp850"},
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["cp850", "C"],
)
def test_a_console_of_another_encoding_gets_json_in_utf_8_and_text_with_escapes(
    environ: dict[str, str],
) -> None:
    Path(".agentengine/ui/workspace").mkdir(parents=True)
    Path(".agentengine/ui/workspace/中文.txt").write_text("x")
    for json_asked in (["--json"], []):
        done = subprocess.run(
            [*PROGRAM, "workspace", "list", *json_asked],
            env={**os.environ, **environ},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        if json_asked:
            assert json.loads(done.stdout.decode("utf-8"))["entries"][0]["name"] == "中文.txt"
        else:
            assert rb"\u4e2d\u6587.txt" in done.stdout


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are Unicode there")
def test_a_name_that_is_no_unicode_is_written_as_an_escape(agentengine: Run) -> None:
    root = Path(".agentengine/ui/workspace")
    root.mkdir(parents=True)
    (Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.txt"))).write_text("x")
    done = agentengine("workspace", "list", "--json")
    assert done.returncode == 0
    assert document(done)["ok"] is True


# Pipes


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("command", "status"),
    [("tools list", 0), ("tools list --json", 0), ("--help", 0), ("tools describe nothing --json", 2)],
)
def test_a_reader_that_goes_away_is_no_error(command: str, status: int, unbuffered: str) -> None:
    readers, writers = os.pipe()
    os.close(readers)
    done = subprocess.run(
        [*PROGRAM, *command.split()], stdout=writers, stderr=subprocess.PIPE, text=True, check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )  # fmt: skip
    os.close(writers)
    assert done.returncode == status
    assert "Broken" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_head_takes_its_line_and_nothing_is_said(unbuffered: str) -> None:
    line = f"{sys.executable} -m agentengine_cli tools list | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("NAME ")
    assert done.stdout.count("\n") == 1


def test_an_error_keeps_its_status_when_nobody_reads_stderr() -> None:
    readers, writers = os.pipe()
    os.close(readers)
    done = subprocess.run([*PROGRAM, "tools", "describe", "nothing"], stderr=writers, check=False)
    os.close(writers)
    assert done.returncode == 2


# The program itself


def test_the_module_and_the_version_work(agentengine: Run) -> None:
    done = agentengine("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("agentengine ")


def test_a_bare_group_shows_its_help(agentengine: Run) -> None:
    for group in ([], ["tools"], ["approvals"], ["workspace"]):
        done = agentengine(*group)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == agentengine(*group, "--help").stdout


def test_a_command_that_is_misspelt_is_guessed(agentengine: Run) -> None:
    done = agentengine("tolls", "list")
    assert done.returncode == 2
    assert "Did you mean 'tools'?" in done.stderr


def test_one_run_leaves_nothing_for_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    run(["tools", "list", "--json"])
    capsys.readouterr()
    run(["tools", "list"])
    assert capsys.readouterr().out.startswith("NAME ")
