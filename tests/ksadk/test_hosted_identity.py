"""Who may call a hosted runtime: the identity that its gateway has verified, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, astuple, replace
from typing import Any

import pytest
from a2a.types import AgentSkill
from hosted_runtime import ANN, RUNTIME, Gateway, probe, signed
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from ksadk.a2a.card import CardError
from ksadk.a2a.hosted.contexts import A2AOwnerContextBuilder
from ksadk.a2a.hosted.identity import LONGEST_OWNER, A2AIngressIdentity, InvalidIdentity, caller_of
from ksadk.a2a.hosted.metadata import InvalidRuntimeMetadata
from ksadk.a2a.hosted.verifiers import HostedAdmission
from ksadk.a2a.stores.base import default_owner_resolver
from ksadk.errors import KsadkError


class Sneaky(str):
    """A text that says it equals everything."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


GOOD: list[dict[str, Any]] = [
    {},
    {"tenant_id": "t"},
    {"caller_principal_type": "service", "authn_mode": "gateway_service"},
    {"caller_principal_type": "runtime", "authn_mode": "workload_permit", "caller_runtime_id": "rt-2"},
    {"caller_principal_id": "x" * 128},
]
BAD: list[dict[str, Any]] = [
    {"account_id": ""}, {"account_id": " acc-1"}, {"account_id": "acc\n1"}, {"account_id": None},
    {"account_id": "a" * 65}, {"account_id": Sneaky("x")}, {"tenant_id": None}, {"tenant_id": " "},
    {"caller_principal_id": ""}, {"caller_principal_id": "x" * 129}, {"caller_principal_type": "admin"},
    {"caller_principal_type": "service"}, {"authn_mode": "gateway_service"}, {"authn_mode": "none"},
    {"caller_principal_type": "runtime", "authn_mode": "workload_permit"},
    {"caller_principal_type": "runtime", "authn_mode": "workload_permit", "caller_runtime_id": ""},
    {"caller_runtime_id": "rt-2"}, {"target_agent_id": "agent-1"}, {"target_agent_id": ""},
    {"target_runtime_id": ""}, {"target_a2a_agent_id": "x" * 65},
    {"account_id": "é" * 64, "caller_principal_id": "é" * 64},
]  # fmt: skip


@pytest.mark.parametrize("fields", GOOD, ids=str)
def test_an_identity_is_one_that_a_gateway_can_have_verified(fields: dict[str, Any]) -> None:
    identity = replace(ANN, **fields)
    assert A2AIngressIdentity(**asdict(identity)) == identity


@pytest.mark.parametrize("fields", BAD, ids=lambda fields: ascii(fields)[:60])
def test_what_no_gateway_can_have_verified_is_no_identity(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidIdentity) as raised:
        replace(ANN, **fields)
    assert raised.value.code == "A2A_INVALID_IDENTITY"
    assert "aaa" not in str(raised.value) and "xxx" not in str(raised.value)


IDS = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from("/%"), min_size=1, max_size=12)


@given(st.tuples(IDS, IDS | st.just(""), IDS), st.tuples(IDS, IDS | st.just(""), IDS))
def test_two_callers_never_own_the_same_tasks(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    first, second = (
        replace(ANN, account_id=account, tenant_id=tenant, caller_principal_id=principal)
        for account, tenant, principal in (one, other)
    )
    assert (first.owner == second.owner) == (one == other)
    account, tenant, principal = one
    assert astuple(caller_of(first.owner)) == (account, tenant, ANN.caller_principal_type, principal)
    assert first.owner.count("/") == 3 and len(first.owner) <= LONGEST_OWNER


def request_of(headers: dict[str, str], client: tuple[str, int] = ("127.0.0.1", 1)) -> Request:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": raw, "method": "POST", "path": "/a2a/jsonrpc",
                    "query_string": b"", "client": client, "scheme": "http"})  # fmt: skip


def admitted(request: Request, *, card: bool = False, verifier: Any = None, seconds: float = 10) -> Any:
    gateway = verifier or Gateway()
    admission = HostedAdmission(RUNTIME, gateway, gateway, verify_seconds=seconds)
    return asyncio.run(admission.admit(request, card=card))


OTHERS = [
    {"account_id": "acc-2"}, {"account_id": "ACC-1"}, {"tenant_id": "t"}, {"target_agent_id": "ar-2"},
    {"target_agent_id": "ar-1x"}, {"target_runtime_id": "rt-2"}, {"target_runtime_id": "RT-1"},
    {"target_a2a_agent_id": "a2a-agent-2"}, {"target_a2a_agent_id": "a2a-agent-10"},
]  # fmt: skip


@pytest.mark.parametrize("fields", OTHERS, ids=str)
@pytest.mark.parametrize("card", [True, False])
def test_who_was_let_through_to_another_target_does_not_come_in(fields: dict[str, str], card: bool) -> None:
    with pytest.raises(Exception, match=r"another account|signed-probe"):
        admitted(request_of(signed(replace(ANN, **fields))), card=card)
    assert admitted(request_of(signed(ANN)), card=card).user.user_name == "acc-1//user/ann"


def test_an_empty_tenant_is_a_tenant_of_its_own() -> None:
    metadata = replace(RUNTIME, tenant_id="t")
    assert RUNTIME.is_target_of(ANN) and not metadata.is_target_of(ANN)
    assert metadata.is_target_of(replace(ANN, tenant_id="t"))
    assert not RUNTIME.is_target_of(replace(ANN, tenant_id="t"))


def raising(error: BaseException) -> Callable[[Any, Request], Any]:
    def verify(_: Any, __: Request) -> Any:
        raise error

    return verify


class Verifier:
    def __init__(self, verify: Callable[[Any, Request], Any]) -> None:
        self.verify = self.verify_probe = lambda request: verify(self, request)


async def hang(*_: Any) -> None:
    await asyncio.Event().wait()


async def late(*_: Any) -> A2AIngressIdentity:
    """Says who it is once its time is over."""
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return ANN


class Relative(A2AIngressIdentity):
    """An identity whose class is somebody else's."""


NOT_VERIFIED: list[Callable[[Any, Request], Any]] = [
    raising(ValueError("x")), raising(KeyError()), raising(RecursionError()), raising(KsadkError("x")),
    lambda *_: None, lambda *_: True, lambda *_: asdict(ANN), lambda *_: Relative(**asdict(ANN)), hang, late,
    lambda _, request: request.headers["x-none"], lambda _, request: asyncio.sleep(0),
]  # fmt: skip


@pytest.mark.parametrize("verify", NOT_VERIFIED)
def test_whatever_goes_wrong_in_a_verifier_lets_nobody_in(verify: Callable[[Any, Request], Any]) -> None:
    with pytest.raises(Exception):  # noqa: B017  # what a stranger raises
        admitted(request_of(signed(ANN)), verifier=Verifier(verify), seconds=0.02)


def test_a_verifier_cannot_read_the_body_nor_change_the_request() -> None:
    def verify(_: Any, request: Request) -> A2AIngressIdentity:
        request.scope["path"] = "/elsewhere"
        request.scope["headers"].append((b"x", b"y"))
        request.scope["state"]["z"] = 1
        return ANN

    request = request_of({})
    admitted(request, verifier=Verifier(verify))
    assert request.scope["path"] == "/a2a/jsonrpc" and request.scope["headers"] == []
    assert request.scope["state"] == {"a2a_identity": ANN}

    async def reads(_: Any, request: Request) -> A2AIngressIdentity:
        await request.body()
        return ANN

    with pytest.raises(RuntimeError):
        admitted(request_of({}), verifier=Verifier(reads))


def test_a_probe_reads_the_card_and_nothing_else() -> None:
    assert admitted(request_of(probe()), card=True) is None
    for headers in (probe("rt-2"), {"x-signed-probe": "rt-1.0"}, {}):
        with pytest.raises(Exception, match=r"probe|signed"):
            admitted(request_of(headers), card=True)
    with pytest.raises(KeyError):
        admitted(request_of(probe()))


PROBES = [(None, True), (True, True), (ANN, True), (False, False), (0, False), ("", False), (1, False),
          (replace(ANN, target_runtime_id="rt-2"), False)]  # fmt: skip


@pytest.mark.parametrize(("said", "is_probe"), PROBES, ids=repr)
def test_a_probe_verifier_says_yes_or_it_is_no_probe(said: Any, is_probe: bool) -> None:
    verifier = Verifier(lambda *_: said)
    verifier.verify = lambda _: 1 / 0
    if is_probe:
        assert admitted(request_of({}), card=True, verifier=verifier) is None
        return
    with pytest.raises(Exception, match=r"identity|another"):
        admitted(request_of({}), card=True, verifier=verifier)


BAD_METADATA: list[dict[str, Any]] = [
    {"account_id": ""}, {"account_id": "a" * 65}, {"agent_id": "agent"}, {"agent_id": "ar-" + "x" * 62},
    {"runtime_id": None}, {"a2a_agent_id": "a\n"}, {"name": "x" * 129}, {"name": " "},
    {"description": "x" * 1025}, {"version": "1" * 65}, {"version": ""}, {"skills": "general"},
    {"skills": [f"s{number}" for number in range(101)]}, {"base_url": "http://agent.example.com"},
    {"base_url": "https://agent.example.com/x"}, {"base_url": "https://agent.example.com?x"},
    {"base_url": "https://agent.example.com#x"}, {"base_url": "https://agent.example.com?"},
    {"base_url": "https://u@agent.example.com"}, {"base_url": "ftp://x"}, {"base_url": "agent.example.com"},
    {"base_url": "https://0.0.0.0"}, {"base_url": "https://"}, {"base_url": "https://x:99999"},
    {"base_url": "https://x/ "}, {"base_url": "https://x//"},
]  # fmt: skip


@pytest.mark.parametrize("fields", BAD_METADATA, ids=lambda fields: ascii(fields)[:60])
def test_metadata_that_no_runtime_has_is_told_at_once(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRuntimeMetadata, match=next(iter(fields))) as raised:
        replace(RUNTIME, **fields)
    assert raised.value.code == "A2A_INVALID_RUNTIME_METADATA"


def test_skills_are_texts_dicts_or_the_sdk_s_own() -> None:
    skills = ["research", {"id": "sum"}, AgentSkill(id="plan", name="Plan", description="d", tags=["t"])]
    made = replace(RUNTIME, skills=skills, base_url="https://agent.example.com/")
    assert [skill["name"] for skill in made.card()["skills"]] == ["Research", "Sum", "Plan"]
    assert made.card()["supportedInterfaces"][0]["url"] == "https://agent.example.com/a2a/jsonrpc"
    with pytest.raises(CardError):
        replace(RUNTIME, skills=[{"name": "no id"}])


FORGED = {"x-ksc-account-id": "alice", "x-runtime-id": "rt-9", "x-signed-identity": "x.y"}
OWNERS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "127.0.0.1", "anonymous"),
    ({"trusted_edge": ["10.0.0.0/8"]}, "127.0.0.1", "anonymous"),
    ({"trusted_edge": ["127.0.0.1"]}, "127.0.0.1", "alice/rt-9"),
    ({"trusted_edge": ["127.0.0.1"], "account_headers": ["X-Who"]}, "127.0.0.1", "rt-9"),
    ({"trusted_edge": ["127.0.0.1"]}, "testclient", "anonymous"),
    ({"identity_resolver": lambda _: ANN}, "127.0.0.1", "acc-1//user/ann"),
    ({"identity_resolver": lambda _: ANN, "allow_unverified_identity": False}, "10.1.1.1", "acc-1//user/ann"),
    ({"identity_resolver": lambda _: None}, "127.0.0.1", "anonymous"),
]


@pytest.mark.parametrize(("given_", "client", "owner"), OWNERS)
def test_headers_state_an_identity_only_for_a_trusted_edge(
    given_: dict[str, Any], client: str, owner: str
) -> None:
    context = A2AOwnerContextBuilder(**given_).build(request_of(FORGED, (client, 1)))
    assert default_owner_resolver(context) == owner


UNVERIFIED: list[dict[str, Any]] = [
    {}, {"trusted_edge": ["127.0.0.1"]}, {"identity_resolver": lambda _: None},
    {"identity_resolver": lambda _: asdict(ANN)}, {"identity_resolver": lambda _: "alice"},
]  # fmt: skip


@pytest.mark.parametrize("given_", UNVERIFIED)
def test_where_callers_must_be_verified_nothing_else_will_do(given_: dict[str, Any]) -> None:
    builder = A2AOwnerContextBuilder(allow_unverified_identity=False, **given_)
    with pytest.raises(KsadkError) as raised:
        builder.build(request_of(FORGED))
    assert raised.value.code == "A2A_INVALID_IDENTITY"


def test_what_stands_before_the_routes_may_have_verified_the_caller() -> None:
    request = request_of(FORGED)
    request.scope["state"] = {"a2a_identity": ANN}
    context = A2AOwnerContextBuilder(allow_unverified_identity=False).build(request)
    assert default_owner_resolver(context) == ANN.owner
    request.scope["state"] = {"a2a_identity": {"account_id": "acc-1"}}
    with pytest.raises(KsadkError):
        A2AOwnerContextBuilder().build(request)
