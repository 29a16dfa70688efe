"""`agentengine a2a center`: a control plane and gateway of Spaces, on this machine or for a team."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentengine_cli import output
from agentengine_cli.base import Command, new_group
from ksadk.errors import KsadkError

if TYPE_CHECKING:
    import socket

    from ksadk.a2a.center.app import CenterOptions
    from ksadk.a2a.center.workload_tokens import Workload

DEFAULT_PORT = 8090
DEFAULT_DSN = "sqlite:///center.db"

_WORKLOAD = re.compile(r"[\w.-]{1,64}", re.ASCII)

app = new_group("Run an A2A Center.")


@app.command("center", cls=Command)
def center(
    demo: Annotated[
        str, typer.Argument(metavar="[demo]", help="demo: one to try, with two agents, that keeps nothing.")
    ] = "",
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port to listen on; 0 picks a free one.")
    ] = DEFAULT_PORT,
    url: Annotated[
        str | None,
        typer.Option("--url", help="Where clients reach it, if that is not where it listens."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", metavar="DIR", help="Where it keeps its data; a2a-center in the user's state."
        ),
    ] = None,
    db: Annotated[
        str,
        typer.Option(
            "--db",
            metavar="DSN|@FILE",
            help="Its database: SQLite in DIR, or postgresql+asyncpg://...; @FILE hides a password.",
        ),
    ] = DEFAULT_DSN,
    token_dir: Annotated[
        list[str] | None,
        typer.Option(
            "--token-dir",
            metavar="[NAME=]DIR",
            help="Where a workload's tokens are written and renewed; tokens in DIR. Repeatable.",
        ),
    ] = None,
    bearer_file: Annotated[
        Path | None,
        typer.Option(
            "--bearer-file",
            metavar="FILE",
            help="Who may register agents; its lines are TOKEN or NAME TOKEN. Else admin.token in DIR.",
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option("--allowed-host", metavar="NAME", help="A name that it is called by. Repeatable."),
    ] = None,
    task_timeout: Annotated[
        str,
        typer.Option(
            "--task-timeout", metavar="TIME", help="How long a task at work may be silent (90s, 2h)."
        ),
    ] = "1h",
    log_format: Annotated[
        str, typer.Option("--log-format", metavar="text|json", help="How the log on stderr is written.")
    ] = "text",
) -> None:
    """Run an A2A Center: agents are registered with it in Spaces, found there, and called through it.

    It issues the tokens that clients prove themselves by, permits each call, forwards calls of hosted agents,
    and keeps what becomes of tasks, over restarts. It listens on this machine only, unless --host says
    otherwise. Ctrl-C ends it.

    \b
    Examples:
      agentengine a2a center demo
      agentengine a2a center --data-dir center --token-dir team-a=tokens/a --token-dir team-b=tokens/b
      agentengine a2a center --host 0.0.0.0 --url https://center.example.com --bearer-file admins
    """
    import asyncio
    import contextlib
    import tempfile

    from agentengine_cli.calls import read_text, seconds_of
    from agentengine_cli.serve_log import start_log
    from ksadk.a2a.center.registering import DIRECTORY
    from ksadk.listening import listen
    from ksadk.settings import Settings

    if demo not in ("", "demo"):
        raise typer.BadParameter(f"{demo!r} is not demo", param_hint="[demo]")
    if demo and (data_dir is not None or db != DEFAULT_DSN):
        raise typer.BadParameter("it keeps nothing, and takes neither --data-dir nor --db", param_hint="demo")
    if log_format not in ("text", "json"):
        raise typer.BadParameter(f"{log_format!r} is not text or json", param_hint="--log-format")
    patience = seconds_of(task_timeout)
    if url is not None:
        from ksadk.a2a.space.asking import checked_url

        url = checked_url(url, "--url")
    start_log("json" if log_format == "json" else "text", only_warnings=bool(demo))
    with (
        tempfile.TemporaryDirectory(prefix="a2a-center-")
        if demo
        else contextlib.nullcontext(data_dir or Settings.from_env().state_dir() / DIRECTORY)
    ) as place:
        directory = Path(place).absolute()
        tokens = _token_dirs(token_dir or [], directory)
        listening = listen(host, port)
        options = _options(directory, listening, host, url, allowed_host, bearer_file, tokens, patience)
        asyncio.run(_serve(options, read_text(db).strip(), listening, demo=bool(demo)))


def _token_dirs(given: list[str], directory: Path) -> "dict[Workload, Path]":
    from ksadk.a2a.center.running import LOCAL
    from ksadk.a2a.center.workload_tokens import Workload

    found: dict[Workload, Path] = {}
    for text in given or [str(directory / "tokens")]:
        name, equals, place = text.rpartition("=")
        if equals and not _WORKLOAD.fullmatch(name):
            raise typer.BadParameter(
                f"{name!r} is no name of letters, digits and . _ -", param_hint="--token-dir"
            )
        workload = Workload(name or LOCAL.name, LOCAL.account)
        if workload in found or not place or Path(place).resolve() in map(Path.resolve, found.values()):
            raise typer.BadParameter(f"{text!r} is empty, or given twice", param_hint="--token-dir")
        found[workload] = Path(place).absolute()
    return found


def _options(
    directory: Path, listening: "socket.socket", host: str, url: str | None, allowed_host: list[str] | None,
    bearer_file: Path | None, tokens: "dict[Workload, Path]", patience: float,
) -> "CenterOptions":  # fmt: skip
    from ksadk.a2a.center.app import CenterOptions
    from ksadk.a2a.center.event_log import Patience
    from ksadk.a2a.center.running import admins_of
    from ksadk.hosts import reach
    from ksadk.listening import is_wildcard, own_url

    outside = is_wildcard(host) or reach(host) != "loopback"
    if outside and url is None:
        raise KsadkError(
            "a center that other machines reach needs an address that they reach it at",
            code="usage",
            hint="Put what speaks https before it, and name that: --url https://center.example.com",
        )
    return CenterOptions(
        directory=directory,
        base_url=url or own_url(host, listening.getsockname()[1]),
        admins=admins_of(directory, bearer_file),
        token_dirs=tokens,
        patience=Patience(working=patience),
        allowed_hosts=(*(allowed_host or ()), *filter(None, [host])),
        any_address=is_wildcard(host),
    )


async def _serve(options: "CenterOptions", dsn: str, listening: "socket.socket", *, demo: bool) -> None:
    from ksadk.a2a.center.app import Center
    from ksadk.a2a.center.database import open_database
    from ksadk.a2a.center.running import serve

    center = Center(open_database(dsn, directory=options.directory), options)
    center.write_tokens()  # before it is served, so that a place where they cannot be is told in words
    if demo:
        from ksadk.a2a.center.demo import SPACE, serve_demo

        ready = _Ready(options, [SPACE])
        await serve_demo(center, listening, options.directory, ready.say)
    else:
        ready = _Ready(options, await center.registry.spaces())
        await serve(center, listening, ready.say)


class _Ready:
    """What another terminal needs: words on stderr, and then, with -o json, a line of JSON on stdout."""

    def __init__(self, options: "CenterOptions", spaces: list[str]) -> None:
        self._options = options
        self._spaces = spaces

    def say(self) -> None:
        """Say it."""
        import shlex

        options, url = self._options, self._options.base_url
        output.say(f"an A2A Center is at {url} (Ctrl-C ends)")
        output.say(f"its administrator's token is in {options.admins.path}")
        for workload, directory in options.token_dirs.items():
            exports = {
                "KSADK_A2A_SPACE_IDS": ",".join(self._spaces),
                "KSADK_A2A_CONTROL_PLANE_URL": url,
                "KSADK_A2A_TOKEN_DIR": str(directory),
            }
            lines = [f"  export {name}={shlex.quote(value)}" for name, value in exports.items() if value]
            output.say(f"in another terminal, as {workload.name}:\n" + "\n".join(lines))
        if output.json_wanted.get():
            import json

            document = {
                "ok": True, "url": url, "space_ids": self._spaces,
                "admin_token_file": str(options.admins.path),
                "token_dirs": {who.name: str(place) for who, place in options.token_dirs.items()},
            }  # fmt: skip
            output.write(json.dumps(document, ensure_ascii=False) + "\n")
