"""Imports point down, engines do not know each other, and only one file reads the environment."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
FILES = sorted(SRC.rglob("*.py"))

LAYERS = (
    {"ksadk.errors"},
    {
        "ksadk.settings", "ksadk.runtime_context", "ksadk.sessions", "ksadk.config_file",
        "ksadk.project_files", "ksadk.masking", "ksadk.hosts", "ksadk.public_addresses", "ksadk.listening",
        "ksadk.search_terms", "ksadk.whole_files",
    },
    {"ksadk.workspace", "ksadk.web", "ksadk.sandbox", "ksadk.skills", "ksadk.a2a"},
    {"ksadk.tools", "ksadk.mcp_runtime"},
    {"ksadk.toolsets", "ksadk.runs"},
    {"agentengine_cli"},
)  # fmt: skip
"""From the bottom to the top."""

ENGINES = LAYERS[2]

SPEAKING = {"print", "input", "sys.stdin", "sys.stdout", "sys.stderr"}


def part(module: str) -> str:
    """What the table of layers calls a module."""
    words = module.split(".")
    return words[0] if words[0] == "agentengine_cli" else ".".join(words[:2])


def layer(module: str) -> int:
    return next(number for number, members in enumerate(LAYERS) if part(module) in members)


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def imports(file: Path) -> Iterator[str]:
    """Every module that a file imports, also inside functions and for types only."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative imports hide where they point"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(file: Path) -> list[str]:
    return [name for name in imports(file) if name.split(".")[0] in {"ksadk", "agentengine_cli"}]


def shown(file: Path) -> str:
    return file.relative_to(SRC).as_posix()


def test_every_module_has_a_layer() -> None:
    known = set().union(*LAYERS) | {"ksadk"}
    assert {part(module_of(file)) for file in FILES} - known == set()


@pytest.mark.parametrize("file", FILES, ids=shown)
def test_imports_point_down(file: Path) -> None:
    if module_of(file) == "ksadk":
        assert ours(file) == []
        return
    own = layer(module_of(file))
    assert [name for name in ours(file) if layer(name) > own] == []


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_an_engine_knows_no_other_engine(engine: str) -> None:
    files = [file for file in FILES if part(module_of(file)) == engine]
    met = {part(name) for file in files for name in ours(file)} & ENGINES
    assert met <= {engine}


def test_the_sdk_knows_neither_the_command_line_nor_its_libraries() -> None:
    strangers = {"agentengine_cli", "typer", "rich", "click"}
    found = [
        (shown(file), name)
        for file in FILES
        if shown(file).startswith("ksadk/")
        for name in imports(file)
        if name.split(".")[0] in strangers
    ]
    assert found == []


def test_the_sdk_prints_nothing() -> None:
    found = []
    for file in FILES:
        if not shown(file).startswith("ksadk/"):
            continue
        for node in ast.walk(tree(file)):
            if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
                continue  # a field may be called `input`
            if ast.unparse(node) in SPEAKING:
                found.append((shown(file), node.lineno))
    assert found == []


def test_the_environment_is_read_in_one_file() -> None:
    readers = {
        shown(file)
        for file in FILES
        for node in ast.walk(tree(file))
        if (isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv", "getenvb"})
        or (isinstance(node, ast.alias) and node.name in {"environ", "environb", "getenv", "getenvb"})
    }
    assert readers == {"ksadk/settings.py"}


def test_click_is_never_imported_since_typer_has_its_own() -> None:
    assert [
        shown(file) for file in FILES if any(name.split(".")[0] == "click" for name in imports(file))
    ] == []


def test_only_the_gateway_calls_a_tools_function() -> None:
    callers = {
        shown(file)
        for file in FILES
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("tool.func")
    }
    assert callers == {"ksadk/tools/gateway.py"}


@pytest.mark.parametrize("file", FILES, ids=shown)
def test_a_file_has_one_noun(file: Path) -> None:
    allowed = {"ksadk/settings.py": 650}  # one line and more for each variable
    assert len(file.read_text("utf-8").splitlines()) <= allowed.get(shown(file), 400)
