"""One command in bubblewrap: how it is started, watched and ended. The probe and every run are this."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from ksadk.sandbox import processes, seccomp
from ksadk.sandbox.base import (
    MAX_LEFT,
    WORKSPACE_DIRECTORY,
    Denial,
    LeftProcess,
    SandboxCommandResult,
    SandboxError,
)
from ksadk.sandbox.denials import Facts, denials
from ksadk.sandbox.environment import allowed, for_command
from ksadk.sandbox.limits import Cgroup, Limits, cpu_seconds, process_limit
from ksadk.sandbox.mounted import check_mounts
from ksadk.sandbox.mounts import HOME, NO_RESOLVER, Layout, layout
from ksadk.sandbox.network import OwnNetwork, own_network
from ksadk.sandbox.observing import Observer
from ksadk.sandbox.output import HEAD_BYTES, TAIL_BYTES
from ksadk.sandbox.running import GRACE_SECONDS, OUTPUT_LIMIT_BYTES, Ended, Running, Why
from ksadk.settings import Settings

FLAGS = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--uid", "1000", "--gid", "1000", "--hostname", "sandbox",
    "--cap-drop", "ALL", "--new-session", "--die-with-parent",
)  # fmt: skip
"""What every sandbox is started with, beside its network and its mounts."""

SETUP_SECONDS = 10.0
"""How long a sandbox may take until its command can begin."""

_JOIN_SECONDS = 0.5
_END_SECONDS = 2.0
_TOLD_BYTES = 64 * 1024
_DROPPED = ("LANG", "LC_", "PATH", "HOME")

SCRIPT = r"""
exec 3<&0 </dev/null
cwd=$1 memory=$2 cpu=$3 processes=$4 blocks=$5
shift 5
trap : TERM
while [ "$1" != -- ]; do
  case $1 in
    read-only) [ ! -w "$2" ] ;;
    closed) ! { command : < "$2"; } 2>/dev/null ;;
    empty)
      found=
      for entry in "$2"/* "$2"/.[!.]* "$2"/..?*; do
        if [ -e "$entry" ] || [ -L "$entry" ]; then found=1; fi
      done
      [ -z "$found" ] ;;
  esac || { echo "exposed $2" >&3; exit 125; }
  shift 2
done
shift
{ ulimit -d "$memory" && ulimit -t "$cpu" && ulimit -f "$blocks" && ulimit -c 0; } || {
  echo "unlimited" >&3; exit 125; }
ulimit -u "$processes" 2>/dev/null || ulimit -p "$processes" || { echo "unlimited" >&3; exit 125; }
echo ready >&3
read -r answer <&3 || exit 125
if cd -- "$cwd" 2>/dev/null; then
  "$@" 3>&-
  code=$?
else
  echo "$cwd: no such directory" >&2
  code=126
fi
for entry in /proc/[0-9]*; do
  case ${entry#/proc/} in 1 | $$) continue ;; esac
  { read -r name < "$entry/comm"; } 2>/dev/null && echo "left $name" >&3
done
while read -r line; do
  case $line in Ip:*) echo "$line" >&3 ;; esac
done < /proc/net/snmp
exit $code
"""
"""Runs first in a sandbox, its standard input being the socket to us: verifies the mounts, sets the limits,
says that it is ready, waits for leave, runs the command, and tells what is left."""


@dataclass(frozen=True)
class Bubblewrap:
    """A bwrap program, and whether it can forbid further user namespaces."""

    program: str
    disable_userns: bool = True


@dataclass(frozen=True)
class Place:
    """What a command sees: its workspace (a path without links), its network, and its limits. `original` is
    what the workspace is a copy of, if it is one."""

    root: Path
    net: bool = False
    limits: Limits = field(default_factory=Limits)
    hidden: tuple[Path, ...] = ()
    original: Path | None = None


class NotStarted(Exception):
    """bwrap ended before the command could begin; the message is what it said."""


@dataclass(frozen=True)
class Done:
    """A command that has ended, and what it was refused."""

    ended: Ended
    denials: tuple[Denial, ...]

    def stdout(self) -> bytes:
        """What is kept of its output."""
        return self.ended.stdout.data()

    def result(self) -> SandboxCommandResult:
        """The same as text; what was kept is given back."""
        return self.ended.result(self.denials)


Watch = Callable[[Running], AbstractContextManager[object]]


def run(
    bubblewrap: Bubblewrap,
    place: Place,
    command: str,
    *,
    timeout: float,
    env: Mapping[str, str],
    cwd: str = WORKSPACE_DIRECTORY,
    files: Mapping[str, bytes] | None = None,
    watch: Watch = contextlib.nullcontext,
    output_limit: int = OUTPUT_LIMIT_BYTES,
    keep: tuple[int, int] = (HEAD_BYTES, TAIL_BYTES),
    observer: Observer | None = None,
) -> Done:
    """Run a line of bash, as `SandboxSession.run_command`. Raises `NotStarted`, and `SandboxError`.

    cwd: an absolute path inside.
    files: what is put below /tmp.
    watch: holds the process while it runs, to stop it.
    keep: how many of the first and last bytes of each stream are kept.
    observer: is offered what the command prints.
    """
    deadline = time.monotonic() + timeout
    own = own_network() if place.net else None
    seen = layout(
        place.root, place.limits, net=place.net and own is None, hidden=place.hidden, files=files or {},
        original=place.original, resolver=own.resolver if own else NO_RESOLVER,
    )  # fmt: skip
    with ExitStack() as stack:
        ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
        data = {name: stack.enter_context(_memory(content)) for name, content in seen.data.items()}
        filters = [stack.enter_context(_memory(filter)) for filter in [seccomp.program()] if filter]
        group = Cgroup.make(place.limits)
        if group is not None:
            stack.callback(group.drop)
        running = stack.enter_context(Running(
            [
                *arguments(bubblewrap, seen, data, filters, net=place.net and own is None),
                *_first(seen, place.limits, timeout, cwd), "/bin/bash", "-c", command,
            ],
            environment(seen, env), _finish, stdin=theirs.fileno(), pass_fds=[*data.values(), *filters],
            limit=output_limit, head=keep[0], tail=keep[1], observer=observer,
        ))  # fmt: skip
        theirs.close()
        stack.enter_context(watch(running))
        ended = _to_the_end(running, seen, ours, group, own, deadline)
        told = _told(ours)
        refused = tuple(group.denials(place.limits)) if group is not None else ()
    names = [line.removeprefix("left ") for line in told if line.startswith("left ")]
    left = ended.left or tuple(LeftProcess(0, name) for name in names[:MAX_LEFT])
    facts = Facts(ended.why, ended.exit_code, place.net, place.limits, timeout, output_limit, refused)
    return Done(replace(ended, left=left), tuple(denials(facts, ended.stderr.data(), told)))


def _to_the_end(
    running: Running,
    seen: Layout,
    ours: socket.socket,
    group: Cgroup | None,
    own: OwnNetwork | None,
    deadline: float,
) -> Ended:
    """Let the command begin once everything that holds it is there, and wait until all of it has ended."""
    if group is not None:
        _join_early(running, group)
    _await_ready(running, ours, min(deadline, time.monotonic() + SETUP_SECONDS))
    with _namespace(running) as (init, ends), ExitStack() as stack:
        check_mounts(init, seen.sources())
        inside = processes.children(init)
        if group is not None:
            group.holds(inside)
        if own is not None and inside:
            stack.enter_context(own.attached(inside[0]))
        ours.sendall(b"go\n")
        ended = running.wait(deadline)
        ends()
    return ended


def arguments(
    bubblewrap: Bubblewrap, seen: Layout, data: Mapping[str, int], filters: Sequence[int], *, net: bool
) -> list[str]:
    """bwrap and its flags, up to the command."""
    return [
        bubblewrap.program, *FLAGS,
        *(["--disable-userns"] if bubblewrap.disable_userns else []),
        *([] if net else ["--unshare-net"]),
        *(str(data[word]) if word in data else word for word in seen.arguments),
        *(word for filter in filters for word in ("--seccomp", str(filter))),
        "--chdir", "/", "--",
    ]  # fmt: skip


def environment(seen: Layout, env: Mapping[str, str]) -> dict[str, str]:
    """A command's variables: none of the caller's paths and locales."""
    given = allowed(Settings.from_env().given())
    inherited = {name: value for name, value in given.items() if not name.startswith(_DROPPED)}
    own = {
        "PATH": ":".join(seen.path), "HOME": HOME, "USER": "sandbox", "LOGNAME": "sandbox",
        "SHELL": "/bin/bash",
    }  # fmt: skip
    return for_command(inherited, env, own)


def _first(seen: Layout, limits: Limits, timeout: float, cwd: str) -> list[str]:
    """The script that runs the command, and its arguments before it."""
    checks = [
        word
        for check, places in (("read-only", seen.read_only), ("empty", seen.empty), ("closed", seen.closed))
        for place in places
        for word in (check, place)
    ]
    return [
        "/bin/sh", "-c", SCRIPT, "sandbox", cwd, str(limits.memory_bytes // 1024), str(cpu_seconds(timeout)),
        str(process_limit(limits)), str(limits.file_bytes // 512), *checks, "--",
    ]  # fmt: skip


def _await_ready(running: Running, ours: socket.socket, deadline: float) -> None:
    """Wait until the command can begin. Raises `NotStarted`, and `SandboxError` for a mount that is not as
    it must be."""
    said = b""
    while not said.endswith(b"\n"):
        ours.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            more = ours.recv(_TOLD_BYTES)
        except TimeoutError as error:
            raise NotStarted("it did not get ready in time") from error
        except ConnectionError:
            more = b""
        if not more:
            ended = running.wait(time.monotonic() + _END_SECONDS)
            text = ended.stderr.text().text.strip()
            raise NotStarted(text or f"bwrap ended with {ended.exit_code}")
        said += more
    line = said.decode("utf-8", "replace").strip()
    if line != "ready":
        raise SandboxError(
            f"the sandbox is not as it must be, so the command was not started: {line}",
            hint="Run `agentengine sandbox status --probe`, which says what holds on this machine.",
        )


def _join_early(running: Running, group: Cgroup) -> None:
    """Put the sandbox's first process into its cgroup, which takes milliseconds, while it is being set up."""
    end = time.monotonic() + _JOIN_SECONDS
    while (init := _init(running)) is None:
        if running.process.poll() is not None or time.monotonic() > end:
            return
        time.sleep(0.0005)
    group.add([init])


@contextlib.contextmanager
def _namespace(running: Running) -> Iterator[tuple[int, Callable[[], None]]]:
    """The first process of the sandbox, with whose end all of them have ended, and what waits for that."""
    init = _init(running)
    if init is None:
        raise NotStarted("bwrap ended")
    try:
        descriptor = os.pidfd_open(init)
    except (OSError, AttributeError):
        yield init, lambda: None
        return

    def ends() -> None:
        select.select([descriptor], [], [], _END_SECONDS)

    try:
        yield init, ends
    finally:
        os.close(descriptor)


def _init(running: Running) -> int | None:
    return next(iter(processes.children(running.process.pid)), None)


def _finish(running: Running, why: Why) -> tuple[LeftProcess, ...]:
    """End the sandbox, if its shell still runs: what runs in it is asked first, then all is killed at once.

    Where the shell has ended nothing is left to do, since bwrap took everything with it.
    """
    if why == "ended":
        return ()
    inside = processes.below(running.process.pid)
    shell = min(inside[1:], key=_started, default=0)
    others = [pid for pid in inside[1:] if pid != shell]
    left = tuple(LeftProcess(pid, processes.command_of(pid)) for pid in others[:MAX_LEFT])
    processes.signal_all(others, signal.SIGTERM)
    if not (left and running.exited(GRACE_SECONDS)):
        init = _init(running)
        processes.signal_all([init or running.process.pid], signal.SIGKILL)
        if not running.exited(_END_SECONDS):
            running.process.kill()
    return left


def _started(pid: int) -> tuple[int, int]:
    found = processes.process(pid)
    return (found.started if found else 0), pid


def _told(ours: socket.socket) -> list[str]:
    """What the sandbox's first script said at the end."""
    ours.setblocking(False)
    data = b""
    try:
        while len(data) < _TOLD_BYTES and (more := ours.recv(_TOLD_BYTES)):
            data += more
    except (BlockingIOError, ConnectionError):
        pass  # nothing more
    return data.decode("utf-8", "replace").splitlines()


@contextlib.contextmanager
def _memory(content: bytes) -> Iterator[int]:
    """A descriptor that bwrap reads some bytes from."""
    descriptor = os.memfd_create("ksadk")
    try:
        with open(descriptor, "wb", closefd=False) as file:  # a descriptor, not a path
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
