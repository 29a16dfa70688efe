"""Conditions of rules: what an allow rule must be sure of, and what is enough for one that tightens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ksadk.runtime_context import workspace_root_scope
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.registry import find
from ksadk.tools.rule_conditions import domain_fits, read_condition
from ksadk.tools.rules import Call, Rule, Verdict, decide_call
from ksadk.toolsets.selection import load_builtin_tools


def rule(verdict: Verdict, tool: str, /, **where: Any) -> Rule:
    return Rule(verdict, tool, where={name: read_condition(name, value) for name, value in where.items()})


def covers(made: Rule, tool: str, /, **arguments: Any) -> bool:
    return made.covers(Call(tool, arguments))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with docs/a.md, secret/key, and links from docs to secret and back."""
    load_builtin_tools()
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "secret").mkdir()
    (root / "docs/a.md").write_text("a\n")
    (root / "secret/key").write_text("k\n")
    (root / "docs/out").symlink_to("../secret")
    (root / "secret/in").symlink_to("../docs")
    return root


def in_workspace(root: Path, made: Rule, tool_name: str, /, **arguments: Any) -> bool:
    """Whether a rule decides a call of a workspace tool."""
    tool = find(tool_name)
    with workspace_root_scope(root):
        call = Call.of(tool, tool.parameters.canonical(arguments))
        return decide_call([made], call) is not None


@pytest.mark.parametrize(
    ("pattern", "path", "allows", "denies"),
    [
        ("docs/**", "docs/a.md", True, True),
        ("docs/**", "docs/x/y.md", True, True),
        ("docs/**", "docs", False, True),
        ("docs/", "docs/a.md", True, True),
        ("./docs//*.md", "docs/a.md", True, True),
        ("docs/*.md", "docs/x/y.md", False, False),
        ("docs/**", "other/a.md", False, False),
        ("docs/**", "./docs/../docs/a.md", True, True),
        ("docs/**", "/docs/a.md", True, True),
        ("docs/**", "docs\\a.md", True, True),
        ("docs/**", "other/../docs/a.md", True, True),
        ("docs/**", "docs/out/key", False, True),
        ("secret/**", "docs/out/key", False, True),
        ("docs/**", "secret/in/a.md", False, True),
        ("{docs,x}/**", "docs/a.md", False, False),
        ("*.md", "docs/a.md", False, True),
        ("*.md", "top.md", True, True),
        ("**/*.md", "docs/a.md", True, True),
        ("DOCS/**", "docs/a.md", False, True),
        ("a.md", "docs/a.md", False, True),
        ("**", "docs/a.md", True, True),
        ("docs/[ab].md", "docs/a.md", True, True),
    ],
)
def test_a_path_is_judged_as_named_and_where_it_leads(
    root: Path, pattern: str, path: str, allows: bool, denies: bool
) -> None:
    for verdict, wanted in (("allow", allows), ("deny", denies), ("ask", denies)):
        made = rule(verdict, "write_workspace_file", path=pattern)  # type: ignore[arg-type]
        assert in_workspace(root, made, "write_workspace_file", path=path, content="x") is wanted, verdict


def test_a_path_from_the_root_of_the_machine_is_for_one_workspace(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "docs").mkdir(parents=True)
    made = rule("allow", "write_workspace_file", path=f"{root}/docs/**")
    assert in_workspace(root, made, "write_workspace_file", path="docs/a.md", content="x")
    assert in_workspace(root, made, "write_workspace_file", path=f"{root}/docs/a.md", content="x")
    assert not in_workspace(other, made, "write_workspace_file", path="docs/a.md", content="x")


def test_of_several_files_all_must_be_allowed_and_any_can_be_denied(root: Path) -> None:
    def files(*paths: str) -> list[dict[str, str]]:
        return [{"path": path, "content": ""} for path in paths]

    allow = rule("allow", "write_*", path="docs/**")
    deny = rule("deny", "write_*", path="docs/**")
    for paths, allowed, denied in (
        (("docs/a", "docs/b"), True, True),
        (("docs/a", "x"), False, True),
        (("x", "y"), False, False),
    ):
        given = files(*paths)
        assert in_workspace(root, allow, "write_workspace_files", files=given) is allowed, paths
        assert in_workspace(root, deny, "write_workspace_files", files=given) is denied, paths


def test_a_deletion_is_judged_on_the_link_that_goes_and_not_on_what_it_leads_to(root: Path) -> None:
    assert in_workspace(root, rule("allow", "*", path="docs/*"), "delete_workspace_file", path="docs/out")
    denied = rule("deny", "*", path="secret/**")
    assert not in_workspace(root, denied, "delete_workspace_file", path="docs/out")
    assert in_workspace(root, denied, "delete_workspace_file", path="docs/out/key")


def test_a_path_that_leads_out_ends_the_call_whatever_the_rules_say(root: Path) -> None:
    gateway = ToolGateway(rules=[rule("allow", "*", path="**")], approval_mode="strict")
    with workspace_root_scope(root):
        result = gateway.call(find("write_workspace_file"), (), {"path": "../x", "content": ""})
    assert result["error_type"] == "path_outside_workspace"


@pytest.mark.parametrize(
    ("domain", "url", "allows", "denies"),
    [
        ("example.com", "https://example.com/a?b#c", True, True),
        ("example.com", "https://EXAMPLE.com./", True, True),
        ("example.com", "https://example.com:8443/", True, True),
        ("example.com:443", "https://example.com/", True, True),
        ("example.com:443", "https://example.com:8443/", False, False),
        ("example.com", "https://www.example.com/", False, False),
        ("*.example.com", "https://www.example.com/", True, True),
        ("*.example.com", "https://example.com/", False, False),
        ("*.example.com", "https://evilexample.com/", False, False),
        ("example.com", "https://example.com@evil.com/", False, False),
        ("example.com", "https://evil.com/?x=https://example.com", False, False),
        ("example.com", "https://example.com.evil.com/", False, False),
        ("example.com", "https://evil.com\\@example.com/", False, True),
        ("evil.com", "https://evil.com\\@example.com/", False, True),
        ("evil.com", "https://e%76il.com/", False, True),
        ("evil.com", "ht\ntps://evil.com/", True, True),
        ("bücher.example", "https://xn--bcher-kva.example/", True, True),
        ("xn--bcher-kva.example", "https://BÜCHER.example/", True, True),
        ("evil.com", "https://evil.com\u3002/", True, True),
        ("evil.com", "https://evil\uff0ecom/", True, True),
        ("xn--strae-oqa.example", "https://straße.example/", False, True),
        ("strasse.example", "https://straße.example/", False, True),
        ("straße.example", "https://straße.example/", True, True),
        ("straße.example", "https://xn--strae-oqa.example/", True, True),
        ("*.straße.example", "https://a.xn--strae-oqa.example/", True, True),
        ("10.0.0.5", "http://0xa.5:80/", False, True),
        ("10.0.0.5", "http://167772165/", False, True),
        ("10.0.0.5", "http://[::ffff:10.0.0.5]/", False, True),
        ("[::1]", "http://[0:0:0:0:0:0:0:1]/", False, True),
        ("example.com", "example.com", False, True),
        ("example.com", "https://[::1", False, True),
        ("[::1]", "http://[::1]:80/", True, True),
        ("*", "https://anything.example/", True, True),
    ],
)
def test_a_url_is_judged_by_every_host_that_a_program_may_read_in_it(
    domain: str, url: str, allows: bool, denies: bool
) -> None:
    assert domain_fits(domain, url, tightening=False) is allows
    assert domain_fits(domain, url, tightening=True) is denies
    assert covers(rule("deny", "web_fetch", url=domain), "web_fetch", url=url) is denies


@pytest.mark.parametrize(
    ("condition", "value", "matches"),
    [
        ("x", "x", True),
        ("x", "xy", False),
        (1, 1, True),
        (1, 1.0, True),
        (1, True, False),
        (True, True, True),
        (True, 1, False),
        (None, None, True),
        ({"equals": "x"}, "x", True),
        ({"equals": [1, {"a": True}]}, [1, {"a": True}], True),
        ({"equals": [1, {"a": True}]}, [1, {"a": 1}], False),
        ({"glob": "git *"}, "git status", True),
        ({"glob": "git *"}, "hub status", False),
        ({"regex": "git (status|log)"}, "git log", True),
        ({"regex": "git (status|log)"}, "git log; rm", False),
        ({"regex": "a.*z"}, "a\nz", True),
        ({"domain": "*.example.com"}, "https://a.example.com/", True),
        ({"any": ["x", {"regex": "y+"}]}, "yyy", True),
        ({"any": ["x", {"regex": "y+"}]}, "z", False),
    ],
)
def test_a_condition_on_any_other_argument(condition: Any, value: Any, matches: bool) -> None:
    for verdict in ("allow", "deny"):
        assert covers(rule(verdict, "t", a=condition), "t", a=value) is matches  # type: ignore[arg-type]


def test_of_a_list_every_item_must_be_allowed_and_any_can_be_denied() -> None:
    assert not covers(rule("allow", "t", names="pdf"), "t", names=["pdf", "other"])
    assert covers(rule("allow", "t", names="pdf"), "t", names=["pdf"])
    assert not covers(rule("allow", "t", names="pdf"), "t", names=[])
    assert covers(rule("deny", "t", names="pdf"), "t", names=["other", "pdf"])
    assert not covers(rule("deny", "t", names="pdf"), "t", names=["other"])


def test_what_is_too_long_for_a_regular_expression_is_not_allowed_and_is_denied() -> None:
    for verdict, wanted in (("allow", False), ("deny", True)):
        made = rule(verdict, "t", a={"regex": "x*"})  # type: ignore[arg-type]
        assert covers(made, "t", a="x" * 10_001) is wanted
    assert covers(rule("allow", "t", a={"regex": "x*"}), "t", a="x" * 10_000)


def test_an_argument_that_the_tool_does_not_have_never_allows_and_always_denies() -> None:
    assert not covers(rule("allow", "t", pth="x"), "t", path="x")
    assert covers(rule("deny", "t", pth="x"), "t", path="y")
    assert not covers(rule("deny", "*", pth="x"), "t", path="y"), "a pattern is about tools of many shapes"


def test_a_path_of_a_tool_that_declares_nothing_is_judged_as_text() -> None:
    assert covers(rule("deny", "fs_*", path="/etc/**"), "fs_write", path="/etc/x/../passwd")
    assert not covers(rule("allow", "fs_*", path="etc/**"), "fs_write", path="/etc/passwd")
    assert not covers(rule("allow", "fs_*", path="docs/**"), "fs_write", path="docs/../x")
    assert not covers(rule("allow", "fs_*", path="/docs/**"), "fs_write", path="docs/x")


@pytest.mark.parametrize(
    ("name", "condition", "words"),
    [
        ("path", "../x", "no path has .."),
        ("path", "a\\b", "not \\"),
        ("path", "", "1 to 1,000"),
        ("url", "https://example.com/x", "is no domain"),
        ("url", "exa mple.com", "is no domain"),
        ("a", [1], "{any: [...]}"),
        ("a", {}, "exactly one of"),
        ("a", {"glob": "x", "regex": "y"}, "exactly one of"),
        ("a", {"like": "x"}, "none of glob"),
        ("a", {"regex": "("}, "cannot be used"),
        ("a", {"regex": 1}, "a text in quotes"),
        ("a", {"any": []}, "a list of conditions"),
        ("a", {"any": [{"x": 1}]}, "none of glob"),
    ],
)
def test_a_condition_that_is_none_is_refused_with_words(name: str, condition: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_condition(name, condition)
    assert words in str(caught.value)


def test_a_rule_that_has_expired_does_not_hold() -> None:
    made = Rule("deny", "t", expires=100.0)
    assert decide_call([made], Call("t", {}), now=99.9) is made
    assert decide_call([made], Call("t", {}), now=100.0) is None


def test_a_rule_for_one_project_holds_there_alone() -> None:
    made = Rule("allow", "t", project="/p")
    assert made.covers(Call("t", {}, project="/p"))
    assert not made.covers(Call("t", {}, project="/q"))
    assert not made.covers(Call("t", {}))
