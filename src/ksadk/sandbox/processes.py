"""The processes that a command started, wherever they went, and how they are ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ksadk.sandbox.base import MAX_LEFT, LeftProcess

MARK = "KSADK_COMMAND_ID"
"""The variable by which what a command started is known, also where it left its session and its parent."""

HAS_PROC = os.path.exists("/proc/self/stat")  # noqa: PTH110  # asked once, of this machine
_KILL_SECONDS = 2.0
_SHOWN_CHARS = 200


@dataclass(frozen=True)
class Process:
    """A process of this machine: `started` in ticks since the machine did, `session` its session's leader."""

    pid: int
    parent: int
    session: int
    started: int


Find = Callable[[], list[int]]
"""The processes that there are now, of those in question."""


def processes(lowest: int = 0) -> Iterator[Process]:
    """Every process that is alive and has no lower number; zombies are not."""
    for name in os.listdir("/proc"):  # noqa: PTH208  # names are all that is needed of thousands
        if name.isdigit() and int(name) >= lowest:
            found = process(int(name))
            if found is not None:
                yield found


def process(pid: int) -> Process | None:
    """A process, or None where it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  # as above
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def children(pid: int) -> list[int]:
    """The processes that a process of one thread started; none where it has ended."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:  # noqa: PTH123  # as above
            return [int(word) for word in file.read().split()]
    except ProcessLookupError:
        return []
    except OSError:  # ended, or a kernel without this list
        return [found.pid for found in processes() if found.parent == pid]


def below(pid: int) -> list[int]:
    """The processes that a process started, and these, and so on; the nearest ones first."""
    children: dict[int, list[int]] = {}
    for found in processes():
        children.setdefault(found.parent, []).append(found.pid)
    result = list(children.get(pid, ()))
    for one in result:  # grows meanwhile
        result.extend(children.get(one, ()))
    return result


def now() -> int:
    """This moment, as `Process.started` counts; a little before it, since that counts coarsely."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 1


def of_command(leader: int, mark: str, since: int) -> list[int]:
    """What a command started, no earlier than `since`: what is below its leader or in its session, and what
    carries its mark.

    The leader, a child of this program, is among it as long as it runs. Where the system has no /proc, its
    process group stands for it all, as a negative number.
    """
    if not HAS_PROC:
        return [-leader] if _group_lives(leader) else []
    marked = f"{MARK}={mark}".encode()
    every = [found for found in processes(_lowest(leader, since)) if found.started >= since]
    known = {found.pid for found in every if found.pid == leader or found.session == leader}
    rest = [found for found in every if found.pid not in known]
    grown = True
    while grown:
        grown = False
        for found in rest:
            if found.pid not in known and found.parent in known:
                known.add(found.pid)
                grown = True
    known.update(found.pid for found in rest if found.pid not in known and _carries(found.pid, marked))
    return sorted(known)


def carrying(marked: bytes) -> list[int]:
    """The processes whose environment has that NAME=VALUE; none where the system has no /proc."""
    return [found.pid for found in processes() if _carries(found.pid, marked)] if HAS_PROC else []


def _lowest(leader: int, since: int) -> int:
    """The lowest number of what a command started. Numbers go up, and begin again: that is not to be thought
    of in its first second, whose processes are found without a look at every other."""
    with open("/proc/loadavg", "rb") as file:  # noqa: PTH123
        latest = int(file.read().split()[-1])
    early = now() - since < os.sysconf("SC_CLK_TCK")
    return leader if early and latest >= leader else 0


def _group_lives(leader: int) -> bool:
    try:
        os.kill(-leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives, and is not ours to end
    return True


def _carries(pid: int, marked: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            return marked in file.read().split(b"\0")
    except OSError:
        return False  # ended, or another user's


def command_of(pid: int) -> str:
    """What a process runs, shortened; empty where it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            words = file.read(4096).rstrip(b"\0").replace(b"\0", b" ")
    except OSError:
        return ""
    return words.decode("utf-8", "replace")[:_SHOWN_CHARS]


def signal_all(pids: Iterable[int], number: int) -> set[int]:
    """Send a signal; returns those that the system did not let us send it to. One that has ended is none."""
    refused = set()
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            refused.add(pid)
    return refused


def end(find: Find, grace: float) -> tuple[LeftProcess, ...]:
    """End what `find` finds: asked to first, killed after `grace` seconds. Returns what there was, and what
    could not be killed."""
    commands = {pid: command_of(pid) for pid in find()}
    if not commands:
        return ()
    signal_all(commands, signal.SIGTERM)
    pause = 0.005
    end_of_grace = time.monotonic() + grace
    while find() and time.monotonic() < end_of_grace:
        time.sleep(pause)
        pause = min(pause * 2, 0.1)
    refused = _kill(find, commands)
    left = [LeftProcess(abs(pid), command, pid not in refused) for pid, command in commands.items()]
    return tuple(left[:MAX_LEFT])


def _kill(find: Find, commands: dict[int, str]) -> set[int]:
    """Kill until nothing is left, since what is killed may have started more just before."""
    give_up = time.monotonic() + _KILL_SECONDS
    while pids := find():
        commands.update({pid: command_of(pid) for pid in pids if pid not in commands})
        refused = signal_all(pids, signal.SIGKILL)
        if refused.issuperset(pids) or time.monotonic() > give_up:
            return set(pids)
        time.sleep(0.005)
    return set()
