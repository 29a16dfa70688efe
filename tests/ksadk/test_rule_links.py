"""Rules that tighten hold for a call by whatever name they reach it: links, and names of the same tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ksadk.runtime_context import workspace_root_scope
from ksadk.tools.registry import find
from ksadk.tools.rule_conditions import read_condition
from ksadk.tools.rules import Call, Rule, Verdict
from ksadk.toolsets.selection import load_builtin_tools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with docs/a.md and a link docs/out to secret; `link` and `odd[1]` beside it lead to it."""
    load_builtin_tools()
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "secret").mkdir()
    (root / "docs/a.md").write_text("a\n")
    (root / "secret/key").write_text("k\n")
    (root / "docs/out").symlink_to("../secret")
    (tmp_path / "link").symlink_to("root")
    (tmp_path / "odd[1]").symlink_to("root")
    return root


def holds(root: Path, verdict: Verdict, condition: Any, tool_name: str, path: str) -> bool:
    tool = find(tool_name)
    made = Rule(verdict, tool_name, where={"path": read_condition("path", condition)})
    with workspace_root_scope(root):
        return made.covers(Call.of(tool, tool.parameters.canonical({"path": path})))


@pytest.mark.parametrize(
    ("pattern", "path", "tightens"),
    [
        ("{at}/link/docs/**", "docs/a.md", True),
        ("{at}/link/docs/a.md", "docs/a.md", True),
        ("{at}/link/**", "docs/a.md", True),
        ("{at}/link/*/a.md", "docs/a.md", True),
        ("{at}/LINK/docs/**", "docs/a.md", False),
        ("{at}/link/secret/**", "docs/a.md", False),
        ("{at}/link/docs/out/**", "secret/key", True),
        ("{at}/odd[[]1]/docs/**", "docs/a.md", True),
        ("{at}/link", "docs/a.md", False),
        ("~/docs/**", "docs/a.md", True),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "glob"])
def test_a_whole_path_through_a_link_tightens_and_never_allows(
    pattern: str, path: str, tightens: bool, kind: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(root.parent / "link"))
    text = pattern.format(at=root.parent)
    condition = text if kind == "plain" else {"glob": text}
    for verdict in ("deny", "ask"):
        assert holds(root, verdict, condition, "delete_workspace_file", path) is tightens
    assert not holds(root, "allow", condition, "delete_workspace_file", path)


def test_a_link_that_is_deleted_is_denied_by_its_name_behind_another_link(root: Path) -> None:
    assert holds(root, "deny", f"{root.parent}/link/docs/out", "delete_workspace_file", "docs/out")


def test_a_pattern_from_the_root_of_the_machine_holds_for_everything(root: Path) -> None:
    for pattern in ("/**", "/*/**"):
        assert holds(root, "deny", pattern, "delete_workspace_file", "docs/a.md")


NEW, OLD = "tool_dispatcher", "agentengine_tool_dispatcher"


@pytest.mark.parametrize(
    ("written", "called"), [(NEW, OLD), (OLD, NEW), ("tool_*", OLD), ("agentengine_*", NEW)]
)
def test_a_rule_for_one_name_of_a_tool_tightens_the_other_and_never_allows_it(
    written: str, called: str
) -> None:
    load_builtin_tools()
    tool = find(called)
    call = Call.of(tool, tool.parameters.canonical({"action": "list"}))
    assert Rule("deny", written).covers(call)
    assert Rule("ask", written).matches(called, {"action": "list"})
    assert not Rule("allow", written).covers(call)
    listing = {"action": read_condition("action", "list")}
    assert Rule("deny", written, where=listing).covers(call)
    assert not Rule("deny", written, where={"action": read_condition("action", "call")}).covers(call)
    slip = {"acton": read_condition("acton", "call")}
    assert Rule("deny", written, where=slip).covers(call) is ("*" not in written)


def test_a_rule_for_the_dispatcher_is_about_no_other_tool() -> None:
    load_builtin_tools()
    assert not Rule("deny", NEW).matches("tool_search", {})
    assert not Rule("deny", OLD).matches("not_built_in", {})
