"""Whether a person can be asked, and which terminal session it is."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from agentengine_cli import terminal


@pytest.fixture
def tty() -> Iterator[TextIO]:
    ours, theirs = pty.openpty()
    with open(theirs, encoding="utf-8") as stream:  # noqa: PTH123  # of a descriptor
        yield stream
    os.close(ours)


@pytest.fixture
def pipe() -> Iterator[TextIO]:
    readers, writers = os.pipe()
    with open(readers, encoding="utf-8") as stream:  # noqa: PTH123  # of a descriptor
        yield stream
    os.close(writers)


@pytest.mark.parametrize(
    ("stdin", "stderr", "there"),
    [
        ("tty", "tty", True),
        ("tty", "pipe", False),
        ("pipe", "tty", False),
        ("closed", "tty", False),
        ("tty", "closed", False),
    ],
)
def test_a_person_is_there_when_they_can_read_and_answer(
    monkeypatch: pytest.MonkeyPatch, tty: TextIO, pipe: TextIO, stdin: str, stderr: str, there: bool
) -> None:
    streams = {"tty": tty, "pipe": pipe, "closed": None}
    monkeypatch.setattr(sys, "stdin", streams[stdin])
    monkeypatch.setattr(sys, "stderr", streams[stderr])
    assert terminal.at_terminal() is there
    monkeypatch.setenv("KSADK_INSIDE_TOOL", "1")
    assert terminal.at_terminal() is False


def test_a_session_is_a_terminal_a_leader_and_when_that_started(
    monkeypatch: pytest.MonkeyPatch, tty: TextIO
) -> None:
    monkeypatch.setattr(sys, "stdin", tty)
    monkeypatch.setattr(os, "getsid", lambda _: os.getpid())
    mine = terminal.session_key()
    assert mine
    assert mine == terminal.session_key()
    with monkeypatch.context() as patch:
        patch.setattr(terminal, "_start_of", lambda _: "another time")
        assert terminal.session_key() not in ("", mine), "the number of a process is used again"
    with monkeypatch.context() as patch:
        patch.setattr(os, "ttyname", lambda _: "/dev/another")
        assert terminal.session_key() not in ("", mine)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getsid", lambda _: os.getppid())
        assert terminal.session_key() not in ("", mine)


def test_without_a_terminal_or_a_start_there_is_no_session(
    monkeypatch: pytest.MonkeyPatch, tty: TextIO, pipe: TextIO
) -> None:
    monkeypatch.setattr(sys, "stdin", tty)
    monkeypatch.setattr(terminal, "_start_of", lambda _: "")
    assert terminal.session_key() == ""
    for stream in (pipe, None):
        monkeypatch.setattr(sys, "stdin", stream)
        assert terminal.session_key() == ""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="ps tells whole seconds only")
def test_processes_that_begin_one_after_the_other_have_other_starts() -> None:
    line = [sys.executable, "-c", "input()"]
    first = subprocess.Popen(line, stdin=subprocess.PIPE)
    time.sleep(0.03)  # the system counts in hundredths of a second
    second = subprocess.Popen(line, stdin=subprocess.PIPE)
    starts = [terminal._start_of(process.pid) for process in (first, second)]
    for process in (first, second):
        process.communicate(b"\n", timeout=30)
    assert int(starts[0]) < int(starts[1])
