"""A task of a Space, as a caller sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from a2a.types import TaskState, TaskStatus

from ksadk.a2a.client import Update
from ksadk.a2a.space.events import TaskEvent, state_of
from ksadk.a2a.space.models import RemoteTask
from ksadk.a2a.stream import Output, said_text


@dataclass(frozen=True)
class SpaceTask:
    """How a task stands, as its agent told it.

    task_id: the platform's; what get_task, cancel, subscribe and continue_task take.
    agent_id: of the agent in the Space.
    remote: the agent's own ids; None where it answered with a message alone.
    update: what the agent said: a task, or a message.
    events: what the platform was told of it.
    """

    task_id: str
    agent_id: str
    remote: RemoteTask | None
    update: Update
    events: tuple[TaskEvent, ...]

    def __repr__(self) -> str:
        return f"SpaceTask(task_id={self.task_id!r}, status={self.status!r}, text={self.text!r})"

    @property
    def status(self) -> str:
        """The state as the platform writes it: `working`, `input_required`; of a message, `completed`."""
        if self.update.kind == "message":
            return state_of(TaskStatus(state=TaskState.TASK_STATE_COMPLETED))
        return state_of(self.update.value.task.status)

    @property
    def ended(self) -> bool:
        """Whether there is nothing to wait for: it has ended, or waits for somebody."""
        return self.update.ends

    @property
    def text(self) -> str:
        """The agent's answer so far, without its reasoning."""
        output = Output()
        for _ in output.take(self.update):
            pass
        return output.whole("text")

    @property
    def question(self) -> str:
        """What the agent asks, or why the task ended; empty where its status has no words."""
        return "" if self.update.kind == "message" else said_text(self.update)

    def to_summary(self) -> dict[str, Any]:
        """The platform's summary: `{task_id, status}`."""
        return {"task_id": self.task_id, "status": self.status}
