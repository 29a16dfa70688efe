"""The client against literal bytes of agents, before it meets a server of ours."""

from __future__ import annotations

import asyncio
import gzip
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from a2a.types import AgentCard
from a2a_replay import CARD, OLD_CARD, fixture_bytes, replaying
from hypothesis import given
from hypothesis import strategies as st

from ksadk.a2a.client import Outgoing, RemoteAgent, Update, connect, follow, text_message, wait
from ksadk.a2a.client_errors import PROTOCOL_ERRORS, A2ARunError, AgentError, InvalidAnswer, http_error
from ksadk.a2a.remote_card import RemoteCard, problems, refuse_in_the_clear
from ksadk.a2a.sse import EventReader
from ksadk.a2a.targets import read_target
from ksadk.a2a.wire import Extras, Interface

OUTPUT = "你好 \u2028🚀"
TASK_ID = "363422be-b0f9-4692-a24d-278670e7c7f1"


def asked(target: str, use: Callable[[RemoteAgent], Any], **options: Any) -> Any:
    async def run() -> Any:
        async with connect(target, timeout=10, **options) as agent:
            return await use(agent)

    return asyncio.run(run())


def sent(agent: RemoteAgent) -> Any:
    return agent.send(text_message("hi"), wait=True)


async def followed(agent: RemoteAgent) -> list[Update]:
    return [update async for update in follow(agent, text_message("hi"), poll_interval=0.05)]


def card_with(old: str, new: str) -> bytes:
    changed = fixture_bytes("card").replace(old.encode(), new.encode())
    assert changed != fixture_bytes("card")
    return changed


@pytest.mark.parametrize("path", ["", "/", "/.well-known/agent-card.json"])
def test_a_base_url_with_or_without_slash_and_a_card_url_lead_to_the_agent(path: str) -> None:
    with replaying({"SendMessage": "send_task"}) as server:
        update = asked(server.url + path, sent)
        assert (update.kind, update.task_id, update.state) == ("task", TASK_ID, "completed")
        assert server.operations() == [CARD, "SendMessage"]


def test_host_and_port_alone_lead_to_the_agent() -> None:
    with replaying({"SendMessage": "send_message"}) as server:
        assert asked(f"127.0.0.1:{server.port}", sent).said.parts[0].text == "Direct message response 你好 🚀"


def test_a_card_in_a_path_is_asked_for_in_that_path() -> None:
    card = "GET /x/.well-known/agent-card.json"
    with replaying({card: "card", "SendMessage": "send_task"}) as server:
        assert asked(f"{server.url}/x/", sent).state == "completed"
        assert asked(f"{server.url}/x/.well-known/agent-card.json", sent).state == "completed"
        assert server.operations()[::2] == [card, card]


def test_a_local_card_file_leads_to_the_agent() -> None:
    with replaying({"SendMessage": "send_task"}) as server:
        body = fixture_bytes("card").partition(b"\r\n\r\n")[2].replace(b"PORT", str(server.port).encode())
        Path("card.json").write_bytes(body)
        assert asked("card.json", sent).state == "completed"
        assert asked(f"file://{Path('card.json').resolve()}", sent).state == "completed"
        assert CARD not in server.operations()


@pytest.mark.parametrize(
    ("text", "kind", "place"),
    [
        ("http://h", "url", "http://h/.well-known/agent-card.json"),
        ("http://h/x/", "url", "http://h/x/.well-known/agent-card.json"),
        ("https://h/cards/a.json", "url", "https://h/cards/a.json"),
        ("localhost:8081", "url", "http://localhost:8081/.well-known/agent-card.json"),
        ("[::1]:8081/x", "url", "http://[::1]:8081/x/.well-known/agent-card.json"),
        ("agent.example.com:443", "url", "https://agent.example.com:443/.well-known/agent-card.json"),
        ("agent-demo", "agent", "agent-demo"),
        ("agent.example.com", "agent", "agent.example.com"),
    ],
)
def test_a_target_means(text: str, kind: str, place: str) -> None:
    assert (read_target(text).kind, read_target(text).place) == (kind, place)


@pytest.mark.parametrize(
    "text", ["", "ftp://h", "http://", "http://u:p@h", "a b", "x/y", "http://h:0", "a\nb"]
)
def test_what_is_no_target_is_a_usage_error(text: str) -> None:
    with pytest.raises(AgentError) as caught:
        read_target(text)
    assert caught.value.code == "A2ACLI_ERR_USAGE"


def test_an_agents_id_is_never_taken_for_an_address() -> None:
    with pytest.raises(AgentError, match="no Space is configured") as caught:
        asked("agent.example.com", sent)
    assert caught.value.code == "space_not_configured"


@pytest.mark.parametrize("piece", [0, 1, 7])
def test_a_stream_survives_comments_blank_data_any_line_ends_and_any_cuts(piece: int) -> None:
    with replaying({"SendStreamingMessage": "stream"}, piece=piece) as server:
        updates = asked(server.url, followed)
        assert [update.kind for update in updates] == [
            "task", "status_update", "artifact_update", "artifact_update", "artifact_update", "status_update",
        ]  # fmt: skip
        assert updates[4].value.artifact_update.append
        assert updates[-1].state == "completed"
        assert server.last("SendStreamingMessage").headers["a2a-version"] == "1.0"


@pytest.mark.parametrize("cut", ["stream_cut", "stream_cut_chunked"])
def test_a_cut_stream_is_followed_by_asking_for_the_task(cut: str) -> None:
    notices: list[str] = []

    async def use(agent: RemoteAgent) -> list[Update]:
        return [update async for update in follow(agent, text_message("hi"), notice=notices.append)]

    with replaying({"SendStreamingMessage": cut, "GetTask": "get_task"}) as server:
        updates = asked(server.url, use)
        assert updates[-1].value.task.artifacts[0].parts[0].text == OUTPUT
        assert server.operations()[1:] == ["SendStreamingMessage", "GetTask"]
        assert len(notices) == 1 and "t-1" in notices[0]


def test_a_cut_stream_of_a_task_that_runs_is_subscribed_to() -> None:
    answers: dict[str, Any] = {
        "SendStreamingMessage": "stream_cut",
        "GetTask": "get_task_working",
        "SubscribeToTask": "stream_resumed",
    }
    with replaying(answers) as server:
        assert asked(server.url, followed)[-1].state == "completed"
        assert server.operations()[1:] == ["SendStreamingMessage", "GetTask", "SubscribeToTask"]
        assert server.last("SubscribeToTask").json["params"] == {"id": "t-1"}


def test_a_stream_that_is_cut_for_ever_is_given_up_for_asking() -> None:
    working: list[str | bytes] = ["get_task_working"] * 8
    answers: dict[str, Any] = {
        "SendStreamingMessage": "stream_cut",
        "GetTask": [*working, "get_task"],
        "SubscribeToTask": "stream_cut",
    }
    with replaying(answers) as server:
        assert asked(server.url, followed)[-1].state == "completed"


def test_a_stream_cut_before_any_task_says_that_nothing_is_known() -> None:
    answers: dict[str, Any] = {"SendStreamingMessage": "stream_cut_before_task"}
    with replaying(answers) as server, pytest.raises(A2ARunError, match="whether the message arrived"):
        asked(server.url, followed)


def test_a_cut_stream_whose_task_is_gone_tells_the_tasks_id() -> None:
    with replaying({"SendStreamingMessage": "stream_cut", "GetTask": "error_200"}) as server:
        with pytest.raises(A2ARunError, match="Task not found") as caught:
            asked(server.url, followed)
        assert (caught.value.code, caught.value.task_id) == ("a2a_stream_cut", "t-1")


@pytest.mark.parametrize(
    ("answers", "transport", "code", "a2a_code"),
    [
        ({"SendMessage": "error_200"}, "JSONRPC", "TaskNotFoundError", -32001),
        ({"POST /rest/message:send": "rest_error_200"}, "HTTP+JSON", "TaskNotFoundError", "TASK_NOT_FOUND"),
        ({"POST /rest/message:send": "rest_error_404"}, "HTTP+JSON", "TaskNotFoundError", "TASK_NOT_FOUND"),
        ({"SendMessage": "401"}, "JSONRPC", "A2ACLI_ERR_CREDENTIALS_MISSING", 401),
        ({"SendMessage": "500"}, "JSONRPC", "A2ACLI_ERR_INTERNAL", 500),
        ({"SendMessage": "404"}, "JSONRPC", "A2ACLI_ERR_INTERNAL", 404),
        ({"SendMessage": "not_json"}, "JSONRPC", "InvalidAgentResponseError", None),
        ({"SendMessage": "surrogate"}, "JSONRPC", "InvalidAgentResponseError", None),
        ({"SendMessage": "card"}, "JSONRPC", "InvalidAgentResponseError", None),
        ({"POST /rest/message:send": "card"}, "HTTP+JSON", "InvalidAgentResponseError", None),
    ],
)
def test_what_is_no_answer_is_an_error_with_its_name(
    answers: dict[str, Any], transport: str, code: str, a2a_code: Any
) -> None:
    with replaying(answers) as server:
        with pytest.raises(AgentError) as caught:
            asked(server.url, sent, transports=[transport])
        assert (caught.value.code, caught.value.details.get("a2a_code")) == (code, a2a_code)


@pytest.mark.parametrize(
    ("answer", "shown"), [("401", "HTTP 401 Unauthorized: token required"), ("500", "<h1>Oops</h1>")]
)
@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
def test_a_refusal_shows_its_status_and_the_start_of_its_body(
    operation: str, answer: str, shown: str
) -> None:
    with replaying({operation: answer}) as server:
        with pytest.raises(AgentError, match=f"HTTP {answer}") as caught:
            asked(server.url, sent if operation == "SendMessage" else followed)
        assert shown in caught.value.message


def test_an_error_inside_a_stream_is_the_agents_error() -> None:
    with replaying({"SendStreamingMessage": "stream_error"}) as server:
        with pytest.raises(AgentError, match="it broke") as caught:
            asked(server.url, followed)
        assert caught.value.code == "InternalError"


def test_credentials_that_are_refused_are_told_from_missing_ones() -> None:
    extras = Extras(headers={"Authorization": "Bearer s3cret"}, secrets=("s3cret",))
    with replaying({"SendMessage": "401"}) as server:
        with pytest.raises(AgentError) as caught:
            asked(server.url, sent, extras=lambda _: extras)
        assert caught.value.code == "A2ACLI_ERR_AUTH_FAILED"
        assert "s3cret" not in str(caught.value)
        assert caught.value.hint == "The credentials that were sent do not count there."


ECHOES = {
    "500": b"HTTP/1.1 500 Oops\r\n\r\n<p>Authorization: Bearer s3cret",
    "an error": b'HTTP/1.1 200 OK\r\n\r\n{"jsonrpc":"2.0","error":{"code":-32603,"message":"no s3cret"}}',
    "a redirect": b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:9/\r\n\r\n",
    "too much": b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 2000,
    "the reason": b"HTTP/1.1 403 Bearer s3cret\r\n\r\n",
    "a redirect with it": b"HTTP/1.1 302 Go\r\nLocation: https://a.example/?key=s3cret\r\n\r\n",
    "no status": b"Bearer s3cret\r\n\r\n",
    "no header": b"HTTP/1.1 200 OK\r\nBearer s3cret\r\n\r\n",
    "no chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ns3cret\r\n",
    "no JSON": b"HTTP/1.1 200 OK\r\n\r\nBearer s3cret",
    "no JSON-RPC": b'HTTP/1.1 200 OK\r\n\r\n{"key":"s3cret"}',
    "an error in escapes": (
        b'HTTP/1.1 200 OK\r\n\r\n{"jsonrpc":"2.0","error":{"code":-32603,"message":"\\u00733cret"}}'
    ),
    "a refusal in escapes": b'HTTP/1.1 400 No\r\n\r\n{"error":{"message":"s3\\u0063re\\u0074"}}',
    "no event": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: s3cret\n\n",
}


@pytest.mark.parametrize("use", [sent, followed], ids=["call", "stream"])
@pytest.mark.parametrize("answer", ECHOES.values(), ids=ECHOES)
def test_credentials_are_in_no_error_though_the_agent_repeats_them(
    answer: bytes, use: Callable[[RemoteAgent], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ksadk.a2a.wire.MAX_BODY_BYTES", 1000)
    extras = Extras({"Authorization": "Bearer s3cret"}, {"key": "s3cret"}, secrets=("s3cret",))
    given = {"SendMessage": answer, "SendStreamingMessage": answer}
    with replaying(given) as server, pytest.raises(AgentError) as caught:
        asked(server.url, use, extras=lambda _: extras)
    chain = "".join(traceback.format_exception(caught.value, limit=0))  # without the lines of this file
    assert "s3cret" not in f"{chain} {caught.value.to_result()}"


def test_an_answer_that_is_compressed_twice_is_not_unpacked() -> None:
    small = gzip.compress(gzip.compress(bytes(64 << 20)))
    assert len(small) < 1000
    twice = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\n\r\n" + small
    with replaying({"SendMessage": twice}) as server, pytest.raises(InvalidAnswer, match="compressed"):
        asked(server.url, sent)


def test_credentials_are_not_sent_in_the_clear_for_a_card_that_came_over_https() -> None:
    remote = RemoteCard({}, AgentCard(), "https://agent.example.com/.well-known/agent-card.json")
    with pytest.raises(AgentError, match="in the clear"):
        refuse_in_the_clear(remote, Interface("http://agent.example.com/rpc", "JSONRPC"))
    for url in ("https://agent.example.com/rpc", "http://127.0.0.1:8081/rpc"):
        refuse_in_the_clear(remote, Interface(url, "JSONRPC"))


@pytest.mark.parametrize("part", [{"text": "a\udcffb"}, {"data": float("inf")}], ids=["bytes", "infinite"])
def test_what_no_request_can_hold_is_a_usage_error(part: Any) -> None:
    with replaying({}) as server, pytest.raises(AgentError, match="what is to be sent is not") as caught:
        asked(server.url, lambda agent: agent.send(Outgoing([part]), wait=True))
    assert caught.value.code == "A2ACLI_ERR_USAGE"


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_have_is_no_answer(number: str) -> None:
    answer = f'HTTP/1.1 200 OK\r\n\r\n{{"jsonrpc":"2.0","result":{{"task":{{"id":"t","x":{number}}}}}}}'
    with replaying({"SendMessage": answer.encode()}) as server:
        with pytest.raises(AgentError, match="not JSON") as caught:
            asked(server.url, sent)
        assert caught.value.code == "InvalidAgentResponseError"


def test_a_number_beyond_all_floats_is_no_answer() -> None:
    task = f'{{"id":"t","metadata":{{"n":1{"0" * 400}}}}}'
    answer = f'HTTP/1.1 200 OK\r\n\r\n{{"jsonrpc":"2.0","result":{{"task":{task}}}}}'
    with replaying({"SendMessage": answer.encode()}) as server:
        with pytest.raises(AgentError, match="is not A2A") as caught:
            asked(server.url, sent)
        assert caught.value.code == "InvalidAgentResponseError"


@pytest.mark.parametrize("name", ["get_task", "cancel"])
def test_another_task_than_the_one_asked_for_is_no_answer(name: str) -> None:
    answers: Any = {"GetTask": "get_task", "CancelTask": "get_task"}
    with replaying(answers) as server, pytest.raises(AgentError, match="asked was for task 't-9'"):
        asked(server.url, lambda agent: getattr(agent, name)("t-9"))


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ('{"error": {"code": 401, "message": "A token is needed."}}', ": A token is needed."),
        ('{"error": "no"}', ': {"error": "no"}'),
        ('{"error": {"message": ""}}', ': {"error": {"message": ""}}'),
        ("[1]", ": [1]"),
        ("[" * 100_000, ": " + "[" * 300),
        ("", ""),
    ],
    ids=["words", "no object", "no words", "a list", "deep", "nothing"],
)
def test_of_a_refusal_in_json_the_words_are_shown(body: str, shown: str) -> None:
    error = http_error(401, "Unauthorized", body, "http://x", with_credentials=False)
    assert error.message == f"http://x answered HTTP 401 Unauthorized{shown}"


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ('"protocolVersion": "1.0"', '"protocolVersion": "2.0"', "VersionNotSupportedError", "2.0"),
        ('"protocolBinding": "', '"protocolBinding": "x-', "A2ACLI_ERR_CARD_INVALID", "x-JSONRPC 1.0 at"),
        ('"supportedInterfaces"', '"interfaces"', "A2ACLI_ERR_CARD_INVALID", "offers no interface"),
        ('"name": "wire-agent"', '"name": 7', "A2ACLI_ERR_CARD_INVALID", "not one of A2A 1.0"),
    ],
)
def test_a_card_that_cannot_be_used_says_why(old: str, new: str, code: str, words: str) -> None:
    with replaying({CARD: card_with(old, new)}) as server:
        with pytest.raises(AgentError) as caught:
            asked(server.url, sent)
        assert caught.value.code == code
        assert words in caught.value.message


def test_lower_case_bindings_are_named_with_what_was_offered() -> None:
    lower = fixture_bytes("card").replace(b"JSONRPC", b"jsonrpc").replace(b"HTTP+JSON", b"http+json")
    with replaying({CARD: lower}) as server:
        with pytest.raises(AgentError, match="written in capitals: JSONRPC") as caught:
            asked(server.url, sent)
        assert "Offered are jsonrpc 1.0 at http://127.0.0.1" in caught.value.message


def test_an_interface_that_cannot_be_used_is_passed_over() -> None:
    with replaying(
        {CARD: card_with('"protocolBinding": "JSONRPC"', '"protocolBinding": "GRPC"'),
         "POST /rest/message:send": "rest_send_task"}
    ) as server:  # fmt: skip
        assert asked(server.url, sent).task_id == TASK_ID


def test_an_old_card_is_told_of_and_not_called() -> None:
    with replaying({CARD: "404", OLD_CARD: "card_old"}) as server:
        with pytest.raises(AgentError, match=r"before 1\.0") as caught:
            asked(server.url, sent)
        assert caught.value.code == "VersionNotSupportedError"
        assert server.operations() == [CARD, OLD_CARD]


@pytest.mark.parametrize(
    ("transport", "operation"), [("JSONRPC", "SendMessage"), ("HTTP+JSON", "POST /rest/a%2Fb/message:send")]
)
def test_the_tenant_of_the_interface_goes_with_every_request(transport: str, operation: str) -> None:
    tenant = card_with('"protocolVersion": "1.0"', '"protocolVersion": "1.0", "tenant": "a/b"')
    answer = "send_task" if transport == "JSONRPC" else "rest_send_task"
    with replaying({CARD: tenant, operation: answer}) as server:
        asked(server.url, sent, transports=[transport])
        request = server.last(operation).json
        assert (request["params"] if transport == "JSONRPC" else request)["tenant"] == "a/b"


def test_without_a_tenant_none_is_sent() -> None:
    with replaying({"SendMessage": "send_task"}) as server:
        asked(server.url, sent)
        assert "tenant" not in server.last("SendMessage").json["params"]


def test_both_bindings_stream_the_same() -> None:
    with replaying({"SendStreamingMessage": "stream", "POST /rest/message:stream": "rest_stream"}) as server:
        by_rpc = asked(server.url, followed)
        by_rest = asked(server.url, followed, transports=["HTTP+JSON"])
        assert [update.document for update in by_rpc] == [update.document for update in by_rest]


def test_an_agent_that_does_not_stream_is_asked_until_its_task_ends() -> None:
    quiet = card_with('"streaming": true', '"streaming": false')
    working = fixture_bytes("get_task_working")
    started = working.replace(b'"result":{', b'"result":{"task":{').replace(b"]}}", b"]}}}")
    with replaying(
        {CARD: quiet, "SendMessage": started, "GetTask": ["get_task_working", "get_task"]}
    ) as server:
        assert [update.state for update in asked(server.url, followed)] == ["working", "completed"]
        assert server.last("SendMessage").json["params"]["configuration"] == {"returnImmediately": True}


def test_a_wait_ends_at_a_question() -> None:
    with replaying({"SendMessage": "task_question"}) as server:
        update = asked(server.url, lambda agent: wait(agent, text_message("hi"), seen=lambda _: None))
        assert (update.state, update.said.parts[0].text) == ("input-required", "which city?")


def test_no_proxy_is_taken_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with replaying({"SendMessage": "send_task"}) as server:
        assert asked(server.url, sent).state == "completed"


def test_nothing_at_an_address_is_unreachable_and_no_card_is_no_card() -> None:
    with replaying({CARD: "404"}) as server:
        with pytest.raises(AgentError) as caught:
            asked(server.url, sent)
        assert caught.value.code == "A2ACLI_ERR_CARD_NOT_FOUND"
        gone = server.url
    with pytest.raises(AgentError) as caught:
        asked(gone, sent)
    assert (caught.value.code, caught.value.kind) == ("A2ACLI_ERR_UNREACHABLE", "unreachable")


def test_the_bearer_is_shown_to_a_cards_address_only_when_asked_for() -> None:
    with replaying({CARD: ["401", "card"], "SendMessage": "send_task"}) as server:
        asked(server.url, sent, bearer="s3cret")
        first, second = (request.headers.get("authorization") for request in server.requests[:2])
        assert (first, second) == (None, "Bearer s3cret")


def test_problems_are_told_of_what_callers_cannot_reach() -> None:
    wild = card_with("127.0.0.1:PORT/rpc", "0.0.0.0:PORT/rpc")
    with replaying({CARD: wild}) as server:
        found = asked(server.url, lambda agent: asyncio.sleep(0, list(problems(agent.card))))
        assert found == [
            f"JSONRPC at http://0.0.0.0:{server.port}/rpc: 0.0.0.0 is no address that a caller can reach"
        ]


@given(
    st.lists(st.text(alphabet="ab:\u2028\x85 你", min_size=1), max_size=6),
    st.integers(1, 9),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_events_come_out_as_they_went_in_however_they_are_cut(texts: list[str], piece: int, end: str) -> None:
    data = "".join(
        f": note{end}data: {json.dumps(text, ensure_ascii=False)}{end}{end}" for text in texts
    ).encode()
    reader = EventReader()
    found = [event for at in range(0, len(data), piece) for event in reader.feed(data[at : at + piece])]
    found += reader.feed(b"\n")  # a lone CR at the end waits for its line feed
    assert [json.loads(event) for event in found] == texts


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader_of_events(data: bytes) -> None:
    whole, parts = EventReader(), EventReader()
    assert whole.feed(data + b"\n\n") == [e for byte in [*data, 10, 10] for e in parts.feed(bytes([byte]))]


def test_the_names_of_errors_are_the_sdks() -> None:
    from a2a.utils.errors import A2A_ERROR_MAPPING, JSON_RPC_ERROR_CODE_MAP

    assert {name: known.rpc_code for name, known in PROTOCOL_ERRORS.items()} == {
        error.__name__: code for error, code in JSON_RPC_ERROR_CODE_MAP.items()
    }
    for error, mapping in A2A_ERROR_MAPPING.items():
        assert PROTOCOL_ERRORS[error.__name__].reason == mapping.reason
