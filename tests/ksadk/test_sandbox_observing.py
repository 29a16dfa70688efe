"""What a command prints can be watched while it runs, and whoever watches holds nothing up."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from e2b_sandboxes import started

from ksadk.sandbox import BubblewrapSandboxBackend, LocalProcessSandboxBackend
from ksadk.sandbox.observing import Observer


class Seen:
    """Keeps what it is given, with when."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, bytes, float]] = []

    def __call__(self, stream: str, data: bytes) -> None:
        self.pieces.append((stream, data, time.monotonic()))

    def of(self, stream: str) -> bytes:
        return b"".join(data for name, data, _ in self.pieces if name == stream)


@pytest.fixture(params=["local_process", "bubblewrap", "e2b"])
def session(request: pytest.FixtureRequest, root: Path) -> Any:
    if request.param == "e2b":
        request.getfixturevalue("e2b")
        return started()
    backends = {"local_process": LocalProcessSandboxBackend, "bubblewrap": BubblewrapSandboxBackend}
    return backends[request.param](root).create_session(session_id="s")


def test_output_is_seen_while_the_command_runs(session: Any) -> None:
    seen = Seen()
    result = session.run_command("echo one; echo two >&2; sleep 0.5; echo three", timeout=30, on_output=seen)
    assert (result.stdout, result.stderr) == ("one\nthree\n", "two\n")
    assert (seen.of("stdout"), seen.of("stderr")) == (b"one\nthree\n", b"two\n")
    times = [when for stream, _, when in seen.pieces if stream == "stdout"]
    assert times[-1] - times[0] >= 0.3


def test_an_observer_that_raises_ends_nothing(session: Any) -> None:
    def broken(stream: str, data: bytes) -> None:
        raise OSError("the terminal is gone")

    result = session.run_command("echo one; sleep 0.1; echo two", timeout=30, on_output=broken)
    assert (result.stdout, result.exit_code) == ("one\ntwo\n", 0)


def test_a_slow_observer_holds_no_command_up_and_is_told_what_it_missed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Observer.__init__.__kwdefaults__, "seconds", 0.2)
    released = threading.Event()
    session = LocalProcessSandboxBackend(root).create_session(session_id="s")
    began = time.monotonic()
    result = session.run_command(
        "head -c 20000000 /dev/zero", timeout=30, on_output=lambda stream, data: released.wait(20) and None
    )
    assert time.monotonic() - began < 10
    assert (result.exit_code, result.stdout_bytes) == (0, 20_000_000)
    released.set()


def test_what_was_left_out_is_said_in_its_place() -> None:
    seen, entered, released = Seen(), threading.Event(), threading.Event()

    def slow(stream: str, data: bytes) -> None:
        entered.set()
        released.wait(10)
        seen(stream, data)

    with Observer(slow, limit=10) as observer:
        observer.offer("stdout", b"12345678")
        assert entered.wait(10)
        observer.offer("stdout", b"90123")
        observer.offer("stdout", b"45678")
        released.set()
    assert seen.of("stdout") == b"12345678\n[... 10 bytes not shown ...]\n"


def test_the_variables_of_a_workflow_can_be_given_to_a_command_and_other_ones_of_ours_cannot(
    root: Path,
) -> None:
    from ksadk.sandbox import SandboxError

    session = LocalProcessSandboxBackend(root).create_session(session_id="s")
    env = {"KSADK_WORKFLOW_PROMPT": "count", "KSADK_SKILL_ROOT_DIR": "/s"}
    shown = 'echo "$KSADK_WORKFLOW_PROMPT $KSADK_SKILL_ROOT_DIR"'
    assert session.run_command(shown, env=env).stdout == "count /s\n"
    for name in ("KSADK_SKILL_ROOT_DIRS", "KSADK_LOCAL_SKILLS_DIR"):
        with pytest.raises(SandboxError, match="decides what programs load"):
            session.run_command("true", env={name: "x"})
