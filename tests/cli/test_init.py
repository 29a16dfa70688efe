"""`agentengine init`: what it writes works, and it destroys nothing."""

import ast
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support import unprivileged

from ksadk.config_file import FRAMEWORKS

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def unprivileged_agentengine() -> Run:
    """Runs the program so that file modes hold for it."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*unprivileged(), sys.executable, "-m", "agentengine_cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


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
    card, serve = (shlex.split(line.partition(": agentengine ")[2]) for line in printed.splitlines()[-2:])
    assert json.loads(agentengine(*card).stdout)["name"] == directory
    assert serve == ["a2a", "serve", card[-1]]


def test_the_plain_agent_runs(agentengine: Run) -> None:
    agentengine("init")
    done = subprocess.run([sys.executable, "agent.py", "hi"], capture_output=True, text=True, check=True)
    assert done.stdout == "You said: hi\n"


def need(*modules: str) -> None:
    """Frameworks are always there in continuous integration, and elsewhere where they are wanted."""
    for module in modules:
        if os.environ.get("CI") == "true":
            assert importlib.util.find_spec(module), f"{module} is not installed, and required here"
        else:
            pytest.importorskip(module, reason=f"{module} is not installed (pip install -e '.[frameworks]')")


def test_a_graph_answers_without_a_key(agentengine: Run) -> None:
    need("langgraph")
    agentengine("init", "--framework", "langgraph")
    done = subprocess.run([sys.executable, "agent.py", "hi"], capture_output=True, text=True, check=True)
    assert done.stdout == "You said: hi\n"


def test_a_langchain_agent_answers_without_a_key(agentengine: Run) -> None:
    need("langchain")
    agentengine("init", "--framework", "langchain")
    done = subprocess.run([sys.executable, "agent.py", "hi"], capture_output=True, text=True, check=True)
    assert done.stdout == "hi\n"


def test_an_adk_agent_imports_without_a_key(agentengine: Run) -> None:
    need("google.adk")
    agentengine("init", "--framework", "google-adk")
    subprocess.run([sys.executable, "-c", "import agent; assert agent.root_agent.tools"], check=True)


class ModelService(BaseHTTPRequestHandler):
    """Answers as OpenAI's chat completions do, and keeps what it is asked."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        known = self.path == "/v1/chat/completions"
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Two."}}
        completion = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(completion if known else {}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing, where a test shows what failed."""


@pytest.fixture
def model_service() -> Iterator[str]:
    ModelService.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), ModelService) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("framework", ["langchain", "deepagents"])
def test_an_agent_with_a_model_offers_its_tool_and_prints_the_answer(
    agentengine: Run, model_service: str, framework: str
) -> None:
    need(framework, "langchain_openai")
    agentengine("init", "--framework", framework)
    variables = {"OPENAI_API_KEY": "k", "OPENAI_MODEL_NAME": "small", "OPENAI_BASE_URL": model_service}
    done = subprocess.run(
        [sys.executable, "agent.py", "how many"],
        env={**os.environ, **variables, "NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "Two.\n"
    [asked] = ModelService.asked
    assert asked["model"] == "small"
    assert "word_count" in [tool["function"]["name"] for tool in asked["tools"]]


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


def test_a_gitignore_behind_a_link_in_the_directory_gains_its_line_there(agentengine: Run) -> None:
    Path("shared").mkdir()
    Path("shared/ignored").write_text("*.pyc\n")
    Path(".gitignore").symlink_to("shared/ignored")
    assert agentengine("init").returncode == 0
    assert Path(".gitignore").is_symlink()
    assert Path("shared/ignored").read_text() == "*.pyc\n.agentengine/\n"
    assert sorted(path.name for path in Path().rglob("*")) == [
        ".gitignore", "agent.py", "agentengine.yaml", "ignored", "shared",
    ]  # fmt: skip


def test_a_gitignore_behind_a_link_out_of_the_directory_is_left_alone(
    agentengine: Run, tmp_path: Path
) -> None:
    other = tmp_path / "ignored"
    other.write_text("*.pyc\n")
    Path(".gitignore").symlink_to(other)
    done = agentengine("init", "--force")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: nothing was written: .gitignore leads to {other}\n")
    assert [path.name for path in Path().iterdir()] == [".gitignore"]
    assert other.read_text() == "*.pyc\n"
    other.write_text(".agentengine/\n")  # as the hint says
    assert agentengine("init").returncode == 0


def _directory(path: Path) -> None:
    path.mkdir()


def _dangling(path: Path) -> None:
    path.symlink_to("gone")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("make", [_directory, os.mkfifo, _dangling, _loop])
def test_a_gitignore_that_is_no_file_is_left_alone_and_nothing_is_written(
    agentengine: Run, make: Callable[[Path], None], force: list[str]
) -> None:
    make(Path(".gitignore"))
    kind = Path(".gitignore").lstat().st_mode
    done = agentengine("init", *force)
    assert done.returncode == 1
    assert ".gitignore" in done.stderr
    assert [path.name for path in Path().iterdir()] == [".gitignore"]
    assert Path(".gitignore").lstat().st_mode == kind


def test_a_gitignore_that_may_not_be_read_is_told_and_nothing_is_written(
    unprivileged_agentengine: Run,
) -> None:
    Path(".gitignore").touch(mode=0)
    done = unprivileged_agentengine("init")
    assert (done.returncode, done.stderr) == (1, "error: .gitignore cannot be read: Permission denied\n")
    assert [path.name for path in Path().iterdir()] == [".gitignore"]


@pytest.mark.parametrize(("mode", "directory"), [(0, "closed/sub"), (0o400, "closed"), (0o500, "closed")])
def test_a_directory_that_may_not_be_written_is_told(
    unprivileged_agentengine: Run, mode: int, directory: str
) -> None:
    Path("closed").mkdir(mode)
    done = unprivileged_agentengine("init", directory)
    Path("closed").chmod(0o700)
    assert (done.returncode, done.stderr) == (1, f"error: {directory} cannot be written: Permission denied\n")
    assert list(Path("closed").iterdir()) == []


@pytest.mark.parametrize(
    ("directory", "status", "words"),
    [
        ("a" * 300, 1, "cannot be written: File name too long"),
        ("a/" * 2500, 1, "cannot be written: File name too long"),
        ("loop", 1, "cannot be looked at: Too many levels of symbolic links"),
        ("dangling", 2, "dangling is not a directory"),
    ],
)
def test_a_directory_that_cannot_be_one_is_told(
    agentengine: Run, directory: str, status: int, words: str
) -> None:
    _loop(Path("loop"))
    _dangling(Path("dangling"))
    done = agentengine("init", directory)
    assert done.returncode == status
    assert words in done.stderr
    assert sorted(path.name for path in Path().iterdir()) == ["dangling", "loop"]


def test_where_one_file_cannot_be_written_none_is() -> None:
    Path(".gitignore").write_text("#" * 30_000)
    full = "import resource as r, signal as s; s.signal(s.SIGXFSZ, s.SIG_IGN); "
    full += "r.setrlimit(r.RLIMIT_FSIZE, (20_000, 20_000)); from agentengine_cli.main import run; "
    done = subprocess.run(
        [sys.executable, "-c", full + "raise SystemExit(run(['init']))"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (1, "error: . cannot be written: File too large\n")
    assert [path.name for path in Path().iterdir()] == [".gitignore"]


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
