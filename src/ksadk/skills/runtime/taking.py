"""Artifacts on their way from a run's directory to where they are wanted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ksadk.skills.runtime.run_directories import forget


@dataclass
class Taken:
    """`files` are the paths of those that were copied; `left` of those that were not, each with why."""

    files: list[Path] = field(default_factory=list)
    left: list[tuple[Path, str]] = field(default_factory=list)


def take(output: Path, files: Sequence[Path], target: Path, *, replace: bool) -> Taken:
    """Copy the artifacts in a run's `output` below `target`; once all are there, the run's directory goes.

    replace: whether files that are there already are replaced; if not, those artifacts stay where they are.
    """
    taken = Taken()
    for file in files:
        place = target / file.relative_to(output)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            _copy(file, place, replace=replace)
        except FileExistsError:
            taken.left.append((file, f"{place} is there already"))
        except OSError as error:
            taken.left.append((file, f"{error.filename or place}: {error.strerror}"))
        else:
            taken.files.append(place)
    if not taken.left:
        forget(output.parent)
    return taken


def _copy(source: Path, place: Path, *, replace: bool) -> None:
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123  # a descriptor
        if replace:
            place.unlink(missing_ok=True)
        with place.open("xb") as copy:
            shutil.copyfileobj(file, copy)
