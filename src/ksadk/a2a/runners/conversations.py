"""The sessions that a runner's tasks work in: what an agent remembers of a conversation has one state."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from ksadk.a2a.runners.base import Call, Rejected

MOST_KEPT = 1000
"""How many sessions are remembered that are only in memory."""


class Conversations:
    """One task at a time works in a session, and none while another waits there for its answer.

    `forget` drops a session's memory: that of the oldest, where there are more than `MOST_KEPT`.
    """

    def __init__(self, forget: Callable[[str], Awaitable[None]]) -> None:
        self._forget = forget
        self._locks: OrderedDict[str, asyncio.Lock] = OrderedDict()
        self._waiting: dict[str, str] = {}

    @asynccontextmanager
    async def turn(self, call: Call) -> AsyncIterator[Rejected | None]:
        """Work in a call's session inside a `with` block. Gives a refusal where another task waits there."""
        lock = self._locks.setdefault(call.session, asyncio.Lock())
        self._locks.move_to_end(call.session)
        async with lock:
            holder = self._waiting.get(call.session, call.task_id)
            if holder != call.task_id:
                yield Rejected(f"Task {holder} of this context waits for an answer.")
                return
            self.leave(call)
            yield None
        await self._forget_the_oldest()

    def wait(self, call: Call) -> None:
        """The call's task waits for an answer in its session."""
        self._waiting[call.session] = call.task_id

    def leave(self, call: Call) -> None:
        """The call's task does not wait any more."""
        if self._waiting.get(call.session) == call.task_id:
            del self._waiting[call.session]

    async def _forget_the_oldest(self) -> None:
        while len(self._locks) > MOST_KEPT:
            session, lock = next(iter(self._locks.items()))
            if lock.locked() or session in self._waiting:
                self._locks.move_to_end(session)
                return
            del self._locks[session]
            await self._forget(session)
