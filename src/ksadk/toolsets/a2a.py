"""Tools that reach other agents over A2A. They are in no default set: who wants them names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ksadk.tools.registry import Target, builtin
from ksadk.toolsets.running import run_here

LONGEST_WAIT = 3600
_LONGEST_LOOK = 60


def targets(arguments: Mapping[str, Any], *, reads_files: bool = False) -> Mapping[str, Target]:
    """What a call reaches: in a Space its agent there, else the address that is named or, for a card's file,
    those in the card. A file is read for a person only; a model's call of one fails."""
    from ksadk.toolsets.a2a_rules import SpaceTargets
    from ksadk.toolsets.a2a_space import space_meant

    named = arguments.get("target", "")
    space_id = space_meant(arguments.get("space_id", ""), named)
    if space_id:
        return SpaceTargets(space_id, named, arguments.get("task_id", ""))
    nowhere = dict.fromkeys(("space", "space_id", "agent"), Target("value", ()))
    return nowhere | {"url": Target("url", tuple((url,) for url in _addresses(named, reads_files)))}


def _addresses(target: str, reads_files: bool) -> tuple[str, ...]:
    from ksadk.a2a.remote_card import read_card
    from ksadk.a2a.targets import read_target

    meant = read_target(target)
    if meant.kind == "url":
        return (meant.place,)
    if meant.kind == "agent" or not reads_files:
        return ()
    return tuple(interface.url for interface in read_card(meant.place).card.supported_interfaces)


def admits(tool_name: str, arguments: Mapping[str, Any]) -> Callable[[str], None]:
    """What raises `denied_by_rule` where a rule denies a call of an address by one that it leads to: a card
    names others than its own, and may be elsewhere than it is asked for."""

    def admit(url: str) -> None:
        from ksadk.tools.gateway import current_gateway
        from ksadk.tools.registry import find

        tool = find(tool_name)
        reached = dict.fromkeys(("space", "space_id", "agent"), Target("value", ()))
        reached["url"] = Target("url", ((url,),))
        current_gateway().refuse_by_rule(tool, arguments, reached)

    return admit


_RULED = ("url", "space", "agent")
_NETWORK = ("public_network",)


@builtin(
    group="a2a", boundary="remote_agent", scopes=_NETWORK, approval_exempt=True, targets=targets,
    target_names=_RULED, large_fields=("description",),
)  # fmt: skip
def a2a_discover(target: str = "", space_id: str = "", prompt: str = "", skill: str = "") -> dict[str, Any]:
    """Look at another agent, or without target list the agents of a Space that can be called.

    target: the agent's base URL, HOST:PORT, or the URL of its card; in a Space, its agent_id.
    space_id: the Space to list; may be left out where one is configured.
    prompt: in a Space, what an agent is wanted for, in words.
    skill: in a Space, the id of a skill that agents must have.

    Of one agent: its name, description, skills, interfaces, and what would not work. Of a Space, for each
    agent: its agent_id, which the other tools take as target, its name, description and skills, and whether
    it can be called.
    """
    from ksadk.a2a.client import within
    from ksadk.toolsets import a2a_space

    space = a2a_space.space_meant(space_id, target)
    if space:
        listing = a2a_space.discovered(space, target, prompt=prompt, skill=skill)
        agents = [a2a_space.described(agent) for agent in run_here(within(_LONGEST_LOOK, listing))]
        return {"ok": True, "space_id": space, "agents": agents}
    if prompt or skill:
        raise _usage("prompt and skill choose among the agents of a Space", "Leave out target.")
    from ksadk.a2a.remote_card import described

    return {"ok": True, **described(run_here(within(_LONGEST_LOOK, _card_of(target))))}


@builtin(
    group="a2a", boundary="remote_agent", risk="medium", side_effects=("remote_agent_call",),
    scopes=_NETWORK, targets=targets, target_names=_RULED, large_fields=("text",),
)  # fmt: skip
def a2a_call(
    target: str, message: str, task_id: str = "", context_id: str = "", timeout: int = 300, space_id: str = ""
) -> dict[str, Any]:
    """Send a message to another agent, wait for its task, and return the text, the state and the ids.

    target: the agent's base URL, HOST:PORT, or the URL of its card; in a Space, its agent_id.
    task_id: the task to go on with, such as one that asks for input.
    context_id: the context in which to begin a new task; Spaces have none.
    timeout: seconds to wait; the task goes on after that.
    space_id: the Space of the agent_id; may be left out where one is configured.

    A task that asks for input comes with the agent's question; answer it with task_id.
    """
    from ksadk.a2a.client import Outgoing
    from ksadk.toolsets import a2a_space

    seconds = min(max(timeout, 1), LONGEST_WAIT)
    space = a2a_space.space_meant(space_id, target)
    if not space:
        outgoing = Outgoing(({"text": message},), task_id, context_id)
        arguments = {"target": target, "message": message, "task_id": task_id, "context_id": context_id}
        return run_here(_called(target, outgoing, seconds, admits("a2a_call", arguments)))
    if context_id:
        raise _usage("a Space has no contexts", "task_id goes on with a task.")
    return run_here(a2a_space.called(space, target, message, task_id, seconds))


@builtin(
    group="a2a", boundary="remote_agent", scopes=_NETWORK, approval_exempt=True, targets=targets,
    target_names=_RULED, large_fields=("text",),
)  # fmt: skip
def a2a_status(target: str, task_id: str, space_id: str = "") -> dict[str, Any]:
    """How a task of another agent stands: its state, and its text so far.

    target: the agent's base URL, HOST:PORT, or the URL of its card; in a Space, its agent_id, or empty.
    space_id: the Space of the task; may be left out where one is configured.
    """
    from ksadk.a2a.client import within
    from ksadk.toolsets import a2a_space

    space = a2a_space.space_meant(space_id, target)
    looked = a2a_space.stands(space, task_id) if space else _stands(target, task_id)
    return run_here(within(_LONGEST_LOOK, looked))


@builtin(
    group="a2a", boundary="remote_agent", risk="medium", side_effects=("remote_task_cancel",),
    scopes=_NETWORK, targets=targets, target_names=_RULED,
)  # fmt: skip
def a2a_cancel(target: str, task_id: str, space_id: str = "") -> dict[str, Any]:
    """Cancel a task of another agent, and return how it stands then.

    target: the agent's base URL, HOST:PORT, or the URL of its card; in a Space, its agent_id, or empty.
    space_id: the Space of the task; may be left out where one is configured.
    """
    from ksadk.a2a.client import within
    from ksadk.toolsets import a2a_space

    space = a2a_space.space_meant(space_id, target)
    stopped = a2a_space.canceled(space, task_id) if space else _canceled(target, task_id)
    return run_here(within(_LONGEST_LOOK, stopped))


def _usage(message: str, hint: str) -> Exception:
    from ksadk.a2a.client_errors import AgentError

    return AgentError(message, code="A2ACLI_ERR_USAGE", hint=hint)


def _address(target: str) -> Any:
    """What a target means; a file is refused, since a model may not read those outside of the workspace."""
    from ksadk.a2a.targets import read_target

    meant = read_target(target)
    if meant.kind == "file":
        raise _usage("a tool reads no card from a file", "Pass the agent's address.")
    return meant


async def _card_of(target: str) -> Any:
    from ksadk.a2a.client import look_at

    return await look_at(_address(target), admit=admits("a2a_discover", {"target": target}))


async def _called(target: str, outgoing: Any, timeout: int, admit: Callable[[str], None]) -> dict[str, Any]:
    import asyncio

    from ksadk.a2a.client import connect, timed_out, wait
    from ksadk.a2a.stream import summary

    last: list[Any] = []
    try:
        async with asyncio.timeout(timeout), connect(_address(target), admit=admit) as agent:
            return summary(await wait(agent, outgoing, seen=last.append))
    except TimeoutError as error:
        raise timed_out(timeout, last[-1] if last else None) from error


async def _stands(target: str, task_id: str) -> dict[str, Any]:
    from ksadk.a2a.client import connect
    from ksadk.a2a.stream import summary

    admit = admits("a2a_status", {"target": target, "task_id": task_id})
    async with connect(_address(target), admit=admit) as agent:
        return summary(await agent.get_task(task_id))


async def _canceled(target: str, task_id: str) -> dict[str, Any]:
    from ksadk.a2a.client import connect
    from ksadk.a2a.stream import summary

    admit = admits("a2a_cancel", {"target": target, "task_id": task_id})
    async with connect(_address(target), admit=admit) as agent:
        return summary(await agent.cancel(task_id), wanted="canceled")
