"""The events of tasks, each once and in order, and how each task ends."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ksadk.a2a.center.database import Database, Row, Transaction
from ksadk.a2a.center.ledger import held_task, time_of
from ksadk.a2a.center.refusal import Refusal
from ksadk.a2a.center.wire_positions import Place, WirePositions
from ksadk.a2a.center.workload_tokens import Workload
from ksadk.a2a.space.events import TaskEvent
from ksadk.a2a.space.message_rules import canonical_json

TERMINAL = frozenset({"completed", "failed", "canceled", "rejected"})

MAX_EVENTS = 10_000
"""Of one task."""
_PERMITS = 32
"""Of how many calls of a task, the last ones, the positions of events are known."""
_AT_ONCE = 100


@dataclass(frozen=True)
class Patience:
    """How long, in seconds, a task may be silent until it is ended: one that is at work, and one that waits
    for its user; and how long ended tasks are kept."""

    working: float = 3600
    waiting: float = 7 * 24 * 3600
    kept: float = 30 * 24 * 3600


class EventLog:
    """Events as clients tell of them. clock: seconds since 1970."""

    def __init__(
        self,
        database: Database,
        *,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._patience = patience or Patience()
        self._clock = clock

    async def append(self, workload: Workload, task_id: str, events: Sequence[TaskEvent]) -> int:
        """Write down the events that are not there yet, all of them or none; how many these were.

        An event is there already by its id, or by its kind and payload at the same position of another call.
        `Refusal` where there is no such task, or it has too many events.
        """
        async with self._database.transaction() as transaction:
            task = await held_task(transaction, workload, task_id)
            positions = WirePositions(task_id, await _last_places(transaction, task_id))
            number = first = task["event_count"]
            for event in events:
                place = positions.place(event.source_event_id, event.kind)
                if await _is_known(transaction, task_id, event):
                    continue
                if place is not None and await _is_told(transaction, task_id, event, place):
                    await _remember(transaction, task_id, event)
                    continue
                number += 1
                await self._write(transaction, task_id, number, event, place)
            for place in positions.moved():
                await transaction.run(
                    """UPDATE a2a_center_permits SET wire_position = :wire_position, ordinal = :ordinal
                    WHERE permit_sha256 = :permit_sha256""",
                    **place._asdict(),
                )
            if number > MAX_EVENTS:
                raise Refusal(409, "A2A_TASK_LOG_FULL", f"a task has at most {MAX_EVENTS:,} events")
            if number > first:
                await self._stand(transaction, task, number, events)
        return int(number - first)

    async def end_silent(self) -> int:
        """End the tasks that have been silent for too long: their runtime is gone. How many these were."""
        now = self._now()
        silent = {
            "working": now - int(self._patience.working * 1000),
            "waiting": now - int(self._patience.waiting * 1000),
        }
        where = """ended_by IS NULL AND active_at <= CASE WHEN state IN ('input_required', 'auth_required')
            THEN CAST(:waiting AS BIGINT) ELSE CAST(:working AS BIGINT) END"""
        async with self._database.transaction() as transaction:
            found = await transaction.run(
                f"SELECT task_id FROM a2a_center_tasks WHERE {where} LIMIT {_AT_ONCE}", **silent
            )
        ended = 0
        for row in found:
            async with self._database.transaction() as transaction:
                tasks = await transaction.run(
                    f"""UPDATE a2a_center_tasks SET state = 'failed', ended_by = 'center', active_at = :now,
                        event_count = event_count + 1 WHERE task_id = :task_id AND {where} RETURNING *""",
                    now=now, task_id=row["task_id"], **silent,
                )  # fmt: skip
                for task in tasks:
                    event = _silent(task["task_id"], task["event_count"], time_of(now))
                    await self._write(transaction, task["task_id"], task["event_count"], event, None)
                    ended += 1
        return ended

    async def forget_old(self) -> None:
        """Delete tasks that ended long ago, and the permits of mere looks at the others."""
        before = self._now() - int(self._patience.kept * 1000)
        async with self._database.transaction() as transaction:
            old = await transaction.run(
                f"""SELECT task_id FROM a2a_center_tasks WHERE ended_by IS NOT NULL AND active_at <= :before
                LIMIT {_AT_ONCE}""",
                before=before,
            )
            for row in old:
                for table in ("events", "repeats", "permits", "operations", "tasks"):
                    await transaction.run(f"DELETE FROM a2a_center_{table} WHERE task_id = :task_id", **row)
            for looks in ("operations WHERE token IS NULL AND", "permits WHERE"):
                await transaction.run(f"DELETE FROM a2a_center_{looks} issued_at <= :before", before=before)

    def _now(self) -> int:
        return int(self._clock() * 1000)

    async def _write(
        self, transaction: Transaction, task_id: str, number: int, event: TaskEvent, place: Place | None
    ) -> None:
        _, wire_position, ordinal = place or (None, None, None)
        payload = canonical_json(event.payload)
        await transaction.run(
            """INSERT INTO a2a_center_events (task_id, number, source_event_id, kind, payload, payload_sha256,
                occurred_at, status, wire_position, ordinal, received_at)
            VALUES (:task_id, :number, :source, :kind, :payload, :sha256, :occurred_at, :status,
                :wire_position, :ordinal, :now)""",
            task_id=task_id, number=number, source=event.source_event_id, kind=event.kind,
            payload=payload.decode(), sha256=_sha256(payload),
            occurred_at=event.occurred_at, status=event.status,
            wire_position=wire_position, ordinal=ordinal, now=self._now(),
        )  # fmt: skip

    async def _stand(
        self, transaction: Transaction, task: Row, number: int, events: Sequence[TaskEvent]
    ) -> None:
        """How the task stands after these events. What an agent has ended stays so; what only the center
        took for ended does until the agent's own end is told of."""
        state, ended_by = task["state"], task["ended_by"]
        for event in events:
            ends = event.status in TERMINAL
            if event.status is not None and (ended_by is None or (ended_by == "center" and ends)):
                state, ended_by = event.status, "agent" if ends else None
        await transaction.run(
            """UPDATE a2a_center_tasks SET event_count = :number, state = :state, ended_by = :ended_by,
                active_at = :now WHERE task_id = :task_id""",
            number=number, state=state, ended_by=ended_by, now=self._now(), task_id=task["task_id"],
        )  # fmt: skip


async def _last_places(transaction: Transaction, task_id: str) -> dict[str, tuple[int, int]]:
    """The place of the last event of each of a task's calls."""
    rows = await transaction.run(
        f"""SELECT permit_sha256, wire_position, ordinal FROM a2a_center_permits
        WHERE task_id = :task_id ORDER BY issued_at DESC LIMIT {_PERMITS}""",
        task_id=task_id,
    )
    return {row["permit_sha256"]: (row["wire_position"], row["ordinal"]) for row in rows}


async def _is_known(transaction: Transaction, task_id: str, event: TaskEvent) -> bool:
    """Whether an event of that id came already, and was kept or dropped."""
    found = await transaction.run(
        """SELECT 1 FROM a2a_center_events WHERE task_id = :task_id AND source_event_id = :source
        UNION ALL SELECT 1 FROM a2a_center_repeats WHERE task_id = :task_id AND source_event_id = :source""",
        task_id=task_id, source=event.source_event_id,
    )  # fmt: skip
    return bool(found)


async def _is_told(transaction: Transaction, task_id: str, event: TaskEvent, place: Place) -> bool:
    """Whether another call told of the same at the same position."""
    found = await transaction.run(
        """SELECT 1 FROM a2a_center_events WHERE task_id = :task_id AND payload_sha256 = :sha256
            AND kind = :kind AND wire_position = :wire_position AND ordinal = :ordinal""",
        task_id=task_id, sha256=_sha256(canonical_json(event.payload)), kind=event.kind,
        wire_position=place.wire_position, ordinal=place.ordinal,
    )  # fmt: skip
    return bool(found)


async def _remember(transaction: Transaction, task_id: str, event: TaskEvent) -> None:
    """Know an event that was dropped when it comes again: by then its call has come to other positions."""
    await transaction.run(
        "INSERT INTO a2a_center_repeats (task_id, source_event_id) VALUES (:task_id, :source)",
        task_id=task_id, source=event.source_event_id,
    )  # fmt: skip


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _silent(task_id: str, number: int, at: str) -> TaskEvent:
    """The center's own event of a task that it ends."""
    source = _sha256(f"{task_id}:center:{number}".encode())
    words = "The task was silent for too long; what ran it is taken to be gone."
    message = {"messageId": source[:32], "role": "ROLE_AGENT", "parts": [{"text": words}]}
    payload = {"state": "TASK_STATE_FAILED", "message": message, "timestamp": at}
    return TaskEvent(source, "status", payload, at, "failed")
