"""Search finds the same lines with ripgrep and without it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ksadk.workspace.engines import Engine, PythonEngine, RipgrepEngine, best_engine
from ksadk.workspace.paths import WorkspaceError
from ksadk.workspace.searching import Query, search


def put(root: Path, **files: bytes) -> None:
    for name, data in files.items():
        (root / name.replace("__", ".")).write_bytes(data)


def lines(result: dict[str, Any]) -> list[tuple[str, int, str]]:
    return [(match["path"], match["line"], match["text"]) for match in result["results"]]


CONTENT = {
    "bom__txt": b"\xef\xbb\xbfhello\r\nneedle\r\n",
    "form__txt": b"a\n\x0cb\x0b\xc2\x85\xe2\x80\xa8c\nTARGET\n",
    "latin__txt": b"caf\xe9 needle\n",
    "brace__txt": b"call(a{ b)\n\\bhello\\b C:\\Users\n",
    "pipe__txt": b"deepseek\narxiv\nother\n",
    "dash__txt": b"option -x here\n",
    "case__txt": "Straße ÄÖÜ Привет NEEDLE\n".encode(),
    "lone__txt": b"a\rb\nc\r",
    "plain": b"no newline at the end needle",
}


@pytest.mark.parametrize(
    ("query", "is_regex", "found"),
    [
        ("needle", False, [("bom.txt", 2), ("case.txt", 1), ("latin.txt", 1), ("plain", 1)]),
        ("^hello", True, [("bom.txt", 1)]),
        ("needle$", True, [("bom.txt", 2), ("case.txt", 1), ("latin.txt", 1), ("plain", 1)]),
        ("TARGET", False, [("form.txt", 3)]),
        ("deepseek|arxiv", True, [("pipe.txt", 1), ("pipe.txt", 2)]),
        ("deepseek|arxiv", False, []),
        ("-x", False, [("dash.txt", 1)]),
        ("--pre=sh", False, []),
        ("a{", False, [("brace.txt", 1)]),
        ("\\bhello\\b", False, [("brace.txt", 2)]),
        ("C:\\Users", False, [("brace.txt", 2)]),
        ("\\bhello\\b", True, [("bom.txt", 1)]),
        ("äöü привет", False, [("case.txt", 1)]),
        ("[а-я]{3}", True, [("case.txt", 1)]),
        ("caf. n", True, []),
        ("^b", True, []),
        ("a$", True, [("form.txt", 1)]),
        ("^c$", True, [("lone.txt", 2)]),
        ("[^a-z]at the end", True, [("plain", 1)]),
        ("(?:no|yes) new\\w+ at", True, [("plain", 1)]),
        ("\\x6eo newline", True, [("plain", 1)]),
        ("[]x]eepseek|[d\\]]eepseek", True, [("pipe.txt", 1)]),
    ],
)
def test_both_engines_find_the_same_lines(
    root: Path, engine: Engine, query: str, is_regex: bool, found: list[tuple[str, int]]
) -> None:
    put(root, **CONTENT)
    result = search(root, Query(query, is_regex=is_regex), engine)
    assert [(match["path"], match["line"]) for match in result["results"]] == found
    assert result["match_count"] == len(found)
    assert result["search_backend"] == engine.name


def test_a_query_is_never_an_option(root: Path, engine: Engine, tmp_path: Path) -> None:
    put(root, script=f"touch {tmp_path}/ran\n".encode())
    for query in ("--pre=sh", "--pre", "-f/etc/passwd", "--hostname-bin=sh"):
        assert search(root, Query(query, glob="*"), engine)["results"] == []
    assert not (tmp_path / "ran").exists()


def test_names_that_look_like_something_else_are_found(root: Path, engine: Engine) -> None:
    for name in ("-", "--files", "a:1:b.txt", "with\nnewline", "C:\\x.py"):
        (root / name).write_bytes(b"needle\n")
    (root / "caf\udce9").write_bytes(b"needle\n")
    found = [match["path"] for match in search(root, Query("needle"), engine)["results"]]
    assert found == ["-", "--files", "C:\\x.py", "a:1:b.txt", "caf\ufffd", "with\nnewline"]


def test_hidden_files_are_searched_and_gits_are_not(root: Path, engine: Engine) -> None:
    for name in (".github/w.yml", ".env.example", ".git/HEAD", ".agentengine/state", "sub/.git/HEAD"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"needle\n")
    found = [match["path"] for match in search(root, Query("needle"), engine)["results"]]
    assert found == [".env.example", ".github/w.yml"]


def test_ignore_files_count_and_nothing_searched_is_said(root: Path, engine: Engine) -> None:
    put(root, __gitignore=b".*\n*.txt\n", a__txt=b"needle\n")
    result = search(root, Query("needle"), engine)
    assert (result["results"], result["skipped"]["ignored"]) == ([], 2)
    assert "No file was searched (2 left out by ignore files)" in result["note"]
    assert lines(search(root, Query("needle", "a.txt"), engine)) == [("a.txt", 1, "needle")]
    put(root, b__md=b"nothing\n")
    assert "note" not in search(root, Query("needle"), engine)


def test_the_rules_of_the_root_hold_in_a_directory_that_is_searched(root: Path, engine: Engine) -> None:
    (root / "sub").mkdir()
    put(root, __gitignore=b"/sub/*.log\n")
    (root / "sub" / "a.log").write_bytes(b"needle\n")
    (root / "sub" / "a.txt").write_bytes(b"needle\n")
    assert lines(search(root, Query("needle", "sub"), engine)) == [("sub/a.txt", 1, "needle")]


def test_binary_files_and_links_are_left_out(root: Path, engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_bytes(b"needle\n")
    put(root, binary=b"\0\nneedle\n", late=b"needle\n" + b"x" * 100_000 + b"\0", text=b"needle\n")
    (root / "link").symlink_to(tmp_path / "outside.txt")
    (root / "up").symlink_to(tmp_path)
    (root / "dangling").symlink_to("nowhere")
    result = search(root, Query("needle", context_lines=1), engine)
    assert [match["path"] for match in result["results"]] == ["text"]
    assert search(root, Query("nowhere"), engine)["skipped"] == {
        "ignored": 0, "large_files": 0, "links": 3, "unreadable": 0, "complete": True,
    }  # fmt: skip


def test_large_files_in_which_it_is_are_counted_and_not_shown(root: Path, engine: Engine) -> None:
    mebibyte = 1024 * 1024
    put(root, big=b"needle\n" + b"x" * mebibyte, exact=b"needle\n" + b"x" * (mebibyte - 7))
    put(root, end=b"x\n" * mebibyte + b"needle", other=b"x" * (mebibyte + 1))
    put(root, binary=b"\0needle" + b"x" * mebibyte, line=b"x" * (17 * mebibyte) + b"needle")
    result = search(root, Query("needle"), engine)
    assert [match["path"] for match in result["results"]] == ["exact"]
    assert result["skipped"] == {"large_files": 2}
    assert search(root, Query("needle$", is_regex=True), engine)["skipped"]["large_files"] == 2
    assert search(root, Query("nowhere"), engine)["skipped"]["large_files"] == 5
    alone = search(root, Query("nowhere", "big"), engine)
    assert "No file was searched (1 larger than 1 MiB)" in alone["note"]


@pytest.mark.parametrize("path", [".", "big"])
def test_what_only_a_large_file_holds_is_not_said_to_be_nowhere(
    root: Path, engine: Engine, path: str
) -> None:
    put(root, big=b"needle\n" * 200_000, small=b"nothing\n")
    result = search(root, Query("needle", path), engine)
    assert (result["results"], result["skipped"]["large_files"]) == ([], 1)
    assert result["note"] == "It is in 1 file over 1 MiB, of which no lines are shown."


@pytest.mark.parametrize("path", [".", "binary"])
def test_where_all_files_are_binary_nothing_was_searched(root: Path, engine: Engine, path: str) -> None:
    put(root, binary=b"needle\0", unmarked="needle".encode("utf-16-le"))
    result = search(root, Query("needle", path), engine)
    count = 2 if path == "." else 1
    assert result["skipped"]["binary_files"] == count
    assert f"No file was searched ({count} with NUL bytes)" in result["note"]
    put(root, text=b"nothing\n")
    whole = search(root, Query("needle"), engine)
    assert "note" not in whole
    assert "binary_files" not in whole["skipped"]


def test_utf16_with_its_mark_is_text(root: Path, engine: Engine) -> None:
    put(root, little="a\r\nneédle\r\n".encode("utf-16"), big=b"\xfe\xff" + "neédle".encode("utf-16-be"))
    put(root, half=b"\xff\xfen\0e\0\xc9\0d\0l\0e\0\0")
    found = search(root, Query("NEÉDLE", context_lines=1), engine)["results"]
    assert [(match["path"], match["line"], match["snippet"]) for match in found] == [
        ("big", 1, "neédle"), ("little", 2, "a\nneédle"),
    ]  # fmt: skip


def test_a_long_line_is_shown_around_its_match(root: Path, engine: Engine) -> None:
    put(root, minified=("é" * 200_000 + "needle" + "y" * 200_000).encode())
    [match] = search(root, Query("needle"), engine)["results"]
    assert "needle" in match["text"]
    assert len(match["text"]) < 600
    assert (match["line_truncated"], match["column"]) == (True, 200_001)


def test_context_is_cut_at_the_ends_of_the_file(root: Path, engine: Engine) -> None:
    put(root, f=b"one\r\ntwo\r\nneedle\r\nfour")
    [match] = search(root, Query("needle", context_lines=5), engine)["results"]
    assert (match["context_before"], match["context_after"]) == (["one", "two"], ["four"])
    assert match["snippet"] == "one\ntwo\nneedle\nfour"


def test_bytes_that_are_no_text_are_shown_as_such(root: Path, engine: Engine) -> None:
    put(root, f=b"caf\xe9 needle\n")
    [match] = search(root, Query("needle"), engine)["results"]
    assert (match["text"], match["not_utf8"], match["column"]) == ("caf\ufffd needle", True, 6)


def test_results_come_by_path_and_line_and_end_at_the_limit(root: Path, engine: Engine) -> None:
    for number in range(300):
        (root / f"{number:03}.txt").write_bytes(b"needle\nneedle\n")
    result = search(root, Query("needle", max_results=5), engine)
    assert [(m["path"], m["line"]) for m in result["results"]] == [
        ("000.txt", 1), ("000.txt", 2), ("001.txt", 1), ("001.txt", 2), ("002.txt", 1),
    ]  # fmt: skip
    assert result["truncated"] is True
    everything = search(root, Query("needle", max_results=600), engine)
    assert (everything["match_count"], everything["truncated"]) == (600, False)


@pytest.mark.parametrize(
    ("path", "glob", "code"),
    [
        ("gone", None, "not_found"),
        ("../x", None, "path_outside_workspace"),
        (".", "", "invalid_glob"),
        ("f/x", None, "not_a_directory"),
        (".agentengine", None, "protected_path"),
        ("fifo", None, "not_a_regular_file"),
    ],
)
def test_a_place_that_cannot_be_searched_is_an_error(
    root: Path, engine: Engine, path: str, glob: str | None, code: str
) -> None:
    put(root, f=b"x")
    os.mkfifo(root / "fifo")
    with pytest.raises(WorkspaceError) as caught:
        search(root, Query("x", path, glob=glob), engine)
    assert caught.value.code == code


@pytest.mark.parametrize("path", [".", "/".join(["d"] * 60)])
def test_rules_without_number_do_not_outlast_the_time(root: Path, path: str) -> None:
    directory = root
    for depth in range(60):
        directory /= "d"
        directory.mkdir()
        rules = "".join(f"x{depth}*{number}?[a-z]\n" for number in range(8_000))
        (directory / ".gitignore").write_text(rules)
        (directory / "f.txt").write_text("needle\n")
    started = time.monotonic()
    with pytest.raises(WorkspaceError) as caught:
        search(root, Query("nowhere", path), PythonEngine(), seconds=0.3)
    assert caught.value.code == "search_timeout"
    assert time.monotonic() - started < 1.5


def test_the_search_program_gets_nothing_of_the_environment(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "rg"
    program.write_text(f"#!/bin/sh\n/usr/bin/env > {tmp_path}/seen\n")
    program.chmod(0o755)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "config"))
    put(root, f=b"needle\n")
    assert search(root, Query("needle"), RipgrepEngine(program))["results"] == []
    assert {line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()} <= {
        "PWD", "OLDPWD", "SHLVL", "_",
    }  # fmt: skip


def test_a_program_called_rg_inside_the_workspace_is_not_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = root / "rg"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(root))
    assert best_engine(root).name == "python"
    monkeypatch.setenv("PATH", ".")
    monkeypatch.chdir(root)
    assert best_engine(root).name == "python"
