"""Whole files: read, written and deleted, and what is known of them."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ksadk.workspace import editing, files, reading, writing
from ksadk.workspace.diffs import unified
from ksadk.workspace.paths import WorkspaceError, locate
from ksadk.workspace.read_state import ReadStates
from ksadk.workspace.text import Change


def code_of(call: object, *arguments: object) -> str:
    assert callable(call)
    with pytest.raises(WorkspaceError) as caught:
        call(*arguments)
    return caught.value.code


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# Reading


def test_lines_are_those_of_grep(root: Path, states: ReadStates) -> None:
    data = b"\xef\xbb\xbfa\n\x0cb\x0b\xc2\x85\xe2\x80\xa8c\r\nTAR\rGET\nlast"
    (root / "f").write_bytes(data)
    result = reading.read(root, states, "f")
    grep = subprocess.run(
        ["grep", "-an", "last", str(root / "f")], capture_output=True, text=True, check=True
    )
    assert grep.stdout == "4:last\n"
    assert result["total_lines"] == 4
    assert result["content"] == "1 | a\n2 | \x0cb\x0b\x85\u2028c\n3 | TAR\rGET\n4 | last"
    assert result["line_ending"] == "mixed"


@pytest.mark.parametrize(
    ("start", "end", "content", "partial"),
    [
        (None, None, "one\ntwo\nthree", False),
        (1, None, "one\ntwo\nthree", False),
        (2, None, "two\nthree", True),
        (None, 2, "one\ntwo", True),
        (2, 2, "two", True),
        (3, 99, "three", True),
    ],
)
def test_a_range_of_lines_is_read(
    root: Path, states: ReadStates, start: int | None, end: int | None, content: str, partial: bool
) -> None:
    (root / "f").write_bytes(b"one\r\ntwo\nthree\n")
    result = reading.read(root, states, "f", start, end, False)
    assert (result["content"], result["partial"]) == (content, partial)
    assert result["line_count"] == content.count("\n") + 1
    assert result["read_range"] == {"start": result["start_line"], "end": result["end_line"]}
    if partial:
        assert result["suggested_action"]


@pytest.mark.parametrize(("start", "end"), [(0, None), (-1, 2), (3, 2), (4, None), (2, 0)])
def test_a_range_that_is_none_is_refused(
    root: Path, states: ReadStates, start: int | None, end: int | None
) -> None:
    (root / "f").write_bytes(b"one\ntwo\nthree\n")
    assert code_of(reading.read, root, states, "f", start, end) == "invalid_range"


def test_an_empty_file_has_no_lines(root: Path, states: ReadStates) -> None:
    (root / "f").touch()
    result = reading.read(root, states, "f")
    assert (result["content"], result["total_lines"], result["partial"]) == ("", 0, False)


def test_what_is_no_readable_text_file_is_refused(root: Path, states: ReadStates) -> None:
    (root / "d").mkdir()
    os.mkfifo(root / "fifo")
    (root / "big").write_bytes(b"x" * (files.MAX_TEXT_BYTES + 1))
    (root / "limit").write_bytes(b"x" * files.MAX_TEXT_BYTES)
    (root / "gbk").write_bytes("中文".encode("gbk"))
    (root / "loop").symlink_to("loop")
    (root / "device").symlink_to("/dev/zero")
    expected = {
        "d": "is_a_directory", "fifo": "not_a_regular_file", "big": "file_too_large", "gbk": "not_utf8",
        "loop": "link_loop", "device": "path_outside_workspace", "gone": "not_found",
            "big/x": "not_a_directory",
    }  # fmt: skip
    assert {name: code_of(reading.read, root, states, name) for name in expected} == expected
    assert reading.read(root, states, "limit")["size"] == files.MAX_TEXT_BYTES


# Writing


def test_a_write_makes_directories_and_keeps_the_mode(root: Path, states: ReadStates) -> None:
    assert writing.write_file(root, states, "a/b/c.sh", "x")["created"] is True
    path = root / "a/b/c.sh"
    path.chmod(0o750)
    assert writing.write_file(root, states, "a/b/c.sh", "yy\r\n")["size"] == 4
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"yy\r\n", 0o750)
    assert names(path.parent) == ["c.sh"]


def test_a_new_file_has_the_mode_of_the_umask(root: Path, states: ReadStates) -> None:
    before = os.umask(0o027)
    try:
        writing.write_file(root, states, "f", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "f").stat().st_mode) == 0o640


def test_a_write_that_cannot_be_made_leaves_the_file(root: Path, states: ReadStates) -> None:
    (root / "f").write_bytes(b"old")
    (root / "locked").write_bytes(b"old")
    (root / "locked").chmod(0o444)
    os.mkfifo(root / "fifo")
    expected = {
        ("f", "ok \ud800", True): "invalid_text",
        ("f", "new", False): "already_exists",
        ("locked", "new", True): "read_only_file",
        ("fifo", "new", True): "not_a_regular_file",
        (".", "new", True): "is_a_directory",
        ("f/x", "new", True): "not_a_directory",
        ("x" * 256, "new", True): "path_too_long",
        ("a\0b", "new", True): "invalid_path",
        (".git/hooks/pre-commit", "new", True): "protected_path",
        ("AgentEngine.yaml", "new", True): "protected_path",
        (".agentengine/x", "new", True): "protected_path",
        (".git", "gitdir: elsewhere", True): "protected_path",
    }
    got = {key: code_of(writing.write_file, root, states, *key) for key in expected}
    assert got == expected
    assert (root / "f").read_bytes() == (root / "locked").read_bytes() == b"old"
    assert names(root) == ["f", "fifo", "locked"]


def test_a_reader_sees_the_old_bytes_or_the_new_ones(root: Path, states: ReadStates) -> None:
    path = root / "f"
    path.write_bytes(b"a" * 200_000)
    seen: set[bytes] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            data = path.read_bytes()
            seen.add(data[:1] if len(set(data)) == 1 and len(data) == 200_000 else b"torn")

    thread = threading.Thread(target=watch)
    thread.start()
    for number in range(30):
        writing.write_file(root, states, "f", "ab"[number % 2] * 200_000)
    stop.set()
    thread.join()
    assert seen <= {b"a", b"b"}


def test_a_written_file_counts_as_read(root: Path, states: ReadStates) -> None:
    writing.write_file(root, states, "f", "one\ntwo\n")
    state = states.get(locate(root, "f"))
    assert state is not None
    assert (state.total_lines, state.partial, state.size_bytes) == (2, False, 8)


@pytest.mark.parametrize(
    ("items", "code", "index"),
    [
        (None, "invalid_files", None),
        ([], "invalid_files", None),
        (["x"], "invalid_files", 0),
        ([{"path": "a"}], "invalid_files", 0),
        ([{"path": "a", "content": "1", "mode": "x"}], "invalid_files", 0),
        ([{"path": "a", "content": "1"}, {"path": "../b", "content": "2"}], "path_outside_workspace", 1),
        ([{"path": "a", "content": "1"}, {"path": "./a", "content": "2"}], "duplicate_path", None),
        ([{"path": "a/b", "content": "1"}, {"path": "a", "content": "2"}], "not_a_directory", None),
        ([{"path": p, "content": ""} for p in ("x/HEAD", "x/refs/a", "x/objects/a")], "protected_path", None),
        ([{"path": p, "content": ""} for p in ("x/commondir", "x/HEAD")], "protected_path", None),
        ([{"path": str(n), "content": ""} for n in range(101)], "too_many_files", None),
    ],
)
def test_of_several_files_none_is_written_if_one_cannot_be(
    root: Path, states: ReadStates, items: object, code: str, index: int | None
) -> None:
    with pytest.raises(WorkspaceError) as caught:
        writing.write_files(root, states, items)
    assert (caught.value.code, caught.value.details.get("failed_file_index")) == (code, index)
    assert names(root) == []


def test_a_hundred_files_are_written(root: Path, states: ReadStates) -> None:
    result = writing.write_files(root, states, [{"path": f"d/{n}", "content": "xy"} for n in range(100)])
    assert (len(result["written"]), result["truncated"]) == (100, False)
    assert result["written"][7] == {"path": "d/7", "size": 2}
    assert len(names(root / "d")) == 100


def test_a_held_lock_is_waited_for_and_given_up(
    root: Path, states: ReadStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.05)
    with files.locked(root):
        assert code_of(writing.write_file, root, states, "f", "x") == "workspace_busy"
    writing.write_file(root, states, "f", "x")


# Deleting


def test_a_deletion_takes_the_link_and_not_what_it_leads_to(
    root: Path, states: ReadStates, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_bytes(b"x")
    (root / "l").symlink_to(tmp_path / "outside")
    (root / "d").mkdir()
    (root / "f").write_bytes(b"x")
    kinds = [writing.delete(root, states, name)["type"] for name in ("l", "d", "f")]
    assert kinds == ["symlink", "directory", "file"]
    assert names(root) == []
    assert (tmp_path / "outside").exists()


def test_what_may_not_be_deleted_stays(root: Path, states: ReadStates) -> None:
    for name in (".git/hooks/x", "agentengine.yaml", "full/x"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    (root / "hooks").symlink_to(".git/hooks")
    expected = {
        ".": "workspace_root", "/": "workspace_root", "gone": "not_found", "full": "directory_not_empty",
        "full/x/y": "not_a_directory", ".git/hooks/x": "protected_path", "hooks/x": "protected_path",
        "agentengine.yaml": "protected_path", ".agentengine": "protected_path",
        "../root": "path_outside_workspace",
    }  # fmt: skip
    assert {name: code_of(writing.delete, root, states, name) for name in expected} == expected


# Diffs


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "a\n"),
        ("a\n", ""),
        ("a\nb\nc\nd\ne\nf\ng\nh\ni\n", "a\nb\nc\nd\nX\nf\ng\nh\ni\nj\n"),
        ("".join(f"{n}\n" for n in range(100)), "".join(f"{n}\n" for n in range(100) if n not in (3, 60))),
        ("no end", "no end\n"),
        ("a\nno end", "b\nno end"),
        (
            "".join(f"{n % 7}\n" for n in range(9000)),
            "X\n" + "".join(f"{n % 5}\n" for n in range(9000)) + "Y",
        ),
        ("one\r\ntwo\r\n", "one\r\n2\r\n"),
    ],
)
def test_a_diff_makes_the_one_text_of_the_other(tmp_path: Path, before: str, after: str) -> None:
    target = tmp_path / "f.txt"
    target.write_bytes(before.encode())
    diff = unified(before, Change.between(before, after), "f.txt")
    subprocess.run(
        ["git", "apply", "--unidiff-zero", "-p1", "-"], input=diff.encode(), cwd=tmp_path, check=True
    )  # fmt: skip
    assert target.read_bytes() == after.encode()


# Read state


def test_two_processes_share_what_was_read_and_sessions_do_not(root: Path, tmp_path: Path) -> None:
    (root / "f").write_bytes(b"one\n")
    code = (
        "import sys; from pathlib import Path; from ksadk.workspace import reading;"
        "from ksadk.workspace.read_state import ReadStates;"
        "reading.read(Path(sys.argv[1]), ReadStates.of_session(Path(sys.argv[2]), '', 's1'), 'f')"
    )
    subprocess.run([sys.executable, "-c", code, str(root), str(tmp_path / "reads")], check=True)
    place = locate(root, "f")
    reads = tmp_path / "reads"
    assert ReadStates.of_session(reads, "", "s1").get(place) is not None
    assert ReadStates.of_session(reads, "", "s2").get(place) is None
    assert ReadStates.of_session(reads, "account", "s1").get(place) is None
    [kept] = [path for path in reads.rglob("*") if path.is_file()]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [b"", b"[]", b"{}", b'{"path": 1', b"\xff", b"null", b"[" * 50_000])
def test_a_damaged_record_counts_as_not_read(root: Path, states: ReadStates, damage: bytes) -> None:
    (root / "f").touch()
    reading.read(root, states, "f")
    [kept] = states.directory.iterdir()
    kept.write_bytes(damage)
    assert states.get(locate(root, "f")) is None


def test_where_no_record_can_be_kept_reading_says_so_and_writing_writes(root: Path, tmp_path: Path) -> None:
    (root / "f").write_bytes(b"one\n")
    (tmp_path / "reads").write_bytes(b"a file")
    states = ReadStates.of_session(tmp_path / "reads", "", "default")
    with pytest.raises(WorkspaceError) as caught:
        reading.read(root, states, "f")
    assert caught.value.code == "not_a_directory"
    assert f"cannot be recorded, and could not be edited: {states.directory}" in caught.value.message
    assert code_of(editing.edit, root, states, "f", editing.Edit("one", "two")) == "file_not_read"
    assert writing.write_file(root, states, "f", "two\n")["ok"] is True
    assert writing.write_files(root, states, [{"path": "g", "content": ""}])["ok"] is True
    assert [writing.delete(root, states, name)["type"] for name in ("f", "g")] == ["file", "file"]
    assert names(root) == []


def test_a_record_that_fails_to_be_written_leaves_nothing(
    root: Path, states: ReadStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "f").write_bytes(b"one\n")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    assert code_of(reading.read, root, states, "f") == "no_space"
    assert names(states.directory) == []
