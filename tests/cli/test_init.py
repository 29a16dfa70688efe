"""`agentengine init`: what it writes works, and it destroys nothing."""

import ast
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ksadk.config_file import FRAMEWORKS

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_new_project_has_a_card_and_is_detected_without_its_configuration(
    agentengine: Run, framework: str
) -> None:
    from ksadk.a2a import detect_project

    done = agentengine("init", "my-agent", "--framework", framework)
    assert done.returncode == 0
    assert "agentengine a2a card my-agent" in done.stdout
    card = json.loads(agentengine("a2a", "card", "my-agent").stdout)
    assert (card["name"], card["version"]) == ("my-agent", "0.1.0")
    told = detect_project(Path("my-agent"))
    Path("my-agent/agentengine.yaml").unlink()
    found = detect_project(Path("my-agent"))
    assert (found.framework, found.variable) == (framework, told.variable)
    assert found.entry == told.entry == "agent.py"


@pytest.mark.parametrize("directory", ["My Agent", "it's", "$HOME", "a;b", "-x", "智能体"])
def test_the_next_command_can_be_pasted_into_a_shell(agentengine: Run, directory: str) -> None:
    printed = agentengine("init", "--", directory).stdout
    arguments = shlex.split(printed.rpartition("Next: agentengine ")[2])
    assert json.loads(agentengine(*arguments).stdout)["name"] == directory


def test_the_plain_agent_runs(agentengine: Run) -> None:
    agentengine("init")
    done = subprocess.run([sys.executable, "agent.py", "hi"], capture_output=True, text=True, check=True)
    assert done.stdout == "You said: hi\n"


def test_a_graph_answers_without_a_key(agentengine: Run) -> None:
    pytest.importorskip("langgraph")
    agentengine("init", "--framework", "langgraph")
    done = subprocess.run([sys.executable, "agent.py", "hi"], capture_output=True, text=True, check=True)
    assert done.stdout == "You said: hi\n"


@pytest.mark.parametrize(("framework", "module"), [("langchain", "langchain"), ("google-adk", "google.adk")])
def test_a_frameworks_agent_imports_without_a_key(agentengine: Run, framework: str, module: str) -> None:
    pytest.importorskip(module)
    agentengine("init", "--framework", framework)
    subprocess.run([sys.executable, "-c", "import agent"], check=True, timeout=60)


def test_nothing_is_overwritten_without_force(agentengine: Run) -> None:
    Path("agent.py").write_text("mine")
    done = agentengine("init", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "file_exists"
    assert [path.name for path in Path().iterdir()] == ["agent.py"]
    assert Path("agent.py").read_text() == "mine"
    assert agentengine("init", "--force").returncode == 0
    assert "def agent" in Path("agent.py").read_text()


def test_a_link_is_replaced_and_what_it_points_to_is_kept(agentengine: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("mine")
    Path("agent.py").symlink_to(other)
    assert agentengine("init").returncode == 1
    assert agentengine("init", "--force").returncode == 0
    assert other.read_text() == "mine"


def test_a_directory_in_the_way_is_an_error_even_with_force(agentengine: Run) -> None:
    Path("agent.py").mkdir()
    done = agentengine("init", "--force")
    assert done.returncode == 1
    assert not Path("agentengine.yaml").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, ".agentengine/\n"),
        ("*.pyc\n", "*.pyc\n.agentengine/\n"),
        ("*.pyc", "*.pyc\n.agentengine/\n"),
        (".agentengine/\n", ".agentengine/\n"),
        ("/.agentengine\n*.pyc\n", "/.agentengine\n*.pyc\n"),
    ],
)
def test_a_gitignore_gains_one_line_once(agentengine: Run, before: str | None, after: str) -> None:
    if before is not None:
        Path(".gitignore").write_text(before)
    agentengine("init")
    assert Path(".gitignore").read_text() == after


def test_a_gitignore_in_any_encoding_keeps_its_bytes(agentengine: Run) -> None:
    Path(".gitignore").write_bytes(b"caf\xe9\r\n")
    agentengine("init")
    assert Path(".gitignore").read_bytes() == b"caf\xe9\r\n.agentengine/\n"


@pytest.mark.parametrize("name", ["研究员", 'say "hi": #1', "yes", "1.0", "- [a]", "*x"])
def test_any_name_survives_in_the_configuration(agentengine: Run, name: str) -> None:
    assert agentengine("init", "--name", name).returncode == 0
    assert json.loads(agentengine("a2a", "card").stdout)["name"] == name


@pytest.mark.parametrize(
    "options", [["--framework", "crew"], ["--name", ""], ["--name", "a\nb"], ["agent.txt"]]
)
def test_what_cannot_be_meant_is_a_usage_error(agentengine: Run, options: list[str]) -> None:
    Path("agent.txt").write_text("a file")
    assert agentengine("init", *options).returncode == 2
    assert [path.name for path in Path().iterdir()] == ["agent.txt"]


def test_a_directory_that_cannot_be_made_is_an_error(agentengine: Run) -> None:
    Path("file").write_text("")
    done = agentengine("init", "file/below")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")


def test_what_is_written_is_one_json_document(agentengine: Run) -> None:
    document = json.loads(agentengine("init", "d", "--json").stdout)
    assert document == {
        "ok": True,
        "directory": "d",
        "framework": "python",
        "files": ["agent.py", "agentengine.yaml", ".gitignore"],
    }
    ast.parse(Path("d/agent.py").read_text())
