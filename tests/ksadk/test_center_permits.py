"""Permits: each lets one operation through, of one workload, on one task, for a short time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from centers import ANN, BOB, Clock, Served, card_of, serving
from hypothesis import given
from hypothesis import strategies as st
from space_wire import MESSAGE, part

from ksadk.a2a.center.permits import AUDIENCE, LIFETIME_MS, Permit, Permits
from ksadk.a2a.center.refusal import Refusal
from ksadk.a2a.center.workload_tokens import ISSUER, Signer, TokenIssuer

KEY = b"k" * 64
NOW = 1_796_025_600
PERMIT = Permit(
    "op-1", ANN.owner, "task-1", "agent-1", "version-1", "send_message", "a" * 64, NOW * 1000,
    NOW * 1000 + LIFETIME_MS,
)  # fmt: skip
VENDOR = card_of("vendor", "https://vendor.example.com")
KEYS = {"Headers": {"X-Api-Key": "vendor-key-1"}}


def permits(key: bytes = KEY, now: float = NOW) -> Permits:
    return Permits(Signer(key, clock=Clock(now)))


def refusal(text: str, owner: str = ANN.owner, now: float = NOW) -> str:
    with pytest.raises(Refusal) as error:
        permits(now=now).check(text, owner)
    assert error.value.status == 403
    return error.value.error_code


def test_a_permit_comes_back_as_it_was_signed_and_is_signed_the_same_again() -> None:
    text = permits().sign(PERMIT)
    assert permits().check(text, ANN.owner) == PERMIT
    assert permits().sign(PERMIT) == text


def test_a_permit_counts_until_it_expires() -> None:
    text = permits().sign(PERMIT)
    assert permits(now=NOW + LIFETIME_MS / 1000 - 0.001).check(text, ANN.owner) == PERMIT
    assert refusal(text, now=NOW + LIFETIME_MS / 1000) == "A2A_PERMIT_EXPIRED"


def test_a_permit_is_no_other_workloads() -> None:
    assert refusal(permits().sign(PERMIT), BOB.owner) == "A2A_PERMIT_INVALID"


def unsigned(claims: dict[str, Any]) -> str:
    return f"{part({'alg': 'none'})}.{part(claims)}."


def forged() -> dict[str, str]:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": ANN.owner, "exp": NOW + 300}
    issuer = TokenIssuer(Signer(KEY, clock=Clock(NOW)))
    return {
        "empty": "",
        "no JWT": "permit-3c1f.e2b8",
        "another key": permits(b"x" * 64).sign(PERMIT),
        "no signature": unsigned(claims),
        "another algorithm": jwt.encode(claims, KEY, "HS512"),
        "another issuer": jwt.encode(claims | {"iss": "somebody"}, KEY, "HS256"),
        "another audience": jwt.encode(claims | {"aud": "a2a-gateway"}, KEY, "HS256"),
        "a workload's token": issuer.issue(ANN, "a2a-gateway"),
        "no expiry": jwt.encode({k: v for k, v in claims.items() if k != "exp"}, KEY, "HS256"),
        "too long": "a." * 20_000,
        "odd text": "é.é.é",
    }


@pytest.mark.parametrize("kind", forged())
def test_what_was_not_signed_here_as_a_permit_is_none(kind: str) -> None:
    assert refusal(forged()[kind]) == "A2A_PERMIT_INVALID"


@given(place=st.integers(0, 10_000), letter=st.sampled_from("AQaz09-_."))
def test_a_permit_with_one_character_changed_is_none_or_says_the_same(place: int, letter: str) -> None:
    text = permits().sign(PERMIT)
    place %= len(text)
    changed = text[:place] + letter + text[place + 1 :]
    try:
        assert permits().check(changed, ANN.owner) == PERMIT
    except Refusal as error:
        assert error.error_code == "A2A_PERMIT_INVALID"


def test_a_permit_is_no_token_of_a_workload() -> None:
    with pytest.raises(Refusal) as error:
        TokenIssuer(Signer(KEY, clock=Clock(NOW))).workload(f"Bearer {permits().sign(PERMIT)}", "a2a-gateway")
    assert error.value.status == 401


@pytest.fixture
def center(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "center") as served:
        yield served


def external(center: Served) -> Any:
    """A prepared call of an agent whose owner has left a credential."""
    agent = center.register(VENDOR, "external_public", Credential=KEYS)["Data"]
    return center.call(agent["A2AAgentId"], MESSAGE)


def asked(call: Any, **instead: Any) -> dict[str, Any]:
    return {
        "A2ATaskId": call["A2ATaskId"], "CredentialHandle": call["CredentialHandle"],
        "CallPermit": call["CallPermit"], **instead,
    }  # fmt: skip


def test_a_credential_is_given_for_the_permit_of_its_agents_task_until_that_expires(center: Served) -> None:
    call = external(center)
    answer = center.ask("ResolveA2ACredential", asked(call))
    assert answer == {
        "Injection": {"Headers": {"X-Api-Key": "vendor-key-1"}, "Query": {}, "Cookies": {}},
        "ExpiresAt": call["CallPermitExpiresAt"],
    }
    center.clock.now += LIFETIME_MS / 1000
    assert center.refused("ResolveA2ACredential", asked(call))[:2] == (403, "A2A_PERMIT_EXPIRED")


def test_a_credential_is_given_for_nothing_else(center: Served) -> None:
    call = external(center)
    other = center.register(card_of("other", "https://o.example.com"), "external_public", Credential=KEYS)
    theirs = center.call(other["Data"]["A2AAgentId"], MESSAGE, "token-2")
    hosted = center.call(center.registered()["A2AAgentId"], MESSAGE, "token-3")
    refused = (403, "A2A_PERMIT_INVALID")
    for request in (
        asked(call, CredentialHandle=theirs["CredentialHandle"]),
        asked(call, A2ATaskId=theirs["A2ATaskId"]),
        asked(call, CallPermit=theirs["CallPermit"]),
        asked(call, CallPermit="permit"),
        asked(hosted, CredentialHandle=call["CredentialHandle"]),
    ):
        assert center.refused("ResolveA2ACredential", request)[:2] == refused
    assert center.refused("ResolveA2ACredential", asked(call), BOB)[:2] == refused
    assert center.ask("ResolveA2ACredential", asked(hosted))["Injection"]["Headers"] == {}


def test_the_credential_of_an_agent_that_has_moved_is_not_given_for_where_it_was(center: Served) -> None:
    call = external(center)
    moved = card_of("vendor", "https://elsewhere.example.com", description="Someone else's.")
    moved["name"] = VENDOR["name"]
    second = center.register(moved, "external_public", Credential={"Headers": {"X-Api-Key": "second-key"}})
    assert second["Data"]["A2AAgentId"] == call["Target"]["A2AAgentId"]
    again = center.call(call["Target"]["A2AAgentId"], MESSAGE)
    assert again == call | {"CredentialHandle": None}
    now = center.call(call["Target"]["A2AAgentId"], MESSAGE, "token-2")
    for handle in (call["CredentialHandle"], now["CredentialHandle"]):
        refused = center.refused("ResolveA2ACredential", asked(call, CredentialHandle=handle))
        assert refused[:2] == (403, "A2A_PERMIT_INVALID")
    assert center.ask("ResolveA2ACredential", asked(again))["Injection"]["Headers"] == {}
    given = center.ask("ResolveA2ACredential", asked(now))["Injection"]["Headers"]
    assert given == {"X-Api-Key": "second-key"}


def test_a_credential_is_given_no_more_once_its_agent_is_blocked(center: Served) -> None:
    call = external(center)
    center.register(VENDOR, "external_public", BlockedReason="it leaks")
    assert center.refused("ResolveA2ACredential", asked(call))[:2] == (403, "A2A_AGENT_BLOCKED")


def test_a_credential_stands_in_no_other_answer_and_in_no_table(center: Served, tmp_path: Path) -> None:
    call = external(center)
    listing = center.post("ListA2ASpaceAgents", {"A2ASpaceId": "space-demo", "IncludeBlocked": True})
    said = listing.text + json.dumps(call)
    assert "vendor-key-1" not in said
    for file in (tmp_path / "center").glob("center.db*"):
        assert b"vendor-key-1" not in file.read_bytes()


@pytest.mark.parametrize(
    "credential",
    [
        [],
        {"Header": {}},
        {"Headers": {"X Api": "k"}},
        {"Headers": {"X-Api-Key": "vendor-key-1\r\nX: y"}},
        {"Headers": {"X-Api-Key": "vendor-key-é"}},
        {"Headers": {"X-Api-Key": ""}},
        {"Headers": {"Content-Length": "1"}},
        {"Headers": {"Transfer-Encoding": "chunked"}},
        {"Headers": {"host": "vendor-key.example.com"}},
        {"Headers": {"A2A-Version": "0.3"}},
        {"Headers": {"X-Api-Key": "vendor-key-1", "x-api-key": "vendor-key-2"}},
        {"Headers": {"Cookie": "k=vendor-key-1"}, "Cookies": {"c": "v"}},
        {"Cookies": {"c": "vendor-key-1; d=e"}},
        {"Headers": {"X-Api-Key": 1}},
        {"Query": {"key": "vendor-key-" + "x" * 9000}},
        {"Cookies": {f"c{n}": "vendor-key-1" for n in range(40)}},
    ],
)
def test_a_credential_that_cannot_be_sent_is_refused_unquoted(center: Served, credential: Any) -> None:
    envelope = center.register(VENDOR, "external_public", Credential=credential)
    assert (envelope["Code"], envelope["Data"]["Field"]) == (400, "Credential")
    assert "vendor-key" not in json.dumps(envelope)
