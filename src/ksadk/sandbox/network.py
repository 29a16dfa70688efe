"""A network of a sandbox's own, by slirp4netns: it leads to public addresses, and to no private ones."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ksadk.sandbox.base import SandboxError
from ksadk.sandbox.programs import find_program

CLOSED = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
    "168.63.129.16/32",
)  # fmt: skip
"""Where it does not lead: networks at home and in companies, and where clouds tell machines their secrets.
The last is Azure's, at a public address."""

_DEVICE = "tap0"
_RESOLVER = "nameserver 10.0.2.3\n"
_SECONDS = 10.0
_OWNER_OF_NAMESPACE = 0xB701
_ENDS_WITH_ITS_INPUT = '"$@" & read -r _; kill $!; wait'
"""slirp4netns lives as long as somebody holds the other end of its standard input, and no longer."""


@dataclass(frozen=True)
class OwnNetwork:
    """What it is made with: paths of slirp4netns, nsenter and ip."""

    slirp: str
    nsenter: str
    ip: str
    resolver: str = _RESOLVER

    @contextlib.contextmanager
    def attached(self, pid: int) -> Iterator[None]:
        """Give the network namespace of a process this network. Raises `SandboxError` where it does not come
        to be as it must."""
        with _namespaces(pid) as (space, owner):
            self._close_ways(space, owner)
            with self._started(space, owner) as started:
                _await_routes(pid, started)
                yield

    def _close_ways(self, space: int, owner: int) -> None:
        lines = "".join(f"route add unreachable {place}\n" for place in CLOSED)
        enter = [f"--user=/proc/self/fd/{owner}", f"--net=/proc/self/fd/{space}"]
        done = subprocess.run(
            [self.nsenter, "--preserve-credentials", *enter, self.ip, "-batch", "-"],
            input=lines.encode(), capture_output=True, pass_fds=(space, owner), timeout=_SECONDS,
            check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise SandboxError(f"the sandbox's network cannot be closed: {done.stderr.decode().strip()}")

    def _started(self, space: int, owner: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                "/bin/sh", "-c", _ENDS_WITH_ITS_INPUT, "sh", self.slirp, "--configure", "--mtu=65520",
                "--disable-host-loopback", f"--userns-path=/proc/self/fd/{owner}", "--netns-type=path",
                f"/proc/self/fd/{space}", _DEVICE,
            ],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(space, owner), start_new_session=True, env={"PATH": os.defpath},
        )  # fmt: skip


def own_network() -> OwnNetwork | None:
    """What makes a network of its own here, or None: then a network is this machine's."""
    programs = ("slirp4netns", "nsenter", "ip")
    slirp, nsenter, ip = (find_program(name, "/usr/sbin", "/sbin") for name in programs)
    if slirp is None or nsenter is None or ip is None or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return None
    return OwnNetwork(slirp, nsenter, ip)


def network_words() -> str:
    """What network a command gets that gets one, for the one who is asked."""
    if own_network() is None:
        return "this machine's own: whatever it reaches, the command reaches"
    return "one of its own, to public addresses: no private ones, no metadata, not this machine"


@contextlib.contextmanager
def _namespaces(pid: int) -> Iterator[tuple[int, int]]:
    """The network namespace of a process, and the user namespace that it belongs to."""
    space = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        owner = fcntl.ioctl(space, _OWNER_OF_NAMESPACE)
        try:
            yield space, owner
        finally:
            os.close(owner)
    finally:
        os.close(space)


def _await_routes(pid: int, started: subprocess.Popen[bytes]) -> None:
    """Wait for the way out, and look whether the others are closed."""
    end = time.monotonic() + _SECONDS
    while True:
        routes = [line.split() for line in Path(f"/proc/{pid}/net/route").read_text().splitlines()[1:]]
        if any(words[0] == _DEVICE and words[1] == "00000000" for words in routes):
            break
        if started.poll() is not None or time.monotonic() > end:
            raise SandboxError("the sandbox's network did not come to be", hint="Run slirp4netns by hand.")
        time.sleep(0.005)
    if sum(words[0] == "*" for words in routes) != len(CLOSED):
        raise SandboxError(
            "the sandbox's network is not closed as it must be, so the command was not started"
        )
