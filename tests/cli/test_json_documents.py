"""What docs/json.md says of each document, held against what the program prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from skill_dirs import write_skill

from agentengine_cli.main import app
from ksadk.sandbox.probe import probe
from ksadk.tools.decision_log import DecisionLog
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.registry import builtin_tools
from ksadk.tools.rule_edits import add_rule
from ksadk.tools.rule_files import user_file
from ksadk.tools.trust import trust
from ksadk.toolsets.selection import load_builtin_tools

PAGE = (Path(__file__).resolve().parents[2] / "docs/json.md").read_text("utf-8")
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \|", re.MULTILINE)
KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float), "list": (list,),
    "object": (dict,), "any object": (dict,), "null": (type(None),),
}  # fmt: skip
RUNTIME = "KSADK_LOCAL_SKILLS_DIR=scripted KSADK_SKILL_RUNTIME_BACKEND=local_process"
SCRIPTS = {
    "made": 'echo > "$KSADK_SKILL_OUTPUT_DIR/made"',
    "linked": 'ln -s / "$KSADK_SKILL_OUTPUT_DIR/link"; exit 3',
    "loud": "head -c 100000 /dev/zero | tr '\\0' x",
    "slow": "sleep 30",
    "advice": None,
}
"""Skills by name, each with its script."""

NOT_PROVOKED = {"timed_out", "output_limit_exceeded", "not_in_sandbox"}

Command = Callable[..., Any]


class Key(NamedTuple):
    kinds: tuple[str, ...]
    optional: bool


def tables() -> dict[str, dict[str, Key]]:
    """The table of each section of the page, by its heading."""
    sections = re.split(r"^## (.+)\n", PAGE, flags=re.MULTILINE)[1:]
    return {
        heading: {
            key.rstrip("?"): Key(tuple(kind.strip().split(" or ")), key.endswith("?"))
            for key, kind in ROW.findall(text)
        }
        for heading, text in zip(sections[::2], sections[1::2], strict=True)
    }


TABLES = tables()
SHOWS: dict[str, tuple[str, ...]] = {
    "A command that has no result": ("tools call no_such_tool", "workspace edit"),
    "A tool that fails": (
        "workspace edit f.txt --old 'lime 3' --new x --yes --root .",
        "workspace read f.txt --start-line 900 --root .",
        "workspace read other.txt --root .",
        "workspace multi-edit f.txt --edits '[{\"old_text\": \"qqqq\", \"new_text\": \"\"}]' --yes --root .",
    ),
    "A call that needs approval": (
        "workspace delete f.txt --root .",
        "tools call tool_dispatcher --root . action=call tool_name=delete_workspace_file"
        ' \'arguments={"path": "f.txt"}\'',
    ),
    "A call that was not let through": (
        "workspace delete --approval DENIED",
        "workspace delete f.txt --root . --wait-approval 0.01",
    ),
    "--dry-run": ("workspace edit f.txt --old 'line 3 ' --new x --dry-run --root .",
                  "workspace delete f.txt --dry-run --root ."),
    "workspace status": ("workspace status --root .",),
    "workspace list": ("workspace list --recursive --root .",),
    "workspace read": (
        "workspace read f.txt --root .",
        "workspace read f.txt --start-line 3 --no-numbers --root .",
        "workspace read f.txt --max-chars 1000 --root .",
        "KSADK_TOOL_RESULT_DIR=f.txt workspace read f.txt --max-chars 1000 --root .",
    ),
    "workspace write": (
        "workspace write g.txt --content x --yes --root .",
        "workspace write f.txt --content x --in-place --yes --root .",
    ),
    "workspace edit": (
        "workspace edit f.txt --old 'line 3 ' --new @crlf.txt --yes --root .",
        "KSADK_TOOL_RESULT_MAX_CHARS=20 workspace edit f.txt --old 'line 4 ' --new x --yes --root .",
        "workspace edit f.txt --old 'line 5 ' --new x --in-place --yes --root .",
    ),
    "workspace multi-edit": (
        "workspace multi-edit f.txt --yes --in-place --root ."
        " --edits '[{\"old_text\": \"line 5 \", \"new_text\": \"\\r\\n\"}]'",
    ),
    "workspace lint": ("workspace lint bad.py --root .", "workspace lint f.txt --root ."),
    "workspace search": (
        "workspace search 'line 1' -C 1 --root .",
        "workspace search needle --root .",
        "workspace search x --glob '*.none' --root .",
        "KSADK_TOOL_RESULT_MAX_CHARS=300 workspace search line --root .",
    ),
    "workspace delete": ("workspace delete f.txt --yes --root .",),
    "tools call write_workspace_files": (
        "tools call write_workspace_files --yes --root . 'files=[{\"path\": \"a\", \"content\": \"\"}]'",
    ),
    "tools list": ("tools list", "tools list tool_dispatcher agentengine_tool_dispatcher"),
    "tools describe": ("tools describe run_code", "tools describe agentengine_tool_dispatcher"),
    "tools search": ("tools search 'read file'",),
    "tools call tool_dispatcher": (
        "tools call tool_dispatcher action=call tool_name=workspace_status",
        "tools call agentengine_tool_dispatcher action=call tool_name=workspace_status",
    ),
    "tools call component_status": ("tools call component_status",),
    "sandbox run": (
        "sandbox run --yes --root . -- bash everything.sh",
        "sandbox run --yes --root . --code code.py",
        "sandbox run --yes --root . -- bash -c 'seq 400000; seq 400000 >&2'",
        "sandbox run --yes --root . --diff --keep -- rm f.txt",
        "KSADK_TOOL_APPROVAL_MODE=off sandbox run --root . --diff -- bash -c 'echo x > f.txt; ln -s x y'",
    ),
    "sandbox status": ("tools call sandbox_status", "sandbox status", "sandbox status --probe"),
    "sandbox list": ("KEEP=1 sandbox list",),
    "sandbox kill": ("sandbox kill COPY",),
    "skills execute": (
        f"{RUNTIME} skills execute made linked --prompt x --yes",
        f"{RUNTIME} skills execute loud --prompt x --yes",
        f"{RUNTIME} skills execute slow --timeout 1s --prompt x --yes",
        f"{RUNTIME} OPENAI_BASE_URL=http://127.0.0.1:9 OPENAI_API_KEY=k OPENAI_MODEL_NAME=m"
        " skills execute advice --prompt x --yes",
    ),
    "skills list": ("KSADK_LOCAL_SKILLS_DIR=skills skills list",),
    "skills search": ("KSADK_LOCAL_SKILLS_DIR=skills skills search demo",),
    "skills load": ("KSADK_LOCAL_SKILLS_DIR=skills skills load demo",),
    "tools call preview_skill": (
        "KSADK_LOCAL_SKILLS_DIR=skills tools call preview_skill skill_name=demo",
    ),
    "tools call list_skill_spaces": ("KSADK_LOCAL_SKILLS_DIR=skills tools call list_skill_spaces",),
    "skills lint": ("skills lint skills/demo", "skills lint --publish --fix skills/demo"),
    "skills compat": ("skills compat skills/demo",),
    "skills pack": ("skills pack skills/demo",),
    "skills lock": ("KSADK_LOCAL_SKILLS_DIR=skills skills lock", "KSADK_LOCAL_SKILLS_DIR=absent skills lock"),
    "approvals list": ("approvals list",),
    "approvals show": ("approvals show WAITING", "approvals deny WAITING --reason no"),
    "approvals log": ("approvals log",),
    "approvals verify": ("approvals verify", "BROKEN=1 approvals verify"),
    "approvals rules list": ("approvals rules list",),
    "approvals rules add": ("approvals rules add deny run_command",),
    "approvals rules remove": ("approvals rules remove ALLOWING",),
    "approvals rules test": ("approvals rules test workspace_status",),
    "trust --list": ("trust --list",),
    "approvals suggest": ("approvals suggest --times 1",),
    "a2a card": (
        "a2a card --name x --url https://x.example.com --provider O=https://o.example.com"
        " --documentation-url https://d.example.com --icon-url https://i.example.com/i.png",
    ),
    "a2a card --check": ("a2a card --check card.json", "a2a card --check f.txt"),
    "init": ("init agent",),
    "config show": ("KSADK_SANDBOX_TIMEOUT=x config show",),
    "doctor": ("doctor",),
}  # fmt: skip
"""Command lines by section, each run with `--json`. WAITING and DENIED stand for the ids of requests."""

FAILING = ("A tool that fails", "A command that has no result", "A call that was not let through")


@pytest.fixture
def run(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command line in a prepared project; returns how it ended."""
    Path("f.txt").write_text("".join(f"line {number} \n" for number in range(200)))
    Path("crlf.txt").write_bytes(b"x\r\n")
    Path("bad.py").write_text("x = (\n")
    Path("card.json").write_text('{"name": "x"}')
    Path("everything.sh").write_text(
        "echo evil > ksadk.yaml; sleep 60 & printf '\\377'; exec 3<>/dev/tcp/192.0.2.1/80"
    )
    Path("code.py").write_text("print(1)")
    Path("skills/demo").mkdir(parents=True)
    Path("skills/demo/SKILL.md").write_text("---\nname: demo\ndescription: Shows something.\n---\nDo it.\n")
    for name, script in SCRIPTS.items():
        write_skill(Path("scripted"), name, script)
    Path("other.txt").write_bytes(b"needle \xff\n" + b"x" * 2000 + b" needle\n")
    command("workspace", "read", "f.txt", "--root", ".")
    ids = {}
    for state, path in {"WAITING": "bad.py", "DENIED": "f.txt"}.items():
        ids[state] = command("workspace", "delete", path, "--root", ".").json["approval_request"]["id"]
    command("approvals", "deny", ids["DENIED"], "--reason", "not this one")

    def call(line: str) -> Any:
        words = [ids.get(word, word) for word in shlex.split(line)]
        if line.startswith("approvals"):
            write_down(command)
        if line == "trust --list":
            trust("agent", "agentengine.yaml", "0" * 64)
        if words[-1] == "ALLOWING":
            words[-1] = f"{user_file()}:{add_rule({'allow': 'run_code'})[0].line}"
        if "KEEP=1" in words or "COPY" in words:
            kept = command("sandbox", "run", "--yes", "--diff", "--keep", "--json", "--", "true").json["kept"]
            words = [kept[0] if word == "COPY" else word for word in words]
        if words[0] == "BROKEN=1":
            (log := DecisionLog(ToolGateway().store).path).write_bytes(log.read_bytes()[1:])
        while "=" in words[0]:
            monkeypatch.setenv(*words.pop(0).split("="))
        options = words.index("--") if "--" in words else len(words)
        return command(*words[:options], "--json", *words[options:])

    return call


def write_down(command: Command) -> None:
    """Make calls of every kind, so that the decision log has each of its keys."""
    command("approvals", "rules", "add", "ask", "lint_workspace_file")
    for words in (
        ("workspace", "read", "absent.txt", "--log-all", "--audit-args"),
        ("workspace", "write", "long.txt", "--content", "x" * 100_000, "--yes", "--audit-args"),
        ("workspace", "lint", "bad.py", "--yes"),
        ("workspace", "delete", "../f.txt"),
    ):
        command(*words, "--root", ".")
    log = DecisionLog(ToolGateway().store)
    log.path.write_bytes(log.path.read_bytes() + b"{")
    log.append({
        "event": "decision", "tool": "run_command", "outcome": "allowed", "by": "me",
        "request": "appr_1", "project": "/p", "arguments": {"command": "make"},
    })  # fmt: skip


def differences(value: Any, table: dict[str, Key], seen: set[str], prefix: str = "") -> Iterator[str]:
    """Where an object is not what the table says; `seen` collects the keys that it has."""
    here = {key: table[key] for key in table if re.fullmatch(re.escape(prefix) + r"\w+", key)}
    for name, item in value.items():
        key = prefix + name
        if key not in here:
            yield f"{key} is not on the page"
            continue
        seen.add(key)
        kinds = [kind for word in here[key].kinds for kind in KINDS[word]]
        if type(item) not in kinds:
            yield f"{key} is {item!r}"
        elif here[key].kinds == ("object",):
            yield from differences(item, table, seen, f"{key}.")
        elif any(other.startswith(f"{key}[].") for other in table):
            for member in item:
                yield from differences(member, table, seen, f"{key}[].")
    for key, entry in here.items():
        if not entry.optional and key.removeprefix(prefix) not in value:
            yield f"{key} is missing"


@pytest.mark.parametrize("heading", TABLES)
def test_a_document_has_the_keys_and_types_of_the_page(heading: str, run: Command) -> None:
    if heading.startswith("sandbox") and (diagnosis := probe().diagnosis):
        pytest.skip(diagnosis.message)
    seen: set[str] = set()
    for line in SHOWS[heading]:
        done = run(line)
        assert list(differences(done.json, TABLES[heading], seen)) == [], line
        if heading in FAILING:
            assert done.status, line
            assert "error: " in done.stderr, line
    assert TABLES[heading].keys() - seen - NOT_PROVOKED == set()


def test_the_requests_of_a_list_are_shown_as_one_is(run: Command) -> None:
    [listed] = run("approvals list").json["requests"]
    assert list(differences({"ok": True, "request": listed}, TABLES["approvals show"], set())) == []


def test_every_command_and_every_tool_is_on_the_page() -> None:
    program: Any = typer.main.get_command(app)
    context = typer.Context(program)
    for group in program.list_commands(context):
        command = program.get_command(context, group)
        names = [f"{group} {name}" for name in getattr(command, "commands", {})] or [group]
        for name in names:
            assert name in PAGE, name
    load_builtin_tools()
    for tool in builtin_tools():
        assert f"`{tool.name}`" in PAGE or f"## tools call {tool.name}\n" in PAGE, tool.name


def test_a_page_that_says_something_else_is_noticed() -> None:
    table = {"a": Key(("text",), False), "b": Key(("list",), True), "b[].c": Key(("integer",), False)}
    assert list(differences({"a": "x", "b": [{"c": 1}]}, table, set())) == []
    assert list(differences({"a": 1}, table, set())) == ["a is 1"]
    assert list(differences({"b": []}, table, set())) == ["a is missing"]
    assert list(differences({"a": "", "b": [{"c": 1}, {}]}, table, set())) == ["b[].c is missing"]
    assert list(differences({"a": "", "d": 1}, table, set())) == ["d is not on the page"]
