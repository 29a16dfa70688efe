"""Files of rules: read with lines and faults, judged by the gateway as they are now, edited in place."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from recorder import Asked, Recorder, refused
from support import unprivileged

from ksadk.errors import KsadkError
from ksadk.runtime_context import workspace_root_scope
from ksadk.settings import Settings
from ksadk.tools import rule_files, trust
from ksadk.tools.approvals import ApprovalRequest, Decision
from ksadk.tools.rule_edits import add_rule, remove_rule, rule_text
from ksadk.tools.rule_reader import Entry, InvalidRules, RuleFile, read_rules
from ksadk.toolsets.selection import load_builtin_tools

HOSTILE = "approval: {rules: [&a {deny: x, where: {p: *a}}]}\n"


def rules_file() -> Path:
    return Path(Settings.from_env().config_dir_text()) / "rules.yaml"


def user_rules(text: str) -> Path:
    path = rules_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def entries(text: str) -> tuple[Entry, ...]:
    return read_rules("rules.yaml", text.encode(), "user").entries


def entries_now() -> tuple[Entry, ...]:
    """The rules of the user's file, which are read as they are now."""
    return read_rules(str(rules_file()), rules_file().read_bytes(), "user").entries


def one(text: str) -> Entry:
    [entry] = entries("rules:\n  - " + text + "\n")
    return entry


def test_a_rule_is_read_with_its_line_and_all_that_it_says() -> None:
    [first, second] = entries(
        "# about shells\nrules:\n  - deny: run_*\n    reason: no shell\n\n  - allow: edit_workspace_file\n"
        "    where: {path: docs/**, replace_all: false}\n    expires: 2030-01-31\n    project: /p\n"
    )
    assert (first.line, first.verdict, first.tool, first.reason) == (3, "deny", "run_*", "no shell")
    assert (second.line, second.where) == (6, {"path": "docs/**", "replace_all": False})
    assert second.expires == "2030-01-31"
    assert second.rule is not None
    assert (second.rule.place, second.rule.project) == ("rules.yaml:6", "/p")
    midnight = time.mktime((2030, 2, 1, 0, 0, 0, 0, 0, -1))
    assert second.rule.expires == midnight, "a date counts to its end"
    assert second.state(midnight - 1, trusted=True) == "holds"
    assert second.state(midnight, trusted=True) == "expired"


@pytest.mark.parametrize("text", ["", "# nothing\n", "rules:\n", "rules: []\n", "---\n"])
def test_a_file_without_rules_has_none(text: str) -> None:
    assert entries(text) == ()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("rules: [\n", 2, "not YAML"),
        ("rules:\n  - a: b: c\n", 2, "not YAML"),
        ("rules:\n\t- deny: x\n", 2, "not YAML"),
        ("- deny: x\n", 1, "begins with rules:"),
        ("rule:\n  - deny: x\n", 1, "unknown key 'rule'"),
        ("\nrules:\n  deny: x\n", 3, "must be a list"),
        ("rules: []\nrules: []\n", 2, "given twice"),
        ("rules: \x07\n", 1, "control character"),
    ],
)
def test_a_file_that_is_no_list_of_rules_names_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(InvalidRules) as caught:
        entries(text)
    assert caught.value.message.startswith(f"rules.yaml:{line}: ")
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("text", "words", "instead"),
    [
        ("deny: run_command\n    wher: {a: 1}", "did you mean where?", ("deny", "run_command")),
        ("deny: run_command\n    where: [a]", "where has", ("deny", "run_command")),
        ("deny: run_command\n    where: {path: ../x}", "no path has ..", ("deny", "run_command")),
        ("deny: run_command\n    where: {a: {regex: '('}}", "cannot be used", ("deny", "run_command")),
        ("deny: run_command\n    argv: git", "argv is the words", ("deny", "run_command")),
        ("deny: run_command\n    argv: []", "argv is the words", ("deny", "run_command")),
        ("deny: run_command\n    argv: [1]", "argv is the words", ("deny", "run_command")),
        ("deny: run_command\n    argv: {begins: [a]}", "argv is the words", ("deny", "run_command")),
        ("deny: run_command\n    reason: 1", "reason must be text", ("deny", "run_command")),
        ("deny: run_command\n    expires: soon", "a date such as", ("deny", "run_command")),
        ("deny: x\n    expires: 2030-01-01T00:00:00", "without a time zone", ("deny", "x")),
        ("deny: x\n    project: here", "beginning with /", ("deny", "x")),
        ('deny: x\n    project: "/a\\0"', "null", ("deny", "x")),
        ("deny: x\n    match: y", "match is a list", ("deny", "x")),
        ("deny: x\n    match: [y]", "does not match y", ("deny", "x")),
        ("deny: x\n    not_match: [x a=1]", "it matches x a=1", ("deny", "x")),
        ('deny: x\n    match: ["x \'a"]', "is no call", ("deny", "x")),
        ("deny: x\n    match: [{tool: x, args: 1}]", "has tool and arguments", ("deny", "x")),
        ("deny: x\n    reason: a\n    reason: b", "given twice", ("deny", "x")),
        ("deny: x\n    allow: y", "both deny and allow", ("deny", "x")),
        ("deny: [x]", "the name of a tool", ("deny", "*")),
        ("deny: 'x y'", "the name of a tool", ("deny", "*")),
        ("deny:", "the name of a tool", ("deny", "*")),
        ("dney: x", "did you mean deny?", ("deny", "x")),
        ("deny x", "keys and values", ("deny", "x")),
        ("deny", "keys and values", ("deny", "*")),
        ("ask: x\n    wher: {}", "did you mean where?", ("ask", "x")),
        ("allow: x\n    wher: {}", "did you mean where?", None),
        ("allow: x\n    match: [y]", "does not match y", None),
        ("tool: x", "none of deny, ask and allow", None),
        ("[]", "keys and values", None),
        ("deny: !!set x", "no type of a value", ("deny", "*")),
    ],
)
def test_a_bad_rule_is_told_of_and_what_should_tighten_does(
    text: str, words: str, instead: tuple[str, str] | None
) -> None:
    before, bad, after = entries(f"rules:\n  - allow: a\n  - {text}\n  - allow: z\n")
    assert (before.problem, after.problem) == ("", ""), "it disables only itself"
    assert words in bad.problem
    assert bad.line == 3
    assert bad.state(0, trusted=True) == "bad"
    found = (bad.rule.verdict, bad.rule.tool) if bad.rule else None
    assert found == instead
    if bad.rule:
        assert not bad.rule.where
        assert bad.problem in bad.rule.reason


@pytest.mark.parametrize(
    "tests",
    [
        "match: [edit path=docs/a.md, \"edit path='docs/b c.md' count=1\"]",
        "match: [{tool: edit, arguments: {path: docs/a.md}}]",
        "not_match: [edit path=src/a.py, write path=docs/a.md, edit]",
    ],
)
def test_self_tests_that_hold_leave_the_rule_as_it_is(tests: str) -> None:
    assert one(f"allow: edit\n    where: {{path: docs/**}}\n    {tests}").problem == ""


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("deny: write_*\n    where: {path: docs/**}\n    match: [{CALL}]", ""),
        ("allow: write_*\n    where: {path: docs/**}\n    match: [{CALL}]", ""),
        ("deny: write_*\n    where: {path: docs/**}\n    not_match: [{CALL}]", "it matches"),
        ("deny: write_*\n    where: {path: src/**}\n    not_match: [{CALL}]", ""),
        ("deny: write_*\n    where: {path: src/**}\n    match: [{CALL}]", "it does not match"),
        ("deny: write_*\n    where: {path: /p/docs/**}\n    project: /p\n    match: [{CALL}]", ""),
        ("deny: write_*\n    where: {path: /p/docs/**}\n    not_match: [{CALL}]", ""),
        ("deny: read_*\n    where: {path: docs/**}\n    match: [read_workspace_file path=/docs/a]", ""),
        ("deny: read_*\n    where: {path: /p/**}\n    match: [read_workspace_file path=/p/a]", ""),
        ("deny: read_*\n    where: {path: docs/**}\n    not_match: [read_workspace_file path=../a]", ""),
        ("deny: read_*\n    where: {path: docs/**}\n    not_match: [read_workspace_file]", ""),
    ],
)
def test_a_self_test_is_about_the_files_that_the_tool_finds_in_a_call(rule: str, problem: str) -> None:
    load_builtin_tools()
    call = "{tool: write_workspace_files, arguments: {files: [{path: docs/a, content: x}]}}"
    found = one(rule.replace("{CALL}", call)).problem
    assert (problem in found) if problem else found == ""


def test_a_self_test_is_made_again_when_its_tool_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    load_builtin_tools()
    call = "{tool: write_workspace_files, arguments: {files: [{path: docs/a, content: x}]}}"
    user_rules(f"rules:\n  - deny: write_*\n    where: {{path: docs/**}}\n    match: [{call}]\n")
    monkeypatch.setattr(rule_files, "YOUNG_SECONDS", 0)
    with monkeypatch.context() as before:
        before.setattr("ksadk.tools.registry._builtin", {})
        assert _only_file().entries[0].problem
    assert _only_file().entries[0].problem == ""


def test_a_self_test_is_not_about_the_links_of_a_workspace() -> None:
    load_builtin_tools()
    Path("src").symlink_to("docs")
    rule = "deny: read_*\n    where: {path: docs/**}\n    not_match: [read_workspace_file path=src/a]"
    with workspace_root_scope(Path.cwd()):
        assert one(rule).problem == ""


def test_a_self_test_reads_a_value_as_text_or_as_json() -> None:
    for value in ("'1'", "1", "{equals: 1}", "{regex: '[0-9]'}"):
        assert one(f"deny: t\n    where: {{n: {value}}}\n    match: [t n=1]").problem == "", value


@pytest.mark.parametrize("text", [HOSTILE, "approval: {rules: [" + "[" * 500 + "]" * 500 + "]}\n"])
def test_hostile_yaml_is_one_bad_rule_or_a_file_that_cannot_be_read(text: str) -> None:
    try:
        [bad] = read_rules("agentengine.yaml", text.encode(), "project").entries
        assert bad.problem
    except InvalidRules as error:
        assert "agentengine.yaml:" in error.message


def test_aliases_do_not_multiply_without_end() -> None:
    lines = ["rules:", "  - deny: x", "    where:", "      a0: &a0 {equals: [1, 1]}"]
    lines += [f"      a{n}: &a{n} {{equals: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40)]
    begun = time.perf_counter()
    [bad] = entries("\n".join(lines) + "\n")
    assert "more than 50,000 values" in bad.problem
    assert time.perf_counter() - begun < 5


def test_the_gateway_goes_by_the_users_file_as_it_is_now(risky: Recorder) -> None:
    def outcome(mode: str = "strict") -> str:
        result = risky.call(risky.gateway(mode))
        return str(result.get("type", "ran"))

    assert outcome() == "approval_required"
    path = user_rules("rules:\n  - allow: risky\n    where: {path: a}\n")
    assert outcome() == "ran"
    user_rules("rules:\n  - ask: risky\n  - allow: risky\n")
    assert outcome() == "approval_required"
    assert outcome("off") == "ran", "ask matters where somebody is asked"
    user_rules("rules:\n  - deny: risky\n    reason: not now\n")
    assert outcome("off") == "denied_by_rule"
    result = risky.call()
    assert refused(result, "denied_by_rule", "denied_by_rule")
    assert f"{path}:2" in result["error_message"]
    assert result["reason"] == "not now"
    path.unlink()
    assert outcome() == "approval_required"


def test_a_rule_that_denies_while_the_question_waits_is_applied_before_the_call_runs(risky: Recorder) -> None:
    def ask(request: ApprovalRequest, note: str = "") -> Decision:
        user_rules("rules:\n  - deny: risky\n    reason: since then\n")
        return Decision("approve", by="a person")

    result = risky.call(risky.gateway(ask=ask))
    assert refused(result, "denied_by_rule", "denied_by_rule")
    assert not risky.ran_it


def test_rules_handed_in_are_exactly_those(risky: Recorder) -> None:
    user_rules("rules:\n  - deny: '*'\n")
    assert risky.call(risky.gateway("off", rules=[]))["ok"] is True


@pytest.mark.parametrize("make", ["broken", "directory", "loop", "dangling", "through a file", "large"])
def test_a_file_that_cannot_be_read_stops_every_call_with_its_name(make: str, risky: Recorder) -> None:
    path = user_rules("rules: [\n" if make == "broken" else "rules: []\n")
    if make == "directory":
        path.unlink()
        path.mkdir()
    elif make == "loop":
        path.unlink()
        path.symlink_to(path)
    elif make == "dangling":
        path.unlink()
        path.symlink_to("absent.yaml")
    elif make == "through a file":
        path.unlink()
        path.symlink_to("/dev/null/rules.yaml")
    elif make == "large":
        path.write_text("# " + "x" * 2**20)
    result = risky.call(risky.gateway("off"))
    assert result["error_type"] == "invalid_rules"
    assert str(path) in result["error_message"]
    assert not risky.ran_it


def test_a_file_that_may_not_be_read_stops_every_call_with_its_name() -> None:
    path = user_rules("rules: []\n")
    path.chmod(0)
    program = [sys.executable, "-m", "agentengine_cli", "workspace", "status", "--json"]
    ran = subprocess.run([*unprivileged(), *program], capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0
    result = json.loads(ran.stdout)
    assert result.get("error_type", result.get("error", {}).get("code")) == "invalid_rules"
    assert str(path) in ran.stdout


def test_a_file_that_is_written_over_in_place_is_read_again(risky: Recorder) -> None:
    path = user_rules("rules:\n  - deny: risky\n")
    os.utime(path, ns=(10**18, 10**18))
    assert risky.call(risky.gateway("off"))["type"] == "denied_by_rule"
    path.write_text("rules:\n  - deny: riskz\n")
    os.utime(path, ns=(10**18, 10**18))
    assert risky.call(risky.gateway("off"))["ok"] is True


@pytest.mark.parametrize(
    "written", ["{here}/", "{here}/.", "{here}/../{name}", "/{here}", "{link}", "{link}/"]
)
def test_the_project_of_a_rule_may_be_written_in_any_way(written: str, risky: Recorder) -> None:
    here = Path.cwd()
    link = here.parent / f"{here.name}-link"
    link.symlink_to(here)
    project = written.format(here=here, name=here.name, link=link)
    user_rules(f"rules:\n  - deny: risky\n    project: {project}\n")
    assert risky.call(risky.gateway("off"))["type"] == "denied_by_rule"


def test_a_project_tightens_and_allows_only_where_it_is_trusted(risky: Recorder) -> None:
    config = Path("agentengine.yaml")
    config.write_text("name: x\napproval:\n  rules:\n    - allow: '*'\n")
    assert risky.call()["type"] == "approval_required"
    trust.trust(".", config.name, _only_file().digest)
    assert risky.call()["ok"] is True
    config.write_text(config.read_text() + "#")
    assert risky.call()["type"] == "approval_required", "one byte more is another file"
    config.write_text("approval: {rules: [{deny: risky}]}\n")
    assert risky.call(risky.gateway("off"))["type"] == "denied_by_rule"


def test_an_allow_rule_of_the_user_does_not_lift_what_a_project_asks_about(risky: Recorder) -> None:
    user_rules("rules:\n  - allow: risky\n")
    Path("agentengine.yaml").write_text("approval: {rules: [{ask: risky}]}\n")
    assert risky.call()["type"] == "approval_required"


def test_a_project_whose_file_speaks_of_no_rules_is_not_even_read(risky: Recorder) -> None:
    Path("agentengine.yaml").write_text("name: [\n")
    assert risky.call(risky.gateway("off"))["ok"] is True
    Path("agentengine.yaml").write_text("approval: [\n")
    assert risky.call(risky.gateway("off"))["error_type"] == "invalid_rules"


def test_trust_that_cannot_be_read_is_none(risky: Recorder) -> None:
    Path("agentengine.yaml").write_text("approval: {rules: [{allow: risky}]}\n")
    trust.trust(".", "agentengine.yaml", _only_file().digest)
    assert risky.call()["ok"] is True
    (Settings.from_env().state_dir() / "trust.json").write_text("{")
    assert risky.call()["type"] == "approval_required"


def test_with_no_file_nothing_is_imported_to_judge() -> None:
    code = (
        "import sys; from ksadk.tools.rule_files import standing_rules; standing_rules();"
        "print([m for m in sys.modules if m.startswith(('ruamel', 'ksadk.tools.rule_', 'json', 're'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'ksadk.tools.rule_files'" in done.stdout
    assert "ruamel" not in done.stdout
    assert "rule_reader" not in done.stdout


def test_a_rule_is_saved_behind_the_others_and_comments_stay() -> None:
    path = user_rules("# mine\nrules:\n- deny: a   # never\n\n# last\n- ask: 'b'\n")
    entry, new = add_rule({"allow": "c", "where": {"path": "x/**"}, "reason": "quick"})
    assert new
    assert path.read_text() == (
        "# mine\nrules:\n- deny: a   # never\n\n# last\n- ask: 'b'\n"
        "- allow: c\n  where:\n    path: x/**\n  reason: quick\n"
    )
    assert entry.line == 7
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert add_rule({"allow": "c", "where": {"path": "x/**"}}) == (entry, False), "it is there already"


def test_a_first_rule_makes_the_file_and_its_directory_for_the_user_alone() -> None:
    add_rule({"deny": "x"})
    assert rules_file().read_text().endswith("rules:\n  - deny: x\n")
    assert stat.S_IMODE(rules_file().parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "written",
    [
        {"allow": "x", "where": {"path": "../y"}},
        {"allow": "x", "match": ["y"]},
        {"allow": "x", "expires": "never"},
        {"allow": "x y"},
    ],
)
def test_a_rule_that_would_be_bad_is_not_saved(written: dict[str, Any]) -> None:
    path = user_rules("rules:\n  - deny: a\n")
    with pytest.raises(InvalidRules, match="not saved"):
        add_rule(written)
    assert path.read_text() == "rules:\n  - deny: a\n"


@pytest.mark.parametrize(
    "value",
    [
        "true",
        "1",
        "null",
        "2030-01-01",
        "a: b",
        "# x",
        "- x",
        "*a",
        "&a",
        "",
        " x ",
        "a\nb\n",
        "\x1b[1m\u202e",
    ],
)
def test_a_text_is_saved_as_that_text(value: str) -> None:
    entry, _ = add_rule({"allow": "x", "where": {"a": value}})
    assert entry.where == {"a": value}
    [again] = entries("rules:\n" + rule_text({"allow": "x", "where": {"a": value}}))
    assert again.where == {"a": value}


def test_a_file_that_is_a_link_stays_one(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    real.write_text("rules:\n  - deny: a\n")
    rules_file().parent.mkdir(parents=True)
    rules_file().symlink_to(real)
    add_rule({"deny": "b"})
    assert rules_file().is_symlink()
    assert "deny: b" in real.read_text()


def test_a_fifo_for_a_file_is_an_error_and_nobody_waits_for_it() -> None:
    rules_file().parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(rules_file())
    with pytest.raises(InvalidRules, match=r"rules\.yaml: cannot be read: it is no file"):
        rule_files.read_bytes(str(rules_file()))
    with pytest.raises(InvalidRules, match=r"rules\.yaml: cannot be read: it is no file"):
        add_rule({"deny": "x"})


def test_only_the_lines_of_a_rule_go_with_it() -> None:
    path = user_rules(
        "rules:\n  # one\n  - deny: a\n    reason: |\n      long\n      words\n\n"
        "  # two\n  - ask: b\n  # end\n"
    )
    remove_rule(entries_now()[0])
    assert path.read_text() == "rules:\n  # one\n\n  # two\n  - ask: b\n  # end\n"
    remove_rule(entries_now()[0])
    assert entries(path.read_text()) == ()
    add_rule({"deny": "c"})
    assert [entry.tool for entry in entries(path.read_text())] == ["c"]


def test_a_rule_in_a_flow_list_is_removed_too() -> None:
    path = user_rules("rules: [{deny: a}, {ask: b}]\n")
    first, second = entries_now()
    remove_rule(second)
    assert [entry.tool for entry in entries(path.read_text())] == ["a"]
    remove_rule(first)
    assert entries_now() == ()


@pytest.mark.parametrize(
    "now",
    [
        "rules: []\n",
        "rules:\n  - deny: b\n    where: {path: x}\n",
        "rules:\n  - ask: a\n    where: {path: x}\n",
        "rules:\n  - deny: a\n    where: {path: y}\n",
        "rules:\n  - deny: a\n    where: {path: x}\n    reason: why\n",
        "rules:\n  - deny: b\n  - deny: a\n    where: {path: x}\n",
    ],
)
def test_a_rule_that_has_changed_since_it_was_shown_is_not_removed(now: str) -> None:
    path = user_rules("rules:\n  - deny: a\n    where: {path: x}\n")
    [shown] = entries_now()
    path.write_text(now)
    with pytest.raises(KsadkError) as caught:
        remove_rule(shown)
    assert (caught.value.code, path.read_text()) == ("unknown_rule", now)


def test_rules_saved_by_several_processes_at_once_are_all_kept() -> None:
    code = "import sys; from ksadk.tools.rule_edits import add_rule; add_rule({'deny': sys.argv[1]})"
    running = [subprocess.Popen([sys.executable, "-c", code, f"tool{n}"]) for n in range(6)]
    assert [process.wait(60) for process in running] == [0] * 6
    assert {entry.tool for entry in entries(rules_file().read_text())} == {f"tool{n}" for n in range(6)}


def test_a_configuration_that_cannot_be_written_is_an_error_with_its_name() -> None:
    rules_file().parent.parent.mkdir(parents=True)
    rules_file().parent.write_text("a file\n")
    with pytest.raises(KsadkError, match=r"rules\.yaml cannot be written"):
        add_rule({"deny": "x"})


def test_asked_for_a_rule_by_the_gateway_a_person_is_asked(risky: Recorder) -> None:
    user_rules("rules:\n  - ask: risky\n")
    answers = Asked(Decision("deny", by="a person", reason="no"))
    assert risky.call(risky.gateway("strict", ask=answers))["reason"] == "no"
    assert len(answers.requests) == 1


def _only_file() -> RuleFile:
    [(file, _)] = rule_files.rule_files()
    assert isinstance(file, RuleFile)
    return file
