"""Directories that are held open, on file systems that cannot do everything and for users who may not."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ksadk.workspace import files, listing
from ksadk.workspace.held import held
from ksadk.workspace.paths import WorkspaceError, locate
from ksadk.workspace.searching import Query, search

NOBODY = 65_534


def test_no_link_on_the_way_is_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (root / "a").symlink_to(tmp_path / "outside")
    with pytest.raises(NotADirectoryError), held(root, root / "a/b", make=True):
        pass
    assert list((tmp_path / "outside").iterdir()) == []


# A file system that cannot do everything


@pytest.fixture
def commoner() -> Iterator[Path]:
    """A root that belongs to a user whom modes bind; the test runs as that user."""
    directory = Path(tempfile.mkdtemp(prefix="root", dir="/tmp")).resolve()
    am_root = os.geteuid() == 0
    if am_root:
        os.chown(directory, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield directory
    finally:
        if am_root:
            os.seteuid(0)
        shutil.rmtree(directory)


def test_what_was_done_in_a_directory_that_cannot_be_read_is_done(commoner: Path) -> None:
    (commoner / "d/empty").mkdir(parents=True)
    (commoner / "d").chmod(0o300)
    try:
        files.replace(locate(commoner, "d/f"), b"one")
        assert files.read_bytes(locate(commoner, "d/f"))[0] == b"one"
        files.replace(locate(commoner, "d/f"), b"two")
        files.replace(locate(commoner, "d/new/f"), b"three")
        assert files.remove(locate(commoner, "d/f")) == "file"
        assert files.remove(locate(commoner, "d/empty")) == "directory"
    finally:
        (commoner / "d").chmod(0o700)
    assert [path.name for path in (commoner / "d").iterdir()] == ["new"]
    assert (commoner / "d/new/f").read_bytes() == b"three"


def test_a_directory_that_cannot_be_synchronised_makes_no_failure(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fsync)
    files.replace(locate(root, "f"), b"x")
    assert files.remove(locate(root, "f")) == "file"


@pytest.mark.parametrize(
    ("call", "number"), [("listxattr", errno.ENOTSUP), ("fchmod", errno.EPERM), ("fchown", errno.EPERM)]
)
def test_a_file_system_without_modes_or_attributes_is_written_to(
    root: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    (root / "f").write_bytes(b"old")
    (root / "f").chmod(0o600)
    if os.geteuid() == 0:
        os.chown(root / "f", NOBODY, NOBODY)
    monkeypatch.setattr(os, call, refuse)
    files.replace(locate(root, "f"), b"new")
    assert (root / "f").read_bytes() == b"new"
    assert stat.S_IMODE((root / "f").stat().st_mode) == 0o600


def test_a_file_that_can_be_written_but_not_read_is_replaced(commoner: Path) -> None:
    (commoner / "f").touch(0o200)
    files.replace(locate(commoner, "f"), b"new")
    assert stat.S_IMODE((commoner / "f").stat().st_mode) == 0o200


def test_a_write_keeps_the_extended_attributes(root: Path) -> None:
    (root / "f").write_bytes(b"old")
    try:
        os.setxattr(root / "f", "user.note", b"kept")
    except (AttributeError, OSError):
        pytest.skip("this file system has no attributes")
    files.replace(locate(root, "f"), b"new")
    assert os.getxattr(root / "f", "user.note") == b"kept"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_leaves_no_temporary_file(
    root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (root / "f").write_bytes(b"old")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(WorkspaceError) as caught:
        files.replace(locate(root, "f"), b"new")
    assert caught.value.code == "no_space"
    assert [path.name for path in root.iterdir()] == ["f"]
    assert (root / "f").read_bytes() == b"old"


# A directory that cannot be read


def test_a_directory_that_cannot_be_read_is_not_an_empty_one(commoner: Path) -> None:
    for name in ("open/f", "closed/f", "open/shut/f", "listed/f"):
        (commoner / name).parent.mkdir(parents=True, exist_ok=True)
        (commoner / name).write_bytes(b"needle\n")
    closed = {"closed": 0o000, "open/shut": 0o300, "listed": 0o400}
    for name, mode in closed.items():
        (commoner / name).chmod(mode)
    try:
        for name in closed:
            for look in (
                lambda name=name: listing.list_entries(commoner, name),
                lambda name=name: search(commoner, Query("needle", name)),
            ):
                with pytest.raises(WorkspaceError) as caught:
                    look()
                assert caught.value.code == "permission_denied"
        found = listing.list_entries(commoner, recursive=True)
        assert [entry["path"] for entry in found["entries"]] == [
            "closed", "listed", "open", "open/f", "open/shut",
        ]  # fmt: skip
        assert found["unreadable"] == 3
        assert listing.status(commoner)["unreadable"] == 3
        assert [match["path"] for match in search(commoner, Query("needle"))["results"]] == ["open/f"]
        assert search(commoner, Query("nowhere"))["skipped"]["unreadable"] == 3
        commoner.chmod(0o300)
        with pytest.raises(WorkspaceError) as caught:
            listing.status(commoner)
        assert caught.value.code == "permission_denied"
    finally:
        for path in (commoner, *map(commoner.joinpath, closed)):
            path.chmod(0o700)
