"""What other hosts make of a skill: each is really run, in a process of its own, and held against ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksadk.skills import compat_hosts
from ksadk.skills.errors import SkillError
from ksadk.skills.lint import skills_at
from ksadk.skills.loader import LocalSkill, load_local_skill
from ksadk.skills.local import Place

SECONDS = 120
"""How long a host may take; on a busy machine some are imported for ten seconds."""


@dataclass(frozen=True)
class Verdict:
    """What one host makes of a skill.

    version: of the host; None where it is not installed, and then nothing else is told.
    loads: whether it takes the skill. problems: what it says against it.
    differs: in which of name, description, allowed_tools and body it understands it otherwise than we do.
    """

    host: str
    version: str | None = None
    loads: bool = False
    name: str = ""
    description: str = ""
    allowed_tools: tuple[str, ...] = ()
    body: str | None = None
    problems: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether the host takes the skill as we do, as far as that can be told here."""
        return self.version is None or (self.loads and not self.problems and not self.differs)


def hosts() -> tuple[str, ...]:
    """The names of the packages that are asked, in order."""
    return tuple(compat_hosts.HOSTS)


@dataclass(frozen=True)
class Compared:
    """How we load the skill in a directory, or why not, and what each host makes of it."""

    directory: Path
    ours: LocalSkill | SkillError
    verdicts: tuple[Verdict, ...] = ()

    @property
    def agreed(self) -> bool:
        """Whether we load it, and every host that is installed takes it as we do."""
        return isinstance(self.ours, LocalSkill) and all(verdict.agrees for verdict in self.verdicts)


def compare(path: Path) -> list[Compared]:
    """Of a skill (its directory or its SKILL.md), or of every skill below a directory.

    No host is sent to what is no regular file, or behind a link. Raises `SkillError` where there is no skill.
    """
    return [_compared(place) for place in skills_at(path)]


def _compared(place: Place) -> Compared:
    directory = Path(place.directory)
    if place.problem:
        return Compared(directory, SkillError(place.problem))
    ours: LocalSkill | SkillError
    try:
        ours = load_local_skill(directory)
    except SkillError as error:
        if "findings" not in error.details:
            return Compared(directory, error)
        ours = error
    absolute = Path(os.path.abspath(directory))  # noqa: PTH100  # links stay
    return Compared(directory, ours, tuple(_verdict(host, absolute, ours) for host in hosts()))


def _verdict(host: str, directory: Path, ours: LocalSkill | SkillError) -> Verdict:
    found = _run(host, directory)
    if found["version"] is None:
        return Verdict(host)
    verdict = Verdict(
        host, found["version"], found["loads"], found.get("name", ""), found.get("description", ""),
        tuple(found.get("allowed_tools", ())), found.get("body"), tuple(found["problems"]),
    )  # fmt: skip
    if not verdict.loads or isinstance(ours, SkillError):
        return verdict
    return Verdict(**{**vars(verdict), "differs": tuple(_differences(verdict, ours))})


def _differences(theirs: Verdict, ours: LocalSkill) -> list[str]:
    differs = [key for key in ("name", "description") if getattr(theirs, key) != getattr(ours, key)]
    if theirs.body is not None and theirs.body != ours.body[: compat_hosts.BODY_CHARS]:
        differs.append("body")
    allowed = ours.allowed_tools
    if (
        " ".join(theirs.allowed_tools).replace(",", " ").split()
        != str(allowed or "").replace(",", " ").split()
    ):
        differs.append("allowed_tools")
    return differs


def _run(host: str, directory: Path) -> dict[str, Any]:
    """What the host's process wrote; it gets no variable of ours, so no secret."""
    with tempfile.TemporaryDirectory(prefix="ksadk-compat-") as place:
        result = Path(place, "result.json")
        command = [sys.executable, "-P", compat_hosts.__file__, host, str(directory), str(result)]
        environment = {"HOME": place, "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", "PATH": os.defpath}
        try:
            ended = subprocess.run(
                command, cwd=place, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=SECONDS, check=False,
            )  # fmt: skip
            found: dict[str, Any] = json.loads(result.read_bytes())
        except subprocess.TimeoutExpired:
            return {"version": "", "loads": False, "problems": [f"it did not answer within {SECONDS} s"]}
        except FileNotFoundError:
            last = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            return {"version": "", "loads": False, "problems": [f"it broke: {last[:500]}"]}
    return found
