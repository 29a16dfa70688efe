"""`agentengine a2a card`, run as people run it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

NAMED = ("a2a", "card", ".", "--url", "https://agent.example.com", "--name", "research-agent")


def test_the_documented_command_prints_the_documented_card_in_an_empty_directory(agentengine: Run) -> None:
    done = agentengine(*NAMED, "--description", "Answers research questions.", "--skill", "research")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == json.dumps(json.loads(done.stdout), indent=2, ensure_ascii=False) + "\n"
    assert json.loads(done.stdout) == {
        "name": "research-agent",
        "description": "Answers research questions.",
        "supportedInterfaces": [
            {
                "url": "https://agent.example.com/a2a/jsonrpc",
                "protocolBinding": "JSONRPC",
                "protocolVersion": "1.0",
            },
            {
                "url": "https://agent.example.com/a2a/v1",
                "protocolBinding": "HTTP+JSON",
                "protocolVersion": "1.0",
            },
        ],
        "version": "1.0.0",
        "capabilities": {"streaming": True, "pushNotifications": False},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [
            {"id": "research", "name": "Research", "description": "Skill: research", "tags": ["research"]}
        ],
    }


def test_every_option_has_its_field(agentengine: Run) -> None:
    done = agentengine(
        *NAMED, "--agent-version", "2.0", "--provider", "A=B Ltd=https://b.example.com",
        "--documentation-url", "https://d.example.com", "--icon-url", "https://i.example.com",
        "--input-mode", "text/plain", "--input-mode", "image/png", "--output-mode", "application/json",
        "--skill", "a:A skill:Does it:x,y", "--skill", "b", "--no-streaming", "--json",
    )  # fmt: skip
    card = json.loads(done.stdout)
    assert card["version"] == "2.0"
    assert card["provider"] == {"organization": "A=B Ltd", "url": "https://b.example.com"}
    assert card["documentationUrl"] == "https://d.example.com"
    assert card["iconUrl"] == "https://i.example.com"
    assert card["defaultInputModes"] == ["text/plain", "image/png"]
    assert card["defaultOutputModes"] == ["application/json"]
    assert [skill["id"] for skill in card["skills"]] == ["a", "b"]
    assert card["skills"][0]["tags"] == ["x", "y"]
    assert card["capabilities"]["streaming"] is False


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX"])
def test_text_is_raw_utf8_in_any_locale(agentengine: Run, locale: str) -> None:
    done = agentengine(
        "a2a", "card", "--name", "研究员 🚀", "--url", "https://x",
        LANG=locale, LC_ALL=locale, PYTHONIOENCODING="ascii",
    )  # fmt: skip
    assert '"name": "研究员 🚀"' in done.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--url", "agent.example.com"], "does not begin with https:// or http://"),
        (["--url", "ftp://x"], "its scheme is ftp"),
        (["--url", "https://"], "names no host"),
        (["--url", "https://u:p@x"], "user name or password"),
        (["--url", "https://x?y"], "query or fragment"),
        (["--url", "https://x#y"], "query or fragment"),
        (["--url", "https://x y"], "blank"),
        (["--url", "http://0.0.0.0:80"], "to listen on"),
        (["--url", ""], "is empty"),
        (["--name", ""], "the agent's name is empty"),
        (["--name", "n", "--skill", ":N"], "a skill's id is empty"),
        (["--name", "n", "--skill", "a", "--skill", "a"], "two skills"),
        (["--name", "n", "--provider", "Acme"], "Organization=https://url"),
        (["--name", "n", "--input-mode", "text"], "not a media type"),
        (["nowhere"], "is no directory"),
        (["--check", "nowhere.json"], "cannot be read"),
        (["--check", ""], "cannot be read"),
        (["--check", "c.json", "--name", "n"], "--check checks a card that is there"),
        (["--check", "c.json", "--no-streaming"], "--check checks a card that is there"),
        (["--check", "c.json", "--input-mode", "text/plain"], "--check checks a card that is there"),
        (["home", "--check", "c.json"], "--check checks a card that is there"),
        (["--name", "n", "--agent-version", ""], "the agent's version is empty"),
        (["--name", "n", "--provider", ""], "Organization=https://url"),
        (["--nmae", "n"], "--nmae"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(agentengine: Run, options: list[str], words: str) -> None:
    done = agentengine("a2a", "card", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_an_option_without_its_value_points_to_the_commands_help(agentengine: Run) -> None:
    done = agentengine("a2a", "card", "--check")
    assert done.returncode == 2
    assert "hint: agentengine a2a card --help shows what it takes." in done.stderr


def test_a_project_fills_in_what_the_options_leave_out(agentengine: Run) -> None:
    Path("agentengine.yaml").write_text(
        "name: bot\ndescription: D.\nversion: '3'\nurl: https://b.example.com\nskills: [s]\nnmae: x\n"
    )
    done = agentengine("a2a", "card")
    card = json.loads(done.stdout)
    assert (card["name"], card["description"], card["version"]) == ("bot", "D.", "3")
    assert card["supportedInterfaces"][0]["url"] == "https://b.example.com/a2a/jsonrpc"
    assert [skill["id"] for skill in card["skills"]] == ["s"]
    assert "warning: agentengine.yaml:6: unknown key nmae" in done.stderr
    named = json.loads(agentengine("a2a", "card", "--name", "n", "--url", "https://n").stdout)
    assert (named["name"], named["description"]) == ("n", "D.")


def test_a_name_overrides_the_name_and_nothing_else(agentengine: Run) -> None:
    Path("lg").mkdir()
    Path("lg/langgraph.json").write_text('{"graphs": {"weather": "./bot.py:graph"}}')
    Path("lg/bot.py").write_text("graph = 1")
    Path("lg/pyproject.toml").write_text('[project]\nname = "p"\ndescription = "D."\nversion = "2.0"')
    plain = json.loads(agentengine("a2a", "card", "lg").stdout)
    named = json.loads(agentengine("a2a", "card", "lg", "--name", "x").stdout)
    assert (plain["name"], plain["description"], plain["version"]) == ("weather", "D.", "2.0")
    assert named == plain | {"name": "x"}


def test_a_named_agents_broken_source_is_a_warning_and_with_a_url_not_looked_at(agentengine: Run) -> None:
    Path("agent.py").write_text("def agent(:")
    Path("pyproject.toml").write_text('[project]\ndescription = "D."')
    assert agentengine("a2a", "card").returncode == 1
    named = agentengine("a2a", "card", "--name", "n")
    assert named.returncode == 0
    assert json.loads(named.stdout)["description"] == "D."
    assert "warning: agent.py:1: not Python" in named.stderr
    located = agentengine(*NAMED)
    assert (located.returncode, located.stderr) == (0, "")
    assert json.loads(located.stdout)["description"] == "research-agent agent powered by ksadk"


@pytest.mark.parametrize("options", [[], ["--url", "https://n"]])
def test_a_broken_configuration_is_an_error_for_a_named_agent_too(
    agentengine: Run, options: list[str]
) -> None:
    Path("agentengine.yaml").write_text("name: [n]")
    done = agentengine("a2a", "card", "--name", "n", *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert "agentengine.yaml:1: name must be text" in done.stderr


@pytest.mark.parametrize(
    ("options", "config", "is_noted"),
    [([], "", True), (["--url", "https://n"], "", False), ([], "url: https://n", False)],
)
def test_an_address_that_nobody_gave_is_noted_on_stderr(
    agentengine: Run, options: list[str], config: str, is_noted: bool
) -> None:
    Path("agentengine.yaml").write_text(config)
    done = agentengine("a2a", "card", "--name", "n", *options)
    assert json.loads(done.stdout)["name"] == "n"
    words = "note: the card's address is http://127.0.0.1:8081, for this machine only; --url gives another\n"
    assert done.stderr == (words if is_noted else "")


def test_no_project_is_told_with_what_to_do(agentengine: Run) -> None:
    done = agentengine("a2a", "card", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "project_not_found"
    assert "agentengine init" in error["hint"]


def test_check_prints_a_line_for_each_finding(agentengine: Run) -> None:
    good = agentengine(*NAMED).stdout
    Path("good.json").write_text(good)
    Path("bad.json").write_text(good.replace('"version"', '"url": "https://x",\n  "version"'))
    done = agentengine("a2a", "card", "--check", "good.json")
    assert (done.returncode, done.stdout) == (0, "good.json: a valid A2A 1.0 Agent Card\n")
    done = agentengine("a2a", "card", "--check", "bad.json")
    assert done.returncode == 1
    assert done.stdout.startswith(
        "bad.json:16: error: url was removed in A2A 1.0. Put it in supportedInterfaces"
    )
    assert done.stdout.count("\n") == 1


def test_check_says_where_on_a_card_of_one_line(agentengine: Run) -> None:
    card = json.loads(agentengine(*NAMED, "--skill", "a", "--skill", "b").stdout)
    card["skills"][1]["description"] = ""
    card["version"] = ""
    minified = json.dumps(card).replace('"id": "a"', '"id": "a", "id": "a"')
    done = agentengine("a2a", "card", "--check", "-", stdin=minified)
    assert [line.removeprefix("<stdin>:1: error: ") for line in done.stdout.splitlines()] == [
        "version is empty, and is required. Give version.",
        "skills[0].id: id is written more than once, and readers differ in which one they take. "
        "Keep one of them.",
        "skills[1].description: description is empty, and is required. Give description.",
    ]


def test_check_reads_stdin_and_gives_a_document(agentengine: Run) -> None:
    done = agentengine("a2a", "card", "--check", "-", "--json", stdin="{")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert (document["ok"], document["file"]) == (False, "<stdin>")
    assert document["findings"][0]["line"] == 1
    assert set(document["findings"][0]) == {"severity", "line", "column", "pointer", "message", "fix"}


def test_a_warning_alone_is_no_failure(agentengine: Run) -> None:
    card = agentengine("a2a", "card", "--name", "n").stdout
    done = agentengine("a2a", "card", "--check", "-", stdin=card)
    assert done.returncode == 0
    assert (
        "<stdin>:6: warning: supportedInterfaces[0].url: 127.0.0.1 can be reached from the same machine only"
        in done.stdout
    )


def test_a_card_costs_no_heavy_import() -> None:
    script = (
        "import sys; from agentengine_cli.main import run; "
        f"assert run({list(NAMED)!r}) == 0; "
        "heavy = {'a2a', 'google.protobuf', 'pydantic', 'rich', 'ruamel.yaml', 'sqlite3', 'httpx', 'socket', "
        "'asyncio'}; print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
