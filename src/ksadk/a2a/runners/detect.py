"""Finds an agent's object in its module, and the runner for its kind. No framework is imported for that."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ksadk.a2a.project import Project, detect_project
from ksadk.a2a.runners.base import Runner, RunnerError
from ksadk.a2a.runners.callable import CallableRunner

USUAL_NAMES = ("root_agent", "agent", "graph", "app", "workflow", "run", "handle")

_PACKAGES = {
    "google": "google-adk", "langchain": "langchain", "langchain_core": "langchain-core",
    "langgraph": "langgraph", "deepagents": "deepagents",
}  # fmt: skip


def load_runner(agent: str | Path = ".", *, project: Project | None = None) -> Runner:
    """The runner of an agent: of `module:name`, `file.py:name`, or of the project in a directory.

    The agent's module is imported, with its directory first on `sys.path`; so this is called once in a
    process, and in the event loop that the agent will run on, since objects in the module may want one.
    Raises `RunnerError`, and what `detect_project` raises.
    """
    if project is None and _names_a_module(agent):
        place, _, name = str(agent).rpartition(":")
        return runner_of(*_find(_import(place, Path.cwd()), name, str(agent)))
    project = project or detect_project(agent)
    if not project.entry:
        raise RunnerError(
            f"nothing in {project.directory} says where the agent is",
            hint="agentengine.yaml says it: entry_point: agent.py and agent_variable: agent.",
        )
    directory = project.directory.resolve()
    module = _import_file(directory / project.entry, directory)
    found = _find(module, project.variable, project.entry)
    if project.framework in ("langgraph", "deepagents") and _is_factory(found[0]):
        from ksadk.a2a.runners.langgraph import LangGraphRunner

        return LangGraphRunner(found[0])
    return runner_of(*found)


def runner_of(agent: Any, name: str = "the agent", module: ModuleType | None = None) -> Runner:
    """The runner for an object, chosen by its kind; `module` may hold what it is used with."""
    if _is_a(agent, "langgraph.pregel.protocol", "PregelProtocol") or _is_a(
        agent, "langgraph.graph.state", "StateGraph"
    ):
        from ksadk.a2a.runners.langgraph import LangGraphRunner

        return LangGraphRunner(agent)
    if _is_a(agent, "langchain_core.runnables.base", "Runnable"):
        from ksadk.a2a.runners.langchain import langchain_runner

        return langchain_runner(agent)
    if any(_is_a(agent, place, kind) for place, kind in _ADK_KINDS):
        from ksadk.a2a.runners.adk import AdkRunner

        return AdkRunner(agent, session_service=getattr(module, "session_service", None))
    if inspect.isclass(agent):
        raise RunnerError(f"{name} is a class", hint=f"Make one of it: agent = {agent.__name__}(...).")
    if not callable(agent):
        run = getattr(agent, "run", None)
        if not callable(run):
            raise RunnerError(
                f"{name} is {type(agent).__name__}, which is no agent",
                hint="An agent is a callable, or one of LangGraph, LangChain, DeepAgents or Google ADK.",
            )
        agent = run
    return CallableRunner(agent, name)


_ADK_KINDS = (
    ("google.adk.agents.base_agent", "BaseAgent"), ("google.adk.workflow._base_node", "BaseNode"),
    ("google.adk.apps.app", "App"), ("google.adk.runners", "Runner"),
)  # fmt: skip


def _is_a(agent: Any, module: str, kind: str) -> bool:
    """Whether it is of a framework's kind. What is not imported has no objects."""
    found = getattr(sys.modules.get(module), kind, None)
    return isinstance(found, type) and isinstance(agent, found)


def _is_factory(agent: Any) -> bool:
    """Whether a function makes a graph: it takes nothing, or LangGraph's configuration."""
    if not inspect.isfunction(agent):
        return False
    parameters = list(inspect.signature(agent).parameters)
    return not parameters or parameters[0] == "config"


def _names_a_module(agent: str | Path) -> bool:
    return isinstance(agent, str) and ":" in agent and not os.path.isdir(agent)  # noqa: PTH112


def _import(place: str, directory: Path) -> ModuleType:
    if place.endswith(".py"):
        path = directory / place
        return _import_file(path, path.parent)
    _put_first(directory)
    return _running_it(lambda: importlib.import_module(place), place)


def _import_file(path: Path, directory: Path) -> ModuleType:
    """Import a file under the name that the project's own code has for it."""
    if not path.is_file():
        raise RunnerError(f"the agent's file {path} is not there")
    root = directory / "src" if path.is_relative_to(directory / "src") else directory
    for place in (root, path.parent):
        _put_first(place)
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    if not all(part.isidentifier() for part in name.split(".")):
        return _running_it(lambda: _load(path), str(path))
    found = importlib.util.find_spec(name.partition(".")[0])
    if found is not None and not _below(found, root):
        return _running_it(lambda: _load(path), str(path))  # its name is another module's
    module = _running_it(lambda: importlib.import_module(name), str(path))
    return module if _is_from(module, path) else _running_it(lambda: _load(path), str(path))


def _below(spec: Any, root: Path) -> bool:
    places = [spec.origin, *(spec.submodule_search_locations or ())]
    return any(place and Path(place).resolve().is_relative_to(root.resolve()) for place in places)


def _is_from(module: ModuleType, path: Path) -> bool:
    return module.__file__ is not None and Path(module.__file__).resolve() == path.resolve()


def _load(path: Path) -> ModuleType:
    name = f"ksadk_agent_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RunnerError(f"{path} is no file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _put_first(directory: Path) -> None:
    place = str(directory)
    if place not in sys.path:
        sys.path.insert(0, place)
        importlib.invalidate_caches()


def _running_it(load: Callable[[], ModuleType], place: str) -> ModuleType:
    try:
        return load()
    except RunnerError:
        raise
    except ModuleNotFoundError as error:
        raise _module_missing(error, place) from error
    except (Exception, SystemExit) as error:  # a stranger's module may raise anything
        raise RunnerError(
            f"{place} cannot be imported: {type(error).__name__}: {error}", hint=_where(error)
        ) from error


def _where(error: BaseException) -> str | None:
    """The line of the agent's that an import failed at."""
    if isinstance(error, SyntaxError) and error.filename:  # that line never ran, and so has no frame
        return f"{error.filename}:{error.lineno}: {(error.text or '').strip()}"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else None


def _module_missing(error: ModuleNotFoundError, place: str) -> RunnerError:
    missing = error.name or str(error)
    if place == missing or place.startswith(f"{missing}."):
        return RunnerError(f"there is no module {missing} here", hint="Run it in the agent's directory.")
    top = missing.partition(".")[0]
    package = _PACKAGES.get(top, top)
    return RunnerError(
        f"{place} needs {missing}, which is not installed for {sys.executable}",
        hint=f"{sys.executable} -m pip install {package}; or run with the Python of the project's own venv.",
    )


def _find(module: ModuleType, name: str, place: str) -> tuple[Any, str, ModuleType]:
    names = (name,) if name else USUAL_NAMES
    for candidate in names:
        if hasattr(module, candidate):
            return getattr(module, candidate), f"{place}: {candidate}" if name not in place else place, module
    here = [item for item, value in vars(module).items() if _may_be_agent(item, value, module)]
    raise RunnerError(
        f"{module.__name__} has no {name or ' or '.join(USUAL_NAMES)}",
        hint=f"It has {', '.join(here)}." if here else "It has nothing that could be an agent.",
    )


def _may_be_agent(name: str, value: Any, module: ModuleType) -> bool:
    if name.startswith("_") or inspect.isclass(value) or inspect.ismodule(value):
        return False
    return callable(value) and getattr(value, "__module__", module.__name__) == module.__name__
