"""`agentengine.yaml` (or `ksadk.yaml`): what a project says of its agent.

The file belongs to the project, and so to whoever wrote the project: a reader that acts on `workspace`
asks first whether the project is trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ksadk.project_files import ProjectFileError, find_config, read_file, text_of

Node = Any
"""A node of ruamel.yaml, whose types leave out its `id`; it also has `tag`, `value` and `start_mark`."""

MAX_CONFIG_CHARS = 128 * 1024
"""How much YAML is read: a file of a stranger's takes ten seconds a megabyte."""

Framework = Literal["python", "langgraph", "langchain", "deepagents", "google-adk"]
FRAMEWORKS: tuple[Framework, ...] = ("python", "langgraph", "langchain", "deepagents", "google-adk")


@dataclass(frozen=True)
class ProjectConfig:
    """The fields of the file; a text that it does not give is empty. `warnings` tell of keys not known."""

    path: Path
    name: str = ""
    description: str = ""
    version: str = ""
    framework: Framework | None = None
    entry_point: str = ""
    agent_variable: str = ""
    url: str = ""
    documentation_url: str = ""
    icon_url: str = ""
    input_modes: tuple[str, ...] = ()
    output_modes: tuple[str, ...] = ()
    skills: tuple[str | Mapping[str, Any], ...] = ()
    provider: Mapping[str, str] | None = None
    workspace: str = ""
    approval: bool = False
    """Whether it has rules for approval; `ksadk.tools.rule_files` reads them."""
    warnings: tuple[str, ...] = ()

    def for_card(self) -> dict[str, Any]:
        """What it tells of an Agent Card, as arguments of `build_agent_card`."""
        told = {
            "name": self.name,
            "base_url": self.url,
            "description": self.description,
            "version": self.version,
            "documentation_url": self.documentation_url,
            "icon_url": self.icon_url,
            "input_modes": self.input_modes,
            "output_modes": self.output_modes,
            "skills": self.skills,
            "provider": self.provider,
        }
        return {key: value for key, value in told.items() if value}


def load_config(directory: Path) -> ProjectConfig | None:
    """The configuration of a project: its `agentengine.yaml`, else its `ksadk.yaml`, else None."""
    path = find_config(directory)
    return None if path is None else read_config(path)


def read_config(path: Path, data: bytes | None = None) -> ProjectConfig:
    """Read one configuration file, or its bytes where a caller has them. What is not YAML, or of the wrong
    type, is a `ProjectFileError`."""
    root = compose(path, text_of(path, read_file(path) if data is None else data))
    if root is None:
        return ProjectConfig(path)
    values, warnings = _Reader(path).members(root, _FIELDS, "an agentengine.yaml has keys and values")
    return ProjectConfig(path, warnings=tuple(warnings), **values)


def did_you_mean(word: str, known: tuple[str, ...]) -> str:
    """The nearest of the known words as a question, else all of them."""
    import difflib

    near = difflib.get_close_matches(word.lower().replace("-", "_")[:64], known, 1)
    return f"did you mean {near[0]}?" if near else "known are " + ", ".join(known)


def compose(path: Path, text: str) -> Node | None:
    """The root node of a YAML text, which `path` holds; a `ProjectFileError` names the line."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    if len(text) > MAX_CONFIG_CHARS:
        raise ProjectFileError(path, None, f"has more than {MAX_CONFIG_CHARS:,} characters")
    try:
        return YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "it cannot be read"
        raise ProjectFileError(path, mark.line + 1 if mark else None, f"not YAML: {problem}") from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ProjectFileError(path, line, "not YAML: a control character") from error
    except YAMLError as error:
        raise ProjectFileError(path, None, f"not YAML: {error}") from error
    except RecursionError as error:
        raise ProjectFileError(path, None, "nested too deeply") from error


class _Reader:
    """Turns nodes into checked values; an error names the file and the node's line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, node: Node, message: str, hint: str | None = None) -> ProjectFileError:
        return ProjectFileError(self.path, node.start_mark.line + 1, message, hint=hint)

    def members(self, node: Node, fields: Fields, otherwise: str) -> tuple[dict[str, Any], list[str]]:
        """The known members of a mapping by field, and a warning for each of the others."""
        if node.id != "mapping":
            raise self.fail(node, otherwise)
        values: dict[str, Any] = {}
        warnings = []
        for key_node, value_node in node.value:
            key = self.text(key_node, "a key")
            if key not in fields:
                known = did_you_mean(key, tuple(fields))
                line = key_node.start_mark.line + 1
                warnings.append(f"{self.path}:{line}: unknown key {_shown(key)} is not used; {known}")
                continue
            field, read = fields[key]
            if field in values:
                raise self.fail(key_node, f"{key} is given twice")
            if not value_node.tag.endswith(":null"):
                values[field] = read(self, value_node, key)
        return values, warnings

    def text(self, node: Node, key: str) -> str:
        if node.id != "scalar" or not node.tag.endswith(":str"):
            raise self.fail(node, f"{key} must be text, and {_kind(node)}", _in_quotes(node))
        return cast("str", node.value)

    def framework(self, node: Node, key: str) -> Framework:
        word = self.text(node, key).lower().replace("_", "-")
        word = {"adk": "google-adk"}.get(word, word)
        if word not in FRAMEWORKS:
            raise self.fail(
                node, f"{key}: '{_shown(word)}' is not known", did_you_mean(word, FRAMEWORKS).capitalize()
            )
        return word

    def texts(self, node: Node, key: str) -> list[str]:
        return [self.text(item, f"each of {key}") for item in self.items(node, key)]

    def modes(self, node: Node, key: str) -> tuple[str, ...]:
        return tuple(self.texts(node, key))

    def skills(self, node: Node, key: str) -> tuple[str | dict[str, Any], ...]:
        return tuple(self.skill(item) for item in self.items(node, key))

    def skill(self, node: Node) -> str | dict[str, Any]:
        if node.id == "scalar":
            return self.text(node, "each of skills")
        skill, unknown = self.members(node, _SKILL_FIELDS, "a skill is text or a mapping with an id")
        if unknown:
            raise self.fail(node, unknown[0].partition(": ")[2])
        if "id" not in skill:
            raise self.fail(node, "a skill needs an id")
        return skill

    def provider(self, node: Node, key: str) -> dict[str, str]:
        provider, unknown = self.members(node, _PROVIDER_FIELDS, f"{key} has organization and url")
        if unknown or len(provider) < len(_PROVIDER_FIELDS):
            raise self.fail(node, f"{key} has exactly organization and url")
        return provider

    def approval(self, node: Node, key: str) -> bool:
        approval, unknown = self.members(node, _APPROVAL_FIELDS, f"{key} has rules")
        if unknown:
            raise self.fail(node, unknown[0].partition(": ")[2])
        return bool(approval.get("rules"))

    def items(self, node: Node, key: str) -> list[Node]:
        if node.id != "sequence":
            raise self.fail(
                node, f"{key} must be a list", f"Write each of {key} on a line of its own after -."
            )
        return cast("list[Node]", node.value)


Fields = Mapping[str, tuple[str, Callable[[_Reader, Any, str], Any]]]
"""By key: the field that it fills, and how its value is read."""

_FIELDS: Fields = {
    "name": ("name", _Reader.text),
    "description": ("description", _Reader.text),
    "version": ("version", _Reader.text),
    "framework": ("framework", _Reader.framework),
    "entry_point": ("entry_point", _Reader.text),
    "agent_variable": ("agent_variable", _Reader.text),
    "variable": ("agent_variable", _Reader.text),
    "url": ("url", _Reader.text),
    "documentation_url": ("documentation_url", _Reader.text),
    "icon_url": ("icon_url", _Reader.text),
    "input_modes": ("input_modes", _Reader.modes),
    "output_modes": ("output_modes", _Reader.modes),
    "skills": ("skills", _Reader.skills),
    "provider": ("provider", _Reader.provider),
    "workspace": ("workspace", _Reader.text),
    "approval": ("approval", _Reader.approval),
}
_SKILL_FIELDS: Fields = {
    "id": ("id", _Reader.text),
    "name": ("name", _Reader.text),
    "description": ("description", _Reader.text),
    "tags": ("tags", _Reader.texts),
    "examples": ("examples", _Reader.texts),
    "inputModes": ("inputModes", _Reader.texts),
    "outputModes": ("outputModes", _Reader.texts),
}
_APPROVAL_FIELDS: Fields = {"rules": ("rules", _Reader.items)}
_PROVIDER_FIELDS: Fields = {"organization": ("organization", _Reader.text), "url": ("url", _Reader.text)}


def _kind(node: Node) -> str:
    """What a node is that is not text, as the end of a sentence."""
    if node.id != "scalar":
        return "is a mapping" if node.id == "mapping" else "is a list"
    if not node.value:
        return "is empty"
    kinds = {"int": "a number", "float": "a number", "timestamp": "a date"}
    return f"{_shown(node.value)} is {kinds.get(node.tag.rpartition(':')[2], 'not')}"


def _in_quotes(node: Node) -> str | None:
    return f'Write it in quotes: "{_shown(node.value)}".' if node.id == "scalar" and node.value else None


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:80])
