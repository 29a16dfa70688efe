"""The prompt under hostile text, keys that are no answer, and editors that misbehave."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support import AFTER, BEFORE, EDIT, QUESTION, Asked, Spawn, editor, ended

from ksadk.runtime_context import workspace_root_scope
from ksadk.tools.approvals import ApprovalRequest
from ksadk.tools.gateway import ToolGateway, ToolPolicy
from ksadk.toolsets import workspace

WRITE = ("workspace", "write", "g.txt", "--root", ".", "--content")


def request_under(policy: ToolPolicy) -> ApprovalRequest:
    """A request to write a.txt, made by a program that declares its risk and its effects itself."""
    gateway = ToolGateway({"write_workspace_file": policy}, approval_mode="strict")
    with workspace_root_scope(Path.cwd()):
        result = gateway.invoke("write_workspace_file", workspace.write_workspace_file, "a.txt", "new")
    return gateway.store.get(result["approval_request"]["id"])


# Text


def test_control_characters_of_effects_are_escaped_at_the_prompt(terminal: Spawn) -> None:
    request = request_under(ToolPolicy("hi\033[2Jgh", ("\033[2Jeff\u202e",)))  # type: ignore[arg-type]
    child = terminal("approvals", "approve", request.id, NO_COLOR="1")
    child.expect(QUESTION)
    assert r"\x1b[2Jeff\u202e" in child.before
    assert r"hi\x1b[2Jgh" in child.before
    assert "\033[2J" not in child.before
    assert "\u202e" not in child.before


@pytest.mark.parametrize("command", ["show", "list", "approve"])
def test_control_characters_of_a_tools_name_reach_no_terminal(terminal: Spawn, command: str) -> None:
    def harmless(path: str) -> None: ...

    gateway = ToolGateway({"t\033[2J\u202e": ToolPolicy("high")}, approval_mode="strict")
    request_id = gateway.invoke("t\033[2J\u202e", harmless, "p")["approval_request"]["id"]
    arguments = [] if command == "list" else [request_id]
    _, printed = ended(terminal("approvals", command, *arguments, NO_COLOR="1"))
    assert r"t\x1b[2J\u202e" in printed
    assert not set(printed) & set("\033\u202e")


def test_a_very_long_line_loses_its_middle_until_everything_is_asked_for(terminal: Spawn) -> None:
    Path("long.txt").write_text("begin" + "x" * 100_000 + "end\n")
    child = terminal(*WRITE, "@long.txt", NO_COLOR="1")
    child.expect(QUESTION)
    assert len(child.before) < 5_000
    preview = child.before.partition("---")[2]
    assert "+beginx" in preview
    assert "xend" in preview, "the end is never cut"
    child.send("?")
    child.expect(QUESTION)
    assert len(child.before) > 100_000
    child.send("n")


# Keys


@pytest.mark.parametrize("typed", ["yes", "no thanks", "q\nx"])
def test_a_key_that_is_part_of_a_word_is_no_answer(terminal: Spawn, typed: str) -> None:
    child = terminal(*WRITE, "x")
    child.expect(QUESTION)
    child.send(typed)
    time.sleep(0.2)
    assert child.isalive()
    assert not Path("g.txt").exists()
    child.send("y")
    assert ended(child)[0] == 0


def test_a_key_that_is_typed_while_the_preview_is_drawn_is_no_answer(terminal: Spawn) -> None:
    """The preview is more than a terminal holds, so that the program still draws when the key comes."""
    Path("big.txt").write_text(("x" * 500 + "\n") * 600)
    child = terminal(*WRITE, "@big.txt")
    child.expect(QUESTION)
    child.send("?")
    child.expect("digest")
    child.send("y")
    child.expect(QUESTION)
    time.sleep(0.2)
    assert child.isalive()
    assert not Path("g.txt").exists()
    child.send("n")
    assert ended(child)[0] == 7


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("fwrong file\n", "wrong file"),
        ("f中文 too\n", "中文 too"),
        ("f\n", None),
    ],
    ids=ascii,
)
def test_f_may_be_followed_by_its_words(terminal: Spawn, typed: str, reason: str | None) -> None:
    child = terminal(*WRITE, "x", "--json")
    child.expect(QUESTION)
    child.send(typed)
    child.expect("why\\? ")
    if reason is None:
        child.sendline("because")
    status, printed = ended(child)
    assert status == 7
    assert f'"reason": "{reason or "because"}"' in printed


def test_words_that_are_not_utf_8_are_words_too(terminal: Spawn) -> None:
    child = terminal(*WRITE, "x", "--json")
    child.expect(QUESTION)
    child.send("f")
    child.expect("why\\? ")
    os.write(child.child_fd, b"caf\xe9 \xff\n")
    status, printed = ended(child)
    assert status == 7
    assert '"reason": "caf\ufffd' in printed
    assert "Traceback" not in printed


# Editors


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("file.write_text('{\"path\": ' + '[' * 100_000 + ']' * 100_000 + '}')", "are not JSON"),
        ("file.write_text('[1]')", "are not a JSON object"),
        ("file.unlink()", "cannot be read"),
        ("file.write_bytes(b'\\xff')", "cannot be read"),
    ],
    ids=["deep", "list", "deleted", "not UTF-8"],
)
def test_what_an_editor_leaves_is_checked_and_asked_about_again(
    terminal: Spawn, file: Path, script: str, said: str
) -> None:
    child = terminal(*EDIT, VISUAL=editor(script))
    child.expect(QUESTION)
    child.send("e")
    child.expect(said)
    child.expect(QUESTION)
    child.send("y")
    assert ended(child)[0] == 0
    assert file.read_text() == AFTER


@pytest.mark.parametrize(
    ("visual", "said"), [('"x', "is not a command"), ("no-such-editor", "cannot be started")]
)
def test_an_editor_that_is_no_command_is_said(terminal: Spawn, file: Path, visual: str, said: str) -> None:
    child = terminal(*EDIT, VISUAL=visual)
    child.expect(QUESTION)
    child.send("e")
    child.expect(said)
    child.expect(QUESTION)
    child.send("n")
    assert ended(child)[0] == 7
    assert file.read_text() == BEFORE


# What is approved is what was shown


def test_a_person_does_not_approve_what_was_edited_while_they_looked(
    terminal: Spawn, asked: Asked, file: Path
) -> None:
    store = ToolGateway().store
    shown = store.get(asked(*EDIT)["id"])
    child = terminal("approvals", "approve", shown.id, "--json")
    child.expect(QUESTION)
    store.amend(replace(shown, arguments={"path": "other"}, arguments_digest="other"))
    child.send("y")
    status, printed = ended(child)
    assert status == 7
    assert '"code": "approval_mismatch"' in printed
    assert store.get(shown.id).state == "pending"


def test_a_request_is_planned_in_its_project_wherever_it_is_approved(
    terminal: Spawn, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workspace is the project's own, which another directory would not find."""
    target = Path(".agentengine/ui/workspace/g.txt").absolute()
    target.parent.mkdir(parents=True)
    target.write_text("there already\n")
    request = asked("workspace", "write", "g.txt", "--content", "new\n")
    here = Path.cwd()
    monkeypatch.chdir("/")
    child = terminal("approvals", "approve", request["id"], NO_COLOR="1")
    child.expect(QUESTION)
    assert "-there already" in child.before
    child.send("y")
    assert ended(child)[0] == 0
    monkeypatch.chdir(here)
    assert ended(terminal("tools", "call", "--approval", request["id"]))[0] == 0
    assert target.read_text() == "new\n"


def test_a_yes_for_the_session_is_not_for_what_a_tool_starts_nor_for_another_session(
    terminal: Spawn,
) -> None:
    program = " ".join([sys.executable, "-m", "agentengine_cli", *WRITE, "hello"])
    shell = terminal(program=["bash", "--norc", "--noprofile"], PS1="ready> ")
    shell.expect("ready> ")
    shell.sendline(f"{program}; echo status=$?")
    shell.expect(QUESTION)
    shell.send("s")
    shell.expect("status=0")
    shell.sendline(f"KSADK_INSIDE_TOOL=1 {program}; echo status=$?")
    assert shell.expect(["status=6", "status=0", QUESTION]) == 0
    shell.sendline(f"{program} --session other; echo status=$?")
    assert shell.expect([QUESTION, "status=0"]) == 0
    shell.send("n")
    shell.expect("status=7")
    shell.sendline(f"{program}; echo status=$?")
    assert shell.expect(["status=0", QUESTION]) == 0


def test_a_request_that_lives_for_ages_can_be_waited_for(terminal: Spawn) -> None:
    store = ToolGateway().store
    request = replace(request_under(ToolPolicy("high")), id="appr_ages", expires_at=1e12)
    store.create(request)
    child = terminal("approvals", "approve", request.id, "--json")
    child.expect(QUESTION)
    child.send("y")
    status, printed = ended(child)
    assert status == 0
    assert json.loads(printed[printed.index("{") :])["request"]["expires_at"] == "9999-12-31T23:59:59Z"
