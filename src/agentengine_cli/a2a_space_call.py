"""One call of an agent of a Space, from the message over questions to the end, and what of it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentengine_cli import output
from agentengine_cli.a2a_conversation import warn
from agentengine_cli.a2a_parts import told
from agentengine_cli.a2a_questions import ask
from agentengine_cli.a2a_space import Seen, in_time, place_of, show_task, told_of
from agentengine_cli.a2a_text import StreamText
from agentengine_cli.terminal import at_terminal
from ksadk.a2a.client import Update
from ksadk.a2a.space.client import A2ASpaceClient
from ksadk.a2a.space.following import ended
from ksadk.a2a.space.tasks import SpaceTask


class SpaceConversation:
    """Conducts a call, and prints it."""

    def __init__(
        self,
        space_id: str,
        timeout: float,
        poll_interval: float,
        *,
        stream: bool,
        wait: bool,
        interactive: bool,
    ) -> None:
        self._space_id = space_id
        self._timeout = timeout
        self._poll_interval = poll_interval
        self._stream = stream
        self._wait = wait
        self._interactive = interactive
        self._text: StreamText | None = None

    def conduct(self, agent_id: str, message: Mapping[str, Any], task_id: str) -> dict[str, Any]:
        """Send a message to an agent, or with a task's id to that, and show what comes of it; asking, also
        answer what is asked."""
        asking = self._interactive and at_terminal()
        if self._interactive and not asking:
            output.say("note: nobody can be asked where stdin or stderr is no terminal")
        while True:
            task = self._turn(agent_id, message, task_id)
            if not (asking and task.status == "input_required"):
                break
            answer = ask(task.update, f"{task.agent_id} of the Space {self._space_id}")
            if answer is None:
                break
            message, task_id = {"parts": [answer]}, task.task_id
        if self._text is None:
            show_task(self._space_id, task)
        else:
            self._text.show(task.update)
        warn(task.update)
        return told_of(task)

    def _turn(self, agent_id: str, message: Mapping[str, Any], task_id: str) -> SpaceTask:
        async def spoken(client: A2ASpaceClient, seen: Seen) -> SpaceTask:
            if task_id:
                task = await client.continue_task(task_id, message, return_immediately=True)
            else:
                task = await client.send_message(agent_id, message, return_immediately=True)
            seen(task)
            if not self._wait or task.ended:
                return task
            if not self._stream:
                return await ended(client, task, poll_interval=self._poll_interval)
            show = self._showing(task)
            show(task.update)
            return await ended(client, task, poll_interval=self._poll_interval, seen=show)

        arguments = {
            "target": agent_id, "message": told(message["parts"]), "task_id": task_id,
            "space_id": self._space_id,
        }  # fmt: skip
        return in_time("a2a_call", arguments, self._timeout, spoken)

    def _showing(self, task: SpaceTask) -> Callable[[Update], None]:
        """What prints a stream: as JSON all that the agent says, as text what is new in it."""
        if output.json_wanted.get():
            return lambda update: output.write_json(update.document)
        text = self._text = StreamText(place_of(self._space_id, task))
        return lambda update: None if update.ends else text.show(update)
