"""A center is sent the literal bytes of the wire, and answers with the literal bytes of the wire.

In the files stand tokens, a permit, a handle, an ETag and a cursor that only the platform could have made;
the center's own take their places. Everything else is the same byte for byte.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from centers import ADMIN, ANN, AUDIENCE, BOB, SPACE, Ids, Served, call_of, card_of, serving, sha256_of
from hypothesis import given, settings
from hypothesis import strategies as st
from space_wire import (
    AGENT,
    BLOCKED,
    EXTERNAL,
    MESSAGE,
    TASK,
    VERSION,
    answer_bytes,
    answer_data,
    http,
    platform,
    request_bytes,
)

from ksadk.a2a.center.registering import ADMIN_PATH, register
from ksadk.a2a.space.errors import A2AControlPlaneError

EXTERNAL_VERSION = "a2a-version-11223344556647788899aabbccddeeff"
_OWN = re.compile(
    r'"(RequestId|CardSha256|ETag|NextCursor|CallPermit|CallPermitExpiresAt|CredentialHandle|ExpiresAt)"'
    r':"[^"]+"'
)


@pytest.fixture
def center(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "center", ids=Ids([AGENT, VERSION, EXTERNAL, EXTERNAL_VERSION])) as served:
        yield served


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The same for tests that change nothing: with a task of the files' id, too."""
    ids = Ids([AGENT, VERSION, EXTERNAL, EXTERNAL_VERSION, TASK])
    with serving(tmp_path_factory.mktemp("kept"), ids=ids) as served:
        with_agents(served).call(AGENT, MESSAGE)
        yield served


@pytest.fixture
def space(center: Served) -> Served:
    return with_agents(center)


def with_agents(center: Served) -> Served:
    """With the agents of the files, but for the blocked one."""
    hosted, vendor = (item["AgentCard"] for item in answer_data("list_agents")["Agents"])
    for interface in hosted["supportedInterfaces"]:
        interface["url"] = "http://127.0.0.1:9/a2a/jsonrpc"
    credential = {
        "Headers": {"X-Api-Key": "vendor-key-1"}, "Query": {"tenant": "t-1"},
        "Cookies": {"session": "vendor-cookie-1"},
    }  # fmt: skip
    assert center.register(hosted)["Data"]["A2AAgentId"] == AGENT
    center.clock.now += 1
    assert center.register(vendor, "external_public", Credential=credential)["Data"]["VersionId"]
    return center


def exchanged(center: Served, name: str, **instead: str) -> bytes:
    """The answer to a file's bytes, with a token of the center's, and other texts for some."""
    request = request_bytes(name)
    action = request.split(b" ")[1].rpartition(b"/")[2].decode()
    token = center.issuer.issue(ANN, AUDIENCE[action])
    head, _, body = request.partition(b"\r\n\r\n")
    head = re.sub(rb"Bearer [\w.-]+", b"Bearer " + token.encode(), head)
    for old, new in instead.items():
        assert old.replace("_", "-").encode() in body or old.encode() in body
        body = body.replace(old.replace("_", "-").encode(), new.encode())
    head = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(body), head)
    head = head.replace(b"65535", center.url.rpartition(":")[2].encode())
    return sent(center, head + b"\r\n\r\n" + body)


def sent(center: Served, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", int(center.url.rpartition(":")[2])), 20) as connection:
        connection.sendall(data)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += connection.recv(65536)
        length = int(re.search(rb"(?i)content-length: (\d+)", answer)[1])  # type: ignore[index]
        while len(answer.partition(b"\r\n\r\n")[2]) < length:
            answer += connection.recv(65536)
        return answer


def same(answer: bytes, name: str, center: Served) -> None:
    """An answer is that of the file, but for what only the platform can make."""
    head, _, body = answer.partition(b"\r\n\r\n")
    wanted_head, _, wanted = answer_bytes(name).partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0].lower() == wanted_head.split(b"\r\n")[0].lower()
    assert b"content-type: application/json" in head.lower()
    port = center.url.rpartition(":")[2]
    here = body.decode().replace(f":{port}/agents/{AGENT}/", ":65535/")
    assert _OWN.sub(r'"\1":"*"', here) == _OWN.sub(r'"\1":"*"', wanted.decode())


def data_of(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])["Data"]


def prepared(center: Served) -> Any:
    """A task of the files' id."""
    center.center.registry._make_id.given = [TASK]  # type: ignore[attr-defined]
    return data_of(exchanged(center, "prepare_call"))


def test_agents_are_listed(space: Served) -> None:
    same(exchanged(space, "list_agents"), "list_agents", space)


def test_agents_that_have_not_changed_are_not_listed_again(space: Served) -> None:
    etag = data_of(exchanged(space, "list_agents"))["ETag"]
    same(exchanged(space, "list_agents_unchanged", etag_7=etag), "list_agents_unchanged", space)
    assert data_of(exchanged(space, "list_agents_unchanged"))["NotModified"] is False
    space.registered("another", url="http://127.0.0.1:10")
    changed = data_of(exchanged(space, "list_agents_unchanged", etag_7=etag))
    assert (changed["NotModified"], len(changed["Agents"])) == (False, 3)


def test_pages_are_listed_to_the_end_and_blocked_agents_where_they_are_asked_for(space: Served) -> None:
    third = answer_data("list_agents_second_page")["Agents"][0]
    space.clock.now += 1
    space.center.registry._make_id.given = [BLOCKED, "2026-11"]  # type: ignore[attr-defined]
    space.register(third["AgentCard"], "external_public", BlockedReason=third["BlockedReason"])
    asked = {"A2ASpaceId": SPACE, "IncludeBlocked": True, "PageSize": 2}
    first = space.ask("ListA2ASpaceAgents", asked)
    second = space.ask("ListA2ASpaceAgents", asked | {"Cursor": first["NextCursor"]})
    names = [[agent["AgentCard"]["name"] for agent in page["Agents"]] for page in (first, second)]
    assert names == [["research-agent", "vendor-agent"], ["weather-agent"]]
    assert (second["NextCursor"], second["ETag"]) == ("", first["ETag"])
    shown = second["Agents"][0]
    assert shown | {"CardSha256": third["CardSha256"]} == third
    assert len(space.ask("ListA2ASpaceAgents", {"A2ASpaceId": SPACE})["Agents"]) == 2


def test_a_prompt_and_a_skill_choose_among_agents(space: Served) -> None:
    data = data_of(exchanged(space, "list_agents_filtered"))
    assert [agent["A2AAgentId"] for agent in data["Agents"]] == [AGENT]
    asked = {"A2ASpaceId": SPACE, "Prompt": "please translate this"}
    assert space.ask("ListA2ASpaceAgents", asked)["Agents"][0]["A2AAgentId"] == EXTERNAL


def test_a_call_of_a_hosted_agent_is_prepared(space: Served) -> None:
    space.center.registry._make_id.given = [TASK]  # type: ignore[attr-defined]
    same(exchanged(space, "prepare_call"), "prepare_call", space)


def test_a_call_of_the_version_that_is_expected_is_prepared(space: Served) -> None:
    assert data_of(exchanged(space, "prepare_call_of_version"))["Target"]["VersionId"] == VERSION


def test_a_call_of_another_version_than_the_one_that_is_expected_is_refused(space: Served) -> None:
    card = answer_data("list_agents")["Agents"][0]["AgentCard"]
    space.center.registry._make_id.given = [EXTERNAL_VERSION[:-1] + "0"]  # type: ignore[attr-defined]
    space.register(card | {"version": "2.0.0"})
    answer = exchanged(space, "prepare_call_of_version")
    wanted = answer_bytes("error_version_changed").replace(b"ddeeff", b"ddeef0")
    _, _, body = answer.partition(b"\r\n\r\n")
    assert _OWN.sub("*", body.decode()) == _OWN.sub("*", wanted.partition(b"\r\n\r\n")[2].decode())
    assert answer.startswith(b"HTTP/1.1 409")


def test_a_call_of_an_external_agent_is_prepared_and_its_credential_resolved(space: Served) -> None:
    space.center.registry._make_id.given = [TASK]  # type: ignore[attr-defined]
    answer = exchanged(space, "prepare_call_external")
    same(answer, "prepare_call_external", space)
    call = data_of(answer)
    texts = {"cred-1": call["CredentialHandle"], "permit-3c1f.e2b8": call["CallPermit"]}
    same(exchanged(space, "resolve_credential", **texts), "resolve_credential", space)
    only_permit = {"permit-3c1f.e2b8": call["CallPermit"]}
    same(exchanged(space, "resolve_no_credential", **only_permit), "resolve_no_credential", space)


@pytest.mark.parametrize(
    ("bind", "answer"),
    [
        (None, "prepare_task_unbound"),
        ("bind", "prepare_task"),
        ("bind_no_context", "prepare_task_no_context"),
    ],
)
@pytest.mark.parametrize("operation", ["get", "send", "cancel", "subscribe"])
def test_operations_on_a_task_are_prepared(
    space: Served, bind: str | None, answer: str, operation: str
) -> None:
    prepared(space)
    if bind:
        same(exchanged(space, bind), "bind", space)
    same(exchanged(space, f"prepare_task_{operation}"), answer, space)


def test_events_are_taken_and_the_same_ones_not_again(space: Served) -> None:
    prepared(space)
    same(exchanged(space, "append_events"), "append_events", space)
    assert data_of(exchanged(space, "append_events")) == {"AcceptedCount": 0}


NESTED = base64.urlsafe_b64encode(b"[" * 100_000).decode()
SHA = sha256_of(MESSAGE)
CALL = call_of(AGENT, MESSAGE, "token-2")
SEND = {
    "A2ATaskId": TASK, "Operation": "send_message", "MessageId": "m-2", "MessageSha256": SHA,
    "IdempotencyToken": "token-9",
}  # fmt: skip
EVENT = {
    "SourceEventId": "e-1", "EventKind": "status", "Payload": {}, "OccurredAt": "2026-11-30T08:00:00Z"
}  # fmt: skip
BIND = {"A2ATaskId": TASK, "RemoteTaskId": "r", "ObservedAt": "2026-11-30T08:00:00Z"}


@pytest.mark.parametrize(
    ("action", "request_", "field"),
    [
        ("ListA2ASpaceAgents", {}, "A2ASpaceId"),
        ("ListA2ASpaceAgents", {"A2ASpaceId": 7}, "A2ASpaceId"),
        ("ListA2ASpaceAgents", {"A2ASpaceId": SPACE, "PageSize": 0}, "PageSize"),
        ("ListA2ASpaceAgents", {"A2ASpaceId": SPACE, "PageSize": True}, "PageSize"),
        ("ListA2ASpaceAgents", {"A2ASpaceId": SPACE, "PageSize": 101}, "PageSize"),
        ("ListA2ASpaceAgents", {"A2ASpaceId": SPACE, "IncludeBlocked": "yes"}, "IncludeBlocked"),
        ("ListA2ASpaceAgents", {"A2ASpaceId": SPACE, "Cursor": "cursor-2"}, "Cursor"),
        ("ListA2ASpaceAgents", {"A2ASpaceId": SPACE, "Cursor": NESTED}, "Cursor"),
        ("ListA2ASpaceAgents", {"A2ASpaceId": SPACE, "Prompt": "p" * 10_001}, "Prompt"),
        ("PrepareA2ACall", CALL | {"MessageSha256": SHA.upper()}, "MessageSha256"),
        ("PrepareA2ACall", CALL | {"MessageId": ""}, "MessageId"),
        ("PrepareA2ACall", CALL | {"IdempotencyToken": "x" * 257}, "IdempotencyToken"),
        ("PrepareA2ATaskOperation", SEND | {"Operation": "delete_task"}, "Operation"),
        ("PrepareA2ATaskOperation", SEND | {"Operation": "get_task"}, "MessageId"),
        ("PrepareA2ATaskOperation", SEND | {"Operation": "cancel_task"}, "MessageId"),
        ("PrepareA2ATaskOperation", SEND | {"MessageId": None}, "MessageId"),
        ("PrepareA2ATaskOperation", {"A2ATaskId": TASK, "Operation": "cancel_task"}, "IdempotencyToken"),
        ("BindA2ARemoteTask", BIND | {"ObservedAt": "now"}, "ObservedAt"),
        ("BindA2ARemoteTask", BIND | {"ObservedAt": "2026-11-30T08:00:00"}, "ObservedAt"),
        ("BindA2ARemoteTask", BIND | {"ObservedAt": "2026-11-30T08:00:00Z\x00"}, "ObservedAt"),
        ("BindA2ARemoteTask", BIND | {"RemoteTaskId": "\n"}, "RemoteTaskId"),
        ("AppendA2ATaskEvents", {"A2ATaskId": TASK, "Events": []}, "Events"),
        ("AppendA2ATaskEvents", {"A2ATaskId": TASK, "Events": [EVENT] * 1001}, "Events"),
        ("AppendA2ATaskEvents", {"A2ATaskId": TASK, "Events": [EVENT | {"Payload": []}]}, "Events[0]"),
        ("AppendA2ATaskEvents", {"A2ATaskId": TASK, "Events": [EVENT, EVENT | {"Status": "A"}]}, "Events[1]"),
        ("AppendA2ATaskEvents", {"A2ATaskId": TASK, "Events": [EVENT | {"EventKind": "x"}]}, "Events[0]"),
        ("ResolveA2ACredential", {"A2ATaskId": TASK, "CallPermit": ""}, "CallPermit"),
    ],
)
def test_a_request_that_breaks_a_rule_is_refused_with_its_field(
    kept: Served, action: str, request_: Any, field: str
) -> None:
    assert kept.refused(action, request_) == (400, "A2A_INVALID_REQUEST", field)


@pytest.mark.parametrize(
    ("action", "request_", "code"),
    [
        ("ListA2ASpaceAgents", {"A2ASpaceId": "elsewhere"}, "A2A_SPACE_NOT_FOUND"),
        ("PrepareA2ACall", CALL | {"TargetA2AAgentId": "nobody"}, "A2A_AGENT_NOT_FOUND"),
        ("PrepareA2ACall", CALL | {"A2ASpaceId": "elsewhere"}, "A2A_AGENT_NOT_FOUND"),
        ("PrepareA2ATaskOperation", {"A2ATaskId": "none", "Operation": "get_task"}, "A2A_TASK_NOT_FOUND"),
        ("BindA2ARemoteTask", BIND | {"A2ATaskId": "none"}, "A2A_TASK_NOT_FOUND"),
        ("AppendA2ATaskEvents", {"A2ATaskId": "none", "Events": [EVENT]}, "A2A_TASK_NOT_FOUND"),
    ],
)
def test_what_there_is_not_is_not_found(kept: Served, action: str, request_: Any, code: str) -> None:
    assert kept.refused(action, request_)[:2] == (404, code)


def test_somebody_elses_task_is_answered_like_one_that_there_is_not(kept: Served) -> None:
    for action, request in (
        ("PrepareA2ATaskOperation", {"Operation": "get_task"}),
        ("BindA2ARemoteTask", BIND),
        ("AppendA2ATaskEvents", {"Events": [EVENT]}),
    ):
        theirs = kept.post(action, {**request, "A2ATaskId": TASK}, BOB).json()
        none = kept.post(action, {**request, "A2ATaskId": "none"}, BOB).json()
        assert theirs["Message"].replace(TASK, "none") == none["Message"]
        assert (theirs["Code"], theirs["Data"]) == (none["Code"], none["Data"])


@pytest.mark.parametrize("action", AUDIENCE)
@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x.y.z", "Basic {right}", "Bearer {other}"])
def test_an_action_wants_a_token_for_its_audience(kept: Served, action: str, header: str) -> None:
    audience = AUDIENCE[action]
    other = "a2a-gateway" if audience != "a2a-gateway" else "a2a-registry"
    filled = header.format(right=kept.issuer.issue(ANN, audience), other=kept.issuer.issue(ANN, other))
    headers = {"Authorization": filled} if header else {}
    path = f"/agentengine/internal/v1/a2a/{action}"
    answer = kept.http.post(path, content=b"not even JSON", headers=headers)
    assert answer.status_code == 401
    assert answer.json()["Data"]["ErrorCode"] == "A2A_UNAUTHENTICATED"
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "." not in filled or filled.rpartition(" ")[2] not in answer.text


def test_what_is_no_center_is_told_as_that_to_who_registers() -> None:
    with platform(**{f"POST {ADMIN_PATH}/RegisterA2AAgent": http('{"Code":0,"Data":{}}')}) as server:
        with pytest.raises(A2AControlPlaneError, match="A2AAgentId") as error:
            asyncio.run(register(server.url, ADMIN, {}))
        assert error.value.error_code == "A2A_CONTROL_PLANE_INVALID_RESPONSE"


def test_only_the_administrator_registers_agents(kept: Served) -> None:
    card = card_of("n", "http://127.0.0.1:9")
    assert kept.register(card, token=ADMIN + "x")["Code"] == 401
    workload = kept.issuer.issue(ANN, "a2a-registry")
    assert kept.register(card, token=workload)["Code"] == 401
    assert kept.register(card)["Code"] == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"A2ASpaceId": NaN}',
        b'{"A2ASpaceId":"\\ud800"}',
        b"\xff\xfe{}",
        b"[" * 60 + b"]" * 60,
    ],
)
def test_a_body_that_is_no_json_object_is_refused(kept: Served, body: bytes) -> None:
    headers = kept.bearer("a2a-registry")
    answer = kept.http.post("/agentengine/internal/v1/a2a/ListA2ASpaceAgents", content=body, headers=headers)
    assert (answer.status_code, answer.json()["Data"]["ErrorCode"]) == (400, "A2A_INVALID_REQUEST")


def test_a_number_that_json_cannot_write_is_refused_before_it_is_kept(kept: Served) -> None:
    body = b'{"A2ATaskId":"t","Events":[{"Payload":{"progress":1e999}}]}'
    headers = kept.bearer("a2a-task-sink")
    answer = kept.http.post("/agentengine/internal/v1/a2a/AppendA2ATaskEvents", content=body, headers=headers)
    assert (answer.status_code, answer.json()["Message"]) == (400, "the request is no JSON")


def test_a_page_of_a_web_site_and_a_name_that_is_not_the_centers_do_not_reach_it(kept: Served) -> None:
    headers = kept.bearer("a2a-registry")
    path = "/agentengine/internal/v1/a2a/ListA2ASpaceAgents"
    for more in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
        assert kept.http.post(path, json={"A2ASpaceId": SPACE}, headers=headers | more).status_code == 403


def test_an_action_that_there_is_not_is_not_found(kept: Served) -> None:
    answer = kept.http.post("/agentengine/internal/v1/a2a/DropAll", headers=kept.bearer("a2a-registry"))
    assert (answer.status_code, answer.json()["Action"]) == (404, "DropAll")
    assert kept.http.get("/agentengine/internal/v1/a2a/ListA2ASpaceAgents").status_code == 405


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = [
    "A2ASpaceId", "A2ATaskId", "TargetA2AAgentId", "MessageId", "MessageSha256", "IdempotencyToken", "Prompt",
    "SkillId", "Cursor", "PageSize", "IfNoneMatch", "IncludeBlocked", "Operation", "RemoteTaskId",
    "ObservedAt", "RemoteContextId", "Events", "CredentialHandle", "CallPermit", "ExpectedVersionId",
]  # fmt: skip
NEAR = {"A2ASpaceId": SPACE, "A2ATaskId": TASK, "TargetA2AAgentId": AGENT, "MessageSha256": SHA}


@settings(max_examples=60)
@given(action=st.sampled_from(sorted(AUDIENCE)), fields=st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_whatever_a_request_holds_the_center_answers_it_and_does_not_break(
    kept: Served, action: str, fields: dict[str, Any]
) -> None:
    text = json.dumps(NEAR | fields)
    answer = kept.http.post(
        f"/agentengine/internal/v1/a2a/{action}", content=text, headers=kept.bearer(AUDIENCE[action])
    )
    assert answer.status_code in (200, 400, 403, 404, 409), answer.text
