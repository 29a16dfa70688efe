"""`agentengine a2a discover`: look at an agent before calling it."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentengine_cli import output
from agentengine_cli.a2a_agents import (
    BearerOption,
    Connection,
    SpaceOption,
    TimeoutOption,
    agent_app,
    run,
    space_of,
    through_gateway,
)
from agentengine_cli.calls import seconds_of

if TYPE_CHECKING:
    from ksadk.a2a.remote_card import RemoteCard


def discover(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="[TARGET]",
            help="http://HOST:PORT, HOST:PORT, a card's URL, or its .json file; in a Space, an agent's id.",
        ),
    ] = "",
    space_id: SpaceOption = None,
    skill: Annotated[
        str, typer.Option("--skill", metavar="SKILL", help="In a Space: only agents with that skill.")
    ] = "",
    prompt: Annotated[
        str, typer.Option("--prompt", metavar="TEXT", help="In a Space: what an agent is wanted for.")
    ] = "",
    include_blocked: Annotated[
        bool, typer.Option("--include-blocked", help="In a Space: also agents that cannot be called.")
    ] = False,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="FILE", help="A public key (PEM) to verify signatures with. Repeatable."
        ),
    ] = None,
    timeout: TimeoutOption = "1m",
    bearer: BearerOption = "",
) -> None:
    """Show an agent: who it is, how it is reached, what it can, and what would not work. Or list a Space.

    In a Space it lists the agents that can be called. A signature is `verified` only with a key that you
    pass; without one it is `unverifiable`. With --key, the exit status is 1 unless it is verified.

    \b
    Examples:
      agentengine a2a discover http://127.0.0.1:8081
      agentengine a2a discover agent.example.com:443 --key agent.pub -o json
      agentengine a2a discover --space-id space-demo --skill research
    """
    space = space_of(space_id, agent, key=key, bearer=bearer)
    seconds = seconds_of(timeout)
    if space:
        from agentengine_cli import a2a_space

        a2a_space.discover(
            space, agent, prompt=prompt, skill=skill, include_blocked=include_blocked, seconds=seconds
        )
        return
    if skill or prompt or include_blocked:
        option = "--skill" if skill else "--prompt" if prompt else "--include-blocked"
        raise typer.BadParameter(
            "it is about the agents of a Space, not one at an address", param_hint=option
        )
    connection = Connection.of(agent, bearer, "", None, None)

    def conduct(target: str) -> dict[str, Any]:  # noqa: ARG001
        remote = run(connection.look(seconds), seconds)
        signature = _signature(remote, key or [])
        output.show(remote.document, lambda _: _text(remote, signature))
        if output.json_wanted.get():
            for line in _told(remote, signature):
                output.say(f"note: {line}")
        return {"ok": True, "signature": signature}

    signature = through_gateway("a2a_discover", conduct, {"target": agent})["signature"]
    if key and signature != "verified":
        raise typer.Exit(1)


def _signature(remote: "RemoteCard", keys: list[str]) -> str:
    from ksadk.a2a.signing import signature_state

    return signature_state(remote.document, keys)


def _told(remote: "RemoteCard", signature: str) -> list[str]:
    from ksadk.a2a.remote_card import problems

    return [f"signature {signature}", *problems(remote)]


def _text(remote: "RemoteCard", signature: str) -> str:
    from agentengine_cli.a2a_text import field
    from ksadk.a2a.remote_card import problems, security

    card = remote.card
    abilities = card.capabilities
    lines = [
        ("Name", card.name),
        ("Description", card.description),
        ("Version", card.version),
        ("Provider", card.provider.organization),
        ("Card", remote.source),
        *[
            ("Interface", f"{item.protocol_binding} {item.protocol_version} {item.url}")
            for item in card.supported_interfaces
        ],
        ("Streaming", "yes" if abilities.streaming else "no"),
        ("Push", "yes" if abilities.push_notifications else "no"),
        ("Takes", ", ".join(card.default_input_modes)),
        ("Gives", ", ".join(card.default_output_modes)),
        *[("Skill", f"{skill.id}: {skill.name}. {skill.description}") for skill in card.skills],
        ("Security", ", ".join(security(card)) or "none"),
        ("Signature", signature),
        *[("Problem", problem) for problem in problems(remote)],
    ]
    return "".join(field(label, value) for label, value in lines if value)


app = agent_app(discover)
