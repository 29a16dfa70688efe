"""`agentengine a2a`: make and check Agent Cards. Its other commands have modules of their own."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from agentengine_cli import output
from agentengine_cli.base import Command, Entry, LazyGroup, new_group
from ksadk.a2a.card import build_agent_card, check_base_url
from ksadk.errors import KsadkError
from ksadk.project_files import find_config, is_directory

if TYPE_CHECKING:
    from ksadk.a2a.check import Finding

DEFAULT_URL = "http://127.0.0.1:8081"


class A2AGroup(LazyGroup):
    """The commands, in the order of the help."""

    entries: ClassVar[Mapping[str, Entry]] = {
        "card": Entry("", "Print an agent's A2A 1.0 Agent Card, or check a card."),
        "serve": Entry("agentengine_cli.a2a_serve", "Serve an agent on this machine."),
        "register": Entry("agentengine_cli.a2a_register", "Put an agent into a Space of a center."),
        "discover": Entry("agentengine_cli.a2a_discover", "Show an agent, or list those of a Space."),
        "call": Entry("agentengine_cli.a2a_call", "Send a message to an agent."),
        "status": Entry("agentengine_cli.a2a_tasks:status_app", "Show how a task of an agent stands."),
        "cancel": Entry("agentengine_cli.a2a_tasks:cancel_app", "Cancel a task of an agent."),
        "tasks": Entry("agentengine_cli.a2a_tasks:tasks_app", "List the tasks of an agent."),
        "center": Entry("agentengine_cli.a2a_center", "Run an A2A Center: Spaces of agents."),
    }


app = new_group("Serve agents over A2A 1.0, call them, and make their cards.", A2AGroup)


@app.callback()
def a2a() -> None:
    """Serve agents over A2A 1.0, call them, and make their cards."""


@app.command("card", cls=Command)
def card(
    path: Annotated[Path, typer.Argument(metavar="[PATH]", help="The project's directory.")] = Path(),
    url: Annotated[
        str | None,
        typer.Option("--url", help=f"Where callers reach the agent; the project's, or {DEFAULT_URL}."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The agent's name. With --url, no source is looked at.")
    ] = None,
    description: Annotated[str, typer.Option("--description", help="What the agent does.")] = "",
    skill: Annotated[
        list[str] | None,
        typer.Option("--skill", metavar="SKILL", help="ID or ID:Name:Description:tag,tag. Repeatable."),
    ] = None,
    agent_version: Annotated[
        str | None, typer.Option("--agent-version", help="The agent's own version.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option("--provider", metavar="ORG=URL", help="Who offers the agent.")
    ] = None,
    documentation_url: Annotated[
        str | None, typer.Option("--documentation-url", metavar="URL", help="The agent's documentation.")
    ] = None,
    icon_url: Annotated[
        str | None, typer.Option("--icon-url", metavar="URL", help="The agent's icon.")
    ] = None,
    input_mode: Annotated[
        list[str] | None,
        typer.Option("--input-mode", metavar="TYPE", help="A media type that it takes. Repeatable."),
    ] = None,
    output_mode: Annotated[
        list[str] | None,
        typer.Option("--output-mode", metavar="TYPE", help="A media type that it gives. Repeatable."),
    ] = None,
    no_streaming: Annotated[bool, typer.Option("--no-streaming", help="It does not stream.")] = False,
    sign: Annotated[
        str | None,
        typer.Option("--sign", metavar="KEY.pem", help="Sign it with a private key: EC, RSA or Ed25519."),
    ] = None,
    key_id: Annotated[
        str, typer.Option("--key-id", metavar="ID", help="What verifiers find the public key by.")
    ] = "",
    check: Annotated[
        str | None, typer.Option("--check", metavar="FILE|-", help="Check this card instead of making one.")
    ] = None,
) -> None:
    """Print an agent's A2A 1.0 Agent Card, made from the options and the project; or check a card.

    What the options leave out comes from agentengine.yaml, langgraph.json, pyproject.toml and the agent's
    source, which is read and never run. Only the card goes to stdout.

    \b
    Examples:
      agentengine a2a card . --url https://agent.example.com --name research-agent --skill research
      agentengine a2a card --check agent-card.json
    """
    options = {
        "name": name,
        "base_url": url,
        "description": description or None,
        "version": agent_version,
        "skills": skill,
        "provider": None if provider is None else _provider(provider),
        "documentation_url": documentation_url,
        "icon_url": icon_url,
        "input_modes": input_mode,
        "output_modes": output_mode,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if check is not None:
        if given or no_streaming or sign or key_id or path != Path():
            raise KsadkError(
                "--check checks a card that is there, and takes neither a project nor what a card is made of",
                code="usage",
                hint="Leave out the other options, or --check. agentengine a2a card --help shows them.",
            )
        _check(check)
        return
    if url is not None:
        check_base_url(url)
    chosen = _told(path, name, url) | given
    made = build_agent_card(streaming=not no_streaming, **{"base_url": DEFAULT_URL, **chosen})
    if sign is not None:
        from ksadk.a2a.signing import sign_card

        made = sign_card(made, sign, key_id)
    elif key_id:
        raise typer.BadParameter("it names the key of --sign, which is not given", param_hint="--key-id")
    if "base_url" not in chosen:
        output.say(f"note: the card's address is {DEFAULT_URL}, for this machine only; --url gives another")
    output.write_json(made)


def _told(path: Path, name: str | None, url: str | None) -> dict[str, Any]:
    """What the project tells of its card: with name and URL given, only what its configuration says."""
    if not is_directory(path):
        raise typer.BadParameter(f"{path} is no directory", param_hint="PATH")
    if name is None or url is None:
        from ksadk.a2a.project import detect_project

        config = detect_project(path, lenient=name is not None).as_config()
    elif file := find_config(path):
        from ksadk.config_file import read_config

        config = read_config(file)
    else:
        return {}
    for warning in config.warnings:
        output.say(f"warning: {warning}")
    return config.for_card()


def _provider(text: str) -> dict[str, str]:
    match = re.fullmatch(r"(.+?)=(\w+://.+)", text)
    if match is None:
        raise typer.BadParameter(
            f"{text!r} is not of the form Organization=https://url", param_hint="--provider"
        )
    return {"organization": match[1].strip(), "url": match[2]}


def _check(file: str) -> None:
    from ksadk.a2a.check import check_card

    shown = "<stdin>" if file == "-" else file
    findings = check_card(_bytes(file))
    ok = not any(finding.severity == "error" for finding in findings)
    document = {"ok": ok, "file": shown, "findings": [finding.to_dict() for finding in findings]}
    output.show(document, lambda _: _lines(shown, findings))
    if not ok:
        raise typer.Exit(1)


def _bytes(file: str) -> bytes:
    from ksadk.a2a.json_text import MAX_BYTES

    if file == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        with Path(file).open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise typer.BadParameter(
            f"{file!r} cannot be read: {error.strerror}", param_hint="--check"
        ) from error


def _lines(file: str, findings: "list[Finding]") -> str:
    if not findings:
        return f"{file}: a valid A2A 1.0 Agent Card\n"
    return "".join(f"{_where(file, finding)}: {_words(finding)}\n" for finding in findings)


def _where(file: str, finding: "Finding") -> str:
    return file if finding.line is None else f"{file}:{finding.line}"


def _words(finding: "Finding") -> str:
    place = finding.place
    where = "" if not place or finding.message.startswith(f"{place} ") else f"{place}: "
    return f"{finding.severity}: {where}{finding.message}. {finding.fix}".rstrip()
