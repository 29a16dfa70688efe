"""Tools whose engine is not there say so, completely, before anyone is asked."""

from __future__ import annotations

from typing import Any

import pytest

from ksadk.errors import CODES
from ksadk.toolsets import describe_agentengine_tools, tool_dispatcher, tool_search, web
from ksadk.toolsets.sandbox import run_code, run_command, sandbox_status
from ksadk.toolsets.skills import execute_skills, list_skills, load_skill, search_skills
from ksadk.toolsets.web import web_fetch, web_search

CASES: list[tuple[Any, dict[str, Any], str, dict[str, Any]]] = [
    (list_skills, {}, "skill_service_not_configured", {"skills": [], "skill_space_ids": []}),
    (list_skills, {"space_id": "s1"}, "skill_service_not_configured", {"skill_space_ids": ["s1"]}),
    (search_skills, {"query": "draw"}, "skill_service_not_configured", {"query": "draw", "results": []}),
    (search_skills, {"query": " "}, "query_required", {"query": " ", "results": []}),
    (load_skill, {"skill_name": "x"}, "skill_service_not_configured", {"available_skills": []}),
    (load_skill, {"skill_name": ""}, "skill_name_required", {"available_skills": []}),
    (execute_skills, {"workflow_prompt": "draw"}, "skill_runtime_disabled",
     {"execution_context": "skill-runtime/disabled"}),
    (execute_skills, {"workflow_prompt": "draw", "skill_names": ["a"]}, "skill_runtime_disabled", {}),
    (execute_skills, {"workflow_prompt": "draw", "skill_names": "a,b"}, "skill_runtime_disabled", {}),
    (execute_skills, {"workflow_prompt": " "}, "workflow_prompt_required", {}),
    (run_command, {"command": "ls", "background": True}, "background_not_supported", {}),
    (run_command, {"command": "", "background": True}, "background_not_supported", {}),
    (run_command, {"command": " \n"}, "command_required", {}),
    (run_command, {"command": "ls"}, "SandboxError", {"backend": "sandbox/none"}),
    (run_code, {"code": "1", "language": "cobol"}, "unsupported_language", {"language": "cobol"}),
    (run_code, {"code": " "}, "code_required", {}),
    (run_code, {"code": "1"}, "SandboxError", {"backend": "sandbox/none"}),
    (run_code, {"code": "1", "language": "Shell"}, "SandboxError", {}),
    (run_code, {"code": "1", "language": "nodejs"}, "SandboxError", {}),
    (web_fetch, {"url": ""}, "url_required", {}),
    (web_fetch, {"url": "file:///etc/passwd"}, "unsupported_scheme", {"url": "file:///etc/passwd"}),
    (web_fetch, {"url": "example.com"}, "unsupported_scheme", {}),
    (web_fetch, {"url": "javascript:alert(1)"}, "unsupported_scheme", {}),
    (web_fetch, {"url": "http://"}, "invalid_url", {}),
    (web_fetch, {"url": "http://[::1"}, "invalid_url", {}),
    (web_fetch, {"url": "http://a:99999/"}, "invalid_url", {}),
    (web_fetch, {"url": "http://a b/"}, "invalid_url", {}),
    (web_fetch, {"url": "http://a\nb/"}, "invalid_url", {}),
    (web_fetch, {"url": "https://example.com"}, "provider_not_configured", {"url": "https://example.com"}),
    (web_search, {"query": " "}, "query_required", {"results": []}),
    (web_search, {"query": "x"}, "provider_not_configured", {"provider": None, "results": []}),
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may have one."""
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "none")


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "fields"), CASES, ids=lambda value: getattr(value, "__name__", str(value))
)
@pytest.mark.parametrize("mode", ["off", "strict"])
def test_a_tool_that_cannot_work_says_why_and_asks_nobody(
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    tool: Any,
    arguments: dict[str, Any],
    code: str,
    fields: dict[str, Any],
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", mode)
    result = tool(**arguments)
    assert (result["ok"], result["error_type"]) == (False, code)
    assert code in CODES
    assert result["error_message"]
    assert fields.items() <= result.items()


@pytest.mark.parametrize("approved", [True, False])
def test_an_approval_does_not_make_it_work(approved: bool) -> None:
    result = run_command("ls", approval={"approved": approved})
    assert result["ok"] is False
    assert result["error_type"] == "SandboxError" if approved else result["type"] == "approval_rejected"


def test_what_is_not_configured_ends_a_command_with_the_status_of_that() -> None:
    unavailable = {
        "skill_service_not_configured", "skill_service_unavailable", "skill_runtime_disabled", "SandboxError",
        "provider_not_configured", "tool_disabled",
    }  # fmt: skip
    assert {CODES[code].kind for code in unavailable} == {"unavailable"}


def test_sandbox_status_has_the_defaults() -> None:
    status = sandbox_status()
    assert (status["backend"], status["enabled"], status["isolated"]) == ("none", False, False)
    assert (status["template_bound"], status["template_id"]) == (False, None)
    assert (status["timeout_seconds"], status["ttl_seconds"]) == (600, 600)
    assert (status["idle_ttl_seconds"], status["max_sessions"]) == (300, 0)


@pytest.mark.parametrize("backend", ["none", "docker"])
def test_no_backend_and_one_that_is_unknown_run_nothing(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", backend)
    status = sandbox_status()
    assert (status["backend"], status["enabled"], status["isolated"]) == (backend, False, False)
    assert "run nothing" in status["boundary"]
    result = run_command("ls", approval={"approved": True})
    assert (result["error_type"], result["backend"]) == ("SandboxError", f"sandbox/{backend}")


@pytest.mark.parametrize(
    ("variables", "runtime"),
    [
        ({}, "disabled"),
        ({"KSADK_SKILL_RUNTIME_BACKEND": "local"}, "local_process"),
        ({"KSADK_SANDBOX_BACKEND": "e2b"}, "e2b"),
        ({"KSADK_SANDBOX_BACKEND": "off", "KSADK_SKILL_RUNTIME_TEMPLATE_ID": "t"}, "e2b"),
        ({"KSADK_SANDBOX_TEMPLATE_ID": "t"}, "e2b"),
        ({"KSADK_SKILL_RUNTIME_BACKEND": "off", "KSADK_SANDBOX_BACKEND": "e2b"}, "disabled"),
    ],
    ids=str,
)
def test_the_skill_runtime_is_resolved_in_order(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], runtime: str
) -> None:
    monkeypatch.delenv("KSADK_SANDBOX_BACKEND")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    [described] = describe_agentengine_tools("execute_skills")
    assert (described["backend"], described["enabled"]) == (runtime, runtime != "disabled")


def test_spaces_without_an_address_are_those_of_the_public_gateway_which_wants_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "space_a, space_b")
    monkeypatch.setenv("KSADK_PUBLIC_SKILL_SPACE_IDS", "space_b,space_p")
    result = list_skills()
    assert result["error_type"] == "skill_service_unauthenticated"
    assert "KSADK_SKILL_SERVICE_ACCESS_KEY" in result["error_message"]
    assert (result["skills"], result["skill_space_ids"]) == ([], ["space_a", "space_b", "space_p"])


def test_an_address_without_spaces_is_not_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SKILL_SERVICE_URL", "https://skills.example.com")
    result = list_skills()
    assert result["error_type"] == "skill_service_not_configured"
    assert "KSADK_SKILL_SPACE_IDS" in result["hint"]


def test_a_search_provider_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCLAW_WEB_SEARCH_PROVIDER", "ksyun")
    result = web_search("x")
    assert (result["error_type"], result["provider"]) == ("provider_not_configured", "ksyun")
    assert "ksyun" in result["error_message"]


def test_descriptions_tell_that_they_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_WEB_SEARCH_PROVIDER", "fake")
    enabled = {item["name"]: item["enabled"] for item in describe_agentengine_tools()}
    assert {name for name, works in enabled.items() if not works} == {
        "execute_skills", "sandbox_status", "run_command", "run_code", "web_fetch", "web_search",
    }  # fmt: skip
    assert {item["backend"] for item in describe_agentengine_tools("sandbox")} == {"none"}
    assert not web.AVAILABLE_PROVIDERS


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (run_command, {"command": ["ls"]}),
        (run_command, {"command": "ls", "env": {"A": 1}}),
        (run_code, {"code": "1", "timeout": "5"}),
        (web_fetch, {"url": "https://example.com", "timout": 3}),
        (search_skills, {"query": "x", "max_results": "5"}),
        (list_skills, {"space": "x"}),
        (execute_skills, {}),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_arguments_are_checked_first(tool: Any, arguments: dict[str, Any]) -> None:
    assert tool(**arguments)["error_type"] == "invalid_arguments"


def test_a_setting_that_cannot_be_used_ends_only_the_call_that_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KSADK_WEB_SEARCH_PROVIDER", "bing")
    assert {item["name"]: item["enabled"] for item in describe_agentengine_tools("web")}[
        "web_search"
    ] is False
    assert tool_search("read file")["results"][0]["name"] == "read_workspace_file"
    for result in (web_search("x"), tool_dispatcher("call", "web_search", {"query": "x"})):
        assert result["error_type"] == "invalid_setting"
        assert "KSADK_WEB_SEARCH_PROVIDER" in result["error_message"]
