"""The store of approval requests under real processes: a race for one approval, and kill -9."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from recorder import NOW

from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.approvals import ApprovalRequest, new_request
from ksadk.tools.registry import Plan, Tool

WORKERS = 8


def tool() -> None: ...


def request() -> ApprovalRequest:
    plan = Plan("touch a", "here", "0" * 64)
    return new_request(Tool("t", tool, "g", "b"), {"path": "a"}, plan, project="/p", now=NOW)


@pytest.fixture
def store(tmp_path: Path) -> ApprovalStore:
    return ApprovalStore(tmp_path / "state" / "approvals.sqlite3", clock=lambda: NOW)


RACER = """
import sys, time
from pathlib import Path
from ksadk.tools.approval_store import ApprovalStore

class Naive(ApprovalStore):
    def claim(self, request, *, states=("approved",), by):
        if self.get(request.id).state not in states:
            return False
        time.sleep(0.05)
        with self._transaction() as db:
            db.execute("UPDATE requests SET state = 'used' WHERE id = ?", (request.id,))
        return True

kind, path, request_id = sys.argv[1:]
store = {"real": ApprovalStore, "naive": Naive}[kind](Path(path), clock=lambda: CLOCK)
request = store.get(request_id)
print("ready", flush=True)
sys.stdin.readline()
print("won" if store.claim(request, by="a racer") else "lost", flush=True)
""".replace("CLOCK", str(NOW))


def winners(kind: str, store: ApprovalStore) -> int:
    """How many of several processes that use one approved request at the same time may."""
    kept = request()
    store.create(kept)
    store.decide(kept.id, "approved", by="me")
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, kind, str(store.path), kept.id],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(WORKERS)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.communicate(timeout=30)[0] for racer in racers]
    assert {racer.returncode for racer in racers} == {0}
    assert store.get(kept.id).state == "used"
    return said.count("won\n")


def test_of_eight_processes_that_use_one_approval_exactly_one_may(store: ApprovalStore) -> None:
    assert winners("real", store) == 1


def test_the_same_race_catches_a_store_that_reads_and_then_writes(store: ApprovalStore) -> None:
    assert winners("naive", store) > 1


KILLED = """
import os, signal, sqlite3, sys
from functools import partial
from pathlib import Path

when, operation, path, request_id = sys.argv[1:]
armed = False

class Killer(sqlite3.Connection):
    def execute(self, sql, *values):
        if sql == "COMMIT" and armed and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = super().execute(sql, *values)
        if sql == "COMMIT" and armed and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return done

sqlite3.connect = partial(sqlite3.connect, factory=Killer)
from ksadk.tools.approval_store import ApprovalStore

store = ApprovalStore(Path(path), clock=lambda: CLOCK)
request = store.get(request_id)
armed = True
if operation == "decide":
    store.decide(request_id, "approved", by="killed")
else:
    store.claim(request, states=("pending",), by="killed")
""".replace("CLOCK", str(NOW))


KILLED_BEFORE_ITS_RUN = """
import os, signal, sys
from pathlib import Path
from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.approvals import Decision
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.registry import Plan, Tool, ToolPolicy

answered = False

def ask(request, note=""):
    global answered
    answered = True
    return Decision("approve", by="me")

def plan():
    if answered:
        os.kill(os.getpid(), signal.SIGKILL)
    return Plan("", "", "")

store = ApprovalStore(Path(sys.argv[1]), clock=lambda: CLOCK)
tool = Tool("t", lambda: None, "g", "b", ToolPolicy("high"), plan=plan)
ToolGateway(ask=ask, store=store, approval_mode="strict").call(tool, (), {})
""".replace("CLOCK", str(NOW))


def test_a_process_that_is_killed_between_the_answer_and_the_run_leaves_no_approval(
    store: ApprovalStore,
) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_BEFORE_ITS_RUN, str(store.path)], check=False, timeout=30
    )
    assert killed.returncode == -signal.SIGKILL
    assert [kept.state for kept in store.list(every=True)] == ["pending"]


@pytest.mark.parametrize(
    ("operation", "when", "state"),
    [
        ("decide", "before", "pending"),
        ("decide", "after", "approved"),
        ("claim", "before", "pending"),
        ("claim", "after", "used"),
    ],
)
def test_a_process_that_is_killed_around_its_commit_leaves_all_or_nothing(
    store: ApprovalStore, operation: str, when: str, state: str
) -> None:
    kept = request()
    store.create(kept)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, when, operation, str(store.path), kept.id], check=False, timeout=30
    )
    assert killed.returncode == -signal.SIGKILL
    assert store.get(kept.id).state == state
    if state == "pending":
        store.decide(kept.id, "approved", by="me")
    assert store.claim(kept, by="caller") is (state != "used")
    store.create(request())
