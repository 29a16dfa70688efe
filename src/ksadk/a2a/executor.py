"""Runs an agent for the SDK's request handler: starts it, answers it, stops it, and tells what it says."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import TaskNotCancelableError

from ksadk.a2a.approvals import Approvals, Standing
from ksadk.a2a.decisions import DECISION, standing_of, undecided
from ksadk.a2a.options import ServerOptions
from ksadk.a2a.output import TERMINAL, Output
from ksadk.a2a.parts import data_part, part_to_wire, parts_from_wire, value_of
from ksadk.a2a.runners.base import (
    Answer,
    AuthRequired,
    Call,
    InputRequired,
    Run,
    Runner,
    RunnerError,
)
from ksadk.a2a.stores.base import ACCOUNT_KEY, OwnerContext, Paused, PauseStore, owner_resolver_of
from ksadk.runtime_context import PlatformInvocationContext, platform_invocation_scope, tool_execution_scope

FAILED = "The agent failed."
STOPPED = "The server was stopped before the agent had finished."
LOST = "The server was started again, and the agent cannot go on from where it asked."
BUSY = "The agent has as many tasks as it can take. Try again later."

HISTORY = "ksadk.history"
"""Where a call context's `state` holds a function that tells what was said in the context before."""

ASKED = "ksadk.asked"
"""Where it holds the id of the question that its caller has seen: another one is not answered by it."""

_STOP_SECONDS = 5.0
"""How long a run that said it has stopped may take to end."""

Sessions = Callable[[str, str], Awaitable[str]]
"""Gives the session of an owner's context. Two owners never share one, whatever they name their contexts."""

log = logging.getLogger(__name__)

owner_of = owner_resolver_of(None)


async def session_of(owner: str, context_id: str) -> str:
    """The session that follows from the names."""
    named = f"{len(owner)}:{owner}{context_id}".encode()
    return f"a2a-session-{hashlib.sha256(named).hexdigest()[:32]}"


class _Live:
    """A run in this process, whether it works or waits for an answer."""

    def __init__(self, context: RequestContext, run: Run, output: Output, session: str) -> None:
        self.task_id = context.task_id or ""
        self.session = session
        self.owner = owner_of(context.call_context)
        self.run = run
        self.output = output
        self.begun = False
        self.ending: tuple[pb.TaskState, str] | None = None
        self.done = asyncio.Event()


class Executor(AgentExecutor):
    """`pauses` keeps what tasks wait for; `on_approval` is told of each task that waits for a decision."""

    def __init__(
        self,
        runner: Runner,
        pauses: PauseStore,
        options: ServerOptions,
        *,
        agent_name: str,
        approvals: Approvals | None,
        on_approval: Callable[[Paused], None],
        sessions: Sessions = session_of,
    ) -> None:
        self._runner = runner
        self._sessions = sessions
        self._pauses = pauses
        self._options = options
        self._agent_name = agent_name
        self._approvals = approvals
        self._on_approval = on_approval
        self._live: dict[str, _Live] = {}
        self._working: set[_Live] = set()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """One message: it starts a task, or answers what one asked. What goes wrong ends the task as FAILED,
        told to the log with its traceback and to the caller without."""
        task_id, stored = context.task_id or "", context.current_task
        if stored is not None and not self._takes(stored, context):
            return
        output = Output(event_queue, context, include_reasoning=self._options.include_reasoning)
        try:
            if stored is not None and stored.status.state == pb.TASK_STATE_INPUT_REQUIRED:
                live = await self._answered(context, stored, output)
            else:
                live = await self._started(context, output)
            if live is not None:
                await self._work(context, live)
        except Exception:
            log.exception("task %s: the agent failed", task_id)
            await output.end(pb.TASK_STATE_FAILED, FAILED)
            self._forget(task_id)

    def _takes(self, task: pb.Task, context: RequestContext) -> bool:
        """Whether a task still takes a message: it may be over by the message's turn, and then stays as it
        is; and the server's own is for one that waits."""
        if isinstance(context.call_context, OwnerContext):
            return task.status.state == pb.TASK_STATE_INPUT_REQUIRED
        return task.status.state not in TERMINAL

    def _forget(self, task_id: str) -> None:
        live = self._live.pop(task_id, None)
        if live is not None:
            self._working.discard(live)
            live.done.set()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Say that a task which does not run is CANCELED; `stop` ends one that does."""
        output = Output(event_queue, context, include_reasoning=False)
        await output.end(pb.TASK_STATE_CANCELED)

    async def stop(self, task_id: str) -> bool:
        """Stop the agent of a task, and say that the task is canceled. False where it has no agent here.
        `TaskNotCancelableError` where the agent goes on all the same."""
        live = self._live.get(task_id)
        if live is None:
            await self._pauses.delete(task_id)
            return False
        await self._end(live, pb.TASK_STATE_CANCELED, "")
        if live in self._working:
            await asyncio.wait_for(live.done.wait(), _STOP_SECONDS)
            return True
        await live.output.end(pb.TASK_STATE_CANCELED)
        self._forget(task_id)
        await self._pauses.delete(task_id)
        return True

    async def drain(self, seconds: float) -> list[tuple[str, str]]:
        """Let the agents at work finish; those that have not when the seconds are over end as FAILED. Gives
        the task and the owner of each that was at work."""
        at_work = [(live.task_id, live.owner) for live in self._working]
        deadline = asyncio.get_running_loop().time() + seconds
        while self._working and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        ending = [self._end_surely(live) for live in list(self._working)]
        await asyncio.gather(*ending)
        return at_work

    async def _end_surely(self, live: _Live) -> None:
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._end(live, pb.TASK_STATE_FAILED, STOPPED)
                await live.done.wait()
        except (TimeoutError, TaskNotCancelableError):
            await live.output.end(pb.TASK_STATE_FAILED, STOPPED)

    async def _end(self, live: _Live, state: pb.TaskState, text: str) -> None:
        live.ending = (state, text)
        if not live.begun:
            return
        try:
            await live.run.cancel()
        except Exception as error:
            live.ending = None
            words = error.message if isinstance(error, RunnerError) else "The agent does not stop."
            log.warning("the agent did not stop: %s", error)
            raise TaskNotCancelableError(words) from error

    async def _started(self, context: RequestContext, output: Output) -> _Live | None:
        if len(self._working) >= self._options.limits.running:
            await output.end(pb.TASK_STATE_REJECTED, BUSY)
            return None
        call = await self._call(context)
        live = _Live(context, self._runner.start(call), output, call.session_id)
        self._live[context.task_id or ""] = live
        self._working.add(live)
        if not self._runner.messages:
            await output.submit()
        return live

    async def _answered(self, context: RequestContext, stored: pb.Task, output: Output) -> _Live | None:
        paused = await self._pauses.get(stored.id)
        live = self._live.get(stored.id)
        if paused is None:
            await output.end(pb.TASK_STATE_FAILED, LOST)
            return None
        decided = context.call_context.state.get(DECISION)
        if decided is not None and decided.request_id != paused.request_id:
            return None  # a caller was quicker, and this asks something else
        asked = context.call_context.state.get(ASKED, stored.status.message.message_id)
        if paused.kind == "question" and asked != stored.status.message.message_id:
            await output.interrupt(pb.TASK_STATE_INPUT_REQUIRED, stored.status.message.parts)
            return None
        answer = self._answer(context, paused)
        if answer is None:
            parts = undecided(paused, stored, remote=self._options.remote_approvals)
            await output.interrupt(pb.TASK_STATE_INPUT_REQUIRED, parts)
            return None
        await self._pauses.delete(stored.id)  # before it is used, so that it is used once
        if live is None:
            call = await self._call(context)
            run = self._restored(call, paused)
            if run is None:
                await output.end(pb.TASK_STATE_FAILED, LOST)
                return None
            live = self._live[stored.id] = _Live(context, run, output, call.session_id)
        live.output = output
        live.done.clear()
        self._working.add(live)
        if live.ending is None:
            await live.run.answer(answer)
        return live

    def _answer(self, context: RequestContext, paused: Paused) -> Answer | None:
        message = context.message
        assert message is not None  # the handler has checked it
        parts = parts_from_wire(message.parts)
        if paused.kind == "question":
            return Answer(parts=parts)
        standing: Standing = standing_of(
            context.call_context, parts, paused, self._approvals, remote=self._options.remote_approvals
        )
        return None if standing == "pending" else Answer(decision=standing, request_id=paused.request_id)

    def _restored(self, call: Call, paused: Paused) -> Run | None:
        return None if paused.state is None else self._runner.restore(call, paused.state)

    async def _work(self, context: RequestContext, live: _Live) -> None:
        """Tell what the agent says, up to where it asks or ends."""
        output, asked, waits = live.output, None, False
        try:
            if live.ending is None:
                live.begun = True
                if context.current_task is not None:
                    await output.work()
                with self._scopes(context, live.session):
                    async for event in live.run.events():
                        if isinstance(event, InputRequired):
                            asked = event
                        elif asked is None and live.ending is None:
                            waits = isinstance(event, AuthRequired)
                            await output.tell(event)
            asked = await self._over(context, live, asked, waits)
        except Exception:
            if live.ending is None:
                raise
            log.info("the agent was stopped", exc_info=True)
            await output.end(*live.ending)
        finally:
            self._working.discard(live)
            live.done.set()
            if asked is None or output.ended:
                self._forget(live.task_id)

    async def _over(
        self, context: RequestContext, live: _Live, asked: InputRequired | None, waits: bool
    ) -> InputRequired | None:
        """What follows the agent's last event; the question, where the task waits for its answer."""
        output = live.output
        if live.ending is not None:
            await output.end(*live.ending)
        elif asked is not None and not output.ended:
            await self._pause(context, output, asked)
            return asked
        elif not waits:
            await output.end(pb.TASK_STATE_COMPLETED)
        return None

    async def _pause(self, context: RequestContext, output: Output, asked: InputRequired) -> None:
        parts = [part_to_wire(part) for part in asked.question]
        approval = asked.approval
        if approval is not None:
            parts.append(data_part({"kind": "approval_request", "approval_request": dict(approval)}))
        paused = Paused(
            context.task_id or "",
            context.context_id or "",
            owner_of(context.call_context),
            "question" if approval is None else "approval",
            "" if approval is None else str(approval.get("id", "")),
            asked.state,
        )
        await self._pauses.save(paused)  # first, so that no task waits that nobody knows of
        await output.interrupt(pb.TASK_STATE_INPUT_REQUIRED, parts)
        if approval is not None:
            self._on_approval(paused)

    async def _call(self, context: RequestContext) -> Call:
        message = context.message
        assert message is not None  # the handler has checked it
        history: Callable[[], Awaitable[Any]] | None = context.call_context.state.get(HISTORY)
        return Call(
            message.message_id,
            context.task_id or "",
            context.context_id or "",
            parts_from_wire(message.parts),
            value_of(message.metadata) if message.HasField("metadata") else {},
            await history() if history else (),
            await self._sessions(owner_of(context.call_context), context.context_id or ""),
        )

    def _scopes(self, context: RequestContext, session: str) -> ExitStack:
        """Who is calling, for the tools that the agent uses."""
        call = context.call_context
        invocation = PlatformInvocationContext(
            agent_id=self._agent_name,
            user_id=owner_of(call),
            session_id=session,
            account_id=call.state.get(ACCOUNT_KEY, ""),
        )
        scopes = ExitStack()
        scopes.enter_context(platform_invocation_scope(invocation))
        scopes.enter_context(tool_execution_scope(session, context.task_id, context.task_id))
        if self._approvals is not None:
            scopes.enter_context(self._approvals.scope())
        return scopes
