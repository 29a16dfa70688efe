"""Tasks of Spaces: the operations on them that were permitted, and the agent's own task of each."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from ksadk.a2a.center import cards
from ksadk.a2a.center.database import Database, Row, Transaction
from ksadk.a2a.center.permits import LIFETIME_MS, Permit, Permits
from ksadk.a2a.center.refusal import Refusal, not_found, version_changed
from ksadk.a2a.center.registry import Agent, Registry, new_id
from ksadk.a2a.center.workload_tokens import Workload
from ksadk.a2a.space.events import rfc3339
from ksadk.a2a.space.message_rules import canonical_json
from ksadk.a2a.space.models import Operation, PreparedOperation, PreparedTarget, RemoteTask, Route


@dataclass(frozen=True)
class Call:
    """A first message to an agent. expected_version_id is empty where any version will do."""

    space_id: str
    agent_id: str
    message_id: str
    message_sha256: str
    token: str
    expected_version_id: str = ""

    @property
    def sha256(self) -> str:
        """The hash of what the idempotency token stands for."""
        return _sha256("call", self.space_id, self.agent_id, self.message_id, self.message_sha256)


@dataclass(frozen=True)
class TaskCall:
    """An operation on a task; what it does not need is empty."""

    task_id: str
    operation: Operation
    message_id: str = ""
    message_sha256: str = ""
    token: str = ""

    @property
    def sha256(self) -> str:
        """The hash of what the idempotency token stands for."""
        return _sha256("task", self.task_id, self.operation, self.message_id, self.message_sha256)


class Ledger:
    """What workloads may do with tasks. Somebody else's task is one that there is not.

    clock: seconds since 1970. base_url: where clients reach the center.
    """

    def __init__(
        self,
        database: Database,
        registry: Registry,
        permits: Permits,
        base_url: str,
        *,
        clock: Callable[[], float] = time.time,
        make_id: Callable[[str], str] = new_id,
    ) -> None:
        self._database = database
        self._registry = registry
        self._permits = permits
        self._base_url = base_url
        self._clock = clock
        self._make_id = make_id

    async def prepare_call(self, workload: Workload, call: Call) -> PreparedOperation:
        """Permit a first message, and make its task. The same token again is the same operation."""
        async with self._database.transaction() as transaction:
            before = await self._replayed(transaction, workload, call.token, call.sha256)
            version = before["version_id"] if before else None
            agent = await self._registry.agent(transaction, call.agent_id, version)
            if agent is None or agent.space_id != call.space_id:
                raise not_found("agent", "TargetA2AAgentId", call.agent_id)
            _check_callable(agent)
            if before:
                return await self._again(transaction, before, agent)
            if call.expected_version_id not in ("", agent.version_id):
                raise version_changed(agent.version_id)
            now = self._now()
            (task,) = await transaction.run(
                """INSERT INTO a2a_center_tasks (task_id, owner, agent_id, state, event_count, created_at,
                    active_at)
                VALUES (:task_id, :owner, :agent_id, 'submitted', 0, :now, :now) RETURNING *""",
                task_id=self._make_id("a2a-task-"), owner=workload.owner, agent_id=agent.agent_id, now=now,
            )  # fmt: skip
            permit = self._permit(task, agent, "send_message", call.message_sha256, now)
            return await self._permitted(transaction, task, agent, permit, call.token, call.sha256)

    async def prepare_operation(self, workload: Workload, call: TaskCall) -> PreparedOperation:
        """Permit an operation on a task, at the agent's version of now. The same token again is the same
        operation."""
        async with self._database.transaction() as transaction:
            task = await held_task(transaction, workload, call.task_id)
            before = call.token and await self._replayed(transaction, workload, call.token, call.sha256)
            version = before["version_id"] if before else None
            agent = await self._registry.agent(transaction, task["agent_id"], version)
            assert agent is not None
            _check_callable(agent)
            if before:
                return await self._again(transaction, before, agent)
            now = self._now()
            if call.operation == "send_message":
                await _be_active(transaction, call.task_id, now)
            permit = self._permit(task, agent, call.operation, call.message_sha256, now)
            return await self._permitted(transaction, task, agent, permit, call.token or None, call.sha256)

    async def bind(self, workload: Workload, task_id: str, remote: RemoteTask) -> None:
        """Write down the agent's own ids of a task. They do not change, and are no other task's."""
        async with self._database.transaction() as transaction:
            task = await held_task(transaction, workload, task_id)
            known = task["remote_task_id"], task["remote_context_id"]
            if known[0] not in (None, remote.task_id) or (
                remote.context_id and known[1] not in (None, remote.context_id)
            ):
                raise _conflict("the task is bound to another one of the agent's")
            others = await transaction.run(
                """SELECT 1 FROM a2a_center_tasks WHERE agent_id = :agent_id AND remote_task_id = :remote
                AND task_id <> :task_id""",
                agent_id=task["agent_id"], remote=remote.task_id, task_id=task_id,
            )  # fmt: skip
            if others:
                raise _conflict("the agent's task is bound to another one already")
            if known != (remote.task_id, remote.context_id or known[1]):
                await transaction.run(
                    """UPDATE a2a_center_tasks SET remote_task_id = :remote,
                        remote_context_id = :context, active_at = :now WHERE task_id = :task_id""",
                    remote=remote.task_id, context=remote.context_id or known[1], now=self._now(),
                    task_id=task_id,
                )  # fmt: skip

    async def permitted(self, permit: Permit) -> tuple[Agent, RemoteTask | None]:
        """The agent that a permit is for, in the version it is for, and the agent's own task. `Refusal` where
        it may no longer be called, or the task is gone."""
        async with self._database.transaction() as transaction:
            rows = await transaction.run(
                "SELECT * FROM a2a_center_tasks WHERE task_id = :task_id AND owner = :owner",
                task_id=permit.task_id, owner=permit.owner,
            )  # fmt: skip
            agent = await self._registry.agent(transaction, permit.agent_id, permit.version_id)
        if not rows or agent is None:
            raise Refusal(403, "A2A_PERMIT_INVALID", "the call permit is for a task that is gone")
        _check_callable(agent)
        return agent, _remote(rows[0])

    async def use(self, permit: Permit) -> None:
        """Let a message through, once. `Refusal` 409 at any further time."""
        async with self._database.transaction() as transaction:
            used = await transaction.run(
                """UPDATE a2a_center_operations SET used_at = :now
                WHERE operation_id = :operation_id AND used_at IS NULL RETURNING operation_id""",
                now=self._now(), operation_id=permit.operation_id,
            )  # fmt: skip
        if not used:
            raise Refusal(
                409,
                "A2A_PERMIT_USED",
                "the message of this call permit was let through already: ask how its task stands",
            )

    async def give_back(self, permit: Permit) -> None:
        """The message did not reach the agent, so that it may be sent again."""
        async with self._database.transaction() as transaction:
            await transaction.run(
                "UPDATE a2a_center_operations SET used_at = NULL WHERE operation_id = :operation_id",
                operation_id=permit.operation_id,
            )

    def _now(self) -> int:
        return int(self._clock() * 1000)

    async def _replayed(
        self, transaction: Transaction, workload: Workload, token: str, sha256: str
    ) -> Row | None:
        """The operation that an idempotency token stands for already."""
        rows = await transaction.run(
            "SELECT * FROM a2a_center_operations WHERE owner = :owner AND token = :token",
            owner=workload.owner, token=token,
        )  # fmt: skip
        if rows and rows[0]["request_sha256"] != sha256:
            raise Refusal(
                409, "A2A_IDEMPOTENCY_CONFLICT", "the idempotency token was used for another request",
                field="IdempotencyToken",
            )  # fmt: skip
        return rows[0] if rows else None

    async def _again(self, transaction: Transaction, row: Row, agent: Agent) -> PreparedOperation:
        """The answer that was given before; with another time to use it in, where that is over."""
        (task,) = await transaction.run(
            "SELECT * FROM a2a_center_tasks WHERE task_id = :task_id", task_id=row["task_id"]
        )
        now = self._now()
        over = row["expires_at"] <= now
        permit = Permit(
            row["operation_id"], row["owner"], row["task_id"], agent.agent_id, row["version_id"], row["kind"],
            row["message_sha256"] or "", now if over else row["issued_at"],
            now + LIFETIME_MS if over else row["expires_at"],
        )  # fmt: skip
        if over:
            await self._issue(transaction, permit)
            await transaction.run(
                """UPDATE a2a_center_operations SET issued_at = :issued, expires_at = :expires
                WHERE operation_id = :operation_id""",
                issued=permit.issued_at, expires=permit.expires_at, operation_id=permit.operation_id,
            )  # fmt: skip
        return self._prepared(task, agent, permit)

    def _permit(self, task: Row, agent: Agent, operation: Operation, sha256: str, now: int) -> Permit:
        return Permit(
            secrets.token_hex(16), task["owner"], task["task_id"], agent.agent_id, agent.version_id,
            operation, sha256, now, now + LIFETIME_MS,
        )  # fmt: skip

    async def _permitted(
        self,
        transaction: Transaction,
        task: Row,
        agent: Agent,
        permit: Permit,
        token: str | None,
        sha256: str,
    ) -> PreparedOperation:
        await self._issue(transaction, permit)
        await transaction.run(
            """INSERT INTO a2a_center_operations (operation_id, task_id, owner, kind, version_id,
                message_sha256, token, request_sha256, issued_at, expires_at)
            VALUES (:operation_id, :task_id, :owner, :kind, :version_id, :message, :token, :request, :issued,
                :expires)""",
            operation_id=permit.operation_id, task_id=permit.task_id, owner=permit.owner,
            kind=permit.operation, version_id=permit.version_id, message=permit.message_sha256 or None,
            token=token, request=sha256, issued=permit.issued_at, expires=permit.expires_at,
        )  # fmt: skip
        return self._prepared(task, agent, permit)

    async def _issue(self, transaction: Transaction, permit: Permit) -> None:
        """Write down that there is a permit: by its hash, which the ids of its call's events are made of."""
        await transaction.run(
            """INSERT INTO a2a_center_permits (permit_sha256, task_id, issued_at, wire_position, ordinal)
            VALUES (:permit, :task_id, :issued, -1, 0)""",
            permit=hashlib.sha256(self._permits.sign(permit).encode()).hexdigest(), task_id=permit.task_id,
            issued=permit.issued_at,
        )  # fmt: skip

    def _prepared(self, task: Row, agent: Agent, permit: Permit) -> PreparedOperation:
        card = agent.published(self._base_url)
        return PreparedOperation(
            task_id=permit.task_id,
            target=PreparedTarget(agent.agent_id, agent.version_id, cards.card_sha256(card)),
            route=Route(agent.route_kind, agent.interface(self._base_url)),
            call_permit=self._permits.sign(permit),
            call_permit_expires_at=time_of(permit.expires_at),
            # What the gateway shows a hosted agent is nothing that a client has to know of.
            credential_handle=None if agent.route_kind == "hosted_gateway" else agent.credential_handle,
            remote_task=_remote(task),
        )


async def held_task(transaction: Transaction, workload: Workload, task_id: str) -> Row:
    """A workload's task, which no other center changes until the transaction ends. `Refusal` where there is
    none."""
    rows = await transaction.run(
        """UPDATE a2a_center_tasks SET event_count = event_count
        WHERE task_id = :task_id AND owner = :owner RETURNING *""",
        task_id=task_id, owner=workload.owner,
    )  # fmt: skip
    if not rows:
        raise not_found("task", "A2ATaskId", task_id)
    return rows[0]


def time_of(milliseconds: int) -> str:
    """A time as the wire writes it."""
    return rfc3339(datetime.fromtimestamp(milliseconds / 1000, UTC))


async def _be_active(transaction: Transaction, task_id: str, now: int) -> None:
    await transaction.run(
        "UPDATE a2a_center_tasks SET active_at = :now WHERE task_id = :task_id", now=now, task_id=task_id
    )


def _check_callable(agent: Agent) -> None:
    if agent.blocked_reason:
        raise Refusal(
            403, "A2A_AGENT_BLOCKED", f"the agent may not be called: {agent.blocked_reason}",
            details={"BlockedReason": agent.blocked_reason},
        )  # fmt: skip


def _remote(task: Row) -> RemoteTask | None:
    task_id = task["remote_task_id"]
    return None if task_id is None else RemoteTask(task_id, task["remote_context_id"] or "")


def _conflict(message: str) -> Refusal:
    return Refusal(409, "A2A_REMOTE_BINDING_CONFLICT", message, field="RemoteTaskId")


def _sha256(*values: str) -> str:
    return hashlib.sha256(canonical_json(values)).hexdigest()
