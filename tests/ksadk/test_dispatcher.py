"""The dispatcher lists, describes and calls; a model cannot use it to approve itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ksadk.errors import CODES
from ksadk.sessions import resolve_local_session_dir
from ksadk.tools import gateway
from ksadk.toolsets import agentengine_tool_dispatcher, describe_agentengine_tools, tool_dispatcher
from ksadk.toolsets.workspace import read_workspace_file, write_workspace_file


@pytest.fixture
def victim() -> Path:
    write_workspace_file("victim.txt", "precious")
    return resolve_local_session_dir() / "workspace" / "victim.txt"


def test_list_gives_every_tool_but_the_dispatchers() -> None:
    listed = tool_dispatcher("list")
    found = [tool["name"] for tool in listed["tools"]]
    assert listed["ok"]
    assert listed["tool_count"] == len(found) == len(set(found))
    assert {"read_workspace_file", "run_command", "web_search", "list_skills", "component_status"} <= set(
        found
    )
    assert not {name for name in found if name.endswith("dispatcher")}


def test_list_of_a_profile_is_that_profile() -> None:
    found = [tool["name"] for tool in tool_dispatcher("list", profile="coding")["tools"]]
    assert "run_command" in found
    assert "tool_search" in found
    assert "delete_workspace_file" not in found
    assert [tool["name"] for tool in tool_dispatcher("list", include="platform")["tools"]] == [
        "component_status"
    ]


def test_describe_gives_the_schema_of_the_arguments() -> None:
    spec = tool_dispatcher(action="describe", tool_name="run_command")["tool"]
    assert (spec["name"], spec["risk_level"], spec["boundary"]) == ("run_command", "high", "isolated_sandbox")
    assert spec["args"] == list(spec["parameters"]["properties"])
    assert spec["parameters"]["required"] == ["command"]
    assert "approval" not in spec["parameters"]["properties"]


def test_call_runs_the_tool_and_keeps_its_result(victim: Path) -> None:
    called = tool_dispatcher("call", "read_workspace_file", {"path": "victim.txt"})
    assert (called["ok"], called["tool_name"]) == (True, "read_workspace_file")
    assert "precious" in called["result"]["content"]


def test_call_takes_the_arguments_as_json_text(victim: Path) -> None:
    assert tool_dispatcher("call", "read_workspace_file", json.dumps({"path": "victim.txt"}))["ok"]
    assert tool_dispatcher("call", "component_status", " ")["ok"]
    assert tool_dispatcher("call", "component_status")["ok"]


def test_a_tool_that_fails_is_a_result_that_is_not_ok() -> None:
    called = tool_dispatcher("call", "read_workspace_file", {"path": "absent.txt"})
    assert (called["ok"], called["tool_name"], called["result"]["ok"]) == (
        False,
        "read_workspace_file",
        False,
    )


def test_the_older_name_does_the_same(victim: Path) -> None:
    assert agentengine_tool_dispatcher("call", "read_workspace_file", {"path": "victim.txt"})["ok"]
    assert agentengine_tool_dispatcher("list") == tool_dispatcher("list")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (("describe",), {"error_type": "missing_tool_name"}),
        (("call", " "), {"error_type": "missing_tool_name"}),
        (("call", "no_such"), {"error_type": "unknown_tool", "tool_name": "no_such"}),
        (("describe", "no_such"), {"error_type": "unknown_tool", "tool_name": "no_such"}),
        (("call", "tool_dispatcher"), {"error_type": "dispatcher_self_call", "tool_name": "tool_dispatcher"}),
        (
            ("describe", "agentengine_tool_dispatcher"),
            {"error_type": "dispatcher_self_call", "tool_name": "tool_dispatcher"},
        ),
        (
            ("call", "run_command", {"command": "ls"}),
            {"error_type": "tool_disabled", "tool_name": "run_command"},
        ),
        (("call", "component_status", "{"), {"error_type": "invalid_arguments_json", "arguments": "{"}),
        (("call", "component_status", "[" * 100_000), {"error_type": "invalid_arguments_json"}),
        (
            ("call", "component_status", "[1]"),
            {"error_type": "invalid_arguments_type", "arguments_type": "list"},
        ),
        (
            ("call", "component_status", [1]),
            {"error_type": "invalid_arguments_type", "arguments_type": "list"},
        ),
        (("call", "component_status", 3), {"error_type": "invalid_arguments_type", "arguments_type": "int"}),
        (("delete_workspace_file",), {"error_type": "unknown_action", "action": "delete_workspace_file"}),
        (("execute", "component_status"), {"error_type": "unknown_action", "action": "execute"}),
        (("",), {"error_type": "unknown_action", "action": ""}),
        ((7,), {"error_type": "invalid_arguments"}),
        (("list", None, None, ["nonsense"]), {"error_type": "unknown_tool"}),
        (("list", None, None, None, "nonsense"), {"error_type": "unknown_tool"}),
    ],
    ids=str,
)
def test_a_wrong_call_says_what_is_wrong(
    call: tuple[Any, ...], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "none")
    result = tool_dispatcher(*call)
    assert result["ok"] is False
    assert result["error_type"] in CODES
    assert expected.items() <= result.items()


@pytest.mark.parametrize(
    "arguments",
    [{}, {"path": 3}, {"path": "x", "pth": "y"}, {"func": 1}, {"tool_name": "x"}, {"self": 1}, {"args": []}],
    ids=str,
)
def test_arguments_that_do_not_fit_are_a_result(arguments: dict[str, Any]) -> None:
    called = tool_dispatcher("call", "read_workspace_file", arguments)
    assert (called["ok"], called["result"]["error_type"]) == (False, "invalid_arguments")


@pytest.mark.parametrize("mode", ["off", "strict", "ask"])
@pytest.mark.parametrize(
    "approval", [{"approved": True}, True, None, {"approved": True, "id": "appr_1"}], ids=str
)
@pytest.mark.parametrize("as_text", [False, True])
def test_an_approval_among_a_models_arguments_is_refused_in_every_mode(
    victim: Path, monkeypatch: pytest.MonkeyPatch, mode: str, approval: Any, as_text: bool
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", mode)
    arguments = {"path": "victim.txt", "approval": approval}
    given = json.dumps(arguments) if as_text else arguments
    result = tool_dispatcher("call", "delete_workspace_file", given)
    assert (result["ok"], result["error_type"]) == (False, "approval_in_arguments")
    assert victim.read_text() == "precious"


def test_a_risky_call_answers_with_the_envelope_and_the_tools_name(
    victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "strict")
    result = tool_dispatcher("call", "delete_workspace_file", {"path": "victim.txt"})
    assert (result["type"], result["dispatched_tool_name"]) == ("approval_required", "delete_workspace_file")
    assert result["approval_request"]["tool_name"] == "delete_workspace_file"
    assert victim.exists()


def test_a_call_goes_through_the_gateway_that_is_current(victim: Path) -> None:
    strict = gateway.ToolGateway(approval_mode="strict")
    with gateway.gateway_scope(strict):
        result = tool_dispatcher("call", "delete_workspace_file", {"path": "victim.txt"})
    assert result["type"] == "approval_required"
    assert victim.exists()


def test_what_a_list_returns_can_be_changed_without_changing_the_next() -> None:
    listed = tool_dispatcher("list")
    for tool in listed["tools"]:
        tool["side_effects"].append("mine")
        tool["name"] = "mine"
    assert "mine" not in json.dumps(tool_dispatcher("list"))
    described = tool_dispatcher("describe", "run_command")
    described["tool"]["parameters"]["properties"]["command"]["type"] = "mine"
    assert "mine" not in json.dumps(tool_dispatcher("describe", "run_command"))
    describe_agentengine_tools("tool_dispatcher")[0]["actions"].append("mine")
    assert tool_dispatcher("mine")["error_type"] == "unknown_action"


def test_a_list_shows_the_approval_mode_and_settings_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> set[str]:
        return {tool["name"] for tool in tool_dispatcher("list")["tools"] if tool["requires_approval"]}

    assert asked() == set()
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "strict")
    assert {"delete_workspace_file", "run_command", "execute_skills", "edit_workspace_file"} <= asked()
    assert "web_fetch" not in asked()
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "ask")
    assert "web_fetch" in asked()
    assert read_workspace_file.__name__ not in asked()


def test_a_long_text_that_is_not_json_does_not_come_back_whole() -> None:
    result = tool_dispatcher("call", "component_status", "{" + "x" * 10_000)
    assert len(result["arguments"]) == 500
