"""Whether skills that belong to the current project may be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ksadk.runtime_context import scoped

_asked_for: ContextVar[bool] = ContextVar("ksadk_project_skills", default=False)


@contextmanager
def project_skills_scope(asked_for: bool = True) -> Iterator[None]:
    """Let the project's skills be used inside a `with` block, trusted or not (the option --project)."""
    with scoped(_asked_for, asked_for):
        yield


def project_trusted() -> bool:
    """Whether skills of the current project may be used: they were asked for, or the project is trusted."""
    if _asked_for.get():
        return True
    from ksadk.sessions import project_dir
    from ksadk.tools.trust import digest_of, is_trusted

    project = project_dir()
    return is_trusted(str(project), digest_of(project))
