"""A center on a real port, with a clock and ids of the test's own; and what tests ask it with."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from ksadk.a2a.callers import BearerFile
from ksadk.a2a.card import build_agent_card
from ksadk.a2a.center.app import ACTIONS_PATH, Center, CenterOptions
from ksadk.a2a.center.database import open_database
from ksadk.a2a.center.event_log import Patience
from ksadk.a2a.center.registering import ADMIN_PATH
from ksadk.a2a.center.workload_tokens import TokenIssuer, Workload
from ksadk.a2a.space.tokens import Audience
from ksadk.listening import listen

SPACE = "space-demo"
ADMIN = "test-admin-token-0123456789"
ANN = Workload("runtime-ann", "2000003333")
BOB = Workload("runtime-bob", "2000003333")
AUDIENCE: dict[str, Audience] = {
    "ListA2ASpaceAgents": "a2a-registry",
    "PrepareA2ACall": "a2a-registry",
    "PrepareA2ATaskOperation": "a2a-registry",
    "BindA2ARemoteTask": "a2a-task-sink",
    "AppendA2ATaskEvents": "a2a-task-sink",
    "ResolveA2ACredential": "credential-broker",
}


@dataclass
class Clock:
    """Seconds since 1970, which go on when the test says so."""

    now: float = 1_796_025_600.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Ids:
    """Gives ids from a list while it lasts, then counts."""

    given: list[str] = field(default_factory=list)
    count: int = 0

    def __call__(self, prefix: str) -> str:
        if self.given:
            return self.given.pop(0)
        self.count += 1
        return f"{prefix}{self.count:032x}"


class Served:
    """A center that is served."""

    def __init__(self, center: Center, url: str, clock: Clock) -> None:
        self.center = center
        self.url = url
        self.clock = clock
        self.http = httpx.Client(base_url=url, timeout=20, trust_env=False, verify=False)

    @property
    def issuer(self) -> TokenIssuer:
        return self.center.issuer

    def bearer(self, audience: Audience, workload: Workload = ANN) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.issuer.issue(workload, audience)}"}

    def post(self, action: str, body: Any, workload: Workload = ANN) -> httpx.Response:
        headers = self.bearer(AUDIENCE[action], workload)
        return self.http.post(f"{ACTIONS_PATH}/{action}", json=body, headers=headers)

    def ask(self, action: str, body: Any, workload: Workload = ANN) -> Any:
        """The Data of an answer that is none of an error."""
        response = self.post(action, body, workload)
        envelope = response.json()
        assert (response.status_code, envelope["Code"]) == (200, 0), envelope
        return envelope["Data"]

    def refused(self, action: str, body: Any, workload: Workload = ANN) -> tuple[int, str, str]:
        """Status, ErrorCode and Field of an answer that is one of an error."""
        response = self.post(action, body, workload)
        envelope = response.json()
        assert envelope["Code"] == response.status_code != 200, envelope
        return envelope["Code"], envelope["Data"]["ErrorCode"], envelope["Data"]["Field"]

    def register(
        self, card: dict[str, Any], route: str = "hosted_gateway", token: str = ADMIN, **more: Any
    ) -> Any:
        """The envelope that a registration is answered with."""
        body = {"A2ASpaceId": SPACE, "AgentCard": card, "RouteKind": route, **more}
        headers = {"Authorization": f"Bearer {token}"}
        return self.http.post(f"{ADMIN_PATH}/RegisterA2AAgent", json=body, headers=headers).json()

    def registered(self, name: str = "research-agent", url: str = "http://127.0.0.1:9", **more: Any) -> Any:
        """The agent as the Space has it."""
        envelope = self.register(card_of(name, url), **more)
        assert envelope["Code"] == 0, envelope
        return envelope["Data"]

    def call(self, agent_id: str, message: Any, token: str = "token-1", **more: Any) -> Any:
        """What is prepared for a first message."""
        return self.ask("PrepareA2ACall", call_of(agent_id, message, token), **more)


def card_of(name: str, url: str, **more: Any) -> dict[str, Any]:
    return build_agent_card(name=name, base_url=url, **{"skills": ["research"], **more})


def call_of(agent_id: str, message: Any, token: str = "token-1") -> dict[str, Any]:
    return {
        "A2ASpaceId": SPACE, "TargetA2AAgentId": agent_id, "MessageId": message["messageId"],
        "MessageSha256": sha256_of(message), "IdempotencyToken": token,
    }  # fmt: skip


def sha256_of(message: Any) -> str:
    """The hash as the wire defines it."""
    import hashlib

    text = json.dumps(message, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def options_of(directory: Path, url: str, **more: Any) -> CenterOptions:
    admins = directory / "admins"
    directory.mkdir(parents=True, exist_ok=True)
    admins.write_text(f"admin {ADMIN}\n")
    return CenterOptions(directory, url, BearerFile(admins), **more)


@contextmanager
def serving(
    directory: Path,
    *,
    dsn: str = "sqlite:///center.db",
    clock: Clock | None = None,
    ids: Ids | None = None,
    patience: Patience | None = None,
    port: int = 0,
    **more: Any,
) -> Iterator[Served]:
    """A center with what is in a directory."""
    clock = clock or Clock()
    with listen("127.0.0.1", port) as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        options = options_of(directory, url, patience=patience or Patience(), **more)
        database = open_database(dsn, directory=directory)
        center = Center(database, options, clock=clock, make_id=ids or Ids())
        http = uvicorn.Server(uvicorn.Config(center.app, log_config=None, lifespan="on", server_header=False))
        thread = threading.Thread(target=asyncio.run, args=(http.serve(sockets=[sock]),))
        thread.start()
        served = Served(center, url, clock)
        try:
            while not http.started:
                assert thread.is_alive(), "the center did not start"
                threading.Event().wait(0.005)
            yield served
        finally:
            http.should_exit = True
            with contextlib.closing(served.http):
                thread.join(20)
            assert not thread.is_alive(), "the center did not stop"
