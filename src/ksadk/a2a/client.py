"""Calls an agent: one message to it, and what comes of it, also when the connection does not hold."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import httpx
from a2a.types import ListTasksResponse, Message, StreamResponse, Task, TaskState
from google.protobuf.json_format import ParseDict, ParseError

from ksadk.a2a.client_errors import (
    A2ARunError,
    AgentError,
    AgentUnreachable,
    InvalidAnswer,
    StreamBroken,
)
from ksadk.a2a.remote_card import RemoteCard, choose_interface, fetch_card, refuse_in_the_clear
from ksadk.a2a.targets import Target, read_target
from ksadk.a2a.wire import (
    CANCEL,
    GET_TASK,
    LIST_TASKS,
    NO_EXTRAS,
    SEND,
    STREAM,
    SUBSCRIBE,
    Admit,
    Extras,
    Interface,
    Wire,
    any_url,
    http_client,
)

T = TypeVar("T")

FIRST_POLL = 0.1
POLL_INTERVAL = 2.0
MAX_RESUMPTIONS = 5

ENDED_BADLY = frozenset({"failed", "canceled", "rejected"})
TERMINAL = ENDED_BADLY | {"completed"}
INTERRUPTED = frozenset({"input-required", "auth-required"})

Notice = Callable[[str], None]
"""Told in words of what a caller would want to know, such as a stream that was cut and taken up again."""


def state_word(state: int) -> str:
    """A task's state as people read it: `completed`, `input-required`; `unspecified` where none is known."""
    try:
        name = TaskState.Name(state)
    except ValueError:
        return str(state)
    return name.removeprefix("TASK_STATE_").lower().replace("_", "-")


@dataclass(frozen=True)
class Update:
    """One thing that an agent said: the `StreamResponse` as it came, and as A2A reads it."""

    document: dict[str, Any]
    value: StreamResponse

    @property
    def kind(self) -> str:
        """`task`, `message`, `status_update` or `artifact_update`."""
        return self.value.WhichOneof("payload") or ""

    @property
    def task_id(self) -> str:
        """The task that it is about; empty for a message without one."""
        return self.value.task.id if self.kind == "task" else self._inner.task_id

    @property
    def context_id(self) -> str:
        """The context that it is about."""
        return str(self._inner.context_id)

    @property
    def state(self) -> str:
        """The task's state by it; empty where it tells of none."""
        if self.kind in ("task", "status_update"):
            return state_word(self._inner.status.state)
        return ""

    @property
    def said(self) -> Message | None:
        """The message of a status, or the message itself."""
        if self.kind == "message":
            return self.value.message
        if self.kind in ("task", "status_update") and self._inner.status.HasField("message"):
            message: Message = self._inner.status.message
            return message
        return None

    @property
    def ends(self) -> bool:
        """Whether there is nothing to wait for after it: an end, a pause, or an answer without a task."""
        return self.kind == "message" or self.state in TERMINAL | INTERRUPTED

    @property
    def _inner(self) -> Any:
        return getattr(self.value, self.kind)


@dataclass(frozen=True)
class Outgoing:
    """A message to an agent, its parts as A2A's JSON writes them. Empty ids begin a new task or context."""

    parts: Sequence[Mapping[str, Any]]
    task_id: str = ""
    context_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def request(self) -> dict[str, Any]:
        """The message as a `SendMessageRequest`; one message has one id, however often it is sent."""
        message: dict[str, Any] = {
            "messageId": str(uuid4()), "role": "ROLE_USER", "parts": [dict(part) for part in self.parts],
        }  # fmt: skip
        if self.task_id:
            message["taskId"] = self.task_id
        if self.context_id:
            message["contextId"] = self.context_id
        if self.metadata:
            message["metadata"] = dict(self.metadata)
        return {"message": message}


class Sendable(Protocol):
    """A message that can be sent, such as an `Outgoing`."""

    @property
    def request(self) -> dict[str, Any]:
        """The message as a `SendMessageRequest`."""


def text_message(text: str, *, task_id: str = "", context_id: str = "") -> Outgoing:
    """A message of one text."""
    return Outgoing(({"text": text},), task_id, context_id)


class RemoteAgent:
    """An agent that is spoken to over one interface of its card."""

    def __init__(self, card: RemoteCard, interface: Interface, wire: Wire) -> None:
        self.card = card
        self.interface = interface
        self._wire = wire

    @property
    def streams(self) -> bool:
        """Whether its card says that it streams."""
        return bool(self.card.card.capabilities.streaming)

    async def send(self, message: Sendable, *, wait: bool) -> Update:
        """Send a message; with `wait` the agent is asked to answer at the end only, otherwise at once."""
        request = {**message.request, "configuration": {"returnImmediately": not wait}}
        return _update(await self._wire.call(SEND, request))

    async def stream(self, message: Outgoing) -> AsyncGenerator[Update]:
        """Send a message and follow what comes of it, until the connection ends."""
        async with aclosing(self._wire.stream(STREAM, message.request)) as results:
            async for result in results:
                yield _update(result)

    async def subscribe(self, task_id: str) -> AsyncGenerator[Update]:
        """Follow a task that runs. The first thing that comes is the task as it stands."""
        async with aclosing(self._wire.stream(SUBSCRIBE, {"id": task_id})) as results:
            async for result in results:
                yield _update(result)

    async def get_task(self, task_id: str, history: int | None = None) -> Update:
        """A task as it stands now."""
        request: dict[str, Any] = {"id": task_id}
        if history is not None:
            request["historyLength"] = history
        return _task(await self._wire.call(GET_TASK, request), task_id)

    async def cancel(self, task_id: str) -> Update:
        """Cancel a task; it is given as it stands then."""
        return _task(await self._wire.call(CANCEL, {"id": task_id}), task_id)

    async def list_tasks(self, **filters: Any) -> dict[str, Any]:
        """A page of tasks, a `ListTasksResponse`: pageSize, pageToken, contextId, status filter it."""
        result = await self._wire.call(LIST_TASKS, {key: value for key, value in filters.items() if value})
        if not isinstance(result, dict):
            raise InvalidAnswer("the agent's list of tasks is no JSON object")
        if not all(task.id for task in _parsed(result, ListTasksResponse()).tasks):
            raise InvalidAnswer("the agent's list of tasks holds one that has no id")
        return result


@asynccontextmanager
async def connect(
    target: str | Target,
    *,
    client: httpx.AsyncClient | None = None,
    timeout: float | None = 60.0,
    transports: Sequence[str] = (),
    bearer: str = "",
    extras: Callable[[RemoteCard], Extras] = lambda _: NO_EXTRAS,
    admit: Admit = any_url,
) -> AsyncIterator[RemoteAgent]:
    """An agent to speak to, for as long as the `async with` block lasts.

    target: see `read_target`; an agent's id is refused, since Spaces are not reached from here.
    client: what to make requests with, which stays open; otherwise one of its own.
    timeout: how many seconds the agent may be silent.
    transports: bindings, the most wanted first.
    bearer: shown to the card's address if that asks for one.
    extras: what goes with every request, given the card.
    admit: told of each URL before it is asked: the card's, where that leads to, and the agent's own. What it
        raises ends the call. A `client` that is handed in does not tell it.
    """
    meant = _reached(target)
    async with http_client(timeout, admit) if client is None else nullcontext(client) as using:
        card = await fetch_card(using, meant, bearer)
        interface = choose_interface(card, transports)
        sent = extras(card)
        if sent.secrets:
            refuse_in_the_clear(card, interface)
        yield RemoteAgent(card, interface, Wire(using, interface, sent))


async def look_at(
    target: str | Target, *, timeout: float | None = 60.0, bearer: str = "", admit: Admit = any_url
) -> RemoteCard:
    """The card of an agent, also one that cannot be called. `admit` as in `connect`."""
    meant = _reached(target)
    async with http_client(timeout, admit) as client:
        return await fetch_card(client, meant, bearer)


def timed_out(seconds: float, last: Update | None) -> AgentError:
    """The error for a wait that was long enough; `last` is what the agent said last."""
    ids = {"task_id": last.task_id, "context_id": last.context_id, "state": last.state} if last else {}
    known = f"; task {last.task_id} is {last.state}, and goes on" if last and last.task_id else ""
    what = "the task did not end" if last else "the agent did not answer"
    return AgentError(f"{what} within {seconds:g} s{known}", code="A2ACLI_ERR_TIMEOUT", **ids)


async def within(seconds: float, work: Awaitable[T]) -> T:
    """The result of work that is given so many seconds in all, however the agent spreads its answer."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise timed_out(seconds, None) from error


def _reached(target: str | Target) -> Target:
    """What a target means, unless that is an agent of a Space: no Space is reached from here."""
    meant = read_target(target) if isinstance(target, str) else target
    if meant.kind == "agent":
        raise AgentError(
            f"{meant.place!r} is the id of an agent in a Space, and no Space is configured",
            code="space_not_configured",
            hint=f"For an agent at an address write the address: http://HOST:PORT, or https://{meant.place}.",
        )
    return meant


async def wait(
    agent: RemoteAgent,
    message: Outgoing,
    *,
    poll_interval: float = POLL_INTERVAL,
    seen: Callable[[Update], None],
) -> Update:
    """Send a message and ask for its task until that ends or pauses. `seen` is told of each answer."""
    update = await agent.send(message, wait=False)
    seen(update)
    return update if update.ends else await wait_for(agent, update.task_id, poll_interval, seen)


async def wait_for(
    agent: RemoteAgent, task_id: str, poll_interval: float, seen: Callable[[Update], None]
) -> Update:
    """Ask for a task, less and less often, until it ends or pauses."""
    if not task_id:
        raise InvalidAnswer("the agent's task has no id")
    pause = min(FIRST_POLL, poll_interval)
    while True:
        update = await agent.get_task(task_id)
        seen(update)
        if update.ends:
            return update
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, poll_interval)


async def follow(
    agent: RemoteAgent,
    message: Outgoing,
    *,
    poll_interval: float = POLL_INTERVAL,
    notice: Notice = lambda _: None,
) -> AsyncGenerator[Update]:
    """Send a message and give what comes of it as it comes, up to the end, a pause or a message.

    A stream that ends before its task is taken up again: the task is asked for, and subscribed to while it
    runs. An agent that does not stream is asked for its task instead. `A2ARunError` (code `a2a_stream_cut`)
    where nothing can be found out any more.
    """
    if not agent.streams:
        async for update in _polled(agent, message, poll_interval):
            yield update
        return
    task_id = context_id = ""
    source = agent.stream(message)
    for taken_up in range(MAX_RESUMPTIONS + 1):
        reason = "the stream ended before the task did"
        try:
            async with aclosing(source) as updates:
                async for update in updates:
                    task_id, context_id = update.task_id or task_id, update.context_id or context_id
                    yield update
                    if update.ends:
                        return
        except StreamBroken as error:
            reason = error.message
        except AgentError as error:
            if not taken_up:
                raise
            reason = f"the stream could not be taken up again ({error.message})"
        if not task_id:
            raise A2ARunError(
                f"{reason}, and no task was told of: whether the message arrived is not known",
                code="a2a_stream_cut",
            )
        notice(f"{reason}; asking for task {task_id}")
        update = await _still_there(agent, task_id, context_id, reason)
        yield update
        if update.ends:
            return
        source = agent.subscribe(task_id)
    notice(f"the stream was cut again and again; asking for task {task_id} from time to time")
    update = await wait_for(agent, task_id, poll_interval, lambda _: None)
    yield update


async def _still_there(agent: RemoteAgent, task_id: str, context_id: str, reason: str) -> Update:
    """The task of a stream that was cut, asked for again while its server may be starting."""
    for attempt in range(MAX_RESUMPTIONS):
        try:
            await asyncio.sleep(FIRST_POLL * (2**attempt - 1))
            return await agent.get_task(task_id)
        except AgentError as error:
            if isinstance(error, AgentUnreachable) and attempt < MAX_RESUMPTIONS - 1:
                continue
            raise A2ARunError(
                f"{reason}, and task {task_id} cannot be asked for: {error.message}",
                code="a2a_stream_cut", task_id=task_id, context_id=context_id,
            ) from error  # fmt: skip
    raise AssertionError("the last attempt returns or raises")


async def _polled(agent: RemoteAgent, message: Outgoing, poll_interval: float) -> AsyncIterator[Update]:
    update = await agent.send(message, wait=False)
    yield update
    if not update.ends:
        yield await wait_for(agent, update.task_id, poll_interval, lambda _: None)


def _update(result: Any) -> Update:
    if not isinstance(result, dict):
        raise InvalidAnswer(f"the agent's answer is no JSON object but {type(result).__name__}")
    update = Update(result, _parsed(result, StreamResponse()))
    if not update.kind:
        names = ", ".join(map(repr, list(result)[:5])) or "nothing"
        raise InvalidAnswer(f"the agent's answer is neither task, message nor update; it holds {names}")
    return update


def _task(result: Any, task_id: str) -> Update:
    if not isinstance(result, dict):
        raise InvalidAnswer(f"the agent's task is no JSON object but {type(result).__name__}")
    given = _parsed(result, Task()).id
    if given != task_id:
        said = f"is about task {given!r}" if given else "is no task: it has no id"
        raise InvalidAnswer(f"the agent's answer {said}; asked was for task {task_id!r}")
    return _update({"task": result})


def _parsed(document: dict[str, Any], into: Any) -> Any:
    try:
        return ParseDict(document, into, ignore_unknown_fields=True)
    except (ParseError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidAnswer(f"the agent's answer is not A2A 1.0: {error}") from error
