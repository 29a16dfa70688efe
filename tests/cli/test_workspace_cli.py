"""`agentengine workspace`, run as people run it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support import Run


@pytest.fixture
def file() -> Path:
    path = Path.cwd() / "f.txt"
    path.write_bytes(b"alpha\nbeta\ngamma\n")
    return path


def here(agentengine: Run, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
    """The exit status, stdout and stderr of a workspace command in the current directory."""
    done = agentengine("workspace", arguments[0], "--root", ".", *arguments[1:], stdin=stdin)
    return done.returncode, done.stdout, done.stderr


def test_a_file_is_read_and_then_edited_by_another_process(agentengine: Run, file: Path) -> None:
    edit = ("edit", "f.txt", "--old", "beta", "--new", "BETA", "--yes")
    status, _, said = here(agentengine, *edit)
    assert (status, "has not been read" in said) == (1, True)
    assert here(agentengine, "read", "f.txt")[:2] == (0, "1 | alpha\n2 | beta\n3 | gamma\n")
    status, out, _ = here(agentengine, *edit)
    assert (status, out) == (0, f"edited {file}: 1 replacement\n")
    assert file.read_bytes() == b"alpha\nBETA\ngamma\n"


def test_what_one_session_read_another_did_not(agentengine: Run, file: Path) -> None:
    edit = ("edit", "f.txt", "--old", "beta", "--new", "BETA", "--yes")
    assert here(agentengine, "read", "f.txt", "--session", "one")[0] == 0
    assert here(agentengine, *edit, "--session", "two")[0] == 1
    assert here(agentengine, *edit, "--session", "one")[0] == 0


def test_a_dry_run_shows_the_diff_and_changes_nothing(agentengine: Run, file: Path) -> None:
    here(agentengine, "read", "f.txt")
    status, out, _ = here(agentengine, "edit", "f.txt", "--old", "beta", "--new", "B", "--dry-run")
    assert status == 0
    assert out.startswith("would  Edit f.txt: 1 replacement\n")
    assert out.endswith("--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+B\n gamma\n")
    status, out, _ = here(agentengine, "delete", "f.txt", "--dry-run", "--json")
    plan = json.loads(out)
    assert (status, plan["dry_run"], plan["details"][0]) == (0, True, ["goes", "f.txt"])
    status, _, said = here(agentengine, "edit", "f.txt", "--old", "nope", "--new", "B", "--dry-run")
    assert (status, "--old is not in f.txt" in said) == (1, True)
    assert file.read_bytes() == b"alpha\nbeta\ngamma\n"


def test_without_anybody_to_ask_a_change_waits_for_approval(agentengine: Run, file: Path) -> None:
    here(agentengine, "read", "f.txt")
    status, out, said = here(agentengine, "edit", "f.txt", "--old", "beta", "--new", "B")
    envelope = json.loads(out)
    assert (status, envelope["type"]) == (6, "approval_required")
    assert envelope["approval_request"]["id"] in said
    assert file.read_bytes() == b"alpha\nbeta\ngamma\n"


@pytest.mark.parametrize("command", ["read", "lint", "edit", "delete"])
def test_a_file_that_is_here_but_not_in_the_workspace_is_hinted_at(
    agentengine: Run, file: Path, command: str
) -> None:
    more = ("--old", "a", "--new", "b") if command == "edit" else ()
    done = agentengine("workspace", command, "f.txt", *more)
    assert done.returncode == 1
    assert "hint: It is in the current directory: add --root ." in done.stderr
    assert (Path.cwd() / ".agentengine/ui/workspace").is_dir()


def test_texts_come_from_files_and_stdin(agentengine: Run, file: Path) -> None:
    Path("old.txt").write_text("beta\ngamma\n")
    Path("new.txt").write_text("@literal\n")
    here(agentengine, "read", "f.txt")
    status, _, _ = here(agentengine, "edit", "f.txt", "--old", "@old.txt", "--new", "@new.txt", "--yes")
    assert (status, file.read_text()) == (0, "alpha\n@literal\n")
    status, _, _ = here(agentengine, "edit", "f.txt", "--old", "@@literal", "--new", "-", "--yes", stdin="x")
    assert (status, file.read_text()) == (0, "alpha\nx\n")
    status, out, _ = here(agentengine, "write", "d/g.txt", "--yes", stdin="piped\r\n")
    assert (status, out) == (0, f"created {Path.cwd() / 'd/g.txt'}\n")
    assert Path("d/g.txt").read_bytes() == b"piped\r\n"
    assert here(agentengine, "write", "d/g.txt", "--content", "z", "--no-overwrite", "--yes")[0] == 1


def test_several_edits_are_one_command(agentengine: Run, file: Path) -> None:
    here(agentengine, "read", "f.txt")
    edits = [{"old_text": "alpha", "new_text": "1"}, {"old_text": "gamma", "new_text": "3"}]
    Path("edits.json").write_text(json.dumps(edits))
    status, out, _ = here(agentengine, "multi-edit", "f.txt", "--edits", "@edits.json", "--yes", "--json")
    result = json.loads(out)
    assert (status, result["edit_count"], file.read_text()) == (0, 2, "1\nbeta\n3\n")
    edits[1]["old_text"] = "gone"
    status, out, _ = here(
        agentengine, "multi-edit", "f.txt", "--edits", "-", "--yes", "--json", stdin=json.dumps(edits[1:])
    )
    assert (status, json.loads(out)["failed_edit_index"]) == (1, 0)


def test_search_prints_as_grep_does(agentengine: Run, file: Path) -> None:
    assert here(agentengine, "search", "BETA")[:2] == (0, "f.txt:2: beta\n")
    status, out, _ = here(agentengine, "search", "-e", "^(beta|gamma)$", "-C", "1")
    assert out == "f.txt-1- alpha\nf.txt:2: beta\nf.txt-3- gamma\n--\nf.txt-2- beta\nf.txt:3: gamma\n"
    status, out, said = here(agentengine, "search", "nowhere")
    assert (status, out, said) == (0, "", "no line matches\n")
    status, out, said = here(agentengine, "search", "--case-sensitive", "--", "-x")
    assert (status, out) == (0, "")
    status, _, said = here(agentengine, "search", "-e", "(")
    assert (status, said.startswith("error: the regular expression is not one")) == (2, True)
    status, _, said = here(agentengine, "search", "x", "--glob", "*.none")
    assert (status, said.startswith("No file was searched")) == (0, True)


def test_a_listing_has_aligned_columns(agentengine: Run, file: Path) -> None:
    Path("sub").mkdir()
    Path("sub/g.py").write_bytes(b"x" * 1234)
    for path in ("f.txt", "sub", "sub/g.py"):
        os.utime(path, (0, 0))
    out = here(agentengine, "list", "--recursive")[1]
    rows = [line.split() for line in out.splitlines()]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("file", "17", "f.txt"), ("directory", "-", "sub"), ("file", "1,234", "sub/g.py"),
    ]  # fmt: skip
    assert len({line.index(row[-1]) for line, row in zip(out.splitlines(), rows, strict=True)}) == 1
    assert here(agentengine, "list", "--glob", "*.txt")[1].endswith("f.txt\n")
    assert here(agentengine, "status")[1].splitlines()[0] == str(Path.cwd())


def test_read_shows_a_range_and_plain_lines(agentengine: Run, file: Path) -> None:
    status, out, said = here(agentengine, "read", "f.txt", "--start-line", "2", "--end-line", "2")
    assert (status, out) == (0, "2 | beta\n")
    assert "Go on with --start-line 3." in said
    assert here(agentengine, "read", "f.txt", "--no-numbers")[1] == "alpha\nbeta\ngamma\n"
    status, _, said = here(agentengine, "read", "f.txt", "--start-line", "9")
    assert (status, said) == (2, "error: f.txt has 3 lines, and no line 9\n")
    status, _, said = here(agentengine, "read", "f.txt", "--start-line", "3", "--end-line", "2")
    assert said == (
        "error: f.txt has 3 lines; 3 to 2 is not a range of them\n"
        "hint: Lines are counted from 1, and --start-line is not after --end-line.\n"
    )


def test_lint_prints_places_and_fails_for_errors(agentengine: Run) -> None:
    Path("a.py").write_text("x = (\n")
    Path("a.txt").write_text("blank \n")
    status, out, said = here(agentengine, "lint", "a.py")
    assert (status, out, said) == (1, "a.py:1:5: error: '(' was never closed\n", "")
    assert here(agentengine, "lint", "a.txt")[:2] == (
        0,
        "a.txt:1:6: warning: blanks at the end of the line\n",
    )
    Path("b.py").write_text("x = 1\n")
    Path("bad.yaml").write_text("a: [\n")
    assert here(agentengine, "lint", "b.py")[1] == "b.py: no issues (python)\n"
    assert here(agentengine, "lint", "bad.yaml")[1] == (
        "bad.yaml: no issues (text; only NUL characters and blanks at line ends were looked for)\n"
    )
    status, out, _ = here(agentengine, "lint", "a.py", "--json")
    assert (status, json.loads(out)["issues"][0]["line"]) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("write", "f.txt", "--content", "x", "--no-overwrite"),
            "hint: Leave out --no-overwrite to replace it.",
        ),
        (("edit", "f.txt", "--old", "a", "--new", "b"), "give --expected, or give --replace-all."),
        (("edit", "f.txt", "--old", "a", "--new", "a"), "error: --old and --new are the same"),
        (
            ("edit", "f.txt", "--old", "a", "--new", "b", "--expected", "0"),
            "error: --expected must be 1 or more",
        ),
        (("edit", "old_text.txt", "--old", "z", "--new", "b"), "error: --old is not in old_text.txt"),
        (
            ("edit", "gone", "--old", "a", "--new", "b"),
            "hint: agentengine workspace list shows what is there.",
        ),
        (("search", "-e", "("), "hint: Leave out --regex to search for the text as it is."),
        (("read", "gone"), "hint: agentengine workspace list shows what is there."),
        (("read", "."), "hint: agentengine workspace list shows what is in it."),
        (("list", "f.txt"), "hint: agentengine workspace read shows a file."),
        (
            ("multi-edit", "f.txt", "--edits", '[{"old_text": "a", "new_text": "b"}]'),
            "set expected_replacements",
        ),
        (("multi-edit", "f.txt", "--edits", '[{"old_text": "a"}]'), "error: edits[0]: new_text is missing"),
        (
            ("multi-edit", "f.txt", "--edits", '[{"old_text": "z", "new_text": "b"}]'),
            "error: edits[0]: old_text is",
        ),
    ],
)
def test_words_name_the_options_of_the_command_and_json_the_arguments_of_the_tool(
    agentengine: Run, file: Path, arguments: tuple[str, ...], said: str
) -> None:
    Path("old_text.txt").write_text("a\n")
    for path in ("f.txt", "old_text.txt"):
        here(agentengine, "read", path)
    more = () if arguments[0] in ("search", "read", "list") else ("--yes",)
    _, out, err = here(agentengine, *arguments, *more, "--json")
    assert said in err
    result = json.loads(out)
    assert "--" not in str(result.get("hint"))
    assert "agentengine" not in str(result.get("hint"))


def test_an_edit_that_does_not_fit_shows_the_lines_that_it_may_mean(agentengine: Run) -> None:
    Path("f.txt").write_text("".join(f"line number {number}\n" for number in range(9)))
    here(agentengine, "read", "f.txt")
    status, out, said = here(agentengine, "edit", "f.txt", "--old", "line nunber 4", "--new", "x", "--yes")
    error, difference, title, *lines, hint = said.splitlines()
    assert (status, out, error) == (1, "", "error: --old is not in f.txt")
    assert difference == "At line 5, column 8: the file has 'number 4', you sent 'nunber 4'"
    assert (title, lines[0], len(lines)) == ("Most like it:", "  5: line number 4", 5)
    assert hint.startswith("hint: ")
    _, _, said = here(agentengine, "edit", "f.txt", "--old", "line", "--new", "x", "--yes")
    assert said.splitlines()[1:3] == ["It is here:", "  1: line number 0"]
    assert len(said.splitlines()) == 8


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("edit",), 2),
        (("edit", "f.txt", "--old", "a"), 2),
        (("edit", "f.txt", "--old", "-", "--new", "-"), 2),
        (("edit", "f.txt", "--old", "@gone", "--new", "x"), 2),
        (("multi-edit", "f.txt"), 2),
        (("multi-edit", "f.txt", "--edits", "not json"), 2),
        (("multi-edit", "f.txt", "--edits", "{}"), 2),
        (("read",), 2),
        (("read", "../f.txt"), 7),
        (("write", "agentengine.yaml", "--content", "x", "--yes"), 7),
        (("delete", "gone", "--yes"), 1),
        (("list", "gone"), 1),
        (("list", "--sort", "colour"), 2),
        (("delete", "f.txt", "--no-input"), 6),
    ],
)
def test_each_failure_has_its_exit_status(
    agentengine: Run, file: Path, arguments: tuple[str, ...], status: int
) -> None:
    got, _, said = here(agentengine, *arguments)
    assert (got, said.startswith("error: ")) == (status, True)
    assert file.read_bytes() == b"alpha\nbeta\ngamma\n"


def test_a_root_that_is_no_directory_is_a_usage_error(agentengine: Run) -> None:
    done = agentengine("workspace", "status", "--root", "gone")
    assert (done.returncode, "is not a directory" in done.stderr) == (2, True)


def test_what_the_program_keeps_in_a_project_is_not_shown_by_git(agentengine: Run, file: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], check=True)
    here(agentengine, "read", "f.txt")
    assert Path(".agentengine/ui/reads").is_dir()
    shown = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, check=True)
    assert shown.stdout == "?? f.txt\n"


def test_a_cloned_project_does_not_choose_the_workspace(agentengine: Run, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret\n")
    Path(".agentengine/ui").mkdir(parents=True)
    Path(".agentengine/ui/workspace").symlink_to(tmp_path / "outside")
    done = agentengine("workspace", "read", "secret")
    assert (done.returncode, done.stdout) == (7, "")
    assert "a link puts it outside of" in done.stderr
    assert "hint: Delete the link if you did not make it" in done.stderr
    done = agentengine("workspace", "status", "--json")
    assert json.loads(done.stdout)["error_type"] == "workspace_outside_project"
    done = agentengine("workspace", "read", "secret", "--root", str(tmp_path / "outside"))
    assert (done.returncode, done.stdout) == (0, "1 | secret\n")


@pytest.mark.parametrize("name", ["reads", "tool-results"])
def test_a_cloned_project_does_not_choose_where_a_session_writes(
    agentengine: Run, tmp_path: Path, name: str
) -> None:
    (tmp_path / "outside").mkdir()
    Path(".agentengine/ui").mkdir(parents=True)
    Path(f".agentengine/ui/{name}").symlink_to(tmp_path / "outside")
    Path("long.txt").write_text("word\n" * 20_000)
    status, out, _ = here(agentengine, "read", "long.txt", "--json")
    result = json.loads(out)
    if name == "reads":
        assert (status, result["error_type"]) == (7, "workspace_outside_project")
    else:
        assert (status, "a link puts it outside of" in result["persist_error"]) == (0, True)
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("depth", [300, 900, 1_500, 40_000])
@pytest.mark.parametrize("brackets", ["[]", '{"a":}'])
def test_edits_nested_without_end_are_refused(
    agentengine: Run, file: Path, depth: int, brackets: str
) -> None:
    here(agentengine, "read", "f.txt")
    opened, closed = brackets[:-1], brackets[-1]
    edits = "[" + opened * depth + "1" + closed * depth + "]"
    for more in (("--yes",), ("--yes", "--json"), ("--dry-run",)):
        status, out, said = here(agentengine, "multi-edit", "f.txt", "--edits", "-", *more, stdin=edits)
        assert status == 2
        assert "Traceback" not in said
        assert "error: " in said or '"invalid_edit"' in out or '"usage"' in out


def test_a_file_where_what_was_read_is_kept_is_a_clear_error(agentengine: Run, file: Path) -> None:
    Path(".agentengine/ui").mkdir(parents=True)
    Path(".agentengine/ui/reads").write_text("a file")
    status, _, said = here(agentengine, "read", "f.txt")
    assert (status, said.startswith("error: what is read of f.txt cannot be recorded")) == (1, True)
    status, _, said = here(agentengine, "edit", "f.txt", "--old", "beta", "--new", "B", "--yes")
    assert (status, "has not been read" in said) == (1, True)
    assert here(agentengine, "delete", "f.txt", "--yes")[0] == 0
    assert not file.exists()


def test_what_is_too_deep_to_have_a_path_is_listed_and_told_of_by_a_search(
    agentengine: Run, file: Path
) -> None:
    here_now = Path.cwd()
    for _ in range(20):  # no system opens a path of 5,000 bytes, whoever asks
        os.mkdir("d" * 250)  # noqa: PTH102  # a path that long cannot be named
        os.chdir("d" * 250)
    os.chdir(here_now)
    try:
        status, out, said = here(agentengine, "list", "--recursive")
        assert (status, out.count("/" + "d" * 250), said) == (0, 190, "")
        status, out, said = here(agentengine, "search", "nowhere")
        assert (status, out, "could not be read\n" in said) == (0, "", True)
    finally:  # pytest's own clean-up is no match for it
        subprocess.run(["rm", "-rf", "d" * 250], check=True)


def test_an_encoding_is_named_and_what_it_could_be_is_shown(agentengine: Run) -> None:
    path = Path("gbk.txt")
    path.write_bytes("中文\r\n第二\r\n".encode("gbk"))
    status, out, said = here(agentengine, "read", "gbk.txt")
    assert (status, out) == (1, "")
    assert said.splitlines()[1].startswith("It could be: gb18030, ")
    assert "name it with --encoding" in said
    assert here(agentengine, "read", "gbk.txt", "--encoding", "gbk")[:2] == (0, "1 | 中文\n2 | 第二\n")
    assert here(agentengine, "lint", "gbk.txt", "--encoding", "gbk")[0] == 0
    edit = ("edit", "gbk.txt", "--old", "中文\n第二", "--new", "中文\n第三", "--yes")
    assert here(agentengine, *edit)[0] == 1
    assert here(agentengine, *edit, "--encoding", "gbk")[0] == 0
    assert path.read_bytes() == "中文\r\n第三\r\n".encode("gbk")
    edits = '[{"old_text": "中", "new_text": "国"}]'
    more = ("--edits", edits, "--yes", "--encoding", "gbk")
    assert here(agentengine, "multi-edit", "gbk.txt", *more)[0] == 0
    status, _, said = here(agentengine, "edit", "gbk.txt", "--old", "国", "--new", "😀", *more[2:])
    assert (status, "'😀' (U+1F600), which gbk has not" in said) == (2, True)
    assert here(agentengine, "write", "gbk.txt", "--content", "中", *more[2:])[0] == 0
    assert path.read_bytes() == "中".encode("gbk")
    status, _, said = here(agentengine, "read", "gbk.txt", "--encoding", "hz")
    assert (status, said.startswith("error: gbk.txt: 'hz' is not an encoding")) == (2, True)


def test_writing_in_place_says_that_it_is_not_done_in_one_step(agentengine: Run, file: Path) -> None:
    os.link("f.txt", "g.txt")
    here(agentengine, "read", "f.txt")
    edit = ("edit", "f.txt", "--old", "beta", "--new", "B", "--yes")
    status, _, said = here(agentengine, *edit)
    assert (status, "hint: --in-place writes into the file itself" in said) == (1, True)
    out = here(agentengine, *edit, "--in-place", "--dry-run")[1]
    assert "not in one step" in out
    status, out, _ = here(agentengine, *edit, "--in-place")
    assert (status, out) == (0, f"edited {file}: 1 replacement, in place and not in one step\n")
    assert Path("g.txt").read_text() == "alpha\nB\ngamma\n"
    status, out, _ = here(agentengine, "write", "g.txt", "--content", "x", "--in-place", "--yes")
    assert (status, out.endswith("g.txt, in place and not in one step\n")) == (0, True)
    assert file.read_text() == "x"


def test_what_an_edit_warns_of_is_said(agentengine: Run) -> None:
    Path("f.txt").write_bytes(b"a\r\nb\r\n")
    here(agentengine, "read", "f.txt")
    status, out, said = here(agentengine, "edit", "f.txt", "--old", "b", "--new", "b\nc", "--yes")
    assert (status, out.startswith("edited ")) == (0, True)
    assert said.startswith("warning: The file's lines ended in CRLF")
