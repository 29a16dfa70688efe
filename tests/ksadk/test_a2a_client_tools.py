"""The tools with which a model reaches other agents."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from a2a_replay import CARD, OLD_CARD, fixture_bytes, replaying

from ksadk.tools.gateway import ToolGateway, gateway_scope
from ksadk.tools.rule_conditions import read_condition
from ksadk.tools.rules import Rule
from ksadk.toolsets import describe_agentengine_tools, get_agentengine_tools
from ksadk.toolsets.a2a import a2a_call, a2a_cancel, a2a_discover, a2a_status

NAMES = ["a2a_discover", "a2a_call", "a2a_status", "a2a_cancel"]


def test_they_are_in_their_group_and_in_no_profile() -> None:
    assert [tool.name for tool in get_agentengine_tools(include=["a2a"])] == NAMES
    for profile in ("default", "focused", "coding"):
        assert not {tool.name for tool in get_agentengine_tools(profile=profile)} & set(NAMES)


def test_a_call_and_a_cancel_need_approval_in_strict_mode() -> None:
    risks = {item["name"]: item["risk_level"] for item in describe_agentengine_tools("a2a")}
    assert risks == {"a2a_discover": "low", "a2a_call": "medium", "a2a_status": "low", "a2a_cancel": "medium"}


def test_a_call_gives_text_state_and_ids() -> None:
    with replaying({"SendMessage": "send_task"}) as server:
        result = a2a_call(server.url, "hi", "", "c")
        assert (result["ok"], result["state"], result["text"][:7]) == (True, "completed", "Why did")
        assert server.last("SendMessage").json["params"]["message"]["contextId"] == "c"


def test_a_call_inside_a_running_loop_works_too() -> None:
    async def run(url: str) -> Any:
        return a2a_call(url, "hi")

    with replaying({"SendMessage": "send_message"}) as server:
        assert asyncio.run(run(server.url))["text"] == "Direct message response 你好 🚀"


@pytest.mark.parametrize(("use", "more"), [(a2a_discover, ()), (a2a_status, ("t",)), (a2a_cancel, ("t",))])
def test_an_agent_that_answers_drop_by_drop_keeps_no_model_waiting(
    use: Any, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ksadk.toolsets.a2a._LONGEST_LOOK", 0.3)
    with replaying({CARD: b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 1000}, piece=30, pause=0.1) as server:
        assert use(server.url, *more)["error_type"] == "A2ACLI_ERR_TIMEOUT"


def test_a_question_comes_with_the_task_to_answer() -> None:
    with replaying({"SendMessage": "task_question"}) as server:
        result = a2a_call(server.url, "hi")
        assert (result["state"], result["question"], result["task_id"]) == (
            "input-required",
            "which city?",
            "t-1",
        )


def test_a_failed_task_is_a_result_that_says_no() -> None:
    with replaying({"SendMessage": "task_failed"}) as server:
        result = a2a_call(server.url, "hi")
        assert (result["ok"], result["error_type"], result["task_id"]) == (False, "a2a_task_failed", "t-1")
        assert "the model is gone" in result["error_message"]


def test_a_call_that_takes_too_long_tells_the_task_that_goes_on() -> None:
    working = (
        fixture_bytes("get_task_working")
        .replace(b'"result":{', b'"result":{"task":{')
        .replace(b"]}}", b"]}}}")
    )
    with replaying({"SendMessage": working, "GetTask": "get_task_working"}) as server:
        result = a2a_call(server.url, "hi", timeout=1)
        assert (result["error_type"], result["task_id"], result["state"]) == (
            "A2ACLI_ERR_TIMEOUT",
            "t-1",
            "working",
        )


def test_status_and_cancel_tell_how_a_task_stands() -> None:
    canceled = fixture_bytes("get_task").replace(b"_COMPLETED", b"_CANCELED")
    with replaying({"GetTask": "get_task_working", "CancelTask": canceled}) as server:
        assert a2a_status(server.url, "t-1")["state"] == "working"
        assert (a2a_cancel(server.url, "t-1")["ok"], a2a_cancel(server.url, "t-1")["state"]) == (
            True,
            "canceled",
        )


def test_discover_tells_what_a_caller_needs() -> None:
    with replaying({}) as server:
        found = a2a_discover(server.url)
        assert (found["ok"], found["name"], found["problems"]) == (True, "wire-agent", [])
        assert [item["binding"] for item in found["interfaces"]] == ["JSONRPC", "HTTP+JSON"]
    with replaying({CARD: "404", OLD_CARD: "card_old"}) as server:
        assert "before 1.0" in a2a_discover(server.url)["problems"][0]


@pytest.mark.parametrize("name", NAMES)
def test_no_file_is_read_for_a_model(name: str) -> None:
    Path("secret.json").write_text('{"token": "s3cret"}')
    arguments = {"a2a_discover": (), "a2a_call": ("hi",), "a2a_status": ("t",), "a2a_cancel": ("t",)}[name]
    tool = {
        "a2a_discover": a2a_discover,
        "a2a_call": a2a_call,
        "a2a_status": a2a_status,
        "a2a_cancel": a2a_cancel,
    }[name]
    about_addresses = Rule("deny", "a2a_*", where={"url": read_condition("url", "example.com")})
    for gateway in (ToolGateway(), ToolGateway(rules=[about_addresses])):
        with gateway_scope(gateway):
            for target in ("secret.json", f"file://{Path('secret.json').resolve()}", "file:///etc/passwd"):
                result = tool(target, *arguments)
                assert result["error_type"] == "A2ACLI_ERR_USAGE"
                assert "s3cret" not in str(result)


def test_a_rule_about_addresses_holds_for_what_an_address_leads_to() -> None:
    elsewhere = Rule("deny", "a2a_*", where={"url": read_condition("url", "localhost")})
    with replaying({"SendMessage": "send_task"}) as there, gateway_scope(ToolGateway(rules=[elsewhere])):
        local = there.url.replace("127.0.0.1", "localhost")
        moved = f"HTTP/1.1 302 Found\r\nLocation: {local}/card.json\r\n\r\n".encode()
        card = fixture_bytes("card").replace(b"http://127.0.0.1:PORT", local.encode())
        for answer in (moved, card):
            with replaying({CARD: answer}) as here:
                assert a2a_call(here.url, "hi")["error_type"] == "denied_by_rule"
                assert a2a_status(here.url, "t")["error_type"] == "denied_by_rule"
        assert there.requests == []


def test_no_credentials_of_the_environment_go_with_a_models_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_A2A_BEARER", "s3cret")
    with replaying({"SendMessage": "send_task"}) as server:
        a2a_call(server.url, "hi")
        assert [request.headers.get("authorization") for request in server.requests] == [None, None]
