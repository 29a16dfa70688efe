"""What a writer that was killed left next to a file, and telling of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice, takewhile
from os import unlink
from pathlib import Path
from typing import Any

from ksadk.workspace.files import MAX_TEXT_BYTES, locked
from ksadk.workspace.held import held, holds, opened, read_up_to, state_of
from ksadk.workspace.paths import Place, WorkspaceError, locate, relative_to
from ksadk.workspace.swapping import swap_names

_LOOKED_AT = 4
"""Names that are looked at even when an earlier one is free; past them, as far as they go on."""

_PATIENCE = 1.0
"""Seconds to wait for a writer before nothing is told: it may be the one whose file that is."""


def reported(places: Iterable[Place], result: dict[str, Any]) -> dict[str, Any]:
    """A result about files, with `left_over` and a warning if there is something to tell."""
    return _with(result, [path for place in places for path in _of(place)])


@contextmanager
def told(root: Path, path: str) -> Iterator[None]:
    """Tell of what was left over in an error about a file, too."""
    try:
        yield
    except WorkspaceError as error:
        with suppress(WorkspaceError):
            error.details = _with(error.details, _of(locate(root, path)))
        raise


def _with(fields: dict[str, Any], left: list[str]) -> dict[str, Any]:
    if not left:
        return fields
    warning = (
        f"A write was cut short and left {', '.join(left)}: a new version that may not be complete, the one"
        " before, or what another program wrote at that moment. Compare it with the file, take over what is"
        " missing there, and delete it."
    )
    before = fields.get("warning")
    return fields | {"left_over": left, "warning": f"{before} {warning}" if before else warning}


def _of(place: Place) -> list[str]:
    """The paths of what was left over. What is the same as the file is deleted, and not told of.

    The names are also those of writes under way; these are over once the lock is had.
    """
    if place.is_root:
        return []
    try:
        with held(place.root, place.real.parent) as parent:
            if not _names(parent, place):
                return []
            with locked(place.root, _PATIENCE):
                left = [name for name in _names(parent, place) if not _settled(parent, place, name)]
    except (OSError, WorkspaceError):
        return []
    return [relative_to(place.root, place.real.with_name(name)) for name in left]


def _names(parent: int, place: Place) -> list[str]:
    names = swap_names(place.real.name)
    sure = list(islice(names, _LOOKED_AT))
    there = [name for name in sure if state_of(parent, name)]
    if sure[-1] not in there:
        return there
    return [*there, *takewhile(lambda name: state_of(parent, name), names)]


def _settled(parent: int, place: Place, name: str) -> bool:
    """Whether a file that was left over is the same as the one that it is of, and so could be deleted."""
    try:
        with opened(parent, place.real.name) as descriptor:
            data = read_up_to(descriptor, MAX_TEXT_BYTES + 1)
        if len(data) > MAX_TEXT_BYTES or not holds(parent, name, data):
            return False
        unlink(name, dir_fd=parent)
    except OSError:
        return False
    return True
