"""A run whose agent works in a task of its own, and pauses by waiting or by ending a part of the work."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import ExitStack
from contextvars import ContextVar
from typing import NamedTuple

from ksadk.a2a.runners.base import Answer, Call, Event, Failed, InputRequired, Pause, RunnerError, pause_scope
from ksadk.a2a.runners.bridge import Bridge
from ksadk.a2a.runners.journal import Journal, journal_scope
from ksadk.a2a.runners.threads import Canceled, Work, use_daemon_threads, work_scope
from ksadk.runtime_context import scoped

CANCEL_SECONDS = 2.0
"""How long a canceled agent may take to stop before the cancelation is said to have failed."""

MOST_AHEAD = 256
"""How many events an agent may be ahead of whoever reads them."""

STOPPED_LATE = (
    "The agent was asked to stop and did not in time. What it said after that was not kept; "
    "what it did is not known."
)


class _Asked(NamedTuple):
    question: InputRequired
    answer: Future[Answer]


class _Ended(NamedTuple):
    error: BaseException | None
    question: InputRequired | None


class TaskRun(ABC):
    """What the runs of all frameworks share: `_work` is the agent's work up to its end, or up to a question
    that it returns, after whose answer it is called again."""

    journal: Journal | None = None

    def __init__(self, call: Call) -> None:
        self.call = call
        self._queue: asyncio.Queue[Event | _Asked | _Ended] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._threads = Work()
        self._waiting: list[Future[Answer]] = []
        self._asked: _Asked | None = None
        self._bridge: Bridge[InputRequired | None] | None = None
        self._given = 0
        self._read = 0
        self._canceled = self._stopped_late = False

    @abstractmethod
    async def _work(self) -> InputRequired | None:
        """Run the agent, giving its events to `emit`."""

    def _take(self, answer: Answer) -> None:  # noqa: ARG002  # a run that waits inside takes none
        """An answer to a question that `_work` returned."""
        raise RunnerError("nothing was asked")

    def _pause(self) -> Pause:
        """How code inside of the agent asks."""
        return self.ask

    async def events(self) -> AsyncIterator[Event]:
        """See `Run`."""
        if self._task is None and not self._canceled:
            self._begin()
        while not self._canceled or self._stopped_late:
            item = await self._queue.get()
            if isinstance(item, _Ended):
                self._task = None
                if self._stopped_late:
                    yield Failed(STOPPED_LATE)
                elif self._canceled:
                    pass
                elif item.error is not None:
                    raise item.error
                elif item.question is not None:
                    yield item.question
                return
            if isinstance(item, _Asked):
                self._asked = item
                yield item.question
                return
            self._read += 1
            if not self._canceled:
                yield item

    async def answer(self, answer: Answer) -> None:
        """See `Run`."""
        if self._asked is None:
            self._take(answer)
            return
        asked, self._asked = self._asked, None
        self._waiting.remove(asked.answer)
        asked.answer.set_result(answer)

    async def cancel(self) -> None:
        """See `Run`."""
        self._canceled = True
        for future in self._waiting:
            if not future.done():
                future.set_exception(Canceled())
        if self._task is not None:
            self._task.cancel()
            self._threads.interrupt()
            _, going_on = await asyncio.wait({self._task}, timeout=CANCEL_SECONDS)
            if going_on or not await self._threads.over(CANCEL_SECONDS):
                self._stopped_late = True
                self._watch()
                raise RunnerError(
                    "the agent does not stop: it is inside of a call that does not return",
                    code="not_cancelable",
                    hint="An agent in a thread stops between two lines of Python, or asks canceled().",
                )
        self._queue.put_nowait(_Ended(None, None))

    @property
    def canceled(self) -> bool:
        """Whether the run was canceled."""
        return self._canceled

    async def emit(self, event: Event) -> None:
        """Give an event to whoever reads; waits where they are far behind."""
        if isinstance(event, InputRequired):
            raise RunnerError(
                "this agent cannot ask by an event",
                hint="Ask as its framework does, by an interrupt for instance.",
            )
        while self._given - self._read > MOST_AHEAD and not self._canceled:
            await asyncio.sleep(0.005)
        self._given += 1
        self._queue.put_nowait(event)

    def emit_from_thread(self, event: Event, loop: asyncio.AbstractEventLoop) -> None:
        """The same for a thread."""
        while self._given - self._read > MOST_AHEAD and not self._canceled:
            time.sleep(0.005)
        if self._canceled:
            raise Canceled
        self._given += 1
        loop.call_soon_threadsafe(self._queue.put_nowait, event)

    def ask(self, question: InputRequired, /) -> Answer | None:
        """Wait for the answer where the running code can: in a thread, or called by the agent's coroutine.
        None in another task on the loop."""
        if threading.get_ident() != self._loop_thread:
            return self._put(question).result()
        if self._bridge is None or not self._bridge.reaches():
            return None
        answered: Answer = self._bridge.wait(asyncio.wrap_future(self._put(question)))
        return answered

    async def ask_here(self, question: InputRequired) -> Answer:
        """Wait for the answer in a coroutine."""
        return await asyncio.wrap_future(self._put(question))

    def _put(self, question: InputRequired) -> Future[Answer]:
        """Give a question to whoever reads; what is to come of it."""
        asked = _Asked(question, Future())
        self._waiting.append(asked.answer)
        if self._canceled:  # looked at last: a cancel ends what it finds waiting
            raise Canceled
        self._loop.call_soon_threadsafe(self._queue.put_nowait, asked)
        return asked.answer

    def _begin(self) -> None:
        use_daemon_threads()
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        with ExitStack() as scopes:
            scopes.enter_context(scoped(_current, self))
            scopes.enter_context(pause_scope(self._pause()))
            scopes.enter_context(journal_scope(self.journal))
            scopes.enter_context(work_scope(self._threads))
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        question = None
        try:
            self._bridge = Bridge(self._work())
            question = await self._bridge
        except asyncio.CancelledError:
            if not self._canceled:  # by the end of the server, or by itself
                self._queue.put_nowait(_Ended(RunnerError("the agent was interrupted"), None))
                raise
        except BaseException as error:  # noqa: BLE001  # it travels to whoever reads the events
            if not self._canceled:
                self._queue.put_nowait(_Ended(_no_exit(error), None))
            return
        if not self._canceled:
            self._queue.put_nowait(_Ended(None, question))

    def _watch(self) -> None:
        """Tell whoever reads once the agent has stopped after all."""

        async def watch(task: asyncio.Task[None]) -> None:
            await asyncio.wait({task})
            while not await self._threads.over(3600):
                pass
            self._queue.put_nowait(_Ended(None, None))

        assert self._task is not None
        self._watching = self._loop.create_task(watch(self._task))


def _no_exit(error: BaseException) -> Exception:
    """An agent that calls `sys.exit` ends its task, and not the server with everybody else's."""
    if isinstance(error, Exception):
        return error
    ended = RunnerError(f"the agent raised {type(error).__name__}")
    ended.__cause__ = error
    return ended


_current: ContextVar[TaskRun | None] = ContextVar("ksadk_a2a_run", default=None)


def canceled() -> bool:
    """Whether the task that this code works for was canceled: for loops in threads that can stop."""
    run = _current.get()
    return run is not None and run.canceled
