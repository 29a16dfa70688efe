"""Where an agent is: what its tasks are called there, and the command that goes on with one."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Protocol

from ksadk.a2a.client import INTERRUPTED, TERMINAL, Update


class Place(Protocol):
    """Where an agent is."""

    def names(self, update: Update) -> list[tuple[str, str]]:
        """Labels and values: which task it is and, last, how that stands."""

    def command(self, update: Update) -> str:
        """The command that goes on from there: it answers, looks again, or begins what may follow."""


@dataclass(frozen=True)
class AtAddress:
    """An agent at an address, or in a card's file."""

    target: str

    def names(self, update: Update) -> list[tuple[str, str]]:
        context = ("Context", update.context_id)
        if update.kind == "message":
            return [context] if update.context_id else []
        return [("Task", update.task_id), context, ("State", update.state)]

    def command(self, update: Update) -> str:
        at = f"-a {shlex.quote(self.target)}"
        task_id = shlex.quote(update.task_id)
        if update.state in INTERRUPTED and approval_request(update) is not None:
            return f"agentengine a2a status {task_id} {at}"  # no answer of words decides
        if update.state in INTERRUPTED and update.state != "auth-required":
            return f"agentengine a2a call {at} --task-id {task_id} ANSWER"
        if update.task_id and update.state not in TERMINAL:
            return f"agentengine a2a status {task_id} {at} --wait"
        if update.context_id:
            return f"agentengine a2a call {at} --context-id {shlex.quote(update.context_id)} MESSAGE"
        return ""


@dataclass(frozen=True)
class InSpace:
    """An agent of a Space, in which a task has an id of the platform's. A state is written as there."""

    space_id: str
    agent_id: str
    task_id: str

    def names(self, update: Update) -> list[tuple[str, str]]:
        status = "completed" if update.kind == "message" else update.state.replace("-", "_")
        return [("Task", self.task_id), ("Agent", self.agent_id), ("Status", status)]

    def command(self, update: Update) -> str:
        at = f"--space-id {shlex.quote(self.space_id)}"
        task_id = shlex.quote(self.task_id)
        if update.kind == "message" or update.state in TERMINAL:
            return ""
        if update.state not in INTERRUPTED:
            return f"agentengine a2a status {at} {task_id} --wait"
        if approval_request(update) is not None or update.state == "auth-required":
            return f"agentengine a2a status {at} {task_id}"
        return f"agentengine a2a call {at} --task-id {task_id} ANSWER"


def approval_request(update: Update) -> dict[str, Any] | None:
    """What the agent wants to have approved; None where it asks for anything else."""
    from ksadk.a2a.parts import value_of

    for part in update.said.parts if update.said else ():
        data = value_of(part.data) if part.WhichOneof("content") == "data" else None
        if isinstance(data, dict) and data.get("kind") == "approval_request":
            inner = data.get("approval_request")
            return inner if isinstance(inner, dict) else {}
    return None
