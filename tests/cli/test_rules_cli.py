"""`agentengine approvals rules`, `agentengine trust`, and commands that go by them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ksadk.settings import Settings
from ksadk.tools import trust

Command = Callable[..., Any]
RULES = ("approvals", "rules")


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who sits at a terminal."""
    monkeypatch.setattr("agentengine_cli.terminal.at_terminal", lambda: True)


def rules_file() -> Path:
    return Path(Settings.from_env().config_dir_text()) / "rules.yaml"


def user_rules(text: str) -> Path:
    path = rules_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_rules_the_list_says_so(command: Command) -> None:
    done = command(*RULES, "list")
    assert (done.status, done.stdout) == (0, "No rules; every call is judged by its risk.\n")


def test_a_rule_that_tightens_may_be_scripted(command: Command) -> None:
    done = command(*RULES, "add", "deny", "run_*", "--reason", "no shell", "--json")
    assert done.status == 0
    assert done.json["saved"] is True
    assert (done.json["rule"]["file"], done.json["rule"]["line"]) == (str(rules_file()), 3)
    assert command(*RULES, "add", "deny", "run_*", "--json").json["saved"] is False
    refused = command("tools", "call", "run_command", "command=ls")
    assert refused.status == 7
    assert f"{rules_file()}:3" in refused.stderr
    assert "no shell" in refused.stderr


def test_a_rule_that_allows_needs_a_terminal_and_no_tool(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = command(*RULES, "add", "allow", "write_workspace_file")
    assert (done.status, "needs a terminal" in done.stderr) == (6, True)
    monkeypatch.setenv("KSADK_INSIDE_TOOL", "1")
    done = command(*RULES, "add", "allow", "write_workspace_file")
    assert (done.status, "what a tool started" in done.stderr) == (7, True)
    assert not rules_file().exists()


def test_every_option_of_a_rule_is_saved(command: Command, person: None) -> None:
    done = command(
        *RULES, "add", "allow", "edit_workspace_file", "path=docs/**", "replace_all=true",
        "old_text={regex: 'x+'}", "--reason", "why", "--expires", "2031-01-01", "--project", ".",
        "--match", "edit_workspace_file path=docs/a old_text=xx replace_all=true",
        "--not-match", "edit_workspace_file path=src/a old_text=xx replace_all=true",
        "--json",
    )  # fmt: skip
    assert done.status == 0, done.stderr
    rule = done.json["rule"]
    assert rule["where"] == {"path": "docs/**", "replace_all": True, "old_text": {"regex": "x+"}}
    assert (rule["reason"], rule["expires"], rule["state"]) == ("why", "2031-01-01", "holds")
    assert rule["project"] == str(Path.cwd())


def test_a_rule_on_the_words_of_a_command_is_saved_shown_and_removed(command: Command, person: None) -> None:
    saved = command(*RULES, "add", "allow", "run_command", "--argv", "git 'log'", "--json")
    assert saved.json["rule"]["argv"] == {"begins": ["git", "log"]}
    exact = command(*RULES, "add", "allow", "run_command", "--argv", "git push", "--exact", "--json")
    assert exact.json["rule"]["argv"] == {"equals": ["git", "push"]}
    assert (
        command(*RULES, "add", "allow", "run_command", "--argv", "git log", "--json").json["saved"] is False
    )
    assert 'argv begins ["git", "log"]' in command(*RULES, "list").stdout
    told = command(*RULES, "test", "run_command 'command=git log; git push'")
    assert "argv:" in told.stdout
    assert command(*RULES, "test", "run_command 'command=git log; rm x'", "--json").json["decision"] == "none"
    assert command(*RULES, "remove", "1", "--json").json["removed"]["argv"] == {"begins": ["git", "log"]}
    assert command(*RULES, "add", "deny", "run_command", "--argv", "git 'log").status == 2
    assert command(*RULES, "add", "deny", "run_command", "--exact").status == 2


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("maybe", "x"), 2, "'maybe' is not deny, ask or allow"),
        (("deny", "x", "path"), 2, "is not KEY=CONDITION"),
        (("deny", "x", "a={"), 2, "is not YAML"),
        (("deny", "x y"), 2, "the name of a tool"),
        (("deny", "x", "--match", "y"), 2, "its self-test fails: it does not match y"),
        (("deny", "x", "--expires", "soon"), 2, "a date such as"),
        (("deny", "x", "--project", "absent"), 2, "is not a directory"),
    ],
)
def test_a_rule_that_is_none_is_not_saved(
    command: Command, arguments: tuple[str, ...], status: int, words: str
) -> None:
    done = command(*RULES, "add", *arguments)
    assert done.status == status
    assert words in done.stderr
    assert not rules_file().exists()


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [("deny", "holds for every call of it"), ("ask", "holds for every call of it"), ("allow", "never holds")],
)
def test_a_slip_in_an_arguments_name_is_not_saved_and_in_a_file_shown(
    command: Command, person: None, verdict: str, outcome: str
) -> None:
    done = command(*RULES, "add", verdict, "edit_workspace_file", "pth=x")
    assert (done.status, rules_file().exists()) == (2, False)
    assert "edit_workspace_file has no argument 'pth'; did you mean path?" in done.stderr
    user_rules(f"rules:\n  - {verdict}: edit_workspace_file\n    where: {{pth: x}}\n")
    (rule,) = command(*RULES, "list", "--json").json["rules"]
    words = f"edit_workspace_file has no argument pth, so this {outcome}"
    assert (rule["state"], rule["why"]) == ("holds", words)


def test_what_a_call_of_an_agent_is_about_is_known_where_a_rule_is_saved(command: Command) -> None:
    done = command(*RULES, "add", "deny", "a2a_call", "spaces=team")
    assert (done.status, rules_file().exists()) == (2, False)
    assert "a2a_call has no argument 'spaces'; did you mean space?" in done.stderr
    for condition in ("space=team", "agent=x", "url=example.com", "message={regex: x}"):
        assert command(*RULES, "add", "deny", "a2a_call", condition, "--json").json["rule"]["why"] == ""


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("spaces=team", "no built-in tool a2a_* has an argument spaces, so this never holds for one"),
        ("space=team", ""),
        ("message=hi", ""),  # which one of them has
    ],
)
def test_an_argument_that_none_of_several_tools_has_is_warned_of(
    command: Command, condition: str, why: str
) -> None:
    assert command(*RULES, "add", "deny", "a2a_*", condition, "--json").json["rule"]["why"] == why
    assert command(*RULES, "add", "deny", "zzz_*", condition, "--json").json["rule"]["why"] == ""


@pytest.mark.parametrize("verdict", ["deny", "ask", "allow"])
def test_a_name_that_is_no_tools_is_warned_of(command: Command, person: None, verdict: str) -> None:
    words = "no built-in tool has this name; did you mean run_command?"
    done = command(*RULES, "add", verdict, "run_comand")
    assert (done.status, f"warning: {words}" in done.stderr) == (0, True)
    user_rules(rules_file().read_text() + "  - deny: run_comand*\n  - deny: run_command\n")
    listed = command(*RULES, "list", "--json").json["rules"]
    assert [(rule["state"], rule["why"]) for rule in listed] == [
        ("holds", words),
        ("holds", ""),
        ("holds", ""),
    ]
    assert words in command(*RULES, "list").stdout.replace("\n", "")
    found = [finding for finding in command("doctor", "--json").json["checks"] if words in str(finding)]
    assert len(found) == 1
    assert f"{rules_file()}:3" in str(found[0])


def test_a_name_that_is_near_no_tools_is_warned_of_too(command: Command) -> None:
    done = command(*RULES, "add", "deny", "zzz", "--json")
    assert done.json["rule"]["why"].startswith("no built-in tool has this name; ")


def test_a_list_with_one_bad_rule_says_what_holds_instead(command: Command) -> None:
    Path("f.txt").write_text("x\n")
    path = user_rules("rules:\n  - deny: run_command\n  - deny: read_workspace_file\n    wher: {}\n")
    done = command(*RULES, "list", "--json")
    assert done.status == 0
    assert [rule["state"] for rule in done.json["rules"]] == ["holds", "bad"]
    refused = command("workspace", "read", "f.txt", "--root", ".")
    assert refused.status == 7
    assert f"warning: {path}:3: unknown key 'wher'; did you mean where?" in refused.stderr
    assert "until it is mended it denies every call" in refused.stderr
    fine = command("workspace", "list", "--root", ".")
    assert (fine.status, fine.stderr) == (0, "")


def test_a_broken_file_is_told_of_by_every_command_and_listed(command: Command) -> None:
    path = user_rules("rules: [\n")
    for line in (("workspace", "list", "--root", "."), ("approvals", "rules", "add", "deny", "x")):
        done = command(*line)
        assert done.status == 2, line
        assert f"{path}:2: not YAML" in done.stderr
    listed = command(*RULES, "list", "--json")
    assert (listed.status, listed.json["ok"]) == (2, False)
    assert listed.json["broken_files"][0].startswith(f"{path}:2: ")


@pytest.mark.parametrize(
    ("call", "mode", "decision", "line", "outcome"),
    [
        ("edit_workspace_file path=docs/a.md", "strict", "allow", 2, "runs"),
        ("edit_workspace_file path=src/a.py", "strict", "none", 0, "asks"),
        ("edit_workspace_file path=src/a.py", "off", "none", 0, "runs"),
        ("read_workspace_file path=secret/k", "off", "deny", 4, "refused"),
        ("read_workspace_file path=x", "strict", "none", 0, "runs"),
        ("workspace_status", "strict", "ask", 6, "asks"),
        ("workspace_status", "off", "ask", 6, "runs"),
    ],
)
def test_test_says_which_rule_decides_and_what_would_happen(
    command: Command, monkeypatch: pytest.MonkeyPatch,
    call: str, mode: str, decision: str, line: int, outcome: str,
) -> None:  # fmt: skip
    path = user_rules(
        "rules:\n  - allow: edit_workspace_file\n    where: {path: docs/**}\n  - deny: '*'\n"
        "    where: {path: secret/**}\n  - ask: workspace_status\n"
    )
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", mode)
    done = command(*RULES, "test", call, "--root", ".", "--json").json
    assert (done["decision"], done["line"], done["outcome"]) == (decision, line, outcome)
    assert done["file"] == (str(path) if line else "")
    assert done["mode"] == mode


@pytest.mark.parametrize(
    ("call", "decision", "line"),
    [
        ("delete_workspace_file", "none", 0),
        ("write_workspace_files", "none", 0),
        ("list_workspace_files", "none", 0),
        ("write_workspace_file content=x", "none", 0),
        ("write_workspace_file path=secret/k", "deny", 2),
        ("edit_workspace_file", "ask", 4),
    ],
)
def test_test_takes_a_call_whose_arguments_are_left_out(
    command: Command, call: str, decision: str, line: int
) -> None:
    user_rules("rules:\n  - deny: '*'\n    where: {path: secret/**}\n  - ask: edit_*\n")
    done = command(*RULES, "test", call, "--root", ".", "--json")
    assert done.status == 0, done.stderr
    assert (done.json["decision"], done.json["line"]) == (decision, line)


def test_test_says_of_a_path_that_leads_out_that_it_does(command: Command) -> None:
    user_rules("rules:\n  - deny: '*'\n    where: {path: secret/**}\n")
    done = command(*RULES, "test", "write_workspace_file path=../x", "--root", ".")
    assert (done.status != 0, "must stay inside" in done.stderr) == (True, True)


def test_test_shows_the_rule_that_decides(command: Command) -> None:
    written = (
        "- deny: edit_workspace_file\n  where:\n    path: docs/**\n    old_text:\n      regex: s+\n"
        f"  reason: docs stay\n  expires: '2031-01-01'\n  project: {Path.cwd()}\n"
    )
    user_rules(f"rules:\n- deny: x\n{written}")
    call = (*RULES, "test", "edit_workspace_file path=docs/a old_text=s", "--root", ".")
    shown = command(*call, "--json").json["text"]
    assert shown == written
    assert command(*call).stdout.endswith("".join(f"    {line}\n" for line in shown.splitlines()))
    none = command(*RULES, "test", "workspace_status", "--root", ".", "--json")
    assert none.json["text"] == ""


def test_test_shows_the_right_one_of_rules_that_share_a_line(command: Command) -> None:
    user_rules("rules: [{deny: 'w*', where: {path: {regex: a}}}, {deny: 'w*', where: {path: {regex: b}}}]\n")
    done = command(*RULES, "test", "write_workspace_file path=b", "--root", ".", "--json")
    assert "regex: b\n" in done.json["text"]


def test_test_shows_what_could_be_read_of_a_bad_rule(command: Command) -> None:
    user_rules("rules:\n  - deny: workspace_status\n    wher: {}\n")
    done = command(*RULES, "test", "workspace_status", "--root", ".", "--json").json
    assert done["text"] == "- deny: workspace_status\n"
    assert "unknown key 'wher'" in done["reason"]


def test_test_wants_a_call_of_a_tool_that_there_is(command: Command) -> None:
    for call, words in (
        ("", "names its tool"),
        ("nothing", "Unknown AgentEngine toolset or tool: nothing"),
        ("workspace_status x", "is not KEY=VALUE"),
        ("workspace_status x=1", "has no argument 'x'"),
    ):
        done = command(*RULES, "test", call)
        assert done.status == 2, call
        assert words in done.stderr


def test_a_rule_is_removed_by_number_or_place(command: Command) -> None:
    path = user_rules("rules:\n  - allow: a\n  - allow: b\n")
    assert command(*RULES, "remove", f"{path}:3").status == 0
    assert command(*RULES, "remove", "1").status == 0
    assert command(*RULES, "list", "--json").json["rules"] == []
    assert command(*RULES, "remove", "1").status == 1


def test_what_tightens_is_removed_by_a_person_alone(
    command: Command, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    path = user_rules("rules:\n  - deny: a\n")
    assert command(*RULES, "remove", "1").status == 6
    assert "deny: a" in path.read_text()
    request.getfixturevalue("person")
    assert command(*RULES, "remove", "1").status == 0
    assert "deny: a" not in path.read_text()


def test_a_rule_of_the_project_is_not_removed_here(command: Command) -> None:
    Path("agentengine.yaml").write_text("approval: {rules: [{allow: '*'}]}\n")
    [rule] = command(*RULES, "list", "--json").json["rules"]
    assert (rule["source"], rule["state"]) == ("project", "ignored")
    done = command(*RULES, "remove", "1")
    assert (done.status, "belongs to the project" in done.stderr) == (1, True)


def test_a_broken_file_of_the_project_does_not_keep_a_rule_of_the_user(command: Command) -> None:
    path = user_rules("rules:\n  - allow: a\n")
    Path("agentengine.yaml").write_text("approval: [\n")
    assert command(*RULES, "remove", "2").status == 2
    assert command(*RULES, "remove", "1").status == 0
    assert "allow: a" not in path.read_text()


def test_a_broken_file_of_the_user_is_named_whatever_is_to_be_removed(command: Command) -> None:
    path = user_rules("rules: [\n")
    Path("agentengine.yaml").write_text("approval: {rules: [{deny: a}]}\n")
    done = command(*RULES, "remove", "1")
    assert (done.status, f"{path}:2: not YAML" in done.stderr) == (2, True)


def test_a_rule_that_takes_anothers_place_meanwhile_is_not_removed(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = user_rules("rules:\n  - deny: a\n")

    def slow_person() -> bool:
        path.write_text("rules:\n  - deny: b\n")
        return True

    monkeypatch.setattr("agentengine_cli.terminal.at_terminal", slow_person)
    done = command(*RULES, "remove", "1")
    assert (done.status, "has changed or is gone" in done.stderr) == (1, True)
    assert "deny: b" in path.read_text()


def test_trust_needs_a_terminal_and_no_tool(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("agentengine.yaml").write_text("approval: {rules: [{allow: '*'}]}\n")
    assert command("trust").status == 6
    monkeypatch.setenv("KSADK_INSIDE_TOOL", "1")
    assert command("trust").status == 7
    assert trust.trusted() == {}


def test_trust_is_listed_and_revoked(command: Command) -> None:
    assert command("trust", "--list").stdout == "No project is trusted.\n"
    Path("agentengine.yaml").write_text("workspace: .\n")
    trust.trust(".", "agentengine.yaml", trust.digest_of(Path.cwd()))
    [listed] = command("trust", "--list", "--json").json["projects"]
    assert (listed["directory"], listed["state"]) == (str(Path.cwd()), "trusted")
    Path("agentengine.yaml").write_text("workspace: ./\n")
    assert "void" in command("trust", "--list").stdout
    assert command("trust", "--revoke").stdout == f"revoked {Path.cwd()}\n"
    assert command("trust", "--revoke").status == 1
    assert command("trust", "--list", "--revoke").status == 2


def test_a_trusted_project_says_where_commands_work(command: Command) -> None:
    Path("inner").mkdir()
    Path("agentengine.yaml").write_text("workspace: inner\n")
    default = command("workspace", "status", "--json").json["workspace_root"]
    assert default.endswith(".agentengine/ui/workspace")
    trust.trust(".", "agentengine.yaml", trust.digest_of(Path.cwd()))
    assert command("workspace", "status", "--json").json["workspace_root"] == str(Path("inner").resolve())
    assert command("workspace", "status", "--root", ".", "--json").json["workspace_root"] == str(Path.cwd())
    Path("agentengine.yaml").write_text("workspace: inner \n")
    assert command("workspace", "status", "--json").json["workspace_root"] == default
