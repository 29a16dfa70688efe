"""What kind of agent a directory holds, found out without importing or running anything in it.

Told by, the first that says a thing winning: `agentengine.yaml` or `ksadk.yaml`, `langgraph.json`,
`pyproject.toml`, and then the file that holds the agent.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from ksadk.a2a.source import read_source, usual_names
from ksadk.config_file import Framework, ProjectConfig, load_config
from ksadk.errors import KsadkError
from ksadk.project_files import (
    CONFIG_NAMES,
    ProjectFileError,
    find_config,
    has_kind,
    is_directory,
    is_file,
    read_text,
)

ENTRY_FILES = ("agent.py", "main.py", "app.py")

# Of a large directory, or one that a stranger filled, only a part is searched for a better suggestion.
_MOST_ENTRIES = 500
_MOST_DIRECTORIES = 20
_LARGEST_SOURCE = 100_000

# Of a pyproject.toml, as `_check_dots` counts: about a second.
_MOST_KEY_STEPS = 5_000_000

# Of a path that a stranger wrote, so much is said again.
_LONGEST_SHOWN = 100

# The id that LangGraph's own template gives to every graph.
_TEMPLATE_GRAPH_ID = "agent"


class ProjectNotFoundError(KsadkError, LookupError):
    """A directory in which nothing tells of an agent."""

    code = "project_not_found"


@dataclass(frozen=True)
class Project:
    """An agent's project. A text that nothing tells is empty; the name falls back to the directory's.

    `entry` is the agent's file relative to `directory`, `variable` what it is called in there.
    """

    directory: Path
    name: str
    description: str = ""
    version: str = ""
    framework: Framework | None = None
    entry: str = ""
    variable: str = ""
    config: ProjectConfig | None = None
    warnings: tuple[str, ...] = ()

    @property
    def config_file(self) -> Path | None:
        """The agentengine.yaml or ksadk.yaml that told of it."""
        return self.config.path if self.config else None

    def as_config(self) -> ProjectConfig:
        """Its configuration, with what the project's other files tell filled in."""
        config = self.config or ProjectConfig(self.directory)
        return replace(
            config, name=self.name, description=self.description, version=self.version,
            framework=self.framework, entry_point=self.entry, agent_variable=self.variable,
            warnings=(*config.warnings, *self.warnings),
        )  # fmt: skip


@dataclass(frozen=True)
class _Facts:
    """What one file tells. Merged field by field, empty ones filled from the next."""

    name: str = ""
    description: str = ""
    version: str = ""
    framework: Framework | None = None
    entry: str = ""
    variable: str = ""

    def over(self, other: _Facts) -> _Facts:
        return _Facts(*(getattr(self, field.name) or getattr(other, field.name) for field in fields(self)))


def detect_project(directory: str | Path, *, lenient: bool = False) -> Project:
    """The project in a directory.

    `project_not_found` when there is none; a broken file is a `ProjectFileError` that names it and the line.
    `lenient` serves a caller who has the name already: then a directory that tells nothing is a project too,
    and a broken file becomes one of `warnings`, unless it is agentengine.yaml.
    """
    directory = Path(directory)
    if not is_directory(directory):
        raise ProjectNotFoundError(
            f"{directory} is no directory", hint="Give the directory of an agent's project."
        )
    config = load_config(directory)
    broken: list[str] | None = [] if lenient else None
    files = [_read(partial(read, directory), broken) for read in (_langgraph, _pyproject)]
    told = [facts for facts in (_of_config(config), *files) if facts]
    merged = _Facts()
    for facts in told:
        merged = merged.over(facts)
    source = _read(partial(_source, directory, merged, config), broken)
    if not told and source is None and not lenient:
        raise _not_found(directory)
    if source is not None:  # which knows where the file was found
        merged = replace(merged.over(source), entry=source.entry)
    name = merged.name or directory.resolve().name or "agent"
    return Project(
        directory, name, merged.description, merged.version, merged.framework,
        merged.entry, merged.variable, config, tuple(broken or ()),
    )  # fmt: skip


def _read(tell: Callable[[], _Facts | None], broken: list[str] | None) -> _Facts | None:
    """What a file tells; a broken one tells nothing where there is a list to note it in."""
    try:
        return tell()
    except ProjectFileError as error:
        if broken is None:
            raise
        broken.append(error.message)
        return None


def _not_found(directory: Path) -> ProjectNotFoundError:
    files = (*CONFIG_NAMES, "langgraph.json", "pyproject.toml", *ENTRY_FILES)
    there = [name for name in files if is_file(directory / name)]
    why = [
        f"nothing in {name} is an agent (no {_either(usual_names(directory / name))} at its top level)"
        for name in there
        if name in ENTRY_FILES
    ]
    if "pyproject.toml" in there:
        why.append("pyproject.toml has no [project] or [tool.poetry]")
    if absent := [name for name in files if name not in there]:
        why.append(f"there is no {_either(absent)}")
    hint = (
        "Make a project: agentengine init. Without one, a card needs --name and --url, and serving needs"
        " --agent MODULE:NAME."
    )
    if below := _agent_below(directory):
        import shlex

        hint = f"There is one in {below.name}: agentengine a2a card {shlex.quote(str(below))}"
    return ProjectNotFoundError(f"no agent's project in {directory}: {'; '.join(why)}", hint=hint)


def _either(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _agent_below(directory: Path) -> Path | None:
    """The first subdirectory, one level down, that holds an agent."""
    try:
        with os.scandir(directory) as entries:
            names = sorted(
                entry.name
                for entry in islice(entries, _MOST_ENTRIES)
                if entry.name[0] not in "._" and entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return None
    paths = (directory / name for name in names[:_MOST_DIRECTORIES])
    return next((path for path in paths if os.access(path, os.R_OK | os.X_OK) and _holds_agent(path)), None)


def _holds_agent(directory: Path) -> bool:
    try:
        if find_config(directory) or is_file(directory / "langgraph.json"):
            return True
    except ProjectFileError:
        return False
    for path in (directory / name for name in ENTRY_FILES):
        try:
            if is_file(path) and path.stat().st_size <= _LARGEST_SOURCE and read_source(path):
                return True
        except ProjectFileError:
            continue
    return False


def _of_config(config: ProjectConfig | None) -> _Facts | None:
    if config is None:
        return None
    entry, variable = _split_entry(config.path, config.entry_point)
    return _Facts(
        config.name, config.description, config.version, config.framework,
        entry, config.agent_variable or variable,
    )  # fmt: skip


def _langgraph(directory: Path) -> _Facts | None:
    path = directory / "langgraph.json"
    if not is_file(path):
        return None
    try:
        value = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise ProjectFileError(path, error.lineno, f"not JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise ProjectFileError(path, None, f"not JSON: {error}") from error
    graphs = _table(path, value, "graphs")
    if not graphs:
        return _Facts(framework="langgraph")
    graph_id, graph = next(iter(graphs.items()))
    given = graph if isinstance(graph, dict) else {"path": graph}
    entry, variable = _split_entry(path, _word(path, given, "path"))
    name = "" if graph_id == _TEMPLATE_GRAPH_ID else graph_id
    return _Facts(name, _word(path, given, "description"), "", "langgraph", entry, variable)


def _pyproject(directory: Path) -> _Facts | None:
    path = directory / "pyproject.toml"
    if not is_file(path):
        return None
    value = _toml(path)
    tool = _table(path, value, "tool")
    told = [
        _package(path, table, key) for table, key in ((value, "project"), (tool, "poetry")) if key in table
    ]
    return told[0].over(told[-1]) if told else None


def _toml(path: Path) -> dict[str, Any]:
    import tomllib

    text = read_text(path)
    _check_dots(path, text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1  # else it is "at end of document"
        raise ProjectFileError(path, line, f"not TOML: {error}") from error
    except ValueError as error:  # Python's limit on the digits that it takes
        raise ProjectFileError(path, None, "holds a number of too many digits") from error
    except RecursionError as error:
        raise ProjectFileError(path, None, "nested too deeply") from error


def _check_dots(path: Path, text: str) -> None:
    """Refuse what would keep `tomllib` busy for long.

    For each line and each dot of a key it goes through all parts of the key, those of the table included.
    """
    dots = [line.count(".") for line in text.split("\n")]
    most = max(dots)
    if most * (len(dots) + 2 * sum(dots)) > _MOST_KEY_STEPS:
        raise ProjectFileError(path, dots.index(most) + 1, f"too many dots: {most} in one line")


def _package(path: Path, owner: dict[str, Any], key: str) -> _Facts:
    table = _table(path, owner, key)
    name, description, version = (_word(path, table, word) for word in ("name", "description", "version"))
    return _Facts(name, description, version)


def _source(directory: Path, told: _Facts, config: ProjectConfig | None) -> _Facts | None:
    """What the agent's own file tells: the one that was named, else the first that binds an agent."""
    if told.entry:
        path = _entry_file(directory, told.entry, config)
        if path.suffix != ".py":
            return None
        facts = read_source(path, told.variable)
        if facts is None and told.variable:
            raise ProjectFileError(path, None, f"nothing in it is called {told.variable}")
        entries = [(path, facts)]
    else:
        paths = (directory / name for name in ENTRY_FILES)
        entries = [(path, read_source(path, told.variable)) for path in paths if is_file(path)]
    for path, facts in entries:
        if facts is not None:
            if not path.is_relative_to(directory):  # it was given from the root, the directory was not
                path, directory = path.resolve(), directory.resolve()
            entry = path.relative_to(directory).as_posix()
            return _Facts(facts.name, facts.description, "", facts.framework, entry, facts.variable)
    return None


def _split_entry(path: Path, entry: str) -> tuple[str, str]:
    """`agent.py:graph` and `package.module:graph` in two; a module is written as its file."""
    place, _, variable = entry.partition(":")
    if variable and not variable.isidentifier():
        raise ProjectFileError(path, None, f"{entry} is not of the form file.py:variable")
    if place and "/" not in place and all(part.isidentifier() for part in place.split(".")):
        stem = place.removesuffix(".py")
        place = (stem if place.endswith(".py") else place.replace(".", "/")) + ".py"
    return place.removeprefix("./"), variable


def _entry_file(directory: Path, entry: str, config: ProjectConfig | None) -> Path:
    path = directory / entry
    candidates = [path, path.parent / path.stem / "__init__.py", directory / "src" / entry]
    told_by = config.path if config and config.entry_point else directory / "langgraph.json"
    shown = entry if len(entry) <= _LONGEST_SHOWN else f"{entry[:_LONGEST_SHOWN]}..."
    try:
        found = next((candidate for candidate in candidates if has_kind(candidate, stat.S_ISREG)), None)
    except OSError as error:
        why = f"the agent's file {shown} cannot be read: {error.strerror}"
        raise ProjectFileError(told_by, None, why) from error
    if found is None:
        raise ProjectFileError(told_by, None, f"the agent's file {shown} is not there")
    if not found.resolve().is_relative_to(directory.resolve()):
        raise ProjectFileError(told_by, None, f"the agent's file {shown} is outside the project")
    return found


def _table(path: Path, value: Any, key: str) -> dict[str, Any]:
    table = value.get(key, {}) if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise ProjectFileError(path, None, f"{key} is not a table")
    return table


def _word(path: Path, table: Mapping[str, Any], key: str) -> str:
    word = table.get(key, "")
    if not isinstance(word, str):
        raise ProjectFileError(path, None, f"{key} is not text")
    return word.strip()
