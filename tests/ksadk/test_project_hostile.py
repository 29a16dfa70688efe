"""What a stranger's project can hold to make detection fail or hang; each is told, or simply read."""

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import unprivileged

from ksadk.a2a.project import ProjectNotFoundError, detect_project
from ksadk.project_files import ProjectFileError


def project(tmp_path: Path, name: str, text: str) -> Path:
    directory = tmp_path / "bot"
    directory.mkdir()
    (directory / "agent.py").write_text("def agent(m): ...", encoding="utf-8")
    (directory / name).write_text(text, encoding="utf-8")
    return directory


def refusal(directory: Path) -> str:
    with pytest.raises(ProjectFileError) as caught:
        detect_project(directory)
    return caught.value.message


def test_a_long_chain_of_elif_is_read_to_its_end(tmp_path: Path) -> None:
    chain = "".join(f"elif mode == {number}: pass\n" for number in range(1500))
    source = f"if mode == 'a': agent = 1\n{chain}else: root_agent = 1\n"
    assert detect_project(project(tmp_path, "agent.py", source)).variable == "root_agent"


def test_of_a_name_bound_again_in_a_branch_the_last_one_counts(tmp_path: Path) -> None:
    source = (
        "try:\n  import fast\n  root_agent = Agent(name='a')\nfinally:\n  root_agent = Agent(name='b')\n"
        "if fast:\n  root_agent = Agent(name='c')\nelse:\n  root_agent = Agent(name='d')\n"
    )
    assert detect_project(project(tmp_path, "agent.py", source)).name == "d"


@pytest.mark.parametrize("expression", ["-" * 200_000 + "1", "a" + ".a" * 200_000, "a" + "()" * 200_000])
def test_an_expression_nested_too_deeply_is_told_in_words(tmp_path: Path, expression: str) -> None:
    directory = project(tmp_path, "agent.py", f"agent={expression}")
    assert refusal(directory) == f"{directory / 'agent.py'}: not Python: nested too deeply"


def test_a_path_that_the_system_does_not_take_is_told(tmp_path: Path) -> None:
    directory = tmp_path / ("a" * 3000)
    assert refusal(directory) == f"{directory}: cannot be read: File name too long"


@pytest.mark.parametrize("name", ["agentengine.yaml", "langgraph.json", "pyproject.toml", "agent.py"])
def test_a_file_behind_links_in_a_loop_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(name)
    words = os.strerror(errno.ELOOP)
    assert refusal(tmp_path) == f"{tmp_path / name}: cannot be read: {words}"


def test_a_link_that_leads_nowhere_is_no_file(tmp_path: Path) -> None:
    directory = project(tmp_path, "main.py", "")
    (directory / "agentengine.yaml").symlink_to("gone")
    assert detect_project(directory).config is None


@pytest.mark.parametrize("options", [[], ["--name", "n"], ["--name", "n", "--url", "https://n"]])
def test_a_directory_that_may_not_be_searched_is_told(tmp_path: Path, options: list[str]) -> None:
    directory = project(tmp_path, "main.py", "")
    directory.chmod(0o400)
    done = subprocess.run(
        [*unprivileged(), sys.executable, "-m", "agentengine_cli", "a2a", "card", directory, *options],
        capture_output=True,
        text=True,
    )
    directory.chmod(0o700)
    assert done.returncode == 1
    assert f"error: {directory}/agentengine.yaml: cannot be read: Permission denied" in done.stderr


def test_below_a_directory_without_an_agent_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/agentengine.yaml").symlink_to("agentengine.yaml")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/agent.py").write_text("agent = 1", encoding="utf-8")
    with pytest.raises(ProjectNotFoundError) as caught:
        detect_project(tmp_path)
    assert "There is one in b" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("/", "the agent's file / is not there"),
        (".", "the agent's file . is not there"),
        ("//", "the agent's file // is not there"),
        ("a\0.py", "the agent's file a\0.py is not there"),
        ("x" * 5000, f"the agent's file {'x' * 100}... cannot be read: File name too long"),
        ("/etc/passwd", "the agent's file /etc/passwd is outside the project"),
    ],
)
@pytest.mark.parametrize("name", ["agentengine.yaml", "langgraph.json"])
def test_an_entry_that_names_no_file_is_told_with_the_file_that_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, entry: str, words: str
) -> None:
    value = {"entry_point": entry} if name == "agentengine.yaml" else {"graphs": {"g": entry}}
    project(tmp_path, name, json.dumps(value))
    monkeypatch.chdir(tmp_path / "bot")
    assert refusal(Path()) == f"{name}: {words}"


def test_an_entry_from_the_root_is_told_relative_to_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = tmp_path / "bot/agent.py"
    project(tmp_path, "agentengine.yaml", f"entry_point: {entry}")
    monkeypatch.chdir(tmp_path)
    assert detect_project("bot").entry == "agent.py"


def test_a_number_of_thousands_of_digits_is_told(tmp_path: Path) -> None:
    directory = project(tmp_path, "pyproject.toml", f"a={'9' * 9000}")
    assert refusal(directory) == f"{directory / 'pyproject.toml'}: holds a number of too many digits"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (f"a=1\n{'a.' * 100_000}a=1", "2: too many dots: 100000"),
        (
            f"[{'a . ' * 1000}a]\n" + "".join(f"b{line}=1\n" for line in range(10_000)),
            "1: too many dots: 1000",
        ),
        ("".join(f"a{line}{'.b' * 200}=1\n" for line in range(2_000)), "1: too many dots: 200"),
        (f"x={{{'a.' * 100_000}a=1}}", "1: too many dots: 100000"),
    ],
)
def test_keys_that_would_take_long_to_read_are_refused(tmp_path: Path, text: str, where: str) -> None:
    directory = project(tmp_path, "pyproject.toml", text)
    started = time.process_time()
    assert refusal(directory) == f"{directory / 'pyproject.toml'}:{where} in one line"
    assert time.process_time() - started < 1


def test_a_large_file_of_usual_keys_is_read(tmp_path: Path) -> None:
    described = f'[project]\nname = "p"\ndescription = "{"." * 500}"\n'
    tables = "".join(f'[tool.a.b{table}]\nc.d = "1.2.3"\n' for table in range(400))
    assert detect_project(project(tmp_path, "pyproject.toml", described + tables)).name == "p"


def test_a_configuration_that_would_take_long_to_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agentengine.yaml").write_text("name: x\n" + "# padding\n" * 20_000)
    with pytest.raises(ProjectFileError, match="more than 131,072 characters"):
        detect_project(tmp_path)
