"""A writer that is killed at any moment leaves a whole file, old or new, and loses nobody's bytes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from crash_zygote import FOREIGN

from ksadk.workspace import reading, writing
from ksadk.workspace.paths import WorkspaceError
from ksadk.workspace.read_state import ReadStates
from ksadk.workspace.swapping import swap_names

MOMENTS = 200
OLD = "".join(f"line {number}\n" for number in range(20))


class Zygote:
    """Children that write in one workspace, and what is left of it when they were killed."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "root"
        self.root.mkdir()
        self.states = ReadStates(directory / "reads")
        script = Path(__file__).with_name("crash_zygote.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        with self._process as process:
            assert process.stdin
            process.stdin.close()

    def run(self, job: str, size: int = 1, **order: Any) -> dict[str, Any]:
        """Let a child do a job on a fresh file that was read; what it said, if it lived to say it, and how it
        ended."""
        self._old = OLD * size
        self._new = self._old.replace("line 7", "LINE 7", 1)
        for path in sorted(self.root.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (self.root / "f").write_text(self._old)
        reading.read(self.root, self.states, "f", 1, 1)
        whole = {
            "job": job,
            "root": str(self.root),
            "reads": str(self.states.directory),
            "new": self._new,
        } | order
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(whole) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = {}
        while "killed" not in answer:
            answer |= json.loads(self._process.stdout.readline())
        return answer

    def faults(self, foreign: bool = False) -> list[str]:
        """What is wrong with what a killed child left; afterwards nothing of it is there."""
        found = []
        for path in ("f", "made/f"):
            name = self.root / path
            known = (name.with_name(swap) for swap in islice(swap_names(name.name), 3))
            left = {str(swap.relative_to(self.root)): swap.read_text() for swap in known if swap.exists()}
            there = name.read_text() if name.exists() else None
            allowed = {self._old, self._new} if path == "f" else {None, self._new}
            if there not in allowed | ({FOREIGN} if foreign else set()):
                found.append(f"{path} holds {there and there[:20]!r} ({len(there or '')} characters)")
            if foreign and path == "f" and FOREIGN not in {there, *left.values()}:
                found.append("the foreign version is nowhere")
            to_tell = sorted(shown for shown, text in left.items() if text != there)
            if self._told(path) != to_tell:
                found.append(f"{path}: {to_tell} were left, and {self._told(path)} told of")
            for shown in to_tell:
                writing.delete(self.root, self.states, shown)
        rest = {str(path.relative_to(self.root)) for path in self.root.rglob("*")}
        rest -= {"f", "made", "made/f"}
        return [*found, f"left: {sorted(rest)}"] if rest else found

    def _told(self, path: str) -> list[str]:
        try:
            return list(reading.read(self.root, self.states, path, 1, 1).get("left_over", []))
        except WorkspaceError as error:
            assert error.code == "not_found"
            return list(error.details.get("left_over", []))


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    zygote = Zygote(tmp_path_factory.mktemp("crash").resolve())
    yield zygote
    zygote.close()


def _faults_at_every_call(zygote: Zygote, job: str, foreign: bool = False) -> list[str]:
    calls = zygote.run(job, foreign=foreign)
    assert calls["said"] == ("file_modified_since_read" if foreign else "ok")
    assert not calls["killed"]
    found = [f"unharmed: {fault}" for fault in zygote.faults(foreign)]
    first = calls["names"].index("renameat2") if foreign else 0
    # After one call is before the next one: nothing reaches the disk in between.
    points = [(first, "before"), *((number, "after") for number in range(first, len(calls["names"])))]
    for number, when in points:
        point = f"{when} call {number}, {calls['names'][number]}"
        assert zygote.run(job, foreign=foreign, kill=[number, when])["killed"], f"{point} was not reached"
        found += [f"{point}: {fault}" for fault in zygote.faults(foreign)]
    return found


@pytest.mark.parametrize("job", ["edit", "multi_edit", "write", "write_several"])
def test_a_writer_killed_before_or_after_any_system_call_leaves_whole_files(zygote: Zygote, job: str) -> None:
    assert _faults_at_every_call(zygote, job) == []


@pytest.mark.parametrize("job", ["edit", "write"])
def test_what_another_program_wrote_in_between_survives_a_kill(zygote: Zygote, job: str) -> None:
    assert _faults_at_every_call(zygote, job, foreign=True) == []


def test_a_writer_killed_at_any_moment_leaves_whole_files(zygote: Zygote) -> None:
    size = 500
    longest = max(zygote.run("write", size, plainly=True)["seconds"] for _ in range(5))
    chance = random.Random(4)
    found, killed = [], 0
    for _ in range(MOMENTS):
        answer = zygote.run("write", size, plainly=True, delay=chance.uniform(0, longest))
        killed += answer["killed"]
        found += zygote.faults()
    assert (found, killed > MOMENTS / 4) == ([], True)


def test_a_naive_writer_is_caught(zygote: Zygote) -> None:
    assert any("holds" in fault for fault in _faults_at_every_call(zygote, "write_naively"))
