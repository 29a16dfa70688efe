"""Plain Python as an agent, stopped: where it awaits, yields or computes, and where it does not look up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from agent_runs import call, events_of, texts

from ksadk.a2a.runners.base import (
    Failed,
    RunnerError,
    Text,
)
from ksadk.a2a.runners.callable import CallableRunner
from ksadk.a2a.runners.task_run import canceled


def stopped_cleanly(agent: Any, seen: list[str]) -> None:
    async def go() -> None:
        run = CallableRunner(agent).start(call())
        events = run.events()
        assert await asyncio.wait_for(anext(events), 30) == Text("on my way")
        await asyncio.wait_for(run.cancel(), 30)
        assert [event async for event in events] == []
        after = len(seen)
        await asyncio.sleep(0.1)
        assert len(seen) == after

    asyncio.run(go())


def test_cancel_ends_a_coroutine_where_it_awaits() -> None:
    seen: list[str] = []

    async def agent(text: str) -> AsyncIterator[str]:
        try:
            yield "on my way"
            await asyncio.sleep(60)
        finally:
            seen.append("closed")

    stopped_cleanly(agent, seen)
    assert seen == ["closed"]


def test_cancel_closes_a_generator_in_a_thread() -> None:
    seen: list[str] = []

    def agent(text: str) -> Iterator[str]:
        try:
            while True:
                yield "on my way"
                time.sleep(0.01)
        finally:
            seen.append("closed")

    stopped_cleanly(agent, seen)
    assert seen == ["closed"]


def test_cancel_reaches_a_loop_of_python_in_a_thread() -> None:
    seen: list[str] = []

    def agent(text: str) -> Iterator[str]:
        yield "on my way"
        while True:
            seen.append("working")
            time.sleep(0.001)

    stopped_cleanly(agent, seen)


def test_a_thread_can_ask_whether_it_is_canceled() -> None:
    ended = threading.Event()

    def agent(text: str) -> Iterator[str]:
        yield "on my way"
        while not canceled():
            time.sleep(0.001)
        ended.set()

    stopped_cleanly(agent, [])


def test_a_run_that_is_canceled_before_it_begins_never_runs() -> None:
    ran: list[str] = []

    async def go() -> None:
        run = CallableRunner(ran.append).start(call())
        await run.cancel()
        assert await events_of(run) == []

    asyncio.run(go())
    assert ran == []


def test_cancel_of_a_thread_that_goes_on_is_an_error_and_what_it_says_later_is_dropped() -> None:
    hangs = threading.Lock()

    def agent(text: str) -> Iterator[str]:
        yield "on my way"
        with hangs:
            yield "too late"

    async def go() -> None:
        run = CallableRunner(agent).start(call())
        events = run.events()
        hangs.acquire()
        assert await anext(events) == Text("on my way")
        await asyncio.sleep(0.2)  # until it is inside of the call that does not return
        with pytest.raises(RunnerError) as caught:
            await run.cancel()
        assert caught.value.code == "not_cancelable"
        hangs.release()
        (last,) = [event async for event in events]
        assert isinstance(last, Failed)

    asyncio.run(go())


def test_cancel_of_a_coroutine_that_will_not_end_is_an_error() -> None:
    go_on = threading.Event()

    async def agent(text: str) -> AsyncIterator[str]:
        yield "on my way"
        while not go_on.is_set():
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                pass
        yield "too late"

    async def go() -> None:
        run = CallableRunner(agent).start(call())
        events = run.events()
        assert await anext(events) == Text("on my way")
        with pytest.raises(RunnerError):
            await run.cancel()
        go_on.set()
        (last,) = [event async for event in events]
        assert isinstance(last, Failed)

    asyncio.run(go())


def test_a_cancel_reaches_no_call_that_runs_in_the_same_thread_later() -> None:
    """Threads are used again: a thousand cancels at random moments, and every other call runs to its end."""

    def short(text: str) -> str:
        return str(sum(range(300)))

    async def canceled_soon(number: int) -> None:
        run = CallableRunner(short).start(call(task=f"canceled-{number}"))
        reading = asyncio.create_task(events_of(run))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        await run.cancel()
        await reading

    async def go() -> None:
        for number in range(250):
            runs = [CallableRunner(short).start(call(task=f"{number}-{n}")) for n in range(4)]
            *ended, _ = await asyncio.gather(*map(events_of, runs), canceled_soon(number))
            assert [texts(events) for events in ended] == ["44850"] * 4

    asyncio.run(go())
