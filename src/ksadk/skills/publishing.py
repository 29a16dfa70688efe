"""What a public skill states, so that whoever runs it knows beforehand what it takes, gives and touches.

Its author writes each point as a text in `metadata`, or as a section of the instructions with that heading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from types import MappingProxyType

from ksadk.skills.loader import LocalSkill

HEADINGS = MappingProxyType(
    {
        "inputs": ("inputs", "input", "input schema", "parameters", "输入"),
        "outputs": ("outputs", "output", "output schema", "输出"),
        "dependencies": ("dependencies", "requirements", "依赖"),
        "execution": ("execution", "runs in", "执行"),
        "environment": ("environment", "environment variables", "环境变量"),
        "limits": ("limits", "限制"),
    }
)
"""By point: the headings that state it, in any case. The first is also its key in `metadata`."""

_HEADING = re.compile(r"(?P<marks>#{1,6})[ \t]++(?P<title>.+)")
_CODE_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})")
_PLACES = re.compile(r"\b(?:local|sandbox)|本地|沙箱", re.IGNORECASE)
_VALUE = re.compile(r"\b[A-Z][A-Z0-9_]{2,}[ \t]*=[ \t]*[^\s=]")


@dataclass(frozen=True)
class Contract:
    """The seven points, each a text, or None where the skill does not state it.

    purpose: its name and what it is for. inputs: their schema, and which are required. outputs: their schema,
    and what errors look like. dependencies: extras and programs that it needs. execution: whether it runs
    locally or in a sandbox. environment: the names of variables. limits: of files, network and time.
    """

    purpose: str | None = None
    inputs: str | None = None
    outputs: str | None = None
    dependencies: str | None = None
    execution: str | None = None
    environment: str | None = None
    limits: str | None = None

    @property
    def stated(self) -> dict[str, str]:
        """The points that are stated, in order."""
        texts = ((point.name, getattr(self, point.name)) for point in fields(self))
        return {name: text for name, text in texts if text is not None}

    @property
    def missing(self) -> tuple[str, ...]:
        """The points that are not, in order."""
        return tuple(point.name for point in fields(self) if getattr(self, point.name) is None)


def contract_of(skill: LocalSkill) -> Contract:
    """The points that a skill states; its metadata counts before its sections."""
    sections = _sections(skill.body)
    stated = {
        point: skill.metadata.get(point) or next(filter(None, map(sections.get, headings)), None)
        for point, headings in HEADINGS.items()
    }
    purpose = f"{skill.name}: {skill.description}" if skill.name and skill.description else None
    return Contract(purpose, **stated)


def flaws(contract: Contract) -> dict[str, str]:
    """What keeps a skill from being published, by point."""
    found = {point: f"the contract does not state its {point}" for point in contract.missing}
    if contract.execution is not None and not _PLACES.search(contract.execution):
        found["execution"] = "execution says neither local nor sandbox"
    if contract.environment is not None and _VALUE.search(contract.environment):
        found["environment"] = "environment gives a variable's value, and only names belong there"
    return found


def _sections(body: str) -> dict[str, str]:
    """The text below each heading that has some, by its title in lower case; of two alike the first."""
    sections: dict[str, list[str]] = {}
    around: list[tuple[int, list[str]]] = []
    fence = ""
    for line in body.split("\n"):
        mark = _CODE_FENCE.match(line)
        heading = None if fence else _HEADING.fullmatch(line)
        if mark and (not fence or mark["marks"].startswith(fence)):
            fence = "" if fence else mark["marks"]
        if heading:
            level = len(heading["marks"])
            around = [(above, lines) for above, lines in around if above < level]
        for _, lines in around:
            lines.append(line)
        if heading:
            lines = []
            sections.setdefault(heading["title"].rstrip(" \t#:：").lower(), lines)
            around.append((level, lines))
    return {title: text for title, lines in sections.items() if (text := "\n".join(lines).strip())}
