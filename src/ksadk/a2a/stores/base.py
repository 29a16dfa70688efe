"""What a server asks of its stores, whatever database they are in, and who owns a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import quote

from a2a.server.context import ServerCallContext
from a2a.server.owner_resolver import OwnerResolver
from a2a.server.tasks import TaskStore
from a2a.types import Task

TASK_TABLE = "ksadk_a2a_tasks"

ACCOUNT_KEY = "ksadk_account_id"
RUNTIME_KEY = "ksadk_runtime_id"
"""Where a call context's `state` holds who is calling, once a trusted edge has said so."""

OWNER_KEY = "ksadk_owner"
"""Where it holds whose tasks a call is about, once the caller's identity was verified."""


class OwnerContext(ServerCallContext):
    """The server's own call on a task of `owner`; no request is ever given one."""

    owner: str


def default_owner_resolver(context: ServerCallContext) -> str:
    """Whose tasks a call is about: the verified caller; else `account/runtime`, or the one of them that is
    known; else the user's name; else `anonymous`. A slash inside of a name is written `%2F`."""
    if verified := context.state.get(OWNER_KEY):
        return str(verified)
    sides = (context.state.get(ACCOUNT_KEY), context.state.get(RUNTIME_KEY))
    known = "/".join(quote(side, safe=" ") for side in sides if side)
    return known or context.user.user_name or "anonymous"


def owner_resolver_of(resolver: OwnerResolver | None) -> OwnerResolver:
    """`resolver`, or the default one, which an `OwnerContext` tells the owner instead."""
    resolve = resolver or default_owner_resolver
    return lambda context: context.owner if isinstance(context, OwnerContext) else resolve(context)


@dataclass(frozen=True, slots=True)
class Paused:
    """A task that waits for an answer.

    `request_id` is the approval request that it waits for, empty for a question; `state` is what its runner
    gave to go on after a restart, as JSON values, None where it cannot. It is shown to nobody.
    """

    task_id: str
    context_id: str
    owner: str
    kind: Literal["question", "approval"]
    request_id: str = ""
    state: Mapping[str, Any] | None = None


class PauseStore(Protocol):
    """What tasks wait for. Each call raises `StoreError` where it cannot be done.

    A pause is saved before its task is INPUT_REQUIRED, so that no task waits that nobody knows of. One whose
    task does not wait is left over, and is to be deleted.
    """

    async def save(self, paused: Paused) -> None:
        """Keep what a task waits for, instead of what it waited for before."""

    async def get(self, task_id: str) -> Paused | None:
        """What a task waits for."""

    async def delete(self, task_id: str) -> None:
        """Forget what a task waited for, if anything."""

    async def waiting(self) -> list[Paused]:
        """Every pause that is kept, the oldest first."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A task, and whose it is."""

    task: Task
    owner: str

    @property
    def context(self) -> OwnerContext:
        """What to call the task store with to change the task."""
        return OwnerContext(owner=self.owner)


class Stores(Protocol):
    """The open stores of one server."""

    tasks: TaskStore
    pauses: PauseStore

    async def unfinished(self) -> list[Owned]:
        """The tasks of all owners that are SUBMITTED or WORKING, the oldest first: at a server's start, those
        that the one before it did not finish."""

    async def aclose(self) -> None:
        """Write what was queued, and release the database."""
