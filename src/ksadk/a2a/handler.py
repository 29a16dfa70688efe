"""The SDK's request handler, and what it leaves to servers: what is refused, canceled and told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from a2a.server.agent_execution import RequestContext, RequestContextBuilder
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers.default_request_handler_v2 import DefaultRequestHandlerV2
from a2a.server.tasks import TaskStore
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    ExtensionSupportRequiredError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from ksadk.a2a.executor import ASKED, HISTORY, Executor
from ksadk.a2a.modes import MODES, mode_of, takes
from ksadk.a2a.output import STREAMED, TERMINAL
from ksadk.a2a.parts import REASONING, check_values, data_part, text_of
from ksadk.a2a.stores.base import OwnerContext
from ksadk.a2a.stores.tasks import RUNNING

_CANCELED_WITHIN = 5.0
_TASKS_OF_HISTORY = 20

log = logging.getLogger(__name__)


class Handler(DefaultRequestHandlerV2):
    """Answers the operations of both bindings. Exceptions that are no A2A errors stay in the log."""

    def __init__(self, executor: Executor, store: TaskStore, card: pb.AgentCard) -> None:
        super().__init__(executor, store, card, request_context_builder=ContextBuilder(store))
        self._executor = executor
        self._store = store
        self._input_modes = tuple(card.default_input_modes)
        self._required = frozenset(
            extension.uri for extension in card.capabilities.extensions if extension.required
        )

    async def on_message_send(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> pb.Message | pb.Task:
        """SendMessage."""
        with hidden():
            self._check(params, context)
            answer: pb.Message | pb.Task = await super().on_message_send(params, context)
            return answer

    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """SendStreamingMessage. A stream that answers a task begins with the task, as one that starts it
        does (3.1.2)."""
        with hidden():
            self._check(params, context)
            context.state[STREAMED] = True
            task_id = params.message.task_id
            before = await self._store.get(task_id, context) if task_id else None
            stream = super().on_message_send_stream(params, context)
            try:
                async for event in stream:
                    if before is not None:
                        yield _resumed(before, params.message)
                        before = None
                    yield event
            finally:
                await stream.aclose()

    async def on_get_task(self, params: pb.GetTaskRequest, context: ServerCallContext) -> pb.Task | None:
        """GetTask."""
        with hidden():
            task: pb.Task | None = await super().on_get_task(params, context)
            return task

    async def on_list_tasks(
        self, params: pb.ListTasksRequest, context: ServerCallContext
    ) -> pb.ListTasksResponse:
        """ListTasks."""
        with hidden():
            page: pb.ListTasksResponse = await super().on_list_tasks(params, context)
            return page

    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """SubscribeToTask."""
        with hidden():
            stream = super().on_subscribe_to_task(params, context)
            try:
                async for event in stream:
                    yield event
            finally:
                await stream.aclose()

    async def on_cancel_task(
        self, params: pb.CancelTaskRequest, context: ServerCallContext
    ) -> pb.Task | None:
        """CancelTask. It succeeds when the agent has stopped, and not before (3.1.5)."""
        with hidden():
            task = await self._store.get(params.id, context)
            if task is None:
                raise TaskNotFoundError
            if task.status.state in TERMINAL:
                raise TaskNotCancelableError
            if await self._executor.stop(params.id):
                task = await self.ended(params.id, context)
                if task.status.state != pb.TASK_STATE_CANCELED:
                    raise TaskNotCancelableError
                return task
            canceled: pb.Task | None = await super().on_cancel_task(params, context)
            if canceled is not None and canceled.status.state != pb.TASK_STATE_CANCELED:
                raise TaskNotCancelableError
            return canceled

    async def ended(self, task_id: str, context: ServerCallContext) -> pb.Task:
        """The task, once what its run said last is stored; `TimeoutError` where that does not come."""
        async with asyncio.timeout(_CANCELED_WITHIN):
            while True:
                task = await self._store.get(task_id, context)
                if task is not None and task.status.state in TERMINAL:
                    return task
                await asyncio.sleep(0.002)

    def _check(self, params: pb.SendMessageRequest, context: ServerCallContext) -> None:
        if isinstance(context, OwnerContext):
            return
        if params.configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError
        try:
            check_values(params.message)
        except ValueError as error:
            raise InvalidParamsError(f"The message cannot be kept: {error}") from error
        missing = self._required - context.requested_extensions
        if missing:
            raise ExtensionSupportRequiredError(
                f"This agent needs a client that supports {', '.join(sorted(missing))}"
            )
        for part in params.message.parts:
            if part.WhichOneof("content") is None:
                raise InvalidParamsError("A part holds one of text, raw, url and data")
            mode = mode_of(part)
            if params.message.task_id and mode in MODES.values():
                continue  # text and data answer any question
            if not takes(self._input_modes, mode):
                raise ContentTypeNotSupportedError(
                    f"This agent takes {', '.join(self._input_modes)}, and no {mode}"
                )


class ContextBuilder(RequestContextBuilder):
    """Gives a message that names only a task the task's context (3.4.3), and one that goes on in a context
    what was said there before. A task that is at work takes none: it would wait for its turn, and then answer
    a question that nobody had asked when it was written."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store

    async def build(
        self,
        context: ServerCallContext,
        params: pb.SendMessageRequest | None = None,
        task_id: str | None = None,
        context_id: str | None = None,
        task: pb.Task | None = None,
    ) -> RequestContext:
        """The context of one message."""
        stored = await self._store.get(task_id, context) if task_id else None
        if stored is not None and not isinstance(context, OwnerContext):
            if stored.status.state in RUNNING:
                raise UnsupportedOperationError("The task is at work, and has asked nothing")
            context_id = context_id or stored.context_id
            context.state[ASKED] = stored.status.message.message_id
        if context_id:
            context.state[HISTORY] = self._history(context, context_id)
        return RequestContext(context, params, task_id, context_id, task)

    def _history(
        self, context: ServerCallContext, context_id: str
    ) -> Callable[[], Awaitable[tuple[tuple[str, str], ...]]]:
        async def history() -> tuple[tuple[str, str], ...]:
            found = await self._store.list(
                pb.ListTasksRequest(
                    context_id=context_id, page_size=_TASKS_OF_HISTORY, include_artifacts=True
                ),
                context,
            )
            return tuple(said for task in reversed(found.tasks) for said in _said(task))

        return history


def _said(task: pb.Task) -> Iterator[tuple[str, str]]:
    for message in task.history:
        if text := text_of(message.parts):
            yield ("user" if message.role == pb.ROLE_USER else "agent", text)
    for artifact in task.artifacts:
        if artifact.name != REASONING and (text := text_of(artifact.parts)):
            yield "agent", text
    if task.status.HasField("message") and (text := text_of(task.status.message.parts)):
        yield "agent", text


def _resumed(before: pb.Task, message: pb.Message) -> pb.Task:
    """A task as it is once a message has answered it, and before anything has come of that."""
    task = pb.Task()
    task.CopyFrom(before)
    if task.status.HasField("message"):
        task.history.append(task.status.message)
        task.status.ClearField("message")
    task.history.append(message)
    task.status.state = pb.TASK_STATE_WORKING
    return task


@contextmanager
def hidden() -> Iterator[None]:
    """What went wrong in here, and is no A2A error, is told to the log and not to the caller (5.4)."""
    try:
        yield
    except (A2AError, asyncio.CancelledError, GeneratorExit):
        raise
    except Exception as error:
        log.exception("a request failed")
        raise InternalError from error


def internal_message(task: pb.Task, data: Any) -> pb.SendMessageRequest:
    """A message of the server's own. It has the id of one that the task has, so that it is not added to the
    task's history."""
    first = task.history[0].message_id if task.history else "server"
    return pb.SendMessageRequest(
        message=pb.Message(
            role=pb.ROLE_USER,
            message_id=first,
            task_id=task.id,
            context_id=task.context_id,
            parts=[data_part(data)],
        ),
        configuration=pb.SendMessageConfiguration(return_immediately=True),
    )
