"""What the commands that reach agents do in a Space."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from agentengine_cli import output
from agentengine_cli.a2a_agents import run, through_gateway
from agentengine_cli.a2a_place import InSpace
from agentengine_cli.a2a_text import field, show_update
from ksadk.a2a.space.client import A2ASpaceClient
from ksadk.a2a.space.following import ended, timed_out
from ksadk.a2a.space.models import SpaceAgent
from ksadk.a2a.space.tasks import SpaceTask
from ksadk.toolsets.a2a_rules import admits
from ksadk.toolsets.a2a_space import described, discovered

Seen = Callable[[SpaceTask], None]
Work = Callable[[A2ASpaceClient, Seen], Awaitable[SpaceTask]]


@asynccontextmanager
async def _opened(tool_name: str, arguments: Mapping[str, Any]) -> AsyncIterator[A2ASpaceClient]:
    """A client for a call of a tool. What the platform could not be told by the end is kept, and said on
    stderr."""
    client = A2ASpaceClient.from_env(arguments["space_id"], admit=admits(tool_name, arguments))
    try:
        yield client
    finally:
        if not await client.aclose():
            output.say("note: the platform does not know all that happened yet; the next call tells it")


def in_time(tool_name: str, arguments: Mapping[str, Any], seconds: float, work: Work) -> SpaceTask:
    """The task that the work of a call in a Space gives within so many seconds. The work tells how the task
    stands in between; an interrupt or the end of the time says how to go on from there.

    arguments: those of the call, which rules are about.
    """
    last: list[SpaceTask] = []
    space_id = arguments["space_id"]

    async def worked() -> SpaceTask:
        async with _opened(tool_name, arguments) as client:
            try:
                async with asyncio.timeout(seconds):
                    return await work(client, last.append)
            except TimeoutError as error:
                late = timed_out(seconds, last[-1] if last else None)
                late.hint = place_of(space_id, last[-1]).command(last[-1].update) if last else None
                raise late from error

    try:
        return asyncio.run(worked())
    except KeyboardInterrupt:
        if last:
            command = place_of(space_id, last[-1]).command(last[-1].update)
            output.say(f"task {last[-1].task_id} goes on: {command}")
        raise


def place_of(space_id: str, task: SpaceTask) -> InSpace:
    """Where the agent of a task is."""
    return InSpace(space_id, task.agent_id, task.task_id)


def told_of(task: SpaceTask) -> dict[str, Any]:
    """What the log keeps of a task, and the commands go by."""
    return {"ok": True, **task.to_summary(), "agent_id": task.agent_id, "state": task.update.state}


def show_task(space_id: str, task: SpaceTask) -> None:
    """Print a task; as JSON, the platform's summary with the text and the question, where there are any."""
    if output.json_wanted.get():
        more = {"text": task.text, "question": task.question if task.status == "input_required" else ""}
        output.write_json(task.to_summary() | {key: value for key, value in more.items() if value})
    else:
        show_update(task.update, place_of(space_id, task))


def discover(
    space_id: str, agent_id: str, *, prompt: str, skill: str, include_blocked: bool, seconds: float
) -> None:
    """List the agents of a Space."""

    def conduct(target: str, space_id: str, prompt: str, skill: str) -> dict[str, Any]:
        listing = discovered(
            space_id, target, prompt=prompt, skill=skill, include_blocked=include_blocked
        )  # fmt: skip
        agents = run(listing, seconds)
        documents = [described(agent) for agent in agents]
        if not output.json_lines.get():
            output.show(documents, lambda _: _rows(agents))
        for document in documents if output.json_lines.get() else ():
            output.write_json(document)
        return {"ok": True, "agents": len(agents)}

    arguments = {"target": agent_id, "space_id": space_id, "prompt": prompt, "skill": skill}
    through_gateway("a2a_discover", conduct, arguments)


def status(space_id: str, task_id: str, *, wait: bool, seconds: float, interval: float) -> str:
    """Show how a task of a Space stands; its state in A2A's words."""

    async def look(client: A2ASpaceClient, seen: Seen) -> SpaceTask:
        task = await client.get_task(task_id)
        seen(task)
        return await ended(client, task, poll_interval=interval) if wait else task

    return _conducted("a2a_status", space_id, task_id, seconds, look)


def cancel(space_id: str, task_id: str, *, seconds: float) -> None:
    """Cancel a task of a Space, and show how it stands then."""

    async def stop(client: A2ASpaceClient, _: Seen) -> SpaceTask:
        return await client.cancel(task_id)

    _conducted("a2a_cancel", space_id, task_id, seconds, stop)


def _conducted(name: str, space_id: str, task_id: str, seconds: float, work: Work) -> str:
    arguments = {"target": "", "task_id": task_id, "space_id": space_id}

    def conduct(target: str, task_id: str, space_id: str) -> dict[str, Any]:  # noqa: ARG001
        task = in_time(name, arguments, seconds, work)
        show_task(space_id, task)
        return told_of(task)

    return str(through_gateway(name, conduct, arguments)["state"])


def _rows(agents: list[SpaceAgent]) -> str:
    lines = []
    for agent in agents:
        rows = [
            ("Agent", agent.agent_id),
            ("Name", agent.name),
            ("Description", agent.description),
            ("Version", agent.version_id),
            ("Source", agent.source),
            ("Route", agent.route_kind),
            ("Takes", ", ".join(agent.agent_card.default_input_modes)),
            ("Gives", ", ".join(agent.agent_card.default_output_modes)),
            *[
                ("Skill", f"{skill.id}: {skill.name}. {skill.description}")
                for skill in agent.agent_card.skills
            ],
            ("Callable", "yes" if agent.callable else "no"),
            ("Blocked", agent.blocked_reason),
        ]
        lines += [*(field(label, value) for label, value in rows if value), "\n"]
    return "".join(lines) or "Agents: none\n"
