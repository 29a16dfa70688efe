"""Tools that reach other agents over A2A. They are in no default set: who wants them names them."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from ksadk.tools.registry import Target, builtin

T = TypeVar("T")

LONGEST_WAIT = 3600
_LONGEST_LOOK = 60


def _targets(arguments: Mapping[str, Any]) -> dict[str, Target]:
    """The addresses that a call reaches: the one named or, for a card's file, those in the card."""
    from ksadk.a2a.targets import read_target

    meant = read_target(arguments["target"])
    if meant.kind == "url":
        return {"url": Target("url", ((meant.place,),))}
    if meant.kind == "agent":
        return {}
    from ksadk.a2a.remote_card import read_card

    offered = read_card(meant.place).card.supported_interfaces
    return {"url": Target("url", tuple((interface.url,) for interface in offered))}


@builtin(
    group="a2a", boundary="remote_agent", scopes=("public_network",), approval_exempt=True, targets=_targets,
    large_fields=("description",),
)  # fmt: skip
def a2a_discover(target: str) -> dict[str, Any]:
    """Look at another agent: its name, description, skills, interfaces, and what would not work.

    target: the agent's base URL, HOST:PORT, or the URL of its card.
    """
    from ksadk.a2a.client import within
    from ksadk.a2a.remote_card import described

    return {"ok": True, **described(_run(within(_LONGEST_LOOK, _card_of(target))))}


@builtin(
    group="a2a", boundary="remote_agent", risk="medium", side_effects=("remote_agent_call",),
    scopes=("public_network",), targets=_targets, large_fields=("text",),
)  # fmt: skip
def a2a_call(
    target: str, message: str, task_id: str = "", context_id: str = "", timeout: int = 300
) -> dict[str, Any]:
    """Send a message to another agent, wait for its task, and return the text, the state and the ids.

    target: the agent's base URL, HOST:PORT, or the URL of its card.
    task_id: the task to go on with, such as one whose state is input-required.
    context_id: the context in which to begin a new task.
    timeout: seconds to wait; the task goes on after that.

    A state of input-required comes with the agent's question; answer it with task_id.
    """
    from ksadk.a2a.client import Outgoing

    outgoing = Outgoing(({"text": message},), task_id, context_id)
    return _run(_called(target, outgoing, min(max(timeout, 1), LONGEST_WAIT)))


@builtin(
    group="a2a", boundary="remote_agent", scopes=("public_network",), approval_exempt=True, targets=_targets,
    large_fields=("text",),
)  # fmt: skip
def a2a_status(target: str, task_id: str) -> dict[str, Any]:
    """How a task of another agent stands: its state, and its text so far.

    target: the agent's base URL, HOST:PORT, or the URL of its card.
    """
    from ksadk.a2a.client import within

    return _run(within(_LONGEST_LOOK, _stands(target, task_id)))


@builtin(
    group="a2a", boundary="remote_agent", risk="medium", side_effects=("remote_task_cancel",),
    scopes=("public_network",), targets=_targets,
)  # fmt: skip
def a2a_cancel(target: str, task_id: str) -> dict[str, Any]:
    """Cancel a task of another agent, and return how it stands then.

    target: the agent's base URL, HOST:PORT, or the URL of its card.
    """
    from ksadk.a2a.client import within

    return _run(within(_LONGEST_LOOK, _canceled(target, task_id)))


def _address(target: str) -> Any:
    """What a target means; a file is refused, since a model may not read those outside of the workspace."""
    from ksadk.a2a.client_errors import AgentError
    from ksadk.a2a.targets import read_target

    meant = read_target(target)
    if meant.kind == "file":
        raise AgentError(
            "a tool reads no card from a file", code="A2ACLI_ERR_USAGE", hint="Pass the agent's address."
        )
    return meant


async def _card_of(target: str) -> Any:
    from ksadk.a2a.client import look_at

    return await look_at(_address(target))


async def _called(target: str, outgoing: Any, timeout: int) -> dict[str, Any]:
    import asyncio

    from ksadk.a2a.client import connect, timed_out, wait
    from ksadk.a2a.stream import summary

    last: list[Any] = []
    try:
        async with asyncio.timeout(timeout), connect(_address(target)) as agent:
            return summary(await wait(agent, outgoing, seen=last.append))
    except TimeoutError as error:
        raise timed_out(timeout, last[-1] if last else None) from error


async def _stands(target: str, task_id: str) -> dict[str, Any]:
    from ksadk.a2a.client import connect
    from ksadk.a2a.stream import summary

    async with connect(_address(target)) as agent:
        return summary(await agent.get_task(task_id))


async def _canceled(target: str, task_id: str) -> dict[str, Any]:
    from ksadk.a2a.client import connect
    from ksadk.a2a.stream import summary

    async with connect(_address(target)) as agent:
        return summary(await agent.cancel(task_id), wanted="canceled")


def _run(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, in a thread of its own where the caller's thread runs an event loop."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor
    from contextvars import copy_context

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, work).result()
