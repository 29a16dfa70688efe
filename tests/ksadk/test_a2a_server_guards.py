"""Who may reach a served agent, from where, and with how much."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_server import Scripted, ScriptedRun, Served, send_params, serving, until
from hypothesis import given
from hypothesis import strategies as st

from ksadk.a2a.callers import BearerFile, BearerFileError, trusted_networks
from ksadk.a2a.guards import Hosts, Refused, _check_depth
from ksadk.a2a.options import Limits, ServerOptions
from ksadk.a2a.runners.base import Call, InputRequired, Text, TextPart

ANN, BOB = "a" * 32, "b" * 32


async def asks(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
    yield Text("begun")
    yield InputRequired((TextPart("?"),))


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"# who may call\nann {ANN}\n\nbob {BOB}\n")
    return file


def as_caller(served: Served, token: str) -> Served:
    other = Served(served.server, served.base)
    other.http.headers["Authorization"] = f"Bearer {token}"
    return other


HOSTS = [
    ("localhost:{port}", True), ("127.0.0.1", True), ("LOCALHOST", True), ("localhost.", True),
    ("[::1]:{port}", True), ("evil.example", False), ("localhost.evil.example", False), ("", False),
    ("192.168.1.5", False), ("agent.internal", True), ("a.lan", True), ("lan", False), ("[::1", False),
    ("[::1]evil", False), ("[::1]:x", False), ("localhost:evil", False), ("localhost.:8081", True),
]  # fmt: skip


@pytest.mark.parametrize(("host", "taken"), HOSTS)
def test_only_names_of_this_server_reach_it(host: str, taken: bool) -> None:
    hosts = Hosts.of(urls=["http://127.0.0.1:8081/a2a"], allowed=["agent.internal", "*.lan"])
    assert hosts.takes_host(host.format(port=8081)) is taken


def test_where_it_listens_on_every_address_each_of_them_is_its_own() -> None:
    hosts = Hosts.of(urls=["http://127.0.0.1:8081"], any_address=True)
    assert hosts.takes_host("192.168.1.5:8081") and hosts.takes_host("[fe80::1]:8081")
    assert not hosts.takes_host("evil.example")


def test_a_page_that_is_not_its_own_drives_nothing() -> None:
    runner = Scripted(asks)
    with serving(runner) as served:
        for origin in ("https://evil.example", "null", "http://localhost:3000", served.base + ".evil"):
            response = served.http.post(
                "/a2a/jsonrpc",
                json={"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": send_params("x")},
                headers={"Origin": origin},
            )
            assert response.status_code == 403, origin
            assert "access-control-allow-origin" not in response.headers
        rebound = served.http.get("/a2a/v1/tasks", headers={"Host": "evil.example"})
        assert rebound.status_code == 403 and rebound.json()["error"]["status"] == "PERMISSION_DENIED"
        assert not runner.calls
        assert served.http.get("/a2a/v1/tasks", headers={"Origin": served.base}).status_code == 200


PATHS = [
    "/a2a/jsonrpc",
    "/a2a/v1/tasks",
    "/a2a/v1/acme/tasks",
    "/acme/a2a/v1/message:send",
    "/nothing",
    "//healthz",
]


@pytest.mark.parametrize("path", PATHS)
def test_without_a_token_there_is_nothing_but_the_card_and_the_health(tokens: Path, path: str) -> None:
    with serving(Scripted(asks), options=ServerOptions(bearer=BearerFile(tokens))) as served:
        for authorization in ("", "Bearer", f"Bearer {ANN}x", f"Basic {ANN}", f"Bearer {ANN[:-1]}"):
            headers = {"Authorization": authorization} if authorization else {}
            for answer in (served.http.get(path, headers=headers), served.http.post(path, headers=headers)):
                assert answer.status_code == 401, authorization
                assert answer.headers["www-authenticate"] == 'Bearer realm="a2a"'
                assert answer.json()["error"]["status"] == "UNAUTHENTICATED"
        card = served.http.get("/.well-known/agent-card.json").json()
        assert card["securitySchemes"] == {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        assert card["securityRequirements"] == [{"schemes": {"bearer": {"list": []}}}]
        assert served.http.get("/healthz").status_code == 200


def test_another_caller_s_task_is_as_no_task(tokens: Path) -> None:
    with serving(Scripted(asks), options=ServerOptions(bearer=BearerFile(tokens))) as served:
        ann, bob = as_caller(served, ANN), as_caller(served, BOB)
        task = ann.send("x")
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            seen = bob.rpc(method, {"id": task["id"]})["error"]
            assert seen == bob.rpc(method, {"id": "no-such-task"})["error"], method
        answer = send_params("y", message={"taskId": task["id"]})
        unknown = send_params("y", message={"taskId": "no-such-task"})
        seen, none = (bob.rpc("SendMessage", params)["error"] for params in (answer, unknown))
        assert seen["code"] == none["code"] == -32001
        assert seen["message"].replace(task["id"], "no-such-task") == none["message"]
        assert bob.rpc("ListTasks", {})["result"]["tasks"] == []
        assert ann.get(task["id"])["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


async def works(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
    yield Text("begun")
    await asyncio.sleep(30)


def test_another_caller_neither_sees_nor_stops_a_task_at_work_whoever_it_says_that_it_is(
    tokens: Path,
) -> None:
    options = ServerOptions(bearer=BearerFile(tokens), grace=0.2)
    with serving(Scripted(works), options=options) as served:
        ann, bob = as_caller(served, ANN), as_caller(served, BOB)
        bob.http.headers["x-ksc-account-id"] = "ann"
        task = ann.send("x", configuration={"returnImmediately": True})
        until(lambda: "artifacts" in ann.get(task["id"]))
        for method in ("GetTask", "SubscribeToTask", "CancelTask"):
            seen = bob.rpc(method, {"id": task["id"]})["error"]
            assert seen == bob.rpc(method, {"id": "no-such-task"})["error"], method
        for verb, path in (("GET", ""), ("GET", ":subscribe"), ("POST", ":cancel")):
            seen, none = (bob.http.request(verb, f"/a2a/v1/tasks/{id}{path}") for id in (task["id"], "none"))
            assert seen.status_code == none.status_code == 404, path
            assert seen.text.replace(task["id"], "none") == none.text
        assert bob.rpc("ListTasks", {})["result"]["tasks"] == []
        assert ann.get(task["id"])["status"]["state"] == "TASK_STATE_WORKING"


def test_two_callers_never_share_a_session_whatever_context_they_name(tokens: Path) -> None:
    runner = Scripted(asks)
    with serving(runner, options=ServerOptions(bearer=BearerFile(tokens))) as served:
        for token in (ANN, BOB):
            as_caller(served, token).send("x", message={"contextId": "shared"})
    assert len({call.session for call in runner.calls}) == 2
    assert runner.calls[1].history == ()


def test_tokens_are_read_again_when_their_file_has_changed(tokens: Path) -> None:
    with serving(Scripted(asks), options=ServerOptions(bearer=BearerFile(tokens))) as served:
        ann = as_caller(served, ANN)
        task = ann.send("x")
        new = "c" * 32
        replacement = tokens.with_suffix(".new")
        replacement.write_text(f"ann {new}\n")
        replacement.replace(tokens)
        assert ann.http.get("/a2a/v1/tasks").status_code == 401
        assert as_caller(served, new).get(task["id"])["id"] == task["id"]
        tokens.unlink()
        assert as_caller(served, new).http.get("/a2a/v1/tasks").status_code == 401


BAD_FILES = ["", "# nothing\n", "short\n", "a b c\n", f"n/m {ANN}\n", f"anonymous {ANN}\n", b"\xff" * 20]


@pytest.mark.parametrize("content", BAD_FILES, ids=repr)
def test_a_file_that_holds_no_tokens_is_an_error(tmp_path: Path, content: str | bytes) -> None:
    file = tmp_path / "tokens"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(BearerFileError, match="tokens"):
        BearerFile(file)
    with pytest.raises(BearerFileError, match="cannot be read"):
        BearerFile(tmp_path / "none")


def test_stated_identities_count_only_where_they_come_from_a_trusted_edge() -> None:
    alice = {"x-ksc-account-id": "alice"}
    for edge, kept_apart in ((), False), (("10.0.0.0/8",), False), (("127.0.0.1",), True):
        with serving(Scripted(asks), options=ServerOptions(trusted_edge=trusted_networks(edge))) as served:
            task = served.rpc("SendMessage", send_params("x"), **alice)["result"]["task"]
            mine = served.rpc("GetTask", {"id": task["id"]}, **alice)
            others = served.rpc("GetTask", {"id": task["id"]}, **{"x-ksc-account-id": "mallory"})
            nobody = served.rpc("GetTask", {"id": task["id"]})
            assert "result" in mine
            assert ("error" in others, "error" in nobody) == (kept_apart, kept_apart), edge


def test_a_request_has_a_largest_size_also_in_chunks() -> None:
    with serving(Scripted(asks), options=ServerOptions(limits=Limits(body=1000))) as served:
        for content in (b"x" * 1001, iter([b"x" * 600, b"x" * 600])):
            response = served.http.post(
                "/a2a/jsonrpc", content=content, headers={"Content-Type": "application/json"}
            )
            assert response.status_code == 413
            assert response.json()["error"]["status"] == "RESOURCE_EXHAUSTED"
        assert "result" in served.rpc("ListTasks", {})


def test_json_has_a_greatest_depth() -> None:
    with serving(Scripted(asks, input_modes=("*/*",))) as served:
        for depth, refused in ((50, False), (100, True), (100_000, True)):
            data = "[" * depth + "]" * depth
            body = json.dumps(
                {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": send_params({"data": 0})}
            ).replace('"data": 0', f'"data": {data}')
            response = served.http.post(
                "/a2a/jsonrpc", content=body, headers={"Content-Type": "application/json"}
            )
            assert response.status_code == (400 if refused else 200), depth
        brackets = "[" * 1000 + '"\\{' * 100
        assert served.send(brackets)["history"][0]["parts"] == [{"text": brackets}]


JSON = st.recursive(
    st.none() | st.text('ab"\\[]{}'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\{['), inner, max_size=3),
)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(JSON)
def test_depth_is_what_a_parser_would_find(value: Any) -> None:
    body, depth = json.dumps(value).encode(), depth_of(value)
    _check_depth(body, depth)
    if depth:
        with pytest.raises(Refused):
            _check_depth(body, depth - 1)


NOT_UTF_8 = [("/a2a/jsonrpc", 200), ("/a2a/v1/message:send", 400)]


@pytest.mark.parametrize(("path", "status"), NOT_UTF_8)
def test_bytes_that_are_not_utf_8_are_the_caller_s_fault(path: str, status: int) -> None:
    with serving(Scripted(asks)) as served:
        response = served.http.post(
            path, content=b'{"\xff": 1}', headers={"Content-Type": "application/json"}
        )
        assert response.status_code == status
        if status == 200:
            assert response.json()["error"]["code"] == -32700


def test_a_large_request_is_looked_through_in_little_memory() -> None:
    body = b"{}" * 100 + b'"' + b"\\n" * 1_000_000 + b"[" * 100 + b'"'
    tracemalloc.start()
    try:
        _check_depth(body, 64)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(body)
    finally:
        tracemalloc.stop()


def test_a_request_that_trickles_in_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ksadk.a2a.guards.BODY_SECONDS", 0.2)

    def trickle() -> Iterator[bytes]:
        for _ in range(50):
            yield b" "
            time.sleep(0.05)

    with serving(Scripted(asks)) as served:
        begun = time.monotonic()
        response = served.http.post(
            "/a2a/jsonrpc", content=trickle(), headers={"Content-Type": "application/json"}
        )
        assert response.status_code == 408 and time.monotonic() - begun < 2


NOT_KEPT = {
    "infinite": '{"data": {"x": 1e999}}',
    "no number": '{"data": NaN}',
    "infinite in metadata": '{"text": "x", "metadata": {"x": -1e999}}',
    "as deep as a request may be": '{"data": ' + '{"a":' * 40 + "1" + "}" * 40 + "}",
    "deep in metadata": '{"text": "x", "metadata": ' + '{"a":' * 40 + "1" + "}" * 40 + "}",
    "nothing": "{}",
}


@pytest.mark.parametrize("part", NOT_KEPT.values(), ids=NOT_KEPT)
def test_a_message_that_could_not_be_read_again_is_the_caller_s_fault_and_spoils_no_list(part: str) -> None:
    with serving(Scripted(asks, input_modes=("*/*",))) as served:
        request = '{"message": {"messageId": "m", "role": "ROLE_USER", "parts": [' + part + "]}}"
        call = '{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": ' + request + "}"
        headers = {"Content-Type": "application/json"}
        answer = served.http.post("/a2a/jsonrpc", content=call, headers=headers).json()
        assert answer["error"]["code"] == -32602
        assert served.http.post("/a2a/v1/message:send", content=request, headers=headers).status_code == 400
        assert served.rpc("ListTasks", {})["result"]["tasks"] == []


@pytest.mark.parametrize("request_id", ["1" * 5000, '"\\ud800"'], ids=["too many digits", "half a pair"])
def test_json_that_cannot_be_read_is_said_to_be_so_and_shows_nothing_of_the_server(request_id: str) -> None:
    with serving(Scripted(asks)) as served:
        call = f'{{"jsonrpc": "2.0", "id": {request_id}, "method": "ListTasks"}}'
        headers = {"Content-Type": "application/json"}
        answer = served.http.post("/a2a/jsonrpc", content=call, headers=headers)
        assert answer.json()["error"] == {"code": -32700, "message": "Parse error"}


def test_more_requests_than_it_takes_are_told_to_come_again() -> None:
    release = threading.Event()

    async def waits(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
        import asyncio

        await asyncio.to_thread(release.wait, 10)
        yield Text("done")

    with serving(Scripted(waits), options=ServerOptions(limits=Limits(requests=2))) as served:
        answers: list[Any] = []
        threads = [threading.Thread(target=lambda: answers.append(served.send("x"))) for _ in range(2)]
        for thread in threads:
            thread.start()
        refused: list[httpx.Response] = []

        def is_full() -> bool:
            refused.append(served.http.get("/a2a/v1/tasks"))
            return refused[-1].status_code == 503

        until(is_full)
        assert refused[-1].headers["retry-after"] == "1"
        assert refused[-1].json()["error"]["status"] == "UNAVAILABLE"
        release.set()
        for thread in threads:
            thread.join(30)
        assert [answer["status"]["state"] for answer in answers] == ["TASK_STATE_COMPLETED"] * 2
