"""A walk sees what is inside, however deep and wide it is, and nothing else, whoever moves things."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from search_engines import INSTALLED

from ksadk.workspace.directories import MAX_HELD, Directories
from ksadk.workspace.engines import Engine
from ksadk.workspace.listing import list_entries
from ksadk.workspace.paths import WorkspaceError
from ksadk.workspace.searching import Query, search
from ksadk.workspace.tree import Walk


@pytest.fixture
def root(root: Path) -> Iterator[Path]:
    yield root
    subprocess.run(["rm", "-rf", str(root)], check=True)  # pytest's own clean-up is no match for deep trees


def dig(root: Path, name: str, depth: int) -> None:
    """Make directories in each other, each with a file, deeper than a path can say."""
    descriptor = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=descriptor)
        below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
        os.close(os.open("f.txt", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor))
        os.close(os.open("z.txt", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor))
    os.close(descriptor)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# Order


def test_entries_come_name_by_name_in_the_order_of_their_bytes(root: Path) -> None:
    for path in ("a/z", "a-b", "a.txt", "a0", "é", "\udcff", "B"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).touch()
    paths = [entry.path for entry in Walk(root).entries(root, recursive=True)]
    assert paths == ["B", "a", "a/z", "a-b", "a.txt", "a0", "é", "\udcff"]
    listed = list_entries(root, recursive=True, max_results=3)
    assert ([entry["path"] for entry in listed["entries"]], listed["truncated"]) == (["B", "a", "a/z"], True)


# Depth and width


@pytest.mark.parametrize(("name", "depth"), [("d", 1_200), ("d" * 250, 40)])
def test_a_tree_deeper_than_a_path_can_say_is_walked(root: Path, name: str, depth: int) -> None:
    dig(root, name, depth)
    before, most = open_files(), 0
    count = 0
    walk = Walk(root)
    for entry in walk.entries(root, recursive=True):
        assert walk.state(entry) is not None
        count += 1
        most = max(most, open_files())
    assert count == 3 * depth
    assert most - before <= MAX_HELD + 4
    assert open_files() == before
    listed = list_entries(root, recursive=True, max_results=5_000)
    assert (len(listed["entries"]), listed["unreadable"]) == (3 * depth, 0)


@pytest.mark.parametrize(("name", "depth"), [("d", 400), ("d" * 250, 40)])
def test_a_tree_deeper_than_a_path_can_say_is_searched(
    root: Path, engine: Engine, name: str, depth: int
) -> None:
    dig(root, name, depth)
    (root / name / "f.txt").write_bytes(b"needle\n")
    (root / name / "z.txt").write_bytes(b"needle\n")
    found = search(root, Query("needle"), engine)
    assert [match["path"] for match in found["results"]] == [f"{name}/f.txt", f"{name}/z.txt"]


def test_directories_are_held_wherever_one_goes(root: Path) -> None:
    deep = tuple("d" * 150)
    dig(root, "d", 150)
    (root / "other").mkdir()
    before = open_files()
    with Directories(root) as directories:
        for names in (deep, deep[:-1], deep, deep[:3], ("other",), deep[:100], (), deep[:64], deep[:65]):
            state = os.stat(".", dir_fd=directories.hold(names))
            assert state.st_ino == root.joinpath(*names).stat().st_ino
            with pytest.raises(FileNotFoundError):
                directories.hold((*names, "gone", "further"))
            assert os.stat(".", dir_fd=directories.hold(names)).st_ino == state.st_ino
            assert open_files() <= before + MAX_HELD + 2
    assert open_files() == before


@pytest.mark.parametrize("directories", [1, 300])
def test_many_entries_are_listed_and_searched(root: Path, directories: int) -> None:
    for number in range(6_000 if directories == 1 else 3_000):
        if number < directories:
            (root / f"d{number}").mkdir()
        (root / f"d{number % directories}" / f"f{number:05}").touch()
    for sort_by in ("name", "mtime", "size"):
        listed = list_entries(root, recursive=True, include_dirs=False, sort_by=sort_by, max_results=2_000)
        assert (len(listed["entries"]), listed["truncated"]) == (2_000, True)
    (root / "d0" / "f00000").write_bytes(b"needle\n")
    for engine in INSTALLED:
        assert search(root, Query("needle"), engine)["match_count"] == 1


# What stands in for an ignore file


@pytest.mark.parametrize("name", [".gitignore", ".ignore", ".rgignore"])
def test_a_fifo_in_place_of_an_ignore_file_stops_no_search(root: Path, engine: Engine, name: str) -> None:
    (root / "sub").mkdir()
    os.mkfifo(root / "sub" / name)
    (root / "a.txt").write_bytes(b"needle\n")
    (root / "sub" / "b.txt").write_bytes(b"needle\n")
    found = search(root, Query("needle"), engine)
    assert [match["path"] for match in found["results"]] == ["a.txt", "sub/b.txt"]
    assert "timed_out" not in found


def test_an_ignore_file_may_be_a_link_to_another_in_the_root(root: Path, engine: Engine) -> None:
    (root / "rules").write_bytes(b"*.log\n")
    (root / ".gitignore").symlink_to("rules")
    (root / ".ignore").symlink_to(".ignore")
    (root / "a.log").write_bytes(b"needle\n")
    (root / "b.txt").write_bytes(b"needle\n")
    assert [match["path"] for match in search(root, Query("needle"), engine)["results"]] == ["b.txt"]


def test_a_stronger_file_above_keeps_what_a_weaker_one_below_ignores(root: Path, engine: Engine) -> None:
    (root / "sub").mkdir()
    (root / ".ignore").write_bytes(b"!*.log\n")
    (root / "sub" / ".gitignore").write_bytes(b"*.log\n*.txt\n")
    for name in ("a.log", "b.txt", "c"):
        (root / "sub" / name).write_bytes(b"needle\n")
    for path in (".", "sub"):
        found = search(root, Query("needle", path), engine)["results"]
        assert [match["path"] for match in found] == ["sub/a.log", "sub/c"]


# Somebody swaps a directory for a link


@contextmanager
def swapping(root: Path, outside: Path) -> Iterator[None]:
    """Put a link that leads outside in the place of a directory, and the directory back, again and again."""
    stop = threading.Event()
    place, aside = root / "d", root / "aside"

    def swap() -> None:
        while not stop.is_set():
            place.rename(aside)
            place.symlink_to(outside)
            time.sleep(0)
            place.unlink()
            aside.rename(place)
            time.sleep(0)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def seen_from_outside(tmp_path: Path, look: Callable[[Path], str], seconds: float) -> bool:
    """Whether looking at a workspace in such a loop ever shows what is outside."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for directory in (root / "d", outside):
        (directory / "sub").mkdir(parents=True)
        (directory / "sub" / "f.txt").write_bytes(b"needle\n")
    (outside / "sub" / "f.txt").write_bytes(b"needle and secret\n")
    (outside / "secret").write_bytes(b"needle and secret\n")
    until = time.monotonic() + seconds
    with swapping(root, outside):
        while time.monotonic() < until:
            with suppress(WorkspaceError):
                if "secret" in look(root):
                    return True
    return False


def _naive(root: Path) -> str:
    """What a walk by path shows that looks for links before it goes on."""
    seen, left = [], [root]
    while left:
        with suppress(OSError):
            for path in left.pop().iterdir():
                seen.append(str(path))
                if not path.is_symlink() and path.is_dir():
                    left.append(path)
    return "\n".join(seen)


def _tools(root: Path) -> str:
    """What the tools show, of the workspace and of the directory that is swapped."""
    shown = []
    looks: list[Callable[[], object]] = [
        lambda path=path: list_entries(root, path, recursive=True) for path in (".", "d")
    ]
    looks += [
        lambda path=path, engine=engine: search(root, Query("needle", path), engine)
        for engine in INSTALLED
        for path in (".", "d", "d/sub/f.txt")
    ]
    for look in looks:
        with suppress(WorkspaceError):
            shown.append(str(look()))
    return "\n".join(shown)


def test_nothing_from_outside_is_listed_or_found_while_directories_are_swapped(
    root: Path, tmp_path: Path
) -> None:
    assert not seen_from_outside(tmp_path, _tools, seconds=3)


def test_that_race_is_one_that_a_walk_by_path_loses(root: Path, tmp_path: Path) -> None:
    assert seen_from_outside(tmp_path, _naive, seconds=20)
