"""Agents of other companies, called through a Space: what they see of the platform is nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from space_wire import (
    AUDIENCES,
    EXTERNAL,
    PERMIT,
    SPACE,
    Platform,
    answer_data,
    http,
    jwt,
    platform,
    put_tokens,
)
from vendor import NAME, URL, Internet, Vendor, answer, at, vendor

from ksadk.a2a.space.client import A2ASpaceClient
from ksadk.a2a.space.tasks import SpaceTask
from ksadk.errors import KsadkError

ANSWER = answer(
    b'{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"remote-task-1","contextId":"remote-context-1",'
    b'"status":{"state":"TASK_STATE_COMPLETED"}}}}',
    "200 OK",
    "Set-Cookie: tracking=1",
)


def prepared(kind: str = "external_public", url: str = URL) -> bytes:
    """The answer that prepares a call of the external agent that is listed."""
    agents = answer_data("list_agents")["Agents"]
    listed = next(agent for agent in agents if agent["A2AAgentId"] == EXTERNAL)
    data = answer_data("prepare_call") | {"CredentialHandle": "cred-1"}
    data["Target"] = {key: listed[key] for key in ("A2AAgentId", "VersionId", "CardSha256")}
    data["Route"] = {
        "Kind": kind,
        "Interface": {"Url": url, "ProtocolBinding": "JSONRPC", "ProtocolVersion": "1.0"},
    }
    return http(json.dumps({"Code": 0, "Message": "", "RequestId": "r", "Data": data}))


@dataclass
class World:
    """A platform, a vendor, and what is between them."""

    platform: Platform
    vendor: Vendor
    internet: Internet
    tokens: Path

    async def send(self, text: str = "hello", *, enabled: bool = True, **options: Any) -> SpaceTask:
        """Discover, and call the external agent."""
        control_plane = self.platform.control_plane(self.tokens)
        given: dict[str, Any] = {"external_transport": self.internet.transport()} | options
        async with A2ASpaceClient(SPACE, control_plane, egress_enabled=enabled, **given) as client:
            assert EXTERNAL in [agent.agent_id for agent in await client.discover()]
            return await client.send_message(EXTERNAL, text)

    def refused(self, text: str = "hello", **options: Any) -> KsadkError:
        with pytest.raises(KsadkError) as error:
            asyncio.run(self.send(text, **options))
        return error.value

    def asked(self) -> list[str]:
        """What the platform was asked for after the agents were listed."""
        return self.platform.operations()[1:]


@contextmanager
def world(directory: Path, prepare: bytes | None = None) -> Iterator[World]:
    answers: dict[str, Any] = {
        "ListA2ASpaceAgents": "list_agents",
        "PrepareA2ACall": prepare or prepared(),
        "ResolveA2ACredential": "resolve_credential",
        "BindA2ARemoteTask": "bind",
        "AppendA2ATaskEvents": "append_events",
    }
    tokens = put_tokens(directory / "tokens")
    with platform(**answers) as server, vendor(ANSWER) as agent:
        yield World(server, agent, at(agent), tokens)


def secrets() -> list[bytes]:
    return [PERMIT.encode(), *(jwt(audience).encode() for audience in AUDIENCES)]


def test_an_external_agent_sees_its_own_credential_and_none_of_the_platforms(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        task = asyncio.run(here.send())
        assert task.status == "completed"
        assert here.asked() == [
            "PrepareA2ACall", "ResolveA2ACredential", "BindA2ARemoteTask", "AppendA2ATaskEvents",
        ]  # fmt: skip
        (request,) = here.vendor.requests
    assert request.startswith(b"POST /a2a?tenant=t-1 HTTP/1.1\r\n")
    assert b"\r\nX-Api-Key: vendor-key-1\r\n" in request
    assert b"\r\nCookie: session=vendor-cookie-1\r\n" in request
    assert [secret for secret in secrets() if secret in request] == []
    assert b"authorization" not in request.lower()
    assert b"x-agentengine" not in request.lower()


def test_with_egress_off_no_credential_is_resolved(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        error = here.refused(enabled=False)
        assert (error.code, isinstance(error, PermissionError)) == ("A2A_PUBLIC_EGRESS_DISABLED", True)
        assert here.asked() == ["PrepareA2ACall"]
    assert (here.internet.asked, here.vendor.connections) == ([], 0)


def test_without_a_transport_an_external_agent_is_not_called_some_other_way(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        assert here.refused(external_transport=None).code == "A2A_EGRESS_TRANSPORT_REQUIRED"
        assert here.asked() == ["PrepareA2ACall"]
    assert here.vendor.connections == 0


def test_an_agent_in_a_private_network_is_not_called_over_the_public_one(tmp_path: Path) -> None:
    with world(tmp_path, prepared("external_vpc")) as here:
        assert here.refused().code == "A2A_VPC_EGRESS_DIALER_REQUIRED"
        assert here.asked() == ["PrepareA2ACall"]
    assert (here.internet.asked, here.vendor.connections) == ([], 0)


def test_an_external_agent_that_is_prepared_as_hosted_gets_nothing(tmp_path: Path) -> None:
    with world(tmp_path, prepared("hosted_gateway")) as here:
        assert here.refused().error_type == "A2A_CONTROL_PLANE_INVALID_RESPONSE"
    assert here.vendor.connections == 0


def test_a_hosted_route_to_a_vendors_address_gets_nothing(tmp_path: Path) -> None:
    async def without_discovering() -> None:
        control_plane = here.platform.control_plane(here.tokens)
        async with A2ASpaceClient(SPACE, control_plane) as client:
            await client.send_message(EXTERNAL, "hello")

    with world(tmp_path, prepared("hosted_gateway", f"https://{NAME}/a2a")) as here:
        with pytest.raises(KsadkError) as refused:
            asyncio.run(without_discovering())
        assert refused.value.code == "A2A_GATEWAY_ORIGIN_REFUSED"
    assert here.vendor.connections == 0


@pytest.mark.parametrize("audience", [*AUDIENCES, None])
def test_a_message_that_quotes_a_token_or_the_permit_is_not_sent(
    tmp_path: Path, audience: str | None
) -> None:
    secret = PERMIT if audience is None else jwt(audience)
    with world(tmp_path) as here:
        error = here.refused(f"the key is {secret}.")
        assert error.code == "A2A_PLATFORM_TOKEN_REFUSED"
        assert secret not in str(error.to_result())
    assert here.vendor.requests == []
