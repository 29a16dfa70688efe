"""Cards that agents are registered by, and the cards that a Space publishes of them.

A hosted agent's published card names the center's gateway instead of the agent itself; an external agent's is
the one that it was registered by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ksadk.a2a.card import JSONRPC_PATH, PROTOCOL_VERSION, REST_PATH
from ksadk.a2a.center.refusal import invalid
from ksadk.a2a.check import check_card
from ksadk.a2a.remote_card import BINDINGS
from ksadk.a2a.space.fields import InvalidPayload
from ksadk.a2a.space.gateway import Origin, origin_of
from ksadk.a2a.space.ids import MAX_ID, is_id
from ksadk.a2a.space.message_rules import canonical_json
from ksadk.a2a.space.models import RouteKind, read_agent_card
from ksadk.a2a.wire import Interface

GATEWAY_PATHS = {"JSONRPC": JSONRPC_PATH, "HTTP+JSON": REST_PATH}

_OF_THE_AGENT_ITSELF = ("signatures", "securitySchemes", "securityRequirements")
"""What no longer holds where the gateway is in between: it was signed otherwise, and asks for other proof."""


def check_registrable(card: Mapping[str, Any], route_kind: RouteKind) -> None:
    """Refuse a card that clients of the Space could not use."""
    for finding in check_card(card):
        if finding.severity == "error":
            raise invalid("AgentCard", f"{finding.place or 'the card'}: {finding.message}")
    try:
        read_agent_card(card)
    except InvalidPayload as error:
        raise invalid("AgentCard", str(error)) from error
    if not is_id(card["name"]):
        raise invalid("AgentCard", f"the card's name is not of 1 to {MAX_ID} printable characters")
    if not interfaces(card, route_kind):
        secure = " over https" if route_kind != "hosted_gateway" else ""
        raise invalid(
            "AgentCard",
            f"the card offers no interface{secure} that is {' or '.join(BINDINGS)} of A2A {PROTOCOL_VERSION} "
            "and has no tenant",
        )


def interfaces(card: Mapping[str, Any], route_kind: RouteKind) -> list[Interface]:
    """The interfaces of a registered card that can be called, as it orders them."""
    schemes = ("https://",) if route_kind != "hosted_gateway" else ("https://", "http://")
    return [
        Interface(offered["url"], offered["protocolBinding"])
        for offered in card.get("supportedInterfaces", [])
        if offered.get("protocolBinding") in BINDINGS
        and offered.get("protocolVersion") == PROTOCOL_VERSION
        and not offered.get("tenant")
        and offered["url"].startswith(schemes)
    ]


def origins(card: Mapping[str, Any], route_kind: RouteKind) -> frozenset[Origin]:
    """Where what an agent is shown of its owner may go."""
    return frozenset(origin_of(interface.url) for interface in interfaces(card, route_kind))


def published(card: Mapping[str, Any], route_kind: RouteKind, agent_url: str) -> dict[str, Any]:
    """The card as the Space shows it. `agent_url` is the agent's address at the gateway."""
    if route_kind != "hosted_gateway":
        return dict(card)
    bindings = dict.fromkeys(interface.binding for interface in interfaces(card, route_kind))
    shown = [
        {
            "url": agent_url + GATEWAY_PATHS[binding],
            "protocolBinding": binding,
            "protocolVersion": PROTOCOL_VERSION,
        }
        for binding in bindings
    ]
    kept = {key: value for key, value in card.items() if key not in _OF_THE_AGENT_ITSELF}
    return kept | {"supportedInterfaces": shown}


def card_sha256(card: Mapping[str, Any]) -> str:
    """The hash of a card: of its canonical JSON."""
    return hashlib.sha256(canonical_json(card)).hexdigest()
