"""Which agents the Spaces have: registered by their cards, with a version for each card of an agent."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ksadk.a2a.center import cards
from ksadk.a2a.center.credentials import Credentials
from ksadk.a2a.center.database import Database, Row, Transaction
from ksadk.a2a.center.refusal import Refusal, not_found, version_changed
from ksadk.a2a.space.gateway import Origin
from ksadk.a2a.space.models import Credential, RouteKind, SpaceAgent
from ksadk.a2a.wire import Interface

MAX_AGENTS = 1000
"""Of one Space."""

_AGENTS = """SELECT a.*, v.card FROM a2a_center_agents a
    JOIN a2a_center_versions v ON v.version_id = a.version_id WHERE """


def new_id(prefix: str) -> str:
    """An id as the platform makes them."""
    return prefix + uuid.uuid4().hex


@dataclass(frozen=True)
class Agent:
    """An agent of a Space, in one version. `card` is the one it was registered by."""

    agent_id: str
    space_id: str
    version_id: str
    route_kind: RouteKind
    blocked_reason: str
    credential_handle: str | None
    registered_at: int
    card: Mapping[str, Any]

    @classmethod
    def of_row(cls, row: Row) -> Agent:
        """An agent of a row that also has the version's card."""
        return cls(
            row["agent_id"], row["space_id"], row["version_id"], row["route_kind"], row["blocked_reason"],
            row["credential_handle"], row["registered_at"], json.loads(row["card"]),
        )  # fmt: skip

    def published(self, base_url: str) -> dict[str, Any]:
        """Its card as the Space shows it."""
        return cards.published(self.card, self.route_kind, self._url(base_url))

    def interface(self, base_url: str) -> Interface:
        """Where clients call it: the first interface of the published card that can be called."""
        return cards.interfaces(self.published(base_url), self.route_kind)[0]

    def upstream(self, binding: str) -> str | None:
        """Where the gateway reaches it in that binding; None where it does not offer that."""
        offered = cards.interfaces(self.card, self.route_kind)
        return next((it.url for it in offered if it.binding == binding), None)

    @property
    def origins(self) -> frozenset[Origin]:
        """Where what it is shown of its owner may go."""
        return cards.origins(self.card, self.route_kind)

    def listed(self, base_url: str) -> SpaceAgent:
        """The agent as clients know it."""
        card = self.published(base_url)
        return SpaceAgent(
            self.agent_id, self.version_id, cards.card_sha256(card), card,
            not self.blocked_reason, self.blocked_reason, self.route_kind,
        )  # fmt: skip

    def _url(self, base_url: str) -> str:
        return f"{base_url}/agents/{self.agent_id}"


@dataclass(frozen=True)
class Registration:
    """What an owner registers. credential: None leaves what there is."""

    space_id: str
    card: Mapping[str, Any]
    route_kind: RouteKind
    blocked_reason: str = ""
    credential: Credential | None = None


class Registry:
    """The agents of all Spaces. A Space is there once it has an agent.

    clock: seconds since 1970. make_id: an id from its prefix.
    """

    def __init__(
        self,
        database: Database,
        credentials: Credentials,
        *,
        clock: Callable[[], float] = time.time,
        make_id: Callable[[str], str] = new_id,
    ) -> None:
        self._database = database
        self._credentials = credentials
        self._clock = clock
        self._make_id = make_id

    async def register(self, registration: Registration) -> Agent:
        """Add an agent, or a version of the one that has the card's name in that Space; the same card again
        is the same version. `Refusal` where the card cannot be used."""
        cards.check_registrable(registration.card, registration.route_kind)
        given = registration.credential
        handle = self._credentials.keep(given) if given and given != Credential() else None
        try:
            async with self._database.transaction() as transaction:
                before, agent = await self._registered(transaction, registration, handle)
        except BaseException:
            if handle:
                self._credentials.forget(handle)
            raise
        if before and before != agent.credential_handle:
            self._credentials.forget(before)
        return agent

    async def _registered(
        self, transaction: Transaction, registration: Registration, handle: str | None
    ) -> tuple[str | None, Agent]:
        """The handle that there was before, and the agent as it is now."""
        space_id, name = registration.space_id, registration.card["name"]
        found = await transaction.run(
            _AGENTS + "a.space_id = :space_id AND a.name = :name", space_id=space_id, name=name
        )
        before = Agent.of_row(found[0]) if found else None
        if before is None:
            await self._check_room(transaction, space_id)
        if before and registration.credential is None:
            handle = _kept(before, registration)
        agent_id = before.agent_id if before else self._make_id("a2a-agent-")
        now = int(self._clock() * 1000)
        version_id = await self._version(transaction, agent_id, registration.card, now)
        await transaction.run(
            """INSERT INTO a2a_center_agents (agent_id, space_id, name, version_id, route_kind,
                blocked_reason, credential_handle, registered_at)
            VALUES (:agent_id, :space_id, :name, :version_id, :route_kind, :blocked, :handle, :now)
            ON CONFLICT (agent_id) DO UPDATE SET version_id = excluded.version_id,
                route_kind = excluded.route_kind, blocked_reason = excluded.blocked_reason,
                credential_handle = excluded.credential_handle""",
            agent_id=agent_id, space_id=space_id, name=name, version_id=version_id, handle=handle, now=now,
            route_kind=registration.route_kind, blocked=registration.blocked_reason,
        )  # fmt: skip
        agent = await self.agent(transaction, agent_id)
        assert agent is not None
        return before.credential_handle if before else None, agent

    async def _check_room(self, transaction: Transaction, space_id: str) -> None:
        counted = await transaction.run(
            "SELECT count(*) AS agents FROM a2a_center_agents WHERE space_id = :space_id", space_id=space_id
        )
        if counted[0]["agents"] >= MAX_AGENTS:
            raise Refusal(
                409, "A2A_SPACE_FULL", f"a Space has at most {MAX_AGENTS} agents", field="A2ASpaceId"
            )

    async def _version(
        self, transaction: Transaction, agent_id: str, card: Mapping[str, Any], now: int
    ) -> str:
        sha256 = cards.card_sha256(card)
        known = await transaction.run(
            "SELECT version_id FROM a2a_center_versions WHERE agent_id = :agent_id AND card_sha256 = :sha256",
            agent_id=agent_id, sha256=sha256,
        )  # fmt: skip
        if known:
            return str(known[0]["version_id"])
        version_id = self._make_id("a2a-version-")
        await transaction.run(
            """INSERT INTO a2a_center_versions (version_id, agent_id, card_sha256, card, registered_at)
            VALUES (:version_id, :agent_id, :sha256, :card, :now)""",
            version_id=version_id, agent_id=agent_id, sha256=sha256, card=json.dumps(card), now=now,
        )  # fmt: skip
        return version_id

    async def agents(self, space_id: str) -> list[Agent]:
        """The agents of a Space, the one that was registered first first. `Refusal` where there is no such
        Space."""
        async with self._database.transaction() as transaction:
            rows = await transaction.run(
                _AGENTS + "a.space_id = :space_id ORDER BY a.registered_at, a.agent_id", space_id=space_id
            )
        if not rows:
            raise not_found("space", "A2ASpaceId", space_id)
        return [Agent.of_row(row) for row in rows]

    async def spaces(self) -> list[str]:
        """The ids of the Spaces."""
        async with self._database.transaction() as transaction:
            rows = await transaction.run("SELECT DISTINCT space_id FROM a2a_center_agents ORDER BY space_id")
        return [row["space_id"] for row in rows]

    async def credential_handles(self) -> frozenset[str]:
        """The handles of the credentials that agents have."""
        async with self._database.transaction() as transaction:
            rows = await transaction.run(
                "SELECT credential_handle FROM a2a_center_agents WHERE credential_handle IS NOT NULL"
            )
        return frozenset(row["credential_handle"] for row in rows)

    async def agent(
        self, transaction: Transaction, agent_id: str, version_id: str | None = None
    ) -> Agent | None:
        """An agent in its version of now, or in the one that is named: without a credential where the agent
        has moved since, as that is for another address. `Refusal` where it is called otherwise now."""
        rows = await transaction.run(_AGENTS + "a.agent_id = :agent_id", agent_id=agent_id)
        if not rows:
            return None
        now = Agent.of_row(rows[0])
        if version_id in (None, now.version_id):
            return now
        (version,) = await transaction.run(
            "SELECT version_id, card FROM a2a_center_versions WHERE version_id = :version_id",
            version_id=version_id,
        )
        named = Agent.of_row({**rows[0], **version})
        if not cards.interfaces(named.card, named.route_kind):
            raise version_changed(now.version_id)
        moved = not named.origins <= now.origins
        return replace(named, credential_handle=None) if moved else named


def _kept(before: Agent, registration: Registration) -> str | None:
    """The credential goes on, as long as it goes to where it went."""
    if before.credential_handle is None:
        return None
    now = cards.origins(registration.card, registration.route_kind)
    if not now <= before.origins or before.route_kind != registration.route_kind:
        raise Refusal(
            409,
            "A2A_CREDENTIAL_REQUIRED",
            "the agent has moved: register it with its credential, or with an empty one",
            field="Credential",
        )
    return before.credential_handle
