"""The dispatcher delivers each task's events in order, lets no task hold up another, and says little."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from space_outbox import PATIENCE, Answering, Sink, Time, fill, opened, until

from ksadk.a2a.space.dispatcher import LOOK_SECONDS, TASKS_AT_ONCE, A2AEventDispatcher
from ksadk.a2a.space.errors import CONTROL_PLANE_ERROR, INVALID_RESPONSE, UNAVAILABLE, A2AControlPlaneError
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox
from ksadk.a2a.space.outbox_rows import OutboxError, OutboxStatus
from ksadk.a2a.stores import sqlite_file

T = TypeVar("T")

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJhMmEifQ.c2lnbmF0dXJl"
DOWN = A2AControlPlaneError(503, "no connection", UNAVAILABLE, True)
REFUSED = A2AControlPlaneError(400, "no such kind", "A2A_EVENT_INVALID", False, action="AppendA2ATaskEvents")


class Bench:
    """An outbox, a sink, a dispatcher between them, and their time."""

    def __init__(self, directory: Path, sink: Sink, time: Time, seconds: float) -> None:
        self.time = time
        self.sink = sink
        self.outbox = opened(directory, time)
        self.dispatcher = A2AEventDispatcher(self.outbox, sink, sink_timeout_seconds=seconds, wait=time.wait)

    async def give(self, *items: str) -> None:
        await fill(self.outbox, *items)
        self.dispatcher.notify()

    async def given(self, count: int) -> None:
        """Return once the sink was given so many batches."""
        await until(lambda: len(self.sink.given) >= count)

    async def empty(self) -> None:
        async with asyncio.timeout(20):
            while (await self.outbox.status()).batches:
                await asyncio.sleep(0.001)

    async def rests_for(self, seconds: float) -> None:
        """Let the dispatcher rest so long: no shorter, and no longer."""
        before = len(self.sink.given)
        self.time.advance(seconds - 0.25)
        await self.time.rests(0.25)
        assert len(self.sink.given) == before
        self.time.advance(0.25)
        await self.given(before + 1)

    async def attempts(self, count: int) -> None:
        """Return once so many failures of the first batch are written down."""
        query = "SELECT attempt_count FROM a2a_task_event_outbox ORDER BY sequence"
        file = self.outbox._file
        assert file is not None
        path = file.path
        assert path is not None
        with sqlite3.connect(path) as db:
            await until(lambda: db.execute(query).fetchone() == (count,))


@asynccontextmanager
async def bench(
    directory: Path,
    answer: Callable[[str, str], Awaitable[None]] | None = None,
    time: Time | None = None,
    seconds: float = 5.0,
) -> AsyncIterator[Bench]:
    time = time or Time()
    sink = Answering(answer, time) if answer else Sink(time)
    made = Bench(directory, sink, time, seconds)
    await made.dispatcher.start()
    try:
        yield made
    finally:
        await made.dispatcher.stop(0)
        await made.outbox.aclose()


def run(work: Coroutine[Any, Any, T]) -> T:
    """What a test comes to; fails, rather than waits for ever, where it waits for a time that never comes."""

    async def in_time() -> T:
        async with asyncio.timeout(3 * PATIENCE):
            return await work

    return asyncio.run(in_time())


def of(items: list[tuple[str, str]], task: str) -> list[str]:
    return [name for each, name in items if each == task]


def test_batches_of_a_task_go_in_order_and_those_of_all_tasks_go(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path) as made:
            numbers = range(30)
            await asyncio.gather(
                *(made.give(*(f"{task}:{number}" for number in numbers)) for task in "abcdefghijklm")
            )
            assert await made.dispatcher.flush()
            for task in "abcdefghijklm":
                assert of(made.sink.taken, task) == [str(number) for number in numbers]
            assert await made.outbox.status() == OutboxStatus(0, 0, 0)
            assert (made.dispatcher.degraded, made.dispatcher.last_error) == (False, None)

    run(work())


def test_what_an_earlier_process_left_goes_first(tmp_path: Path) -> None:
    async def work() -> None:
        left = opened(tmp_path)
        await fill(left, "a:1", "a:2")
        await left.aclose()
        async with bench(tmp_path) as made:
            await made.give("a:3")
            await made.empty()
            assert made.sink.taken == [("a", "1"), ("a", "2"), ("a", "3")]

    run(work())


def test_a_batch_that_is_refused_for_good_is_a_dead_letter_and_its_task_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(task: str, name: str) -> None:
        if name == "bad":
            raise REFUSED

    async def work() -> None:
        async with bench(tmp_path, refuse) as made:
            await made.give("a:1", "a:bad", *(f"a:{number}" for number in range(2, 7)), "b:1")
            await made.empty()
            assert of(made.sink.taken, "a") == ["1", "2", "3", "4", "5", "6"]
            assert made.sink.given.count(("a", "bad")) == 1
            (dead,) = await made.outbox.dead_letters()
            assert dead.last_error == "AppendA2ATaskEvents: no such kind [A2A_EVENT_INVALID]"
            assert dead.attempt_count == 1
            assert not made.dispatcher.degraded
        await made.outbox.aclose()

    run(work())
    (line,) = caplog.messages
    assert "dead letter a2a-event-batch-" in line


def test_a_dead_letter_is_told_as_the_last_error_until_something_else_is_delivered(tmp_path: Path) -> None:
    async def refuse(task: str, name: str) -> None:
        if name == "bad":
            raise REFUSED

    async def work() -> None:
        async with bench(tmp_path, refuse) as made:
            await made.give("a:bad")
            await made.empty()
            await until(lambda: made.dispatcher.last_error is not None)
            await made.time.rests(LOOK_SECONDS)
            assert made.dispatcher.last_error is not None
            await made.give("a:good")
            await until(lambda: made.dispatcher.last_error is None)

    run(work())


FINAL = {
    400: REFUSED,
    404: A2AControlPlaneError(404, "no task", "A2A_TASK_NOT_FOUND", False),
    "403 with a reason": A2AControlPlaneError(403, "not yours", "A2A_TASK_FORBIDDEN", False),
}
NOT_FINAL: dict[object, BaseException] = {
    "retryable": DOWN,
    "retryable 409": A2AControlPlaneError(409, "later", "A2A_BUSY", True),
    "401": A2AControlPlaneError(401, "expired", "A2A_UNAUTHENTICATED", False),
    "403 without a reason": A2AControlPlaneError(403, "no", CONTROL_PLANE_ERROR, False),
    "404 without a reason": A2AControlPlaneError(404, "Not Found", CONTROL_PLANE_ERROR, False),
    "405 without a reason": A2AControlPlaneError(405, "Method Not Allowed", CONTROL_PLANE_ERROR, False),
    "429": A2AControlPlaneError(429, "slowly", "A2A_TOO_MANY", False),
    "no JSON": A2AControlPlaneError(502, "<html>", INVALID_RESPONSE, False),
    "unknown": KeyError("what is this"),
    "cancelled by itself": asyncio.CancelledError(),
}


@pytest.mark.parametrize("error", FINAL.values(), ids=map(str, FINAL))
def test_what_is_said_of_a_batch_ends_it(tmp_path: Path, error: Exception) -> None:
    assert run(outcome(tmp_path, error)) == (0, 1)


@pytest.mark.parametrize("error", NOT_FINAL.values(), ids=map(str, NOT_FINAL))
def test_what_is_said_of_its_sender_or_the_way_does_not(tmp_path: Path, error: BaseException) -> None:
    assert run(outcome(tmp_path, error)) == (1, 0)


async def outcome(directory: Path, error: BaseException) -> tuple[int, int]:
    """How many batches wait and are dead after one was answered with an error."""

    async def answer(task: str, name: str) -> None:
        raise error

    async with bench(directory, answer) as made:
        await made.give("a:1")
        await until(lambda: made.dispatcher.last_error is not None)
        await made.dispatcher.stop(0)
        status = await made.outbox.status()
    return status.batches, status.dead_letters


def test_a_task_that_fails_is_tried_after_1_2_4_seconds_and_up_to_a_minute_and_others_go_on(
    tmp_path: Path,
) -> None:
    async def fail(task: str, name: str) -> None:
        if task == "bad":
            raise DOWN

    async def work() -> None:
        async with bench(tmp_path, fail) as made:
            await made.give("bad:1", "bad:2")
            await made.attempts(1)
            for attempt, seconds in enumerate((1, 2, 4, 8, 16, 32, 60, 60), start=1):
                await made.attempts(attempt)
                for _ in range(int((seconds - 1) // LOOK_SECONDS)):
                    made.time.advance(LOOK_SECONDS)
                await made.rests_for(seconds - int((seconds - 1) // LOOK_SECONDS) * LOOK_SECONDS)
            await made.give("good:1", "good:2")
            await until(lambda: len(made.sink.taken) == 2)
            assert of(made.sink.given, "bad") == ["1"] * 9
            assert made.dispatcher.degraded

    run(work())


def test_a_task_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    async def hang(task: str, name: str) -> None:
        if task == "slow":
            await asyncio.Event().wait()

    async def work() -> None:
        async with bench(tmp_path, hang, seconds=300) as made:
            await made.give("slow:1", "slow:2")
            await made.given(1)
            await made.give(*(f"t{number}:{each}" for number in range(20) for each in (1, 2)))
            await until(lambda: len(made.sink.taken) == 40)
            assert of(made.sink.given, "slow") == ["1"]

    run(work())


def test_more_tasks_that_hang_than_are_sent_at_once_hold_up_others_for_the_sinks_time_only(
    tmp_path: Path,
) -> None:
    async def hang(task: str, name: str) -> None:
        if task != "good":
            await asyncio.Event().wait()

    async def work() -> None:
        async with bench(tmp_path, hang, seconds=0.02) as made:
            await made.give(*(f"t{number}:1" for number in range(TASKS_AT_ONCE * 2)), "good:1")
            await until(lambda: made.sink.taken == [("good", "1")])
            assert "no answer in time" in str(made.dispatcher.last_error)

    run(work())


def test_no_more_than_so_many_tasks_are_sent_at_once_and_of_each_task_one_batch(tmp_path: Path) -> None:
    at_once: list[str] = []
    most = 0

    async def watch(task: str, name: str) -> None:
        nonlocal most
        assert task not in at_once
        at_once.append(task)
        most = max(most, len(at_once))
        for _ in range(5):
            await asyncio.sleep(0)
        at_once.remove(task)

    async def work() -> None:
        async with bench(tmp_path, watch) as made:
            await made.give(*(f"t{number}:{each}" for number in range(30) for each in range(3)))
            assert await made.dispatcher.flush()
            assert len(made.sink.taken) == 90

    run(work())
    assert 1 < most <= TASKS_AT_ONCE


def test_two_dispatchers_on_one_file_send_each_batch_once_and_in_order(tmp_path: Path) -> None:
    tasks = "abcdefghijkl"  # more than one of them takes at once

    async def work() -> None:
        two_has_sent = asyncio.Event()

        async def wait_for_two(task: str, name: str) -> None:
            await two_has_sent.wait()

        time = Time()
        async with bench(tmp_path, wait_for_two, time) as one:
            await one.give(*(f"{task}:0" for task in tasks))
            await one.given(TASKS_AT_ONCE)
            async with bench(tmp_path, time=time) as two:
                two.sink.given = one.sink.given
                await until(lambda: bool(two.sink.taken))
                two_has_sent.set()
                for number in range(1, 5):
                    await two.give(*(f"{task}:{number}" for task in tasks))
                    one.dispatcher.notify()
                await one.empty()
                for task in tasks:
                    assert of(one.sink.given, task) == [str(number) for number in range(5)]

    run(work())


def test_an_idle_dispatcher_looks_now_and_then_for_what_others_left_and_does_nothing_between(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with bench(tmp_path) as made:
            await made.time.rests(LOOK_SECONDS)
            file = made.outbox._file
            assert file is not None
            used = made.outbox._worker
            await asyncio.sleep(0.03)
            assert made.outbox._worker is used  # nothing was asked of the outbox
            other = opened(tmp_path, made.time)
            await fill(other, "a:1")
            await other.aclose()
            made.time.advance(LOOK_SECONDS)
            await until(lambda: made.sink.taken == [("a", "1")])

    run(work())


def test_a_turn_that_a_killed_process_had_is_taken_when_it_ends(tmp_path: Path) -> None:
    async def work() -> None:
        time = Time()
        other = opened(tmp_path, time)
        await fill(other, "a:1")
        await other.pull(1, 7)
        await other.aclose()
        async with bench(tmp_path, time=time) as made:
            await made.time.rests(LOOK_SECONDS)
            made.time.advance(LOOK_SECONDS)
            await made.time.rests(2)
            assert made.sink.given == []
            made.time.advance(2)
            await until(lambda: made.sink.taken == [("a", "1")])

    run(work())


def test_a_sender_whose_turn_is_about_to_end_sends_nothing_more_in_it(tmp_path: Path) -> None:
    async def work() -> None:
        time = Time()
        turns: list[str] = []

        async def slow(task: str, name: str) -> None:
            time.now += 20
            turns.append(made.outbox._file.rows("SELECT holder FROM a2a_task_event_turns")[0][0])  # type: ignore[union-attr]

        before = opened(tmp_path, time)
        await fill(before, "a:1", "a:2", "a:3", "a:4")
        await before.aclose()
        async with bench(tmp_path, slow, time) as made:
            await made.empty()
            assert of(made.sink.taken, "a") == ["1", "2", "3", "4"]
        assert turns[0] == turns[1] != turns[2] == turns[3]

    run(work())


def test_little_is_said_of_what_fails_again_and_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    down = True

    async def answer(task: str, name: str) -> None:
        if down:
            raise DOWN

    async def work() -> None:
        nonlocal down
        async with bench(tmp_path, answer) as made:
            await made.give("a:1")
            for attempt in range(1, 8):  # at 0, 1, 3, 7, 15, 31, 63 s, and then 127 s
                await made.attempts(attempt)
                made.time.advance(2.0 ** (attempt - 1))
                await made.given(attempt + 1)
            await made.attempts(8)
            down = False
            made.time.advance(60)
            await made.empty()
            await until(lambda: not made.dispatcher.degraded)
            assert made.dispatcher.last_error is None

    with caplog.at_level(logging.DEBUG, "ksadk"):
        run(work())
    assert caplog.messages == [
        "delivering events of task a: no connection [A2A_CONTROL_PLANE_UNAVAILABLE]",
        "delivering events of task a: no connection [A2A_CONTROL_PLANE_UNAVAILABLE] (7 times in 63 s)",
        "delivering events of task a: no connection [A2A_CONTROL_PLANE_UNAVAILABLE] (8 times in 127 s)",
        "delivering events of task a: works again, after 8 failures in 187 s",
    ]


SECRETS: dict[str, BaseException] = {
    "a token in the message": A2AControlPlaneError(503, f"bad\n\x1b[1m token {JWT}", UNAVAILABLE, True),
    "a header in the message": A2AControlPlaneError(503, "got Bearer s3cret-value", UNAVAILABLE, True),
    "a query in the message": A2AControlPlaneError(503, "at https://h/x?k=s3cret-value", UNAVAILABLE, True),
    "another's error": ValueError(f"header value {JWT} s3cret-value"),
    "very long": A2AControlPlaneError(503, "x" * 5000, UNAVAILABLE, True),
}


@pytest.mark.parametrize("error", SECRETS.values(), ids=SECRETS)
def test_no_secret_is_in_what_is_kept_said_or_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    async def answer(task: str, name: str) -> None:
        raise error

    async def work() -> str:
        async with bench(tmp_path, answer) as made:
            await made.give("a:1")
            await made.attempts(1)
            return str(made.dispatcher.last_error)

    said = run(work())
    with sqlite3.connect(tmp_path / "outbox.sqlite3") as db:
        (kept,) = db.execute("SELECT last_error FROM a2a_task_event_outbox").fetchone()
    assert kept == said != ""
    assert len(said) <= 512
    assert said.isprintable()
    for text in (said, *caplog.messages):
        assert "s3cret" not in text
        assert "c2lnbmF0dXJl" not in text


def test_stop_delivers_what_waits_also_what_failed_a_moment_ago(tmp_path: Path) -> None:
    down = True

    async def answer(task: str, name: str) -> None:
        if down:
            raise DOWN

    async def work() -> None:
        nonlocal down
        async with bench(tmp_path, answer) as made:
            await made.give("a:1", "b:1")
            await until(lambda: len(made.sink.given) == 2)
            await made.attempts(1)
            down = False
            assert await made.dispatcher.stop()
            assert sorted(made.sink.taken) == [("a", "1"), ("b", "1")]

    run(work())


def test_stop_ends_after_its_time_and_leaves_the_rest_for_whoever_is_next(tmp_path: Path) -> None:
    async def hang(task: str, name: str) -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        async with bench(tmp_path, hang, seconds=300) as made:
            await made.give("a:1", "a:2")
            await made.given(1)
            stopping = asyncio.create_task(made.dispatcher.stop())
            await made.time.rests(5)
            made.time.advance(5)
            assert await stopping is False
            assert not made.dispatcher.degraded
        async with bench(tmp_path, time=made.time) as next_one:  # who need not wait for the turn to end
            await next_one.empty()
            assert next_one.sink.taken == [("a", "1"), ("a", "2")]

    run(work())


def test_stop_does_not_wait_for_what_cannot_go_in_its_time(tmp_path: Path) -> None:
    async def fail(task: str, name: str) -> None:
        raise DOWN

    async def work() -> None:
        async with bench(tmp_path, fail) as made:
            await made.give("a:1")
            for attempt in range(1, 5):
                await made.attempts(attempt)
                made.time.advance(2.0 ** (attempt - 1))
                await made.given(attempt + 1)
            await made.attempts(5)
            assert await made.dispatcher.stop() is False  # tried once more: next in 32 s
            assert len(made.sink.given) == 6

    run(work())


def test_it_can_be_started_again_and_again_and_stopped_before_it_began(tmp_path: Path) -> None:
    async def work() -> None:
        sink, outbox = Sink(), opened(tmp_path)
        dispatcher = A2AEventDispatcher(outbox, sink)
        assert await dispatcher.stop()
        await asyncio.gather(dispatcher.start(), dispatcher.start(), dispatcher.start())
        running = [task for task in asyncio.all_tasks() if task.get_name() == "a2a-event-dispatcher"]
        assert len(running) == 1
        await fill(outbox, "a:1")
        assert await dispatcher.stop()
        assert await dispatcher.stop()
        await dispatcher.start()
        await fill(outbox, "a:2")
        assert await dispatcher.flush()
        assert await dispatcher.stop()
        assert sink.taken == [("a", "1"), ("a", "2")]
        await outbox.aclose()
        assert len(asyncio.all_tasks()) == 1

    run(work())


def test_a_file_that_cannot_be_used_for_a_while_is_told_and_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.01)

    async def work() -> None:
        async with bench(tmp_path) as made:
            await made.give("a:1")
            await made.empty()
            await made.time.rests(LOOK_SECONDS)
            other = sqlite3.connect(tmp_path / "outbox.sqlite3", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            made.dispatcher.notify()
            await until(lambda: made.dispatcher.degraded)
            assert "database is locked" in str(made.dispatcher.last_error)
            with pytest.raises(OutboxError):
                await made.give("a:2")
            other.execute("COMMIT")
            other.close()
            await made.give("a:2")
            await made.empty()
            await until(lambda: not made.dispatcher.degraded)
            assert made.dispatcher.last_error is None
            assert made.sink.taken == [("a", "1"), ("a", "2")]

    run(work())
    assert ["locked" in line for line in caplog.messages] == [True, False]


def test_a_sink_has_no_more_time_than_a_turn_can_last(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="300"):
        A2AEventDispatcher(opened(tmp_path), Sink(), sink_timeout_seconds=301)


def test_where_the_outbox_cannot_be_opened_start_says_so(tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()

    async def work() -> None:
        outbox = SQLiteA2AEventOutbox(tmp_path / "o")
        dispatcher = A2AEventDispatcher(outbox, Sink())
        with pytest.raises(OutboxError):
            await dispatcher.start()
        assert await dispatcher.stop()
        await outbox.aclose()

    run(work())


def test_a_batch_that_is_damaged_on_disk_does_not_hold_up_its_task(tmp_path: Path) -> None:
    async def work() -> None:
        outbox = opened(tmp_path)
        await fill(outbox, "a:1", "a:2")
        with sqlite3.connect(tmp_path / "outbox.sqlite3") as db:
            db.execute("UPDATE a2a_task_event_outbox SET events_json = '[' WHERE sequence = 1")
        await outbox.aclose()
        async with bench(tmp_path) as made:
            await made.empty()
            assert made.sink.taken == [("a", "2")]
            assert (await made.outbox.status()).dead_letters == 1

    run(work())


def test_a_flush_ends_though_the_clock_is_put_back(tmp_path: Path) -> None:
    put_back = 0.0

    async def never(task: str, name: str) -> None:
        await asyncio.Event().wait()

    async def work() -> bool:
        nonlocal put_back
        outbox = opened(tmp_path, lambda: time.time() - put_back)
        await fill(outbox, "a:1")
        dispatcher = A2AEventDispatcher(outbox, Answering(never), sink_timeout_seconds=PATIENCE)
        flushing = asyncio.create_task(dispatcher.flush(0.2))
        await asyncio.sleep(0.05)
        put_back = 3600.0
        await fill(outbox, "b:1")
        done = await asyncio.wait_for(flushing, PATIENCE)
        await dispatcher.stop(0)
        await outbox.aclose()
        return done

    assert run(work()) is False
