"""Skills that the tests of the runtime run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ksadk.skills.digests import tree_digest
from ksadk.skills.loader import LocalSkill, load_local_skill


def write_skill(
    directory: Path,
    name: str,
    script: str | None = None,
    files: Mapping[str, str] | None = None,
    top: str = "",
) -> Path:
    """A skill's directory. `script` is its `scripts/run-workflow.sh`; `top` are further lines of its head."""
    skill = directory / name
    (skill / "scripts").mkdir(parents=True)
    head = f"---\nname: {name}\ndescription: Does {name}.\n{top}---\n\n"
    (skill / "SKILL.md").write_text(f"{head}Do {name}.\n", "utf-8")
    for path, text in {**(files or {}), **({"scripts/run-workflow.sh": script} if script else {})}.items():
        (skill / path).parent.mkdir(parents=True, exist_ok=True)
        (skill / path).write_text(text, "utf-8")
        (skill / path).chmod(0o755)
    return skill


def loaded(directory: Path) -> LocalSkill:
    """The skill in a directory, as a loader gives it."""
    return replace(load_local_skill(directory), digest=tree_digest(directory))
