"""What kind of agent a directory holds: told by its files, none of which is run."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksadk.a2a.project import Project, ProjectNotFoundError, detect_project
from ksadk.config_file import read_config
from ksadk.errors import KsadkError
from ksadk.project_files import ProjectFileError


def project(tmp_path: Path, **files: str) -> Path:
    """A project's directory; `agent_py` stands for `agent.py`."""
    directory = tmp_path / "weather-bot"
    directory.mkdir(exist_ok=True)
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (directory / f"{stem}.{suffix}").write_text(text, encoding="utf-8")
    return directory


def facts(found: Project) -> tuple[str, str, str | None, str, str]:
    return found.name, found.description, found.framework, found.entry, found.variable


ADK = """\
'''The weather, told.

More words.
'''
from google.adk.agents import LlmAgent
NAME = "weather"
root_agent = LlmAgent(name=NAME, model="m", description="Tells the weather.")
"""


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (ADK, ("weather", "Tells the weather.", "google-adk", "agent.py", "root_agent")),
        (
            "from google import adk\nroot_agent = adk.Agent(name='a' 'b')",
            ("ab", "", "google-adk", "agent.py", "root_agent"),
        ),
        (
            "from langgraph.graph import StateGraph\nfrom langchain_openai import ChatOpenAI\n"
            "graph = StateGraph(dict).compile(name='g')",
            ("g", "", "langgraph", "agent.py", "graph"),
        ),
        (
            "from langchain.agents import create_agent\nagent = create_agent('m', name='lc')",
            ("lc", "", "langchain", "agent.py", "agent"),
        ),
        (
            "from deepagents import create_deep_agent\nimport langgraph\nagent = create_deep_agent()",
            ("weather-bot", "", "deepagents", "agent.py", "agent"),
        ),
        (
            "'''Words.'''\ndef agent(message): return message",
            ("weather-bot", "Words.", "python", "agent.py", "agent"),
        ),
        (
            "async def agent(message):\n  'Answers.'",
            ("weather-bot", "Answers.", "python", "agent.py", "agent"),
        ),
        ("from mine import root_agent", ("weather-bot", "", "python", "agent.py", "root_agent")),
        (
            "try:\n  import langgraph\n  app: object = build()\nexcept ImportError: pass",
            ("weather-bot", "", "langgraph", "agent.py", "app"),
        ),
        (
            "raise SystemExit('this file was run')\nagent = 1",
            ("weather-bot", "", "python", "agent.py", "agent"),
        ),
        (
            "from google.adk.agents import Agent\nagent = Agent(name='sub')\nroot_agent = Agent(name='top')",
            ("top", "", "google-adk", "agent.py", "root_agent"),
        ),
        (
            "from google.adk.agents import Agent\nroot_agent = Agent(name=f'{1}', description=words())",
            ("weather-bot", "", "google-adk", "agent.py", "root_agent"),
        ),
    ],
)
def test_an_agents_source_tells_its_framework_variable_name_and_description(
    tmp_path: Path, source: str, told: tuple[str, ...]
) -> None:
    assert facts(detect_project(project(tmp_path, agent_py=source))) == told


@pytest.mark.parametrize(
    "source",
    [
        "print('hello')",
        "from fastapi import FastAPI\napp = FastAPI()",
        "if __name__ == '__main__':\n  agent = 1",
        "def f():\n  agent = 1",
        "",
    ],
)
def test_a_file_without_an_agent_is_no_project(tmp_path: Path, source: str) -> None:
    with pytest.raises(ProjectNotFoundError, match=r"nothing in agent\.py is an agent"):
        detect_project(project(tmp_path, agent_py=source))


def test_main_and_app_are_looked_at_after_agent(tmp_path: Path) -> None:
    directory = project(tmp_path, agent_py="x = 1", main_py="def agent(m): ...", app_py="def agent(m): ...")
    assert detect_project(directory).entry == "main.py"


def test_an_empty_directory_is_no_project_and_the_hint_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ProjectNotFoundError) as caught:
        detect_project(project(tmp_path))
    assert caught.value.code == "project_not_found"
    assert all(word in str(caught.value.hint) for word in ("--name", "--url", "agentengine init"))


def test_what_was_looked_for_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProjectNotFoundError) as caught:
        detect_project(project(tmp_path))
    assert caught.value.message.endswith(
        ": there is no agentengine.yaml, ksadk.yaml, langgraph.json, pyproject.toml, agent.py, "
        "main.py or app.py"
    )
    directory = project(
        tmp_path, agent_py="mine = 1", main_py="import langgraph\nmine = 1", pyproject_toml=""
    )
    with pytest.raises(ProjectNotFoundError) as caught:
        detect_project(directory)
    assert caught.value.message == (
        f"no agent's project in {directory}: "
        "nothing in agent.py is an agent (no root_agent, agent, run or handle at its top level); "
        "nothing in main.py is an agent (no root_agent, agent, graph, app or workflow at its top level); "
        "pyproject.toml has no [project] or [tool.poetry]; "
        "there is no agentengine.yaml, ksadk.yaml, langgraph.json or app.py"
    )


@pytest.mark.parametrize(
    ("file", "text", "is_named"),
    [
        ("agent.py", ADK, True),
        ("agentengine.yaml", "name: w", True),
        ("langgraph.json", "{}", True),
        ("agent.py", "x = 1", False),
        ("agent.py", "def agent(:", False),
        ("agent.py", ADK + "#" * 100_000, False),
        ("deeper/agent.py", ADK, False),
    ],
)
def test_an_agent_one_level_below_is_named(tmp_path: Path, file: str, text: str, is_named: bool) -> None:
    directory = project(tmp_path)
    (directory / "another").mkdir()
    path = directory / "weather agent" / file
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ProjectNotFoundError) as caught:
        detect_project(directory)
    command = f"There is one in weather agent: agentengine a2a card '{directory}/weather agent'"
    assert (caught.value.hint == command) is is_named


def test_hidden_and_linked_directories_and_all_but_the_first_are_not_searched(tmp_path: Path) -> None:
    directory = project(tmp_path)
    other = tmp_path / "other"
    for place in (other, directory / ".hidden", directory / "z"):
        place.mkdir()
        (place / "agent.py").write_text(ADK, encoding="utf-8")
    (directory / "linked").symlink_to(other)
    for number in range(20):
        (directory / f"empty{number}").mkdir()
    with pytest.raises(ProjectNotFoundError) as caught:
        detect_project(directory)
    assert "There is one" not in str(caught.value.hint)
    (directory / "empty0").rmdir()
    with pytest.raises(ProjectNotFoundError) as caught:
        detect_project(directory)
    assert "There is one in z" in str(caught.value.hint)


def test_pyproject_tells_name_description_and_version(tmp_path: Path) -> None:
    directory = project(
        tmp_path,
        pyproject_toml='[project]\nname = "p"\ndescription = "D."\nversion = "2.0"',
        agent_py=ADK,
    )
    found = detect_project(directory)
    assert (found.version, *facts(found)) == ("2.0", "p", "D.", "google-adk", "agent.py", "root_agent")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[tool.poetry]\nname = "p"\ndescription = "D."\nversion = "2.0"', ("p", "D.", "2.0")),
        ('[project]\nname = "p"\n[tool.poetry]\nname = "q"\nversion = "2.0"', ("p", "", "2.0")),
        ("[tool.poetry]\npackage-mode = false", ("weather-bot", "", "")),
    ],
)
def test_poetrys_table_tells_what_the_projects_does_not(
    tmp_path: Path, text: str, told: tuple[str, ...]
) -> None:
    found = detect_project(project(tmp_path, pyproject_toml=text))
    assert (found.name, found.description, found.version) == told


def test_a_pyproject_without_a_project_is_none(tmp_path: Path) -> None:
    with pytest.raises(ProjectNotFoundError):
        detect_project(project(tmp_path, pyproject_toml="[tool.ruff]\nline-length = 99"))


@pytest.mark.parametrize(
    ("graphs", "name", "entry"),
    [
        ('{"weather": "./src/bot.py:make"}', "weather", "src/bot.py"),
        ('{"agent": "./src/bot.py:make"}', "weather-bot", "src/bot.py"),
        ('{"weather": {"path": "src.bot:make"}, "other": "x.py:y"}', "weather", "src/bot.py"),
        ('{"weather": "bot:make"}', "weather", "src/bot.py"),
        ('{"weather": "./src/bot.ts:make"}', "weather", "src/bot.ts"),
    ],
)
def test_langgraph_json_tells_the_graph(tmp_path: Path, graphs: str, name: str, entry: str) -> None:
    directory = project(tmp_path, langgraph_json=f'{{"graphs": {graphs}}}')
    (directory / "src").mkdir()
    (directory / "src/bot.py").write_text("def make(): ...", encoding="utf-8")
    (directory / "src/bot.ts").write_text("export const make = 1", encoding="utf-8")
    found = detect_project(directory)
    assert (found.name, found.framework, found.variable) == (name, "langgraph", "make")
    assert (directory / entry).samefile(directory / found.entry) or found.entry == entry


CONFIG = """\
name: "天气"
description: Tells the weather.
version: "0.2"
framework: adk
entry_point: agent.py:root_agent
url: https://w.example.com
documentation_url: https://w.example.com/docs
icon_url: https://w.example.com/icon.png
input_modes: [text/plain, image/png]
output_modes:
  - application/json
workspace: ./files
skills:
  - forecast
  - id: warn
    tags: [storm, flood]
provider:
  organization: O
  url: https://o.example.com
"""


def test_the_configuration_wins_over_every_other_file(tmp_path: Path) -> None:
    directory = project(
        tmp_path, agentengine_yaml=CONFIG, ksadk_yaml="name: old", agent_py=ADK,
        pyproject_toml='[project]\nname = "p"\ndescription = "D."',
    )  # fmt: skip
    found = detect_project(directory)
    assert facts(found) == ("天气", "Tells the weather.", "google-adk", "agent.py", "root_agent")
    assert found.config is not None
    assert found.config_file == directory / "agentengine.yaml"
    assert found.config.workspace == "./files"
    assert found.as_config().for_card() == {
        "name": "天气",
        "base_url": "https://w.example.com",
        "description": "Tells the weather.",
        "version": "0.2",
        "documentation_url": "https://w.example.com/docs",
        "icon_url": "https://w.example.com/icon.png",
        "input_modes": ("text/plain", "image/png"),
        "output_modes": ("application/json",),
        "skills": ("forecast", {"id": "warn", "tags": ["storm", "flood"]}),
        "provider": {"organization": "O", "url": "https://o.example.com"},
    }


def test_ksadk_yaml_is_read_where_there_is_no_agentengine_yaml(tmp_path: Path) -> None:
    assert detect_project(project(tmp_path, ksadk_yaml="name: k")).name == "k"


def test_the_guides_example_is_a_configuration_that_gives_every_field(tmp_path: Path) -> None:
    guide = Path(__file__).resolve().parents[2] / "docs/card.md"
    [example] = re.findall(r"^```yaml\n(.*?)^```$", guide.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    config = read_config(project(tmp_path, agentengine_yaml=example) / "agentengine.yaml")
    assert config.warnings == ()
    empty = [field.name for field in fields(config) if not getattr(config, field.name)]
    assert empty == ["warnings"]


def test_an_empty_configuration_makes_a_project_of_the_directorys_name(tmp_path: Path) -> None:
    assert detect_project(project(tmp_path, agentengine_yaml="# nothing yet\n")).name == "weather-bot"


def test_an_unknown_key_is_a_warning_with_its_line(tmp_path: Path) -> None:
    config = read_config(project(tmp_path, agentengine_yaml="name: n\ndescripton: d\n") / "agentengine.yaml")
    [warning] = config.warnings
    assert warning.endswith(
        "agentengine.yaml:2: unknown key descripton is not used; did you mean description?"
    )


@pytest.mark.parametrize(
    ("file", "text", "line", "words"),
    [
        ("agentengine.yaml", "name: n\n  bad: [", 2, "not YAML"),
        ("agentengine.yaml", "name: n\nversion: 1.0", 2, "version must be text, and 1.0 is a number"),
        ("agentengine.yaml", "name: 3", 1, "name must be text, and 3 is a number"),
        ("agentengine.yaml", "name: true", 1, "name must be text, and true is not"),
        ("agentengine.yaml", "name: 2024-01-01", 1, "name must be text, and 2024-01-01 is a date"),
        ("agentengine.yaml", "name: !x 1", 1, "name must be text, and 1 is not"),
        ("agentengine.yaml", "skills: [~]", 1, "each of skills must be text, and ~ is not"),
        ("agentengine.yaml", "skills:\n  -\n", 2, "each of skills must be text, and is empty"),
        ("agentengine.yaml", "name: {a: b}", 1, "name must be text, and is a mapping"),
        ("agentengine.yaml", "name: [n]", 1, "name must be text, and is a list"),
        ("agentengine.yaml", "name: n\nskills: research", 2, "skills must be a list"),
        ("agentengine.yaml", "skills:\n  - id: a\n  - name: b", 3, "a skill needs an id"),
        ("agentengine.yaml", "skills:\n  - id: a\n    tagz: []", 2, "unknown key tagz"),
        ("agentengine.yaml", "name: n\nframework: lang", 2, "'lang' is not known"),
        ("agentengine.yaml", "provider:\n  organization: O", 2, "exactly organization and url"),
        ("agentengine.yaml", "name: a\nname: b", 2, "name is given twice"),
        ("agentengine.yaml", "variable: a\nagent_variable: b", 2, "given twice"),
        ("agentengine.yaml", "- name", 1, "has keys and values"),
        ("agentengine.yaml", "name: n\n---\nname: m", 2, "not YAML"),
        ("agentengine.yaml", "name: n\nx: \x07", 2, "a control character"),
        ("agentengine.yaml", "entry_point: gone.py", None, "gone.py is not there"),
        ("agentengine.yaml", "entry_point: ../weather-bot2/agent.py", None, "outside the project"),
        ("agentengine.yaml", "entry_point: agent.py:a b", None, "not of the form"),
        ("agentengine.yaml", "entry_point: agent.py\nvariable: x", None, "nothing in it is called x"),
        ("agentengine.yaml", "[" * 1500, None, "nested too deeply"),
        ("langgraph.json", '{\n"graphs": }', 2, "not JSON"),
        ("langgraph.json", '{"graphs": []}', None, "graphs is not a table"),
        ("langgraph.json", "[]", None, "graphs is not a table"),
        ("langgraph.json", '{"graphs": {"a": 3}}', None, "path is not text"),
        ("langgraph.json", "[" * 100_000, None, "not JSON"),
        ("pyproject.toml", "[project]\nname = ", 2, "not TOML"),
        ("pyproject.toml", "[project]\nname = 3", None, "name is not text"),
        ("pyproject.toml", "[tool.poetry]\nversion = 3", None, "version is not text"),
        ("pyproject.toml", "tool = 3", None, "tool is not a table"),
        ("agent.py", "x = 1\ndef agent(:", 2, "not Python"),
        ("agent.py", "a = '\x00'", None, "not Python"),
        ("agent.py", "(" * 5000, None, "not Python"),
        ("agent.py", "-" * 100_000 + "1", None, "not Python"),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, file: str, text: str, line: int | None, words: str
) -> None:
    directory = project(tmp_path, agent_py="def agent(m): ...")
    outside = tmp_path / "weather-bot2"
    outside.mkdir()
    (outside / "agent.py").write_text("def agent(m): ...", encoding="utf-8")
    (directory / file).write_text(text, encoding="utf-8")
    with pytest.raises(ProjectFileError) as caught:
        detect_project(directory)
    assert caught.value.code == "invalid_project_file"
    named = "agent.py" if "nothing in it" in words else file
    assert caught.value.message.startswith(
        f"{directory / named}:{line}: " if line else f"{directory / named}"
    )
    assert words in caught.value.message


def test_a_directory_may_be_given_as_text(tmp_path: Path) -> None:
    directory = project(tmp_path, agent_py=ADK)
    assert detect_project(str(directory)) == detect_project(directory)


def test_a_lenient_look_takes_what_it_can_read_and_warns_of_the_rest(tmp_path: Path) -> None:
    empty = detect_project(project(tmp_path), lenient=True)
    assert (empty.name, empty.framework, empty.warnings) == ("weather-bot", None, ())
    directory = project(tmp_path, pyproject_toml="[project]\nname =", langgraph_json="{", agent_py=ADK)
    found = detect_project(directory, lenient=True)
    assert found.description == "Tells the weather."
    assert [warning.partition(": ")[0] for warning in found.as_config().warnings] == [
        f"{directory}/langgraph.json:1", f"{directory}/pyproject.toml:2",
    ]  # fmt: skip
    (directory / "agentengine.yaml").write_text("name: [n]", encoding="utf-8")
    with pytest.raises(ProjectFileError, match=r"agentengine\.yaml:1"):
        detect_project(directory, lenient=True)


def test_files_that_are_too_large_or_not_utf8_are_refused(tmp_path: Path) -> None:
    directory = project(tmp_path, agent_py="#" * (1024 * 1024 + 1))
    with pytest.raises(ProjectFileError, match="larger than 1 MiB"):
        detect_project(directory)
    (directory / "agentengine.yaml").write_bytes(b"name: n\ndescription: \xff\n")
    with pytest.raises(ProjectFileError, match=r"agentengine\.yaml:2: is not UTF-8 text"):
        detect_project(directory)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_configuration_makes_the_reader_fail(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "agentengine.yaml"
    path.write_bytes(data)
    try:
        read_config(path)
    except KsadkError as error:
        assert str(path) in error.message


PIECES = [
    "name", "skills", "id", ": ", "- ", "\n", "  ", "[", "]", "{", "}", "&a ", "*a", "!!str ", "'", '"',
    "? ", "#", "%YAML 1.1\n", "---\n", "<<: ", "~", "1",
    "!!python/object:os.system ", "\t", "!<", "@", "|", ">\n",
]  # fmt: skip
YAML_PIECES = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


@given(YAML_PIECES)
def test_no_arrangement_of_yaml_makes_the_reader_fail(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "agentengine.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        read_config(path)
    except KsadkError as error:
        assert str(path) in error.message
