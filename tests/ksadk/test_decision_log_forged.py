"""The decision log against somebody who can write its files, and not the store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from recorder import NOW

from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.decision_log import DecisionLog
from ksadk.tools.log_check import Report, verify
from ksadk.tools.log_lines import encode
from ksadk.tools.log_reader import last_lines


@pytest.fixture
def log(tmp_path: Path) -> DecisionLog:
    """A log of six lines."""
    log = DecisionLog(ApprovalStore(tmp_path / "a.sqlite3", clock=lambda: NOW))
    for _ in range(6):
        log.append({"event": "decision"})
    return log


def told(report: Report) -> list[str]:
    return [f"{p['file']}:{p['at']} {p['line']} {p['problem']}" for p in report.problems]


def events(log: DecisionLog) -> list[str]:
    return [line["event"] for line in last_lines(log.directory, None, lambda _: True).lines]


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


PLANTED: dict[str, Callable[[bytes], bytes]] = {
    "an empty file": lambda data: b"",
    "half of it": lambda data: data[: len(data) // 2],
    "the last line alone": lambda data: data.splitlines(keepends=True)[-1],
    "another end of the same size": lambda data: data[:-10] + b"x" * 10,
    "a line more": lambda data: data + b"x\n",
}


@pytest.mark.parametrize("there", [False, True], ids=["no file", "an empty file"])
@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_file_is_not_taken_for_one_that_was_put_aside(
    log: DecisionLog, what: str, there: bool
) -> None:
    planted = log.directory / "decisions-6.jsonl"
    planted.write_bytes(PLANTED[what](log.path.read_bytes()))
    log.path.unlink()
    if there:
        log.path.touch()
    assert not verify(log).ok
    log.append({"event": "decision"})
    assert events(log)[-2:] == ["repair", "decision"]
    assert not verify(log).ok
    planted.unlink()
    assert not verify(log).ok


def test_a_fifo_for_a_file_that_was_put_aside_does_not_stop_the_log(log: DecisionLog) -> None:
    os.mkfifo(log.directory / "decisions-6.jsonl")
    log.path.unlink()
    assert log.append({"event": "decision"}) == 8


def test_a_file_put_aside_by_hand_and_then_deleted_is_told(log: DecisionLog) -> None:
    aside = log.directory / "decisions-6.jsonl"
    log.path.rename(aside)
    log.append({"event": "decision"})
    assert verify(log).ok, "no line is lost"
    aside.unlink()
    assert told(verify(log)) == ["decisions-6.jsonl:0 1 to line 6 are not there any more: deleted"]
    log.append({"event": "decision"})
    assert not verify(log).ok


def add_unknown(log: DecisionLog, *events: str) -> None:
    """Lines that follow, and that the store does not know."""
    last = json.loads(lines_of(log.path)[-1])
    before = last["hash"]
    with log.path.open("ab") as file:
        for number, event in enumerate(events, start=last["n"] + 1):
            line, before = encode({"n": number, "event": event, "found": "x", "prev": before})
            file.write(line)


@pytest.mark.parametrize(
    "events", [("decision", "result"), ("repair", "decision"), ("decision", *["repair"] * 9)]
)
def test_more_lines_than_a_killed_process_leaves_are_not_adopted(
    log: DecisionLog, events: tuple[str, ...]
) -> None:
    add_unknown(log, *events)
    assert "the store does not know it, and no killed process leaves it there" in told(verify(log))[0]
    log.append({"event": "decision", "tool": "later"})
    assert not verify(log).ok
    log.append({"event": "decision", "tool": "last"})
    assert not verify(log).ok
    assert log.path.read_bytes().count(b"that no killed process leaves were found") == 1


@pytest.mark.parametrize("events", [("repair",), ("decision", "repair"), ("decision", "repair", "repair")])
def test_what_processes_that_were_killed_while_they_mended_left_is_adopted(
    log: DecisionLog, events: tuple[str, ...]
) -> None:
    add_unknown(log, *events)
    assert verify(log).ok
    log.append({"event": "decision"})
    report = verify(log)
    assert (report.ok, report.last) == (True, 6 + len(events) + 2)
