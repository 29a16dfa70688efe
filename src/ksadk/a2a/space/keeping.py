"""Where the events of tasks go: into an outbox that is emptied behind the caller's back, or straight away."""

from __future__ import annotations

from ksadk.a2a.space.dispatcher import A2AEventDispatcher, A2AEventSink
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox


class EventKeeping:
    """Keeps events. With an outbox they outlive this process; a dispatcher that is not handed in is this
    object's own, and ended by `aclose`. Without one, `keep` fails where the sink does."""

    def __init__(
        self,
        sink: A2AEventSink,
        outbox: SQLiteA2AEventOutbox | None = None,
        dispatcher: A2AEventDispatcher | None = None,
    ) -> None:
        self._sink = sink
        self._outbox = outbox
        self._own = A2AEventDispatcher(outbox, sink) if outbox is not None and dispatcher is None else None
        self._dispatcher = dispatcher or self._own

    @property
    def is_durable(self) -> bool:
        """Whether what is kept outlives this process."""
        return self._outbox is not None

    async def start(self) -> None:
        """Begin to deliver, also what an earlier process left; `OutboxError` where nothing can be kept."""
        if self._own is not None:
            await self._own.start()

    async def keep(self, task_id: str, events: tuple[TaskEvent, ...]) -> None:
        """Keep events of a task, in order."""
        if self._outbox is None:
            await self._sink.append(task_id, events)
            return
        await self.start()
        await self._outbox.enqueue(task_id, events)
        if self._dispatcher is not None:
            self._dispatcher.notify()

    async def flush(self, seconds: float) -> bool:
        """Deliver what waits, for so many seconds; whether nothing is left."""
        return self._dispatcher is None or await self._dispatcher.flush(seconds)

    async def aclose(self, flush_seconds: float) -> bool:
        """Deliver what waits, for so many seconds, and end what is this object's own; whether nothing is
        left of what that delivers."""
        return self._own is None or await self._own.stop(flush_seconds)
