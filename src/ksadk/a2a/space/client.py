"""Discovers and calls the agents of a Space; the platform permits each call and is told what comes of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Self
from uuid import uuid4

import httpx
from a2a.types import AgentCard, Message

from ksadk.a2a.client import MAX_RESUMPTIONS, RemoteAgent, Update
from ksadk.a2a.client_errors import A2AProtocolError, A2ARunError, StreamBroken
from ksadk.a2a.remote_card import RemoteCard
from ksadk.a2a.space import answers
from ksadk.a2a.space.backend import SpaceBackend, space_backend
from ksadk.a2a.space.configured import configured_space
from ksadk.a2a.space.dispatcher import FLUSH_SECONDS, A2AEventDispatcher, A2AEventSink
from ksadk.a2a.space.egress import Egress
from ksadk.a2a.space.errors import VERSION_CHANGED, A2AControlPlaneError, A2ASpaceError, AgentNotCallable
from ksadk.a2a.space.events import Clock, TaskEvent, utc_now
from ksadk.a2a.space.gateway import platform_client
from ksadk.a2a.space.ids import checked_id
from ksadk.a2a.space.keeping import EventKeeping
from ksadk.a2a.space.message_rules import SpaceMessage, checked_message
from ksadk.a2a.space.models import AgentListing, PreparedOperation, RemoteTask, SpaceAgent
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox, event_outbox_path
from ksadk.a2a.space.pinned_transport import ExternalTransport, PinnedTransport
from ksadk.a2a.space.recording import Recording, bound, in_context
from ksadk.a2a.space.tasks import SpaceTask
from ksadk.a2a.wire import Wire
from ksadk.sessions import project_dir
from ksadk.settings import Settings

_LISTINGS = 32
"""How many different listings are kept, to be asked for only if they changed."""

Outgoing = str | Mapping[str, Any] | Message
"""A text, a message as A2A's JSON writes it, or one of the SDK's type."""


class A2ASpaceClient:
    """The agents of one Space. Close it with `aclose`, or use it in an `async with`.

    backend: who lists agents and prepares calls; `A2AControlPlaneClient`.
    egress_enabled: whether public external agents may be called.
    httpx_client: what hosted agents are called with.
    external_transport: what external agents are called through; none are called without one.
    event_sink: who is told what happens to tasks; the backend unless given.
    event_outbox: what keeps that until the sink has it. Without one, a call fails where the sink cannot be
        told.
    event_dispatcher: what empties the outbox; one of this client's own unless given.
    admit: told of each operation that the platform has prepared, before its agent is reached; what it raises
        ends the call.

    What is handed in stays open. Errors are `A2AControlPlaneError`, other `A2ASpaceError`s, and `AgentError`
    where the agent itself fails; each has a stable code (`error_type`).
    """

    def __init__(
        self,
        space_id: str,
        backend: SpaceBackend,
        *,
        egress_enabled: bool = False,
        httpx_client: httpx.AsyncClient | None = None,
        external_transport: ExternalTransport | None = None,
        event_sink: A2AEventSink | None = None,
        event_outbox: SQLiteA2AEventOutbox | None = None,
        event_dispatcher: A2AEventDispatcher | None = None,
        clock: Clock = utc_now,
        admit: Callable[[PreparedOperation], None] = lambda _: None,
    ) -> None:
        self.space_id = checked_id(space_id, "a Space")
        self._backend = backend
        self._egress = Egress(
            enabled=egress_enabled, transport=external_transport,
            resolve=backend.resolve_credential, forbidden=backend.secrets,
        )  # fmt: skip
        self._closing = AsyncExitStack()
        self._http = httpx_client or platform_client()
        if httpx_client is None:
            self._closing.push_async_callback(self._http.aclose)
        self._events = EventKeeping(event_sink or backend, event_outbox, event_dispatcher)
        self._clock = clock
        self._admit = admit
        self._known: dict[str, SpaceAgent] = {}
        self._listings: OrderedDict[tuple[str, str, bool], AgentListing] = OrderedDict()

    @classmethod
    def from_env(
        cls,
        space_id: str = "",
        *,
        settings: Settings | None = None,
        external_transport: ExternalTransport | None = None,
        admit: Callable[[PreparedOperation], None] = lambda _: None,
    ) -> Self:
        """A client of the Space that the variables name; of one of several, `space_id` says which.

        It owns its outbox and dispatcher: close it. `space_not_configured` where nothing is configured, and
        `space_id_required` where several Spaces are.
        """
        settings = settings or Settings.from_env()
        space_id = configured_space(settings, space_id)
        backend = space_backend(settings)
        outbox = SQLiteA2AEventOutbox(event_outbox_path(settings, project_dir(settings)))
        client = cls(
            space_id,
            backend,
            egress_enabled=settings.a2a_enable_public_egress,
            external_transport=external_transport or PinnedTransport(),
            event_outbox=outbox,
            admit=admit,
        )
        client._closing.push_async_callback(outbox.aclose)
        client._closing.push_async_callback(backend.aclose)
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> bool:
        """Deliver what waits, for 5 seconds, and end what is this client's own; whether nothing is left that
        it delivers. What is left stays in the outbox."""
        try:
            return await self._events.aclose(FLUSH_SECONDS)
        finally:
            await self._closing.aclose()

    async def flush_pending_events(self, timeout_seconds: float = FLUSH_SECONDS) -> bool:
        """Deliver the events that wait, for so many seconds; whether none is left."""
        return await self._events.flush(timeout_seconds)

    async def discover(
        self, prompt: str | None = None, *, skill: str | None = None, include_blocked: bool = False
    ) -> list[SpaceAgent]:
        """The agents of the Space that can be called; with `include_blocked` the others, too.

        prompt: in words, what an agent is wanted for.
        skill: the id of a skill that it must have.
        """
        key = (prompt or "", skill or "", include_blocked)
        kept = self._listings.pop(key, None)
        listing = await self._backend.list_agents(
            self.space_id, prompt=key[0], skill_id=key[1], include_blocked=include_blocked,
            if_none_match=kept.etag if kept else "",
        )  # fmt: skip
        if kept is not None and listing.not_modified:
            listing = kept
        if listing.etag:
            self._listings[key] = listing
        if len(self._listings) > _LISTINGS:
            self._listings.popitem(last=False)
        self._known |= {agent.agent_id: agent for agent in listing.agents}
        return [agent for agent in listing.agents if agent.callable or include_blocked]

    async def send_message(
        self,
        agent_id: str,
        message: Outgoing,
        *,
        return_immediately: bool = False,
        idempotency_token: str | None = None,
    ) -> SpaceTask:
        """Begin a task of an agent; gives how it stands when the agent answers, which with
        `return_immediately` is at once.

        An agent that was discovered and cannot be called is refused without asking anybody
        (`A2A_AGENT_NOT_CALLABLE`). The same token never begins a second task: pass one to try again.
        """
        token = _token(idempotency_token)
        outgoing = checked_message(message, idempotency_token=token)
        prepared = await self._permitted(checked_id(agent_id, "an agent"), outgoing, token)
        if prepared.remote_task is not None:
            return await self.get_task(prepared.task_id)
        return await self._sent(prepared, outgoing, return_immediately)

    async def continue_task(
        self,
        task_id: str,
        message: Outgoing,
        *,
        return_immediately: bool = False,
        idempotency_token: str | None = None,
    ) -> SpaceTask:
        """Answer a task's question, or send more to it. `A2A_REMOTE_TASK_NOT_BOUND` or
        `A2A_CONTEXT_MAPPING_NOT_FOUND` where the agent's own ids are not known."""
        token = _token(idempotency_token)
        outgoing = checked_message(message, idempotency_token=token)
        prepared = await self._backend.prepare_task_operation(
            checked_id(task_id, "a task"), "send_message",
            message_id=outgoing.message_id, message_sha256=outgoing.sha256, idempotency_token=token,
        )  # fmt: skip
        return await self._sent(prepared, outgoing.of(in_context(prepared)), return_immediately)

    async def get_task(self, task_id: str) -> SpaceTask:
        """How a task stands, asked of its agent."""
        prepared = await self._backend.prepare_task_operation(checked_id(task_id, "a task"), "get_task")
        remote = bound(prepared)
        async with self._agent(prepared) as agent:
            return await self._told(prepared, await agent.get_task(remote.task_id))

    async def cancel(self, task_id: str, *, idempotency_token: str | None = None) -> SpaceTask:
        """Ask a task's agent to cancel it; gives how it stands then."""
        prepared = await self._backend.prepare_task_operation(
            checked_id(task_id, "a task"), "cancel_task", idempotency_token=_token(idempotency_token)
        )
        remote = bound(prepared)
        async with self._agent(prepared) as agent:
            return await self._told(prepared, await agent.cancel(remote.task_id))

    async def subscribe(self, task_id: str) -> AsyncGenerator[Update]:
        """What an agent says of a task, as it comes, until the task ends or pauses. The first is the task as
        it stands. A stream that is cut is taken up again; what the agent repeats then is repeated here."""
        async with aclosing(self._observed(task_id)) as observed:
            async for update, _ in observed:
                yield update

    async def subscribe_events(self, task_id: str) -> AsyncGenerator[TaskEvent]:
        """As `subscribe`, the events that the platform is told of."""
        async with aclosing(self._observed(task_id)) as observed:
            async for _, events in observed:
                for event in events:
                    yield event

    async def subscribe_persisted_events(self, task_id: str) -> AsyncGenerator[TaskEvent]:
        """As `subscribe_events`, each of which is given only when it would outlive this process.
        `A2A_EVENT_OUTBOX_REQUIRED` without an outbox."""
        if not self._events.is_durable:
            raise A2ASpaceError(
                "events outlive this process only with an outbox, and there is none",
                code="A2A_EVENT_OUTBOX_REQUIRED",
            )
        async with aclosing(self.subscribe_events(task_id)) as events:
            async for event in events:
                yield event

    async def _permitted(self, agent_id: str, message: SpaceMessage, token: str) -> PreparedOperation:
        """A call of an agent that may be called. Where it has another version than was discovered, it is
        looked at again, once."""
        try:
            return await self._prepared(agent_id, message, token)
        except A2AControlPlaneError as error:
            if error.error_code != VERSION_CHANGED or agent_id not in self._known:
                raise
        del self._known[agent_id]
        await self.discover(include_blocked=True)
        return await self._prepared(agent_id, message, token)

    async def _prepared(self, agent_id: str, message: SpaceMessage, token: str) -> PreparedOperation:
        known = self._known.get(agent_id)
        if known is not None and not known.callable:
            raise AgentNotCallable(agent_id, known.blocked_reason)
        return await self._backend.prepare_call(
            self.space_id, agent_id,
            message_id=message.message_id, message_sha256=message.sha256, idempotency_token=token,
            expected_version_id=known.version_id if known else "",
        )  # fmt: skip

    async def _sent(self, prepared: PreparedOperation, message: SpaceMessage, at_once: bool) -> SpaceTask:
        async with self._agent(prepared) as agent:
            return await self._told(prepared, await agent.send(message, wait=not at_once))

    async def _told(self, prepared: PreparedOperation, update: Update) -> SpaceTask:
        recording = self._recording(prepared)
        events = await recording.take(update)
        return SpaceTask(prepared.task_id, prepared.target.agent_id, recording.remote, update, events)

    def _recording(self, prepared: PreparedOperation) -> Recording:
        return Recording(prepared, bind=self._bind, keep=self._events.keep, clock=self._clock)

    async def _bind(self, task_id: str, remote: RemoteTask) -> None:
        await self._backend.bind_remote_task(task_id, remote, self._clock())

    @asynccontextmanager
    async def _agent(self, prepared: PreparedOperation) -> AsyncIterator[RemoteAgent]:
        """The agent of a prepared operation, reached the way that its source says."""
        self._admit(prepared)
        await self._events.start()  # no agent is called where what it says could not be kept
        known = self._known.get(prepared.target.agent_id)
        hosted = prepared.route.kind == "hosted_gateway"
        if known is not None and (known.source == "hosted") != hosted:
            raise answers.invalid(
                "PrepareA2ACall", f"a route of kind {prepared.route.kind} to a {known.source} agent"
            )
        card = RemoteCard({}, known.agent_card if known else AgentCard(), prepared.route.interface.url)
        interface = prepared.route.interface
        if hosted:
            extras = self._backend.hosted_extras(prepared)
            yield RemoteAgent(card, interface, Wire(self._http, interface, extras))
            return
        async with self._egress.opened(prepared) as (http, extras):
            yield RemoteAgent(card, interface, Wire(http, interface, extras))

    async def _observed(self, task_id: str) -> AsyncGenerator[tuple[Update, tuple[TaskEvent, ...]]]:
        in_vain = 0
        while in_vain <= MAX_RESUMPTIONS:
            news = 0
            refused: A2AProtocolError | None = None
            try:
                async with aclosing(self._subscription(task_id)) as observed:
                    async for update, events in observed:
                        yield update, events
                        if update.ends:
                            return
                        news += 1
            except StreamBroken:
                pass
            except A2AProtocolError as error:  # which agents raise for tasks that have ended
                if error.code != "UnsupportedOperationError":
                    raise
                refused = error
            task = await self.get_task(task_id)
            yield task.update, task.events
            if task.ended:
                return
            if refused is not None:
                raise refused
            in_vain = 0 if news > 1 else in_vain + 1  # the first is the task as it stands
        raise A2ARunError(
            f"the stream of task {task_id} was cut again and again", code="a2a_stream_cut", task_id=task_id
        )

    async def _subscription(self, task_id: str) -> AsyncGenerator[tuple[Update, tuple[TaskEvent, ...]]]:
        prepared = await self._backend.prepare_task_operation(
            checked_id(task_id, "a task"), "subscribe_to_task"
        )
        remote = bound(prepared)
        recording = self._recording(prepared)
        async with self._agent(prepared) as agent, aclosing(agent.subscribe(remote.task_id)) as updates:
            async for update in updates:
                yield update, await recording.take(update)


def _token(given: str | None) -> str:
    return uuid4().hex if given is None else checked_id(given, "an idempotency token")
