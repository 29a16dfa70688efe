"""The gateway lets through what a permit is for, as it is, and nothing of the platform's with it."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from centers import ANN, BOB, Served, call_of, card_of, serving, sha256_of
from hypothesis import given
from hypothesis import strategies as st
from space_wire import MESSAGE, answer_bytes, request_bytes

from ksadk.a2a.center.asked import of_jsonrpc, of_rest
from ksadk.a2a.center.permits import LIFETIME_MS
from ksadk.a2a.center.refusal import Refusal
from ksadk.a2a.space.gateway import PERMIT_HEADER

Answer = bytes | Callable[[socket.socket], None]
DONE = b'{"jsonrpc":"2.0","id":"1","result":{"task":{"id":"remote-task-1"}}}'


@dataclass
class Upstream:
    """An agent on a raw socket, which writes down what it is sent."""

    port: int
    answer: Answer = b""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def last(self) -> tuple[str, dict[str, str], bytes]:
        return self.requests[-1]

    def handle(self, connection: socket.socket) -> None:
        with connection:
            data = b""
            while b"\r\n\r\n" not in data:
                more = connection.recv(65536)
                if not more:
                    return
                data += more
            head, _, body = data.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            while len(body) < int(headers.get("content-length", 0)):
                body += connection.recv(65536)
            self.requests.append((first, headers, body))
            if callable(self.answer):
                self.answer(connection)
            else:
                connection.sendall(self.answer)


def http(body: bytes, status: str = "200 OK", *headers: str, kind: str = "application/json") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "Connection: close"]).encode() + b"\r\n\r\n" + body


@contextmanager
def listening() -> Iterator[Upstream]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        upstream = Upstream(server.getsockname()[1], http(DONE))

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=upstream.handle, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield upstream
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def agent() -> Iterator[Upstream]:
    with listening() as upstream:
        yield upstream


@dataclass
class Gateway:
    """A center, an agent in it, and a prepared first call."""

    center: Served
    agent_id: str
    call: Any

    def post(self, body: Any, permit: str | None = None, path: str = "", **headers: str) -> httpx.Response:
        """A call by JSON-RPC, as a client makes it."""
        url = path or f"/agents/{self.agent_id}/a2a/jsonrpc"
        sent = self.headers(permit) | headers
        return self.center.http.post(url, json=body, headers=sent)

    def rest(self, verb: str, path: str, permit: str | None = None, body: Any = None) -> httpx.Response:
        url = f"/agents/{self.agent_id}/a2a/v1{path}"
        return self.center.http.request(verb, url, json=body, headers=self.headers(permit))

    def headers(self, permit: str | None = None) -> dict[str, str]:
        permit = self.call["CallPermit"] if permit is None else permit
        return self.center.bearer("a2a-gateway") | {PERMIT_HEADER: permit, "A2A-Version": "1.0"}

    def bound(self) -> None:
        request = {"A2ATaskId": self.call["A2ATaskId"], "ObservedAt": "2026-11-30T08:00:00Z"}
        remote = {"RemoteTaskId": "remote-task-1", "RemoteContextId": "remote-context-1"}
        self.center.ask("BindA2ARemoteTask", request | remote)

    def permit(self, operation: str, message: Any = None) -> str:
        """A permit for an operation on the task."""
        request = {"A2ATaskId": self.call["A2ATaskId"], "Operation": operation}
        if operation in ("send_message", "cancel_task"):
            request["IdempotencyToken"] = f"{operation}-{len(json.dumps(message))}"
        if message:
            request |= {"MessageId": message["messageId"], "MessageSha256": sha256_of(message)}
        permit: str = self.center.ask("PrepareA2ATaskOperation", request)["CallPermit"]
        return permit


@pytest.fixture
def gateway(tmp_path: Path, agent: Upstream) -> Iterator[Gateway]:
    with serving(tmp_path / "center") as center:
        agent_id = center.registered(url=agent.url)["A2AAgentId"]
        yield Gateway(center, agent_id, center.call(agent_id, MESSAGE))


def rpc(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}


def send(message: Any = MESSAGE, **more: Any) -> dict[str, Any]:
    return rpc("SendMessage", {"message": message, **more})


def code_of(response: httpx.Response) -> tuple[int, str]:
    error = response.json()["error"]
    assert error["code"] == response.status_code
    return response.status_code, error["details"][0]["reason"]


@pytest.mark.parametrize(
    ("name", "operation"),
    [("hosted_send", None), ("hosted_continue", "send_message"), ("hosted_get", "get_task"),
     ("hosted_cancel", "cancel_task"), ("hosted_subscribe", "subscribe_to_task"), ("hosted_send_rest", None)],
)  # fmt: skip
def test_the_literal_requests_of_clients_reach_the_agent_and_its_literal_answers_them(
    gateway: Gateway, agent: Upstream, name: str, operation: str | None
) -> None:
    request = request_bytes(name)
    answer = answer_bytes("hosted_send" if name == "hosted_continue" else name)
    agent.answer = answer.replace(b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK\r\nConnection: close")
    head, _, body = request.partition(b"\r\n\r\n")
    permit = None
    if operation:
        gateway.bound()
        message = {"messageId": "m-2", "parts": [{"text": "Paris"}], "role": "ROLE_USER"}
        permit = gateway.permit(operation, message if operation == "send_message" else None)
    headers = gateway.headers(permit)
    verb, path, _ = head.split(b"\r\n")[0].decode().split(" ")
    here = f"/agents/{gateway.agent_id}{path}"
    sent = {**headers, "Content-Type": "application/json"}
    got = gateway.center.http.request(verb, here, content=body, headers=sent)
    assert got.content == answer.partition(b"\r\n\r\n")[2]
    line, _, received = agent.last
    assert line == f"POST {path} HTTP/1.1"
    assert json.loads(received) == json.loads(body)


def test_nothing_of_the_platforms_reaches_the_agent_and_nothing_that_the_caller_says_of_itself(
    gateway: Gateway, agent: Upstream
) -> None:
    forged = {
        "X-Ksc-Account-Id": "root", "X-Account-Id": "root", "X-Auth-Agent-Id": "root", "Cookie": "a=b",
        "X-Forwarded-For": "10.0.0.1", "X-Api-Key": "k", "Proxy-Authorization": "Basic x", "TE": "trailers",
        "A2A-Extensions": "https://x.example/e", "traceparent": "00-0-0-01",
    }  # fmt: skip
    headers = gateway.headers()
    assert gateway.post(send(), **forged).status_code == 200
    _, received, body = agent.last
    everything = json.dumps(received) + body.decode()
    for secret in (headers["Authorization"].partition(" ")[2], headers[PERMIT_HEADER], "root", "10.0.0.1"):
        assert secret not in everything
    assert set(received) == {
        "host", "connection", "content-length", "content-type", "accept", "accept-encoding", "user-agent",
        "a2a-version", "a2a-extensions", "traceparent", "x-ksc-account-id", "x-ksc-agent-id",
    }  # fmt: skip
    assert (received["x-ksc-account-id"], received["x-ksc-agent-id"]) == (ANN.account, ANN.name)
    assert "python" not in received["user-agent"]


def test_the_owners_credential_goes_to_the_agent_and_to_nobody_else(
    gateway: Gateway, agent: Upstream
) -> None:
    credential = {
        "Headers": {"Authorization": "Bearer agent-key-1"}, "Query": {"key": "q-1"}, "Cookies": {"c": "v-1"}
    }  # fmt: skip
    gateway.center.register(card_of("research-agent", agent.url), Credential=credential)
    answer = gateway.post(send())
    line, headers, _ = agent.last
    assert (headers["authorization"], headers["cookie"]) == ("Bearer agent-key-1", "c=v-1")
    assert line.endswith("?key=q-1 HTTP/1.1")
    assert "agent-key-1" not in answer.text + str(answer.headers)
    assert gateway.call["CredentialHandle"] is None


def test_the_credential_of_an_agent_that_has_moved_is_not_shown_where_it_was(
    tmp_path: Path, agent: Upstream
) -> None:
    with listening() as elsewhere, serving(tmp_path / "center") as center:
        first = center.registered(url=agent.url, Credential={"Headers": {"X-Api-Key": "first-key"}})
        agent_id = first["A2AAgentId"]
        calls = [center.call(agent_id, MESSAGE, f"token-{n}") for n in range(2)]
        center.registered(url=elsewhere.url, Credential={"Headers": {"X-Api-Key": "second-key"}})
        again = center.call(agent_id, MESSAGE, "token-1")
        for call in (calls[0], again):
            assert Gateway(center, agent_id, call).post(send()).status_code == 200
        now = center.call(agent_id, MESSAGE, "token-2")
        assert Gateway(center, agent_id, now).post(send()).status_code == 200
        assert [headers.get("x-api-key") for _, headers, _ in agent.requests] == [None, None]
        assert [headers.get("x-api-key") for _, headers, _ in elsewhere.requests] == ["second-key"]


def test_a_permit_for_an_agent_that_is_called_otherwise_now_is_for_another_version(
    gateway: Gateway, agent: Upstream
) -> None:
    center = gateway.center
    center.registered(url="https://vendor.example.com", RouteKind="external_public")
    assert code_of(gateway.post(send())) == (409, "A2A_TARGET_VERSION_CHANGED")
    again = center.refused("PrepareA2ACall", call_of(gateway.agent_id, MESSAGE))
    assert again == (409, "A2A_TARGET_VERSION_CHANGED", "ExpectedVersionId")
    assert agent.requests == []


@pytest.mark.parametrize("name", ["Accept", "A2A-Extensions", "Traceparent", "Tracestate"])
def test_a_header_of_any_bytes_goes_on_as_it_is(gateway: Gateway, agent: Upstream, name: str) -> None:
    url = f"/agents/{gateway.agent_id}/a2a/jsonrpc"
    headers = [(key.encode(), value.encode()) for key, value in gateway.headers().items()]
    answer = gateway.center.http.post(url, json=send(), headers=[*headers, (name.encode(), b"\xe9\xff")])
    assert answer.status_code == 200
    assert agent.last[1][name.lower()] == "\xe9\xff"


def test_an_answer_with_a_header_of_any_bytes_comes_back_with_it(gateway: Gateway, agent: Upstream) -> None:
    kind = "application/json; of=\u20ac"
    agent.answer = http(DONE).replace(b"application/json", kind.encode())
    answer = gateway.post(send())
    raw = {name.lower(): value for name, value in answer.headers.raw}
    assert (answer.status_code, raw[b"content-type"]) == (200, kind.encode())


def test_a_message_with_a_number_beyond_all_floats_is_refused(gateway: Gateway, agent: Upstream) -> None:
    answer = gateway.post(send({**MESSAGE, "metadata": {"n": 10**400}}))
    assert code_of(answer) == (400, "A2A_INVALID_REQUEST")
    assert agent.requests == []


def test_a_stream_comes_through_event_by_event(gateway: Gateway, agent: Upstream) -> None:
    seen = threading.Event()

    def stream(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        assert seen.wait(20), "the first event did not come through before the second"
        connection.sendall(b"data: 2\n\n")

    agent.answer = stream
    url = f"/agents/{gateway.agent_id}/a2a/jsonrpc"
    body = rpc("SendStreamingMessage", {"message": MESSAGE})
    with gateway.center.http.stream("POST", url, json=body, headers=gateway.headers()) as response:
        assert response.headers["content-type"] == "text/event-stream"
        chunks = response.iter_raw()
        assert next(chunks) == b"data: 1\n\n"
        seen.set()
        assert b"".join(chunks) == b"data: 2\n\n"


def test_an_agent_is_let_go_when_its_caller_has_gone(gateway: Gateway, agent: Upstream) -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        try:
            while True:
                connection.sendall(b": keep-alive\n\n")
                agent.gone.wait(0.01)
        except OSError:
            agent.gone.set()

    agent.answer = endless
    body = rpc("SendStreamingMessage", {"message": MESSAGE})
    url = f"/agents/{gateway.agent_id}/a2a/jsonrpc"
    with gateway.center.http.stream("POST", url, json=body, headers=gateway.headers()) as response:
        next(response.iter_raw())
    assert agent.gone.wait(20)


def test_a_stream_that_breaks_off_is_no_whole_answer(gateway: Gateway, agent: Upstream) -> None:
    def broken(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n")

    agent.answer = broken
    with pytest.raises(httpx.RemoteProtocolError):
        gateway.post(send())


@pytest.mark.parametrize("other", [{"Authorization": ""}, {"Authorization": "Bearer x.y.z"}])
def test_a_call_without_a_gateway_token_is_refused(gateway: Gateway, agent: Upstream, other: Any) -> None:
    assert code_of(gateway.post(send(), **other)) == (401, "A2A_UNAUTHENTICATED")
    registry = gateway.center.bearer("a2a-registry")
    assert code_of(gateway.post(send(), **registry)) == (401, "A2A_UNAUTHENTICATED")
    assert agent.requests == []


def test_a_call_without_a_permit_of_its_own_is_refused(gateway: Gateway, agent: Upstream) -> None:
    invalid = (403, "A2A_PERMIT_INVALID")
    theirs = gateway.center.call(gateway.agent_id, MESSAGE, "t", workload=BOB)["CallPermit"]
    for permit in ("", "permit-3c1f.e2b8", theirs):
        assert code_of(gateway.post(send(), permit)) == invalid
    other = gateway.center.registered("another", agent.url)["A2AAgentId"]
    assert code_of(gateway.post(send(), path=f"/agents/{other}/a2a/jsonrpc")) == invalid
    gateway.center.clock.now += LIFETIME_MS / 1000
    assert code_of(gateway.post(send())) == (403, "A2A_PERMIT_EXPIRED")
    assert agent.requests == []


OTHER = MESSAGE | {"parts": [{"text": "something else"}]}


@pytest.mark.parametrize(
    "body",
    [
        send(OTHER),
        send(MESSAGE | {"metadata": {"a": 1}}),
        send(MESSAGE | {"taskId": "remote-task-2"}),
        send(MESSAGE | {"task_id": "remote-task-2"}),
        send(MESSAGE | {"contextId": "somebody's"}),
        rpc("GetTask", {"id": "remote-task-1"}),
        rpc("CancelTask", {"id": "remote-task-1"}),
        rpc("SubscribeToTask", {"id": "remote-task-1"}),
    ],
)
def test_a_permit_for_a_first_message_permits_that_message_only(
    gateway: Gateway, agent: Upstream, body: Any
) -> None:
    assert code_of(gateway.post(body)) == (403, "A2A_PERMIT_INVALID")
    assert agent.requests == []
    assert gateway.post(send()).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        [send()],
        "SendMessage",
        rpc("ListTasks", {}),
        rpc("CreateTaskPushNotificationConfig", {"taskId": "remote-task-1"}),
        rpc("SendMessage", []),
        rpc("SendMessage", {}),
        rpc("SendMessage", {"message": {"later": 1}}),
        send() | {"id": {"a": 1}},
    ],
)
def test_what_no_permit_is_for_is_refused(gateway: Gateway, agent: Upstream, body: Any) -> None:
    assert code_of(gateway.post(body)) == (400, "A2A_INVALID_REQUEST")
    assert agent.requests == []


OPERATIONS = {
    "get_task": rpc("GetTask", {"id": "remote-task-1"}),
    "cancel_task": rpc("CancelTask", {"id": "remote-task-1"}),
    "subscribe_to_task": rpc("SubscribeToTask", {"id": "remote-task-1"}),
    "send_message": send(OTHER | {"taskId": "remote-task-1"}),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_permit_for_a_task_permits_its_operation_on_that_task_only(
    gateway: Gateway, agent: Upstream, operation: str
) -> None:
    message = OTHER if operation == "send_message" else None
    unbound = gateway.permit(operation, message)
    assert code_of(gateway.post(OPERATIONS[operation], unbound)) == (403, "A2A_PERMIT_INVALID")
    gateway.bound()
    permit = gateway.permit(operation, message)
    for other, body in OPERATIONS.items():
        elsewhere = json.loads(json.dumps(body).replace("remote-task-1", "remote-task-2"))
        assert code_of(gateway.post(elsewhere, permit)) == (403, "A2A_PERMIT_INVALID")
        if other != operation:
            assert code_of(gateway.post(body, permit)) == (403, "A2A_PERMIT_INVALID")
    assert agent.requests == []
    assert gateway.post(OPERATIONS[operation], permit).status_code == 200


def test_a_message_is_let_through_once(gateway: Gateway, agent: Upstream) -> None:
    assert gateway.post(send()).status_code == 200
    assert code_of(gateway.post(send())) == (409, "A2A_PERMIT_USED")
    assert len(agent.requests) == 1


def test_a_message_that_never_reached_the_agent_may_be_sent_again(gateway: Gateway, agent: Upstream) -> None:
    center = gateway.center
    moved = card_of("research-agent", "http://127.0.0.1:9")
    center.register(moved)
    call = center.call(gateway.agent_id, MESSAGE, "token-2")
    assert code_of(gateway.post(send(), call["CallPermit"])) == (502, "A2A_AGENT_UNREACHABLE")
    assert code_of(gateway.post(send(), call["CallPermit"])) == (502, "A2A_AGENT_UNREACHABLE")


@pytest.mark.parametrize(
    "answer",
    [
        http(b"who are you", "401 Unauthorized", "WWW-Authenticate: Basic"),
        http(b"", "403 Forbidden"),
        http(b"", "307 Temporary Redirect", "Location: http://127.0.0.1:1/"),
        http(b"", "999 Nothing"),
        b"nonsense\r\n\r\n",
        b"",
    ],
)
def test_an_agent_that_refuses_or_answers_nonsense_is_told_of_as_that(
    gateway: Gateway, agent: Upstream, answer: bytes
) -> None:
    agent.answer = answer
    response = gateway.post(send())
    assert code_of(response) == (502, "A2A_AGENT_UNREACHABLE")
    assert "www-authenticate" not in response.headers


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "307 Temporary Redirect"])
def test_a_message_that_the_agent_has_refused_may_be_sent_again(
    gateway: Gateway, agent: Upstream, status: str
) -> None:
    taken, agent.answer = agent.answer, http(b"", status, "Location: http://127.0.0.1:1/")
    assert code_of(gateway.post(send())) == (502, "A2A_AGENT_UNREACHABLE")
    agent.answer = taken
    assert gateway.post(send()).status_code == 200
    assert code_of(gateway.post(send())) == (409, "A2A_PERMIT_USED")


def test_an_agents_own_error_comes_through_without_its_cookies(gateway: Gateway, agent: Upstream) -> None:
    agent.answer = http(b'{"error":{}}', "500 Internal Server Error", "Set-Cookie: a=b", "Server: agent")
    response = gateway.post(send())
    assert (response.status_code, response.json()) == (500, {"error": {}})
    assert not {"set-cookie", "server"} & set(response.headers)


@pytest.mark.parametrize(
    ("verb", "path", "operation", "sent"),
    [
        ("GET", "", "get_task", "GET /a2a/v1/tasks/remote-task-1 "),
        ("GET", "?historyLength=2", "get_task", "GET /a2a/v1/tasks/remote-task-1?historyLength=2 "),
        ("POST", ":cancel", "cancel_task", "POST /a2a/v1/tasks/remote-task-1:cancel "),
        ("GET", ":subscribe", "subscribe_to_task", "GET /a2a/v1/tasks/remote-task-1:subscribe "),
        ("POST", ":subscribe", "subscribe_to_task", "GET /a2a/v1/tasks/remote-task-1:subscribe "),
    ],
)
def test_tasks_are_reached_by_http_json(
    gateway: Gateway, agent: Upstream, verb: str, path: str, operation: str, sent: str
) -> None:
    gateway.bound()
    assert gateway.rest(verb, f"/tasks/remote-task-1{path}", gateway.permit(operation)).status_code == 200
    assert agent.last[0].startswith(sent)


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/tasks"),
        ("GET", "/tasks/"),
        ("GET", "/tasks/remote-task-1/"),
        ("GET", "/tasks/remote-task-1/pushNotificationConfigs"),
        ("GET", "/tenant/tasks/remote-task-1"),
        ("GET", "//tasks/remote-task-1"),
        ("GET", "/tasks/remote-task-1:cancel"),
        ("POST", "/tasks/remote-task-1"),
        ("GET", "/message:send"),
        ("GET", "/extendedAgentCard"),
    ],
)
def test_no_other_path_reaches_the_agent(gateway: Gateway, agent: Upstream, verb: str, path: str) -> None:
    gateway.bound()
    raw = httpx.URL(gateway.center.url).copy_with(
        raw_path=f"/agents/{gateway.agent_id}/a2a/v1{path}".encode()
    )
    answer = gateway.center.http.request(verb, raw, headers=gateway.headers(gateway.permit("get_task")))
    assert answer.status_code in (400, 403, 404)
    assert agent.requests == []


def test_a_verb_that_there_is_not_is_told_of_in_a2as_words(gateway: Gateway) -> None:
    answer = gateway.center.http.get(f"/agents/{gateway.agent_id}/a2a/jsonrpc", headers=gateway.headers("p"))
    assert code_of(answer) == (405, "A2A_ACTION_NOT_FOUND")
    assert answer.json()["error"]["status"] == "UNIMPLEMENTED"


@pytest.mark.parametrize(
    "path", ["%2Ftasks%2Fremote-task-1", "/tasks/%72emote-task-1", "/tasks/remote-task-1%00"]
)
def test_a_path_in_percent_signs_is_the_task_that_it_names_or_none(
    gateway: Gateway, agent: Upstream, path: str
) -> None:
    gateway.bound()
    raw = httpx.URL(gateway.center.url).copy_with(
        raw_path=f"/agents/{gateway.agent_id}/a2a/v1{path}".encode()
    )
    answer = gateway.center.http.get(raw, headers=gateway.headers(gateway.permit("get_task")))
    if answer.status_code == 200:
        assert agent.last[0].startswith("GET /a2a/v1/tasks/remote-task-1 ")
    else:
        assert agent.requests == []


@pytest.mark.parametrize("task_id", [".", ".."])
@pytest.mark.parametrize("ending", ["", "?historyLength=1"])
def test_a_task_whose_id_leads_elsewhere_in_a_path_is_not_asked_of(
    gateway: Gateway, agent: Upstream, task_id: str, ending: str
) -> None:
    """`/tasks/.` is `/tasks`, which would list everybody's."""
    request = {"A2ATaskId": gateway.call["A2ATaskId"], "ObservedAt": "2026-11-30T08:00:00Z"}
    gateway.center.ask("BindA2ARemoteTask", request | {"RemoteTaskId": task_id})
    headers = gateway.headers(gateway.permit("get_task"))
    for written in (task_id, task_id.replace(".", "%2e")):
        raw = f"/agents/{gateway.agent_id}/a2a/v1/tasks/{written}{ending}".encode()
        answer = gateway.center.http.get(
            httpx.URL(gateway.center.url).copy_with(raw_path=raw), headers=headers
        )
        assert answer.status_code in (400, 404)
    assert agent.requests == []


def test_a_request_with_a_key_twice_reaches_the_agent_with_it_once(gateway: Gateway, agent: Upstream) -> None:
    gateway.bound()
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"CancelTask","method":"GetTask",'
        b'"params":{"id":"remote-task-2","id":"remote-task-1","tenant":"other"}}'
    )
    url = f"/agents/{gateway.agent_id}/a2a/jsonrpc"
    headers = gateway.headers(gateway.permit("get_task")) | {"Content-Type": "application/json"}
    assert gateway.center.http.post(url, content=body, headers=headers).status_code == 200
    assert agent.last[2] == b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"remote-task-1"}}'


@given(
    body=st.binary(max_size=60)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=6) | st.sampled_from(["SendMessage", "GetTask", "t"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["method", "params", "id", "message", "parts"]), inner)
        ),
    ).map(lambda value: json.dumps(value).encode()),
    path=st.text(st.sampled_from("/:%2Fabtasksmessagesendcancel{}\x00"), max_size=30),
    verb=st.sampled_from(["GET", "POST"]),
)
def test_whatever_is_asked_of_the_gateway_is_understood_or_refused(body: bytes, path: str, verb: str) -> None:
    for read in (lambda: of_jsonrpc(body), lambda: of_rest(verb, path, {}, body)):
        try:
            asked = read()
        except Refusal as refusal:
            assert refusal.status == 400
        else:
            assert asked.url("http://127.0.0.1:9/a2a/v1", "HTTP+JSON").startswith(
                "http://127.0.0.1:9/a2a/v1/"
            )
            json.loads(asked.body("JSONRPC") or b"")


def test_an_external_agent_is_not_called_through_the_gateway(gateway: Gateway, agent: Upstream) -> None:
    vendor = card_of("vendor", "https://vendor.example.com")
    agent_id = gateway.center.register(vendor, "external_public")["Data"]["A2AAgentId"]
    call = gateway.center.call(agent_id, MESSAGE, "token-2")
    path = f"/agents/{agent_id}/a2a/jsonrpc"
    assert code_of(gateway.post(send(), call["CallPermit"], path)) == (404, "A2A_AGENT_NOT_FOUND")


def test_a_blocked_agent_is_called_no_more(gateway: Gateway, agent: Upstream) -> None:
    gateway.center.register(card_of("research-agent", agent.url), BlockedReason="it leaks")
    assert code_of(gateway.post(send())) == (403, "A2A_AGENT_BLOCKED")
    assert agent.requests == []


def test_the_log_holds_no_secret(gateway: Gateway, agent: Upstream, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "ksadk")
    headers = gateway.headers()
    gateway.post(send())
    gateway.post(send(), "permit-3c1f.e2b8")
    gateway.center.register(
        card_of("v", "https://v.example"), "external_public", token="wrong-token-0123456789"
    )
    said = caplog.text
    assert "send_message" in said and "A2A_PERMIT_INVALID" in said
    for secret in (headers[PERMIT_HEADER], headers["Authorization"][7:], "permit-3c1f", "wrong-token"):
        assert secret not in said
    assert not re.search(r"eyJ[\w-]+\.eyJ", said)
