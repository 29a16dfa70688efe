"""What the sandbox of this machine promises, each tried for real: what is promised, and what was measured."""

from __future__ import annotations

import secrets
import signal
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ksadk.sandbox import isolated, processes
from ksadk.sandbox.base import SandboxCommandResult, SandboxError
from ksadk.sandbox.isolated import Bubblewrap, NotStarted, Place
from ksadk.sandbox.limits import MIB, Limits, processes_are_limited
from ksadk.sandbox.probe import probe

LIMITS = Limits(
    memory_bytes=512 * MIB, processes=64, file_bytes=16 * MIB, tmp_bytes=8 * MIB, shm_bytes=4 * MIB
)
"""What the attempts are held to, so that one that succeeds costs little."""

_SECONDS = 20.0


@dataclass(frozen=True)
class Attempt:
    """Something that was tried.

    promised: what is to come of it; empty where nothing is promised on this machine.
    measured: what came of it.
    holds: whether that is what is promised.
    """

    name: str
    promised: str
    measured: str
    holds: bool


class Trial:
    """A workspace to break out of, and a directory beside it that is not to be reached."""

    def __init__(self, bubblewrap: Bubblewrap, directory: Path) -> None:
        self._bubblewrap = bubblewrap
        self.root = directory / "workspace"
        self.outside = directory / "outside"
        self.root.mkdir()
        self.outside.mkdir()
        (self.outside / "secret").write_text("a secret of the user's")

    def run(self, line: str, timeout: float = _SECONDS) -> SandboxCommandResult:
        place = Place(self.root, limits=LIMITS)
        return isolated.run(self._bubblewrap, place, line, timeout=timeout, env={}).result()

    def words(self, line: str) -> list[str]:
        """What a line prints, in words."""
        return self.run(line).stdout.split()


def probe_escapes() -> list[Attempt]:
    """Try to break out, in a workspace made for it; takes some seconds. Raises `SandboxError` where
    bubblewrap does not work here at all."""
    bubblewrap = probe(fresh=True).bubblewrap()
    with tempfile.TemporaryDirectory(prefix="ksadk-escape-") as directory:
        trial = Trial(bubblewrap, Path(directory).resolve())
        return [attempt(name, promised, found, trial) for name, (promised, found) in ATTEMPTS.items()]


def attempt(name: str, promised: str, found: Callable[[Trial], str], trial: Trial) -> Attempt:
    """Try one. `found` says what it reached; nothing is what is promised."""
    try:
        reached = found(trial)
    except (NotStarted, SandboxError, OSError) as error:
        return Attempt(name, promised, f"could not be tried: {error}", False)
    if name == "processes" and not processes_are_limited():
        return Attempt(name, "", reached or "held, though nothing is promised to root without a cgroup", True)
    return Attempt(name, promised, reached or "held", not reached)


def _written(trial: Trial) -> str:
    places = f"{trial.outside} /usr /etc /dev / /proc/sys/kernel /sys /boot /root /home"
    reached = trial.words(
        f'for place in {places}; do (echo x > "$place/ksadk") 2>/dev/null && echo "$place"; done'
    )
    reached += [path.name for path in trial.outside.iterdir() if path.name != "secret"]
    return _listed("written: ", reached)


def _settings(trial: Trial) -> str:
    return _listed("writable: ", trial.words("find /proc/sys -type f -writable 2>/dev/null | head -n 3"))


def _read(trial: Trial) -> str:
    places = f"{trial.outside}/secret {Path.home()}/.ssh /root /home /run /etc/shadow /etc/ssl/private"
    return _listed("read: ", trial.words(f'for place in {places}; do [ -e "$place" ] && echo "$place"; done'))


def _network(trial: Trial) -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        addresses = f"127.0.0.1/{server.getsockname()[1]} 1.1.1.1/53 169.254.169.254/80"
        line = f'for a in {addresses}; do (exec 3<>"/dev/tcp/$a") 2>/dev/null && echo "$a"; done'
        return _listed("reached: ", trial.words(line))


def _seen(trial: Trial) -> str:
    names = trial.words("cat /proc/[0-9]*/comm")
    return _listed("seen: ", [name for name in names if name not in {"bwrap", "sh", "bash", "cat"}])


def _left(trial: Trial) -> str:
    mark = f"ksadk-{secrets.token_hex(8)}"
    trial.run(f"(setsid nohup bash -c 'sleep 60; : {mark}' >/dev/null 2>&1 &); sleep 0.2")
    left = [found.pid for found in processes.processes() if mark in processes.command_of(found.pid)]
    processes.signal_all(left, signal.SIGKILL)
    return f"{len(left)} left running" if left else ""


def _rights(trial: Trial) -> str:
    words = trial.words("id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | cut -f2")
    expected = ["1000", "0" * 16, "0" * 16, "1"]
    return "" if words == expected else f"user, capabilities, no_new_privs: {' '.join(words)}"


def _namespaces(trial: Trial) -> str:
    return "a user namespace was made" if trial.run("unshare --user true").exit_code == 0 else ""


def _memory(trial: Trial) -> str:
    amount = 2 * LIMITS.memory_bytes
    return f"{amount} bytes taken" if trial.run(f"python -c 'bytearray({amount})'").exit_code == 0 else ""


_FORKS = """python -c '
import os, time
made = 0
try:
    while made < 1000:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made)
'"""


def _processes(trial: Trial) -> str:
    made = int("".join(trial.words(_FORKS)) or 0)
    return f"{made} processes made" if made > LIMITS.processes else ""


def _disk(trial: Trial) -> str:
    sizes = {"/tmp/large": LIMITS.tmp_bytes, "/dev/shm/large": LIMITS.shm_bytes, "large": LIMITS.file_bytes}
    filled = [
        place
        for place, size in sizes.items()
        if trial.run(f"head -c {2 * size} /dev/zero > {place}").exit_code == 0
    ]
    (trial.root / "large").unlink(missing_ok=True)
    return _listed("filled: ", filled)


def _terminal(trial: Trial) -> str:
    return "a terminal was opened" if trial.run("true < /dev/tty").exit_code == 0 else ""


def _protected(trial: Trial) -> str:
    (trial.root / ".git" / "hooks").mkdir(parents=True)
    (trial.root / ".agentengine").mkdir()
    for name in ("agentengine.yaml", ".git/config", ".agentengine/secret"):
        (trial.root / name).write_text("secret")
    places = "agentengine.yaml .git/config .git/hooks/x .agentengine/x"
    line = f'for f in {places}; do (echo x > "$f") 2>/dev/null && echo "$f"; done; cat .agentengine/secret'
    return _listed("reached: ", trial.words(line))


def _deadline(trial: Trial) -> str:
    result = trial.run("trap '' TERM; sleep 60 & wait; sleep 60", timeout=0.5)
    return "" if result.timed_out and result.duration_seconds < 10 else f"{result.duration_seconds:.1f} s"


def _listed(words: str, found: list[str]) -> str:
    return words + ", ".join(found) if found else ""


ATTEMPTS: dict[str, tuple[str, Callable[[Trial], str]]] = {
    "write outside": ("only the workspace and /tmp are written", _written),
    "system settings": ("no setting of the system is written", _settings),
    "read files": ("no file of a user, and no secret of the system, is read", _read),
    "network": ("nothing is reached, this machine included", _network),
    "see processes": ("no process of this machine is seen", _seen),
    "leave a daemon": ("nothing runs on when the command has ended", _left),
    "ignore the deadline": ("everything ends at the deadline", _deadline),
    "rights": ("user 1000, no capabilities, and no way to new ones", _rights),
    "namespaces": ("no further namespaces are made", _namespaces),
    "terminal": ("no terminal is opened", _terminal),
    "memory": ("no process takes more memory than its limit", _memory),
    "processes": ("there are no more processes than their limit", _processes),
    "disk": ("/tmp, /dev/shm and each file stay below their limits", _disk),
    "protected paths": ("what guards tools is not written, and .agentengine is not read", _protected),
}
"""Each attempt: what is promised, and the function that says what it reached, empty for nothing."""
