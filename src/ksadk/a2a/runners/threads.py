"""Threads that agents' synchronous code runs in: counted for each run, and asked to stop when it is canceled.

Nothing in Python ends a thread. One that is canceled gets an exception at its next line of Python; while it
is inside of a call that does not return (a sleep, a read), it goes on, and its run says so.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakSet

from ksadk.runtime_context import scoped

IDLE_SECONDS = 10.0

_Job = Callable[[], None]


class Canceled(BaseException):
    """The task was canceled: raised inside of an agent's synchronous code. Not to be caught for good."""


class Work:
    """The threads of one run, as far as they went through the event loop's executor."""

    def __init__(self) -> None:
        self._threads: set[int] = set()
        self._lock = threading.Lock()

    def enter(self) -> None:
        """The calling thread works for the run."""
        with self._lock:
            self._threads.add(threading.get_ident())

    def leave(self) -> None:
        """The calling thread is done with it."""
        with self._lock:
            self._threads.discard(threading.get_ident())
            _raise_in(threading.get_ident(), None)  # what was not raised yet is not meant for what comes next

    def interrupt(self) -> None:
        """Raise `Canceled` in each of the threads, as soon as it runs Python."""
        with self._lock:
            for ident in self._threads:
                _raise_in(ident, ctypes.py_object(Canceled))

    async def over(self, seconds: float) -> bool:
        """Whether no thread works for the run any more, waiting for that so long."""
        end = time.monotonic() + seconds
        while self._threads:
            if time.monotonic() >= end:
                return False
            await asyncio.sleep(0.01)
        return True


_work: ContextVar[Work | None] = ContextVar("ksadk_a2a_work", default=None)


@contextmanager
def work_scope(work: Work) -> Iterator[None]:
    """Count the threads that are started inside a `with` block, and in tasks made there, for `work`."""
    with scoped(_work, work):
        yield


class DaemonThreads(ThreadPoolExecutor):
    """As many threads as there are calls at a time. Agents wait for people in them: a pool of a fixed size
    would be used up by a few that wait, and the end of the program would wait for them too.

    A thread that is done takes the next call, if there is one within `IDLE_SECONDS`: starting one takes
    longer than most calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self._free: list[SimpleQueue[_Job]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call in a thread that no other call is in."""
        future: Future[Any] = Future()
        job = partial(_run, future, _work.get(), partial(fn, *args, **kwargs))
        try:
            self._free.pop().put(job)
        except IndexError:
            threading.Thread(target=self._serve, args=(job,), daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing is waited for."""

    def _serve(self, job: _Job) -> None:
        jobs: SimpleQueue[_Job] = SimpleQueue()
        while True:
            job()
            self._free.append(jobs)
            try:
                job = jobs.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    self._free.remove(jobs)
                except ValueError:  # a call has just been given to it
                    job = jobs.get()
                else:
                    return


_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def use_daemon_threads() -> None:
    """Make them what the running loop runs synchronous calls in."""
    loop = asyncio.get_running_loop()
    if loop not in _loops:
        _loops.add(loop)
        loop.set_default_executor(DaemonThreads())


def _run(future: Future[Any], work: Work | None, call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        try:
            result = _counted(work, call)
        except BaseException as error:  # noqa: BLE001  # it belongs to whoever waits for the call
            future.set_exception(error)
        else:
            future.set_result(result)
    except Canceled:
        pass  # it came when the call was over


def _counted(work: Work | None, call: Callable[[], Any]) -> Any:
    if work is None:
        return call()
    work.enter()
    try:
        return call()
    finally:
        _leave(work)


def _leave(work: Work) -> None:
    while True:
        try:
            work.leave()
        except Canceled:  # it came when the call was over
            continue
        return


def _raise_in(thread: int, error: Any) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)
