"""The decision log: a chain that shows what was done to it, and goes on whatever happened to its files."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recorder import NOW

from ksadk.errors import KsadkError
from ksadk.tools import decision_log
from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.decision_log import DecisionLog
from ksadk.tools.log_check import MAX_PROBLEMS, Report, verify
from ksadk.tools.log_lines import encode
from ksadk.tools.log_reader import Follower, last_lines


def new_log(directory: Path, **options: Any) -> DecisionLog:
    return DecisionLog(ApprovalStore(directory / "a.sqlite3", clock=lambda: NOW), **options)


@pytest.fixture
def log(tmp_path: Path) -> DecisionLog:
    """A log of six lines."""
    log = new_log(tmp_path / "state")
    for number in range(1, 7):
        log.append({"event": "decision", "tool": f"tool{number}"})
    return log


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def told(report: Report) -> list[str]:
    return [f"{p['file']}:{p['at']} {p['line']} {p['problem']}" for p in report.problems]


def events(log: DecisionLog) -> list[str]:
    return [line["event"] for line in last_lines(log.directory, None, lambda _: True).lines]


def test_a_line_follows_on_the_one_before(log: DecisionLog) -> None:
    lines = [json.loads(line) for line in lines_of(log.path)]
    assert [line["n"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert lines[0]["prev"] == "0" * 64
    assert [line["prev"] for line in lines[1:]] == [line["hash"] for line in lines[:-1]]
    assert lines[0]["time"] == "2027-01-15T08:00:00.000Z"
    report = verify(log)
    assert (report.ok, report.first, report.last, report.lines, report.notes) == (True, 1, 6, 6, [])


def test_a_log_that_was_never_written_is_as_it_should_be(tmp_path: Path) -> None:
    report = verify(new_log(tmp_path))
    assert (report.ok, report.first, report.last) == (True, 0, 0)


def test_the_files_are_the_users_own_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        log = new_log(tmp_path / "state")
        log.append({"event": "decision"})
    finally:
        os.umask(before)
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.directory.stat().st_mode) == 0o700


def forged(line: bytes, **changes: Any) -> bytes:
    """A line with other content, whose own hash is right."""
    fields = {k: v for k, v in json.loads(line).items() if k != "hash"}
    return encode({**fields, **changes})[0]


Change = Callable[[list[bytes]], list[bytes]]
CHANGES: dict[str, tuple[Change, list[str]]] = {
    "one word of the third line": (
        lambda a: [*a[:2], a[2].replace(b"tool3", b"toolX"), *a[3:]],
        ["decisions.jsonl:3 3 it was changed: its hash is that of another text"],
    ),
    "a blank in the third line": (
        lambda a: [*a[:2], a[2].replace(b",", b", ", 1), *a[3:]],
        ["decisions.jsonl:3 3 it was changed: its hash is that of another text"],
    ),
    "the third line, with a hash that fits": (
        lambda a: [*a[:2], forged(a[2], tool="toolX"), *a[3:]],
        ["decisions.jsonl:4 4 it does not follow on line 3: one of the two was replaced"],
    ),
    "the last line, with a hash that fits": (
        lambda a: [*a[:5], forged(a[5], tool="toolX")],
        ["decisions.jsonl:6 6 it is not the last line that the store knows"],
    ),
    "the third line is not there": (
        lambda a: [*a[:2], *a[3:]],
        ["decisions.jsonl:0 3 is missing: removed before line 4"],
    ),
    "three lines are not there": (
        lambda a: [a[0], *a[4:]],
        ["decisions.jsonl:0 2 to line 4 are missing: removed before line 5"],
    ),
    "the first line is not there": (
        lambda a: a[1:],
        ["decisions.jsonl:0 1 is missing: removed before line 2"],
    ),
    "two lines have changed places": (
        lambda a: [a[0], a[2], a[1], *a[3:]],
        ["decisions.jsonl:3 2 it stands behind line 3: lines were moved"],
    ),
    "the last line is not there": (
        lambda a: a[:5],
        ["decisions.jsonl:0 6 is missing: the log was cut off at its end"],
    ),
    "the end is cut inside a line": (
        lambda a: [*a[:4], a[4][:20]],
        ["decisions.jsonl:5 5 it is no line of this log",
         "decisions.jsonl:0 6 is missing: the log was cut off at its end"],
    ),
    "everything is cut off": (
        lambda a: [],
        ["decisions.jsonl:0 1 to line 6 are missing: the log was cut off at its end"],
    ),
    "a line is there twice": (
        lambda a: [*a[:3], a[1], *a[3:]],
        ["decisions.jsonl:4 2 it stands behind line 3: it does not belong there"],
    ),
    "a line is added that does not follow": (
        lambda a: [*a, forged(a[5], n=7)],
        ["decisions.jsonl:7 7 it does not follow on line 6, and the store does not know it"],
    ),
    "words that are no line are added": (
        lambda a: [*a, b"tool7 was allowed\n"],
        ["decisions.jsonl:7 0 it is no line of this log, and the store does not know it"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_verify_says_which_line_is_wrong_and_how(log: DecisionLog, change: str) -> None:
    do, problems = CHANGES[change]
    log.path.write_bytes(b"".join(do(lines_of(log.path))))
    report = verify(log)
    assert told(report) == problems
    assert not report.ok


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_done_to_it_is_still_told_when_it_goes_on(log: DecisionLog, change: str) -> None:
    do, _ = CHANGES[change]
    log.path.write_bytes(b"".join(do(lines_of(log.path))))
    log.append({"event": "decision", "tool": "later"})
    assert not verify(log).ok
    lines = last_lines(log.directory, None, lambda line: line.get("tool") == "later").lines
    assert len(lines) == 1, "a line that follows on a broken end is whole"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.data())
def test_no_byte_can_be_changed_unseen(log: DecisionLog, data: st.DataObject) -> None:
    before = log.path.read_bytes()
    place = data.draw(st.integers(0, len(before) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != before[place]))
    try:
        log.path.write_bytes(before[:place] + bytes([other]) + before[place + 1 :])
        assert not verify(log).ok
    finally:
        log.path.write_bytes(before)


def test_the_log_deleted_as_a_whole_is_missing(log: DecisionLog) -> None:
    log.path.unlink()
    assert told(verify(log)) == ["decisions.jsonl:0 1 to line 6 are missing: the log was cut off at its end"]
    log.append({"event": "decision"})
    assert told(verify(log)) == ["decisions.jsonl:0 1 to line 6 are missing: removed before line 7"]


def test_many_problems_are_counted(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(MAX_PROBLEMS + 20):
        log.append({"event": "decision"})
    log.path.write_bytes(log.path.read_bytes().replace(b"decision", b"Decision"))
    report = verify(log)
    assert (len(report.problems), report.more_problems) == (MAX_PROBLEMS, 20)


def test_a_line_that_the_store_does_not_know_is_adopted_and_said_so(log: DecisionLog) -> None:
    head = json.loads(lines_of(log.path)[-1])
    added, _ = encode({"n": 7, "event": "decision", "tool": "tool7", "prev": head["hash"]})
    log.path.write_bytes(log.path.read_bytes() + added)
    report = verify(log)
    assert report.ok
    assert report.notes == ["line 7 is not known to the store; the next write adopts it"]
    log.append({"event": "decision"})
    assert events(log)[-3:] == ["decision", "repair", "decision"]
    report = verify(log)
    assert report.ok
    assert report.notes == ["line 8: the store did not know of line 7; adopted"]


def test_a_part_of_a_line_is_cut_off_and_said_so(log: DecisionLog) -> None:
    log.path.write_bytes(log.path.read_bytes() + b'{"n":7,"event":"dec')
    assert verify(log).notes == ["the last line is not whole; the next write cuts it off"]
    log.append({"event": "decision"})
    report = verify(log)
    assert report.ok
    assert report.notes == ["line 7: a part of a line behind line 6 was cut off: 19 bytes"]


def test_without_the_store_it_goes_on_and_says_so(log: DecisionLog, tmp_path: Path) -> None:
    (tmp_path / "state/a.sqlite3").unlink()
    assert told(verify(log)) == [
        "decisions.jsonl:0 6 the store knows nothing of this log, so that a cut at its end cannot be told"
    ]
    log.append({"event": "decision"})
    report = verify(log)
    assert report.ok
    assert report.notes == ["line 7: the store had no record of this log; it goes on behind line 6"]


def rotating(tmp_path: Path, lines: int = 40) -> DecisionLog:
    """A log of several files."""
    log = new_log(tmp_path / "state", rotation_bytes=2000)
    for number in range(lines):
        log.append({"event": "decision", "tool": f"t{number}"})
    return log


def test_the_chain_goes_on_from_file_to_file(tmp_path: Path) -> None:
    log = rotating(tmp_path)
    files = sorted(log.directory.iterdir(), key=lambda path: len(path.read_bytes()))
    assert len(files) > 3
    assert all(2000 <= len(path.read_bytes()) < 2500 for path in files if path != log.path)
    assert (verify(log).ok, verify(log).last) == (True, 40)
    assert [line["n"] for line in last_lines(log.directory, None, lambda _: True).lines] == [*range(1, 41)]
    assert [line["n"] for line in last_lines(log.directory, 15, lambda _: True).lines] == [*range(26, 41)]


def rotated(log: DecisionLog) -> list[Path]:
    return sorted(log.directory.glob("decisions-*"), key=lambda path: int(path.stem.split("-")[1]))


def test_the_oldest_files_that_were_deleted_are_told(tmp_path: Path) -> None:
    log = rotating(tmp_path)
    oldest, second, *_ = rotated(log)
    gone = len(lines_of(oldest)) + len(lines_of(second))
    oldest.unlink()
    second.unlink()
    report = verify(log)
    assert (report.first, report.last, report.notes) == (gone + 1, 40, [])
    assert told(report) == [f"{second.name}:0 1 to line {gone} are not there any more: deleted"]


def test_what_is_done_to_older_files_is_told(tmp_path: Path) -> None:
    log = rotating(tmp_path)
    first, second, third, *_ = rotated(log)
    begin = len(lines_of(first)) + 1
    kept = second.read_bytes()
    second.unlink()
    end = begin + kept.count(b"\n") - 1
    assert told(verify(log)) == [
        f"{third.name}:0 {begin} to line {end} are missing: removed before line {end + 1}"
    ]
    second.write_bytes(kept)
    first.unlink()
    second.write_bytes(b"".join(kept.splitlines(keepends=True)[1:]))
    assert told(verify(log))[-1] == f"{second.name}:0 {begin} is missing: removed before line {begin + 1}"


def test_every_file_deleted_is_told_with_all_its_lines(tmp_path: Path) -> None:
    log = rotating(tmp_path)
    begin = json.loads(lines_of(log.path)[0])["n"]
    for path in list(log.directory.iterdir()):
        path.unlink()
    assert told(verify(log)) == [
        f"decisions-{begin - 1}.jsonl:0 1 to line {begin - 1} are not there any more: deleted",
        f"decisions.jsonl:0 {begin} to line 40 are missing: the log was cut off at its end",
    ]


def test_a_follower_sees_new_lines_and_survives_rotation(tmp_path: Path) -> None:
    log = rotating(tmp_path, 3)
    follower = Follower(log.directory, 3)
    assert follower.new() == []
    seen = []
    for number in range(4, 30):
        log.append({"event": "decision", "tool": "x" * 100})
        if number % 7 == 0:
            seen += [line["n"] for line in follower.new()]
    seen += [line["n"] for line in follower.new()]
    follower.close()
    assert seen == [*range(4, 30)]


def test_readers_miss_no_line_while_files_are_rotated_under_them(tmp_path: Path) -> None:
    log = new_log(tmp_path / "state", rotation_bytes=1)
    log.append({"event": "decision"})
    writer = threading.Thread(target=lambda: [log.append({"event": "decision"}) for _ in range(150)])
    follower, seen = Follower(log.directory, 1), []
    writer.start()
    while writer.is_alive():
        numbers = [line["n"] for line in last_lines(log.directory, None, lambda _: True).lines]
        assert numbers == [*range(1, len(numbers) + 1)]
        seen += [line["n"] for line in follower.new()]
    writer.join()
    seen += [line["n"] for line in [*follower.new(), *follower.new()]]
    follower.close()
    assert seen == [*range(2, 152)]


def test_a_line_that_is_still_being_written_is_shown_when_it_is_whole(log: DecisionLog) -> None:
    follower = Follower(log.directory, 6)
    assert follower.new() == []
    line, _ = encode({"n": 7, "event": "decision", "prev": ""})
    with log.path.open("ab", buffering=0) as file:
        file.write(line[:10])
        assert follower.new() == []
        file.write(line[10:])
        assert [line["n"] for line in follower.new()] == [7]
    follower.close()


UNUSABLE: dict[str, Callable[[Path], None]] = {
    "a FIFO": lambda path: os.mkfifo(path),
    "a link to a device": lambda path: path.symlink_to("/dev/full"),
    "a link to a file": lambda path: path.symlink_to(__file__),
    "a directory": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_what_is_no_file_of_its_own_is_neither_written_nor_read(tmp_path: Path, what: str) -> None:
    log = new_log(tmp_path)
    log.directory.mkdir()
    UNUSABLE[what](log.path)
    for use in (lambda: log.append({"event": "decision"}), lambda: verify(log)):
        with pytest.raises(KsadkError, match=r"decision log .*decisions\.jsonl cannot be") as error:
            use()
        assert error.value.code == "log_unavailable"


def test_a_disk_that_fills_up_in_a_line_leaves_none_of_it(
    log: DecisionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = log.path.read_bytes()
    write = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) < 150:
            raise OSError(28, os.strerror(28))
        return write(file, data[:50])

    with monkeypatch.context() as patch:
        patch.setattr(decision_log.os, "write", full)
        with pytest.raises(KsadkError, match="No space left on device") as error:
            log.append({"event": "decision", "tool": "x"})
    assert error.value.code == "log_unavailable"
    assert log.path.read_bytes() == before
    log.append({"event": "decision"})
    assert (verify(log).ok, verify(log).last, verify(log).notes) == (True, 7, [])


def test_a_store_of_the_first_version_is_kept_and_extended(tmp_path: Path) -> None:
    import sqlite3

    from ksadk.tools import approval_store

    path = tmp_path / "a.sqlite3"
    with sqlite3.connect(path) as db:
        db.executescript(approval_store._SCHEMA + "PRAGMA user_version = 1;")
        db.execute("INSERT INTO session_grants VALUES ('k', 'p', '', 't', '', 'd', 1e12)")
    db.close()
    new_log(tmp_path).append({"event": "decision"})
    assert verify(new_log(tmp_path)).ok
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT session_key FROM session_grants").fetchall() == [("k",)]
    db.close()
