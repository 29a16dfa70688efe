"""A call that nobody was there to approve, answered in another terminal, and run once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import AFTER, BEFORE, EDIT, EDITED, QUESTION, TO_ZWEI, Asked, Run, Spawn, editor, ended


def approve(terminal: Spawn, request_id: str, key: str = "y") -> int:
    child = terminal("approvals", "approve", request_id)
    child.expect(QUESTION)
    child.send(key)
    return ended(child)[0]


def test_the_envelope_is_on_stdout_and_the_file_as_it_was(agentengine: Run, file: Path) -> None:
    call = agentengine(*EDIT)
    assert call.returncode == 6
    envelope = json.loads(call.stdout)
    assert {key: envelope[key] for key in ("ok", "type", "approval_required")} == {
        "ok": False, "type": "approval_required", "approval_required": True,
    }  # fmt: skip
    request = envelope["approval_request"]
    assert request["id"].startswith("appr_")
    assert request["tool_name"] == "edit_workspace_file"
    assert request["risk_level"] == "medium"
    assert request["side_effects"] == ["workspace_edit"]
    assert set(request) >= {"expires_at", "arguments_digest"}
    assert file.read_text() == BEFORE
    assert request["id"] in call.stderr
    assert "or use --yes." in call.stderr


@pytest.mark.parametrize("arguments", [EDIT, ("workspace", "edit"), ("tools", "call")])
def test_an_approved_id_runs_exactly_that_call(
    arguments: tuple[str, ...], agentengine: Run, terminal: Spawn, asked: Asked, file: Path
) -> None:
    request = asked(*EDIT)
    assert approve(terminal, request["id"]) == 0
    assert file.read_text() == BEFORE, "approving runs nothing"
    call = agentengine(*arguments, "--approval", request["id"])
    assert call.returncode == 0, call.stderr
    assert file.read_text() == AFTER


def test_an_id_that_nobody_approved_yet_still_needs_approval(
    agentengine: Run, asked: Asked, file: Path
) -> None:
    request = asked(*EDIT)
    call = agentengine(*EDIT, "--approval", request["id"])
    assert call.returncode == 6
    assert json.loads(call.stdout)["approval_request"]["id"] == request["id"]
    assert file.read_text() == BEFORE


def test_an_id_is_used_once(agentengine: Run, terminal: Spawn, asked: Asked) -> None:
    write = ("workspace", "write", "new.txt", "--content", "x", "--root", ".")
    request = asked(*write)
    assert approve(terminal, request["id"]) == 0
    assert agentengine(*write, "--approval", request["id"]).returncode == 0
    Path("new.txt").unlink()
    again = agentengine(*write, "--approval", request["id"], "--json")
    assert again.returncode == 7
    assert json.loads(again.stdout)["error_type"] == "approval_used"
    assert not Path("new.txt").exists()


def test_of_eight_processes_with_one_id_one_runs(terminal: Spawn, asked: Asked, file: Path) -> None:
    request = asked(*EDIT)
    assert approve(terminal, request["id"]) == 0
    command = [sys.executable, "-m", "agentengine_cli", *EDIT, "--approval", request["id"], "--json"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    results = [json.loads(process.communicate(timeout=60)[0]) for process in started]
    assert sum(result["ok"] for result in results) == 1
    assert {result["error_type"] for result in results if not result["ok"]} <= {
        "approval_used", "approval_stale", "snippet_not_found", "file_modified_since_read",
    }  # fmt: skip
    assert file.read_text() == AFTER


def test_other_arguments_are_refused(agentengine: Run, terminal: Spawn, asked: Asked, file: Path) -> None:
    request = asked(*EDIT)
    assert approve(terminal, request["id"]) == 0
    other = ("workspace", "edit", "f.txt", "--old", "one", "--new", "1", "--root", ".")
    call = agentengine(*other, "--approval", request["id"], "--json")
    assert call.returncode == 7
    assert json.loads(call.stdout)["error_type"] == "approval_mismatch"
    assert file.read_text() == BEFORE


def test_another_tool_is_refused(agentengine: Run, terminal: Spawn, asked: Asked, file: Path) -> None:
    request = asked(*EDIT)
    assert approve(terminal, request["id"]) == 0
    call = agentengine("workspace", "delete", "f.txt", "--root", ".", "--approval", request["id"], "--json")
    assert call.returncode == 7
    assert json.loads(call.stdout)["error_type"] == "approval_mismatch"
    assert file.exists()


def test_a_file_that_changed_after_approval_is_stale(
    agentengine: Run, terminal: Spawn, asked: Asked, file: Path
) -> None:
    request = asked(*EDIT)
    assert approve(terminal, request["id"]) == 0
    file.write_text("one\ntwo\nfour\n")
    assert agentengine("workspace", "read", "f.txt", "--root", ".").returncode == 0
    call = agentengine(*EDIT, "--approval", request["id"], "--json")
    assert call.returncode == 7
    assert json.loads(call.stdout)["error_type"] == "approval_stale"
    assert file.read_text() == "one\ntwo\nfour\n"


def test_n_at_another_terminal_denies_with_7(
    agentengine: Run, terminal: Spawn, asked: Asked, file: Path
) -> None:
    request = asked(*EDIT)
    assert approve(terminal, request["id"], "n") == 7
    assert agentengine(*EDIT, "--approval", request["id"]).returncode == 7
    assert file.read_text() == BEFORE


def test_a_denial_elsewhere_carries_its_words(agentengine: Run, asked: Asked, file: Path) -> None:
    request = asked(*EDIT)
    assert agentengine("approvals", "deny", request["id"], "--reason", "wrong file").returncode == 0
    call = agentengine(*EDIT, "--approval", request["id"], "--json")
    assert call.returncode == 7
    assert json.loads(call.stdout)["reason"] == "wrong file"


def test_edited_elsewhere_the_stored_call_is_the_edited_one(
    agentengine: Run, terminal: Spawn, asked: Asked, file: Path
) -> None:
    request = asked(*EDIT)
    child = terminal("approvals", "approve", request["id"], "--edit", VISUAL=editor(TO_ZWEI))
    child.expect(QUESTION)
    child.send("y")
    assert ended(child)[0] == 0
    assert agentengine(*EDIT, "--approval", request["id"]).returncode == 7, (
        "the first arguments were not approved"
    )
    assert agentengine("workspace", "edit", "--approval", request["id"]).returncode == 0
    assert file.read_text() == EDITED


def test_q_at_another_terminal_leaves_the_request_waiting(terminal: Spawn, asked: Asked, file: Path) -> None:
    request = asked(*EDIT)
    assert approve(terminal, request["id"], "q") == 6
    assert approve(terminal, request["id"], "y") == 0


def test_a_question_elsewhere_that_expires_ends_with_5(terminal: Spawn, agentengine: Run, file: Path) -> None:
    call = agentengine(*EDIT, KSADK_TOOL_APPROVAL_TTL_SECONDS="3")
    child = terminal("approvals", "approve", json.loads(call.stdout)["approval_request"]["id"])
    child.expect(QUESTION)
    assert ended(child)[0] == 5


def test_a_used_request_is_not_asked_about_again(agentengine: Run, terminal: Spawn, asked: Asked) -> None:
    write = ("workspace", "write", "new.txt", "--content", "x", "--root", ".")
    request = asked(*write)
    assert approve(terminal, request["id"]) == 0
    assert agentengine(*write, "--approval", request["id"]).returncode == 0
    status, printed = ended(terminal("approvals", "approve", request["id"]))
    assert status == 7
    assert "used already" in printed


def test_an_approved_call_runs_in_its_own_project_only(
    agentengine: Run, terminal: Spawn, asked: Asked, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked(*EDIT)
    assert approve(terminal, request["id"]) == 0
    elsewhere = Path("elsewhere")
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    call = agentengine("tools", "call", "--approval", request["id"], "--json")
    assert call.returncode == 7
    assert json.loads(call.stdout)["error_type"] == "approval_mismatch"
    assert (Path("..") / file).read_text() == BEFORE


def test_a_request_is_edited_from_anywhere(
    agentengine: Run, terminal: Spawn, asked: Asked, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked(*EDIT)
    here = Path.cwd()
    visual = editor(TO_ZWEI)
    monkeypatch.chdir("/")
    child = terminal("approvals", "approve", request["id"], "--edit", VISUAL=visual, NO_COLOR="1")
    child.expect(QUESTION)
    assert "+zwei" in child.before
    child.send("y")
    assert ended(child)[0] == 0
    monkeypatch.chdir(here)
    assert agentengine("workspace", "edit", "--approval", request["id"]).returncode == 0
    assert file.read_text() == EDITED


def test_what_has_changed_is_told_before_anyone_approves_it(
    terminal: Spawn, asked: Asked, file: Path
) -> None:
    request = asked(*EDIT)
    file.write_text("two\n")
    status, printed = ended(terminal("approvals", "approve", request["id"]))
    assert status in (1, 7)
    assert "approve?" not in printed


def test_waiting_runs_once_it_is_approved(terminal: Spawn, file: Path) -> None:
    process, request_id = waiting()
    assert approve(terminal, request_id) == 0
    assert process.wait(30) == 0
    assert file.read_text() == AFTER


def test_waiting_ends_with_7_when_it_is_denied(agentengine: Run, file: Path) -> None:
    process, request_id = waiting()
    assert agentengine("approvals", "deny", request_id, "--reason", "no").returncode == 0
    assert process.wait(30) == 7
    assert file.read_text() == BEFORE


def test_waiting_ends_with_5_when_nobody_answers(agentengine: Run, file: Path) -> None:
    call = agentengine(*EDIT, "--wait-approval", "1s", "--json")
    assert call.returncode == 5
    assert json.loads(call.stdout)["type"] == "approval_expired"
    [kept] = json.loads(agentengine("approvals", "list", "--all", "--json").stdout)["requests"]
    assert kept["state"] == "expired", "an answer that comes too late cannot be used"


def waiting() -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "agentengine_cli", *EDIT, "--wait-approval", "30s"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    return process, process.stderr.readline().split()[-1]


def test_yes_approves_what_the_command_names(agentengine: Run, file: Path) -> None:
    assert agentengine(*EDIT, "--yes").returncode == 0
    assert file.read_text() == AFTER


def test_eight_processes_that_edit_different_lines_all_land_with_yes(agentengine: Run) -> None:
    file = Path("lines.txt")
    file.write_text("".join(f"line {n}\n" for n in range(8)))
    assert agentengine("workspace", "read", "lines.txt", "--root", ".").returncode == 0
    edit = [sys.executable, "-m", "agentengine_cli", "workspace", "edit", "lines.txt", "--root", ".", "--yes"]
    started = [
        subprocess.Popen([*edit, "--old", f"line {n}", "--new", f"LINE {n}"], stdout=subprocess.DEVNULL)
        for n in range(8)
    ]
    assert [process.wait(60) for process in started] == [0] * 8
    assert file.read_text() == "".join(f"LINE {n}\n" for n in range(8))


def test_yes_does_not_approve_what_that_calls(agentengine: Run, file: Path) -> None:
    arguments = {"action": "call", "tool_name": "delete_workspace_file", "arguments": {"path": "f.txt"}}
    call = agentengine(
        "tools", "call", "tool_dispatcher", "--args", json.dumps(arguments), "--root", ".", "--yes"
    )
    assert call.returncode == 6
    assert json.loads(call.stdout)["dispatched_tool_name"] == "delete_workspace_file"
    assert "Then run this again with --approval appr_" in call.stderr
    assert "--yes" not in call.stderr, "it was given, and would not help"
    assert file.exists()
