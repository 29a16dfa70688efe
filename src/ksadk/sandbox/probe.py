"""Whether bubblewrap works on this machine: tried once with what every run has, and remembered."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ksadk.sandbox import isolated
from ksadk.sandbox.base import SandboxError
from ksadk.sandbox.diagnosis import Diagnosis, diagnose, not_installed, other_platform
from ksadk.sandbox.isolated import Bubblewrap, NotStarted, Place
from ksadk.settings import Settings

_SECONDS = 20.0
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
        if not self.works:
            raise unavailable(self)
        return Bubblewrap(self.program, self.disable_userns)


def unavailable(verdict: Verdict) -> SandboxError:
    """The error that says why nothing can be run in bubblewrap; nothing is run without it instead."""
    found = verdict.diagnosis or Diagnosis("unknown", "bubblewrap does not work here", "")
    return SandboxError(
        f"nothing was run: {found.message}", hint=found.fix, cause=found.cause, backend="sandbox/bubblewrap"
    )


def find_bwrap() -> str | None:
    """The bwrap on the path, or None. Starts nothing."""
    return None if other_platform() else shutil.which("bwrap", path=_search_path())


def known() -> Verdict | None:
    """What is known already, None for nothing yet. Starts nothing."""
    return _without_run() or _remembered(find_bwrap() or "")


def probe(*, fresh: bool = False) -> Verdict:
    """Whether it works: as remembered of this boot and this bwrap, else by running it; `fresh` runs it."""
    missing = _without_run()
    if missing is not None:
        return missing
    program = find_bwrap() or ""
    verdict = None if fresh else _remembered(program)
    if verdict is None:
        verdict = _try(program)
        _remember(verdict)
    return verdict


def _without_run() -> Verdict | None:
    elsewhere = other_platform()
    if elsewhere is not None:
        return Verdict(False, "", diagnosis=elsewhere)
    if find_bwrap() is None:
        return Verdict(False, "", diagnosis=not_installed(_search_path().split(":")))
    return None


def _search_path() -> str:
    return Settings.from_env().given().get("PATH", os.defpath)


def _try(program: str) -> Verdict:
    """Run it, in a workspace of its own, with every flag that a run has."""
    bubblewrap = Bubblewrap(program, _offers(program, "--disable-userns"))
    verdict = _try_with(bubblewrap)
    if not verdict.works and bubblewrap.disable_userns:
        # Where the kernel does not let it, the filter of system calls does the same.
        without = _try_with(replace(bubblewrap, disable_userns=False))
        verdict = without if without.works else verdict
    return verdict


def _try_with(bubblewrap: Bubblewrap) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="ksadk-probe-") as directory:
        root = Path(directory).resolve()
        try:
            result = isolated.run(bubblewrap, Place(root), _INSIDE, timeout=_SECONDS, env={}).result()
        except NotStarted as error:
            return Verdict(False, bubblewrap.program, diagnosis=diagnose(bubblewrap.program, str(error)))
        except SandboxError as error:
            return _not(bubblewrap, error.message)
        if result.exit_code != 0:
            return _not(bubblewrap, f"a command in it ended with {result.exit_code}: {result.stderr.strip()}")
        if [path.name for path in root.iterdir()] != ["made"]:
            return _not(bubblewrap, "what a command wrote into the workspace did not come to it")
    return Verdict(True, bubblewrap.program, bubblewrap.disable_userns)


_INSIDE = """
[ "$(id -u)" = 1000 ] && [ "$(hostname 2>/dev/null || cat /proc/sys/kernel/hostname)" = sandbox ] || exit 3
: > made && : > /tmp/made || exit 4
for place in / /usr /etc /proc/sys/kernel; do ( : > $place/made ) 2>/dev/null && exit 5; done
[ -e /home ] && exit 6
( exec 3<>/dev/tcp/192.0.2.1/9 ) 2>/dev/null && exit 7
exit 0
"""
"""A write, a forbidden write, a forbidden look and a connection, from inside."""


def _not(bubblewrap: Bubblewrap, words: str) -> Verdict:
    found = Diagnosis(
        "unknown", f"bwrap starts, but its sandbox does not hold what it must: {words}",
        "Run `agentengine sandbox status --probe` to see what holds. Or use a sandbox in the cloud: "
        "KSADK_SANDBOX_BACKEND=e2b.",
    )  # fmt: skip
    return Verdict(False, bubblewrap.program, diagnosis=found)


def _offers(program: str, option: str) -> bool:
    try:
        said = subprocess.run(
            [program, "--help"], capture_output=True, stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return option.encode() in said.stdout + said.stderr


def _file() -> Path:
    return Settings.from_env().state_dir() / "bubblewrap.json"


def _key(program: str) -> list[Any]:
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


def _remembered(program: str) -> Verdict | None:
    try:
        found = json.loads(_file().read_bytes())
        verdict = _verdict(found["verdict"])
        if found["key"] != _key(program):
            return None
        if not verdict.works and not 0 <= time.time() - found["at"] < _AGAIN_SECONDS:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return verdict


def _verdict(fields: dict[str, Any]) -> Verdict:
    diagnosis = fields.pop("diagnosis")
    return Verdict(**fields, diagnosis=Diagnosis(**diagnosis) if diagnosis else None)


def _remember(verdict: Verdict) -> None:
    """Write a verdict down, whole or not at all. Where that cannot be, it is asked for again next time."""
    file = _file()
    text = json.dumps({"key": _key(verdict.program), "at": time.time(), "verdict": asdict(verdict)})
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, beside = tempfile.mkstemp(prefix=".bubblewrap-", dir=file.parent)
        with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123  # a descriptor
            stream.write(text)
        Path(beside).replace(file)
