"""What rules are about in calls of the agents of a Space, before the call and at the last moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ksadk.a2a.space.backend import SpaceBackend, space_backend
from ksadk.a2a.space.models import PreparedOperation
from ksadk.settings import Settings
from ksadk.tools.gateway import current_gateway
from ksadk.tools.registry import Target, find
from ksadk.toolsets.running import run_here

NAMES = ("space", "space_id", "agent", "url")

_UNKNOWN = ("",)
"""An address that cannot be told: no rule about addresses allows it, and every such rule denies it."""


class SpaceTargets(Mapping[str, Target]):
    """What a call in a Space acts on, by the names of rules: `space` (also `space_id`), `agent`, and as `url`
    the addresses that the agent is reached at.

    Of a task, only the platform knows the agent, and of an agent the address; it is asked when these are
    looked up, and iterating leaves them out. Which Space a task is of nobody says: where several are
    configured, it counts as of each that has its agent.
    """

    def __init__(self, space_id: str, agent_id: str, task_id: str) -> None:
        self._space_id = space_id
        self._task_id = task_id
        self._spaces = tuple(dict.fromkeys(Settings.from_env().a2a_space_ids))
        self._known: dict[str, tuple[str, ...]] = {}
        if not task_id:
            self._known["agent"] = (agent_id,) if agent_id else ()
        if not task_id and not agent_id:  # a listing
            self._known["url"] = ()
        if not task_id or len(self._spaces) == 1:
            self._known |= {"space": (space_id,), "space_id": (space_id,)}

    def __getitem__(self, name: str) -> Target:
        if name not in NAMES:
            raise KeyError(name)
        if name not in self._known:
            self._known |= run_here(self._ask(name))
        return Target("url" if name == "url" else "value", tuple((item,) for item in self._known[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._known))

    def __len__(self) -> int:
        return len(self._known)

    async def _ask(self, name: str) -> dict[str, tuple[str, ...]]:
        """What the platform knows; nothing is begun by it."""
        backend = space_backend(Settings.from_env())
        try:
            found: dict[str, tuple[str, ...]] = {}
            if self._task_id and "agent" not in self._known:
                prepared = await backend.prepare_task_operation(self._task_id, "get_task")
                found = {"agent": (prepared.target.agent_id,), "url": (prepared.route.interface.url,)}
            (agent_id,) = (self._known | found)["agent"]
            if name == "url" and not self._task_id:
                found["url"] = await _addresses(backend, self._space_id, agent_id) or _UNKNOWN
            if name in ("space", "space_id"):
                others = [space for space in self._spaces if space != self._space_id]
                having = [space for space in others if await _addresses(backend, space, agent_id)]
                found["space"] = found["space_id"] = (self._space_id, *having)
            return found
        finally:
            await backend.aclose()


async def _addresses(backend: SpaceBackend, space_id: str, agent_id: str) -> tuple[str, ...]:
    """The addresses in the card of an agent of a Space; none where the Space has no such agent."""
    listing = await backend.list_agents(space_id, include_blocked=True)
    cards = [agent.agent_card for agent in listing.agents if agent.agent_id == agent_id]
    return tuple(interface.url for card in cards for interface in card.supported_interfaces)


def admits(tool_name: str, arguments: Mapping[str, Any]) -> Callable[[PreparedOperation], None]:
    """What raises `denied_by_rule` where a rule denies a call by the agent and the address that the platform
    has prepared it for: these may be others than those it told of before."""

    def admit(prepared: PreparedOperation) -> None:
        space = Target("value", ((str(arguments["space_id"]),),))
        targets = {
            "space": space,
            "space_id": space,
            "agent": Target("value", ((prepared.target.agent_id,),)),
            "url": Target("url", ((prepared.route.interface.url,),)),
        }
        tool = find(tool_name)
        current_gateway().refuse_by_rule(tool, tool.parameters.check(dict(arguments)), targets)

    return admit
