"""What the configured spaces offer, as a short list for a model, and what the model is told of it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ksadk.skills.errors import SkillError, SkillServiceError
from ksadk.skills.models import SkillListResponse, SkillRef
from ksadk.skills.service_address import configured_spaces

if TYPE_CHECKING:
    from ksadk.settings import Settings
    from ksadk.skills.service_client import SkillServiceClient

AT_ONCE = 8
"""How many spaces are asked at once."""
DESCRIPTION_SHOWN = 300
"""How many characters of a description the model is shown."""

_RULES = """\
Call execute_skills only when the task matches one of these skills.
Pass the original request as workflow_prompt, word for word.
In skill_names, use the exact names that stand here.
Do not assume that you know a skill's whole instructions: execute_skills loads them when they are needed."""


@dataclass(frozen=True)
class Manifest:
    """Skills that can be used, each name once, and in words what is missing or was left out.

    failed: of the warnings those about whole spaces that could not be asked.
    """

    skills: tuple[SkillRef, ...] = ()
    warnings: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def load_manifest(
    settings: Settings, *, client: SkillServiceClient, limit: int | None, space_id: str | None = None
) -> Manifest:
    """Ask the user's spaces, then the public ones, within KSADK_SKILL_MANIFEST_TIMEOUT seconds in all.

    Of several active skills whose names are the same but for their case the first counts. Where there is an
    allow-list, of spaces that are not the user's only its names do. A space that fails is a warning; where
    all fail, the first one's error is raised.

    limit: how many skills at most; None is all.
    space_id: only this space, which may be another than the configured ones.
    """
    own = settings.skill_space_ids
    spaces = [space_id] if space_id else configured_spaces(settings)
    allowed = {name.lower() for name in settings.public_skill_allowlist}
    found: dict[str, SkillRef] = {}
    warnings: list[str] = []
    failed: list[str] = []
    for space, answer in zip(spaces, _ask(client, spaces, settings.skill_manifest_timeout), strict=True):
        if isinstance(answer, SkillError):
            failed.append(f"the space {space} was left out: {answer.message}")
            if len(failed) == len(spaces):
                raise answer
            continue
        warnings += answer.warnings
        warnings += (f"in the space {space} was left out: {why}" for why in answer.refused)
        for ref in answer.active_skills():
            if allowed and space not in own and ref.name.lower() not in allowed:
                continue
            first = found.setdefault(ref.name.lower(), ref)
            if first is not ref:
                warnings.append(f"the skill {ref.name} of {space} is hidden by that of {first.space_id}")
    skills = tuple(found.values())
    if limit is not None and len(skills) > limit:
        warnings.append(f"{limit} of {len(skills)} skills are listed (KSADK_SKILL_MANIFEST_LIMIT)")
    return Manifest(skills[:limit], (*failed, *warnings), tuple(failed))


def model_manifest(settings: Settings, *, client: SkillServiceClient) -> Manifest:
    """The manifest for a model: KSADK_SKILL_MANIFEST_LIMIT skills at most."""
    return load_manifest(settings, client=client, limit=settings.skill_manifest_limit)


def manifest_instruction(manifest: Manifest) -> str:
    """What a model is told: the skills, a line each, and when and how to use them. Empty without skills.

    What a service says of its skills is one line of text each: it cannot begin a paragraph of instructions.
    """
    if not manifest.skills:
        return ""
    lines = (f"- {_line(ref.name)}: {_line(ref.description)}".rstrip(": ") for ref in manifest.skills)
    return "These skills can be run:\n" + "\n".join(lines) + "\n\n" + _RULES


def _line(text: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= DESCRIPTION_SHOWN else line[: DESCRIPTION_SHOWN - 1] + "…"


_Answer = SkillListResponse | SkillError


def _ask(client: SkillServiceClient, spaces: Sequence[str], timeout: float) -> list[_Answer]:
    """What each space answers, in their order. Spaces are asked side by side, so that a slow one does not
    take the time of the others; one that is late is left to itself."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, _Answer | Exception]] = queue.SimpleQueue()
    for number in range(len(spaces)):
        waiting.put(number)

    def work() -> None:
        while True:
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((number, client.list_skills(spaces[number])))
            except Exception as error:  # noqa: BLE001  # raised again by whoever waits, unless it is expected
                done.put((number, error))

    for _ in range(min(AT_ONCE, len(spaces))):
        threading.Thread(target=work, daemon=True, name="skill-space").start()
    late = SkillServiceError(f"no answer within {timeout:g} s (KSADK_SKILL_MANIFEST_TIMEOUT)")
    answers: list[_Answer] = [late] * len(spaces)
    ends = time.monotonic() + timeout
    for _ in spaces:
        try:
            number, answer = done.get(timeout=max(ends - time.monotonic(), 0.001))
        except queue.Empty:
            break
        if not isinstance(answer, _Answer):
            raise answer
        answers[number] = answer
    return answers
