"""`agentengine a2a serve`: an agent on this machine, for callers over A2A."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

import asyncio
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentengine_cli import output
from agentengine_cli.base import Command, new_group
from ksadk.a2a.options import Limits, ServerOptions
from ksadk.errors import KsadkError
from ksadk.project_files import is_directory

if TYPE_CHECKING:
    import socket

    from ksadk.a2a.project import Project
    from ksadk.a2a.stores.base import Paused

DEFAULT_DSN = "sqlite+aiosqlite:///.agentengine/a2a_tasks.db"
DEFAULT_PORT = 8081

app = new_group("Serve an agent over A2A 1.0.")


@dataclass(frozen=True)
class _Agent:
    """Which agent, and what its card says."""

    path: Path
    module: str | None
    url: str | None
    name: str | None
    description: str
    skills: list[str] | None


@app.command("serve", cls=Command)
def serve(
    path: Annotated[Path, typer.Argument(metavar="[PATH]", help="The project's directory.")] = Path(),
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port to listen on; 0 picks a free one.")
    ] = DEFAULT_PORT,
    url: Annotated[
        str | None,
        typer.Option("--url", help="Where callers reach the agent, for its card; else where it listens."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The agent's name.")] = None,
    description: Annotated[str, typer.Option("--description", help="What the agent does.")] = "",
    skill: Annotated[
        list[str] | None,
        typer.Option("--skill", metavar="SKILL", help="ID or ID:Name:Description:tag,tag. Repeatable."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="MODULE:NAME", help="The agent itself, where there is no project."),
    ] = None,
    task_store_dsn: Annotated[
        str | None,
        typer.Option("--task-store-dsn", metavar="DSN", help=f"Where tasks are kept ({DEFAULT_DSN})."),
    ] = None,
    durability: Annotated[
        str,
        typer.Option(
            "--durability",
            metavar="normal|full",
            help="What a task outlives: a killed server (normal), or a power cut too (full).",
        ),
    ] = "normal",
    include_reasoning: Annotated[
        bool,
        typer.Option("--include-reasoning/--no-include-reasoning", help="Whether callers see reasoning."),
    ] = True,
    bearer_file: Annotated[
        Path | None,
        typer.Option(
            "--bearer-file",
            metavar="FILE",
            help="Let in only who has a token of this file; its lines are TOKEN or NAME TOKEN.",
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option("--allowed-host", metavar="NAME", help="A name that it is called by. Repeatable."),
    ] = None,
    trusted_edge: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-edge",
            metavar="ADDRESS",
            help="An address or network whose identity headers are believed. Repeatable.",
        ),
    ] = None,
    approve_here: Annotated[
        bool, typer.Option("--approve-here", help="Ask at this terminal about calls that need approval.")
    ] = False,
    remote_approvals: Annotated[
        bool,
        typer.Option("--remote-approvals", help="Let callers with a token approve calls, too."),
    ] = False,
    grace: Annotated[
        float, typer.Option("--grace", min=0, metavar="SECONDS", help="What agents get to finish at the end.")
    ] = ServerOptions.grace,
    max_body: Annotated[
        int, typer.Option("--max-body", min=1, metavar="BYTES", help="The largest request that is taken.")
    ] = Limits.body,
    max_running: Annotated[
        int, typer.Option("--max-running", min=1, metavar="N", help="The most tasks at work at once.")
    ] = Limits.running,
    log_format: Annotated[
        str, typer.Option("--log-format", metavar="text|json", help="How the log on stderr is written.")
    ] = "text",
    reload: Annotated[
        bool, typer.Option("--reload", help="Serve again whenever the project's source changes.")
    ] = False,
) -> None:
    """Serve an agent over A2A 1.0: JSON-RPC and HTTP+JSON, with its card at /.well-known/agent-card.json.

    Tasks are kept in the project, and outlive a restart. It listens on this machine only, unless --host says
    otherwise. A first Ctrl-C lets agents finish, a second ends at once.

    \b
    Examples:
      agentengine a2a serve .
      agentengine a2a serve examples/echo --port 0
      agentengine a2a serve --agent mypackage.agents:root_agent --name mine
      agentengine a2a serve . --host 0.0.0.0 --url https://agent.example.com --bearer-file tokens
    """
    _check_word("--durability", durability, ("normal", "full"))
    _check_word("--log-format", log_format, ("text", "json"))
    if remote_approvals and bearer_file is None and not trusted_edge:
        raise _unknown_approvers()
    if not is_directory(path):
        raise typer.BadParameter(f"{path} is no directory", param_hint="PATH")
    if agent is not None and not all(agent.rpartition(":")):
        raise typer.BadParameter(
            f"{agent!r} is not MODULE:NAME, as in mypackage.agents:root_agent", param_hint="--agent"
        )
    if approve_here:
        from agentengine_cli.terminal import need_a_person

        need_a_person("--approve-here")
    from agentengine_cli import serve_again as again

    if agent is None and (python := again.project_python(path)):
        again.enter(python, sys.argv[1:])
    from ksadk.a2a.callers import BearerFile, trusted_networks
    from ksadk.a2a.card import check_base_url
    from ksadk.a2a.listening import Loop
    from ksadk.listening import is_wildcard, listen

    if url is not None:
        check_base_url(url)
    listening = listen(host, port)
    port = listening.getsockname()[1]
    if reload:
        listening.close()
        arguments = [word for word in sys.argv[1:] if word != "--reload"]
        raise typer.Exit(again.serve_again(path, [*arguments, "--port", str(port)]))
    _warn(host, bearer_file is not None)
    options = ServerOptions(
        include_reasoning=include_reasoning,
        bearer=None if bearer_file is None else BearerFile(bearer_file),
        allowed_hosts=(*(allowed_host or ()), *filter(None, [host])),
        any_address=is_wildcard(host),
        trusted_edge=trusted_networks(tuple(trusted_edge or ())),
        limits=Limits(body=max_body, running=max_running),
        remote_approvals=remote_approvals,
        grace=grace,
    )
    from agentengine_cli.serve_log import start_log

    start_log("json" if log_format == "json" else "text")
    chosen = _Agent(path, agent, url, name, description, skill)
    with ExitStack() as scopes:
        if agent is None:
            from ksadk.runtime_context import project_scope

            scopes.enter_context(project_scope(path.resolve()))
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(
                _serve(chosen, listening, host, options, _dsn(task_store_dsn), durability, approve_here)
            )


def _unknown_approvers() -> KsadkError:
    return KsadkError(
        "--remote-approvals lets callers approve, who must be known",
        code="usage",
        hint="Give --bearer-file, too.",
    )


def _check_word(option: str, word: str, words: tuple[str, ...]) -> None:
    if word not in words:
        raise typer.BadParameter(f"{word!r} is not {' or '.join(words)}", param_hint=option)


def _dsn(given: str | None) -> str:
    from ksadk.settings import Settings

    return given or Settings.from_env().a2a_task_store_dsn or DEFAULT_DSN


def _warn(host: str, authenticated: bool) -> None:
    from ksadk.hosts import reach

    if host and reach(host) == "loopback":
        return
    missing = "TLS or network policy" if authenticated else "authentication, TLS or network policy"
    output.say(
        f"warning: {host or 'every address'} exposes the agent on all network interfaces that lead to it."
        f" This local development endpoint sets up no {missing} for you: be sure that its callers can be"
        " trusted, and configure a firewall"
    )


async def _serve(
    agent: _Agent, listening: "socket.socket", host: str, options: ServerOptions, dsn: str, durability: str,
    approve_here: bool,
) -> None:  # fmt: skip
    from ksadk.a2a.listening import serve as serve_until_signal
    from ksadk.a2a.runners.detect import load_runner
    from ksadk.a2a.server import A2AServer
    from ksadk.a2a.stores.opening import open_stores
    from ksadk.listening import own_url
    from ksadk.toolsets.selection import load_builtin_tools
    from ksadk.toolsets.served import GatewayApprovals

    project = None if agent.module else _project(agent)
    runner = load_runner(agent.module or agent.path, project=project)
    base = own_url(host, listening.getsockname()[1])
    card = _card(agent, project, agent.url or base, runner)
    load_builtin_tools()
    approvals = GatewayApprovals()
    server = A2AServer(
        runner,
        card,
        open_stores(dsn, directory=agent.path, durability="full" if durability == "full" else "normal"),
        options,
        approvals=approvals,
        on_approval=_Prompts().add if approve_here else _say_how_to_approve,
    )
    await serve_until_signal(server, listening, lambda: _say_ready(server.card, base))


def _project(agent: _Agent) -> "Project":
    from ksadk.a2a.project import detect_project

    project = detect_project(agent.path, lenient=agent.name is not None)
    for warning in project.as_config().warnings:
        output.say(f"warning: {warning}")
    return project


def _card(agent: _Agent, project: "Project | None", url: str, runner: Any) -> dict[str, Any]:
    from ksadk.a2a.card import build_agent_card
    from ksadk.a2a.modes import check_taken

    told: dict[str, Any] = {"input_modes": runner.input_modes, "output_modes": runner.output_modes}
    if project is not None:
        told |= project.as_config().for_card()
        check_taken(told["input_modes"], runner.input_modes)
    if agent.module:
        told["name"] = agent.module.rpartition(":")[2]
    if "base_url" in told and agent.url is None:
        output.say(
            f"note: the card says {url}, where it is served now, and not the project's {told['base_url']}"
        )
    given = {"name": agent.name, "description": agent.description, "skills": agent.skills}
    told |= {key: value for key, value in given.items() if value}
    told["base_url"] = url
    return build_agent_card(**told)


def _say_ready(card: dict[str, Any], base: str) -> None:
    """Where it is: words on stderr, and with -o json a line of JSON on stdout."""
    if output.json_wanted.get():
        import json

        urls = {entry["protocolBinding"]: entry["url"] for entry in card["supportedInterfaces"]}
        document = {"ok": True, "name": card["name"], "url": base, "interfaces": urls}
        output.write(json.dumps(document, ensure_ascii=False) + "\n")
    output.say(f"serving {card['name']} at {base} (Ctrl-C ends)")


def _say_how_to_approve(paused: "Paused") -> None:
    output.say(f"task {paused.task_id} waits for approval: agentengine approvals approve {paused.request_id}")


class _Prompts:
    """Puts one request after another to the person at this terminal, each in a process of its own: a prompt
    takes the terminal's signals, which a thread cannot."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=self._ask, daemon=True).start()

    def add(self, paused: "Paused") -> None:
        """Ask about one more."""
        self._waiting.put(paused.request_id)

    def _ask(self) -> None:
        import subprocess

        while True:
            request_id = self._waiting.get()
            command = [sys.executable, "-m", "agentengine_cli", "approvals", "approve", request_id]
            subprocess.run(command, stdout=sys.stderr, check=False)  # it says itself what went wrong
