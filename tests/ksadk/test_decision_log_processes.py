"""The decision log under real processes: many that write at once, and one that is killed while it does."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.decision_log import DecisionLog
from ksadk.tools.log_check import Report, verify
from ksadk.tools.log_reader import last_lines

WRITERS = 10
LINES = 12

WRITER = """
import sys, time
from pathlib import Path
from ksadk.tools import decision_log
from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.decision_log import DecisionLog, read_head

class Naive(DecisionLog):
    def append(self, fields):
        with self.transaction() as db:
            head = read_head(db) or decision_log.Head()
        time.sleep(0.01)
        with decision_log._opened(self.path) as file:
            head = decision_log._add(file, head, time.time(), fields)
        with self.transaction() as db:
            decision_log._save_head(db, head)

kind, path, lines = sys.argv[1:]
log = {"real": DecisionLog, "naive": Naive}[kind](ApprovalStore(Path(path)), rotation_bytes=9000)
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(lines)):
    log.append({"event": "decision", "tool": f"t{number}"})
"""


def written_at_once(kind: str, store: ApprovalStore) -> Report:
    """What `verify` finds when several processes have written at the same time."""
    log = DecisionLog(store)
    log.append({"event": "decision", "tool": "first"})
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, kind, str(store.path), str(LINES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(WRITERS)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
    assert {writer.returncode for writer in writers} == {0}
    return verify(log)


@pytest.fixture
def store(tmp_path: Path) -> ApprovalStore:
    return ApprovalStore(tmp_path / "state" / "approvals.sqlite3")


def test_ten_processes_that_write_at_once_keep_one_chain(store: ApprovalStore) -> None:
    report = written_at_once("real", store)
    assert (report.ok, report.lines, report.last) == (True, WRITERS * LINES + 1, WRITERS * LINES + 1)
    assert report.notes == []
    assert len(list((store.path.parent / "log").iterdir())) > 1, "they rotated it meanwhile"


def test_writers_that_do_not_take_turns_are_noticed(store: ApprovalStore) -> None:
    assert not written_at_once("naive", store).ok


KILLED = """
import os, signal, sys
from pathlib import Path
from ksadk.tools import decision_log
from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.decision_log import DecisionLog

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def half(file, data, write=os.write):
    write(file, data[: len(data) // 2])
    kill()

when, path, rotation = sys.argv[1:]
log = DecisionLog(ApprovalStore(Path(path)), rotation_bytes=int(rotation))
if when == "before the write":
    decision_log.os.write = kill
elif when == "inside the write":
    decision_log.os.write = half
elif when == "after the write":
    decision_log.os.fsync = kill
elif when == "before the commit":
    save = decision_log._save_head  # a head of no size is that of a rotation
    decision_log._save_head = lambda db, head: kill() if head.size else save(db, head)
elif when == "after the rotation":
    decision_log._begin_file = kill
log.append({"event": "decision", "tool": "killed"})
assert when == "after the commit"
kill()
"""


POINTS: dict[str, tuple[bool, str | None]] = {
    "before the write": (False, None),
    "inside the write": (False, "cut off"),
    "after the write": (True, "adopted"),
    "before the commit": (True, "adopted"),
    "after the commit": (True, None),
}
"""Where a process is killed; whether its line is there then, and what a later line says of it."""


@pytest.mark.parametrize(
    ("when", "rotation"),
    [*((when, rotation) for when in POINTS for rotation in (10_000, 1)), ("after the rotation", 1)],
)
def test_a_kill_leaves_a_log_that_the_next_line_mends(store: ApprovalStore, when: str, rotation: int) -> None:
    written, note = POINTS.get(when, (False, None))
    log = DecisionLog(store, rotation_bytes=rotation)
    for number in range(3):
        log.append({"event": "decision", "tool": f"t{number}"})
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, when, str(store.path), str(rotation)], check=False, timeout=30
    )
    assert killed.returncode == -signal.SIGKILL
    assert verify(log).ok, "before it is mended, too"
    log.append({"event": "decision", "tool": "later"})
    log.append({"event": "decision", "tool": "last"})
    report = verify(log)
    assert report.problems == []
    tools = [line.get("tool") for line in last_lines(log.directory, None, lambda _: True).lines]
    mended = [None] if note else []
    assert tools == ["t0", "t1", "t2", *(["killed"] if written else []), *mended, "later", "last"]
    assert [note in told for told in report.notes] == ([True] if note else [])
