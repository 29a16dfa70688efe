"""`agentengine a2a status`, `cancel` and `tasks`: the tasks that an agent has."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

from typing import Annotated, Any

import typer

from agentengine_cli import output
from agentengine_cli.a2a_agents import (
    AgentOption,
    BearerOption,
    Connection,
    KeyOption,
    ParamOption,
    SpaceOption,
    TimeoutOption,
    TransportOption,
    agent_app,
    run,
    space_of,
    through_gateway,
)
from agentengine_cli.calls import seconds_of

TaskArgument = Annotated[str, typer.Argument(metavar="TASK_ID", help="The task.")]


def status(
    task_id: TaskArgument,
    agent: AgentOption = "",
    space_id: SpaceOption = None,
    wait: Annotated[bool, typer.Option("--wait", "--watch", help="Wait until it ends or asks.")] = False,
    history: Annotated[
        int | None, typer.Option("--history", metavar="N", min=0, help="How many messages of it to show.")
    ] = None,
    timeout: TimeoutOption = "10m",
    poll_interval: Annotated[
        str,
        typer.Option(
            "--poll-interval", metavar="TIME", help="How often to look, at most.", show_default=True
        ),
    ] = "2s",
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="Exit with 1 if the task failed, was rejected or canceled.")
    ] = False,
    transport: TransportOption = None,
    bearer: BearerOption = "",
    api_key: KeyOption = "",
    svc_param: ParamOption = None,
) -> None:
    """Show how a task of an agent stands: its state, and what it made.

    \b
    Examples:
      agentengine a2a status --space-id space-demo TASK_ID
      agentengine a2a status TASK_ID -a http://127.0.0.1:8081
      agentengine a2a status TASK_ID -a http://127.0.0.1:8081 --wait --timeout 5m -o json
    """
    space = space_of(
        space_id, agent, agent_card=agent, history=history is not None, transport=transport, bearer=bearer,
        api_key=api_key, svc_param=svc_param,
    )  # fmt: skip
    seconds, interval = seconds_of(timeout), seconds_of(poll_interval)
    if space:
        from agentengine_cli import a2a_space

        state = a2a_space.status(space, task_id, wait=wait, seconds=seconds, interval=interval)
    else:
        connection = Connection.of(agent, bearer, api_key, transport, svc_param)
        state = _status(connection, task_id, wait, history, seconds, interval)
    if exit_status:
        from ksadk.a2a.client import ENDED_BADLY

        if state in ENDED_BADLY:
            raise typer.Exit(1)


def _status(
    connection: Connection,
    task_id: str,
    wait: bool,
    history: int | None,
    seconds: float,
    interval: float,
) -> str:
    async def look(task_id: str) -> Any:
        import asyncio

        from ksadk.a2a.client import timed_out, wait_for

        last: list[Any] = []
        try:
            async with asyncio.timeout(seconds), connection.connect(seconds) as remote:
                if wait:
                    return await wait_for(remote, task_id, interval, last.append)
                return await remote.get_task(task_id, history)
        except TimeoutError as error:
            raise timed_out(seconds, last[-1] if last else None) from error

    def conduct(target: str, task_id: str) -> dict[str, Any]:
        return _shown(run(look(task_id), seconds), target)

    arguments = {"target": connection.target, "task_id": task_id}
    return str(through_gateway("a2a_status", conduct, arguments)["state"])


def cancel(
    task_id: TaskArgument,
    agent: AgentOption = "",
    space_id: SpaceOption = None,
    timeout: TimeoutOption = "1m",
    transport: TransportOption = None,
    bearer: BearerOption = "",
    api_key: KeyOption = "",
    svc_param: ParamOption = None,
) -> None:
    """Cancel a task of an agent, and show how it stands then.

    \b
    Examples:
      agentengine a2a cancel --space-id space-demo TASK_ID
      agentengine a2a cancel TASK_ID -a http://127.0.0.1:8081
    """
    space = space_of(
        space_id, agent, agent_card=agent, transport=transport, bearer=bearer, api_key=api_key,
        svc_param=svc_param,
    )  # fmt: skip
    seconds = seconds_of(timeout)
    if space:
        from agentengine_cli import a2a_space

        a2a_space.cancel(space, task_id, seconds=seconds)
        return
    connection = Connection.of(agent, bearer, api_key, transport, svc_param)

    async def stop(task_id: str) -> Any:
        async with connection.connect(seconds) as remote:
            return await remote.cancel(task_id)

    def conduct(target: str, task_id: str) -> dict[str, Any]:
        return _shown(run(stop(task_id), seconds), target)

    through_gateway("a2a_cancel", conduct, {"target": agent, "task_id": task_id})


def tasks(
    agent: AgentOption = "",
    state: Annotated[
        str, typer.Option("--state", metavar="STATE", help="Only tasks of that state (working, completed).")
    ] = "",
    context_id: Annotated[
        str, typer.Option("--context-id", metavar="ID", help="Only tasks of that context.")
    ] = "",
    page_size: Annotated[
        int, typer.Option("--page-size", metavar="N", min=1, max=100, help="How many at most.")
    ] = 50,
    page_token: Annotated[
        str, typer.Option("--page-token", metavar="TOKEN", help="The page, as the one before named it.")
    ] = "",
    timeout: TimeoutOption = "1m",
    transport: TransportOption = None,
    bearer: BearerOption = "",
    api_key: KeyOption = "",
    svc_param: ParamOption = None,
) -> None:
    """List the tasks that an agent has for this caller.

    \b
    Example:
      agentengine a2a tasks -a http://127.0.0.1:8081 --state working
    """
    if not agent:
        raise typer.BadParameter("no agent is named", param_hint="--agent-card")
    connection = Connection.of(agent, bearer, api_key, transport, svc_param)
    seconds = seconds_of(timeout)

    wanted = _state(state)

    async def listed() -> dict[str, Any]:
        async with connection.connect(seconds) as remote:
            page: dict[str, Any] = await remote.list_tasks(
                status=wanted, contextId=context_id, pageSize=page_size, pageToken=page_token
            )
            return page

    def conduct(target: str) -> dict[str, Any]:  # noqa: ARG001
        page = run(listed(), seconds)
        if not output.json_lines.get():
            output.show(page, _rows)
        for task in page.get("tasks") or [] if output.json_lines.get() else ():
            output.write_json(task)
        return {"ok": True}

    through_gateway("a2a_status", conduct, {"target": agent})


def _state(word: str) -> str:
    if not word:
        return ""
    from a2a.types import TaskState

    name = "TASK_STATE_" + word.upper().replace("-", "_").removeprefix("TASK_STATE_")
    if name not in TaskState.DESCRIPTOR.values_by_name:
        raise typer.BadParameter(f"{word!r} is no state of a task", param_hint="--state")
    return name


def _rows(page: dict[str, Any]) -> str:
    from a2a.types import ListTasksResponse
    from google.protobuf.json_format import ParseDict

    from agentengine_cli.a2a_text import field
    from ksadk.a2a.client import state_word

    listed = ParseDict(page, ListTasksResponse(), ignore_unknown_fields=True)
    lines = []
    for task in listed.tasks:
        lines += [
            field("Task", task.id),
            field("Context", task.context_id),
            field("State", state_word(task.status.state)),
            "\n",
        ]
    if listed.next_page_token:
        lines.append(field("Next", listed.next_page_token))
    return "".join(lines) or "Tasks: none\n"


def _shown(update: Any, target: str) -> dict[str, Any]:
    """Print a task, a bare `Task` as JSON; what the log keeps of it."""
    from agentengine_cli.a2a_place import AtAddress
    from agentengine_cli.a2a_text import show_update

    if output.json_wanted.get():
        output.write_json(update.document["task"])
    else:
        show_update(update, AtAddress(target))
    return {"ok": True, "task_id": update.task_id, "state": update.state}


status_app = agent_app(status)
cancel_app = agent_app(cancel)
tasks_app = agent_app(tasks)
