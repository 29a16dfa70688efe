"""Every command that calls a tool goes through the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from agentengine_cli.main import app, run
from ksadk.errors import KsadkError
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.registry import Tool

EXEMPT = {
    "init", "a2a card", "a2a serve", "a2a center", "tools list", "tools describe", "approvals list",
    "approvals show",
    "approvals approve", "approvals deny", "approvals rules list", "approvals rules add",
    "approvals rules test", "approvals rules remove", "trust", "approvals log", "approvals verify",
    "approvals suggest", "approvals watch", "config show", "doctor",
    "skills lint", "skills compat", "skills serve", "skills pack", "skills lock",
}  # fmt: skip
"""Commands that call no tool: they tell, or they answer a call's question."""

CALLS: dict[str, tuple[str, ...]] = {
    "tools call read_workspace_file path=a": ("read_workspace_file",),
    "tools call run_command command=ls": ("run_command",),
    "tools call tool_dispatcher action=list": ("tool_dispatcher",),
    "tools search file": ("tool_search",),
    "workspace status": ("workspace_status",),
    "workspace list": ("list_workspace_files",),
    "workspace read a": ("read_workspace_file",),
    "workspace write a --content x": ("write_workspace_file",),
    "workspace write a --content x --yes": ("write_workspace_file",),
    "workspace write a --content x --dry-run": ("preview write_workspace_file",),
    "workspace edit a --old x --new y": ("edit_workspace_file",),
    "workspace edit a --old x --new y --dry-run": ("preview edit_workspace_file",),
    "workspace multi-edit a --edits []": ("multi_edit_workspace_file",),
    "workspace multi-edit a --edits [] --dry-run": ("preview multi_edit_workspace_file",),
    "workspace search x": ("search_workspace_files",),
    "workspace lint a": ("lint_workspace_file",),
    "workspace delete a": ("delete_workspace_file",),
    "workspace delete a --dry-run": ("preview delete_workspace_file",),
    "sandbox run -- true": ("run_command",),
    "sandbox run --net -- true": ("run_command_with_network",),
    "sandbox run --diff -- true": ("run_command",),
    "sandbox run --dry-run -- true": ("preview run_command",),
    "sandbox run --code f.py": ("run_code",),
    "sandbox run --code f.py --net --yes": ("run_code_with_network",),
    "sandbox status": ("sandbox_status",),
    "sandbox status --probe": ("probe_sandbox",),
    "sandbox list": ("list_sandboxes",),
    "sandbox kill x": ("kill_sandbox",),
    "skills list": ("list_skills",),
    "skills search x": ("search_skills",),
    "skills load x": ("load_skill",),
    "skills execute --prompt x": ("execute_skills",),
    "skills execute x y --prompt x --yes": ("execute_skills",),
    "skills execute x --prompt x --dry-run": ("preview execute_skills",),
    "a2a call http://127.0.0.1:9 hi": ("a2a_call",),
    "a2a call http://127.0.0.1:9 hi --stream": ("a2a_call",),
    "a2a status t -a http://127.0.0.1:9": ("a2a_status",),
    "a2a cancel t -a http://127.0.0.1:9": ("a2a_cancel",),
    "a2a tasks -a http://127.0.0.1:9": ("a2a_status",),
    "a2a discover http://127.0.0.1:9": ("a2a_discover",),
    "a2a register http://127.0.0.1:9 --space-id s --center http://127.0.0.1:9 --admin-token-file f.py": (
        "a2a_discover",
    ),
}


def commands(group: Any, prefix: str = "") -> Iterator[str]:
    """Every command of the program: "tools call", ..."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tools that reach the gateway; no call goes further."""
    names: list[str] = []

    def call(self: ToolGateway, tool: Tool, args: Any, kwargs: Any, approval: Any = None) -> Any:
        names.append(tool.name)
        raise KsadkError("recorded")

    def preview(self: ToolGateway, tool: Tool, arguments: Any) -> Any:
        names.append(f"preview {tool.name}")
        raise KsadkError("recorded")

    monkeypatch.setattr(ToolGateway, "call", call)
    monkeypatch.setattr(ToolGateway, "preview", preview)
    return names


def test_every_command_is_known_to_call_a_tool_or_to_call_none() -> None:
    calling = {" ".join(line.split()[:2]) for line in CALLS}
    assert set(commands(typer.main.get_command(app))) == calling | EXEMPT
    assert calling & EXEMPT == set()


@pytest.mark.parametrize("line", CALLS)
def test_a_command_that_calls_a_tool_does_it_through_the_gateway(line: str, seen: list[str]) -> None:
    Path("f.py").write_text('print("one_word_of_16_or_more")')  # which is a token, too
    assert run(line.split()) == (125 if line.startswith("sandbox run") else 1)
    assert tuple(seen) == CALLS[line]


def test_every_tools_public_function_goes_through_the_gateway(seen: list[str]) -> None:
    from ksadk.tools.registry import builtin_tools, public_function
    from ksadk.toolsets.selection import load_builtin_tools

    load_builtin_tools()
    for tool in builtin_tools():
        with pytest.raises(KsadkError, match="recorded"):
            public_function(tool.name)()
    assert seen == [tool.name for tool in builtin_tools()]
