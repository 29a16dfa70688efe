"""`agentengine tools`: list, describe, search and call."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ksadk import toolsets
from ksadk.toolsets.selection import FOCUSED

Command = Callable[..., Any]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def workspace() -> Path:
    """A workspace with one file, as `--root .` names it."""
    Path("a.txt").write_text("one\ntwo\n")
    return Path.cwd()


def names(document: Any) -> list[str]:
    return [tool["name"] for tool in document["tools"]]


# list


def test_every_tool_is_listed_in_aligned_columns_and_as_json(command: Command) -> None:
    listed = command("tools", "list", "--json").json
    assert (listed["ok"], listed["tool_count"]) == (True, len(listed["tools"]))
    assert names(listed) == [tool["name"] for tool in toolsets.describe_agentengine_tools()]
    lines = command("tools", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == names(listed)
    assert lines[0].split() == ["NAME", "GROUP", "RISK", "ASKS", "ENABLED", "WHAT", "IT", "DOES"]
    start = lines[0].index("GROUP")
    assert all(line[start - 1] == " " and line[start] != " " for line in lines)


def test_the_list_says_what_this_program_asks_about(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asks() -> dict[str, bool]:
        listed = command("tools", "list", "--json").json["tools"]
        return {tool["name"]: tool["requires_approval"] for tool in listed}

    assert asks()["delete_workspace_file"] is True
    assert asks()["web_fetch"] is False
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "off")
    assert not any(asks().values())


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("sandbox",), ["sandbox_status", "run_command", "run_code"]),
        (("--group", "web"), ["web_fetch", "web_search"]),
        (("web_search", "--group", "web"), ["web_search", "web_fetch"]),
        (("component_status",), ["component_status"]),
        (("--profile", "focused"), list(FOCUSED)),
        (("focused",), list(FOCUSED)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_groups_profiles_and_names_choose(
    command: Command, arguments: tuple[str, ...], wanted: list[str]
) -> None:
    assert names(command("tools", "list", "--json", *arguments).json) == wanted


def test_only_what_can_be_called_now_is_listed_when_asked(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "none")
    listed = command("tools", "list", "--enabled", "--json").json["tools"]
    assert listed
    assert all(tool["enabled"] for tool in listed)
    assert "run_command" not in [tool["name"] for tool in listed]


@pytest.mark.parametrize(
    "arguments", [("nothing",), ("--group", "nothing"), ("--profile", "nothing")], ids=" ".join
)
def test_a_word_that_names_nothing_is_said(command: Command, arguments: tuple[str, ...]) -> None:
    done = command("tools", "list", *arguments)
    assert (done.status, done.stdout) == (2, "")
    assert "Unknown AgentEngine toolset or tool: nothing" in done.stderr


# describe


def test_a_tool_is_described_in_words_and_as_json(command: Command) -> None:
    described = command("tools", "describe", "read_workspace_file", "--json").json
    assert described["tool"]["parameters"]["required"] == ["path"]
    page = command("tools", "describe", "read_workspace_file").stdout
    assert described["tool"]["description"] in page
    assert all(name in page for name in described["tool"]["parameters"]["properties"])
    assert "required" in page


@pytest.mark.parametrize(
    ("format", "schema_at"),
    [
        ("json-schema", ()),
        ("openai", ("function", "parameters")),
        ("anthropic", ("input_schema",)),
        ("mcp", ("inputSchema",)),
    ],
)
def test_each_format_carries_the_name_the_words_and_the_same_schema(
    command: Command, format: str, schema_at: tuple[str, ...]
) -> None:
    tool = command("tools", "describe", "edit_workspace_file", "--json").json["tool"]
    shown = command("tools", "describe", "edit_workspace_file", "--format", format).json
    schema = shown
    for key in schema_at:
        schema = schema[key]
    assert schema == tool["parameters"]
    assert "approval" not in schema["properties"]
    if format != "json-schema":
        named = shown.get("function", shown)
        assert (named["name"], named["description"]) == (tool["name"], tool["description"])


def test_the_shapes_are_those_of_the_apis(command: Command) -> None:
    shapes = {
        format: set(command("tools", "describe", "delete_workspace_file", "--format", format).json)
        for format in ("openai", "anthropic", "mcp")
    }
    assert shapes == {
        "openai": {"type", "function"},
        "anthropic": {"name", "description", "input_schema"},
        "mcp": {"name", "description", "inputSchema", "annotations"},
    }
    read_only = {
        name: command("tools", "describe", name, "--format", "mcp").json["annotations"]["readOnlyHint"]
        for name in ("delete_workspace_file", "read_workspace_file", "write_workspace_file")
    }
    assert read_only == {
        "delete_workspace_file": False, "read_workspace_file": True, "write_workspace_file": False,
    }  # fmt: skip


def test_a_misspelt_tool_is_guessed_and_a_format_that_is_none_is_a_usage_error(command: Command) -> None:
    done = command("tools", "describe", "read_workspace_fil")
    assert (done.status, "Did you mean 'read_workspace_file'?" in done.stderr) == (2, True)
    done = command("tools", "describe", "read_workspace_file", "--format", "yaml")
    assert (done.status, "'yaml' is not json-schema" in done.stderr) == (2, True)


# search


def test_a_search_finds_tools_by_what_they_do(command: Command) -> None:
    found = command("tools", "search", "read file", "--json").json
    assert found["results"][0]["name"] == "read_workspace_file"
    assert command("tools", "search", "read file").stdout.startswith("read_workspace_file ")
    assert len(command("tools", "search", "file", "--limit", "2", "--json").json["results"]) == 2


def test_a_search_without_words_is_refused_and_one_without_results_says_so(command: Command) -> None:
    assert command("tools", "search", " ", "--json").json["error_type"] == "query_required"
    done = command("tools", "search", "zzzqqq")
    assert (done.status, done.stdout) == (0, "No tool matches.\n")


# call


def test_a_call_prints_the_result_as_json(command: Command, workspace: Path) -> None:
    for json_asked in ((), ("--json",)):
        done = command("tools", "call", "read_workspace_file", "path=a.txt", "--root", ".", *json_asked)
        assert (done.status, done.json["content"], done.stderr) == (0, "1 | one\n2 | two", "")


@pytest.mark.parametrize(
    ("values", "content"),
    [
        (["start_line=2"], "2 | two"),
        (["include_line_numbers=false"], "one\ntwo"),
        (["start_line=null"], "1 | one\n2 | two"),
        (["--args", '{"start_line": 2, "include_line_numbers": false}'], "two"),
        (["--args", '{"start_line": 1}', "start_line=2"], "2 | two"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_values_are_typed_by_the_schema_and_win_over_args(
    command: Command, workspace: Path, values: list[str], content: str
) -> None:
    done = command("tools", "call", "read_workspace_file", "path=a.txt", *values, "--root", ".")
    assert done.json["content"] == content


@pytest.mark.parametrize("text", ["5", "true", "null", "[1]", '{"a": 1}', "a=b", "", "中文", '"quoted"'])
def test_text_stays_text_whatever_it_looks_like(command: Command, workspace: Path, text: str) -> None:
    call = ("tools", "call", "write_workspace_file", "path=b.txt", f"content={text}", "--yes", "--root", ".")
    assert command(*call).status == 0
    assert Path("b.txt").read_text() == text


def test_lists_and_objects_are_given_as_json(command: Command, workspace: Path) -> None:
    files = json.dumps([{"path": "x", "content": "1"}, {"path": "y", "content": "2"}])
    done = command("tools", "call", "write_workspace_files", f"files={files}", "--yes", "--root", ".")
    assert done.status == 0
    assert (Path("x").read_text(), Path("y").read_text()) == ("1", "2")


def test_arguments_come_from_a_file_or_stdin(agentengine: Run, workspace: Path) -> None:
    Path("args.json").write_text('{"path": "a.txt", "start_line": 2}')
    call = ("tools", "call", "read_workspace_file", "--root", ".", "--args")
    assert json.loads(agentengine(*call, "@args.json").stdout)["content"] == "2 | two"
    piped = agentengine(*call, "-", stdin='{"path": "a.txt", "end_line": 1}')
    assert json.loads(piped.stdout)["content"] == "1 | one"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("path",), "'path' is not KEY=VALUE"),
        (("--args", "{"), "not JSON"),
        (("--args", "[" * 100_000), "not JSON"),
        (("--args", "[1]"), "a JSON object is expected"),
        (("--args", "@absent.json"), "absent.json cannot be read: No such file or directory"),
        (("--args", "@latin.json"), "latin.json is not UTF-8 (byte 0)"),
        (("path=a.txt", "--root", "absent"), "absent is not a directory"),
        (("path=a.txt", "--root", ""), "--root': it is empty"),
        (("path=a.txt", "--wait-approval", "soon"), "'soon' is not a time such as 10m or 90s"),
        (("path=a.txt", "start_line=two"), "'start_line'"),
        (("pth=a.txt",), "Did you mean 'path'?"),
        ((), "'path' is missing"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_a_call_that_is_wrong_is_a_usage_error_that_says_what(
    command: Command, workspace: Path, arguments: tuple[str, ...], words: str
) -> None:
    Path("latin.json").write_bytes(b"\xe9")
    done = command("tools", "call", "read_workspace_file", *arguments)
    assert done.status == 2
    assert words in done.stderr


def test_a_call_without_a_tool_is_a_usage_error(command: Command) -> None:
    done = command("tools", "call")
    assert (done.status, "which tool?" in done.stderr) == (2, True)


def test_a_risky_call_with_nobody_to_ask_ends_with_6_and_changes_nothing(
    command: Command, workspace: Path
) -> None:
    for more in ((), ("--no-input",), ("--json",)):
        done = command("tools", "call", "delete_workspace_file", "path=a.txt", "--root", ".", *more)
        assert (done.status, done.json["type"]) == (6, "approval_required")
    assert Path("a.txt").exists()


def test_yes_approves_what_the_command_names_and_nothing_else(command: Command, workspace: Path) -> None:
    dispatched = json.dumps(
        {"action": "call", "tool_name": "delete_workspace_file", "arguments": {"path": "a.txt"}}
    )
    done = command("tools", "call", "tool_dispatcher", "--args", dispatched, "--yes", "--root", ".")
    assert (done.status, done.json["dispatched_tool_name"]) == (6, "delete_workspace_file")
    assert Path("a.txt").exists()
    assert command("tools", "call", "delete_workspace_file", "path=a.txt", "--yes", "--root", ".").status == 0
    assert not Path("a.txt").exists()


@pytest.mark.parametrize("mode", ["off", "strict", "ask"])
def test_an_approval_among_the_arguments_deletes_nothing(
    command: Command, workspace: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", mode)
    arguments = {"path": "a.txt", "approval": {"approved": True}}
    direct = command("tools", "call", "delete_workspace_file", "--args", json.dumps(arguments), "--root", ".")
    assert direct.status != 0
    call = {"action": "call", "tool_name": "delete_workspace_file", "arguments": arguments}
    dispatched = command("tools", "call", "tool_dispatcher", "--args", json.dumps(call), "--json")
    assert (dispatched.status, dispatched.json["error_type"]) == (7, "approval_in_arguments")
    assert Path("a.txt").exists()


def test_yes_is_refused_in_what_a_tool_started(
    command: Command, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_INSIDE_TOOL", "1")
    done = command("tools", "call", "delete_workspace_file", "path=a.txt", "--yes", "--root", ".", "--json")
    assert (done.status, done.json["error"]["code"]) == (7, "approval_inside_tool")
    assert Path("a.txt").exists()


def test_an_approval_mode_that_is_none_stops_the_call_and_names_the_variable(
    command: Command, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "lax")
    done = command("tools", "call", "delete_workspace_file", "path=a.txt", "--yes", "--root", ".")
    assert (done.status, "KSADK_TOOL_APPROVAL_MODE" in done.stderr) == (2, True)
    assert Path("a.txt").exists()
