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
from typing import Any

from ksadk.runtime_context import scoped


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

    def interrupt(self) -> None:
        """Raise `Canceled` in each of the threads, as soon as it runs Python."""
        with self._lock:
            for ident in self._threads:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(Canceled))

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
    """A thread for each call. Agents wait for people in them: a pool would be used up by a few that wait, and
    the end of the program would wait for them too."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call in a thread of its own."""
        future: Future[Any] = Future()
        work = _work.get()
        threading.Thread(target=_run, args=(future, work, fn, args, kwargs), daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing is waited for."""


def use_daemon_threads() -> None:
    """Make them what the running loop runs synchronous calls in."""
    loop = asyncio.get_running_loop()
    if not isinstance(getattr(loop, "_default_executor", None), DaemonThreads):
        loop.set_default_executor(DaemonThreads())


def _run(
    future: Future[Any], work: Work | None, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        try:
            result = _call(work, fn, args, kwargs)
        except BaseException as error:  # noqa: BLE001  # it belongs to whoever waits for the call
            future.set_exception(error)
        else:
            future.set_result(result)
    except Canceled:
        pass  # it came when the call was over


def _call(work: Work | None, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    if work is None:
        return fn(*args, **kwargs)
    work.enter()
    try:
        return fn(*args, **kwargs)
    finally:
        work.leave()
