"""A hosted runtime that is killed at any write of its stores keeps what it has told, and ends every task.

The next runtime is asked by the same caller, who answers what waits, and sends again what came to nothing.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MEMORY = Path("/dev/shm")
"""A killed process leaves the same on a disk as in memory, where nobody waits for the disk."""

WAITS, COMPLETED, FAILED = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED", "TASK_STATE_FAILED"
AFTER_A_TURN = 1000.0
STORES = ("tasks", "contexts", "checkpoints", "resume", "outbox")


class Noted:
    """What a child's caller and agent noted, by kind."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.killed: str | None = answer["killed"]
        kinds: defaultdict[str, list[list[str]]] = defaultdict(list)
        for kind, *what in answer["noted"]:
            kinds[kind].append(what)
        self.sessions = [session for (session,) in kinds["session"]]
        self.kept = {task: ids for task, *ids in kinds["kept"]}
        self.answering = {task for (task,) in kinds["answering"]}
        self.told = {task: state for task, state, _ in kinds["told"]}
        self.found = {task: state for task, state, _ in kinds["found"]}
        self.ended = {task: (state, words) for task, state, words in kinds["ended"]}


class Zygote:
    """Runtimes on one directory, one after the other."""

    def __init__(self, root: Path) -> None:
        self.root = root
        script = Path(__file__).with_name("hosted_crash_zygote.py")
        places = [str(script.parents[1]), str(script.parent)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"import sys; sys.path[:0] = {places}; {RUN}", str(script)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._now = 1_000_000.0

    def close(self) -> None:
        with self._process as process:
            assert process.stdin
            process.stdin.close()

    def empty(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()

    def run(self, kill: int | str = -1, naive: str = "") -> Noted:
        """A runtime and its caller up to a kill, or to their end."""
        self._now += AFTER_A_TURN
        order = {"root": str(self.root), "naive": naive, "now": self._now, "kill": kill}
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Noted(json.loads(self._process.stdout.readline()))

    def delivered(self) -> list[str]:
        """The batches that the platform took: the task, and the ids of the events."""
        path = self.root / "events"
        return path.read_text().splitlines() if path.exists() else []

    def rows(self, store: str, query: str) -> list[Any]:
        connection = sqlite3.connect(self.root / f"{store}.db")
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()


RUN = "import runpy; runpy.run_path(sys.argv[1], run_name='__main__')"


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        zygote = Zygote(Path(directory) / "root")
        try:
            yield zygote
        finally:
            zygote.close()


def faults_of_tasks(killed: Noted, again: Noted) -> Iterator[str]:
    for task, state in killed.told.items():
        at_once = again.found.get(task, "nothing")
        if task not in killed.answering or state == COMPLETED:
            if at_once != state:
                yield f"the caller was told {state}, and found {at_once}"
            if again.ended.get(task, ("nothing", ""))[0] != COMPLETED:
                yield f"what waited became {again.ended.get(task)}"
    for state, words in again.ended.values():
        if state != COMPLETED and not (state == FAILED and words):
            yield f"a task is {state} {words!r}"
    if again.ended.keys() < again.found.keys():
        yield "a task is gone"
    if not any(state == COMPLETED for state, _ in again.ended.values()):
        yield "nothing was completed for one who asked again"
    if len({*killed.sessions, *again.sessions}) > 1:
        yield "one context became two sessions"


def faults_of_events(zygote: Zygote, killed: Noted, again: Noted) -> Iterator[str]:
    delivered = Counter(zygote.delivered())
    for task, ids in (killed.kept | again.kept).items():
        if f"{task}:{'+'.join(ids)}" not in delivered:
            yield f"events were kept and not delivered: {task}"
    calls = Counter(line.partition(":")[0] for line in delivered)
    if any(count > 1 for count in calls.values()):
        yield "what happened once was delivered under two ids"
    for task, (state, _) in again.ended.items():
        if state == COMPLETED and {f"{task}-first", f"{task}-second"} - calls.keys():
            yield "events of a completed task are missing"
    # Of who is killed with a batch at the platform, and has not written that down, it is known by its ids.
    if delivered.total() - len(delivered) > (killed.killed is not None):
        yield "more was sent again than was on its way"


def faults(zygote: Zygote, killed: Noted, naive: str = "") -> Iterator[str]:
    """What is wrong once another runtime was asked again."""
    again = zygote.run(naive=naive)
    assert again.killed is None
    yield from faults_of_tasks(killed, again)
    yield from faults_of_events(zygote, killed, again)
    if naive != "checkpoints" and zygote.rows("checkpoints", "SELECT 1 FROM checkpoints WHERE used > 1"):
        yield "an answer was used twice"
    if zygote.rows("tasks", "SELECT 1 FROM ksadk_a2a_pauses"):
        yield "what no task waits for is kept"


@pytest.mark.parametrize("first", [0, 1], ids=["even points", "odd points"])
def test_a_runtime_may_be_killed_at_every_write_and_every_task_ends(zygote: Zygote, first: int) -> None:
    found: list[str] = []
    names: list[str] = []
    for number in range(first, 1000, 2):
        zygote.empty()
        killed = zygote.run(number)
        found += [f"{killed.killed} ({number}): {fault}" for fault in faults(zygote, killed)]
        if killed.killed is None:
            break
        names.append(killed.killed)
    assert found == []
    assert len(names) > 40
    assert {name.partition(":")[0] for name in names} == {*STORES, "events", "the caller was told"}


NAIVE = [
    ("tasks", "the caller was told", "and found nothing"),
    ("contexts", "events: kept", "two sessions"),
    ("checkpoints", "the caller was told", "what waited became"),
    ("resume states", "the caller was told", "what waited became"),
    ("outbox", "events: kept", "kept and not delivered"),
    ("pauses", "resume: before DELETE FROM ksadk_a2a_resume_states", "used twice"),
]


@pytest.mark.parametrize(("naive", "point", "fault"), NAIVE)
def test_a_store_that_writes_late_or_never_is_caught(
    zygote: Zygote, naive: str, point: str, fault: str
) -> None:
    zygote.empty()
    killed = zygote.run(point, naive)
    assert killed.killed == point
    found = list(faults(zygote, killed, naive))
    assert any(fault in each for each in found), found
