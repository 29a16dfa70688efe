"""Which tools a caller gets, by group, profile, name and mode; and what is told of each."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ksadk.errors import KsadkError, SettingsError, ToolDefinitionError
from ksadk.tools.registry import find, public_function
from ksadk.toolsets import (
    builtin_tool_descriptors_for_runtime,
    builtin_tools_for_runtime,
    builtin_tools_mode,
    builtin_tools_profile,
    describe_agentengine_tools,
    get_agentengine_tools,
    get_ksadk_builtin_tools,
    get_platform_tools,
    get_sandbox_tools,
    get_skill_tools,
    get_web_tools,
    get_workspace_tools,
)
from ksadk.toolsets.frameworks import as_tools
from ksadk.toolsets.web import web_fetch, web_search

FOCUSED = [
    "list_skills", "search_skills", "load_skill", "workspace_status", "search_workspace_files",
    "edit_workspace_file", "lint_workspace_file", "component_status", "sandbox_status",
]  # fmt: skip
SKILL = ["list_skills", "search_skills", "load_skill", "execute_skills"]
WORKSPACE = {
    "workspace_status", "list_workspace_files", "read_workspace_file", "write_workspace_file",
    "write_workspace_files", "edit_workspace_file", "multi_edit_workspace_file", "lint_workspace_file",
    "search_workspace_files", "delete_workspace_file",
}  # fmt: skip
SANDBOX = ["sandbox_status", "run_command", "run_code"]
WEB = ["web_fetch", "web_search"]
EVERYTHING = ["default", "tool_dispatcher", "agentengine_tool_dispatcher", "tool_search"]


def names(tools: list[Any]) -> list[str]:
    return [tool.__name__ for tool in tools]


def described(*arguments: Any, **options: Any) -> list[str]:
    return [item["name"] for item in describe_agentengine_tools(*arguments, **options)]


def test_without_arguments_every_group_comes_in_order() -> None:
    every = names(get_agentengine_tools())
    assert every[:4] == SKILL
    assert set(every[4:14]) == WORKSPACE
    assert every[14:] == ["component_status", *SANDBOX, *WEB]


@pytest.mark.parametrize("word", ["focused", "core"])
def test_focused_is_the_nine_in_their_order(word: str) -> None:
    assert names(get_agentengine_tools(include=[word])) == FOCUSED
    assert names(get_agentengine_tools(profile=word)) == FOCUSED


def test_coding_is_the_workspace_without_delete_and_what_runs_and_searches() -> None:
    coding = names(get_ksadk_builtin_tools())
    assert set(coding[:9]) == WORKSPACE - {"delete_workspace_file"}
    assert coding[9:] == ["component_status", *SANDBOX, *WEB, "tool_search"]
    assert names(get_agentengine_tools(profile="coding")) == coding


def test_groups_profiles_and_names_mix_in_the_order_asked_for_each_once() -> None:
    mixed = ["web", "delete_workspace_file", "skills", "focused", "agentengine_tool_dispatcher", "web_fetch"]
    expected = [*WEB, "delete_workspace_file", *SKILL, *FOCUSED[3:], "agentengine_tool_dispatcher"]
    assert names(get_agentengine_tools(include=mixed)) == expected
    assert described(mixed) == expected


def test_one_word_is_enough_and_any_iterable_will_do() -> None:
    assert names(get_agentengine_tools("skill")) == SKILL
    assert names(get_agentengine_tools(iter(("skill", "web")))) == SKILL + WEB
    assert get_agentengine_tools([]) == []


@pytest.mark.parametrize("word", ["nonsense", "", "Skill", "tools", "dispatcher"])
def test_an_unknown_word_is_a_value_error_that_names_it(word: str) -> None:
    for ask in (get_agentengine_tools, describe_agentengine_tools):
        with pytest.raises(ValueError, match=f"^Unknown AgentEngine toolset or tool: {word}$"):
            ask(["web", word])


def test_an_unknown_profile_is_an_error_and_a_group_is_no_profile() -> None:
    for profile in ("nonsense", "web"):
        with pytest.raises(ValueError, match="Unknown AgentEngine toolset or tool"):
            get_agentengine_tools(profile=profile)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["off", "none", "disabled", "OFF"], []),
        (["dispatcher", "dispatch", "deferred", "search"], ["tool_search", "tool_dispatcher"]),
        (["focused"], [*FOCUSED, "tool_search"]),
    ],
    ids=str,
)
def test_a_mode_decides_what_a_runtime_is_given(
    words: list[str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in words:
        assert names(get_agentengine_tools(mode=word)) == expected
        assert names(builtin_tools_for_runtime(mode=word)) == expected
        assert described(mode=word) == expected
        monkeypatch.setenv("KSADK_BUILTIN_TOOLS_MODE", word)
        assert names(builtin_tools_for_runtime()) == expected
        assert [item["name"] for item in builtin_tool_descriptors_for_runtime()] == expected


def test_a_runtime_is_given_everything_where_nothing_is_set() -> None:
    assert names(builtin_tools_for_runtime()) == names(get_agentengine_tools())
    assert (builtin_tools_mode(), builtin_tools_mode("dispatch")) == ("direct", "dispatcher")
    assert (builtin_tools_profile(), builtin_tools_profile("coding")) == ("default", "coding")


def test_the_environment_chooses_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_BUILTIN_TOOLS_PROFILE", "coding")
    assert builtin_tools_profile("focused") == "coding"
    assert names(builtin_tools_for_runtime()) == names(get_ksadk_builtin_tools())
    assert names(builtin_tools_for_runtime(profile="focused")) == FOCUSED


def test_an_unknown_mode_is_an_error_and_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="focussed"):
        get_agentengine_tools(mode="focussed")
    monkeypatch.setenv("KSADK_BUILTIN_TOOLS_MODE", "focussed")
    with pytest.raises(SettingsError, match="KSADK_BUILTIN_TOOLS_MODE"):
        builtin_tools_for_runtime()


@pytest.mark.parametrize(
    ("get", "group"),
    [(get_skill_tools, "skill"), (get_workspace_tools, "workspace"), (get_platform_tools, "platform"),
     (get_sandbox_tools, "sandbox"), (get_web_tools, "web")],
)  # fmt: skip
def test_each_group_has_a_function_of_its_own(get: Any, group: str) -> None:
    assert names(get()) == names(get_agentengine_tools(include=[group]))


RISKS = [
    ("workspace_status list_workspace_files read_workspace_file search_workspace_files lint_workspace_file "
     "component_status sandbox_status list_skills search_skills tool_search tool_dispatcher "
     "agentengine_tool_dispatcher", "low", [], []),
    ("load_skill", "low", ["skill_cache_write"], []),
    ("web_fetch web_search", "low", [], ["public_network"]),
    ("write_workspace_file write_workspace_files", "medium", ["workspace_write"], []),
    ("edit_workspace_file multi_edit_workspace_file", "medium", ["workspace_edit"], []),
    ("delete_workspace_file", "high", ["workspace_delete"], []),
    ("execute_skills", "high", ["isolated_runtime_execution"], []),
    ("run_command", "high", ["sandbox_command_execution"], []),
    ("run_code", "high", ["sandbox_code_execution"], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("tools", "risk", "side_effects", "scopes"), RISKS, ids=lambda value: str(value)[:20]
)
def test_each_tool_has_its_risk(tools: str, risk: str, side_effects: list[str], scopes: list[str]) -> None:
    for item in describe_agentengine_tools(tools.split()):
        assert (item["risk_level"], item["side_effects"], item["approval_scopes"]) == (
            risk,
            side_effects,
            scopes,
        ), item["name"]
        assert item["approval_exempt"] == bool(scopes)


def test_the_risk_table_names_every_tool() -> None:
    assert {name for names, *_ in RISKS for name in names.split()} == set(described(EVERYTHING))


@pytest.mark.parametrize(
    ("tools", "boundary"),
    [
        (sorted(WORKSPACE), "workspace_root"),
        (SANDBOX, "isolated_sandbox"),
        (["execute_skills"], "isolated_skill_runtime"),
        (["web_fetch"], "public_http"),
        (["web_search"], "search_provider"),
        (["tool_dispatcher", "agentengine_tool_dispatcher"], "local_ksadk_builtin_tools"),
        (["tool_search"], "local_ksadk_builtin_tool_registry"),
    ],
    ids=str,
)
def test_each_tool_has_its_boundary(tools: list[str], boundary: str) -> None:
    assert {item["boundary"] for item in describe_agentengine_tools(tools)} == {boundary}


def test_a_description_has_all_its_keys() -> None:
    for item in describe_agentengine_tools(EVERYTHING):
        assert set(item) >= {
            "name", "group", "description", "risk_level", "requires_approval", "side_effects",
            "approval_scopes", "approval_exempt", "enabled", "boundary",
        }, item["name"]  # fmt: skip
        assert item["description"].strip(), item["name"]
    alias = describe_agentengine_tools("agentengine_tool_dispatcher")[0]
    assert (alias["compat_alias_for"], alias["actions"]) == ("tool_dispatcher", ["list", "describe", "call"])
    assert (alias["group"], describe_agentengine_tools("tool_search")[0]["group"]) == ("dispatcher", "tools")


def test_every_public_function_is_the_one_that_its_module_exports() -> None:
    for name in described(EVERYTHING):
        assert getattr(sys.modules[find(name).func.__module__], name) is public_function(name)


def test_a_name_that_the_package_does_not_have_is_an_attribute_error() -> None:
    import ksadk.toolsets

    assert not hasattr(ksadk.toolsets, "get_nonsense_tools")
    assert set(ksadk.toolsets.__all__) <= set(dir(ksadk.toolsets))
    for name in ksadk.toolsets.__all__:
        assert callable(getattr(ksadk.toolsets, name))


def test_listing_tools_imports_nothing_heavy() -> None:
    code = (
        "import sys; from ksadk.toolsets import describe_agentengine_tools, tool_search;"
        "describe_agentengine_tools();"
        "print(sorted({'pydantic', 'rich', 'a2a', 'httpx', 'sqlite3', 'asyncio', 'langchain_core', 'typer'}"
        " & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


def test_without_langchain_the_tools_are_the_public_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert get_agentengine_tools("web") == [web_fetch, web_search] == get_web_tools()


def test_a_function_that_is_no_tool_is_not_made_one() -> None:
    with pytest.raises(ToolDefinitionError, match="is not a built-in tool"):
        as_tools([names])


def test_errors_of_selection_carry_a_code() -> None:
    with pytest.raises(KsadkError) as caught:
        get_agentengine_tools("nonsense")
    assert caught.value.code == "unknown_tool"
