"""A search finds what a person would have picked, in English and in Chinese."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksadk.tools.search import Document, ToolIndex
from ksadk.toolsets import clear_external_tools, register_external_tools, tool_search


@pytest.fixture(autouse=True)
def no_external_tools() -> Iterator[None]:
    clear_external_tools()
    yield
    clear_external_tools()


def names(query: str, **options: Any) -> list[str]:
    options = {"profile": "default", "include_disabled": True, **options}
    return [item["name"] for item in tool_search(query, **options)["results"]]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("read file", "read_workspace_file"),
        ("readFile", "read_workspace_file"),
        ("READ_FILES", "read_workspace_file"),
        ("读取文件", "read_workspace_file"),
        ("open a document", "read_workspace_file"),
        ("grep", "search_workspace_files"),
        ("search", "search_workspace_files"),
        ("搜索文件内容", "search_workspace_files"),
        ("edit", "edit_workspace_file"),
        ("change a file", "edit_workspace_file"),
        ("several edits", "multi_edit_workspace_file"),
        ("把内容写入文件", "write_workspace_file"),
        ("删除", "delete_workspace_file"),
        ("remove a file", "delete_workspace_file"),
        ("list files", "list_workspace_files"),
        ("run shell command", "run_command"),
        ("执行命令", "run_command"),
        ("run python code", "run_code"),
        ("what is the status of the sandbox", "sandbox_status"),
        ("load skill", "load_skill"),
        ("download a web page", "web_fetch"),
        ("validate json syntax", "lint_workspace_file"),
    ],
)
def test_the_obvious_tool_comes_first(query: str, first: str) -> None:
    assert names(query)[0] == first


@pytest.mark.parametrize("query", ["e", "a", "the", "tool", "?", "工", "zzz", "\ud800", "___"])
def test_a_query_that_says_nothing_finds_nothing(query: str) -> None:
    assert tool_search(query, profile="default", include_disabled=True)["results"] == []


@pytest.mark.parametrize("query", ["", "  \n"])
def test_an_empty_query_is_an_error(query: str) -> None:
    result = tool_search(query)
    assert (result["ok"], result["error_type"]) == (False, "query_required")
    assert result["results"] == result["deferred_tool_names"] == []


def test_a_result_tells_what_a_model_needs() -> None:
    found = tool_search("read file", max_results=2)
    assert (found["ok"], found["query"], found["profile"]) == (True, "read file", "coding")
    first = found["results"][0]
    assert set(first) == {
        "name", "description", "group", "args", "risk_level", "enabled", "boundary", "execution", "score",
        "reason",
    }  # fmt: skip
    assert (first["group"], first["risk_level"], first["execution"]) == ("workspace", "low", "builtin")
    assert first["reason"] == "name: read, file"
    assert found["deferred_tool_names"] == [item["name"] for item in found["results"]]
    assert len(found["results"]) == 2


def test_only_the_tools_of_the_profile_are_found() -> None:
    assert "delete_workspace_file" in names("delete file")
    assert "delete_workspace_file" not in names("delete file", profile="coding")


def test_an_unknown_profile_is_an_error() -> None:
    assert tool_search("read", profile="codign")["error_type"] == "unknown_tool"


def test_tools_that_cannot_work_are_left_out_until_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "none")
    assert "run_command" not in names("run shell command", include_disabled=False)
    assert names("run shell command", include_disabled=True)[0] == "run_command"


@pytest.mark.parametrize(("asked", "given_back"), [(0, 8), (-3, 1), (3, 3), (10_000, 50)])
def test_the_number_of_results_stays_within_bounds(asked: int, given_back: int) -> None:
    register_external_tools([{"name": f"invoice_{number}"} for number in range(60)])
    assert len(names("invoice", max_results=asked)) == given_back


def test_external_tools_are_found_beside_the_built_in_ones() -> None:
    register_external_tools(
        [
            {
                "name": "create_invoice",
                "description": "开具发票",
                "inputSchema": {"properties": {"amount": {}}},
            }
        ],
        group="mcp:billing",
        risk_level="high",
    )
    for query in ("invoice", "createInvoice", "发票", "amount"):
        assert names(query, profile="coding")[0] == "create_invoice", query
    found = tool_search("invoice")["results"][0]
    assert (found["execution"], found["group"], found["args"]) == ("external", "mcp:billing", ["amount"])
    clear_external_tools("mcp:billing")
    assert names("invoice") == []


def test_disabled_external_tools_are_left_out_until_asked_for() -> None:
    register_external_tools([{"name": "create_invoice"}], enabled=False)
    assert names("invoice", include_disabled=False) == []
    assert names("invoice") == ["create_invoice"]


def test_equal_results_come_in_the_order_of_their_names() -> None:
    register_external_tools([{"name": f"invoice_{letter}x"} for letter in "cab"])
    assert names("invoice") == ["invoice_ax", "invoice_bx", "invoice_cx"]


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    documents = [Document(f"get_{noun}") for noun in ("weather", "time", "stock", "route")]
    index = ToolIndex(documents)
    assert documents[index.search("get weather", 4)[0].position].name == "get_weather"
    assert len(index.search("get", 10)) == 4


def test_a_word_that_nearly_every_tool_holds_is_read_only_where_nothing_else_is() -> None:
    documents = [Document(f"t{number}", "Tells the owner.") for number in range(1_200)]
    index = ToolIndex([*documents, Document("find_owner"), Document("zz", "The owner of an invoice.")])

    def found(query: str) -> list[str]:
        return [index.documents[hit.position].name for hit in index.search(query, 2)]

    assert found("owner") == ["find_owner"]
    assert found("owner invoice") == ["zz", "find_owner"]
    assert found("tells") == ["t0", "t1"]


@given(st.text(max_size=200))
def test_any_query_is_answered_and_the_best_come_first(query: str) -> None:
    index = ToolIndex(
        [Document("read_file", "读取 a file"), Document("writeFile2", "Write.", "web", ("path",))]
    )
    hits = index.search(query, 5)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(hit.score > 0 and hit.reason for hit in hits)
