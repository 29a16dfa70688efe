"""What a trusted caller decides about the sandbox of a call, beside the tool's own arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ksadk.runtime_context import scoped

if TYPE_CHECKING:
    from ksadk.sandbox.observing import OnOutput


@dataclass(frozen=True)
class SandboxChoices:
    """net: whether commands have a network; only the tools whose name says so may have it.

    memory_bytes: what a process may use; the backend's own limit if None.
    backend: the one to use instead of the configured one; that if empty.
    on_copy: whether commands work on a copy of the workspace, whose changes are taken over by
        `apply_sandbox_changes` alone.
    """

    net: bool = False
    memory_bytes: int | None = None
    on_copy: bool = False
    backend: str = ""


_NONE = SandboxChoices()
_choices: ContextVar[SandboxChoices] = ContextVar("ksadk_sandbox_choices", default=_NONE)
_on_output: ContextVar[OnOutput | None] = ContextVar("ksadk_on_output", default=None)


def sandbox_choices() -> SandboxChoices:
    """What holds now."""
    return _choices.get()


@contextmanager
def sandbox_scope(choices: SandboxChoices) -> Iterator[SandboxChoices]:
    """Let sandbox tools go by `choices` inside a `with` block (what the options of `sandbox run` do)."""
    with scoped(_choices, choices):
        yield choices


def on_output() -> OnOutput | None:
    """Who is given what commands print, while they run, if somebody is."""
    return _on_output.get()


@contextmanager
def output_scope(observer: OnOutput) -> Iterator[None]:
    """Let `observer` be given what the commands of sandbox tools and skills print inside a `with` block."""
    with scoped(_on_output, observer):
        yield
