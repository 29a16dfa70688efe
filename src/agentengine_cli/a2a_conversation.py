"""One call of an agent, from the message over questions to the end, and what of it is shown."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

from agentengine_cli import output
from agentengine_cli.a2a_agents import Connection
from agentengine_cli.a2a_place import AtAddress
from agentengine_cli.a2a_text import StreamText, show_update
from ksadk.a2a.client import (
    ENDED_BADLY,
    INTERRUPTED,
    Outgoing,
    RemoteAgent,
    Update,
    follow,
    timed_out,
    wait,
)
from ksadk.a2a.client_errors import AgentError
from ksadk.a2a.stream import said_text


class Conversation:
    """Conducts a call, and prints it."""

    def __init__(
        self,
        connection: Connection,
        timeout: float,
        poll_interval: float,
        *,
        stream: bool,
        wait: bool,
        interactive: bool,
    ) -> None:
        self._connection = connection
        self._timeout = timeout
        self._poll_interval = poll_interval
        self._stream = stream
        self._wait = wait
        self._last: Update | None = None
        self._place = AtAddress(connection.target)
        self._text = StreamText(self._place)
        self._interactive = interactive

    def conduct(self, message: Outgoing) -> dict[str, Any]:
        """Send a message and show what comes of it; with `interactive`, also answer what is asked."""
        from agentengine_cli.terminal import at_terminal

        asking = self._interactive and at_terminal()
        if self._interactive and not asking:
            output.say("note: nobody can be asked where stdin or stderr is no terminal")
        while True:
            update = self._turn(message)
            if not (asking and update.state == "input-required"):
                break
            from agentengine_cli.a2a_questions import ask

            answer = ask(update, self._connection.target)
            if answer is None:
                break
            message = Outgoing((answer,), update.task_id, update.context_id)
        if not self._stream:
            self._show(update)
        warn(update)
        return {
            "ok": True, "task_id": update.task_id, "context_id": update.context_id, "state": update.state,
        }  # fmt: skip

    def _turn(self, message: Outgoing) -> Update:
        try:
            return asyncio.run(self._spoken(message))
        except KeyboardInterrupt:
            if self._last is not None and self._last.task_id:
                output.say(f"task {self._last.task_id} goes on: {self._place.command(self._last)}")
            raise

    async def _spoken(self, message: Outgoing) -> Update:
        try:
            async with asyncio.timeout(self._timeout), self._connection.connect(self._timeout) as agent:
                return await self._answered(agent, message)
        except TimeoutError as error:
            late = timed_out(self._timeout, self._last)
            late.hint = self._place.command(self._last) if self._last else None
            raise late from error
        except AgentError as error:
            if error.code == "TaskNotFoundError" and message.task_id:
                error.hint = "No task was begun. agentengine --debug a2a call ... shows what was answered."
            raise

    async def _answered(self, agent: RemoteAgent, message: Outgoing) -> Update:
        if not self._wait:
            update = await agent.send(message, wait=False)
            self._seen(update)
            return update
        if not self._stream:
            return await wait(agent, message, poll_interval=self._poll_interval, seen=self._seen)
        last: Update | None = None
        updates = follow(agent, message, poll_interval=self._poll_interval, notice=_notice)
        async with aclosing(updates):
            async for update in updates:
                self._seen(update)
                last = update
                self._show(update)
        assert last is not None, "what follows an agent gives at least one update, or raises"
        return last

    def _seen(self, update: Update) -> None:
        if update.task_id:
            self._last = update

    def _show(self, update: Update) -> None:
        if output.json_wanted.get():
            output.write_json(update.document)
        elif self._stream:
            self._text.show(update)
        else:
            show_update(update, self._place)


def _notice(words: str) -> None:
    output.say(f"note: {words}")


def warn(update: Update) -> None:
    """Say on stderr how a task ended or paused, unless it completed."""
    if update.state in ENDED_BADLY | INTERRUPTED:
        reason = said_text(update, data=False)  # data is on stdout
        said = f": {json.dumps(reason, ensure_ascii=False)[1:-1]}" if reason else ""
        output.say(f"warning: the task is {update.state}{said}")
