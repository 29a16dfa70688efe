"""The documents' Python examples that need no framework run as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ksadk.sandbox.probe import probe
from ksadk.sandbox.registry import SandboxRegistry, bind_sandbox_registry


def run(example: str) -> dict[str, Any]:
    """What an example leaves behind, by name."""
    names: dict[str, Any] = {}
    exec(compile(example, "example", "exec"), names)
    return names


def test_choosing_tools() -> None:
    left = run("""
from ksadk.toolsets import describe_agentengine_tools, get_agentengine_tools

tools = get_agentengine_tools(include=["focused", "agentengine_tool_dispatcher"])
tool_descriptions = describe_agentengine_tools(include=["focused", "agentengine_tool_dispatcher"])
""")
    expected = [
        "list_skills", "search_skills", "load_skill", "workspace_status", "search_workspace_files",
        "edit_workspace_file", "lint_workspace_file", "component_status", "sandbox_status",
        "agentengine_tool_dispatcher",
    ]  # fmt: skip
    assert [tool.__name__ for tool in left["tools"]] == expected
    assert [item["name"] for item in left["tool_descriptions"]] == expected


def test_adding_the_delete_tool() -> None:
    left = run("""
from ksadk.toolsets import get_agentengine_tools

# focused 默认含 workspace 读/search/edit/lint + component_status
tools = get_agentengine_tools(include=["focused"])

# 显式加上高风险删除能力（strict 模式下需 approval）
tools += get_agentengine_tools(include=["delete_workspace_file"])
""")
    assert left["tools"][-1].__name__ == "delete_workspace_file"


def test_taking_one_tool() -> None:
    left = run("""
from ksadk.toolsets import get_agentengine_tools

# as_tool() 已把 workspace 函数包成 LangChain Tool
tools = get_agentengine_tools(include=["workspace"])

# 可单独取某个工具
from ksadk.toolsets.workspace import edit_workspace_file
tools.append(edit_workspace_file)
""")
    assert len(left["tools"]) == 11


def test_component_status() -> None:
    left = run("""
from ksadk.toolsets.platform import component_status

status = component_status()
""")
    status = left["status"]
    assert {"ok", "summary", "skill_space", "skill_runtime", "sandbox", "workspace"} <= set(status)
    assert {
        "model", "knowledge_base_bound", "long_term_memory_bound", "skill_space_bound", "isolated_execution",
        "sandbox_direct_tools",
    } <= set(status["summary"])  # fmt: skip
    assert {"space_ids", "tools"} <= set(status["skill_space"])
    assert {"backend", "enabled", "template_bound"} <= set(status["skill_runtime"])
    assert {"backend", "enabled", "tools"} <= set(status["sandbox"])
    assert {"root", "tools"} <= set(status["workspace"])


DISPATCH = """
from ksadk.toolsets import tool_dispatcher

# 1. list 看有哪些工具可调度
tools = tool_dispatcher(action="list", profile="coding")
# 2. describe 查 run_command 的风险与边界
spec = tool_dispatcher(action="describe", tool_name="run_command")
# 3. call 真正执行（strict 下可能先返回 approval_required）
out = tool_dispatcher(action="call", tool_name="run_command",
                     arguments={"command": "ls -la"})
"""


def test_list_describe_call(monkeypatch: pytest.MonkeyPatch, sandbox: None) -> None:
    left = run(DISPATCH)
    assert "run_command" in [tool["name"] for tool in left["tools"]["tools"]]
    assert left["spec"]["tool"]["risk_level"] == "high"
    assert (left["out"]["ok"], left["out"]["result"]["exit_code"]) == (True, 0)
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "strict")
    out = run(DISPATCH)["out"]
    assert (out["type"], out["dispatched_tool_name"]) == ("approval_required", "run_command")
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "none")
    assert run(DISPATCH)["out"]["error_type"] == "tool_disabled"


def test_tool_search() -> None:
    left = run("""
from ksadk.toolsets import tool_search

hits = tool_search("read file", profile="coding", max_results=5)
# {"ok": True, "results": [{"name": "read_workspace_file", "score": 4.0, ...}], ...}
""")
    assert left["hits"]["ok"] is True
    assert left["hits"]["results"][0]["name"] == "read_workspace_file"
    assert {"score", "group", "risk_level", "boundary", "execution"} <= set(left["hits"]["results"][0])


RUNTIME = """
from ksadk.toolsets import builtin_tools_for_runtime

# 读 KSADK_BUILTIN_TOOLS_MODE + KSADK_BUILTIN_TOOLS_PROFILE
tools = builtin_tools_for_runtime()  # mode=off 时返回 []
"""


def test_tools_for_a_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(run(RUNTIME)["tools"]) == 20
    monkeypatch.setenv("KSADK_BUILTIN_TOOLS_MODE", "off")
    assert run(RUNTIME)["tools"] == []


SKILL_TOOLS = """
from ksadk.toolsets.skills import get_skill_tools

# as_tool 自动把 Python 函数转成框架工具
tools = get_skill_tools()  # [list_skills, search_skills, load_skill, execute_skills]

from ksadk.toolsets.skills import list_skills

result = list_skills()

from ksadk.toolsets.skills import search_skills

hits = search_skills("diagram", max_results=5)

from ksadk.toolsets.skills import load_skill

skill = load_skill("baoyu-diagram")
# skill["instructions"] 是 SKILL.md 正文，可直接读入 Agent 上下文
"""


def test_skill_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = run(SKILL_TOOLS)
    assert [tool.__name__ for tool in left["tools"]] == [
        "list_skills", "search_skills", "load_skill", "execute_skills",
    ]  # fmt: skip
    assert (left["result"]["ok"], left["hits"]["ok"], left["skill"]["ok"]) == (False, False, False)
    directory = tmp_path / "skills" / "baoyu-diagram"
    (directory / "scripts").mkdir(parents=True)
    (directory / "SKILL.md").write_text("---\nname: baoyu-diagram\ndescription: Draws.\n---\nDraw it.\n")
    monkeypatch.setenv("KSADK_LOCAL_SKILLS_DIR", str(tmp_path / "skills"))
    monkeypatch.setenv("KSADK_SKILL_CACHE_DIR", str(tmp_path / "cache"))
    left = run(SKILL_TOOLS)
    [listed] = left["result"]["skills"]
    assert {"name", "description", "version", "space_id"} <= listed.keys()
    assert left["result"]["skill_space_ids"] == []
    [hit] = left["hits"]["results"]
    assert (left["hits"]["query"], hit["name"], hit["description"]) == ("diagram", "baoyu-diagram", "Draws.")
    assert hit["score"] == 90
    skill = left["skill"]
    assert (skill["ok"], skill["name"], skill["instructions"]) == (True, "baoyu-diagram", "Draw it.")
    assert {"version", "root_dir", "has_scripts_dir", "script_files", "cache_hit", "usage"} <= skill.keys()


SANDBOX_STATUS = """
from ksadk.toolsets.sandbox import sandbox_status

info = sandbox_status()
if not info["enabled"]:
    raise RuntimeError(f"sandbox disabled: {info['boundary']}")
"""


@pytest.fixture
def sandbox() -> Iterator[None]:
    """The local sandbox; the test is skipped where this machine does not let it work, with the reason."""
    verdict = probe()
    if verdict.diagnosis is not None:
        pytest.skip(verdict.diagnosis.message)
    registry = SandboxRegistry()
    with bind_sandbox_registry(registry):
        yield
    registry.close()


def test_a_sandbox_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "none")
    with pytest.raises(RuntimeError, match="sandbox disabled: No sandbox is configured"):
        run(SANDBOX_STATUS)


def test_a_sandbox_that_is_there(sandbox: None) -> None:
    assert run(SANDBOX_STATUS)["info"]["isolated"] is True


@pytest.mark.parametrize("mode", ["off", "strict"])
def test_commands_and_code(
    sandbox: None, mode: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", mode)
    left = run("""
from ksadk.toolsets.sandbox import run_command

result = run_command(
    "python -c 'print(2+2)'",
    timeout=30,
    approval={"approved": True},
)
assert result["ok"]
print(result["stdout"], result["exit_code"])
""")
    assert capsys.readouterr().out == "4\n 0\n"
    assert left["result"]["backend"] == "sandbox/bubblewrap"
    left = run("""
from ksadk.toolsets.sandbox import run_code

result = run_code(
    "import math; print(math.sqrt(16))",
    language="python",
    approval={"approved": True},
)
assert result["ok"]
""")
    assert left["result"]["stdout"] == "4.0\n"


def test_web_fetch() -> None:
    left = run("""
from ksadk.toolsets.web import web_fetch

doc = web_fetch("https://example.com/docs", max_chars=20000)
if doc["ok"]:
    print(doc["final_url"], doc["content_type"])
    if doc.get("truncated"):
        print("persisted at", doc["persisted"]["path"])
""")
    assert left["doc"]["ok"] is False


def test_web_search(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KSADK_WEB_SEARCH_PROVIDER", "KSADK_WEB_SEARCH_API_KEY"):
        monkeypatch.setenv(name, "")  # what the example sets is undone at the end
    left = run("""
import os
os.environ["KSADK_WEB_SEARCH_PROVIDER"] = "ksyun"
os.environ["KSADK_WEB_SEARCH_API_KEY"] = "..."

from ksadk.toolsets.web import web_search

res = web_search("ksadk agent runtime", max_results=5)
for item in res["results"]:
    print(item["rank"], item["title"], item["url"])
""")
    assert left["res"]["error_type"] == "provider_not_configured"


def test_who_is_calling() -> None:
    left = run("""
from ksadk.runtime_context import get_current_account_id, get_current_invocation_context

account_id = get_current_account_id()
ctx = get_current_invocation_context()
""")
    assert (left["account_id"], left["ctx"]) == ("", None)


def test_reading_then_editing_as_the_reference_describes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "strict")
    left = run("""
from ksadk.toolsets.workspace import (
    delete_workspace_file,
    edit_workspace_file,
    read_workspace_file,
    workspace_root,
    write_workspace_file,
)

(workspace_root() / "old.md").write_text("Draft")
unread = edit_workspace_file("old.md", "Draft", "Final", approval={"approved": True})
asked = write_workspace_file("notes.md", "# Draft\\n")
written = write_workspace_file("notes.md", "# Draft\\n", approval={"approved": True})
read = read_workspace_file("notes.md")
edited = edit_workspace_file("notes.md", "Draft", "Final", approval={"approved": True})
refused = delete_workspace_file("notes.md", approval={"approved": False})
deleted = delete_workspace_file("notes.md", approval={"approved": True})
""")
    assert left["asked"]["type"] == "approval_required"
    assert left["written"]["ok"]
    assert left["unread"]["error_type"] == "file_not_read"
    assert "# Draft" in left["read"]["content"]
    assert (left["edited"]["ok"], left["edited"]["replacements"]) == (True, 1)
    assert left["refused"]["type"] == "approval_rejected"
    assert left["deleted"]["ok"]
