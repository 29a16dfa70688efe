"""The prompt, at a real terminal."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from support import AFTER, BEFORE, EDIT, EDITED, QUESTION, TO_ZWEI, Run, Spawn, editor, ended


def test_y_applies_what_the_diff_showed(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT, NO_COLOR="1")
    child.expect(QUESTION)
    assert "-two" in child.before
    assert "+2" in child.before
    assert file.read_text() == BEFORE
    child.send("y")
    assert ended(child)[0] == 0
    assert file.read_text() == AFTER


def test_the_prompt_says_what_where_and_how_risky(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT, NO_COLOR="1")
    child.expect(QUESTION)
    for words in ("edit_workspace_file", "medium", "workspace_edit", str(Path.cwd())):
        assert words in child.before
    child.send("n")


def test_n_leaves_the_file_and_exits_with_7(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT)
    child.expect(QUESTION)
    child.send("n")
    status, printed = ended(child)
    assert status == 7
    assert "not approved" in printed
    assert file.read_text() == BEFORE


def test_a_line_end_behind_the_key_is_fine_too(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT)
    child.expect(QUESTION)
    child.sendline("y")
    assert ended(child)[0] == 0
    assert file.read_text() == AFTER


def test_f_gives_the_persons_words_to_the_caller(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT, "--json")
    child.expect(QUESTION)
    child.send("f")
    child.expect("why\\? ")
    child.sendline("use three instead")
    status, printed = ended(child)
    assert status == 7
    assert '"reason": "use three instead"' in printed
    assert file.read_text() == BEFORE


def test_s_lets_exactly_this_call_through_until_the_session_ends(terminal: Spawn, tmp_path: Path) -> None:
    program = f"{sys.executable} -m agentengine_cli workspace write g.txt --root . --content"
    shell = terminal(program=["bash", "--norc", "--noprofile"], PS1="ready> ")
    shell.expect("ready> ")
    shell.sendline(f"{program} hello; echo status=$?")
    shell.expect(QUESTION)
    shell.send("s")
    shell.expect("status=0")
    Path("g.txt").unlink()
    shell.sendline(f"{program} hello; echo status=$?")
    assert shell.expect(["status=0", QUESTION]) == 0
    assert Path("g.txt").read_text() == "hello"
    shell.sendline(f"{program} other; echo status=$?")
    assert shell.expect(["status=0", QUESTION]) == 1, "other arguments are another call"
    shell.send("n")
    shell.expect("status=7")
    another = terminal("workspace", "write", "g.txt", "--root", ".", "--content", "hello")
    assert another.expect([QUESTION, "created", "replaced"]) == 0, "another terminal is another session"


def test_e_edits_the_arguments_and_shows_them_again(terminal: Spawn, file: Path, agentengine: Run) -> None:
    child = terminal(*EDIT, VISUAL=editor(TO_ZWEI), NO_COLOR="1")
    child.expect(QUESTION)
    child.send("e")
    child.expect(QUESTION)
    assert "+zwei" in child.before
    assert file.read_text() == BEFORE
    child.send("y")
    assert ended(child)[0] == 0
    assert file.read_text() == EDITED
    [kept] = json.loads(agentengine("approvals", "list", "--all", "--json").stdout)["requests"]
    assert kept["edited"] is True
    assert kept["arguments"]["new_text"] == "zwei"


def test_edited_arguments_that_cannot_work_are_asked_about_again(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT, VISUAL=editor("file.write_text('{\"path\": 3}')"), NO_COLOR="1")
    child.expect(QUESTION)
    child.send("e")
    child.expect("the edited arguments do not work")
    child.expect(QUESTION)
    child.send("y")
    assert ended(child)[0] == 0
    assert file.read_text() == AFTER, "what was shown last is what runs"


def test_an_editor_that_fails_changes_nothing(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT, VISUAL="false")
    child.expect(QUESTION)
    child.send("e")
    child.expect("the editor false did not finish")
    child.expect(QUESTION)
    child.send("n")
    assert ended(child)[0] == 7


def test_question_mark_shows_the_whole_preview(terminal: Spawn, agentengine: Run) -> None:
    Path("big.txt").write_text("".join(f"line {n}\n" for n in range(200)))
    child = terminal("workspace", "write", "big.txt", "--root", ".", "--content", "replaced\n", NO_COLOR="1")
    child.expect(QUESTION)
    assert "-line 100" not in child.before
    assert "lines; ? shows everything" in child.before
    assert "+replaced" in child.before, "the end of the preview is never cut"
    child.send("?")
    child.expect(QUESTION)
    assert "-line 100" in child.before
    assert "appr_" in child.before
    child.send("n")


def test_q_stops(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT)
    child.expect(QUESTION)
    child.send("q")
    assert ended(child)[0] == 7
    assert file.read_text() == BEFORE


def test_another_key_is_no_answer(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT)
    child.expect(QUESTION)
    for key in ("x", "\r", "Y"):
        child.send(key)
        time.sleep(0.1)
    assert file.read_text() == BEFORE
    child.send("n")
    assert ended(child)[0] == 7


def test_a_line_that_was_meant_for_something_else_is_no_answer(terminal: Spawn, file: Path) -> None:
    """It is thrown away from its first letter that is no key on, with the keys that follow."""
    child = terminal(*EDIT)
    child.expect(QUESTION)
    child.send("cat yes.txt")
    time.sleep(0.2)
    assert child.isalive()
    assert file.read_text() == BEFORE
    child.send("n")
    assert ended(child)[0] == 7


def test_ctrl_c_is_130_and_changes_nothing(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT)
    child.expect(QUESTION)
    child.sendintr()
    assert ended(child)[0] == 130
    assert file.read_text() == BEFORE


def test_end_of_input_means_that_nobody_is_there(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT)
    child.expect(QUESTION)
    child.sendeof()
    status, printed = ended(child)
    assert status == 6
    assert '"type": "approval_required"' in printed
    assert file.read_text() == BEFORE


def test_a_question_that_nobody_answers_expires_with_5(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT, KSADK_TOOL_APPROVAL_TTL_SECONDS="1")
    child.expect(QUESTION)
    assert ended(child)[0] == 5
    assert file.read_text() == BEFORE


def test_what_was_typed_before_the_question_does_not_answer_it(terminal: Spawn, file: Path) -> None:
    """The key is sent while the program starts, long before it can draw anything."""
    child = terminal(*EDIT)
    child.send("y")
    child.expect(QUESTION)
    time.sleep(0.2)
    assert file.read_text() == BEFORE
    child.send("n")
    assert ended(child)[0] == 7


def test_control_and_bidi_characters_of_the_arguments_are_escaped(terminal: Spawn, file: Path) -> None:
    hostile = "\x1b[2Jok\u202egnp.exe\u2066"
    child = terminal(
        "workspace", "edit", "f.txt", "--old", "two", "--new", hostile, "--root", ".", NO_COLOR="1"
    )
    child.expect(QUESTION)
    assert "\\x1b[2Jok\\u202egnp.exe\\u2066" in child.before
    assert "\x1b[2J" not in child.before
    assert "\u202e" not in child.before
    child.send("n")


def test_a_long_value_keeps_its_end(terminal: Spawn, file: Path) -> None:
    child = terminal(
        "workspace", "edit", "f.txt", "--old", "two", "--new", "a" * 3000 + "; rm -rf /", "--root", ".",
        NO_COLOR="1",
    )  # fmt: skip
    child.expect(QUESTION)
    arguments = child.before.partition("---")[0]
    assert "; rm -rf /" in arguments
    assert "characters ..." in arguments
    child.send("n")


def test_the_prompt_is_not_on_stdout(terminal: Spawn, file: Path) -> None:
    program = " ".join([sys.executable, "-m", "agentengine_cli", *EDIT, "--json", ">out.json"])
    child = terminal("-c", program, program=["bash"])
    child.expect(QUESTION)
    child.send("y")
    assert ended(child)[0] == 0
    assert json.loads(Path("out.json").read_text())["ok"] is True


def test_a_call_that_cannot_work_ends_before_anyone_is_asked(terminal: Spawn, file: Path) -> None:
    Path("unread.txt").write_text("two\n")
    child = terminal("workspace", "edit", "unread.txt", "--old", "two", "--new", "2", "--root", ".")
    status, printed = ended(child)
    assert status == 1
    assert "approve?" not in printed
    child = terminal("workspace", "edit", "f.txt", "--old", "four", "--new", "4", "--root", ".")
    status, printed = ended(child)
    assert status == 1
    assert "approve?" not in printed


def test_no_input_asks_nobody_at_a_terminal(terminal: Spawn, file: Path) -> None:
    status, printed = ended(terminal(*EDIT, "--no-input"))
    assert status == 6
    assert "approve?" not in printed


def test_nobody_is_asked_whose_terminal_shows_no_question(terminal: Spawn, file: Path) -> None:
    program = " ".join([sys.executable, "-m", "agentengine_cli", *EDIT, "2>words.txt"])
    status, _ = ended(terminal("-c", program, program=["bash"]))
    assert status == 6
    assert "approve?" not in Path("words.txt").read_text()


def test_what_a_tool_started_is_not_asked(terminal: Spawn, file: Path) -> None:
    status, printed = ended(terminal(*EDIT, KSADK_INSIDE_TOOL="1"))
    assert status == 6
    assert "approve?" not in printed


def test_a_terminal_that_goes_away_ends_the_program(terminal: Spawn, file: Path) -> None:
    child = terminal(*EDIT)
    child.expect(QUESTION)
    child.close(force=False)
    for _ in range(100):
        if not child.isalive():
            break
        time.sleep(0.05)
    assert not child.isalive()
    assert file.read_text() == BEFORE
