"""`agentengine skills serve`: a Skill Service of a directory of skills."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from agentengine_cli import output
from agentengine_cli.base import Command, new_group
from ksadk.errors import KsadkError

if TYPE_CHECKING:
    from ksadk.skills.serving.directory import ServedDirectory

DEFAULT_PORT = 8082
SHORTEST_TOKEN = 16

app = new_group("Serve a directory of skills.")


class _Token(NamedTuple):
    """The token, and what a shell in another terminal writes to have it."""

    text: str
    export: str
    generated: bool = False


@app.command("serve", cls=Command)
def serve(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory that the skills' directories are in.")
    ],
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port to listen on; 0 picks a free one.")
    ] = DEFAULT_PORT,
    space: Annotated[
        str, typer.Option("--space", metavar="ID", help="The space's id; the directory's name if left out.")
    ] = "",
    url: Annotated[
        str | None,
        typer.Option("--url", help="Where clients reach it, if that is not where it listens."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="The token that clients must have; else KSADK_SKILL_SERVICE_TOKEN, or a new one.",
        ),
    ] = None,
) -> None:
    """Serve a directory of skills to this team's machines: what they list, load and run is fetched here.

    DIR/<skill>/SKILL.md is a skill of the space that is named after DIR, DIR/<space>/<skill>/SKILL.md one of
    another; the space named public is offered to everybody. A skill that changes is a new version at once. It
    listens on this machine only, unless --host says otherwise. Ctrl-C ends it.

    \b
    Examples:
      agentengine skills serve examples/skills
      agentengine skills serve skills --port 0 -o json
      agentengine skills serve skills --host 0.0.0.0 --url https://skills.example.com --token-file token
    """
    import asyncio

    from agentengine_cli.serve_log import start_log
    from ksadk.hosts import reach
    from ksadk.listening import listen, own_url
    from ksadk.skills.serving.app import SkillService
    from ksadk.skills.serving.directory import ServedDirectory
    from ksadk.skills.serving.running import serve

    outside = not host or reach(host) != "loopback"
    token = _token(token_file, may_generate=not outside)
    start_log("text")
    served = ServedDirectory(directory, space_id=space)
    listening = listen(host, port)
    base = url or own_url(host, listening.getsockname()[1])
    if outside and url is None:
        output.say(
            f"warning: tokens and skills go to and from {host or 'every address'} unencrypted. Put what"
            " speaks https before it, and name that by --url"
        )
    service = SkillService(served, token=token.text, url=url)
    asyncio.run(serve(service, listening, lambda: _say_ready(served, base, token)))


def _token(file: Path | None, *, may_generate: bool) -> _Token:
    import secrets
    import shlex

    from ksadk.settings import Settings

    if file is not None:
        try:
            text = file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise KsadkError(
                f"{file}: the token cannot be read: {why}", code="invalid_bearer_file"
            ) from error
        return _Token(_checked(text, str(file)), f'"$(cat {shlex.quote(str(file.absolute()))})"')
    if text := Settings.from_env().skill_service_token:
        return _Token(_checked(text, "KSADK_SKILL_SERVICE_TOKEN"), "...  # as it is set here")
    if not may_generate:
        raise KsadkError(
            "a service that other machines reach needs a token of your own",
            code="usage",
            hint="Make one with: openssl rand -hex 32 > token, and pass --token-file token",
        )
    text = secrets.token_urlsafe(32)
    return _Token(text, text, generated=True)


def _checked(token: str, where: str) -> str:
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise KsadkError(
            f"{where} holds no token: that has {SHORTEST_TOKEN} or more characters of ASCII without blanks",
            code="invalid_bearer_file",
            hint="Make one with: openssl rand -hex 32",
        )
    return token


def _say_ready(served: "ServedDirectory", base: str, token: _Token) -> None:
    """What another terminal needs: words on stderr, and then, with -o json, a line of JSON on stdout."""
    import shlex

    from ksadk.skills.models import PUBLIC_SPACE

    spaces = served.spaces()
    count = sum(1 for _ in spaces.skills())
    own = ",".join(space for space in spaces.by_id if space != PUBLIC_SPACE)
    public = PUBLIC_SPACE if PUBLIC_SPACE in spaces.by_id else ""
    exports = {
        "KSADK_SKILL_SERVICE_URL": shlex.quote(base),
        "KSADK_SKILL_SERVICE_TOKEN": token.export,
        "KSADK_SKILL_SPACE_IDS": own and shlex.quote(own),
        "KSADK_PUBLIC_SKILL_SPACE_IDS": public,
    }
    lines = [f"  export {name}={value}" for name, value in exports.items() if value]
    output.say(f"serving {count} skill{'s' * (count != 1)} of {served.path} at {base} (Ctrl-C ends)")
    output.say("in another terminal:\n" + "\n".join(lines))
    if output.json_wanted.get():
        import json

        document = {"ok": True, "url": base, "space_ids": list(spaces.by_id), "skill_count": count}
        if token.generated:
            document["token"] = token.text
        output.write(json.dumps(document, ensure_ascii=False) + "\n")
