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

    project_trusted: whether skills of the project may be used.
    on_step: is told in a few words what happens.
    """

    inputs: tuple[Path, ...] = ()
    timeout: int | None = None
    project_trusted: bool | None = None
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


def project_trusted() -> bool:
    """Whether skills of the current project may be used: as was decided, else if it is trusted."""
    chosen = _choices.get().project_trusted
    if chosen is not None:
        return chosen
    from ksadk.sessions import project_dir
    from ksadk.tools.trust import digest_of, is_trusted

    project = project_dir()
    return is_trusted(str(project), digest_of(project))
