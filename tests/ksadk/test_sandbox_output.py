"""Output that is read as it comes: what is kept, what is said of the rest, and what is text."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ksadk.sandbox.output import Kept, Reader, decode
from ksadk.sandbox.passing import Passing

HEAD, TAIL = 16, 8


def kept(chunks: Sequence[bytes]) -> Kept:
    """What is kept of chunks that come one after the other."""
    result = Kept(HEAD, TAIL)
    for chunk in chunks:
        while chunk:
            space = result.space()
            count = min(len(space), len(chunk))
            space[:count] = chunk[:count]
            result.took(count)
            chunk = chunk[count:]
    return result


@given(st.lists(st.binary(max_size=30)))
def test_the_first_and_the_last_bytes_are_kept_however_they_come(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    result = kept(chunks)
    assert result.size == len(whole)
    assert result.missing == max(0, len(whole) - HEAD - TAIL)
    expected = whole if not result.missing else whole[:HEAD] + whole[-TAIL:]
    assert result.data() == expected
    result.close()


@given(st.lists(st.one_of(st.binary(max_size=12), st.integers(1, 40)), max_size=20))
def test_what_is_skipped_is_missing_and_what_comes_after_is_kept(events: list[bytes | int]) -> None:
    result, late, size = kept([b"x" * HEAD]), b"", HEAD
    for event in events:
        if isinstance(event, int):
            result.skipped(event)
            late = b""
            size += event
        else:
            for byte in event:
                result.space()[:1] = bytes([byte])
                result.took(1)
            late += event
            size += len(event)
    assert result.data() == b"x" * HEAD + late[-TAIL:]
    assert (result.size, result.missing) == (size, size - HEAD - min(len(late), TAIL))
    result.close()


@given(st.text(min_size=HEAD + TAIL, max_size=80).filter(lambda text: "\ufffd" not in text))
def test_a_character_that_the_gap_cuts_is_no_error(text: str) -> None:
    data = text.encode()
    found = kept([data]).text()
    assert found.errors == 0 and "\ufffd" not in found.text
    if found.truncated:
        first, last = found.text.split("\n[... ", 1)
        assert data.startswith(first.encode()) and len(first.encode()) > HEAD - 4
        end = last.split("...]\n", 1)[1].rpartition("\n[")[0].encode()
        assert data.endswith(end) and len(end) > TAIL - 4
    else:
        assert found.text == text


@given(st.binary(max_size=60))
def test_errors_are_what_was_replaced(data: bytes) -> None:
    text, errors = decode(data)
    assert text == data.decode("utf-8", "replace")
    assert (errors == 0) == (text.encode() == data)


def test_each_byte_that_is_none_counts_and_a_replacement_that_was_there_does_not() -> None:
    assert decode(b"\xf0ok\xb4") == ("\ufffdok\ufffd", 2)
    assert decode("\ufffd".encode()) == ("\ufffd", 0)
    assert decode(b"\xe4\xef\xbf\xbd\xff") == ("\ufffd\ufffd\ufffd", 2)


def reading(limit: int = 1 << 30) -> tuple[Reader, int, Kept, threading.Event]:
    out, into = os.pipe()
    store, reached = Kept(), threading.Event()
    return Reader({out: store}, limit, reached.set), into, store, reached


def test_a_reader_takes_all_to_the_end_of_the_pipe() -> None:
    reader, into, store, reached = reading()
    with os.fdopen(into, "wb") as pipe:
        for number in range(300_000):
            pipe.write(b"%d\n" % number)
    reader.finish(10)
    assert store.size == sum(len(b"%d\n" % number) for number in range(300_000))
    assert store.data().startswith(b"0\n1\n") and store.data().endswith(b"299998\n299999\n")
    assert store.missing and not reached.is_set()


def test_a_reader_goes_on_taking_after_the_limit_and_keeps_none_of_it() -> None:
    reader, into, store, reached = reading(limit=1_000_000)
    for _ in range(100):
        os.write(into, bytes(100_000))
    assert reached.wait(5) and reader.exceeded
    os.close(into)
    reader.finish(10)
    assert 1_000_000 < store.size < 5_000_000


def test_a_reader_stops_though_the_pipe_stays_open() -> None:
    reader, into, store, _ = reading()
    os.write(into, b"some")
    began = time.monotonic()
    reader.finish(0.2)
    assert time.monotonic() - began < 20
    assert store.data() == b"some"
    reader.finish(10)
    os.close(into)


@given(st.lists(st.sampled_from([1, 7, 4096, 5000, 65_536]), min_size=1, max_size=40), st.integers(1, 300))
@settings(max_examples=30)
def test_what_passes_through_a_pipe_is_kept_as_if_it_had_been_read(sizes: list[int], times: int) -> None:
    store = Kept(HEAD, 100_000)
    store.space()[:HEAD] = b"x" * HEAD
    store.took(HEAD)
    out, into = os.pipe()
    passing, latest, total = Passing(store), b"", 0
    for number in range(times):
        size = sizes[number % len(sizes)]
        piece = bytes([number % 251]) * size
        os.write(into, piece)
        taken = 0
        while taken < size:
            taken += passing.take(out)
        latest, total = (latest + piece)[-100_000:], total + size
    os.close(into)
    assert passing.take(out) == 0
    passing.close()
    os.close(out)
    assert store.size == HEAD + total
    assert store.data() == b"x" * HEAD + latest
    store.close()


def test_an_empty_store_takes_no_memory_to_speak_of() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    stores = [Kept() for _ in range(100)]
    assert resident() - before < 10_000_000
    for store in stores:
        store.close()
