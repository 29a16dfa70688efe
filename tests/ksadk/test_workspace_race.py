"""Others change the tree meanwhile: what becomes a link leads nothing outside, and all edits land."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ksadk.workspace import editing, files, reading
from ksadk.workspace.exchange import exchange
from ksadk.workspace.paths import Place, WorkspaceError, locate
from ksadk.workspace.read_state import ReadStates

WRITES = 10_000
OUTSIDE = b"outside"


@pytest.fixture
def tree() -> Iterator[Path]:
    """`root/d/e/f` inside, and `outside/e/f`, on a file system where synchronising costs nothing, if there is
    one: it is the race that takes many writes, not the disk."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=base) as name:
        tree = Path(name).resolve()
        for directory, content in (("root/d/e", b"inside"), ("outside/e", OUTSIDE)):
            (tree / directory).mkdir(parents=True)
            (tree / directory / "f").write_bytes(content)
        yield tree


SWAPPER = """
import os, sys
from ksadk.workspace.exchange import exchange
directory = os.open(sys.argv[1], os.O_RDONLY)
os.symlink(sys.argv[2], "link", dir_fd=directory)
print("ready", flush=True)
while True:
    exchange(directory, sys.argv[3], "link")
"""


@contextmanager
def swapping(tree: Path) -> Iterator[None]:
    """Another process lets `root/d` and a link to `outside` trade places, on and on."""
    if not _can_exchange(tree):
        pytest.skip("names cannot be exchanged here")
    arguments = [str(tree / "root"), str(tree / "outside"), "d"]
    with subprocess.Popen([sys.executable, "-c", SWAPPER, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            process.kill()


def _can_exchange(tree: Path) -> bool:
    descriptor = os.open(tree, os.O_RDONLY)
    try:
        return exchange(descriptor, "root", "root")
    finally:
        os.close(descriptor)


def escapes(tree: Path, act: Callable[[Place], bytes], count: int) -> str:
    """What doing something `count` times, and on until the directory and the link were met, did outside."""
    place = locate(tree / "root", "d/e/f")
    done = 0
    with swapping(tree):
        for number in range(50 * count):
            if number >= count and 0 < done < number:
                return _seen_outside(tree)
            try:
                if act(place) == OUTSIDE:
                    return "read"
                done += 1
            except (WorkspaceError, OSError):
                pass
            if number % 20 == 0 and (escaped := _seen_outside(tree)):
                return escaped
    return f"of {number + 1} times {done} went well, and so the race was not run"


def _seen_outside(tree: Path) -> str:
    there = sorted(str(path.relative_to(tree / "outside")) for path in (tree / "outside").rglob("*"))
    if there != ["e", "e/f"]:
        return f"made or deleted: {there}"
    return "written" if (tree / "outside/e/f").read_bytes() != OUTSIDE else ""


def replace(place: Place) -> bytes:
    files.replace(place, b"written")
    return b""


def replace_known(place: Place) -> bytes:
    before, _ = files.read_bytes(place)
    files.replace(place, b"edited" if before == b"written" else b"written", before=before)
    return before


def write_through(place: Place) -> bytes:
    files.replace(place, b"written", in_place=True)
    return b""


def make_and_delete(place: Place) -> bytes:
    path = place.real.with_name("new") / "g"
    new = Place(place.root, "d/e/new/g", path, path)
    with suppress(WorkspaceError):
        files.remove(new)
    files.replace(new, b"made", create_only=True)
    return b""


def read(place: Place) -> bytes:
    return files.read_bytes(place)[0]


def delete(place: Place) -> bytes:
    with suppress(WorkspaceError):
        files.remove(place)
    files.replace(place, b"back")
    return b""


@pytest.mark.parametrize(
    ("act", "count"),
    [
        (replace, WRITES),
        (replace_known, WRITES // 5),
        (write_through, WRITES // 5),
        (make_and_delete, WRITES // 5),
        (read, WRITES // 5),
        (delete, WRITES // 5),
    ],
)
def test_a_directory_swapped_for_a_link_leads_nothing_outside(
    tree: Path, act: Callable[[Place], bytes], count: int
) -> None:
    assert escapes(tree, act, count) == ""


def write_by_path(place: Place) -> bytes:
    """Resolve, check, open by path: what looks confined, and is not."""
    if not place.real.resolve().is_relative_to(place.root):
        return b""
    descriptor = os.open(place.real, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
    os.write(descriptor, b"written")
    os.close(descriptor)
    return b""


def read_by_path(place: Place) -> bytes:
    return place.real.read_bytes() if place.real.resolve().is_relative_to(place.root) else b""


def delete_by_path(place: Place) -> bytes:
    if place.real.resolve().is_relative_to(place.root):
        place.real.unlink()
    return b""


@pytest.mark.parametrize("act", [write_by_path, read_by_path, delete_by_path])
def test_the_race_is_one_that_opening_by_path_loses(tree: Path, act: Callable[[Place], bytes]) -> None:
    assert escapes(tree, act, 20 * WRITES) in ("written", "read", "made or deleted: ['e']")


# Edits at once

EDITOR = """
import sys
from pathlib import Path
from ksadk.workspace import editing, reading
from ksadk.workspace.read_state import ReadStates
root, states = Path(sys.argv[1]), ReadStates(Path(sys.argv[2]))
sys.stdin.readline()
for number in range(20):
    editing.edit(root, states, "f", editing.Edit(f"{sys.argv[3]} {number};", f"{sys.argv[3]} {number} done;"))
"""


def _whole_text(done: bool) -> str:
    ending = " done;" if done else ";"
    return "".join(f"{who} {number}{ending}\n" for number in range(20) for who in ("one", "two"))


def test_edits_of_different_places_by_two_processes_all_land(tree: Path) -> None:
    root, states = tree / "root", ReadStates(tree / "reads")
    (root / "f").write_text(_whole_text(False))
    reading.read(root, states, "f")
    editors = [
        subprocess.Popen(
            [sys.executable, "-c", EDITOR, str(root), str(states.directory), who], stdin=subprocess.PIPE
        )
        for who in ("one", "two")
    ]
    for editor in editors:
        assert editor.stdin
        editor.stdin.write(b"go\n")
        editor.stdin.close()
    assert [editor.wait() for editor in editors] == [0, 0]
    assert (root / "f").read_text() == _whole_text(True)


def test_edits_of_different_places_by_two_threads_all_land(tree: Path) -> None:
    root, states = tree / "root", ReadStates(tree / "reads")
    (root / "f").write_text(_whole_text(False))
    reading.read(root, states, "f")

    def edit(who: str) -> None:
        for number in range(20):
            change = editing.Edit(f"{who} {number};", f"{who} {number} done;")
            editing.edit(root, states, "f", change)

    threads = [threading.Thread(target=edit, args=(who,)) for who in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (root / "f").read_text() == _whole_text(True)
