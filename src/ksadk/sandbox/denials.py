"""What a sandbox refused a command, told apart from what went wrong by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ksadk.sandbox.base import Denial
from ksadk.sandbox.limits import MIB, Limits
from ksadk.sandbox.running import Why

_SIGXCPU, _SIGXFSZ = 128 + 24, 128 + 25
_LAST_BYTES = 64 * 1024


@dataclass(frozen=True)
class Facts:
    """How a command ended, under which rules. `counted` is what the cgroup refused."""

    why: Why
    exit_code: int
    net: bool
    limits: Limits
    timeout: float
    output_limit: int
    counted: tuple[Denial, ...]


def denials(facts: Facts, stderr: bytes, told: Sequence[str]) -> Iterator[Denial]:
    """What was refused. Counted by the system where it counts; else, for a command that failed, told by what
    it printed last.

    stderr: what it printed there.
    told: lines of the sandbox's own, among them the network's counters.
    """
    limits = facts.limits
    yield from facts.counted
    if not facts.net and ways_out_missed(told):
        yield Denial("network", "the sandbox has no network", "--net, or a sandbox with net=True")
    if facts.why == "timeout":
        yield Denial("time", f"a command may run {facts.timeout:g} seconds", "a longer timeout")
    if facts.why == "output":
        yield Denial(
            "output", f"a command may print {facts.output_limit // MIB} MiB", "printing into a file instead"
        )
    if facts.exit_code == _SIGXCPU:
        yield Denial("cpu", "a process may use its time on every processor, no more", "a longer timeout")
    if facts.exit_code == _SIGXFSZ or b"File too large" in stderr[-_LAST_BYTES:]:
        yield Denial("file_size", f"a file may have {limits.file_bytes // MIB} MiB", "Limits.file_bytes")
    if facts.exit_code != 0:
        yield from _printed(facts, stderr[-_LAST_BYTES:])


def _printed(facts: Facts, stderr: bytes) -> Iterator[Denial]:
    known = {denial.what for denial in facts.counted}
    limits = facts.limits
    if b"Read-only file system" in stderr:
        yield Denial(
            "write", "only the workspace and /tmp can be written, and protected paths cannot",
            "writing below /workspace or /tmp",
        )  # fmt: skip
    if b"No space left on device" in stderr:
        yield Denial(
            "disk", f"/tmp has {limits.tmp_bytes // MIB} MiB", "writing below /workspace, or Limits.tmp_bytes"
        )
    if "memory" not in known and any(words in stderr for words in _OUT_OF_MEMORY):
        yield Denial(
            "memory", f"a process has {limits.memory_bytes // MIB} MiB of memory",
            "a higher limit: --memory, or Limits.memory_bytes",
        )  # fmt: skip
    if "processes" not in known and b"Resource temporarily unavailable" in stderr:
        yield Denial("processes", f"there are at most {limits.processes} processes", "Limits.processes")


_OUT_OF_MEMORY = (b"MemoryError", b"Cannot allocate memory", b"out of memory", b"std::bad_alloc")


def ways_out_missed(told: Sequence[str]) -> int:
    """How often something looked for a way out of the sandbox's own network, which has none."""
    lines = [line.split() for line in told if line.startswith("Ip:")]
    if len(lines) != 2 or "OutNoRoutes" not in lines[0]:
        return 0
    values = dict(zip(*lines, strict=False))
    return int(values["OutNoRoutes"]) if values["OutNoRoutes"].isdigit() else 0
