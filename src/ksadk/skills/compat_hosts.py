"""Lets one other host load a skill, in a process of its own: this file is run by its path.

Its arguments are the host, the skill's directory, and the file that what it found is written to, as JSON.
"""

import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

BODY_CHARS = 200

Found = dict[str, Any]


def skills_ref(directory: Path) -> Found:
    """The validator of the public specification."""
    from skills_ref import read_properties, validate
    from skills_ref.parser import find_skill_md, parse_frontmatter

    problems = list(map(str, validate(directory)))
    try:
        properties = read_properties(directory)
        skill_md = find_skill_md(directory)
        body = parse_frontmatter(skill_md.read_text())[1] if skill_md else ""
    except Exception as error:  # noqa: BLE001  # whatever it says of the skill is the answer
        return {"loads": False, "problems": problems or [_words(error)]}
    return _found(properties.name, properties.description, properties.allowed_tools, body, problems)


def google_adk(directory: Path) -> Found:
    """The loader of Google's Agent Development Kit."""
    from google.adk.skills import load_skill_from_dir

    skill = load_skill_from_dir(directory)
    fields = skill.frontmatter
    return _found(fields.name, fields.description, fields.allowed_tools, skill.instructions, [])


def deepagents(directory: Path) -> Found:
    """The middleware that tells a deep agent of its skills; the agent then reads the whole file."""
    from deepagents.backends.filesystem import FilesystemBackend
    from deepagents.middleware.skills import SkillsMiddleware

    with tempfile.TemporaryDirectory() as place:  # a source has every skill beside it
        copy = Path(place, "skills", directory.name)
        copy.mkdir(parents=True)
        shutil.copyfile(directory / "SKILL.md", copy / "SKILL.md")
        logged = _Logged()
        logging.getLogger().addHandler(logged)
        middleware = SkillsMiddleware(
            backend=FilesystemBackend(root_dir=place, virtual_mode=True), sources=["/skills"]
        )
        state: Any = {"messages": []}
        nothing: Any = None
        loaded: Any = middleware.before_agent(state, nothing, {}) or {}
        skills = loaded["skills_metadata"]
    if not skills:
        return {"loads": False, "problems": logged.lines}
    skill = skills[0]
    return _found(skill["name"], skill["description"], skill["allowed_tools"], None, logged.lines)


class _Logged(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _found(name: str, description: str, tools: Any, body: str | None, problems: list[str]) -> Found:
    words = tools if isinstance(tools, list) else None if tools is None else [str(tools)]
    return {
        "loads": True, "name": name, "description": description, "allowed_tools": words or [],
        "body": None if body is None else body[:BODY_CHARS], "problems": problems,
    }  # fmt: skip


def _words(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:2000]


HOSTS: dict[str, Callable[[Path], Found]] = {
    "skills-ref": skills_ref, "google-adk": google_adk, "deepagents": deepagents,
}  # fmt: skip
"""By the name of the package: what loads a skill as that host does."""


def main(host: str, directory: str, result: str) -> None:
    try:
        found: Found = {"version": version(host)}
    except PackageNotFoundError:
        found = {"version": None}
    else:
        try:
            found |= HOSTS[host](Path(directory))
        except Exception as error:  # noqa: BLE001  # whatever it says of the skill is the answer
            found |= {"loads": False, "problems": [_words(error)]}
    Path(result).write_text(json.dumps(found), encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
