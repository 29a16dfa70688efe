"""Waits for a task of a Space."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from ksadk.a2a.client import FIRST_POLL, POLL_INTERVAL, Update
from ksadk.a2a.client_errors import A2AProtocolError, A2ARunError, AgentError
from ksadk.a2a.space.client import A2ASpaceClient
from ksadk.a2a.space.tasks import SpaceTask
from ksadk.a2a.stream import end_error

_DOES_NOT_STREAM = ("UnsupportedOperationError", "MethodNotFoundError")


async def ended(
    client: A2ASpaceClient,
    task: SpaceTask,
    *,
    poll_interval: float = POLL_INTERVAL,
    seen: Callable[[Update], None] = lambda _: None,
) -> SpaceTask:
    """The task once it has ended, or waits for somebody.

    It is subscribed to, and `seen` is told of what its agent says; an agent that does not stream is asked
    instead, less and less often, at least every `poll_interval` seconds.
    """
    if task.ended:
        return task
    try:
        async with aclosing(client.subscribe(task.task_id)) as updates:
            async for update in updates:
                seen(update)
    except A2AProtocolError as error:
        if error.code not in _DOES_NOT_STREAM:
            raise
    except A2ARunError as error:
        if error.code != "a2a_stream_cut":
            raise
    pause = min(FIRST_POLL, poll_interval)
    while not (task := await client.get_task(task.task_id)).ended:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, poll_interval)
    return task


def timed_out(seconds: float, task: SpaceTask | None) -> AgentError:
    """The error for a wait that was long enough; `task` is how it stood last, None where nothing came."""
    if task is None:
        return AgentError(f"the agent did not answer within {seconds:g} s", code="A2ACLI_ERR_TIMEOUT")
    return AgentError(
        f"the task did not end within {seconds:g} s; task {task.task_id} goes on",
        code="A2ACLI_ERR_TIMEOUT", task_id=task.task_id, status=task.status,
    )  # fmt: skip


def run_error(task: SpaceTask) -> A2ARunError | None:
    """The error for how a task ended or paused, with the platform's id of it; None where it ended well."""
    error = end_error(task.update, task.text)
    if error is None:
        return None
    return A2ARunError(error.message, code=error.code, state=error.state, text=error.text,
                       task_id=task.task_id)  # fmt: skip
