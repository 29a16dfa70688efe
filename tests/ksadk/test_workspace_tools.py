"""The ten tools as callers see them: every input gives a result, and a plan tells what a call would do."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import pytest

from ksadk.runtime_context import (
    PlatformInvocationContext,
    platform_invocation_scope,
    tool_execution_scope,
    workspace_root_scope,
)
from ksadk.tools.registry import Plan, find
from ksadk.toolsets import workspace as w
from ksadk.toolsets import workspace_state
from ksadk.workspace.files import MAX_TEXT_BYTES

NAMES = [
    "workspace_status", "list_workspace_files", "read_workspace_file", "write_workspace_file",
    "write_workspace_files", "edit_workspace_file", "multi_edit_workspace_file", "lint_workspace_file",
    "search_workspace_files", "delete_workspace_file",
]  # fmt: skip


def plan(name: str, **arguments: Any) -> Plan:
    make = find(name).plan
    assert make is not None
    return make(**arguments)


def test_the_documented_root_is_made_and_used(tmp_path: Path) -> None:
    root = Path.cwd() / ".agentengine" / "ui" / "workspace"
    assert w.workspace_status()["workspace_root"] == str(root)
    assert root.is_dir()
    assert w.resolve_workspace_path("/a\\b.txt") == root / "a" / "b.txt"
    assert w.workspace_relative(root / "a" / "b.txt") == "a/b.txt"
    with pytest.raises(ValueError, match="workspace path must stay inside the workspace root"):
        w.resolve_workspace_path("../x")
    with pytest.raises(ValueError, match="subpath"):
        w.workspace_relative("/etc/passwd")


def test_each_account_has_a_workspace_and_read_state_of_its_own() -> None:
    with platform_invocation_scope(PlatformInvocationContext(account_id="a")):
        w.write_workspace_file("tenant.txt", "secret of a")
        assert workspace_state.get_read_state("tenant.txt") is not None
    with platform_invocation_scope(PlatformInvocationContext(account_id="b")):
        assert w.read_workspace_file("tenant.txt")["error_type"] == "not_found"
        w.write_workspace_file("tenant.txt", "b's")
    with platform_invocation_scope(PlatformInvocationContext(account_id="a")):
        assert w.read_workspace_file("tenant.txt")["content"] == "1 | secret of a"


def test_read_state_belongs_to_a_session_and_can_be_cleared() -> None:
    root = w.workspace_root()
    (root / "f").write_text("one\n")
    with tool_execution_scope("s1"):
        w.read_workspace_file("f")
        state = workspace_state.get_read_state("f")
        assert state is not None
        assert (state.path, state.total_lines, state.partial) == ("f", 1, False)
    assert w.edit_workspace_file("f", "one", "two")["error_type"] == "file_not_read"
    assert workspace_state.record_read_state(root / "f").size_bytes == 4
    workspace_state.clear_read_state("s1")
    with tool_execution_scope("s1"):
        assert workspace_state.get_read_state("f") is None
    assert workspace_state.get_read_state("f") is not None
    workspace_state.clear_read_state()
    assert workspace_state.get_read_state("f") is None


def test_a_long_read_is_cut_kept_and_says_where_to_go_on() -> None:
    lines = [f"line {number}" for number in range(1, 1001)]
    w.write_workspace_file("f", "\n".join(lines))
    result = w.read_workspace_file("f", max_chars=1, include_line_numbers=False)
    assert (result["truncated"], result["preview_chars"], result["partial"]) == (True, 1000, True)
    assert Path(result["persisted"]["path"]).read_text() == "\n".join(lines)
    read = result["content"].split("\n")[:-1]
    while result["truncated"]:
        start = int(result["suggested_action"].rpartition("=")[2].rstrip("."))
        assert start == len(read) + 1
        result = w.read_workspace_file("f", start, max_chars=1, include_line_numbers=False)
        read += result["content"].split("\n")[: -1 if result["truncated"] else None]
    assert read == lines


def test_a_large_search_keeps_whole_results_and_the_rest_in_a_file() -> None:
    w.write_workspace_file("f", "needle and more\n" * 4000)
    result = w.search_workspace_files("needle", max_results=5000)
    assert result["match_count"] == 4000
    assert 10 < len(result["results"]) < 4000
    assert result["results"][3]["line"] == 4
    assert (result["truncated"], result["results_preview"][0]) == (True, "[")
    assert Path(result["persisted_outputs"]["results"]["path"]).is_file()


def test_a_plan_shows_what_a_call_would_do_and_does_nothing() -> None:
    root = w.workspace_root()
    (root / "f").write_text("a\nb\n")
    w.read_workspace_file("f")
    planned = plan("edit_workspace_file", path="f", old_text="a", new_text="x")
    assert planned.diff == "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+x\n b\n"
    assert str(root) in planned.where
    both = [{"old_text": "a", "new_text": "x"}, {"old_text": "b", "new_text": "y"}]
    assert "-b\n+x\n+y\n" in plan("multi_edit_workspace_file", path="f", edits=both).diff
    assert plan("write_workspace_file", path="new/g", content="1\n").diff.endswith("+1\n")
    made = plan("write_workspace_files", files=[{"path": "f", "content": ""}, {"path": "h", "content": "1"}])
    assert made.summary == "Write 2 files: 1 new, 1 replaced"
    assert "f" in plan("delete_workspace_file", path="f").summary
    assert (root / "f").read_text() == "a\nb\n"
    assert [path.name for path in root.iterdir()] == ["f"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write_workspace_file", {"path": "f", "content": "new"}),
        ("write_workspace_files", {"files": [{"path": "f", "content": "new"}]}),
        ("delete_workspace_file", {"path": "f"}),
    ],
)
def test_the_digest_of_a_plan_follows_the_bytes_and_the_place(
    name: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    def digest() -> str:
        return plan(name, **arguments).content_digest

    path = w.workspace_root() / "f"
    path.write_bytes(b"one")
    first = digest()
    os.utime(path, (1, 1))
    assert digest() == first
    path.write_bytes(b"two")
    assert digest() != first
    other = tmp_path / "other"
    other.mkdir()
    (other / "f").write_bytes(b"one")
    with workspace_root_scope(other):
        assert digest() != first
    if name != "delete_workspace_file":
        path.unlink()
        assert digest() != first


def test_the_digest_of_a_plan_follows_what_is_not_read_by_its_state() -> None:
    root = w.workspace_root()
    (root / "large").write_bytes(b"x" * (MAX_TEXT_BYTES + 1))
    (root / "link").symlink_to("large")
    os.mkfifo(root / "fifo")
    planned = [
        ("large", "delete_workspace_file", {"path": "large"}),
        ("large", "write_workspace_file", {"path": "link", "content": ""}),
        ("fifo", "delete_workspace_file", {"path": "fifo"}),
    ]
    for seconds, (changed, name, arguments) in enumerate(planned):
        first = plan(name, **arguments).content_digest
        assert plan(name, **arguments).content_digest == first
        os.utime(root / changed, (1, seconds))
        assert plan(name, **arguments).content_digest != first
    link = plan("delete_workspace_file", path="link")
    assert link.summary == "Delete the link link, not what it leads to (large)"


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("edit_workspace_file", {"path": "f", "old_text": "a", "new_text": "b"}, "file_not_read"),
        ("multi_edit_workspace_file", {"path": "f", "edits": ["x"]}, "invalid_edit"),
        ("write_workspace_file", {"path": "f", "content": "x", "overwrite": False}, "already_exists"),
        ("write_workspace_files", {"files": [{"path": "f"}]}, "invalid_files"),
        ("delete_workspace_file", {"path": "gone"}, "not_found"),
        ("write_workspace_file", {"path": ".git/config", "content": "x"}, "protected_path"),
    ],
)
def test_nobody_is_asked_about_a_call_that_cannot_work(
    name: str, arguments: dict[str, Any], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (w.workspace_root() / "f").write_text("a")
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "strict")
    assert getattr(w, name)(**arguments)["error_type"] == code
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "off")
    assert getattr(w, name)(**arguments)["error_type"] == code


def test_risky_tools_ask_in_strict_mode_and_only_those(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "strict")
    assert w.write_workspace_file("f", "x")["approval_request"]["risk_level"] == "medium"
    assert w.write_workspace_file("f", "x\n", approval={"approved": True})["ok"] is True
    assert w.delete_workspace_file("f")["approval_request"]["risk_level"] == "high"
    assert w.read_workspace_file("f")["ok"] is True
    refused = w.delete_workspace_file("f", approval={"approved": "true"})
    assert refused["ok"] is False
    assert (w.workspace_root() / "f").exists()


@pytest.mark.parametrize("name", NAMES)
def test_no_tool_shows_approval(name: str) -> None:
    func = getattr(w, name)
    assert "approval" not in inspect.signature(func).parameters
    assert "approval" not in func.__annotations__
    assert "approval" not in find(name).parameters.json_schema["properties"]


def test_the_schemas_of_lists_are_exact() -> None:
    edits = find("multi_edit_workspace_file").parameters.json_schema["properties"]["edits"]
    assert edits["items"]["required"] == ["old_text", "new_text"]
    assert edits["items"]["additionalProperties"] is False
    files = find("write_workspace_files").parameters.json_schema["properties"]["files"]
    assert files["items"]["required"] == ["path", "content"]
