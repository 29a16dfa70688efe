"""`a2a discover`, `call`, `status` and `cancel` in a Space, against literal bytes of the platform."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a_replay import replaying
from space_wire import (
    AGENT,
    BLOCKED,
    EXTERNAL,
    PERMIT,
    SPACE,
    TASK,
    VERSION,
    WORKS,
    Platform,
    answer_bytes,
    changed,
    configuration,
    http,
    platform,
)

from ksadk.tools.decision_log import DecisionLog
from ksadk.tools.gateway import ToolGateway

Command = Callable[..., Any]
Serving = Callable[..., AbstractContextManager[Platform]]

ANSWER = "三条结论 ✅"
COMPLETED = f"Task: {TASK}\nAgent: {AGENT}\nStatus: completed\nArtifact: response\nText: {ANSWER}\n"
ASKING = http(
    '{"jsonrpc":"2.0","id":"*","result":{"task":{"id":"remote-task-1","contextId":"remote-context-1","status":'
    '{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"q","role":"ROLE_AGENT","parts":'
    '[{"text":"which city?"}]}}}}}'
)
WORKING = http(
    '{"jsonrpc":"2.0","id":"*","result":{"task":{"id":"remote-task-1","contextId":"remote-context-1",'
    '"status":{"state":"TASK_STATE_WORKING"}}}}'
)
STILL_WORKING = http(
    '{"jsonrpc":"2.0","id":"*","result":{"id":"remote-task-1","contextId":"remote-context-1",'
    '"status":{"state":"TASK_STATE_WORKING"}}}'
)
DOES_NOT_STREAM = http(
    '{"jsonrpc":"2.0","id":"*","error":{"code":-32004,"message":"this agent does not stream"}}'
)
AWAY = http(
    '{"error":{"code":502,"status":"UNAVAILABLE","message":"the agent cannot be reached","details":[]}}',
    "502 Bad Gateway",
)


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serving:
    """A platform that the environment names: `with space(SendMessage="hosted_send") as server`."""

    @contextmanager
    def serving(spaces: str = SPACE, **answers: Any) -> Iterator[Platform]:
        with platform(**(WORKS | answers)) as server:
            for name, value in configuration(server, tmp_path / "tokens", spaces).items():
                monkeypatch.setenv(name, value)
            yield server

    return serving


# The four commands of the document


def test_discover_lists_the_agents_with_a_skill_that_can_be_called(command: Command, space: Serving) -> None:
    with space() as server:
        done = command("a2a", "discover", "--space-id", SPACE, "--skill", "research")
        assert (done.status, done.stderr) == (0, "")
        assert done.stdout.split("\n\n")[0] == (
            f"Agent: {AGENT}\nName: research-agent\nDescription: Answers.\nVersion: {VERSION}\n"
            "Source: hosted\nRoute: hosted_gateway\nTakes: text/plain\nGives: text/plain\n"
            "Skill: research: Research. Skill: research\nCallable: yes"
        )
        assert server.requests[0].json == {"A2ASpaceId": SPACE, "SkillId": "research"}


def test_call_prints_the_summary_and_the_answer(command: Command, space: Serving) -> None:
    with space(SendMessage="hosted_send") as server:
        done = command("a2a", "call", "--space-id", SPACE, AGENT, "总结本周研究")
        assert (done.status, done.stdout, done.stderr) == (0, COMPLETED, "")
        sent = server.requests[1].json["params"]
        assert sent["message"]["parts"] == [{"text": "总结本周研究"}]
        assert sent["configuration"] == {"returnImmediately": True}
        assert server.operations()[:2] == ["PrepareA2ACall", "SendMessage"]
        assert "AppendA2ATaskEvents" in server.operations()


def test_status_and_cancel_tell_how_a_task_stands(command: Command, space: Serving) -> None:
    with space(GetTask="hosted_get", CancelTask="hosted_cancel") as server:
        assert command("a2a", "status", "--space-id", SPACE, TASK).stdout == COMPLETED
        stopped = command("a2a", "cancel", "--space-id", SPACE, TASK)
        assert (stopped.status, stopped.stdout) == (0, f"Task: {TASK}\nAgent: {AGENT}\nStatus: canceled\n")
        asked = [item.json for item in server.requests if item.operation == "PrepareA2ATaskOperation"]
        assert [item["Operation"] for item in asked] == ["get_task", "cancel_task"]
        assert {item["A2ATaskId"] for item in asked} == {TASK}


# As JSON


def test_an_answer_that_came_in_pieces_is_shown_as_one(command: Command, space: Serving) -> None:
    parts = '{"text":"one, "},{"text":"two"},{"data":{"n":3}},{"text":"four"}'
    artifact = '{"artifactId":"a","name":"response","parts":[' + parts + "]}"
    working = http(
        '{"jsonrpc":"2.0","id":"*","result":{"id":"remote-task-1","contextId":"remote-context-1",'
        '"status":{"state":"TASK_STATE_WORKING"},"artifacts":[' + artifact + "]}}"
    )
    with space(GetTask=working):
        shown = command("a2a", "status", TASK).stdout
    assert 'Text: one, two\nData:\n  {\n    "n": 3\n  }\n\nText: four\n' in shown


def test_json_is_the_platforms_summary(command: Command, space: Serving) -> None:
    summary = {"task_id": TASK, "status": "completed", "text": ANSWER}
    with space(SendMessage="hosted_send", GetTask="hosted_get", CancelTask="hosted_cancel"):
        assert command("a2a", "call", AGENT, "hi", "--json").json == summary
        assert command("a2a", "status", TASK, "-o", "json").json == summary
        assert command("a2a", "cancel", TASK, "--json").json == {"task_id": TASK, "status": "canceled"}


def test_a_listing_is_one_json_list_or_a_line_for_each_agent(command: Command, space: Serving) -> None:
    first = {
        "agent_id": AGENT, "version_id": VERSION, "source": "hosted", "name": "research-agent",
        "description": "Answers.", "skills": ["research"],
        "input_modes": ["text/plain"], "output_modes": ["text/plain"],
        "route_kind": "hosted_gateway", "callable": True, "blocked_reason": "",
    }  # fmt: skip
    with space():
        listed = command("a2a", "discover", "--space-id", SPACE, "--json").json
        assert listed[0] == first
        assert [agent["agent_id"] for agent in listed] == [AGENT, EXTERNAL]
        lines = command("a2a", "discover", "-o", "jsonl").stdout.splitlines()
        assert [json.loads(line) for line in lines] == listed


def test_blocked_agents_are_shown_where_asked_for_with_the_reason(command: Command, space: Serving) -> None:
    with space(ListA2ASpaceAgents="list_agents_second_page"):
        assert command("a2a", "discover").stdout == "Agents: none\n"
        (blocked,) = command("a2a", "discover", "--include-blocked", "--json").json
        assert (blocked["agent_id"], blocked["callable"]) == (BLOCKED, False)
        shown = command("a2a", "discover", BLOCKED, "--space-id", SPACE).stdout
        assert f"Callable: no\nBlocked: {blocked['blocked_reason']}\n" in shown
        assert blocked["blocked_reason"]


def test_a_prompt_goes_to_the_platform(command: Command, space: Serving) -> None:
    with space() as server:
        command("a2a", "discover", "--prompt", "who translates?", "--include-blocked")
        assert server.requests[0].json == {
            "A2ASpaceId": SPACE,
            "Prompt": "who translates?",
            "IncludeBlocked": True,
        }


def test_an_agent_that_is_not_there_is_an_error_and_no_empty_list(command: Command, space: Serving) -> None:
    with space():
        done = command("a2a", "discover", "agent.example.com", "--json")
        assert (done.status, done.json["error"]["code"]) == (1, "A2A_AGENT_NOT_FOUND")
        assert "http://HOST:PORT" in done.stderr


# Which Space


@pytest.mark.parametrize("spaces", [SPACE, f"{SPACE}, {SPACE},"])
def test_the_one_space_there_is_needs_no_name(command: Command, space: Serving, spaces: str) -> None:
    with space(spaces, SendMessage="hosted_send") as server:
        assert command("a2a", "call", AGENT, "hi").stdout == COMPLETED
        assert server.requests[0].json["A2ASpaceId"] == SPACE


@pytest.mark.parametrize("line", ["discover", f"call {AGENT} hi", f"status {TASK}", f"cancel {TASK}"])
def test_of_several_spaces_one_must_be_named(command: Command, space: Serving, line: str) -> None:
    with space("a,b") as server:
        done = command("a2a", *line.split(), "--json")
        assert (done.status, done.json["error"]["code"]) == (2, "space_id_required")
        assert "a, b" in done.stderr
        other = command("a2a", *line.split(), "--space-id", "c")
        assert other.status == 8
        assert server.requests == []


def test_one_of_several_spaces_is_called_by_its_name(command: Command, space: Serving) -> None:
    with space(f"a,{SPACE}", SendMessage="hosted_send") as server:
        assert command("a2a", "call", "--space-id", SPACE, AGENT, "hi").status == 0
        assert server.requests[0].json["A2ASpaceId"] == SPACE


def test_an_address_is_called_as_ever_where_a_space_is_configured(command: Command, space: Serving) -> None:
    with space() as server, replaying({"SendMessage": "send_task"}) as agent:
        assert "State: completed" in command("a2a", "call", agent.url, "hi").stdout
        assert server.requests == []


def test_an_empty_space_is_no_call_of_an_address(command: Command, space: Serving) -> None:
    with space() as server, replaying({"SendMessage": "send_task"}) as agent:
        done = command("a2a", "call", "--space-id", "", agent.url, "hi")
        assert (done.status, "it is empty" in done.stderr) == (2, True)
        assert (server.requests, agent.requests) == ([], [])


def test_an_address_is_no_agents_id_in_a_space(command: Command, space: Serving) -> None:
    forbidden = "error_forbidden_no_data"
    with space(PrepareA2ACall=forbidden) as server, replaying({"SendMessage": "send_task"}) as agent:
        assert command("a2a", "call", "--space-id", SPACE, agent.url, "hi").status == 4
        assert server.requests[0].json["TargetA2AAgentId"] == agent.url
        assert agent.requests == []


@pytest.mark.parametrize(
    "option",
    [("--bearer", "t"), ("--api-key", "k"), ("--svc-param", "X-A:b"), ("--transport", "JSONRPC"),
     ("-a", "127.0.0.1:1"), ("--context-id", "c")],
)  # fmt: skip
def test_options_about_addresses_are_refused_in_a_space(
    command: Command, space: Serving, option: tuple[str, ...]
) -> None:
    with space() as server:
        words = ["hi"] if option[0] == "-a" else [AGENT, "hi"]
        assert command("a2a", "call", "--space-id", SPACE, *words, *option).status == 2
        assert server.requests == []


# Waiting


def test_async_comes_back_at_once_with_the_command_that_looks_again(command: Command, space: Serving) -> None:
    with space(SendMessage=WORKING) as server:
        done = command("a2a", "call", AGENT, "hi", "--async")
        resume = f"agentengine a2a status --space-id {SPACE} {TASK} --wait"
        assert done.stdout == f"Task: {TASK}\nAgent: {AGENT}\nStatus: working\nResume: {resume}\n"
        assert "SubscribeToTask" not in server.operations()


def test_a_call_follows_the_task_to_its_end(command: Command, space: Serving) -> None:
    with space(SendMessage=WORKING, SubscribeToTask="hosted_subscribe", GetTask="hosted_get") as server:
        assert command("a2a", "call", AGENT, "hi").stdout == COMPLETED
        assert server.operations().count("GetTask") == 1


def test_an_agent_that_does_not_stream_is_asked_until_it_has_ended(command: Command, space: Serving) -> None:
    gets = [STILL_WORKING, STILL_WORKING, answer_bytes("hosted_get")]
    with space(SendMessage=WORKING, SubscribeToTask=DOES_NOT_STREAM, GetTask=gets) as server:
        assert command("a2a", "call", AGENT, "hi", "--poll-interval", "0.01").stdout == COMPLETED
        assert server.operations().count("GetTask") == 3


def test_a_task_that_takes_too_long_is_told_by_the_platforms_id(
    command: Command, space: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_long(*_: Any, **__: Any) -> None:  # on any machine, and only once the task is known
        raise TimeoutError

    monkeypatch.setattr("agentengine_cli.a2a_space_call.ended", too_long)
    with space(SendMessage=WORKING):
        done = command("a2a", "call", AGENT, "hi", "--json")
        assert (done.status, done.json["error"]["code"]) == (5, "A2ACLI_ERR_TIMEOUT")
        assert f"; task {TASK} goes on\n" in done.stderr
        assert f"hint: agentengine a2a status --space-id {SPACE} {TASK} --wait\n" in done.stderr


def test_status_waits_where_it_is_asked_to(command: Command, space: Serving) -> None:
    gets = [STILL_WORKING, answer_bytes("hosted_get")]
    with space(SubscribeToTask="hosted_subscribe", GetTask=gets):
        assert command("a2a", "status", TASK, "--wait").stdout == COMPLETED


def test_a_stream_shows_what_comes_once(command: Command, space: Serving) -> None:
    with space(SendMessage=WORKING, SubscribeToTask="hosted_subscribe", GetTask="hosted_get"):
        shown = command("a2a", "call", AGENT, "hi", "--stream").stdout
        assert shown.count(ANSWER) == 1
        assert shown.startswith(f"Task: {TASK}\nAgent: {AGENT}\nStatus: working\n")
        assert shown.count("Status: working") == 1
        assert shown.endswith(f"Task: {TASK}\nAgent: {AGENT}\nStatus: completed\n")


def test_a_stream_as_json_is_lines_of_what_the_agent_says_and_then_the_summary(
    command: Command, space: Serving
) -> None:
    with space(SendMessage=WORKING, SubscribeToTask="hosted_subscribe", GetTask="hosted_get"):
        lines = [
            json.loads(line)
            for line in command("a2a", "call", AGENT, "hi", "-o", "jsonl").stdout.splitlines()
        ]
        assert [next(iter(line)) for line in lines] == [
            "task", "task", "artifactUpdate", "statusUpdate", "task_id"
        ]  # fmt: skip
        assert lines[-1] == {"task_id": TASK, "status": "completed", "text": ANSWER}


# Questions and ends


def test_a_question_is_told_and_answered_by_the_tasks_id(command: Command, space: Serving) -> None:
    with space(SendMessage=[ASKING, answer_bytes("hosted_send")]) as server:
        asked = command("a2a", "call", AGENT, "hi")
        answer = f"agentengine a2a call --space-id {SPACE} --task-id {TASK} ANSWER"
        assert asked.stdout == (
            f"Task: {TASK}\nAgent: {AGENT}\nStatus: input_required\nMessage: which city?\nResume: {answer}\n"
        )
        assert asked.stderr == "warning: the task is input-required: which city?\n"
        words = answer.replace("ANSWER", "Paris").split()[1:]
        assert command(*words).stdout == COMPLETED
        sent = [item.json["params"] for item in server.requests if item.operation == "SendMessage"][-1]
        assert (sent["message"]["taskId"], sent["message"]["parts"]) == ("remote-task-1", [{"text": "Paris"}])


@pytest.mark.parametrize("answer", ["Paris", "yes please", "and/or"])
def test_one_word_or_more_with_a_tasks_id_is_the_answer(
    command: Command, space: Serving, answer: str
) -> None:
    with space(SendMessage="hosted_send") as server:
        assert command("a2a", "call", "--task-id", TASK, answer).stdout == COMPLETED
        (sent,) = [item.json["params"] for item in server.requests if item.operation == "SendMessage"]
        assert sent["message"]["parts"] == [{"text": answer}]


@pytest.mark.parametrize("answer", ["Paris", "yes please"])
def test_an_answer_to_nobody_is_told_that_no_space_is_configured(command: Command, answer: str) -> None:
    done = command("a2a", "call", "--task-id", TASK, answer, "--json")
    assert (done.status, done.json["error"]["code"]) == (2, "A2ACLI_ERR_USAGE")
    assert "no agent is named, and KSADK_A2A_SPACE_IDS names no Space" in done.stderr


def test_an_agents_address_without_a_message_is_told_that_there_is_none(command: Command) -> None:
    for named in (["127.0.0.1:1"], ["-a", "127.0.0.1:1"]):
        done = command("a2a", "call", "--task-id", TASK, *named)
        assert (done.status, "there is no message" in done.stderr) == (2, True)


def test_a_question_as_json_is_in_the_summary(command: Command, space: Serving) -> None:
    with space(SendMessage=ASKING):
        assert command("a2a", "call", AGENT, "hi", "--json").json == {
            "task_id": TASK, "status": "input_required", "question": "which city?"
        }  # fmt: skip


def test_a_failed_task_is_told_and_fails_only_when_asked_to(command: Command, space: Serving) -> None:
    failed = changed("hosted_send", "COMPLETED", "FAILED")
    with space(SendMessage=failed, GetTask=changed("hosted_get", "COMPLETED", "FAILED")):
        assert command("a2a", "call", AGENT, "hi").status == 0
        assert command("a2a", "call", AGENT, "hi", "--exit-status").status == 1
        assert command("a2a", "status", TASK, "--exit-status").status == 1


@pytest.mark.parametrize(
    ("agent", "answers", "status", "code"),
    [
        (AGENT, {"PrepareA2ACall": "error_forbidden_no_data"}, 4, "A2A_CONTROL_PLANE_DENIED"),
        (AGENT, {"PrepareA2ACall": "error_404_html"}, 1, "A2A_CONTROL_PLANE_INVALID_RESPONSE"),
        (EXTERNAL, {"PrepareA2ACall": "prepare_call_external"}, 7, "A2A_PUBLIC_EGRESS_DISABLED"),
        (AGENT, {"SendMessage": DOES_NOT_STREAM}, 1, "UnsupportedOperationError"),
        (AGENT, {"SendMessage": AWAY}, 3, "A2ACLI_ERR_UNREACHABLE"),
    ],
)
def test_an_error_has_its_stable_code_and_exit_status(
    command: Command, space: Serving, agent: str, answers: dict[str, Any], status: int, code: str
) -> None:
    with space(**answers):
        done = command("a2a", "call", agent, "hi", "--json")
        assert (done.status, done.json["error"]["code"]) == (status, code)
        assert PERMIT not in done.stdout + done.stderr


def test_tokens_of_another_control_plane_are_suspected_where_it_knows_them_not(
    command: Command, space: Serving
) -> None:
    unknown = http('{"Code":401,"Message":"who?","RequestId":"r","Data":{}}', "401 Unauthorized")
    with space(ListA2ASpaceAgents=unknown):
        done = command("a2a", "discover")
        assert done.status == 4
        assert "hint: Are the tokens in KSADK_A2A_TOKEN_DIR" in done.stderr


def test_a_token_that_is_not_there_is_an_authentication_error(
    command: Command, space: Serving, tmp_path: Path
) -> None:
    with space() as server:
        (tmp_path / "tokens" / "a2a-registry.jwt").unlink()
        done = command("a2a", "discover", "--json")
        assert (done.status, done.json["error"]["code"]) == (4, "A2A_WORKLOAD_TOKEN_UNUSABLE")
        assert server.requests == []


# Events


def test_what_the_platform_was_not_told_is_said_and_told_by_the_next_call(
    command: Command, space: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ksadk.a2a.space.client.FLUSH_SECONDS", 0.5)  # over before a second try
    refused = ["error_503_html"]
    with space(SendMessage="hosted_send", AppendA2ATaskEvents=refused):
        done = command("a2a", "call", AGENT, "hi")
        assert done.status == 0
        assert "the next call tells it" in done.stderr
    with space(GetTask="hosted_get") as server:
        assert command("a2a", "status", TASK).stderr == ""
        batches = [item.json for item in server.requests if item.operation == "AppendA2ATaskEvents"]
        assert [len(batch["Events"]) for batch in batches] == [2, 2]


def test_no_agent_is_called_where_what_it_says_cannot_be_kept(
    command: Command, space: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("no-directory").write_text("")
    monkeypatch.setenv("KSADK_A2A_EVENT_OUTBOX_PATH", "no-directory/outbox.sqlite3")
    with space(SendMessage="hosted_send") as server:
        done = command("a2a", "call", AGENT, "hi", "--json")
        assert done.json["error"]["code"] == "event_outbox_unavailable"
        assert server.operations() == ["PrepareA2ACall"]


def test_credentials_for_addresses_are_not_sent_in_a_space(
    command: Command, space: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_A2A_BEARER", "s3cret-bearer")
    monkeypatch.setenv("KSADK_A2A_API_KEY", "s3cret-key")
    with space(SendMessage="hosted_send") as server:
        assert command("a2a", "call", AGENT, "hi").status == 0
        assert not any("s3cret" in str(asked.headers) + asked.line for asked in server.requests)


# One door


@pytest.mark.parametrize(
    ("condition", "line", "status"),
    [
        (f"space={SPACE}", f"call {AGENT} hi", 7),
        ("space=another", f"call {AGENT} hi", 0),
        (f"agent={AGENT}", f"call {AGENT} hi", 7),
        ("agent=another", f"call {AGENT} hi", 0),
        (f"agent={AGENT}", f"status {TASK}", 7),
        (f"agent={AGENT}", f"cancel {TASK}", 7),
        (f"agent={AGENT}", f"call --task-id {TASK} more", 7),
        ("agent=another", f"status {TASK}", 0),
        ("url=127.0.0.1", f"call {AGENT} hi", 7),
        ("url=*.example.com", f"call {AGENT} hi", 0),
        ("url=*.example.com", f"call {EXTERNAL} hi", 7),
        ("url=127.0.0.1", f"status {TASK}", 7),
        ("url=127.0.0.1", "discover", 0),
        (f"space={SPACE}", "discover", 7),
    ],
)
def test_rules_deny_by_space_agent_and_domain_before_anything_is_sent(
    command: Command, space: Serving, condition: str, line: str, status: int
) -> None:
    answers = {"SendMessage": "hosted_send", "GetTask": "hosted_get", "CancelTask": "hosted_cancel"}
    with space(**answers) as server:
        assert command("approvals", "rules", "add", "deny", "a2a_*", condition).status == 0
        assert command("a2a", *line.split()).status == status
        sent = {"SendMessage", "GetTask", "CancelTask", "PrepareA2ACall"} & set(server.operations())
        assert bool(sent) == (status == 0 and line != "discover")


def test_a_rule_about_the_agent_of_a_call_asks_nobody_for_it(command: Command, space: Serving) -> None:
    with space() as server:
        command("approvals", "rules", "add", "deny", "a2a_call", f"agent={AGENT}", "--reason", "not ours")
        done = command("a2a", "call", AGENT, "hi")
        assert (done.status, "): not ours\n" in done.stderr) == (7, True)
        assert server.requests == []


def test_rules_about_spaces_hold_no_call_of_an_address(command: Command) -> None:
    for condition in ("space=*", f"space={SPACE}", f"agent={AGENT}"):
        command("approvals", "rules", "add", "deny", "a2a_call", condition)
    with replaying({"SendMessage": "send_task"}) as agent:
        assert command("a2a", "call", agent.url, "hi").status == 0


def test_rules_about_spaces_and_agents_are_no_slips(command: Command) -> None:
    for condition in (f"space={SPACE}", f"agent={AGENT}", "url=example.com"):
        command("approvals", "rules", "add", "deny", "a2a_call", condition)
    rules = command("approvals", "rules", "list", "--json").json["rules"]
    assert [rule["why"] for rule in rules] == ["", "", ""]


def test_a_call_is_logged_at_low_risk_under_an_invocation(command: Command, space: Serving) -> None:
    with space(SendMessage="hosted_send"):
        assert command("a2a", "call", AGENT, "s3cret words", "--log-all").status == 0
    text = DecisionLog(ToolGateway().store).path.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["tool"], line["event"]) for line in lines if line.get("tool")] == [
        ("a2a_call", "decision"), ("a2a_call", "result")
    ]  # fmt: skip
    assert lines[-2]["risk"] == "low"
    assert "s3cret" not in text
    assert PERMIT not in text
