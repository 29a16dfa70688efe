"""A file is replaced whole, or it stays as it was."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ksadk.whole_files import replace_file


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty directory."""
    directory = tmp_path / "place"
    directory.mkdir()
    return directory


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_is_replaced_with_its_permissions(mode: int, place: Path) -> None:
    path = place / ("n" * 255)
    for data in (b"", b"some text\0\xff"):
        replace_file(path, data, mode=mode)
        assert path.read_bytes() == data
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert list(place.iterdir()) == [path]


def test_a_link_is_replaced_and_what_it_leads_to_is_let_be(place: Path) -> None:
    precious = place / "precious"
    precious.write_text("precious")
    link = place / "link"
    link.symlink_to(precious)
    replace_file(link, b"new")
    assert (link.is_symlink(), link.read_bytes(), precious.read_text()) == (False, b"new", "precious")


@pytest.mark.parametrize("call", ["open", "fchmod", "fsync", "replace"])
def test_what_cannot_be_written_leaves_all_as_it_was(
    call: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place / "kept"
    path.write_text("old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert list(place.iterdir()) == [path]
