"""From a project or a name to a runner, and what is said where that cannot be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_runs import run_all, texts

from ksadk.a2a.runners.base import RunnerError
from ksadk.a2a.runners.callable import CallableRunner
from ksadk.a2a.runners.detect import load_runner, runner_of

ECHO = "def root_agent(text):\n    return 'echo ' + text\n"


@pytest.fixture(autouse=True)
def own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test imports from its own directory is forgotten after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    here = str(Path.cwd())
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(here):
            del sys.modules[name]


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


IT = "def it(text):\n    return 'echo ' + text\n"
HELPED = "from helpers import it\ndef root_agent(text):\n    return it(text)\n"
OBJECT = "class A:\n    def run(self, text):\n        return 'echo ' + text\nroot_agent = A()\n"
CONFIG = "name: n\nframework: python\n"

PROJECTS = {
    "a file of the usual name": ({"agent.py": ECHO}, "."),
    "a configuration": (
        {"agentengine.yaml": f"{CONFIG}entry_point: mine.py\nagent_variable: it\n", "mine.py": IT}, ".",
    ),
    "a package below src": (
        {
            "agentengine.yaml": f"{CONFIG}entry_point: pkg.mine:it\n", "src/pkg/__init__.py": "",
            "src/pkg/mine.py": "from pkg.other import it\n", "src/pkg/other.py": IT,
        },
        ".",
    ),
    "a sibling module": ({"agent.py": HELPED, "helpers.py": IT}, "."),
    "a module that is called as one of Python's": (
        {"agentengine.yaml": f"{CONFIG}entry_point: json.py:root_agent\n", "json.py": ECHO}, ".",
    ),
    "a name that is none": (
        {"agentengine.yaml": f"{CONFIG}entry_point: my-agent.py:root_agent\n", "my-agent.py": ECHO}, ".",
    ),
    "module and name": ({"mymodule.py": ECHO}, "mymodule:root_agent"),
    "module of a package": ({"pkg/__init__.py": "", "pkg/deep.py": ECHO}, "pkg.deep:root_agent"),
    "file and name": ({"elsewhere/agent.py": ECHO}, "elsewhere/agent.py:root_agent"),
    "an object that runs": ({"agent.py": OBJECT}, "."),
}  # fmt: skip


@pytest.mark.parametrize(("files", "agent"), PROJECTS.values(), ids=PROJECTS)
def test_an_agent_is_found_and_runs(files: dict[str, str], agent: str) -> None:
    for name, text in files.items():
        write(name, text)
    runner = load_runner(agent)
    assert isinstance(runner, CallableRunner)
    assert texts(run_all(runner)[0]) == "echo go"


RAISES = "def f():\n    raise ValueError('boom')\nf()\n"
CLASS = "class agent:\n    def __call__(self, text): ...\n"

BROKEN = {
    "no such module": ("", "nowhere:agent", "there is no module nowhere", "directory"),
    "no such file": ("", "nowhere.py:agent", "is not there", ""),
    "no such name": (ECHO, "m:agent", "m has no agent", "It has root_agent."),
    "nothing at all": ("x = 1\n", "m:agent", "m has no agent", "nothing"),
    "a package that is missing": ("import absent_one\n", "m:agent", "not installed", "install absent_one"),
    "an exception": (RAISES, "m:agent", "ValueError: boom", "m.py:2: raise ValueError('boom')"),
    "an exit": ("raise SystemExit(3)\n", "m:agent", "SystemExit", "m.py:1"),
    "no Python": ("x = 1\ndef f(:\n", "m:agent", "SyntaxError", "m.py:2: def f(:"),
    "a class": (CLASS, "m:agent", "is a class", "agent(...)"),
    "no agent": ("agent = 3\n", "m:agent", "int, which is no agent", "callable"),
    "other arguments": ("def agent(): ...\n", "m:agent", "one argument", "call"),
}


@pytest.mark.parametrize(("source", "agent", "message", "hint"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_loaded_says_why(source: str, agent: str, message: str, hint: str) -> None:
    write("m.py", source)
    with pytest.raises(RunnerError) as caught:
        load_runner(agent)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.code == "agent_not_loadable"


def test_a_framework_that_the_agent_does_not_use_is_not_imported() -> None:
    write("agent.py", ECHO)
    script = (
        "import sys; from ksadk.a2a.runners.detect import load_runner; load_runner('.')\n"
        "print({'langgraph', 'langchain_core', 'google.adk', 'a2a', 'httpx'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_objects_of_frameworks_get_their_runners() -> None:
    pytest.importorskip("langgraph")
    pytest.importorskip("google.adk")
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.runnables import RunnableLambda
    from langgraph.graph import START, MessagesState, StateGraph

    from ksadk.a2a.runners.adk import AdkRunner
    from ksadk.a2a.runners.langgraph import LangGraphRunner

    graph = StateGraph(MessagesState)
    graph.add_node("n", lambda state: {})
    graph.add_edge(START, "n")
    agent = LlmAgent(name="a", model="none")
    kinds = {
        LangGraphRunner: [graph, graph.compile()],
        AdkRunner: [agent, App(name="app", root_agent=agent)],
        CallableRunner: [
            FakeListChatModel(responses=["x"]),
            RunnableLambda(str.upper),
            str.upper,
            lambda t: t,
        ],
    }
    for kind, objects in kinds.items():
        for item in objects:
            assert isinstance(runner_of(item), kind)


def test_a_function_of_a_langgraph_project_that_takes_nothing_makes_the_graph() -> None:
    pytest.importorskip("langgraph")
    write("langgraph.json", '{"graphs": {"agent": "./agent.py:make"}}')
    write(
        "agent.py",
        "from langchain_core.messages import AIMessage\n"
        "from langgraph.graph import START, MessagesState, StateGraph\n"
        "def make():\n"
        "    graph = StateGraph(MessagesState)\n"
        "    graph.add_node('n', lambda state: {'messages': [AIMessage('made')]})\n"
        "    graph.add_edge(START, 'n')\n"
        "    return graph\n",
    )
    assert texts(run_all(load_runner("."))[0]) == "made"


def test_the_session_service_of_an_adk_module_is_used() -> None:
    pytest.importorskip("google.adk")
    from ksadk.a2a.runners.adk import AdkRunner

    write(
        "agent.py",
        "from google.adk.agents import LlmAgent\n"
        "from google.adk.sessions import DatabaseSessionService\n"
        "session_service = DatabaseSessionService('sqlite+aiosqlite:///sessions.db')\n"
        "root_agent = LlmAgent(name='a', model='none')\n",
    )
    runner = load_runner(".")
    assert isinstance(runner, AdkRunner)
    assert runner.durable
