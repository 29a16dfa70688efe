"""What a trusted caller decides about a run of skills, beside the tool's own arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from ksadk.runtime_context import scoped


@dataclass(frozen=True)
class SkillRunChoices:
    """inputs: files that are put into the run's `input/`. timeout: seconds, as configured if None.
    on_step: is told in a few words what happens."""

    inputs: tuple[Path, ...] = ()
    timeout: int | None = None
    on_step: Callable[[str], None] = lambda _: None


_NONE = SkillRunChoices()
_choices: ContextVar[SkillRunChoices] = ContextVar("ksadk_skill_run", default=_NONE)


def skill_run_choices() -> SkillRunChoices:
    """What holds now."""
    return _choices.get()


@contextmanager
def skill_run_scope(choices: SkillRunChoices) -> Iterator[SkillRunChoices]:
    """Let `execute_skills` go by `choices` inside a `with` block (the options of `skills execute`)."""
    with scoped(_choices, choices):
        yield choices
