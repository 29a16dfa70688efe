"""Tools that a framework runs itself are described and found, and never called from here."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ksadk.errors import InvalidArguments
from ksadk.toolsets import (
    clear_external_tools,
    describe_agentengine_tools,
    get_agentengine_tools,
    register_external_tools,
    tool_dispatcher,
    tool_search,
)


@pytest.fixture(autouse=True)
def no_external_tools() -> Iterator[None]:
    clear_external_tools()
    yield
    clear_external_tools()


def send_mail(to: str, subject: str = "") -> None:
    """Send a mail."""


KINDS: list[Any] = [
    send_mail,
    SimpleNamespace(name="send_mail", description="Send a mail.", args={"to": {}, "subject": {}}),
    SimpleNamespace(
        name="send_mail",
        description="Send a mail.",
        params_json_schema={"properties": {"to": {}, "subject": {}}},
    ),
    {
        "name": "send_mail",
        "description": "Send a mail.",
        "inputSchema": {"properties": {"to": {}, "subject": {}}},
    },
    {
        "name": "send_mail",
        "description": "Send a mail.",
        "parameters": {"properties": {"to": {}, "subject": {}}},
    },
]


@pytest.mark.parametrize("tool", KINDS, ids=lambda tool: type(tool).__name__)
def test_any_kind_of_tool_can_be_registered(tool: Any) -> None:
    assert register_external_tools([tool], group="mail", risk_level="high") == ["send_mail"]
    assert describe_agentengine_tools("mail") == [
        {
            "name": "send_mail", "group": "mail", "description": "Send a mail.", "args": ["to", "subject"],
            "risk_level": "high", "requires_approval": False, "side_effects": [], "approval_scopes": [],
            "approval_exempt": False, "enabled": True, "boundary": "framework_managed_external_tool",
            "execution": "external",
        }
    ]  # fmt: skip


def test_mcp_stands_for_every_group_that_begins_with_it() -> None:
    register_external_tools([{"name": "a"}], group="mcp:one", boundary="ksadk_managed_mcp_tool")
    register_external_tools([{"name": "b"}], group="mcp:two")
    register_external_tools([{"name": "c"}], group="other")

    def described(*words: str) -> list[str]:
        return [item["name"] for item in describe_agentengine_tools(words)]

    assert described("mcp") == ["a", "b"]
    assert described("other", "component_status", "mcp:two", "mcp") == ["c", "component_status", "b", "a"]
    clear_external_tools("mcp:one")
    assert described("mcp") == ["b"]
    clear_external_tools()
    assert described("mcp") == []


def test_a_mode_leaves_external_tools_where_they_are() -> None:
    register_external_tools([{"name": "c"}], group="other")
    found = describe_agentengine_tools(["other", "web"], mode="dispatcher")
    assert [item["name"] for item in found] == ["tool_search", "tool_dispatcher", "c"]


def test_a_group_named_like_a_built_in_one_does_not_hide_it() -> None:
    register_external_tools([{"name": "c"}], group="web")
    assert [item["name"] for item in describe_agentengine_tools("web")] == ["web_fetch", "web_search"]


def test_registering_again_replaces() -> None:
    register_external_tools([{"name": "a", "description": "old"}])
    register_external_tools([{"name": "a", "description": "new"}])
    assert [item["description"] for item in describe_agentengine_tools("external")] == ["new"]


def test_external_tools_are_described_and_not_handed_out_or_called() -> None:
    register_external_tools([send_mail])
    with pytest.raises(ValueError, match="Unknown AgentEngine toolset or tool: external"):
        get_agentengine_tools("external")
    assert tool_dispatcher("call", "send_mail", {"to": "x"})["error_type"] == "unknown_tool"
    assert tool_search("send mail")["deferred_tool_names"] == ["send_mail"]


@pytest.mark.parametrize(
    ("tools", "options"),
    [
        ([{"name": "good"}, {"description": "nameless"}], {}),
        ([{"name": "good"}, {"name": " "}], {}),
        ([{"name": "good"}, 3], {}),
        ([{"name": "good"}], {"risk_level": "extreme"}),
        ([{"name": "good"}], {"group": ""}),
    ],
    ids=str,
)
def test_when_one_cannot_be_registered_none_is(tools: list[Any], options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments):
        register_external_tools(tools, **options)
    assert tool_search("good")["results"] == []


def test_a_description_can_be_changed_without_changing_the_next() -> None:
    register_external_tools([send_mail])
    describe_agentengine_tools("external")[0]["args"].append("mine")
    assert describe_agentengine_tools("external")[0]["args"] == ["to", "subject"]
