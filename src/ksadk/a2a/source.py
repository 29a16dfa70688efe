"""What a Python file tells of its agent, read from its syntax tree; nothing is imported or run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ksadk.config_file import Framework
from ksadk.project_files import ProjectFileError, read_file

# The most particular first: an agent of DeepAgents imports LangGraph and LangChain too.
_FRAMEWORK_OF_IMPORT: dict[str, Framework] = {
    "deepagents": "deepagents",
    "google.adk": "google-adk",
    "langgraph": "langgraph",
    "langchain": "langchain",
    "langchain_core": "langchain",
}
_VARIABLES = ("root_agent", "agent", "graph", "app", "workflow")
_PLAIN_VARIABLES = ("root_agent", "agent", "run", "handle")
"""In a file of no framework a variable `app` is more often a web server."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceFacts:
    """The agent in a file; texts that the file does not tell are empty."""

    framework: Framework
    variable: str
    name: str = ""
    description: str = ""


def read_source(path: Path, variable: str = "") -> SourceFacts | None:
    """The agent that a file binds at module level: to `variable`, else to one of the usual names.

    None when there is no such agent. Syntax that Python does not take is a `ProjectFileError`.
    """
    tree = _parse(path)
    bindings = dict(_bindings(tree.body))
    framework = _framework(tree)
    names = (variable,) if variable else _usual_names(framework)
    found = next((name for name in names if name in bindings), None)
    if found is None:
        return None
    bound = bindings[found]
    texts = {name: text for name, value in bindings.items() if (text := _text(value, {}))}
    arguments = _arguments(bound, texts)
    docstrings = [tree, bound] if isinstance(bound, Function | ast.ClassDef) else [tree]
    description = arguments.get("description") or next(filter(None, map(_first_line, docstrings)), "")
    return SourceFacts(framework or "python", found, arguments.get("name", ""), description)


def usual_names(path: Path) -> tuple[str, ...]:
    """What an agent is called in a file of this one's imports."""
    return _usual_names(_framework(_parse(path)))


def _usual_names(framework: Framework | None) -> tuple[str, ...]:
    return _VARIABLES if framework else _PLAIN_VARIABLES


def _parse(path: Path) -> ast.Module:
    source = read_file(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python thinks of a stranger's style
            return ast.parse(source, filename=str(path))
    except SyntaxError as error:
        raise ProjectFileError(path, error.lineno, f"not Python: {error.msg}") from error
    except (RecursionError, MemoryError) as error:
        raise ProjectFileError(path, None, "not Python: nested too deeply") from error
    except ValueError as error:
        raise ProjectFileError(path, None, f"not Python: {error}") from error


def _bindings(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Each name that a module binds, with what it is bound to; of a repeated name the last one counts."""
    pending = body[::-1]  # a stack, since each `elif` is nested in the one before
    while pending:
        statement = pending.pop()
        match statement:
            case ast.Assign(targets=targets, value=value):
                yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, statement
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from ((alias.asname or alias.name, statement) for alias in aliases)
            case ast.If(test=test) if _asks_whether_it_is_run(test):
                continue
            case ast.If() | ast.Try() | ast.With():
                for field in ("finalbody", "orelse", "body"):
                    pending.extend(reversed(getattr(statement, field, [])))


def _asks_whether_it_is_run(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(test))


def _framework(tree: ast.Module) -> Framework | None:
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
    for prefix, framework in _FRAMEWORK_OF_IMPORT.items():
        if any(module == prefix or module.startswith(prefix + ".") for module in modules):
            return framework
    return None


def _arguments(bound: ast.AST, texts: dict[str, str]) -> dict[str, str]:
    """The keyword arguments of a call that are texts, written out or named by a constant."""
    if not isinstance(bound, ast.Call):
        return {}
    return {
        keyword.arg: " ".join(text.split())
        for keyword in bound.keywords
        if keyword.arg and (text := _text(keyword.value, texts))
    }


def _text(node: ast.AST, texts: dict[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return texts.get(node.id, "") if isinstance(node, ast.Name) else ""


def _first_line(node: ast.Module | Function | ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").strip().partition("\n")[0].strip()
