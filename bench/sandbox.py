"""What the bubblewrap sandbox costs beside bwrap itself, and how output is read, against plain programs.

Each measurement and its reference run in turn; what counts is the median of the ratios of the pairs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ksadk.sandbox import isolated, seccomp
from ksadk.sandbox.limits import MIB, Cgroup, cpu_seconds
from ksadk.sandbox.local_process import LocalProcessSandboxBackend
from ksadk.sandbox.mounts import layout
from ksadk.sandbox.probe import probe

START_PAIRS = 61
READ_PAIRS = 21
START_LIMIT = 1.3
READ_LIMIT = 1.0
OUTPUT_BYTES = 200 * 1000 * 1000
YES_SECONDS = 3
YES_LIMIT_BYTES = 50 * MIB
TIMEOUT = 60.0
PEAK = """
import resource, sys
from ksadk.sandbox import isolated
from ksadk.sandbox.probe import probe
from pathlib import Path
place = isolated.Place(Path(sys.argv[1]))
run = lambda line, **more: isolated.run(probe().bubblewrap(), place, line, env={}, **more).result()
run("true", timeout=60)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
done = run("yes", timeout=float(sys.argv[2]), output_limit=1 << 60)
assert done.timed_out and done.stdout_truncated, done
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, done.stdout_bytes)
"""


def main() -> int:
    verdict = probe(fresh=True)
    if not verdict.works:
        print(verdict.diagnosis)
        return 1
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        return 0 if all([starts(root), reads(root), yes(root)]) else 1


def starts(root: Path) -> bool:
    """`true` through the sandbox, against the same bwrap with the same flags and limits."""
    bubblewrap = probe().bubblewrap()
    place = isolated.Place(root)

    def ours() -> None:
        result = isolated.run(bubblewrap, place, "true", timeout=TIMEOUT, env={}).result()
        assert result.ok, result

    return compare("true in the sandbox", ours, lambda: bare(bubblewrap, place), START_PAIRS, START_LIMIT)


def bare(bubblewrap: isolated.Bubblewrap, place: isolated.Place) -> None:
    """bwrap with the flags, mounts, filter and limits of a run, in a cgroup where a run has one."""
    limits = place.limits
    seen = layout(place.root, limits, net=False, files={})
    with ExitStack() as stack:
        data = {name: stack.enter_context(isolated._memory(content)) for name, content in seen.data.items()}
        filters = [stack.enter_context(isolated._memory(found)) for found in [seccomp.program()] if found]
        group = Cgroup.make(limits)
        join = ""
        if group is not None:
            stack.callback(group.drop)
            join = "".join(f"echo $$ > {path}/cgroup.procs; " for path in group._directories)
        argv = [
            "prlimit", f"--data={limits.memory_bytes}", f"--cpu={cpu_seconds(TIMEOUT)}",
            f"--nproc={limits.processes}", f"--fsize={limits.file_bytes}", "--core=0",
            *isolated.arguments(bubblewrap, seen, data, filters, net=False), "/bin/bash", "-c", "true",
        ]  # fmt: skip
        subprocess.run(
            ["/bin/sh", "-c", f'{join}exec "$@"', "sh", *argv], pass_fds=[*data.values(), *filters],
            env=isolated.environment(seen, {}), check=True, capture_output=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def reads(root: Path) -> bool:
    """A large output, against `cat FILE | cat >/dev/null` in the same shell."""
    file = root / "large"
    file.write_bytes(os.urandom(1000).hex().encode() * (OUTPUT_BYTES // 2000))
    session = LocalProcessSandboxBackend(root).create_session(session_id="bench")

    def ours() -> None:
        result = session.run_command("cat large", timeout=TIMEOUT)
        assert result.stdout_bytes == OUTPUT_BYTES and result.ok, result.exit_code

    def reference() -> None:
        subprocess.run(["/bin/bash", "-c", "cat large | cat >/dev/null"], cwd=root, check=True)

    return compare(f"reading {OUTPUT_BYTES // 1_000_000} MB", ours, reference, READ_PAIRS, READ_LIMIT)


def yes(root: Path) -> bool:
    """How much our memory grows while `yes` prints, in a process of its own."""
    found = subprocess.run(
        [sys.executable, "-c", PEAK, str(root), str(YES_SECONDS)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    grown, printed = map(int, found.stdout.split())
    print(f"`yes` for {YES_SECONDS} s, {printed / 1e9:.1f} GB: {grown / MIB:.1f} MiB more memory (limit 50)")
    return grown < YES_LIMIT_BYTES


def compare(
    name: str, ours: Callable[[], None], reference: Callable[[], None], pairs: int, limit: float
) -> bool:
    ours()
    reference()
    times = [(timed(ours), timed(reference)) for _ in range(pairs)]
    ratio = statistics.median(mine / theirs for mine, theirs in times)
    mine, theirs = (1000 * statistics.median(column) for column in zip(*times, strict=True))
    print(f"{name}: {mine:.1f} ms, reference {theirs:.1f} ms, ratio {ratio:.2f} (limit {limit})")
    return ratio <= limit


def timed(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
