"""`agentengine a2a call`: send a message to an agent and show what comes of it."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

from typing import Annotated, Any

import typer

from agentengine_cli import output
from agentengine_cli.a2a_agents import (
    AgentCommand,
    AgentOption,
    BearerOption,
    Connection,
    KeyOption,
    ParamOption,
    SpaceOption,
    TimeoutOption,
    TransportOption,
    agent_app,
    is_id_or_words,
    space_of,
    through_gateway,
)
from agentengine_cli.a2a_parts import PART_OPTIONS, in_order, json_object, parts_of, told
from agentengine_cli.calls import seconds_of
from ksadk.errors import KsadkError

_ORDER = "agentengine_cli.order"


class SendCommand(AgentCommand):
    """A command whose options for parts keep the order in which they were given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        output.json_lines.set("--stream" in args)
        rest = super().parse_args(ctx, list(args))
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [param.name for param in order if param.name in PART_OPTIONS]
        return rest


def call(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET] MESSAGE", help="The agent (or -a), and the text; - is stdin."),
    ] = None,
    agent: AgentOption = "",
    space_id: SpaceOption = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", metavar="TEXT", help="A part of text. Repeatable.")
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file", metavar="PATH|URL", help="A part that is a file, or the URL of one. Repeatable."
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="JSON|PATH|-", help="A part that is a JSON value. Repeatable."),
    ] = None,
    media_type: Annotated[
        list[str] | None,
        typer.Option("--media-type", metavar="TYPE", help="The media type of the part before it."),
    ] = None,
    task_id: Annotated[str, typer.Option("--task-id", metavar="ID", help="The task to go on with.")] = "",
    context_id: Annotated[
        str, typer.Option("--context-id", metavar="ID", help="The context in which to begin a task.")
    ] = "",
    metadata: Annotated[
        str, typer.Option("--metadata", metavar="JSON", help="The message's metadata, a JSON object.")
    ] = "",
    stream: Annotated[
        bool, typer.Option("--stream", help="Show what comes as it comes; as JSON, one line each.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--async", help="Wait until the task ends or asks, or come back at once.")
    ] = True,
    timeout: TimeoutOption = "10m",
    poll_interval: Annotated[
        str,
        typer.Option(
            "--poll-interval", metavar="TIME", help="How often to look, at most.", show_default=True
        ),
    ] = "2s",
    transport: TransportOption = None,
    bearer: BearerOption = "",
    api_key: KeyOption = "",
    svc_param: ParamOption = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", help="At a terminal, ask the person what the agent asks.")
    ] = False,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="Exit with 1 unless the task completed.")
    ] = False,
) -> None:
    """Send a message to an agent, wait for its task, and show it.

    Exit status 0 says that the call was conducted, whatever became of the task; --exit-status makes a task
    that failed a failure. TARGET is http://HOST:PORT, HOST:PORT, the URL of a card, or a card's .json file;
    in a Space it is the agent's id.

    \b
    Examples:
      agentengine a2a call http://127.0.0.1:8081 "Summarise this week"
      agentengine a2a call -a 127.0.0.1:8081 --file report.pdf --text "What is new?" -o json
      agentengine a2a call -a 127.0.0.1:8081 --task-id ID "Paris" --stream
      agentengine a2a call --space-id space-demo AGENT_ID "Summarise this week"
    """
    target, message = _words(words or [], agent)
    if task_id and message is None and not agent and (space_id or is_id_or_words(target)):
        target, message = "", target or None  # the task says which agent it is
    space = space_of(
        space_id, target, agent_card=agent, context_id=context_id, transport=transport, bearer=bearer,
        api_key=api_key, svc_param=svc_param,
    )  # fmt: skip
    values = {"text": text or [], "file": file or [], "data": data or [], "media_type": media_type or []}
    parts = parts_of(message, in_order(context.meta[_ORDER], values))
    about = json_object(metadata, "--metadata")
    seconds, interval = seconds_of(timeout), seconds_of(poll_interval)
    stream = stream or (output.json_wanted.get() and output.json_lines.get())
    output.json_lines.set(stream)
    if not wait and (stream or interactive):
        raise KsadkError("--async does not wait, so there is nothing to stream or to ask", code="usage")
    options = {"stream": stream, "wait": wait, "interactive": interactive}
    connection = None if space else Connection.of(target, bearer, api_key, transport, svc_param)

    def conduct(
        target: str,
        message: str,  # noqa: ARG001
        task_id: str = "",
        context_id: str = "",
        space_id: str = "",
    ) -> dict[str, Any]:
        if connection is None:
            from agentengine_cli.a2a_space_call import SpaceConversation

            in_space = SpaceConversation(space_id, seconds, interval, **options)
            return in_space.conduct(target, {"parts": parts, "metadata": about}, task_id)
        from agentengine_cli.a2a_conversation import Conversation
        from ksadk.a2a.client import Outgoing

        conversation = Conversation(connection, seconds, interval, **options)
        return conversation.conduct(Outgoing(parts, task_id, context_id, about))

    arguments = {
        "target": target, "message": told(parts), "task_id": task_id, "context_id": context_id,
        "space_id": space,
    }  # fmt: skip
    state = through_gateway("a2a_call", conduct, arguments)["state"]
    if exit_status and state not in ("completed", ""):
        raise typer.Exit(1)


def _words(words: list[str], agent: str) -> tuple[str, str | None]:
    """The target and the message of the words that are no options."""
    if agent:
        words = [agent, *words]
    if len(words) > 2:
        raise typer.BadParameter(
            f"{words[2]!r} is one word too many; put the message in quotes", param_hint="MESSAGE"
        )
    return (words[0] if words else ""), (words[1] if len(words) > 1 else None)


app = agent_app(call, SendCommand)
