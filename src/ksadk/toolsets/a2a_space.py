"""What the tools that reach other agents do in a Space."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from ksadk.a2a.client import ENDED_BADLY, INTERRUPTED
from ksadk.a2a.space.client import A2ASpaceClient, space_backend
from ksadk.a2a.space.configured import configured_space
from ksadk.a2a.space.errors import A2ASpaceError
from ksadk.a2a.space.following import ended, run_error, timed_out
from ksadk.a2a.space.models import SpaceAgent
from ksadk.a2a.space.tasks import SpaceTask
from ksadk.settings import Settings
from ksadk.tools.registry import Target
from ksadk.toolsets.running import run_here

_UNKNOWN_URL = Target("url", (("",),))
"""An address that cannot be told: no rule allows it, and every rule about one denies it."""


class SpaceTargets(Mapping[str, Target]):
    """What a call in a Space acts on: `space` (also `space_id`), `agent`, and as `url` the addresses that the
    agent is reached at.

    Iterating gives what is known without asking the platform, which `agent` and `url` may need: the agent of
    a task, and the addresses in an agent's card.
    """

    def __init__(self, space_id: str, agent_id: str, task_id: str) -> None:
        self._space_id = space_id
        self._agent_id = agent_id
        self._task_id = task_id
        self._asked: tuple[str, tuple[str, ...]] | None = None

    def __getitem__(self, name: str) -> Target:
        if name in ("space", "space_id"):
            return Target("value", ((self._space_id,),))
        if name not in ("agent", "url"):
            raise KeyError(name)
        if not self._agent_id and not self._task_id:  # a listing
            return Target("value" if name == "agent" else "url", ())
        if name == "agent":
            return Target("value", ((self._agent_id if not self._task_id else self._found()[0],),))
        return Target("url", tuple((url,) for url in self._found()[1])) if self._found()[1] else _UNKNOWN_URL

    def __iter__(self) -> Iterator[str]:
        yield from ("space", "space_id")
        if not self._task_id:
            yield "agent"

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _found(self) -> tuple[str, tuple[str, ...]]:
        if self._asked is None:
            self._asked = run_here(self._ask())
        return self._asked

    async def _ask(self) -> tuple[str, tuple[str, ...]]:
        """The agent and its addresses, as the platform knows them. Nothing is begun by it."""
        backend = space_backend(Settings.from_env())
        try:
            if self._task_id:
                prepared = await backend.prepare_task_operation(self._task_id, "get_task")
                return prepared.target.agent_id, (prepared.route.interface.url,)
            listing = await backend.list_agents(self._space_id, include_blocked=True)
        finally:
            await backend.aclose()
        urls = (
            interface.url
            for agent in listing.agents
            if agent.agent_id == self._agent_id
            for interface in agent.agent_card.supported_interfaces
        )
        return self._agent_id, tuple(urls)


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
            hint="For an agent at an address write the address: http://HOST:PORT.",
        )
    return found


async def called(space_id: str, agent_id: str, message: str, task_id: str, seconds: float) -> dict[str, Any]:
    """How the task of a message stands when it has ended or asks."""
    last: SpaceTask | None = None
    try:
        async with A2ASpaceClient.from_env(space_id) as client, asyncio.timeout(seconds):
            if task_id:
                last = await client.continue_task(task_id, message, return_immediately=True)
            else:
                last = await client.send_message(agent_id, message, return_immediately=True)
            return result_of(await ended(client, last))
    except TimeoutError as error:
        raise timed_out(seconds, last) from error


async def stands(space_id: str, task_id: str) -> dict[str, Any]:
    """How a task stands."""
    async with A2ASpaceClient.from_env(space_id) as client:
        return result_of(await client.get_task(task_id))


async def canceled(space_id: str, task_id: str) -> dict[str, Any]:
    """How a task stands after its agent was asked to cancel it."""
    async with A2ASpaceClient.from_env(space_id) as client:
        return result_of(await client.cancel(task_id), wanted="canceled")
