"""Lets a plain function wait for the event loop, though a coroutine on that loop has called it.

An asynchronous agent calls gateway tools that are plain functions. One that needs approval has to wait for a
person, and the loop must not. So the agent's coroutine is driven inside of a greenlet: what waits switches
out of it, the task awaits, and switches back in with the answer. SQLAlchemy's asyncio support does the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")


class Bridge(Awaitable[T]):
    """Awaiting it runs a coroutine; inside of that, `wait` is there for functions."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._inside: greenlet | None = None
        self._outside: greenlet | None = None

    def reaches(self) -> bool:
        """Whether the running code was called by the coroutine itself: in its thread, not in another task."""
        return getcurrent() is self._inside

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        """The result of an awaitable, for a function that the coroutine has called."""
        return self._switch_out("wait", awaitable)

    def __await__(self) -> Generator[Any, Any, T]:
        self._inside = greenlet(self._drive)
        self._inside.gr_context = getcurrent().gr_context
        kind, item = self._switch_in()
        while kind != "done":
            try:
                value = (yield item) if kind == "yield" else (yield from item.__await__())
            except BaseException as error:  # noqa: BLE001  # it goes on inside
                kind, item = self._switch_in(None, error)
            else:
                kind, item = self._switch_in(value, None)
        return item  # type: ignore[no-any-return]

    def _switch_in(self, *answer: Any) -> tuple[str, Any]:
        assert self._inside is not None
        self._outside = getcurrent()
        kind, item = self._inside.switch(*answer)
        return kind, item

    def _switch_out(self, kind: str, item: Any) -> Any:
        assert self._outside is not None
        value, error = self._outside.switch((kind, item))
        if error is not None:
            raise error
        return value

    def _drive(self) -> tuple[str, Any]:
        step, given = self._coroutine.send, None
        while True:
            try:
                item = step(given)
            except StopIteration as stop:
                return "done", stop.value
            try:
                step, given = self._coroutine.send, self._switch_out("yield", item)
            except BaseException as error:  # noqa: BLE001  # it is the coroutine's to handle
                step, given = self._coroutine.throw, error
