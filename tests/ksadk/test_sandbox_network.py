"""The network of a sandbox's own: to public addresses, and to nothing else."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sandboxes import bubblewrap

from ksadk.sandbox import network, processes
from ksadk.sandbox.base import SandboxCommandResult, SandboxError
from ksadk.sandbox.network import CLOSED, network_words, own_network


@pytest.fixture(autouse=True)
def installed(root: Path) -> None:
    bubblewrap(root)
    if own_network() is None:
        pytest.skip("slirp4netns, nsenter and ip are not all there, or no network device can be made")


def run(root: Path, line: str) -> SandboxCommandResult:
    return bubblewrap(root, net=True).create_session(session_id="t").run_command(line, timeout=30)


def own_address() -> str:
    """The address of this machine that leads out; a closed one where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("1.1.1.1", 53))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


@contextmanager
def listening(address: str) -> Iterator[int]:
    with socket.create_server((address, 0)) as server:
        yield int(server.getsockname()[1])


def is_closed(address: str) -> bool:
    return any(ipaddress.ip_address(address) in ipaddress.ip_network(place) for place in CLOSED)


def test_the_one_who_is_asked_is_told_which_network_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "one of its own" in network_words()
    monkeypatch.setenv("PATH", "/nowhere")
    assert "this machine's own" in network_words()


@pytest.mark.parametrize(
    "place", [ipaddress.ip_network(place) for place in CLOSED if place[:4] != "127."], ids=str
)
def test_closed_addresses_are_not_reached(root: Path, place: ipaddress.IPv4Network) -> None:
    address = place[1] if place.num_addresses > 1 else place[0]
    began = time.monotonic()
    result = run(root, f"exec 3<>/dev/tcp/{address}/80")
    assert (result.exit_code != 0 and "unreachable" in result.stderr) or "No route" in result.stderr
    assert time.monotonic() - began < 20


def test_this_machine_is_reached_only_by_a_public_address(root: Path) -> None:
    for address in {"127.0.0.1", own_address()}:
        with listening(address) as port:
            result = run(root, f"exec 3<>/dev/tcp/{address}/{port} && echo connected")
            assert (result.stdout == "connected\n") == (not is_closed(address)), address


def test_names_are_looked_up_by_the_networks_own_resolver(root: Path) -> None:
    assert run(root, "cat /etc/resolv.conf").stdout == "nameserver 10.0.2.3\n"


def test_the_command_cannot_open_what_is_closed(root: Path) -> None:
    result = run(root, "ip route del unreachable 10.0.0.0/8; ip addr add 10.9.9.9/8 dev tap0")
    assert result.exit_code != 0
    assert run(root, "exec 3<>/dev/tcp/10.9.9.8/80").exit_code != 0


def test_a_network_that_is_not_closed_starts_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "ip"
    fake.write_text("#!/bin/sh\ncat >/dev/null\n")
    fake.chmod(0o755)
    found = own_network()
    assert found is not None
    open_one = network.OwnNetwork(found.slirp, found.nsenter, str(fake))
    monkeypatch.setattr("ksadk.sandbox.isolated.own_network", lambda: open_one)
    with pytest.raises(SandboxError, match="not closed"):
        run(root, "touch started")
    assert list(root.iterdir()) == []


def test_a_network_that_does_not_come_starts_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "slirp4netns"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(network, "_SECONDS", 0.3)
    with pytest.raises(SandboxError, match="did not come to be"):
        run(root, "touch started")
    assert list(root.iterdir()) == []


def helpers() -> set[int]:
    return {one.pid for one in processes.processes() if "--netns-type=path" in processes.command_of(one.pid)}


def test_nothing_is_left_of_it(root: Path) -> None:
    before = helpers()
    run(root, "true")
    assert helpers() - before == set()


def test_it_ends_with_the_program_that_was_killed(root: Path) -> None:
    before = helpers()
    code = (
        "import sys; from ksadk.sandbox import create_sandbox_backend as make\n"
        "make('bubblewrap', workspace_root=sys.argv[1], net=True).create_session(session_id='t')"
        ".run_command('sleep 60')"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(root)]) as process:
        wait_for(lambda: len(helpers() - before) >= 2)
        process.send_signal(signal.SIGKILL)
    wait_for(lambda: not helpers() - before)


def wait_for(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
