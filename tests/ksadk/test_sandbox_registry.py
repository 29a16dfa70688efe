"""Which sandboxes are alive. A session here is a real process, so that what is left behind can be seen."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ksadk.sandbox import records, registry
from ksadk.sandbox.base import SandboxCommandResult, SandboxError, SandboxInputFile
from ksadk.sandbox.registry import (
    GLOBAL_SANDBOX_REGISTRY,
    SandboxRegistry,
    bind_sandbox_registry,
    reap_left_over,
)


class Session:
    """A sandbox that is one sleeping process."""

    def __init__(self, name: str, *, dies: bool = True) -> None:
        self.process = subprocess.Popen(
            ["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.sandbox_id = f"{name}-{self.process.pid}"
        self._dies = dies

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        if not self._dies:
            raise SandboxError("it cannot be reached")
        self.process.kill()
        self.process.wait()

    def run_command(self, command: str, **_: Any) -> SandboxCommandResult:
        return SandboxCommandResult("", "", 0)

    def write_file(self, path: str, data: bytes | str) -> None: ...
    def read_file(self, path: str) -> bytes:
        return b""

    def get_host(self, port: int) -> str:
        return "localhost"


class Backend:
    """Starts such sessions, and remembers them."""

    def __init__(self, *, slow: float = 0, dies: bool = True) -> None:
        self.sessions: list[Session] = []
        self._slow = slow
        self.dies = dies
        self.asked = threading.Event()

    def create_session(
        self,
        *,
        session_id: str,
        env: Mapping[str, str] | None = None,
        input_files: Sequence[SandboxInputFile] | None = None,
    ) -> Session:
        self.asked.set()
        time.sleep(self._slow)
        self.sessions.append(Session(session_id, dies=self.dies))
        return self.sessions[-1]

    @property
    def alive(self) -> list[Session]:
        return [session for session in self.sessions if session.alive]


@pytest.fixture
def backend() -> Iterator[Backend]:
    made = Backend()
    yield made
    for session in made.alive:
        session.process.kill()
        session.process.wait()


@pytest.fixture
def sandboxes() -> Iterator[SandboxRegistry]:
    made = SandboxRegistry()
    yield made
    made.close()


def wanted(backend: Backend, key: str = "k", **more: Any) -> dict[str, Any]:
    usual = {"key": key, "backend_name": "b", "backend": backend, "ttl_seconds": 100, "isolated": True}
    return usual | more


def test_a_key_has_one_sandbox_which_is_used_again(sandboxes: SandboxRegistry, backend: Backend) -> None:
    first, created = sandboxes.get_or_create(**wanted(backend))
    again, created_again = sandboxes.get_or_create(**wanted(backend))
    assert (created, created_again) == (True, False)
    assert first is again
    assert first.sandbox_id == backend.sessions[0].sandbox_id


def test_another_key_has_another_sandbox(sandboxes: SandboxRegistry, backend: Backend) -> None:
    one, _ = sandboxes.get_or_create(**wanted(backend, "one"))
    two, _ = sandboxes.get_or_create(**wanted(backend, "two"))
    assert one.sandbox_id != two.sandbox_id
    assert sandboxes.entries() == [one, two]
    assert sandboxes.latest() is two
    assert sandboxes.latest("one") is one
    assert sandboxes.latest("three") is None


@pytest.mark.parametrize(
    ("limits", "used", "later", "same"),
    [
        ({"ttl_seconds": 100}, [], 99, True),
        ({"ttl_seconds": 100}, [], 100, False),
        ({"ttl_seconds": 100}, [50], 100, False),
        ({"ttl_seconds": 100, "idle_ttl_seconds": 30}, [], 29, True),
        ({"ttl_seconds": 100, "idle_ttl_seconds": 30}, [], 30, False),
        ({"ttl_seconds": 100, "idle_ttl_seconds": 30}, [29, 58], 87, True),
        ({"ttl_seconds": 0, "idle_ttl_seconds": 0}, [], 10**9, True),
        ({"ttl_seconds": 0, "idle_ttl_seconds": 30}, [], 31, False),
    ],
)
def test_a_sandbox_whose_time_is_over_is_not_used_again(
    sandboxes: SandboxRegistry,
    backend: Backend,
    limits: dict[str, Any],
    used: list[float],
    later: float,
    same: bool,
) -> None:
    first, _ = sandboxes.get_or_create(**wanted(backend, now=1000, **limits))
    for moment in used:
        sandboxes.get_or_create(**wanted(backend, now=1000 + moment, **limits))
    entry, _ = sandboxes.get_or_create(**wanted(backend, now=1000 + later, **limits))
    assert (entry is first) == same
    assert backend.sessions[0].alive == same


def test_a_sandbox_of_another_backend_takes_the_place_of_the_one_before(
    sandboxes: SandboxRegistry, backend: Backend
) -> None:
    sandboxes.get_or_create(**wanted(backend))
    entry, created = sandboxes.get_or_create(**wanted(backend, backend_name="other"))
    assert created
    assert [session.sandbox_id for session in backend.alive] == [entry.sandbox_id]


def test_a_sweep_ends_what_is_over_and_not_what_is_in_use(
    sandboxes: SandboxRegistry, backend: Backend
) -> None:
    sandboxes.get_or_create(**wanted(backend, "idle", now=1000))
    with sandboxes.lease(**wanted(backend, "busy", now=1000)):
        ended = sandboxes.sweep(now=1100)
        assert [entry.key for entry in ended] == ["idle"]
        assert [session.alive for session in backend.sessions] == [False, True]
    assert [entry.key for entry in sandboxes.sweep(now=time.time() + 200)] == ["busy"]
    assert backend.alive == []


def test_the_least_recently_used_sandbox_makes_room(sandboxes: SandboxRegistry, backend: Backend) -> None:
    for moment, key in enumerate(["a", "b", "a", "c"]):
        sandboxes.get_or_create(**wanted(backend, key, now=1000 + moment, max_sessions=2))
    assert [entry.key for entry in sandboxes.entries()] == ["a", "c"]
    assert len(backend.alive) == 2


def test_a_sandbox_in_use_makes_no_room(sandboxes: SandboxRegistry, backend: Backend) -> None:
    with sandboxes.lease(**wanted(backend, "a", max_sessions=1)):
        with pytest.raises(SandboxError, match="1 sandboxes are in use") as caught:
            sandboxes.get_or_create(**wanted(backend, "b", max_sessions=1))
        assert "KSADK_SANDBOX_MAX_SESSIONS" in (caught.value.hint or "")
    sandboxes.get_or_create(**wanted(backend, "b", max_sessions=1))
    assert [entry.key for entry in sandboxes.entries()] == ["b"]


def test_where_there_is_no_room_an_idle_sandbox_is_not_ended_in_vain(
    sandboxes: SandboxRegistry, backend: Backend
) -> None:
    with sandboxes.lease(**wanted(backend, "a")), sandboxes.lease(**wanted(backend, "b")):
        sandboxes.get_or_create(**wanted(backend, "idle"))
        with pytest.raises(SandboxError, match="in use"):
            sandboxes.get_or_create(**wanted(backend, "c", max_sessions=1))
        assert len(backend.alive) == len(sandboxes.entries()) == 3


def test_many_threads_start_one_sandbox_for_one_key(sandboxes: SandboxRegistry) -> None:
    backend = Backend(slow=0.05)
    created: list[bool] = []

    def use() -> None:
        with sandboxes.lease(**wanted(backend)) as (_, new):
            created.append(new)

    in_threads([use] * 16)
    assert created.count(True) == 1
    assert len(backend.sessions) == 1


class Naive(SandboxRegistry):
    """One that does not wait for whoever starts the sandbox of the same key."""

    def _key_lock(self, key: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def test_a_registry_without_a_lock_for_each_key_is_caught_by_that() -> None:
    backend, sandboxes = Backend(slow=0.05), Naive()

    def use() -> None:
        sandboxes.get_or_create(**wanted(backend))

    in_threads([use] * 16)
    assert len(backend.sessions) > 1
    for session in backend.alive:
        session.kill()
    sandboxes.close()


def test_threads_of_many_keys_stay_inside_the_limit(sandboxes: SandboxRegistry) -> None:
    backend = Backend(slow=0.01)
    most: list[int] = []

    def use(number: int) -> None:
        try:
            with sandboxes.lease(**wanted(backend, f"k{number % 7}", max_sessions=3)):
                most.append(len(sandboxes.entries()))
        except SandboxError as error:
            assert "in use" in error.message

    in_threads([lambda number=number: use(number) for number in range(40)])  # type: ignore[misc]
    assert most
    assert max(most) <= 3
    sandboxes.clear()
    assert backend.alive == []


def in_threads(calls: Sequence[Callable[[], None]]) -> None:
    failed: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  # all that a thread ends with is told
            failed.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []


def test_a_sandbox_that_could_not_be_started_leaves_nothing(sandboxes: SandboxRegistry) -> None:
    class Broken(Backend):
        def create_session(self, **_: Any) -> Session:
            raise SandboxError("no template")

    with pytest.raises(SandboxError, match="no template"):
        sandboxes.get_or_create(**wanted(Broken(), max_sessions=1))
    assert sandboxes.entries() == []
    working = Backend()
    sandboxes.get_or_create(**wanted(working, max_sessions=1))
    assert len(working.alive) == 1


def test_killing_and_clearing(sandboxes: SandboxRegistry, backend: Backend) -> None:
    for key in "abc":
        sandboxes.get_or_create(**wanted(backend, key))
    assert (sandboxes.kill("a"), sandboxes.kill("a")) == (True, False)
    assert len(backend.alive) == 2
    sandboxes.clear()
    assert (backend.alive, sandboxes.entries(), list(records.recorded())) == ([], [], [])


def test_one_that_cannot_be_ended_does_not_keep_the_others_and_is_found_later(
    sandboxes: SandboxRegistry, backend: Backend
) -> None:
    backend.dies = False
    stuck, _ = sandboxes.get_or_create(**wanted(backend, "stuck"))
    backend.dies = True
    sandboxes.get_or_create(**wanted(backend, "other"))
    sandboxes.clear()
    assert [session.sandbox_id for session in backend.alive] == [stuck.sandbox_id]
    [(facts, alive)] = records.recorded()
    assert (facts.sandbox_id, alive) == (stuck.sandbox_id, False)
    reaped: list[str] = []
    reap_left_over(lambda facts: reaped.append(facts.sandbox_id))
    assert (reaped, list(records.recorded())) == ([stuck.sandbox_id], [])


def test_a_closed_registry_starts_none(backend: Backend) -> None:
    sandboxes = SandboxRegistry()
    sandboxes.get_or_create(**wanted(backend))
    sandboxes.close()
    assert backend.alive == []
    with pytest.raises(SandboxError, match="closed"):
        sandboxes.get_or_create(**wanted(backend))
    sandboxes.reset_for_tests()
    sandboxes.get_or_create(**wanted(backend))
    sandboxes.close()
    assert backend.alive == []


def test_one_that_is_started_while_the_registry_closes_is_ended() -> None:
    sandboxes = SandboxRegistry()
    slow = Backend(slow=0.3)
    thread = threading.Thread(target=lambda: start_quietly(sandboxes, slow))
    thread.start()
    assert slow.asked.wait(30)
    sandboxes.close()
    thread.join(10)
    assert len(slow.sessions) == 1
    assert slow.alive == []


def start_quietly(sandboxes: SandboxRegistry, backend: Backend) -> None:
    with contextlib.suppress(SandboxError):
        sandboxes.get_or_create(**wanted(backend))


def test_the_sweep_thread_ends_what_nobody_asks_for(sandboxes: SandboxRegistry, backend: Backend) -> None:
    sweeper = registry._Sweeper(sandboxes, 0.05)
    sandboxes.get_or_create(**wanted(backend, now=time.time() - 99.8))
    until = time.monotonic() + 30
    while backend.alive and time.monotonic() < until:
        time.sleep(0.02)
    sweeper.stop()
    assert backend.alive == []


@pytest.mark.parametrize(("seconds", "sweeps"), [("0", False), ("60", True)])
def test_how_often_is_swept_is_a_setting(
    monkeypatch: pytest.MonkeyPatch, backend: Backend, seconds: str, sweeps: bool
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_SWEEP_INTERVAL_SECONDS", seconds)
    before = sweepers()
    sandboxes = SandboxRegistry()
    sandboxes.get_or_create(**wanted(backend))
    assert bool(sweepers() - before) == sweeps
    sandboxes.close()
    until = time.monotonic() + 5
    while sweepers() - before and time.monotonic() < until:
        time.sleep(0.02)
    assert sweepers() - before == set()


def sweepers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "ksadk-sandbox-sweep"}


def test_the_global_name_stands_for_the_registry_that_is_bound(
    sandboxes: SandboxRegistry, backend: Backend
) -> None:
    with bind_sandbox_registry(sandboxes):
        GLOBAL_SANDBOX_REGISTRY.get_or_create(**wanted(backend))
        assert GLOBAL_SANDBOX_REGISTRY.entries() == sandboxes.entries() != []
    assert GLOBAL_SANDBOX_REGISTRY.entries() == []


PROGRAM = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from test_sandbox_registry import Backend, wanted
from ksadk.sandbox.registry import GLOBAL_SANDBOX_REGISTRY
entry, _ = GLOBAL_SANDBOX_REGISTRY.get_or_create(**wanted(Backend()))
print(entry.session.process.pid, flush=True)
exec(sys.argv[2])
"""


def left(ending: str) -> tuple[int, list[tuple[str, bool]]]:
    """Whether the process of a sandbox lives after its program ended that way, and what is written down."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), ending],
        stdout=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    pid = int(done.stdout)
    return pid, [(facts.sandbox_id, lives) for facts, lives in records.recorded()]


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def ends(pid: int) -> bool:
    """Whether a process that was killed is gone: the system may take a while over it."""
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(pid)


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(3)", "1/0", "raise KeyboardInterrupt"])
def test_nothing_is_left_of_a_program_that_ends(ending: str) -> None:
    pid, written = left(ending)
    assert (ends(pid), written) == (True, [])


def test_what_a_killed_program_left_is_reaped_at_the_next_start(
    backend: Backend,
) -> None:
    pid, written = left("os.kill(os.getpid(), signal.SIGKILL)")
    assert is_alive(pid)
    assert written == [(f"k-{pid}", False)]

    def reap(facts: records.Facts) -> None:
        os.kill(int(facts.sandbox_id.rpartition("-")[2]), signal.SIGKILL)

    sandboxes = SandboxRegistry(reap=reap)
    entry, _ = sandboxes.get_or_create(**wanted(backend))
    assert ends(pid)
    assert [facts.sandbox_id for facts, _ in records.recorded()] == [entry.sandbox_id]
    sandboxes.close()
    assert list(records.recorded()) == []


def test_the_sandboxes_of_a_living_program_are_nobody_elses(backend: Backend) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), "sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    reaped: list[records.Facts] = []
    assert reap_left_over(reaped.append) == []
    assert [lives for _, lives in records.recorded()] == [True]
    owner.communicate("", timeout=30)
    assert (reaped, ends(pid), list(records.recorded())) == ([], True, [])


def test_a_child_of_a_fork_ends_no_sandbox_of_its_parent() -> None:
    pid, written = left(
        "child = os.fork()\n"
        "if child == 0: sys.exit(0)\n"
        "os.waitpid(child, 0)\n"
        "assert entry.session.alive, 'the child ended it'\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    try:
        assert is_alive(pid)
        assert written == [(f"k-{pid}", False)]
    finally:
        os.kill(pid, signal.SIGKILL)


def test_what_is_kept_outlives_its_program_until_it_expires(
    sandboxes: SandboxRegistry, backend: Backend
) -> None:
    now = time.time()
    entry, _ = sandboxes.get_or_create(**wanted(backend, now=now))
    assert sandboxes.keep("k") is entry
    sandboxes.clear()
    assert entry.session.alive  # type: ignore[attr-defined]
    [(facts, lives)] = records.recorded()
    assert (facts.kept, facts.expires_at, lives) == (True, now + 100, False)
    assert reap_left_over(lambda _: None, now + 99) == []
    assert [facts.sandbox_id for facts in reap_left_over(lambda _: None, now + 101)] == [entry.sandbox_id]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"sandbox_id": 1', b"\xff\xfe", json.dumps({"pid": 1}).encode()]
)
def test_a_record_that_is_none_is_thrown_away(content: bytes) -> None:
    directory = records.records_directory()
    directory.mkdir(parents=True)
    (directory / "aa.json").write_bytes(content)
    assert list(records.recorded()) == []
    assert list(directory.iterdir()) == []


def test_a_state_directory_that_cannot_be_written_ends_the_sandbox_again(
    sandboxes: SandboxRegistry, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("file").absolute()))
    with pytest.raises(SandboxError, match="not written down"):
        sandboxes.get_or_create(**wanted(backend))
    assert backend.alive == []
    assert len(backend.sessions) == 1
