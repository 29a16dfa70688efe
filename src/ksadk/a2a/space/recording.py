"""Writes down what comes of a call: first which remote task it is, then each thing that happened to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ksadk.a2a.client import Update
from ksadk.a2a.client_errors import InvalidAnswer
from ksadk.a2a.space.errors import RemoteTaskError
from ksadk.a2a.space.events import Clock, EventMaker, TaskEvent, utc_now
from ksadk.a2a.space.ids import is_id
from ksadk.a2a.space.models import PreparedOperation, RemoteTask

Bind = Callable[[str, RemoteTask], Awaitable[None]]
Keep = Callable[[str, tuple[TaskEvent, ...]], Awaitable[None]]


class Recording:
    """Of one prepared operation.

    bind: tells the platform of the agent's ids; called once, before any event is kept.
    keep: keeps events.
    """

    def __init__(
        self, prepared: PreparedOperation, *, bind: Bind, keep: Keep, clock: Clock = utc_now
    ) -> None:
        self.remote = prepared.remote_task
        self._task_id = prepared.task_id
        self._bind = bind
        self._keep = keep
        self._maker = EventMaker(prepared.task_id, prepared.call_permit, clock=clock)

    async def take(self, update: Update) -> tuple[TaskEvent, ...]:
        """The events of what an agent said, which are kept when this returns.

        `A2A_REMOTE_BINDING_CONFLICT` where it speaks of another task or context than before.
        """
        await self._bound(update)
        events = self._maker.take(update)
        await self._keep(self._task_id, events)
        return events

    async def _bound(self, update: Update) -> None:
        if not update.task_id:
            if update.kind != "message":
                raise InvalidAnswer("the agent's task has no id")
            return
        if not is_id(update.task_id) or (update.context_id and not is_id(update.context_id)):
            raise InvalidAnswer("the agent's task or context has an id that is none")
        if self.remote is None:
            remote = RemoteTask(update.task_id, update.context_id)
            await self._bind(self._task_id, remote)
            self.remote = remote
            return
        for what, known, given in (
            ("task", self.remote.task_id, update.task_id),
            ("context", self.remote.context_id, update.context_id),
        ):
            if known and given and known != given:
                raise RemoteTaskError(
                    f"the agent answered of {what} {given!r}; task {self._task_id} is its {what} {known!r}",
                    code="A2A_REMOTE_BINDING_CONFLICT",
                    task_id=self._task_id,
                )


def bound(prepared: PreparedOperation) -> RemoteTask:
    """The agent's ids of a task; `A2A_REMOTE_TASK_NOT_BOUND` where the platform knows none."""
    if prepared.remote_task is None:
        raise RemoteTaskError(
            f"the agent's own task for task {prepared.task_id} is not known",
            code="A2A_REMOTE_TASK_NOT_BOUND",
            hint="The message may not have reached the agent, or it answered without a task.",
            task_id=prepared.task_id,
        )
    return prepared.remote_task


def in_context(prepared: PreparedOperation) -> RemoteTask:
    """As `bound`, for a follow-up: `A2A_CONTEXT_MAPPING_NOT_FOUND` where the context is not known."""
    remote = bound(prepared)
    if not remote.context_id:
        raise RemoteTaskError(
            f"the agent's own context of task {prepared.task_id} is not known, so nothing can follow in it",
            code="A2A_CONTEXT_MAPPING_NOT_FOUND",
            hint="Send the message to the agent anew.",
            task_id=prepared.task_id,
        )
    return remote
