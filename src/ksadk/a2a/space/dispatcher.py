"""Delivers what the event outbox keeps: each task's batches in order, and no task held up by another.

A batch that is not taken is tried again, after 1 s and then after twice as long each time, up to a minute;
the task's later batches wait behind it. One that will never be taken goes to the dead letters, and the task
goes on. What the control plane answers about its caller (an expired token, say) says nothing about a batch.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, Self

from ksadk.a2a.space.errors import CONTROL_PLANE_ERROR, INVALID_RESPONSE, A2AControlPlaneError
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox, events_of
from ksadk.a2a.space.outbox_rows import LONGEST_ERROR, OutboxError, Row, Turn
from ksadk.a2a.space.quiet_log import QuietLog
from ksadk.errors import KsadkError
from ksadk.masking import MASK, without_user_info

log = logging.getLogger(__name__)

FLUSH_SECONDS = 5.0
"""How long is delivered at the end of a process, unless it is said."""
TASKS_AT_ONCE = 8
LONGEST_RETRY_SECONDS = 60.0
LONGEST_SINK_SECONDS = 300.0
LOOK_SECONDS = 5.0
"""How often is looked for what other processes have put into the outbox and left there."""

_OF_THE_SENDER = {401, 407, 408, 425, 429}
_OF_THE_WAY = {403, 404, 405}
"""Without a reason: what is at the control plane's address, or on the way there, does not know the action."""
_SECRET = re.compile(r"eyJ[\w-]+\.[\w-]*\.?[\w-]*|(?<=bearer )\S+", re.IGNORECASE)
_THE_OUTBOX = "the event outbox"


class A2AEventSink(Protocol):
    """Where task events go."""

    async def append(self, platform_task_id: str, events: Sequence[TaskEvent]) -> None:
        """Take a task's next events, all or none; events that it has already, by their ids, change nothing.

        An `A2AControlPlaneError` that is not retryable means that it will never take them. Whatever else is
        raised, they are given again.
        """


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but no longer than so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


class A2AEventDispatcher:
    """Delivers the batches of an outbox to a sink, from `start` to `stop`, or as an `async with`.

    It is used in one event loop. Several, in one process or many, may share an outbox: each batch is sent by
    one of them at a time. The outbox and the sink stay open: whoever made them closes them, the sink after
    `stop` and the outbox last.
    """

    def __init__(
        self,
        outbox: SQLiteA2AEventOutbox,
        sink: A2AEventSink,
        *,
        retry_interval_seconds: float = 1.0,
        sink_timeout_seconds: float = 5.0,
        wait: Callable[[asyncio.Event, float], Awaitable[None]] = wait_for,
    ) -> None:
        """A sink that takes longer than `sink_timeout_seconds`, at most 300, has failed."""
        if sink_timeout_seconds > LONGEST_SINK_SECONDS:
            raise ValueError(f"a sink has at most {LONGEST_SINK_SECONDS:.0f} s for a batch")
        self._outbox = outbox
        self._sink = sink
        self._retry_seconds = retry_interval_seconds
        self._sink_seconds = sink_timeout_seconds
        self._lease_seconds = 30.0 + sink_timeout_seconds
        self._clock = outbox.clock
        self._wait = wait
        self._quiet = QuietLog(log, outbox.clock)
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._workers: set[asyncio.Task[None]] = set()
        self._last_error: str | None = None

    @property
    def degraded(self) -> bool:
        """Whether a task's events, or the outbox, failed when last tried, or delivery has ended by itself."""
        return self._quiet.troubled or (self._running is not None and self._running.done())

    @property
    def last_error(self) -> str | None:
        """What failed last, without secrets, at most 512 characters; None once nothing fails any more. A dead
        letter stays until something else was delivered."""
        return self._last_error

    async def start(self) -> None:
        """Begin to deliver; once begun, it does nothing. Raises `OutboxError` where the outbox cannot be
        opened."""
        await self._outbox.initialize()
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="a2a-event-dispatcher")

    def notify(self) -> None:
        """Something was put into the outbox."""
        self._wake.set()

    async def flush(self, timeout: float = FLUSH_SECONDS) -> bool:
        """Deliver what waits, what failed before included, for so many seconds; whether nothing is left.

        It ends early when nothing that is left can be sent in that time: it failed again, or another process
        sends it.
        """
        await self.start()
        end = self._clock() + timeout
        await self._outbox.expedite()
        self.notify()
        while True:
            progress = self._progress
            due = await self._outbox.due()
            if due is None:
                return True
            end = min(end, self._clock() + timeout)  # unless the clock was put back
            left = end - self._clock()
            if left <= 0 or (due > end and not self._workers):
                return False
            await self._wait(progress, left)

    async def stop(self, flush_timeout_seconds: float = FLUSH_SECONDS) -> bool:
        """Deliver what waits, for so many seconds, and end; whether nothing is left. What is left, the outbox
        keeps for whoever is next."""
        if self._running is None:
            return True
        running, empty = self._running, False
        try:
            empty = not running.done() and await self.flush(flush_timeout_seconds)
        except OutboxError as error:
            self._fails(_THE_OUTBOX, error)
        finally:
            self._running = None
            workers = [running, *self._workers]
            for each in workers:
                each.cancel()
            ended = await asyncio.gather(*workers, return_exceptions=True)
        for result in ended:
            if isinstance(result, Exception):
                raise result
        return empty

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.stop()

    async def _run(self) -> None:
        """Take turns while there is room for their tasks, and rest when there is nothing to take."""
        while True:
            self._wake.clear()
            room = TASKS_AT_ONCE - len(self._workers)
            try:
                turns = await self._outbox.pull(room, self._lease_seconds) if room else []
                rest = 0.0 if turns else await self._rest(room)
            except OutboxError as error:
                self._fails(_THE_OUTBOX, error)
                turns, rest = [], self._retry_seconds
            for turn in turns:
                worker = asyncio.create_task(self._work(turn), name="a2a-event-worker")
                self._workers.add(worker)
                worker.add_done_callback(self._worked)
            if not turns:
                await self._wait(self._wake, rest)

    async def _rest(self, room: int) -> float:
        """For how many seconds there is nothing to do, unless somebody notifies."""
        due = await self._outbox.due()
        self._works(_THE_OUTBOX)
        if due is None and not self._workers and self._quiet.troubled:
            self._quiet.forget_all()  # another process has delivered what failed here
            self._last_error = None
        if due is None or not room:
            return LOOK_SECONDS
        return min(max(due - self._clock(), 0.0), LOOK_SECONDS)

    def _worked(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        self._progress.set()
        self._progress = asyncio.Event()
        self._wake.set()

    async def _work(self, turn: Turn) -> None:
        """Send a task's batches one after the other, as long as the turn lasts."""
        try:
            for row in turn.rows:
                late = self._clock() + self._sink_seconds > turn.until
                if late or not await self._deliver(turn, row):
                    break
        except OutboxError as error:  # the batch stays, and is sent again
            self._fails(_THE_OUTBOX, error)
        finally:
            await self._give_back(turn)

    async def _give_back(self, turn: Turn) -> None:
        try:
            await self._outbox.give_back(turn)
        except OutboxError as error:  # the turn ends by itself
            self._fails(_THE_OUTBOX, error)

    async def _deliver(self, turn: Turn, row: Row) -> bool:
        """Send a batch, and write down what came of it; whether the task's next one may follow."""
        thing = f"delivering events of task {row.platform_task_id}"
        error = await self._send(row)
        if error is None:
            await self._outbox.delivered(row)
            self._works(thing)
            return True
        if _is_final(error):
            await self._bury(turn, row, _told(error))
            self._quiet.forget(thing)
            return True
        said = self._fails(thing, error)
        delay = min(self._retry_seconds * 2.0 ** min(row.attempt_count, 30), LONGEST_RETRY_SECONDS)
        await self._outbox.failed(turn, row, said, self._clock() + delay)
        return False

    async def _send(self, row: Row) -> BaseException | None:
        """What became of a batch, None if it was taken."""
        try:
            events = events_of(row)
            async with asyncio.timeout(self._sink_seconds):
                await self._sink.append(row.platform_task_id, events)
        except asyncio.CancelledError as error:
            own = asyncio.current_task()
            if own is None or own.cancelling():
                raise
            return error  # the sink's own, not ours
        except Exception as error:  # noqa: BLE001  # whatever a sink raises, its batch is kept
            return error
        return None

    async def _bury(self, turn: Turn, row: Row, said: str) -> None:
        dropped = await self._outbox.bury(turn, row, said)
        if dropped is None:  # another dispatcher has the turn, and will be told the same
            return
        self._last_error = said
        log.error(
            "events of task %s are refused for good, and kept as the dead letter %s: %s",
            row.platform_task_id, row.batch_id, said,
        )  # fmt: skip
        for batch_id in dropped:
            log.error("there are too many dead letters: the oldest, %s, is dropped", batch_id)

    def _fails(self, thing: str, error: BaseException) -> str:
        said = self._last_error = _told(error)
        self._quiet.failed(thing, said)
        return said

    def _works(self, thing: str) -> None:
        again = self._quiet.works(thing)
        if not self._quiet.troubled and (again or thing != _THE_OUTBOX):
            self._last_error = None


def _is_final(error: BaseException) -> bool:
    """Whether a batch will never be taken: that was said of the batch, and not of its sender or the way."""
    if isinstance(error, OutboxError):
        return error.code == "invalid_event_batch"
    if not isinstance(error, A2AControlPlaneError) or error.retryable or error.error_code == INVALID_RESPONSE:
        return False
    code = int(error.code)
    return code not in _OF_THE_SENDER and not (
        code in _OF_THE_WAY and error.error_code == CONTROL_PLANE_ERROR
    )


def _told(error: BaseException) -> str:
    """An error in one line, without what may be secret; of errors that are not ours, only their name."""
    if isinstance(error, A2AControlPlaneError):
        said = str(error)
    elif isinstance(error, KsadkError):
        said = error.message
    elif isinstance(error, TimeoutError):
        said = "no answer in time"
    else:
        said = type(error).__name__
    line = " ".join("".join(char if char.isprintable() else " " for char in said).split())
    return _SECRET.sub(MASK, without_user_info(line))[:LONGEST_ERROR]
