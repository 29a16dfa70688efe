"""What is offered at the key `a`: rules that let the call through, and nothing wider than they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ksadk.runtime_context import workspace_root_scope
from ksadk.tools.approvals import ApprovalRequest, new_request
from ksadk.tools.consent import plan_call
from ksadk.tools.registry import Plan, RiskLevel, find
from ksadk.tools.rule_proposals import others, proposals
from ksadk.toolsets.selection import load_builtin_tools


@pytest.fixture(autouse=True)
def workspace() -> None:
    """The current directory with docs/a[1].md, docs/b.md and a link to docs."""
    load_builtin_tools()
    Path("docs").mkdir()
    Path("docs/a[1].md").write_text("a\n")
    Path("docs/b.md").write_text("b\n")
    Path("link").symlink_to("docs")


REST = "overwrite=true encoding=null in_place=false"
"""The arguments of a write that have defaults."""


def asked(tool_name: str, /, **arguments: Any) -> ApprovalRequest:
    tool = find(tool_name)
    plan = Plan("s", "here", "0")
    root = Path.cwd()
    if tool.targets is not None:
        with workspace_root_scope(root):
            plan = plan_call(tool, arguments)
    return new_request(
        tool, tool.parameters.canonical(arguments), plan, project=str(root), workspace_root=str(root)
    )


def offered(request: ApprovalRequest) -> dict[str, dict[str, Any]]:
    return {proposal.width: proposal.written for proposal in proposals(request)}


def test_a_write_is_offered_with_its_path_from_the_root_of_the_machine() -> None:
    request = asked("write_workspace_file", path="docs/a[1].md", content="x")
    here = Path.cwd() / "docs"
    assert offered(request) == {
        "exactly this call": {
            "allow": "write_workspace_file",
            "where": {
                "path": f"{here}/a[[]1].md",
                "content": "x",
                "overwrite": True,
                "encoding": None,
                "in_place": False,
            },
        },
        "this tool, on this file": {
            "allow": "write_workspace_file",
            "where": {"path": f"{here}/a[[]1].md"},
        },
        "this tool, in docs/": {"allow": "write_workspace_file", "where": {"path": f"{here}/**"}},
        "this tool, anything, anywhere": {"allow": "write_workspace_file"},
    }


def test_each_width_tells_of_calls_that_it_would_also_allow() -> None:
    request = asked("write_workspace_file", path="docs/a[1].md", content="x")
    earlier = asked("write_workspace_file", path="docs/b.md", content="earlier")
    exact, file, directory, anywhere = proposals(request)
    assert others(request, exact.rule, [earlier]) == []
    assert others(request, file.rule, [earlier]) == [
        f"write_workspace_file 'path=docs/a[1].md' 'content=something else' {REST}"
    ]
    told = others(request, directory.rule, [earlier])
    assert len(told) == 3
    assert told[0] == f"write_workspace_file path=docs/b.md content=earlier {REST}"
    assert all("path=docs/" in call for call in told)
    assert len(others(request, anywhere.rule, [])) == 3


def test_several_files_are_offered_together_and_as_their_directory() -> None:
    files = [{"path": "docs/x", "content": "1"}, {"path": "docs/deep/y", "content": "2"}]
    found = offered(asked("write_workspace_files", files=files))
    here = Path.cwd() / "docs"
    assert found["this tool, on these files"]["where"] == {"path": {"any": [f"{here}/x", f"{here}/deep/y"]}}
    assert found["this tool, in docs/"]["where"] == {"path": f"{here}/**"}


def test_a_long_text_is_not_repeated_in_a_rule() -> None:
    found = offered(asked("write_workspace_file", path="docs/n.md", content="x\n" * 5_000))
    assert "exactly this call" not in found
    assert "this tool, on this file" in found


def test_a_path_through_a_link_is_offered_by_both_its_names() -> None:
    here = Path.cwd()
    found = offered(asked("write_workspace_file", path="link/b.md", content="x"))
    both = {"any": [f"{here}/link/b.md", f"{here}/docs/b.md"]}
    assert found["exactly this call"]["where"]["path"] == both
    assert found["this tool, in link/ and docs/"]["where"] == {
        "path": {"any": [f"{here}/link/**", f"{here}/docs/**"]}
    }


@pytest.mark.parametrize("name", ["*", "read?", "a[b]c"])
def test_a_name_that_would_be_read_as_a_pattern_is_offered_no_rule(name: str) -> None:
    request = asked("write_workspace_file", path="docs/b.md", content="x")
    assert proposals(replace(request, tool_name=name)) == []


def test_a_url_whose_host_would_be_read_as_a_pattern_is_offered_no_host() -> None:
    widths = offered(asked("web_fetch", url="https://*.com/x"))
    assert not any("for" in width for width in widths)


@pytest.mark.parametrize(
    ("tool_name", "arguments"),
    [
        ("run_command", {"command": "make test"}),
        ("run_code", {"code": "1"}),
        ("execute_skills", {"workflow_prompt": "x"}),
    ],
)
def test_what_runs_something_is_offered_as_this_one_call_alone(
    tool_name: str, arguments: dict[str, Any]
) -> None:
    request = asked(tool_name, **arguments)
    [(width, written)] = offered(request).items()
    assert width == "exactly this call, in this project"
    assert written["project"] == str(Path.cwd())
    assert written["where"].keys() == request.arguments.keys()


def test_a_deletion_is_offered_as_this_one_call_alone() -> None:
    found = offered(asked("delete_workspace_file", path="docs/b.md"))
    where = {"path": f"{Path.cwd()}/docs/b.md"}
    assert found == {"exactly this call": {"allow": "delete_workspace_file", "where": where}}


@pytest.mark.parametrize("risk", ["high", "critical"])
def test_of_high_risk_a_call_about_files_is_offered_as_this_one_call_alone(risk: RiskLevel) -> None:
    request = asked("write_workspace_file", path="docs/b.md", content="x")
    assert list(offered(replace(request, risk_level=risk))) == ["exactly this call"]


def test_a_url_is_offered_as_its_host() -> None:
    found = offered(asked("web_fetch", url="https://www.example.com:8443/a?b"))
    assert found["this tool for www.example.com"]["where"] == {"url": "www.example.com"}
    assert "this tool for evil.com" not in offered(asked("web_fetch", url="https://evil.com\\@example.com/"))
