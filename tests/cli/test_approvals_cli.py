"""`agentengine approvals`, and the ways to use what was approved elsewhere."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ksadk.settings import Settings
from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.gateway import ToolGateway, ToolPolicy

Command = Callable[..., Any]
WRITE = ("workspace", "write", "a.txt", "--content", "new", "--root", ".")


def store() -> ApprovalStore:
    return ApprovalStore(Settings.from_env().state_dir() / "approvals.sqlite3")


@pytest.fixture
def waiting(command: Command) -> str:
    """The id of a request that waits to write a.txt."""
    Path("a.txt").write_text("old")
    request_id: str = command(*WRITE).json["approval_request"]["id"]
    return request_id


@pytest.fixture
def approved(waiting: str) -> str:
    store().decide(waiting, "approved", by="somebody")
    return waiting


def test_with_nothing_waiting_the_list_is_empty(command: Command) -> None:
    done = command("approvals", "list")
    assert (done.status, done.stdout) == (0, "Nothing waits for approval in this project.\n")
    assert command("approvals", "list", "--json").json == {
        "ok": True, "requests": [], "in_other_projects": 0,
    }  # fmt: skip


def test_a_request_is_listed_in_its_project_and_with_all_everywhere(
    command: Command, waiting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert waiting in command("approvals", "list").stdout
    [listed] = command("approvals", "list", "--json").json["requests"]
    assert (listed["id"], listed["state"], listed["tool_name"]) == (
        waiting,
        "pending",
        "write_workspace_file",
    )
    monkeypatch.chdir(tmp_path)
    here = command("approvals", "list", "--json").json
    assert (here["requests"], here["in_other_projects"]) == ([], 1)
    assert "1 more in other projects" in command("approvals", "list").stderr
    assert [r["id"] for r in command("approvals", "list", "--all", "--json").json["requests"]] == [waiting]


def test_a_request_is_shown_with_all_that_it_would_do(command: Command, waiting: str) -> None:
    shown = command("approvals", "show", waiting, "--json").json["request"]
    assert shown["arguments"] == {
        "path": "a.txt", "content": "new", "overwrite": True, "encoding": None, "in_place": False,
    }  # fmt: skip
    assert "-old" in shown["plan"]["diff"]
    text = command("approvals", "show", waiting).stdout
    for part in ("write_workspace_file", "medium", "workspace_write", "-old", "+new", waiting,
                 shown["arguments_digest"], shown["expires_at"], "pending"):  # fmt: skip
        assert part in text
    assert "\033[" not in text


def test_a_denial_is_kept_with_its_words_for_whoever_asked(command: Command, waiting: str) -> None:
    done = command("approvals", "deny", waiting, "--reason", "wrong file")
    assert (done.status, done.stdout) == (0, f"denied {waiting}\n")
    assert "wrong file" in command("approvals", "show", waiting).stdout
    used = command(*WRITE, "--approval", waiting, "--json")
    assert (used.status, used.json["type"], used.json["reason"]) == (7, "approval_rejected", "wrong file")
    again = command("approvals", "deny", waiting, "--json")
    assert (again.status, again.json["error"]["code"]) == (1, "approval_decided")
    assert Path("a.txt").read_text() == "old"


@pytest.mark.parametrize("arguments", [("approve",), ("approve", "--edit")], ids=" ".join)
def test_approving_needs_a_terminal(command: Command, waiting: str, arguments: tuple[str, ...]) -> None:
    done = command("approvals", *arguments, waiting, "--json")
    assert (done.status, done.json["error"]["code"]) == (6, "no_terminal")
    assert store().get(waiting).state == "pending"


def test_approving_is_refused_in_what_a_tool_started(
    command: Command, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_INSIDE_TOOL", "1")
    done = command("approvals", "approve", waiting, "--json")
    assert (done.status, done.json["error"]["code"]) == (7, "approval_inside_tool")
    assert store().get(waiting).state == "pending"


@pytest.mark.parametrize("verb", ["show", "approve", "deny"])
def test_an_id_that_is_not_kept_is_said(command: Command, verb: str) -> None:
    done = command("approvals", verb, "appr_nothing", "--json")
    assert (done.status, done.json["error"]["code"]) == (7, "approval_not_found")
    assert "appr_nothing" in done.stderr


# Using what was approved


@pytest.mark.parametrize(
    "call",
    [WRITE, ("workspace", "write"), ("tools", "call"), ("tools", "call", "write_workspace_file")],
    ids=lambda call: " ".join(call[:3]),
)
def test_an_approved_request_runs_once_by_its_id(
    command: Command, approved: str, call: tuple[str, ...]
) -> None:
    done = command(*call, "--approval", approved, "--json")
    assert (done.status, done.json["ok"], done.stderr) == (0, True, "")
    assert Path("a.txt").read_text() == "new"
    again = command(*call, "--approval", approved, "--json")
    assert (again.status, again.json["error_type"]) == (7, "approval_used")


def test_a_request_that_still_waits_does_not_run(command: Command, waiting: str) -> None:
    done = command(*WRITE, "--approval", waiting)
    assert (done.status, done.json["approval_request"]["id"]) == (6, waiting)
    assert Path("a.txt").read_text() == "old"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (("workspace", "write", "a.txt", "--content", "other", "--root", "."), "approval_mismatch"),
        (("workspace", "write", "b.txt", "--content", "new", "--root", "."), "approval_mismatch"),
        (("workspace", "write", "a.txt", "--content", "new"), "approval_mismatch"),
        (("workspace", "delete", "a.txt", "--root", "."), "approval_mismatch"),
        (("workspace", "delete"), "approval_mismatch"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_approval_is_for_no_other_call(
    command: Command, approved: str, call: tuple[str, ...], code: str
) -> None:
    done = command(*call, "--approval", approved, "--json")
    given = done.json.get("error_type") or done.json["error"]["code"]
    assert (done.status, given) == (7, code)
    assert Path("a.txt").read_text() == "old"
    assert store().get(approved).state == "approved"


def test_a_file_that_changed_since_makes_the_approval_stale(command: Command, approved: str) -> None:
    Path("a.txt").write_text("changed")
    for call in (WRITE, ("tools", "call")):
        done = command(*call, "--approval", approved, "--json")
        assert (done.status, done.json["error_type"]) == (7, "approval_stale")
    assert Path("a.txt").read_text() == "changed"


def test_of_eight_processes_that_use_one_approval_one_writes(approved: str) -> None:
    line = [sys.executable, "-m", "agentengine_cli", *WRITE, "--approval", approved, "--json"]
    racers = [
        subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(8)
    ]
    results = [json.loads(racer.communicate(timeout=60)[0]) for racer in racers]
    assert sum(result["ok"] for result in results) == 1
    codes = {result.get("error_type") for result in results if not result["ok"]}
    assert codes <= {"approval_used", "approval_stale"}
    assert Path("a.txt").read_text() == "new"


@pytest.mark.parametrize(("verdict", "status", "content"), [("approved", 0, "new"), ("denied", 7, "old")])
def test_a_call_that_waits_takes_the_answer_that_is_given_elsewhere(
    verdict: Any, status: int, content: str
) -> None:
    Path("a.txt").write_text("old")
    process = subprocess.Popen(
        [sys.executable, "-m", "agentengine_cli", *WRITE, "--wait-approval", "1m"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    request_id = process.stderr.readline().split()[-1]
    store().decide(request_id, verdict, by="elsewhere")
    process.communicate(timeout=30)
    assert process.returncode == status
    assert Path("a.txt").read_text() == content


def test_a_wait_that_ends_without_an_answer_is_expired_and_the_request_is_over(command: Command) -> None:
    Path("a.txt").write_text("old")
    done = command(*WRITE, "--wait-approval", "0.05", "--json")
    assert (done.status, done.json["type"]) == (5, "approval_expired")
    assert command("approvals", "list", "--json").json["requests"] == []
    [kept] = command("approvals", "list", "--all", "--json").json["requests"]
    assert kept["state"] == "expired"
    assert Path("a.txt").read_text() == "old"


def test_hostile_text_in_a_request_is_shown_escaped(command: Command) -> None:
    hostile = "a\033[2J\u202eb"
    request_id = command("workspace", "write", "a.txt", "--content", hostile, "--root", ".").json[
        "approval_request"
    ]["id"]
    text = command("approvals", "show", request_id).stdout
    assert r"a\x1b[2J\u202eb" in text
    assert "\033" not in text
    assert "\u202e" not in text


def test_a_hostile_name_risk_and_effect_are_shown_escaped(command: Command) -> None:
    hostile = "a\033[2J\u202eb"
    gateway = ToolGateway({hostile: ToolPolicy(hostile, (hostile,))}, approval_mode="strict")  # type: ignore[arg-type]
    request_id = gateway.invoke(hostile, store)["approval_request"]["id"]
    text = command("approvals", "show", request_id).stdout
    assert text.count(r"a\x1b[2J\u202eb") >= 3
    assert not set(text) & set("\033\u202e")


@pytest.mark.parametrize("verb", ["list", "show", "deny"])
def test_a_damaged_store_is_said_in_words(command: Command, waiting: str, verb: str) -> None:
    with sqlite3.connect(store().path) as db:
        db.execute("UPDATE requests SET plan = '[1]'")
    db.close()
    done = command("approvals", verb, *([] if verb == "list" else [waiting]), "--json")
    assert (done.status, done.json["error"]["code"]) == (8, "log_unavailable")
    assert waiting in done.stderr
    used = command(*WRITE, "--approval", waiting, "--json")
    assert (used.status, used.json["error_type"]) == (8, "log_unavailable")
    assert Path("a.txt").read_text() == "old"


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are Unicode there")
def test_approval_works_in_a_directory_whose_name_is_not_utf_8(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / os.fsdecode(b"caf\xe9")
    place.mkdir()
    monkeypatch.chdir(place)
    request_id = command(*WRITE).json["approval_request"]["id"]
    assert [r["id"] for r in command("approvals", "list", "--json").json["requests"]] == [request_id]
    store().decide(request_id, "approved", by="somebody")
    assert command(*WRITE, "--approval", request_id).status == 0
    assert (place / "a.txt").read_text() == "new"
    assert command("workspace", "write", "b.txt", "--content", "x", "--root", ".", "--yes").status == 0
