"""`agentengine a2a register`: put an agent into a Space of a center."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from agentengine_cli import output
from agentengine_cli.a2a_agents import (
    BearerOption,
    Connection,
    TimeoutOption,
    agent_app,
    run,
    through_gateway,
)
from agentengine_cli.calls import seconds_of
from ksadk.errors import KsadkError
from ksadk.settings import Settings

_ROUTES = {"hosted": "hosted_gateway", "public": "external_public", "vpc": "external_vpc"}


def register(
    card: Annotated[
        str,
        typer.Argument(
            metavar="CARD_URL|FILE", help="http://HOST:PORT, HOST:PORT, a card's URL, or its .json file."
        ),
    ],
    space_id: Annotated[str, typer.Option("--space-id", metavar="SPACE", help="The Space's id.")],
    route: Annotated[
        str,
        typer.Option(
            "--route",
            metavar="hosted|public|vpc",
            help="hosted: called through the center. public, vpc: somebody else's, called by its URL.",
        ),
    ] = "hosted",
    blocked: Annotated[
        str, typer.Option("--blocked", metavar="REASON", help="List it, and let nobody call it.")
    ] = "",
    credential: Annotated[
        Path | None,
        typer.Option(
            "--credential",
            metavar="FILE",
            help="What it is shown of callers: JSON, {Headers, Query, Cookies}; {} takes it back.",
        ),
    ] = None,
    center: Annotated[
        str, typer.Option("--center", metavar="URL", help="The center; else KSADK_A2A_CONTROL_PLANE_URL.")
    ] = "",
    admin_token_file: Annotated[
        Path | None,
        typer.Option(
            "--admin-token-file", metavar="FILE", help="The administrator's token; else this user's center's."
        ),
    ] = None,
    timeout: TimeoutOption = "1m",
    bearer: BearerOption = "",
) -> None:
    """Put an agent into a Space: by its card, which is fetched, or read from a file.

    An agent is known by the name in its card; another card of that name is another version of it. --bearer is
    for the fetching of the card only; --credential is what the agent is shown when it is called.

    \b
    Examples:
      agentengine a2a register http://127.0.0.1:8081 --space-id space-demo
      agentengine a2a register vendor-card.json --space-id space-demo --route public --credential key.json
    """
    from ksadk.a2a.center.registering import ADMIN_FILE, DIRECTORY, admin_token
    from ksadk.a2a.center.registering import register as ask_center
    from ksadk.toolsets.a2a_space import described

    if route not in _ROUTES:
        raise typer.BadParameter(f"{route!r} is not hosted, public or vpc", param_hint="--route")
    settings = Settings.from_env()
    url = center or settings.a2a_control_plane_url
    if not url:
        raise KsadkError(
            "no center is named",
            code="space_not_configured",
            hint="--center URL names one, or KSADK_A2A_CONTROL_PLANE_URL; agentengine a2a center runs one.",
        )
    token = admin_token(admin_token_file or settings.state_dir() / DIRECTORY / ADMIN_FILE)
    request: dict[str, Any] = {"A2ASpaceId": space_id, "RouteKind": _ROUTES[route]}
    if blocked:
        request["BlockedReason"] = blocked
    if credential is not None:
        request["Credential"] = _json(credential)
    connection = Connection.of(card, bearer, "", None, None)
    seconds = seconds_of(timeout)

    def conduct(target: str) -> dict[str, Any]:  # noqa: ARG001
        return {"ok": True, "card": run(connection.look(seconds), seconds).document}

    request["AgentCard"] = through_gateway("a2a_discover", conduct, {"target": card})["card"]
    agent = run(ask_center(url, token, request), seconds)
    output.show({"space_id": space_id, **described(agent)}, _text)


def _text(agent: dict[str, Any]) -> str:
    from agentengine_cli.a2a_text import field

    labels = {
        "space_id": "Space", "agent_id": "Agent", "version_id": "Version", "source": "Source", "name": "Name",
        "route_kind": "Route", "callable": "Callable", "blocked_reason": "Blocked",
    }  # fmt: skip
    shown = agent | {"callable": "yes" if agent["callable"] else "no"}
    return "".join(field(label, shown[key]) for key, label in labels.items() if shown[key])


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise typer.BadParameter(f"{file} cannot be read: {why}", param_hint="--credential") from error


app = agent_app(register)
