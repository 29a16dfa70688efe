"""How an agent is served. Importing this costs nothing: the command line has its defaults from here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ksadk.a2a.callers import BearerFile, Network


@dataclass(frozen=True)
class Limits:
    """`requests` at once, `body` in bytes, `depth` of JSON in it, and `running` tasks at work at once."""

    requests: int = 1000
    body: int = 16 * 1024 * 1024
    depth: int = 64
    running: int = 1000


@dataclass(frozen=True)
class ServerOptions:
    """How an agent is served.

    include_reasoning: whether callers see the agent's reasoning.
    bearer: who may call; None is everybody that reaches the server.
    allowed_hosts: names under which it is called, beside loopback and the card's; `any_address` for a server
        that listens on all of the machine's addresses.
    trusted_edge: where headers that state an identity are believed from.
    behind_gateway: whether something before it decides under which names and for whose pages it is called.
    remote_approvals: whether an authenticated caller may decide about approval requests.
    grace: seconds that agents at work have to finish when the server stops.
    """

    include_reasoning: bool = True
    bearer: BearerFile | None = None
    allowed_hosts: tuple[str, ...] = ()
    any_address: bool = False
    trusted_edge: tuple[Network, ...] = ()
    behind_gateway: bool = False
    limits: Limits = field(default_factory=Limits)
    remote_approvals: bool = False
    grace: float = 10.0
