"""What a start does not import: shell completion starts the program at each TAB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FRAMEWORKS = {
    "langchain_core",
    "langgraph",
    "langchain",
    "agents",
    "openai",
    "mcp",
    "e2b",
    "sqlalchemy",
    "grpc",
}
HEAVY = FRAMEWORKS | {
    "pydantic", "pydantic_core", "rich", "a2a", "google", "httpx", "sqlite3", "ruamel", "asyncio",
    "starlette", "multiprocessing", "concurrent.futures", "ssl", "http.client", "email", "unittest",
    "importlib.metadata", "zipfile", "tempfile", "yaml", "tomllib", "logging",
}  # fmt: skip
CHECKS = {"pydantic", "pydantic_core", "email", "importlib.metadata", "zipfile", "tempfile"}
"""What pydantic brings, where arguments are checked."""
LIGHT_SDK = HEAVY | {"subprocess", "typer", "agentengine_cli"}

SKILLS = Path(__file__).resolve().parents[2] / "examples" / "skills"

RUN = """
import sys
from agentengine_cli.main import run
status = run(sys.argv[1:])
import json
print(json.dumps([status, sorted(sys.modules)]), file=sys.stderr)
"""
IMPORT = """
import importlib, sys
importlib.import_module(sys.argv[1])
import json
print(json.dumps([0, sorted(sys.modules)]), file=sys.stderr)
"""


def imported(code: str, *arguments: str, status: int = 0) -> set[str]:
    """The modules that a fresh interpreter has after it ran that."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    ended, modules = json.loads(done.stderr.splitlines()[-1])
    assert ended == status, done.stderr
    return set(modules)


@pytest.mark.parametrize(
    ("line", "without", "status"),
    [
        ("", HEAVY, 0),
        ("--help", HEAVY, 0),
        ("--version", HEAVY - {"email", "importlib.metadata", "zipfile", "tempfile"}, 0),
        ("tools list", HEAVY, 0),
        ("tools list --json", HEAVY, 0),
        ("tools list --profile coding --enabled", HEAVY, 0),
        ("tools --help", HEAVY, 0),
        ("tools call --help", HEAVY, 0),
        ("a2a --help", HEAVY, 0),
        ("a2a card --help", HEAVY, 0),
        ("a2a call --help", HEAVY, 0),
        ("a2a status --help", HEAVY, 0),
        ("a2a discover --help", HEAVY, 0),
        ("a2a center --help", HEAVY, 0),
        ("a2a register --help", HEAVY, 0),
        ("a2a card --url https://agent.example.com --name N", HEAVY, 0),
        ("workspace --help", HEAVY, 0),
        ("sandbox --help", HEAVY, 0),
        ("sandbox run --help", HEAVY, 0),
        ("sandbox list", HEAVY, 0),
        ("approvals --help", HEAVY, 0),
        ("approvals list", HEAVY - {"sqlite3"}, 0),
        ("init --help", HEAVY - {"tempfile"}, 0),
        ("nothing", HEAVY, 2),
        ("workspace status --root .", HEAVY, 0),
        ("workspace read f --root .", HEAVY, 0),
        ("tools search file", HEAVY, 0),
        ("workspace write g --content x --root .", HEAVY - CHECKS - {"sqlite3"}, 6),
        ("skills --help", HEAVY, 0),
        ("skills list", HEAVY, 0),
        ("skills search word", HEAVY, 0),
        ("skills load word-count", HEAVY - {"yaml", "zipfile", "tempfile"}, 0),
        ("skills execute --help", HEAVY, 0),
        ("skills lint --help", HEAVY, 0),
        ("skills serve --help", HEAVY, 0),
    ],
)
def test_a_command_does_not_import(
    line: str, without: set[str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("f").write_text("text\n")
    monkeypatch.setenv("KSADK_LOCAL_SKILLS_DIR", str(SKILLS))
    if line.startswith("skills "):
        imported(RUN, "skills", "list")  # what it reads of each skill is kept
    assert imported(RUN, *line.split(), status=status) & without == set()


@pytest.mark.parametrize(
    "module",
    [
        "ksadk", "ksadk.a2a", "ksadk.toolsets", "ksadk.tools", "ksadk.tools.gateway", "ksadk.errors",
        "ksadk.settings", "ksadk.runtime_context", "ksadk.sessions", "ksadk.toolsets.workspace",
        "ksadk.toolsets.dispatcher", "ksadk.toolsets.sandbox", "ksadk.toolsets.skills", "ksadk.toolsets.web",
        "ksadk.toolsets.platform",
    ],
)  # fmt: skip
def test_an_import_does_not_import(module: str) -> None:
    assert imported(IMPORT, module) & LIGHT_SDK == set()


@pytest.mark.parametrize("package", ["ksadk", "ksadk.a2a", "ksadk.toolsets"])
def test_a_package_that_only_lists_its_names_loads_none_of_its_modules(package: str) -> None:
    loaded = {name for name in imported(IMPORT, package) if name.startswith("ksadk")}
    assert loaded == {"ksadk", package}


@pytest.mark.parametrize("module", ["ksadk.a2a.client", "ksadk.a2a.space.client", "ksadk.toolsets.a2a_space"])
def test_what_calls_agents_loads_nothing_that_serves_them(module: str) -> None:
    serving = {"a2a.server", "sqlalchemy", "uvicorn", "ksadk.a2a.center", "ksadk.a2a.server"}
    assert imported(IMPORT, module) & serving == set()
