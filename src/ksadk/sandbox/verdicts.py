"""Whether bubblewrap works on this machine, as far as that is known without starting anything."""

from __future__ import annotations

import json
import math
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksadk.runtime_context import get_current_account_id, get_current_project, get_current_workspace_root
from ksadk.sandbox.diagnosis import Diagnosis, not_installed, other_platform
from ksadk.sandbox.programs import find_program, search_path
from ksadk.settings import Settings

if TYPE_CHECKING:
    from ksadk.sandbox.base import SandboxError
    from ksadk.sandbox.isolated import Bubblewrap

_AGAIN_SECONDS = 60.0
"""A verdict that it does not work is asked for anew after this: somebody may have repaired it."""

_WATCHED = (
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/user/max_user_namespaces",
)


@dataclass(frozen=True)
class Verdict:
    """Whether bubblewrap works here, by a run of it.

    program: the bwrap that was tried, empty where none is found.
    diagnosis: why it does not work; None where it does.
    """

    works: bool
    program: str
    disable_userns: bool = False
    diagnosis: Diagnosis | None = None

    def bubblewrap(self) -> Bubblewrap:
        """What runs are started with. Raises `SandboxError` with the diagnosis where it does not work."""
        from ksadk.sandbox.isolated import Bubblewrap

        if not self.works:
            raise unavailable(self)
        return Bubblewrap(self.program, self.disable_userns)


def unavailable(verdict: Verdict) -> SandboxError:
    """The error that says why nothing can be run in bubblewrap; nothing is run without it instead."""
    from ksadk.sandbox.base import SandboxError  # what a list of tools need not wait for

    found = verdict.diagnosis or Diagnosis("unknown", "bubblewrap does not work here", "")
    return SandboxError(
        f"nothing was run: {found.message}", hint=found.fix, cause=found.cause, backend="sandbox/bubblewrap"
    )


def find_bwrap() -> str | None:
    """The bwrap on the path, or None. Starts nothing."""
    return None if other_platform() else find_program("bwrap")


def known() -> Verdict | None:
    """What is known already, None for nothing yet. Starts nothing, and is for what is shown: every
    list of tools asks it many times, so it looks anew only where something that it was found by changed.
    """
    asked = _asked()
    if asked and asked in _found:
        watched, seen, until, verdict = _found[asked]
        if seen == _state_of(watched) and time.time() < until:
            return verdict
    _found.clear()
    _found[asked] = found = _look()
    return found[-1]


_States = tuple[tuple[int, int, int] | None, ...]
_found: dict[tuple[object, ...], tuple[tuple[str, ...], _States, float, Verdict | None]] = {}
"""What the last look watched, the states of that, until when it holds, and what it found."""

_LOOKED_AT = ("PATH", "HOME", "XDG_STATE_HOME", "AGENTENGINE_UI_DIR", "KSADK_PROJECT_DIR")


def _asked() -> tuple[object, ...]:
    """What says where a look looks: the workspace, as `search_path` finds it, the path and the state."""
    with suppress(FileNotFoundError):  # with no current directory, the look says so
        scopes = get_current_workspace_root(), get_current_project(), get_current_account_id()
        return os.getcwd(), *scopes, *map(Settings.from_env().given().get, _LOOKED_AT)  # noqa: PTH109  # a text, and fast
    return ()


def _look() -> tuple[tuple[str, ...], _States, float, Verdict | None]:
    program = find_bwrap()
    watched = (str(verdict_file()), *([program] if program else search_path()))
    seen = _state_of(watched)  # before the look: a change during it is seen next time
    verdict = without_run() or remembered(program or "")
    failed = verdict is not None and not verdict.works
    return watched, seen, time.time() + _AGAIN_SECONDS if failed else math.inf, verdict


def _state_of(paths: tuple[str, ...]) -> _States:
    return tuple(map(_state, paths))


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        state = os.stat(path)  # noqa: PTH116  # fast
    except OSError:
        return None
    return state.st_ino, state.st_size, state.st_mtime_ns


def without_run() -> Verdict | None:
    """That it does not work, where no run is needed to know."""
    elsewhere = other_platform()
    if elsewhere is not None:
        return Verdict(False, "", diagnosis=elsewhere)
    if find_bwrap() is None:
        return Verdict(False, "", diagnosis=not_installed(search_path()))
    return None


def verdict_file() -> Path:
    """Where what was found out is kept."""
    return Settings.from_env().state_dir() / "bubblewrap.json"


def key_of(program: str) -> list[Any]:
    """What a verdict holds for: this boot, this program, this user, and what the system allows."""
    state = Path(program).stat()
    return [
        _read("/proc/sys/kernel/random/boot_id"), os.path.realpath(program), state.st_ino, state.st_size,
        state.st_mtime_ns, os.getuid(), *map(_read, _WATCHED),
    ]  # fmt: skip


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def remembered(program: str) -> Verdict | None:
    """What was found out of a bwrap, or None for nothing that still holds."""
    try:
        found = json.loads(verdict_file().read_bytes())
        verdict = _verdict(found["verdict"])
        if found["key"] != key_of(program):
            return None
        if not verdict.works and not 0 <= time.time() - found["at"] < _AGAIN_SECONDS:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return verdict


def _verdict(fields: dict[str, Any]) -> Verdict:
    diagnosis = fields.pop("diagnosis")
    return Verdict(**fields, diagnosis=Diagnosis(**diagnosis) if diagnosis else None)
