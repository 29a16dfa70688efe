"""Whether bubblewrap works on this machine: tried once with what every run has, and remembered."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from ksadk.sandbox import isolated
from ksadk.sandbox.base import SandboxError
from ksadk.sandbox.diagnosis import Diagnosis, diagnose
from ksadk.sandbox.isolated import Bubblewrap, NotStarted, Place
from ksadk.sandbox.verdicts import Verdict, find_bwrap, key_of, remembered, verdict_file, without_run
from ksadk.whole_files import replace_file

_SECONDS = 20.0


def probe(*, fresh: bool = False) -> Verdict:
    """Whether it works: as remembered of this boot and this bwrap, else by running it; `fresh` runs it."""
    missing = without_run()
    if missing is not None:
        return missing
    program = find_bwrap() or ""
    verdict = None if fresh else remembered(program)
    if verdict is None:
        verdict = _try(program)
        _remember(verdict)
    return verdict


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
{ read -r _; read -r _; } < /proc/net/route && exit 7
exit 0
"""
"""A write, a forbidden write, a forbidden look and a way out, from inside."""


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


def _remember(verdict: Verdict) -> None:
    """Write a verdict down, whole or not at all. Where that cannot be, it is asked for again next time."""
    file = verdict_file()
    text = json.dumps({"key": key_of(verdict.program), "at": time.time(), "verdict": asdict(verdict)})
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, text.encode())
