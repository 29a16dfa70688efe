"""What a writer that was killed left beside a file, and who is told of it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from ksadk.workspace import editing, files, reading, writing
from ksadk.workspace.paths import WorkspaceError, locate
from ksadk.workspace.read_state import ReadStates
from ksadk.workspace.swapping import swap_names

LEFT = ".f.agentengine-swap"


@pytest.fixture
def root(root: Path) -> Path:
    (root / "f").write_bytes(b"old\n")
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}


def test_what_was_left_is_told_until_it_is_gone_and_never_overwritten(root: Path, states: ReadStates) -> None:
    (root / LEFT).write_bytes(b"foreign\n")
    (root / f"{LEFT}.3").write_bytes(b"another\n")
    both = [LEFT, f"{LEFT}.3"]
    assert reading.read(root, states, "f")["left_over"] == both
    result = editing.edit(root, states, "f", editing.Edit("old", "new"))
    assert result["left_over"] == both
    assert LEFT in result["warning"]
    assert "delete it" in result["warning"]
    assert writing.write_file(root, states, "f", "newer\n")["left_over"] == both
    several = writing.write_files(
        root, states, [{"path": "f", "content": "new"}, {"path": "g", "content": ""}]
    )
    assert several["left_over"] == both
    with pytest.raises(WorkspaceError) as caught:
        editing.edit(root, states, "f", editing.Edit("absent", "x"))
    assert caught.value.details["left_over"] == both
    for name in both:
        writing.delete(root, states, name)
    assert "left_over" not in reading.read(root, states, "f")
    assert contents(root) == {"f": b"new", "g": b""}


def test_what_is_the_same_as_the_file_is_cleared_away(root: Path, states: ReadStates) -> None:
    (root / LEFT).write_bytes(b"old\n")
    result = reading.read(root, states, "f")
    assert ("left_over" in result, "warning" in result) == (False, False)
    assert contents(root) == {"f": b"old\n"}


def test_the_file_of_a_writer_at_work_is_not_told_of(root: Path, states: ReadStates) -> None:
    with files.locked(root):
        (root / LEFT).write_bytes(b"half")
        assert "left_over" not in reading.read(root, states, "f")
    assert reading.read(root, states, "f")["left_over"] == [LEFT]


def test_what_was_left_below_a_directory_and_behind_a_link_has_its_whole_path(
    root: Path, states: ReadStates
) -> None:
    (root / "d").mkdir()
    (root / "d/g").write_bytes(b"x")
    (root / "d/.g.agentengine-swap").write_bytes(b"y")
    (root / "link").symlink_to("d/g")
    assert reading.read(root, states, "link")["left_over"] == ["d/.g.agentengine-swap"]


@pytest.mark.parametrize("name", ["f", "x" * 235, "x" * 255, "中" * 85, "\udce9" * 255])
def test_the_names_of_what_is_left_fit_and_are_those_of_one_file(tmp_path: Path, name: str) -> None:
    names = list(islice(swap_names(name), 3))
    assert len(set(names)) == 3
    assert names[0] != next(swap_names(name[:-1] + "y"))
    for swap in names:
        (tmp_path / swap).touch()


def test_a_name_as_long_as_the_system_takes_is_written(root: Path) -> None:
    place = locate(root, "x" * 255)
    files.replace(place, b"one")
    files.replace(place, b"two", before=b"one")
    assert sorted(path.name for path in root.iterdir()) == ["f", "x" * 255]
