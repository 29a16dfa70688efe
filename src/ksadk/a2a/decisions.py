"""Who decides about an approval request that a served agent's tool made, and how a decision reaches the task.

A person at this machine decides; a caller only where remote approvals are on, the caller was authenticated,
and the message holds the decision as data. Text decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb

from ksadk.a2a.approvals import Approvals, Standing
from ksadk.a2a.runners.base import DataPart, Part
from ksadk.a2a.stores.base import OwnerContext, Paused
from ksadk.errors import KsadkError

DECISION = "ksadk.decision"
"""Where the `state` of the server's own call on a task holds the `Decided`."""

POLL_SECONDS = 0.3

log = logging.getLogger(__name__)


class Decided(NamedTuple):
    """How a request was decided."""

    request_id: str
    standing: Standing


def standing_of(
    call: ServerCallContext,
    parts: Iterable[Part],
    paused: Paused,
    approvals: Approvals | None,
    *,
    remote: bool,
) -> Standing:
    """What a message on a task that waits for approval decides; `pending` is nothing."""
    if isinstance(call, OwnerContext):  # no request has one
        decided: Decided = call.state[DECISION]
        return decided.standing
    if not remote or not call.user.is_authenticated:
        return "pending"
    for part in parts:
        data = part.data if isinstance(part, DataPart) else None
        if not isinstance(data, dict) or data.get("kind") != "approval_decision":
            continue
        verdict = data.get("decision")
        if data.get("approval_request_id") != paused.request_id or verdict not in ("approve", "reject"):
            continue
        if approvals is None:  # the runtime's own request, which it alone keeps
            return "approved" if verdict == "approve" else "denied"
        try:
            approvals.decide(paused.request_id, verdict == "approve", f"{call.user.user_name}, over A2A")
        except KsadkError as error:  # decided by somebody else, or too late
            log.info("approval %s: %s", paused.request_id, error.message)
        return approvals.decision(paused.request_id)
    return "pending"


def undecided(paused: Paused, stored: pb.Task, *, remote: bool) -> list[pb.Part]:
    """What a caller reads whose message did not decide: who does, and the request again."""
    how = f"agentengine approvals approve {paused.request_id}"
    text = f"This waits for approval, and not for words. A person at the server's machine decides: {how}"
    if remote:
        text += (
            ". An authenticated caller may send the data part"
            f' {{"kind": "approval_decision", "approval_request_id": "{paused.request_id}",'
            ' "decision": "approve" or "reject"}'
        )
    request = [part for part in stored.status.message.parts if part.WhichOneof("content") == "data"]
    return [pb.Part(text=text), *request]


class Watch:
    """Looks whether requests were decided, while any task waits for one, and then answers the task."""

    def __init__(self, approvals: Approvals, answer: Callable[[Paused, Standing], Awaitable[None]]) -> None:
        self._approvals = approvals
        self._answer = answer
        self._waiting: dict[str, Paused] = {}
        self._looking: asyncio.Task[None] | None = None

    def add(self, paused: Paused) -> None:
        """Look after one more task."""
        self._waiting[paused.task_id] = paused
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="approvals")

    async def aclose(self) -> None:
        """Look no more."""
        self._waiting.clear()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        while self._waiting:
            for paused in list(self._waiting.values()):
                try:
                    await self._look_at(paused)
                except Exception:  # one that cannot be answered must not keep the others waiting
                    log.exception("task %s: its approval cannot be looked at", paused.task_id)
                    self._waiting.pop(paused.task_id, None)
            await asyncio.sleep(POLL_SECONDS)

    async def _look_at(self, paused: Paused) -> None:
        standing = await asyncio.to_thread(self._approvals.decision, paused.request_id)
        if standing != "pending" and self._waiting.get(paused.task_id) is paused:
            del self._waiting[paused.task_id]
            await self._answer(paused, standing)
