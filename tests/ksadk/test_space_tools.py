"""The tools with which a model reaches the agents of a Space, against literal bytes of the platform."""

from __future__ import annotations

import asyncio
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
    WORKS,
    Platform,
    changed,
    configuration,
    http,
    platform,
)

from ksadk.tools.gateway import ToolGateway, gateway_scope
from ksadk.tools.rule_conditions import read_condition
from ksadk.tools.rules import Rule
from ksadk.toolsets import describe_agentengine_tools, tool_dispatcher
from ksadk.toolsets.a2a import a2a_call, a2a_cancel, a2a_discover, a2a_status

Serving = Callable[..., AbstractContextManager[Platform]]

WORKING = http(
    '{"jsonrpc":"2.0","id":"*","result":{"task":{"id":"remote-task-1","contextId":"remote-context-1",'
    '"status":{"state":"TASK_STATE_WORKING"}}}}'
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


def told(result: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(result[key] for key in ("ok", "task_id", "status", "agent_id", "text"))


def ruled(verdict: Any, **where: str) -> ToolGateway:
    """A gateway with one rule."""
    conditions = {name: read_condition(name, value) for name, value in where.items()}
    return ToolGateway(rules=[Rule(verdict, "a2a_*", where=conditions)], approval_mode="strict")


def test_a_model_discovers_calls_looks_and_cancels(space: Serving) -> None:
    with space(SendMessage="hosted_send", GetTask="hosted_get", CancelTask="hosted_cancel"):
        found = a2a_discover(space_id=SPACE)
        assert (found["ok"], found["space_id"]) == (True, SPACE)
        assert [agent["agent_id"] for agent in found["agents"]] == [AGENT, EXTERNAL]
        called = a2a_call(AGENT, "hi")
        assert told(called) == (True, TASK, "completed", AGENT, "三条结论 ✅")
        assert told(a2a_status("", TASK)) == told(called)
        assert told(a2a_status(AGENT, TASK, SPACE)) == told(called)
        assert told(a2a_cancel("", TASK)) == (True, TASK, "canceled", AGENT, "")


def test_an_agent_that_cannot_be_called_is_looked_at_by_its_id(space: Serving) -> None:
    with space(ListA2ASpaceAgents="list_agents_second_page"):
        assert a2a_discover(space_id=SPACE)["agents"] == []
        (agent,) = a2a_discover(BLOCKED, SPACE)["agents"]
        assert (agent["callable"], bool(agent["blocked_reason"])) == (False, True)
        assert a2a_discover("a2a-agent-none")["error_type"] == "A2A_AGENT_NOT_FOUND"


def test_a_call_inside_a_running_loop_works_too(space: Serving) -> None:
    async def run() -> Any:
        return a2a_call(AGENT, "hi")

    with space(SendMessage="hosted_send"):
        assert asyncio.run(run())["status"] == "completed"


def test_a_question_is_answered_with_the_tasks_id(space: Serving) -> None:
    asking = changed("hosted_send", "TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED")
    with space(SendMessage=[asking, "hosted_send"]) as server:
        first = a2a_call(AGENT, "hi")
        assert (first["status"], "question" in first) == ("input_required", True)
        assert a2a_call("", "Paris", first["task_id"], space_id=SPACE)["status"] == "completed"
        assert "PrepareA2ATaskOperation" in server.operations()


def test_a_failed_task_is_a_result_that_says_no_with_the_platforms_id(space: Serving) -> None:
    with space(SendMessage=changed("hosted_send", "COMPLETED", "FAILED")):
        result = a2a_call(AGENT, "hi")
        assert (result["ok"], result["error_type"], result["task_id"]) == (False, "a2a_task_failed", TASK)
        assert "remote-task-1" not in str(result)


def test_a_call_that_takes_too_long_tells_the_task_that_goes_on(
    space: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_long(*_: Any) -> None:  # on any machine, and only once the task is known
        raise TimeoutError

    monkeypatch.setattr("ksadk.toolsets.a2a_space.ended", too_long)
    with space(SendMessage=WORKING):
        result = a2a_call(AGENT, "hi")
        assert (result["error_type"], result["task_id"], result["status"]) == (
            "A2ACLI_ERR_TIMEOUT", TASK, "working"
        )  # fmt: skip


def test_of_several_spaces_a_model_must_name_one(space: Serving) -> None:
    with space(f"{SPACE},other", SendMessage="hosted_send"):
        result = a2a_call(AGENT, "hi")
        assert (result["error_type"], SPACE in result["error_message"]) == ("space_id_required", True)
        assert a2a_call(AGENT, "hi", space_id=SPACE)["ok"] is True


def test_without_a_space_nothing_is_called() -> None:
    for result in (a2a_discover(), a2a_call("agent-x", "hi"), a2a_status("", TASK), a2a_cancel("", TASK)):
        assert result["error_type"] == "space_not_configured"


def test_what_only_a_space_or_only_an_address_has_is_refused(space: Serving) -> None:
    with space() as server:
        assert a2a_call(AGENT, "hi", context_id="c")["error_type"] == "A2ACLI_ERR_USAGE"
        assert a2a_discover("http://127.0.0.1:9", skill="x")["error_type"] == "A2ACLI_ERR_USAGE"
        assert server.requests == []


def test_a_models_call_is_of_medium_risk_and_asked_about_in_strict_mode(space: Serving) -> None:
    risks = {item["name"]: item["risk_level"] for item in describe_agentengine_tools("a2a")}
    assert risks == {"a2a_discover": "low", "a2a_call": "medium", "a2a_status": "low", "a2a_cancel": "medium"}
    with space() as server, gateway_scope(ToolGateway(approval_mode="strict")):
        asked = a2a_call(AGENT, "hi")
        assert (asked["approval_required"], asked["approval_request"]["risk_level"]) == (True, "medium")
        assert a2a_discover()["ok"] is True
        assert server.operations() == ["ListA2ASpaceAgents"]


def test_a_dispatched_call_is_the_same_call(space: Serving) -> None:
    with space(SendMessage="hosted_send"):
        arguments = {"target": AGENT, "message": "hi", "space_id": SPACE}
        result = tool_dispatcher("call", "a2a_call", arguments, include=["a2a"])
        assert (result["ok"], result["result"]["task_id"]) == (True, TASK)


@pytest.mark.parametrize(
    "where",
    [{"space": SPACE}, {"space_id": SPACE}, {"agent": AGENT}, {"url": "127.0.0.1"},
     {"space": SPACE, "agent": AGENT, "url": "127.0.0.1"}],
)  # fmt: skip
def test_a_deny_rule_holds_also_where_no_space_is_named(space: Serving, where: dict[str, str]) -> None:
    with space(SendMessage="hosted_send") as server, gateway_scope(ruled("deny", **where)):
        assert a2a_call(AGENT, "hi")["error_type"] == "denied_by_rule"
        assert a2a_status("", TASK)["error_type"] == "denied_by_rule"
        assert not {"PrepareA2ACall", "SendMessage"} & set(server.operations())


def test_the_agent_of_a_task_is_what_the_platform_says_and_not_the_caller(space: Serving) -> None:
    with space(GetTask="hosted_get", CancelTask="hosted_cancel"):
        with gateway_scope(ruled("deny", agent=AGENT)):
            assert a2a_status("another", TASK)["error_type"] == "denied_by_rule"
            assert a2a_call("another", "hi", TASK)["error_type"] == "denied_by_rule"
        with gateway_scope(ruled("deny", agent="another")):
            assert a2a_status("another", TASK)["ok"] is True
        with gateway_scope(ruled("allow", agent="another")):
            assert a2a_cancel("another", TASK)["approval_required"] is True


def test_an_allow_rule_lets_through_just_what_it_names(space: Serving) -> None:
    with space(SendMessage="hosted_send"):
        with gateway_scope(ruled("allow", space=SPACE, agent=AGENT)):
            assert a2a_call(AGENT, "hi")["ok"] is True
            assert a2a_call(EXTERNAL, "hi")["approval_required"] is True
        with gateway_scope(ruled("allow", url="127.0.0.1")):
            assert a2a_call(AGENT, "hi")["ok"] is True
            assert a2a_call(EXTERNAL, "hi")["approval_required"] is True


def test_where_the_address_cannot_be_told_a_rule_about_addresses_denies_and_none_allows(
    space: Serving,
) -> None:
    with space():
        with gateway_scope(ruled("deny", url="evil.example.com")):
            assert a2a_call("a2a-agent-none", "hi")["error_type"] == "denied_by_rule"
        with gateway_scope(ruled("allow", url="*")):
            assert a2a_call("a2a-agent-none", "hi")["approval_required"] is True


def test_a_platform_that_cannot_be_asked_lets_no_call_past_a_rule(space: Serving) -> None:
    with space(ListA2ASpaceAgents="error_404_html", SendMessage="hosted_send") as server:
        with gateway_scope(ruled("deny", url="evil.example.com")):
            assert a2a_call(AGENT, "hi")["error_type"] == "A2A_CONTROL_PLANE_INVALID_RESPONSE"
        assert "SendMessage" not in server.operations()


def test_a_rule_about_the_address_holds_also_where_the_card_told_another(space: Serving) -> None:
    elsewhere = changed("list_agents", "http://127.0.0.1:65535/a2a/jsonrpc", "https://elsewhere.example.com")
    with space(ListA2ASpaceAgents=elsewhere, SendMessage="hosted_send") as server:
        with gateway_scope(ruled("deny", url="127.0.0.1")):
            denied = a2a_call(AGENT, "hi", approval={"approved": True})
        assert denied["error_type"] == "denied_by_rule"
        assert server.operations()[-1] == "PrepareA2ACall"


@pytest.mark.parametrize(("has_the_agent", "denied"), [(True, True), (False, False)])
def test_a_task_counts_as_of_each_space_that_has_its_agent(
    space: Serving, has_the_agent: bool, denied: bool
) -> None:
    other = changed("list_agents", f'"A2ASpaceId":"{SPACE}"', '"A2ASpaceId":"other"')
    if not has_the_agent:
        other = http(other.partition(b"\r\n\r\n")[2].replace(AGENT.encode(), b"a2a-agent-of-it"))
    with space(f"{SPACE},other", ListA2ASpaceAgents=other, GetTask="hosted_get") as server:
        with gateway_scope(ruled("deny", space="other")):
            result = a2a_status("", TASK, SPACE)
        assert (result.get("error_type") == "denied_by_rule") == denied
        assert ("GetTask" in server.operations()) == (not denied)


def test_a_rule_about_a_space_or_its_agents_holds_no_call_of_an_address() -> None:
    with replaying({"SendMessage": "send_task"}) as agent:
        for where in ({"space": "*"}, {"agent": AGENT}, {"space_id": SPACE}):
            with gateway_scope(ruled("deny", **where)):
                assert a2a_call(agent.url, "hi")["approval_required"] is True
        assert agent.requests == []


def test_no_permit_or_token_is_in_a_result(space: Serving) -> None:
    leaking = http(
        '{"jsonrpc":"2.0","id":"*","error":{"code":-32603,"message":"PERMIT was wrong"}}'.replace(
            "PERMIT", PERMIT
        )
    )
    with space(SendMessage=leaking):
        result = a2a_call(AGENT, "hi")
        assert (result["ok"], PERMIT in str(result)) == (False, False)
