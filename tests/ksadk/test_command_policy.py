"""What the command policy says of lines: a table of everyday ones, and every way known to fool a policy."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from command_lines import lines_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ksadk.tools.command_policy import MAX_LINE, judge_command
from ksadk.tools.gateway import check_command_policy

ALLOWED, ASKED, REFUSED = map(lines_of, ("allowed", "asked", "refused"))


@pytest.mark.parametrize(
    ("lines", "decision"),
    [(ALLOWED, "allow"), (ASKED, "ask"), (REFUSED, "reject")],
    ids=["allowed", "asked about", "refused"],
)
def test_every_line_of_the_table_has_its_verdict(lines: list[str], decision: str) -> None:
    said = {line: check_command_policy(line) for line in lines}
    assert {line: result for line, result in said.items() if result["decision"] != decision} == {}


def test_the_table_of_everyday_lines_is_long_and_has_no_line_twice() -> None:
    assert len(set(ALLOWED)) == len(ALLOWED) > 300
    assert not {*ALLOWED} & {*ASKED, *REFUSED}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("git log -3", {"ok": True, "decision": "allow", "reason": "read_only_git"}),
        ("git branch -a", {"ok": True, "decision": "allow", "reason": "read_only_git"}),
        ("git diff 2>&1", {"ok": True, "decision": "allow", "reason": "default_allow"}),
        ("git status; git diff", {"ok": True, "decision": "allow", "reason": "default_allow"}),
        ("git diff > out.txt", {"ok": True, "decision": "allow", "reason": "default_allow"}),
        ("git -C sub log", {"ok": True, "decision": "allow", "reason": "default_allow"}),
        ("git branch new", {"ok": True, "decision": "allow", "reason": "default_allow"}),
        ("git commit -m x", {"ok": True, "decision": "allow", "reason": "default_allow"}),
        ("ls", {"ok": True, "decision": "allow", "reason": "default_allow"}),
        ("coproc ls", {"ok": False, "decision": "ask", "error_type": "not_proven"}),
        ("curl https://example.com", {"ok": False, "decision": "ask", "error_type": "not_proven"}),
        ("sudo id", {"ok": False, "decision": "reject", "error_type": "command_rejected"}),
        ("echo 'x", {"ok": False, "decision": "reject", "error_type": "invalid_command"}),
        ('echo "x', {"ok": False, "decision": "reject", "error_type": "invalid_command"}),
        ("", {"ok": False, "decision": "reject", "error_type": "command_required"}),
        (" \n", {"ok": False, "decision": "reject", "error_type": "command_required"}),
    ],
)
def test_the_result_has_the_documented_keys(line: str, wanted: dict[str, Any]) -> None:
    result = check_command_policy(line)
    assert result | wanted == result
    assert bool(result.get("error_message")) is not result["ok"]
    assert isinstance(result["parts"], list)
    assert result["reasons"] or result["ok"]


def test_each_part_says_what_it_does_those_that_others_start_too() -> None:
    line = "cd src && timeout 5 grep -r x . | xargs cat > found.txt; bash -c 'git status; rm -rf y'"
    parts = check_command_policy(line)["parts"]
    assert [(part["command"], part["decision"], part["reason"]) for part in parts] == [
        ("cd src", "allow", "harmless"),
        ("timeout 5 grep -r x .", "allow", "wrapper"),
        ("grep -r x .", "allow", "read_only"),
        ("xargs cat > found.txt", "allow", "workspace_change"),
        ("cat ...", "allow", "read_only"),
        ("bash -c 'git status; rm -rf y'", "allow", "wrapper"),
        ("git status", "allow", "read_only_git"),
        ("rm -rf y", "reject", "recursive_delete"),
    ]
    assert all(part["does"] for part in parts)


def test_a_line_that_cannot_be_read_is_still_refused_for_what_can_be_made_out() -> None:
    judged = judge_command("coproc x; sudo id")
    assert (judged.decision, judged.proven) == ("reject", False)
    assert judge_command("coproc x; echo sudo").decision == "ask"


@pytest.mark.parametrize(
    "line", ["ls\r", "ls \x01", "ls \x7f", "ls \ud800", "ls \0", "\x1b[1mls", "ls \x0b-la", "ls\x0c"]
)
def test_a_control_character_is_asked_about(line: str) -> None:
    assert check_command_policy(line)["decision"] == "ask"


def test_a_longer_line_than_is_judged_is_asked_about() -> None:
    assert check_command_policy("ls " + "a" * (MAX_LINE - 3))["decision"] == "allow"
    assert check_command_policy("ls " + "a" * (MAX_LINE - 2))["decision"] == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "(" * 5_000 + "ls" + ")" * 5_000,
        "echo " + "$(echo " * 3_000 + ")" * 3_000,
        "echo " + '"$(' * 3_000,
        "if " * 5_000,
        "{ " * 5_000,
        "eval " * 4_000 + "ls",
        "env " * 4_000 + "ls",
        "bash -c " + "'" * 9_999,
        "[[ " + "( " * 5_000,
        "sed 's/" + "a\\" * 5_000 + "/b/' f",
        "awk '" + "|" * 10_000 + "'",
        "<<A" * 3_000,
    ],
    ids=lambda line: line[:12],
)
def test_hostile_nesting_ends_in_a_verdict(line: str) -> None:
    assert check_command_policy(line)["decision"] in ("ask", "reject")


DANGEROUS = [
    "rm -rf x", "rm x", "sudo id", "docker ps", "kubectl get pods", "git push", "git reset --hard",
    "git clean -f", "git checkout .", "git branch -D main", "git -c core.pager=x log",
    "git log --output=x", "find . -delete", "find . -exec rm {} +", "mkfs.ext4 x", "dd if=a of=b",
    "curl http://169.254.169.254/", "curl http://x", "wget http://0xA9FEA9FE/", "nc x 1",
    "echo x > ../out", "echo x > /etc/passwd", "echo x > .git/config", "cat < /dev/tcp/x/1",
    "sort -o /etc/x f", "sort --compress-program=x f", "tar xf a", "sed -i s/a/b/ /etc/x",
    "sed '1e id' f", 'awk \'BEGIN{system("id")}\'', "python -c 'x()'", "perl -e x", "node -e x", "sh",
    "bash -s", "ssh x ls", "./x", "/tmp/x", "$x", "eval $x", "source x", "unknown-program",
    "chmod 4755 x", "chown root x", "pip install x", "npx x", "make SHELL=x", "kill 1", "env -S x",
    "PATH=. ls", "LD_PRELOAD=x ls", "xargs rm", "ln -s / x", "mv a ../b", "git grep -Ox y",
    "rg --pre=x y", "cat ~/.ssh/id_rsa", "coproc ls", "let x=1",
]  # fmt: skip
SAFE = [
    "ls",
    "git status",
    "echo hi",
    "cat a | head",
    "grep -r x .",
    "true",
    "x=1",
    "pytest -q",
    "echo 'rm -rf'",
]
AROUND = [
    "{}", "{}", "({})", "{{ {}; }}", "! {}", "if {}; then ls; fi", "if ls; then {}; fi",
    "while {}; do ls; done", "for i in a b; do {}; done", "case a in a) {} ;; esac", "f() {{ {}; }}; f",
    "echo $({})", 'echo "$({})"', "cat <({})", "x=$({})", "{} | cat", "ls | {}", "{} &", "{} 2>&1",
    "ls; {}", "ls && {}", "ls || {}", "ls\n{}", "# x\n{}", "{} # x", "ls \\\n && {}",
    "cat <<A\nx\nA\n{}", "cat <<'A' | {}\nx\nA", "until {}; do break; done",
]  # fmt: skip
BEFORE = [
    "timeout 5 ", "nice ", "nohup ", "env A=1 ", "time ", "stdbuf -oL ", "setsid ", "command ", "exec ",
    "xargs ", "ls | xargs -n 1 ", "env ", "nice -n 5 timeout -k 1 2 ",
]  # fmt: skip


@st.composite
def dangerous_lines(draw: st.DrawFn) -> str:
    """A dangerous command, wrapped, quoted and put among safe ones."""
    line = draw(st.sampled_from(DANGEROUS))
    if line[0].isalpha() and "=" not in line.split()[0] and not line.startswith(("coproc", "let")):
        name, _, rest = line.partition(" ")
        name = draw(
            st.sampled_from(
                [name, f"'{name}'", f'"{name}"', f"\\{name}", f"$'{name}'", f"{name[0]}''{name[1:]}"]
            )
        )
        line = f"{draw(st.sampled_from(['', '', *BEFORE]))}{name} {rest}".rstrip()
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.integers(0, 4)) == 0:
            shell = draw(st.sampled_from(["bash -c", "sh -c", "eval", "bash -ec", "watch"]))
            line = f"{shell} {shlex.quote(line)}"
        else:
            around = draw(st.sampled_from(AROUND))
            if "<<" not in around or "\n" not in line:  # else a part of the line would be a document's text
                line = around.format(line)
    before, after = draw(st.sampled_from(SAFE)), draw(st.sampled_from(SAFE))
    return draw(st.sampled_from(["{1}", "{0}; {1}", "{0} && {1}", "{0}\n{1}\n{2}"])).format(
        before, line, after
    )


@settings(max_examples=400, deadline=None)
@given(dangerous_lines())
def test_no_line_composed_of_a_dangerous_part_is_allowed(line: str) -> None:
    result = check_command_policy(line)
    assert result["decision"] != "allow"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(SAFE), min_size=1, max_size=5), st.sampled_from([" && ", "; ", " || ", "\n"]))
def test_a_chain_of_safe_parts_is_allowed(parts: list[str], joined: str) -> None:
    assert check_command_policy(joined.join(parts))["decision"] == "allow"


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ls rm-f;&|()<>{}$`'\"\\\n\t=#![]*~xA"), max_size=60))
def test_any_text_gets_a_verdict(line: str) -> None:
    assert check_command_policy(line)["decision"] in ("allow", "ask", "reject")
