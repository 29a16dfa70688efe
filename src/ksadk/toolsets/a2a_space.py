"""What the tools that reach other agents do in a Space."""

from __future__ import annotations

import asyncio
from typing import Any

from ksadk.a2a.client import ENDED_BADLY, INTERRUPTED
from ksadk.a2a.space.client import A2ASpaceClient
from ksadk.a2a.space.configured import configured_space
from ksadk.a2a.space.errors import A2ASpaceError
from ksadk.a2a.space.following import ended, run_error, timed_out
from ksadk.a2a.space.models import SpaceAgent
from ksadk.a2a.space.tasks import SpaceTask
from ksadk.settings import Settings
from ksadk.toolsets.a2a_rules import admits


def space_meant(space_id: str, agent: str) -> str:
    """The Space that a call is about; empty where `agent` is an address and no Space is named.

    `space_not_configured` and `space_id_required` as `configured_space`.
    """
    from ksadk.a2a.targets import read_target

    if not space_id and agent and read_target(agent).kind != "agent":
        return ""
    settings = Settings.from_env()
    if not space_id and agent and not settings.a2a_space_ids:
        return ""  # a host without its port, perhaps: the direct call says what is missing
    return configured_space(settings, space_id)


def described(agent: SpaceAgent) -> dict[str, Any]:
    """An agent as listings show it."""
    return {
        "agent_id": agent.agent_id,
        "version_id": agent.version_id,
        "source": agent.source,
        "name": agent.name,
        "description": agent.description,
        "skills": [skill.id for skill in agent.agent_card.skills],
        "input_modes": list(agent.agent_card.default_input_modes),
        "output_modes": list(agent.agent_card.default_output_modes),
        "route_kind": agent.route_kind,
        "callable": agent.callable,
        "blocked_reason": agent.blocked_reason,
    }


def result_of(task: SpaceTask, *, wanted: str = "completed") -> dict[str, Any]:
    """What is said of a task: the platform's summary, the agent, its text and its question.

    A task that ended badly is raised as its error, unless that end was `wanted`.
    """
    state = task.update.state
    failed = run_error(task)
    if failed is not None and state in ENDED_BADLY and state != wanted:
        raise failed
    result = {"ok": True, **task.to_summary(), "agent_id": task.agent_id, "text": task.text}
    return result | {"question": task.question} if state in INTERRUPTED else result


async def discovered(
    space_id: str, agent_id: str, *, prompt: str = "", skill: str = "", include_blocked: bool = False
) -> list[SpaceAgent]:
    """The agents of a Space that can be called, or with `include_blocked` all; with an id, only that one,
    whether it can be called or not: `A2A_AGENT_NOT_FOUND` where there is none."""
    async with A2ASpaceClient.from_env(space_id) as client:
        every = include_blocked or bool(agent_id)
        agents = await client.discover(prompt or None, skill=skill or None, include_blocked=every)
    found = [agent for agent in agents if agent_id in ("", agent.agent_id)]
    if agent_id and not found:
        raise A2ASpaceError(
            f"the Space {space_id} has no agent {agent_id}" + (" of that kind" if prompt or skill else ""),
            code="A2A_AGENT_NOT_FOUND",
            hint=f"agentengine a2a discover --space-id {space_id} lists agents with their ids; an agent "
            "at an address is named by it: http://HOST:PORT.",
        )
    return found


async def called(space_id: str, agent_id: str, message: str, task_id: str, seconds: float) -> dict[str, Any]:
    """How the task of a message stands when it has ended or asks."""
    last: SpaceTask | None = None
    arguments = {"target": agent_id, "message": message, "task_id": task_id, "space_id": space_id}
    try:
        async with _client("a2a_call", arguments) as client, asyncio.timeout(seconds):
            if task_id:
                last = await client.continue_task(task_id, message, return_immediately=True)
            else:
                last = await client.send_message(agent_id, message, return_immediately=True)
            return result_of(await ended(client, last))
    except TimeoutError as error:
        raise timed_out(seconds, last) from error


async def stands(space_id: str, task_id: str) -> dict[str, Any]:
    """How a task stands."""
    async with _client("a2a_status", {"target": "", "task_id": task_id, "space_id": space_id}) as client:
        return result_of(await client.get_task(task_id))


async def canceled(space_id: str, task_id: str) -> dict[str, Any]:
    """How a task stands after its agent was asked to cancel it."""
    async with _client("a2a_cancel", {"target": "", "task_id": task_id, "space_id": space_id}) as client:
        return result_of(await client.cancel(task_id), wanted="canceled")


def _client(tool_name: str, arguments: dict[str, str]) -> A2ASpaceClient:
    return A2ASpaceClient.from_env(arguments["space_id"], admit=admits(tool_name, arguments))
