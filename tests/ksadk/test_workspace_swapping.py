"""What a file is replaced with, what of it stays, and what happens to those who were there in between."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ksadk.workspace import editing, exchange, files, reading, writing
from ksadk.workspace.paths import WorkspaceError, locate
from ksadk.workspace.read_state import ReadStates

LEFT = ".f.agentengine-swap"


@pytest.fixture
def root(root: Path) -> Path:
    (root / "f").write_bytes(b"old\n")
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}


def code_of(call: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    with pytest.raises(WorkspaceError) as caught:
        call(*arguments, **named)
    return caught.value.code


@pytest.fixture(params=["exchange", "compare and rename"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With renames that exchange, and where the file system has none."""
    if request.param != "exchange":
        monkeypatch.setattr(exchange, "_renameat2", lambda: lambda *_: errno.EINVAL)
    return str(request.param)


def at_rename(monkeypatch: pytest.MonkeyPatch, *acts: Callable[[], object]) -> None:
    """Do something right before the first rename, something else before the second, and so on."""
    real, left = exchange.renameat2, list(acts)

    def renameat2(*arguments: Any) -> bool:
        if left:
            left.pop(0)()
        return real(*arguments)

    monkeypatch.setattr(exchange, "renameat2", renameat2)


# Conflicts


def test_a_file_that_is_as_it_was_is_replaced(root: Path, way: str) -> None:
    files.replace(locate(root, "f"), b"new\n", before=b"old\n")
    assert contents(root) == {"f": b"new\n"}


def test_a_foreign_version_stays_in_its_place(root: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def rewrite() -> None:
        (root / "g").write_bytes(b"foreign\n")
        (root / "g").replace(root / "f")

    at_rename(monkeypatch, rewrite)
    assert code_of(files.replace, locate(root, "f"), b"new\n", before=b"old\n") == "file_modified_since_read"
    assert contents(root) == {"f": b"foreign\n"}


def test_bytes_of_the_same_size_and_time_are_a_conflict_all_the_same(
    root: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rewrite() -> None:
        times = (root / "f").stat()
        (root / "f").write_bytes(b"OLD\n")
        os.utime(root / "f", ns=(times.st_atime_ns, times.st_mtime_ns))

    at_rename(monkeypatch, rewrite)
    assert code_of(files.replace, locate(root, "f"), b"new\n", before=b"old\n") == "file_modified_since_read"
    assert contents(root) == {"f": b"OLD\n"}


def test_a_file_that_is_only_touched_is_replaced(
    root: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_rename(monkeypatch, lambda: os.utime(root / "f"))
    files.replace(locate(root, "f"), b"new\n", before=b"old\n")
    assert contents(root) == {"f": b"new\n"}


@pytest.mark.parametrize("when", ["before", "at the rename"])
def test_a_file_that_is_gone_is_not_made_again(
    root: Path, way: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    place = locate(root, "f")
    if when == "before":
        (root / "f").unlink()
    else:
        at_rename(monkeypatch, (root / "f").unlink)
    assert code_of(files.replace, place, b"new\n", before=b"old\n") == "file_modified_since_read"
    assert contents(root) == {}


def test_a_directory_that_is_gone_is_not_made_again(root: Path) -> None:
    assert code_of(files.replace, locate(root, "d/f"), b"new\n", before=b"old\n") == "not_found"
    assert not (root / "d").exists()


def test_a_link_that_came_to_stand_there_is_not_followed(
    root: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "same").write_bytes(b"old\n")

    def link() -> None:
        (root / "f").unlink()
        (root / "f").symlink_to("same")

    at_rename(monkeypatch, link)
    assert code_of(files.replace, locate(root, "f"), b"new\n", before=b"old\n") == "file_modified_since_read"
    assert (root / "f").readlink() == Path("same")
    assert [path.name for path in sorted(root.iterdir())] == ["f", "same"]


def test_of_two_foreign_versions_in_a_row_none_is_lost(
    root: Path, states: ReadStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading.read(root, states, "f")
    at_rename(
        monkeypatch,
        lambda: (root / "f").write_bytes(b"first\n"),
        lambda: (root / "f").write_bytes(b"second\n"),
    )
    with pytest.raises(WorkspaceError) as caught:
        editing.edit(root, states, "f", editing.Edit("old", "new"))
    assert contents(root) == {"f": b"first\n", LEFT: b"second\n"}
    assert (caught.value.code, caught.value.details["left_over"]) == ("file_modified_since_read", [LEFT])


def test_a_foreign_version_whose_name_is_deleted_at_once_is_kept(
    root: Path, states: ReadStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading.read(root, states, "f")
    at_rename(monkeypatch, lambda: (root / "f").write_bytes(b"foreign\n"), (root / "f").unlink)
    with pytest.raises(WorkspaceError) as caught:
        editing.edit(root, states, "f", editing.Edit("old", "new"))
    assert contents(root) == {LEFT: b"foreign\n"}
    assert caught.value.details["left_over"] == [LEFT]
    with pytest.raises(WorkspaceError) as caught:
        reading.read(root, states, "f")
    assert (caught.value.code, caught.value.details["left_over"]) == ("not_found", [LEFT])


def test_an_interruption_in_the_middle_of_it_deletes_nobodys_bytes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = exchange.renameat2

    def interrupted(*arguments: Any) -> bool:
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(exchange, "renameat2", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.replace(locate(root, "f"), b"new\n", before=b"old\n")
    assert contents(root) == {"f": b"new\n", LEFT: b"old\n"}


# Creating


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_meanwhile_is_not_replaced(
    root: Path, way: str, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", _no_links)
    place = locate(root, "new")
    at_rename(monkeypatch, lambda: (root / "new").write_bytes(b"foreign\n"))
    assert code_of(files.replace, place, b"new\n", create_only=True) == "already_exists"
    assert contents(root) == {"f": b"old\n", "new": b"foreign\n"}
    (root / "new").unlink()
    files.replace(place, b"new\n", create_only=True)
    assert contents(root) == {"f": b"old\n", "new": b"new\n"}
    assert code_of(files.replace, place, b"newer\n", create_only=True) == "already_exists"


def _no_links(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_write_that_makes_a_file_replaces_none_that_it_has_not_seen(
    root: Path, states: ReadStates, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    at_rename(monkeypatch, lambda: (root / "new").write_bytes(b"foreign\n"))
    assert code_of(writing.write_file, root, states, "new", "new\n", overwrite) == "already_exists"
    assert (root / "new").read_bytes() == b"foreign\n"


# Hard links


def test_a_hard_linked_file_is_changed_in_place_only(root: Path, states: ReadStates) -> None:
    (root / "also").hardlink_to(root / "f")
    reading.read(root, states, "f")
    change = editing.Edit("old", "newer")
    assert code_of(editing.edit, root, states, "f", change) == "hard_linked_file"
    assert code_of(writing.write_file, root, states, "f", "x") == "hard_linked_file"
    assert code_of(files.current_state, locate(root, "f")) == "hard_linked_file"
    assert code_of(writing.write_file, root, states, "f", "x", False) == "already_exists"
    assert contents(root) == {"f": b"old\n", "also": b"old\n"}
    for text in ("longer than it was\n", "short"):
        writing.write_file(root, states, "f", text, in_place=True)
        assert contents(root) == {"f": text.encode(), "also": text.encode()}
    assert writing.delete(root, states, "also")["type"] == "file"


@pytest.mark.parametrize("name", [".git/hooks/pre-commit", "d/.git/config", "ksadk.yaml", ".agentengine/x"])
def test_no_other_name_of_a_protected_file_is_written_in_place(
    root: Path, states: ReadStates, name: str
) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(b"protected")
    (root / "d").mkdir(exist_ok=True)
    (root / "d/also").hardlink_to(root / name)
    assert code_of(
        writing.write_file, root, states, "d/also", "x", in_place=True
    ) == "protected_path"  # fmt: skip
    assert (root / name).read_bytes() == b"protected"


def test_writing_in_place_keeps_a_foreign_version(root: Path) -> None:
    assert code_of(files.replace, locate(root, "f"), b"new", before=b"other", in_place=True) == (
        "file_modified_since_read"
    )
    assert contents(root) == {"f": b"old\n"}


def test_where_there_is_no_file_writing_in_place_makes_one(root: Path, states: ReadStates) -> None:
    assert writing.write_file(root, states, "d/new", "x", in_place=True)["created"] is True


# What stays


@pytest.mark.parametrize("mode", [0o755, 0o2755, 0o600, 0o640, 0o4711, 0o1644])
def test_the_mode_stays(root: Path, mode: int) -> None:
    (root / "f").chmod(mode)
    files.replace(locate(root, "f"), b"new\n", before=b"old\n")
    assert stat.S_IMODE((root / "f").stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_owner_stays_and_who_cannot_keep_it_lends_out_no_rights(root: Path) -> None:
    os.chown(root / "f", 1234, 1234)
    (root / "f").chmod(0o6777)
    files.replace(locate(root, "f"), b"new\n")
    state = (root / "f").stat()
    assert (state.st_uid, state.st_gid, stat.S_IMODE(state.st_mode)) == (1234, 1234, 0o6777)
    root.chmod(0o777)
    for parent in list(root.parents)[:-2]:
        parent.chmod(parent.stat().st_mode | 0o011)
    try:
        os.seteuid(4321)
        files.replace(locate(root, "f"), b"newer\n")
    finally:
        os.seteuid(0)
    state = (root / "f").stat()
    assert (state.st_uid, stat.S_IMODE(state.st_mode)) == (4321, 0o777)


def _access_list(user: int) -> bytes:
    """A POSIX access list as Linux keeps it: the owner, one more user, the group, the mask and the others."""
    nobody = 0xFFFFFFFF
    entries = [(0x01, 6, nobody), (0x02, 4, user), (0x04, 4, nobody), (0x10, 4, nobody), (0x20, 0, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


@pytest.fixture
def with_access_lists(root: Path) -> Path:
    try:
        os.setxattr(root / "f", "system.posix_acl_access", _access_list(1))
        os.removexattr(root / "f", "system.posix_acl_access")
    except (AttributeError, OSError):
        pytest.skip("this file system has no access lists")
    return root


def test_the_access_list_stays(with_access_lists: Path) -> None:
    path = with_access_lists / "f"
    os.setxattr(path, "system.posix_acl_access", _access_list(1234))
    before = path.stat().st_mode
    files.replace(locate(with_access_lists, "f"), b"new\n", before=b"old\n")
    assert os.getxattr(path, "system.posix_acl_access") == _access_list(1234)
    assert path.stat().st_mode == before


def test_a_file_without_an_access_list_gets_none_from_its_directory(with_access_lists: Path) -> None:
    os.setxattr(with_access_lists, "system.posix_acl_default", _access_list(1234))
    files.replace(locate(with_access_lists, "f"), b"new\n", before=b"old\n")
    assert os.listxattr(with_access_lists / "f") == []


# A disk that is full

TOO_LONG = """
import resource, sys
from pathlib import Path
from ksadk.workspace import writing
from ksadk.workspace.paths import WorkspaceError
from ksadk.workspace.read_state import ReadStates

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
root, states, in_place = Path(sys.argv[1]), ReadStates(Path(sys.argv[2])), sys.argv[3] == "True"
try:
    writing.write_file(root, states, "f", "x" * 200_000, in_place=in_place)
except WorkspaceError as error:
    print(error.code)
"""


@pytest.mark.parametrize("in_place", [False, True])
def test_a_file_that_the_disk_has_no_room_for_leaves_the_old_one(
    root: Path, tmp_path: Path, in_place: bool
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", TOO_LONG, str(root), str(tmp_path / "reads"), str(in_place)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout == "file_too_large\n"
    assert contents(root) == {"f": b"old\n"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["write", "fsync", "posix_fallocate"])
def test_a_write_that_the_system_refuses_leaves_the_old_file(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    in_place = call == "posix_fallocate"
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        assert code_of(files.replace, locate(root, "f"), b"longer\n", in_place=in_place) == "no_space"
    assert contents(root) == {"f": b"old\n"}


# What is written, and to what


def test_no_more_is_written_than_can_be_read_back(root: Path, states: ReadStates) -> None:
    most = "x" * files.MAX_TEXT_BYTES
    assert (
        writing.write_file(root, states, "most", most)["size"] == reading.read(root, states, "most")["size"]
    )
    assert code_of(writing.write_file, root, states, "more", most + "x") == "file_too_large"
    assert not (root / "more").exists()


@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_what_is_no_file_is_not_even_opened(
    root: Path, states: ReadStates, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "fifo":
        os.mkfifo(root / "special")
    elif kind == "device" and os.geteuid() == 0:
        os.mknod(root / "special", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    elif kind == "device":
        pytest.skip("only root can make a device")
    else:
        monkeypatch.chdir(root)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("special")
    opened, real = [], os.open
    monkeypatch.setattr(
        os, "open", lambda path, *rest, **named: opened.append(path) or real(path, *rest, **named)
    )
    assert code_of(reading.read, root, states, "special") == "not_a_regular_file"
    assert code_of(writing.write_file, root, states, "special", "x") == "not_a_regular_file"
    assert code_of(files.replace, locate(root, "special"), b"x", in_place=True) == "not_a_regular_file"
    assert "special" not in opened
    assert writing.delete(root, states, "special")["deleted"] == "special"
