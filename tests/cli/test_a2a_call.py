"""`a2a call`, `status`, `cancel`, `tasks` and `discover` against literal bytes of agents."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from a2a_replay import CARD, OLD_CARD, fixture_bytes, replaying

from ksadk.tools.gateway import ToolGateway

Command = Callable[..., Any]
Agentengine = Callable[..., subprocess.CompletedProcess[str]]

TASK_ID = "363422be-b0f9-4692-a24d-278670e7c7f1"
CONTEXT_ID = "c295ea44-7543-4f78-b524-7a38915ad6e4"
JOKE = "Why did the chicken cross the road? To get to the other side!"


def keyed(*, location: str = "header") -> bytes:
    scheme = {"k": {"apiKeySecurityScheme": {"location": location, "name": "X-Key"}}}
    return fixture_bytes("card").replace(
        b'"skills"', b'"securitySchemes": ' + json.dumps(scheme).encode() + b', "skills"'
    )


def test_text_is_one_field_a_line_with_ids_state_and_the_command_that_goes_on(command: Command) -> None:
    with replaying({"SendMessage": "send_task"}) as server:
        done = command("a2a", "call", server.url, "tell a joke")
        assert done.stdout == (
            f"Task: {TASK_ID}\nContext: {CONTEXT_ID}\nState: completed\nArtifact: joke\nText: {JOKE}\n"
            f"Resume: agentengine a2a call -a {server.url} --context-id {CONTEXT_ID} MESSAGE\n"
        )
        assert (done.status, done.stderr) == (0, "")
        message = server.last("SendMessage").json["params"]["message"]
        assert (message["role"], message["parts"]) == ("ROLE_USER", [{"text": "tell a joke"}])
        assert "taskId" not in message and "contextId" not in message


def test_json_is_one_send_message_response(command: Command) -> None:
    with replaying({"SendMessage": "send_task"}) as server:
        task = command("a2a", "call", "-a", server.url, "hi", "-o", "json").json["task"]
        assert (task["id"], task["status"]["state"]) == (TASK_ID, "TASK_STATE_COMPLETED")
    with replaying({"SendMessage": "send_message"}) as server:
        assert command("a2a", "call", "-a", server.url, "hi", "--json").json["message"]["messageId"] == "m-2"


@pytest.mark.parametrize(
    "options", [("--stream", "-o", "json"), ("-o", "jsonl"), ("--stream", "-o", "jsonl")]
)
def test_a_stream_as_json_is_lines_that_end_with_the_terminal_event(
    command: Command, options: tuple[str, ...]
) -> None:
    with replaying({"SendStreamingMessage": "stream"}, piece=7) as server:
        done = command("a2a", "call", server.url, "hi", *options)
        lines = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
        assert [next(iter(line)) for line in lines] == [
            "task", "statusUpdate", "artifactUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate",
        ]  # fmt: skip
        assert lines[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_stream_as_text_ends_with_ids_and_state(command: Command) -> None:
    with replaying({"SendStreamingMessage": "stream"}) as server:
        lines = command("a2a", "call", server.url, "hi", "--stream").stdout.split("\n")
        assert lines[:6] == [
            "Task: t-1",
            "Context: c-1",
            "State: submitted",
            "State: working",
            "Message: looking",
            "Thinking: hm",
        ]
        assert lines[-5:-2] == ["Task: t-1", "Context: c-1", "State: completed"]


@pytest.mark.parametrize("options", [(), ("--stream",), ("-o", "json"), ("-o", "jsonl")])
def test_text_of_any_language_is_raw_utf_8_on_any_locale(options: tuple[str, ...]) -> None:
    with replaying({"SendMessage": "send_message", "SendStreamingMessage": "rest_stream"}) as server:
        server.answers["SendStreamingMessage"] = [fixture_bytes("stream")]
        done = subprocess.run(
            [sys.executable, "-m", "agentengine_cli", "a2a", "call", server.url, "你好 🚀", *options],
            capture_output=True,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(Path.cwd()),
                "LC_ALL": "C",
                "PYTHONIOENCODING": "ascii",
            },
            check=True,
            timeout=60,
        )
        assert "你好".encode() in done.stdout and "🚀".encode() in done.stdout
        sent = server.requests[-1].json["params"]["message"]["parts"]
        assert sent == [{"text": "你好 🚀"}]


@pytest.mark.parametrize(
    ("answers", "status", "code", "a2a_code"),
    [
        ({"SendMessage": "error_200"}, 1, "TaskNotFoundError", -32001),
        ({"SendMessage": "500"}, 1, "A2ACLI_ERR_INTERNAL", 500),
        ({CARD: "404"}, 3, "A2ACLI_ERR_CARD_NOT_FOUND", None),
        ({CARD: "500"}, 1, "A2ACLI_ERR_INTERNAL", 500),
        ({CARD: "not_json"}, 1, "A2ACLI_ERR_CARD_INVALID", None),
        ({CARD: "404", OLD_CARD: "card_old"}, 1, "VersionNotSupportedError", None),
        ({"SendMessage": "401"}, 4, "A2ACLI_ERR_CREDENTIALS_MISSING", 401),
        ({"SendStreamingMessage": "401"}, 4, "A2ACLI_ERR_CREDENTIALS_MISSING", 401),
    ],
)
def test_an_error_has_a2as_name_and_its_exit_status(
    command: Command, answers: dict[str, Any], status: int, code: str, a2a_code: Any
) -> None:
    stream = ["--stream"] if "SendStreamingMessage" in answers else []
    with replaying(answers) as server:
        done = command("a2a", "call", server.url, "hi", "-o", "json", *stream)
        assert done.status == status
        error = done.json["error"]
        assert set(error) == {"code", "message", "hint", "a2aCode"}
        assert (error["code"], error["a2aCode"]) == (code, a2a_code)


def test_an_agent_that_is_not_there_is_unreachable(command: Command) -> None:
    with replaying({}) as server:
        gone = server.url
    done = command("a2a", "call", gone, "hi", "-o", "json")
    assert (done.status, done.json["error"]["code"]) == (3, "A2ACLI_ERR_UNREACHABLE")


def test_a_wait_that_is_too_long_ends_with_the_command_that_looks_again(command: Command) -> None:
    working = (
        fixture_bytes("get_task_working")
        .replace(b'"result":{', b'"result":{"task":{')
        .replace(b"]}}", b"]}}}")
    )
    with replaying({"SendMessage": working, "GetTask": "get_task_working"}) as server:
        done = command(
            "a2a", "call", server.url, "hi", "--timeout", "1", "--poll-interval", "0.2", "-o", "json"
        )
        error = done.json["error"]
        assert (done.status, error["code"]) == (5, "A2ACLI_ERR_TIMEOUT")
        assert error["hint"] == f"agentengine a2a status t-1 -a {server.url} --wait"
        assert 3 <= server.operations().count("GetTask") <= 8


@pytest.mark.parametrize(
    "line",
    [
        "a2a call", "a2a call http://h", "a2a call http://h a b", "a2a call ftp://h hi",
        "a2a call http://h hi -o yaml", "a2a call http://h hi --media-type text/plain",
        "a2a call http://h --data {x", "a2a call http://h hi --metadata []",
        "a2a call http://h hi --svc-param x", "a2a call http://h hi --transport smoke",
        "a2a call http://h hi --timeout x", "a2a call http://h --file nowhere",
        "a2a call http://h hi --async --stream", "a2a status", "a2a status t", "a2a tasks",
        "a2a tasks -a http://h --state odd", "a2a cancel t", "a2a discover",
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_a_usage_error(command: Command, line: str) -> None:
    done = command(*line.split(), *([] if "yaml" in line else ["-o", "json"]))
    assert done.status == 2
    if "yaml" not in line:
        assert done.json["error"]["code"] == "A2ACLI_ERR_USAGE"
    if line == "a2a status t":
        assert "--agent-card: no agent is named, and KSADK_A2A_SPACE_IDS names no Space" in done.stderr


def test_parts_keep_their_order_and_media_types_bind_to_the_part_before(command: Command) -> None:
    Path("a.pdf").write_bytes(b"%PDF\x00")
    Path("d.json").write_text('{"k": [1]}')
    with replaying({"SendMessage": "send_task"}) as server:
        arguments = [
            "--data", '{"k":1}', "--file", "a.pdf", "--text", "between", "--media-type", "text/markdown",
            "--file", "https://example.com/o.txt", "--data", "d.json", "--text", "last",
        ]  # fmt: skip
        assert command("a2a", "call", "-a", server.url, *arguments).status == 0
        assert server.last("SendMessage").json["params"]["message"]["parts"] == [
            {"data": {"k": 1}},
            {
                "raw": base64.b64encode(b"%PDF\x00").decode(),
                "filename": "a.pdf",
                "mediaType": "application/pdf",
            },
            {"text": "between", "mediaType": "text/markdown"},
            {"url": "https://example.com/o.txt", "filename": "o.txt", "mediaType": "text/plain"},
            {"data": {"k": [1]}},
            {"text": "last"},
        ]


def test_a_message_comes_from_stdin(agentengine: Agentengine) -> None:
    with replaying({"SendMessage": "send_task"}) as server:
        assert agentengine("a2a", "call", server.url, "-", stdin="zwei\nZeilen").returncode == 0
        assert server.last("SendMessage").json["params"]["message"]["parts"] == [{"text": "zwei\nZeilen"}]


def test_ids_metadata_and_service_parameters_go_where_they_belong(command: Command) -> None:
    with replaying({"SendMessage": "send_task"}) as server:
        options = [
            "--task-id",
            "t",
            "--context-id",
            "c",
            "--metadata",
            '{"m": 1}',
            "--svc-param",
            "x-trace: 7",
        ]
        command("a2a", "call", server.url, "hi", *options)
        request = server.last("SendMessage")
        message = request.json["params"]["message"]
        assert (message["taskId"], message["contextId"], message["metadata"]) == ("t", "c", {"m": 1})
        assert (request.headers["x-trace"], request.headers["a2a-version"]) == ("7", "1.0")


@pytest.mark.parametrize("how", ["option", "file", "environment"])
def test_a_bearer_token_is_sent_and_never_shown(
    command: Command, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("token").write_text("s3cret-token\n")
    monkeypatch.setenv("KSADK_A2A_BEARER", "s3cret-token" if how == "environment" else "other")
    options = {"option": ["--bearer", "s3cret-token"], "file": ["--bearer", "@token"], "environment": []}[how]
    with replaying({"SendMessage": "401"}) as server:
        done = command("--debug", "a2a", "call", server.url, "hi", *options)
        assert server.last("SendMessage").headers["authorization"] == "Bearer s3cret-token"
        assert done.status == 4
        assert "s3cret" not in done.stdout + done.stderr
        assert "authorization" not in server.last(CARD).headers


@pytest.mark.parametrize("location", ["header", "query", "cookie"])
def test_an_api_key_goes_where_the_card_says(command: Command, location: str) -> None:
    with replaying({CARD: keyed(location=location), "SendMessage": "send_task"}) as server:
        assert command("a2a", "call", server.url, "hi", "--api-key", "k3y").status == 0
        request = server.last("SendMessage")
        found = {
            "header": request.headers.get("x-key"),
            "query": request.path.partition("?X-Key=")[2],
            "cookie": request.headers.get("cookie", "").partition("X-Key=")[2],
        }
        assert found[location] == "k3y"
        assert [where for where, value in found.items() if value] == [location]


def test_an_api_key_without_a_place_is_not_sent_anywhere(command: Command) -> None:
    with replaying({}) as server:
        assert command("a2a", "call", server.url, "hi", "--api-key", "k3y").status == 2
        assert server.operations() == [CARD]


@pytest.mark.parametrize(
    "words", [("agent-demo", "hi"), ("agent.example.com", "hi"), ("--space-id", "space-demo", "agent", "hi")]
)
def test_an_agents_id_without_a_space_is_a_clear_error_and_no_guess(
    command: Command, words: tuple[str, ...]
) -> None:
    done = command("a2a", "call", *words, "-o", "json")
    assert (done.status, done.json["error"]["code"]) == (8, "space_not_configured")


@pytest.mark.parametrize(
    "line",
    [
        "discover --space-id space-demo --skill research",
        "status --space-id space-demo t",
        "cancel --space-id space-demo t",
    ],
)
def test_the_forms_for_a_space_say_that_none_is_configured(command: Command, line: str) -> None:
    done = command("a2a", *line.split())
    assert done.status == 8
    assert "the Space space-demo is not configured" in done.stderr
    assert "KSADK_A2A_SPACE_IDS" in done.stderr


def test_a_failed_task_is_told_and_fails_only_when_asked_to(command: Command) -> None:
    with replaying({"SendMessage": "task_failed"}) as server:
        done = command("a2a", "call", server.url, "hi")
        assert (done.status, done.stderr) == (0, "warning: the task is failed: the model is gone\n")
        assert "State: failed\nMessage: the model is gone\n" in done.stdout
        assert command("a2a", "call", server.url, "hi", "--exit-status").status == 1


def test_a_question_is_told_with_the_exact_command_that_answers_it(command: Command) -> None:
    with replaying({"SendMessage": "task_question"}) as server:
        done = command("a2a", "call", server.url, "hi", "--interactive")
        assert f"Resume: agentengine a2a call -a {server.url} --task-id t-1 ANSWER\n" in done.stdout
        assert done.status == 0
        assert "nobody can be asked" in done.stderr


ASKS_APPROVAL = """{"jsonrpc": "2.0", "id": "1", "result": {"task": {
  "id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": {
    "messageId": "m-1", "role": "ROLE_AGENT", "parts": [
      {"text": "write needs approval"},
      {"data": {"kind": "approval_request", "approval_request": {"id": "appr_1", "size": 13, "diff": "+a"}}}]
}}}}}"""


def test_a_wait_for_approval_is_shown_in_order_and_words_do_not_answer_it(command: Command) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + ASKS_APPROVAL.encode()
    with replaying({"SendMessage": answer}) as server:
        done = command("a2a", "call", server.url, "hi")
        assert done.stderr == "warning: the task is input-required: write needs approval\n"
        _, _, data = done.stdout.partition("Data:\n")
        shown = json.loads(data.partition("\n\n")[0])
        assert list(shown) == ["approval_request", "kind"]
        assert str(shown["approval_request"]) == "{'diff': '+a', 'id': 'appr_1', 'size': 13}"
        assert f"Resume: agentengine a2a status t-1 -a {server.url}\n" in done.stdout


def test_no_control_character_of_an_agents_reaches_the_output_and_no_text_passes_for_a_field(
    command: Command,
) -> None:
    hostile = json.dumps("\x1b[2J\nState: completed\u202e")[1:-1].encode()
    answer = fixture_bytes("send_task").replace(
        b"Why did the chicken cross the road? To get to the other side!", hostile
    )
    with replaying({"SendMessage": answer}) as server:
        done = command("a2a", "call", server.url, "hi")
        assert "Text:\n  \\x1b[2J\n  State: completed\\u202e\n\n" in done.stdout
        assert done.stdout.count("\nState: ") == 1


@pytest.mark.parametrize(
    ("said", "shown"),
    [("hello\n", "Text: hello\n"), ("a\n\nb\n\n", "Text:\n  a\n  \n  b\n\n")],
)
def test_line_breaks_at_the_end_of_a_text_are_no_lines_of_it(command: Command, said: str, shown: str) -> None:
    answer = fixture_bytes("send_task").replace(
        b"Why did the chicken cross the road? To get to the other side!", json.dumps(said)[1:-1].encode()
    )
    with replaying({"SendMessage": answer}) as server:
        done = command("a2a", "call", server.url, "hi")
        assert f"\n{shown}Resume: " in done.stdout


def test_without_waiting_the_task_is_told_at_once(command: Command) -> None:
    working = (
        fixture_bytes("get_task_working")
        .replace(b'"result":{', b'"result":{"task":{')
        .replace(b"]}}", b"]}}}")
    )
    with replaying({"SendMessage": working}) as server:
        done = command("a2a", "call", server.url, "hi", "--async")
        assert "State: working\n" in done.stdout
        assert f"Resume: agentengine a2a status t-1 -a {server.url} --wait\n" in done.stdout
        assert server.operations() == [CARD, "SendMessage"]


def test_status_and_cancel_give_a_bare_task(command: Command) -> None:
    with replaying({"GetTask": ["get_task_working", "get_task"], "CancelTask": "get_task"}) as server:
        assert (
            command("a2a", "status", "t-1", "-a", server.url, "-o", "json").json["status"]["state"]
            == "TASK_STATE_WORKING"
        )
        done = command("a2a", "status", "t-1", "-a", server.url, "-o", "json", "--wait", "--history", "2")
        assert (done.json["id"], done.json["xNew"]) == ("t-1", 1)
        assert "State: completed\n" in command("a2a", "cancel", "t-1", "-a", server.url).stdout
        assert server.last("CancelTask").json["params"] == {"id": "t-1"}


def test_tasks_are_listed(command: Command) -> None:
    with replaying({"ListTasks": "list"}) as server:
        done = command("a2a", "tasks", "-a", server.url, "--state", "working")
        assert done.stdout == "Task: t-1\nContext: c-1\nState: working\n\nNext: p2\n"
        assert server.last("ListTasks").json["params"] == {"status": "TASK_STATE_WORKING", "pageSize": 50}
        assert command("a2a", "tasks", "-a", server.url, "-o", "json").json["nextPageToken"] == "p2"
        assert json.loads(command("a2a", "tasks", "-a", server.url, "-o", "jsonl").stdout)["id"] == "t-1"


LISTS = {
    "no list": ('{"tasks": 5}', 1), "an object": ('{"tasks": {"a": 1}}', 1), "null": ('{"tasks": null}', 0),
    "a token that is none": ('{"tasks": [], "nextPageToken": {"a": 1}}', 1), "no id": ('{"tasks": [{}]}', 1),
    "nulls": ('{"tasks": [{"id": "t", "contextId": null, "status": null}]}', 0),
}  # fmt: skip


@pytest.mark.parametrize(("listed", "status"), LISTS.values(), ids=LISTS)
def test_odd_lists_of_tasks_are_told_in_words(command: Command, listed: str, status: int) -> None:
    answer = f'HTTP/1.1 200 OK\r\n\r\n{{"jsonrpc":"2.0","result":{listed}}}'.encode()
    with replaying({"ListTasks": answer}) as server:
        for form in ("text", "json", "jsonl"):
            assert command("a2a", "tasks", "-a", server.url, "-o", form).status == status


DRIPPING = ["discover {url}", "tasks -a {url}", "status t -a {url}", "cancel t -a {url}", "call {url} hi"]


@pytest.mark.parametrize("line", DRIPPING)
def test_an_agent_that_answers_drop_by_drop_has_so_long_in_all(command: Command, line: str) -> None:
    answer = b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 1000
    with replaying({CARD: answer}, piece=30, pause=0.1) as server:
        done = command("a2a", *line.format(url=server.url).split(), "--timeout", "0.5s")
        assert done.status == 5
        assert "did not answer within 0.5 s" in done.stderr


def test_discover_shows_an_agent_and_its_card_as_it_is(command: Command) -> None:
    with replaying({}) as server:
        shown = command("a2a", "discover", server.url).stdout
        assert "Name: wire-agent\n" in shown and "Signature: absent\n" in shown
        assert f"Interface: JSONRPC 1.0 {server.url}/rpc\n" in shown
        assert command("a2a", "discover", server.url, "-o", "json").json["xUnknownField"] == {"kept": True}
        assert server.operations() == [CARD, CARD]


def test_discover_shows_an_old_card_as_what_it_is(command: Command) -> None:
    with replaying({CARD: "404", OLD_CARD: "card_old"}) as server:
        done = command("a2a", "discover", server.url)
        assert done.status == 0
        assert "Name: old-agent\n" in done.stdout
        assert "Problem: the card is at the place of A2A before 1.0" in done.stdout


def test_a_cut_stream_says_what_happened(command: Command) -> None:
    with replaying({"SendStreamingMessage": "stream_cut", "GetTask": "get_task"}) as server:
        done = command("a2a", "call", server.url, "hi", "--stream")
        assert (done.status, done.stderr) == (
            0,
            "note: the stream ended before the task did; asking for task t-1\n",
        )
        assert "State: completed\n" in done.stdout


def test_a_rule_of_the_user_denies_a_call(command: Command) -> None:
    assert command("approvals", "rules", "add", "deny", "a2a_call", "url=127.0.0.1").status == 0
    with replaying({"SendMessage": "send_task"}) as server:
        done = command("a2a", "call", server.url, "hi")
        assert (done.status, server.operations()) == (7, [])


def test_a_call_by_a_person_asks_nobody_and_the_same_by_a_model_does(command: Command) -> None:
    from ksadk.tools.registry import find
    from ksadk.toolsets.selection import load_builtin_tools

    load_builtin_tools()
    with replaying({"SendMessage": "send_task"}) as server:
        assert command("a2a", "call", server.url, "hi").status == 0
        asked = ToolGateway(approval_mode="strict").call(
            find("a2a_call"), (), {"target": server.url, "message": "hi"}
        )
        assert asked["approval_required"] is True
        done = ToolGateway().call(find("a2a_call"), (), {"target": server.url, "message": "hi"})
        assert (done["text"], done["state"]) == (JOKE, "completed")
