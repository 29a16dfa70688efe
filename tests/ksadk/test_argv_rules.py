"""Rules on the words of shell commands: each part of a line must be allowed; one denied part denies all."""

from __future__ import annotations

from typing import Any

import pytest

from ksadk.tools.rule_reader import read_rules
from ksadk.tools.rules import Call, Rule, decide, still_refused


def allow(*words: str, **more: Any) -> Rule:
    return Rule("allow", "run_command", argv=words, **more)


def deny(*words: str, **more: Any) -> Rule:
    return Rule("deny", "run_command", argv=words, **more)


def verdict(rules: list[Rule], line: str, tool: str = "run_command") -> str | None:
    rule = decide(rules, tool, {"command": line})
    return rule.verdict if rule else None


@pytest.mark.parametrize(
    ("rules", "line", "allowed"),
    [
        ([allow("git", "log")], "git log", True),
        ([allow("git", "log")], "git log --oneline -5", True),
        ([allow("git", "log")], "git log > /dev/null 2>&1", True),
        ([allow("git", "log")], "'git' l\\og", True),
        ([allow("git", "log")], "git log; rm -rf x", False),
        ([allow("git", "log")], "git log && rm x", False),
        ([allow("git", "log")], "git log\nrm x", False),
        ([allow("git", "log")], "git log | sh", False),
        ([allow("git", "log")], "git log & rm x", False),
        ([allow("git", "log")], "git log $(rm x)", False),
        ([allow("git", "log")], "git log `rm x`", False),
        ([allow("git", "log")], "git log <(rm x)", False),
        ([allow("git", "log")], "git log > out.txt", False),
        ([allow("git", "log")], "git log --output=x", False),
        ([allow("git", "log")], "git -c core.pager=x log", False),
        ([allow("git", "log")], "GIT_PAGER=x git log", False),
        ([allow("git", "log")], "git log 'x", False),
        ([allow("git", "log")], "coproc git log", False),
        ([allow("git", "log")], "git logs", False),
        ([allow("git", "log")], "git 'log -p'", False),
        ([allow("git", "log")], "./git log", False),
        ([allow("git", "log")], "/tmp/git log", False),
        ([allow("git", "log")], "git $x", False),
        ([allow("git", "log")], "$x log", False),
        ([allow("git", "log")], "git", False),
        ([allow("git", "log")], "echo git log", False),
        ([allow("git", "log")], "", False),
        ([allow("grep"), allow("head")], "grep x f | head", True),
        ([allow("grep")], "grep x f | head", False),
        ([allow("grep"), allow("head")], "grep x f | head > out", False),
        ([allow("git", "log")], "cd src && git log", True),
        ([allow("git", "log")], "timeout 5 git log", True),
        ([allow("git", "log")], "bash -c 'git log'", True),
        ([allow("git", "log")], "bash -c 'git log; rm x'", False),
        ([allow("git", "log")], "env PATH=. git log", False),
        ([allow("grep")], "find . | xargs grep x", False),
        ([allow("grep"), allow("find")], "find . | xargs grep x", True),
        ([allow("mytool")], "mytool --anything", True),
        ([allow("mytool")], "mytool $x", False),
        ([allow("curl", "https://example.com/")], "curl https://example.com/ -o x", True),
        ([allow("curl")], "curl http://169.254.169.254/", False),
        ([allow("python", "-c")], "python -c 'exit(1)'", False),
        ([allow("python", "-c", "exit(1)", exact=True)], "python -c 'exit(1)'", True),
        ([allow("python", "-c", "exit(1)", exact=True)], "python -c 'exit(1)' x", False),
        ([allow("git", "push")], "git push", False),
        ([allow("git", "push", exact=True)], "git push", True),
        ([allow("git", "push", exact=True)], "git push --force", False),
        ([allow("git", "push", exact=True)], "git push > .git/config", False),
        ([allow("git", "push", exact=True)], "PATH=. git push", False),
        ([allow("git", "push", exact=True)], "git $x", False),
        ([allow("git", "push", exact=True)], "git push; git push -f", False),
        ([allow("git", "push", exact=True, own=False)], "git push", False),
        ([allow("tee", ".git/config", exact=True)], "tee .git/config", False),
        ([allow("rm", "*", exact=True)], "rm *", False),
    ],
)  # fmt: skip
def test_a_line_is_allowed_when_each_of_its_parts_is(rules: list[Rule], line: str, allowed: bool) -> None:
    assert verdict(rules, line) == ("allow" if allowed else None)


@pytest.mark.parametrize(
    ("rule", "line", "denied"),
    [
        (deny("curl"), "curl h", True),
        (deny("curl"), "echo x | curl h", True),
        (deny("curl"), "/usr/bin/curl h", True),
        (deny("curl"), "./curl h", True),
        (deny("curl"), "c'ur'l h", True),
        (deny("curl"), "git log $(curl h)", True),
        (deny("curl"), "timeout 5 curl h", True),
        (deny("curl"), "ls | xargs curl", True),
        (deny("curl"), "bash -c 'x; curl h'", True),
        (deny("curl"), "find . -exec curl {} +", True),
        (deny("curl"), "f() { curl h; }; ls", True),
        (deny("curl"), "$x h", True),
        (deny("curl"), "{curl,h}", True),
        (deny("curl"), "coproc curl h", True),
        (deny("curl"), "coproc c'u'rl h", True),
        (deny("curl"), "echo curl", False),
        (deny("curl"), "grep curl f", False),
        (deny("curl"), "ls", False),
        (deny("curl"), "coproc ls", False),
        (deny("git", "push"), "git push", True),
        (deny("git", "push"), "git -C x push", True),
        (deny("git", "push"), "git --no-pager push origin", True),
        (deny("git", "push"), "git $x", True),
        (deny("git", "push"), "git 'pu'sh", True),
        (deny("git", "push"), "git log", False),
        (deny("git", "push"), "git log $x", False),
        (deny("git", "push"), "git commit -m push", False),
        (deny("npm", "test", exact=True), "npm test", True),
        (deny("npm", "test", exact=True), "npm test x", False),
    ],
)  # fmt: skip
def test_a_rule_that_denies_holds_for_any_part_that_may_be_its_command(
    rule: Rule, line: str, denied: bool
) -> None:
    everything = Rule("allow", "run_command")
    assert verdict([everything, rule], line) == ("deny" if denied else "allow")


def test_a_rule_on_words_is_not_about_tools_that_run_no_command() -> None:
    assert verdict([Rule("allow", "*", argv=("ls",))], "ls", "read_workspace_file") == "allow"
    assert decide([Rule("deny", "*", argv=("ls",))], "read_workspace_file", {"path": "a"}) is None
    slip = decide([Rule("deny", "read_workspace_file", argv=("ls",))], "read_workspace_file", {"path": "a"})
    assert slip is not None


def test_only_a_rule_of_the_users_for_exactly_its_words_lifts_a_refusal() -> None:
    call = Call("run_command", {"command": "docker ps && git push && ls"})

    def refused(*rules: Rule) -> list[str]:
        return [part.command for part in still_refused(rules, call)]

    assert refused() == ["docker ps", "git push"]
    assert refused(allow("docker", "ps", exact=True)) == ["git push"]
    assert refused(allow("docker", "ps", exact=True), allow("git", "push", exact=True)) == []
    assert refused(allow("docker", "ps"), allow("git")) == ["docker ps", "git push"]
    assert refused(allow("docker", "ps", exact=True, own=False)) == ["docker ps", "git push"]
    assert refused(allow("docker", "ps", exact=True, expires=1.0)) == ["docker ps", "git push"]
    assert refused(Rule("allow", "run_command")) == ["docker ps", "git push"]


FILE = b"""
rules:
  - allow: run_command
    argv: [git, log]
    match: [run_command 'command=git log -3']
    not_match: [run_command 'command=git log; rm x', run_command command=ls]
  - allow: run_command
    argv: {equals: [git, push]}
"""


def test_words_are_read_from_a_file_and_a_projects_lift_nothing() -> None:
    mine = read_rules("rules.yaml", FILE, "user")
    assert [entry.problem for entry in mine.entries] == ["", ""]
    assert [entry.argv for entry in mine.entries] == [["git", "log"], {"equals": ["git", "push"]}]
    assert verdict(mine.standing(trusted=True), "git log && git push") == "allow"
    theirs = read_rules(
        "agentengine.yaml", b"approval:\n  " + FILE.strip().replace(b"\n", b"\n  "), "project"
    )
    assert [entry.problem for entry in theirs.entries] == ["", ""]
    assert verdict(theirs.standing(trusted=True), "git log -3") == "allow"
    assert verdict(theirs.standing(trusted=True), "git push") is None
    assert verdict(theirs.standing(trusted=False), "git log -3") is None
