"""Who fills or empties the event outbox may be killed at any moment: nothing is lost, or sent as new."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
"""A killed process leaves the same on a disk as in memory, where nobody waits for the disk."""

AFTER_A_TURN = 1000.0
BATCHES = 3


class Zygote:
    """Children that fill and empty an outbox, and what is left of that when they were killed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        script = Path(__file__).with_name("outbox_crash_zygote.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.now = 1_000_000.0
        self.outbox = ""

    def close(self) -> None:
        with self._process as process:
            assert process.stdin
            process.stdin.close()

    def prepare(self, outbox: str) -> None:
        shutil.rmtree(self.root)
        self.root.mkdir()
        self.outbox = outbox

    def run(
        self, *kills: int | None, give: int = BATCHES, tasks: tuple[str, ...] = ("a", "b")
    ) -> list[str | None]:
        """Let children work at the same time, each until its kill; where each was killed. Of several, each
        has tasks of its own."""
        self.now += AFTER_A_TURN
        several = len(kills) > 1
        orders = [
            {"root": str(self.root), "outbox": self.outbox, "now": self.now, "give": give, "kill": kill,
             "tasks": [f"{task}{number}" if several else task for task in tasks]}
            for number, kill in enumerate(kills)
        ]  # fmt: skip
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(orders) + "\n")
        self._process.stdin.flush()
        answer: list[str | None] = json.loads(self._process.stdout.readline())
        return answer

    def noted(self, name: str) -> list[str]:
        path = self.root / name
        return path.read_text().splitlines() if path.exists() else []

    def faults(
        self, twice: int, tasks: tuple[str, ...] = ("a", "b"), batches: int = BATCHES
    ) -> Iterator[str]:
        """What is wrong once children were killed, of whose batches up to `twice` were at the sink then."""
        self.run(None, give=0)  # who delivers what is left
        missing = set(self.noted("kept")) - set(self.noted("sent"))
        if missing:
            yield f"kept and never sent: {sorted(missing)}"
        self.run(None, give=batches, tasks=tasks)  # who gives all of it again, not knowing what was kept
        sent = self.noted("sent")
        for task in tasks:
            first = [item for item in dict.fromkeys(sent) if item.split(":")[0] == task]
            wanted = [f"{task}:{number}" for number in range(batches)]
            if first != wanted:
                yield f"{task} was sent as {first}"
        again = {item: count for item, count in Counter(sent).items() if count > 1}
        if sum(again.values()) - len(again) > twice:
            yield f"sent more than once: {again}"


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        zygote = Zygote(Path(directory) / "root")
        zygote.root.mkdir()
        try:
            yield zygote
        finally:
            zygote.close()


def faults_at_every_point(
    zygote: Zygote, outbox: str, first: int = 0, step: int = 1
) -> tuple[list[str], int]:
    """The faults after a kill at each point of a child's work, and how many points there are."""
    found: list[str] = []
    number = first
    while True:
        zygote.prepare(outbox)
        (point,) = zygote.run(number)
        if point is None:
            return [*found, *zygote.faults(twice=0)], number
        found += [f"{point} ({number}): {fault}" for fault in zygote.faults(twice=2)]
        number += step


@pytest.mark.parametrize("first", [0, 1], ids=["even points", "odd points"])
def test_a_child_may_be_killed_at_every_point_and_nothing_is_lost_or_new(zygote: Zygote, first: int) -> None:
    found, points = faults_at_every_point(zygote, "SQLiteA2AEventOutbox", first, step=2)
    assert found == []
    assert points > 60


@pytest.mark.parametrize(
    ("naive", "fault"),
    [
        ("Forgetful", "kept and never sent"),
        ("Unwritten", "kept and never sent"),
        ("Renaming", "sent more than once"),
    ],
)
def test_a_naive_one_is_caught(zygote: Zygote, naive: str, fault: str) -> None:
    found, _ = faults_at_every_point(zygote, naive, step=5)
    assert any(fault in each for each in found)


def test_three_at_once_that_nobody_kills_send_each_batch_once(zygote: Zygote) -> None:
    zygote.prepare("SQLiteA2AEventOutbox")
    assert zygote.run(None, None, None, give=40) == [None] * 3
    tasks = tuple(f"{task}{number}" for number in range(3) for task in "ab")
    assert list(zygote.faults(0, tasks, batches=40)) == []


def test_three_at_once_may_be_killed_at_random_again_and_again(zygote: Zygote) -> None:
    chance = random.Random(8)
    zygote.prepare("SQLiteA2AEventOutbox")
    killed, rounds = 0, 15
    for number in range(rounds):
        kills = [chance.randrange(5, 150) for _ in range(3)]
        killed += sum(point is not None for point in zygote.run(*kills, give=number))
    assert killed > rounds
    tasks = tuple(f"{task}{number}" for number in range(3) for task in "ab")
    # Each who was killed had no more than one batch of each of the six tasks at the sink.
    assert list(zygote.faults(6 * killed, tasks, batches=rounds)) == []
