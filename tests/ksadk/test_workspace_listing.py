"""Listings: what they show, in which order, and what they never show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ksadk.workspace import listing
from ksadk.workspace.paths import WorkspaceError


def code_of(call: object, *arguments: object) -> str:
    assert callable(call)
    with pytest.raises(WorkspaceError) as caught:
        call(*arguments)
    return caught.value.code


def test_links_are_listed_and_never_followed(root: Path) -> None:
    (root / "out").symlink_to("/etc")
    (root / "dangling").symlink_to("nowhere")
    (root / "loop").symlink_to(".")
    (root / "d").mkdir()
    (root / "d" / "f").write_bytes(b"xyz")
    os.mkfifo(root / "fifo")
    result = listing.list_entries(root, recursive=True)
    assert [(entry["path"], entry["type"], entry["size"]) for entry in result["entries"]] == [
        ("d", "directory", 0), ("d/f", "file", 3), ("dangling", "symlink", 0), ("fifo", "other", 0),
        ("loop", "symlink", 0), ("out", "symlink", 0),
    ]  # fmt: skip
    assert listing.status(root)["files"] == [{"path": "d/f", "size": 3}]


def test_private_places_are_not_listed(root: Path) -> None:
    for name in (".agentengine/x", ".git/config", "a"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    shown = [entry["path"] for entry in listing.list_entries(root, recursive=True)["entries"]]
    assert shown == [".git", "a"]
    assert [file["path"] for file in listing.status(root)["files"]] == ["a"]


@pytest.mark.parametrize(
    ("arguments", "paths", "truncated"),
    [
        ({"glob": "*.py", "recursive": True}, ["b.py", "s/a.py"], False),
        ({"path": "s"}, ["s/a.py", "s/c.txt"], False),
        ({"path": "s", "glob": "*.txt"}, ["s/c.txt"], False),
        ({"include_dirs": False}, ["b.py"], False),
        ({"max_results": 1}, ["b.py"], True),
        ({"max_results": -5}, ["b.py"], True),
        ({"recursive": True, "include_dirs": False, "sort_by": "size"}, ["s/c.txt", "b.py", "s/a.py"], False),
        (
            {"recursive": True, "include_dirs": False, "sort_by": "mtime"},
            ["s/a.py", "s/c.txt", "b.py"],
            False,
        ),
    ],
)
def test_a_listing_is_chosen_and_sorted(
    root: Path, arguments: dict[str, object], paths: list[str], truncated: bool
) -> None:
    (root / "s").mkdir()
    for age, (name, size) in enumerate({"s/a.py": 1, "s/c.txt": 9, "b.py": 5}.items()):
        (root / name).write_bytes(b"x" * size)
        os.utime(root / name, (100 - age, 100 - age))
    result = listing.list_entries(root, **arguments)  # type: ignore[arg-type]
    assert ([entry["path"] for entry in result["entries"]], result["truncated"]) == (paths, truncated)


def test_a_listing_that_cannot_be_made_says_why(root: Path) -> None:
    (root / "f").touch()
    assert code_of(listing.list_entries, root, "gone") == "not_found"
    assert code_of(listing.list_entries, root, "f") == "not_a_directory"
    assert code_of(listing.list_entries, root, ".", "") == "invalid_glob"
    assert code_of(listing.list_entries, root, ".", None, False, True, 5, "colour") == "invalid_sort_by"


def test_a_sample_has_at_most_fifty_files(root: Path) -> None:
    for number in range(60):
        (root / f"{number:02}").touch()
    result = listing.status(root)
    assert (result["file_count_sampled"], result["files"][49]["path"]) == (50, "49")
