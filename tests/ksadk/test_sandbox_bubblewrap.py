"""The isolated sandbox of this machine: what is seen in it, what is not, and what it leaves as it was."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandboxes import bubblewrap

from ksadk.sandbox import mounts, processes
from ksadk.sandbox.base import SandboxCommandResult, SandboxError
from ksadk.sandbox.limits import MIB, Limits, processes_are_limited

SMALL = Limits(memory_bytes=256 * MIB, processes=64, file_bytes=6 * MIB, tmp_bytes=4 * MIB, shm_bytes=MIB)


def run(root: Path, line: str, timeout: float = 60, **options: object) -> SandboxCommandResult:
    session = bubblewrap(root, **options).create_session(session_id="test")
    return session.run_command(line, timeout=timeout)


def denied(result: SandboxCommandResult) -> list[str]:
    return [denial.what for denial in result.denials]


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a directory, with what a no-op must not change."""
    found = {}
    for path in sorted(root.rglob("*")):
        state = path.lstat()
        content = hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b""
        found[str(path.relative_to(root))] = (
            state.st_mode, state.st_uid, state.st_ino, state.st_mtime_ns, content,
        )  # fmt: skip
    return found


@pytest.fixture
def filled(root: Path) -> Path:
    """A workspace with everything that mounts are made over, and things that look like it."""
    for name in (".git/hooks", ".agentengine/ui", "src"):
        (root / name).mkdir(parents=True)
    for name in (
        ".git/config",
        ".git/HEAD",
        ".agentengine/ui/secret",
        "agentengine.yaml",
        "src/a.py",
        ".env",
    ):
        (root / name).write_text(f"{name} as it was")
    (root / "dangling").symlink_to("nowhere")
    return root


def test_who_and_where_a_command_is(root: Path) -> None:
    result = run(root, "id -u; id -g; whoami; hostname; pwd; ls /root /home /run 2>&1 | grep -c 'No such'")
    assert result.stdout.split() == ["1000", "1000", "sandbox", "sandbox", "/workspace", "3"]


def test_the_workspace_is_the_callers(root: Path) -> None:
    (root / "in").write_text("from outside")
    assert run(root, "cat in; echo -n made > out; mkdir -p d/e; mv in moved").stdout == "from outside"
    assert (root / "out").read_text() == "made"
    assert (root / "out").stat().st_uid == os.getuid()
    assert sorted(path.name for path in root.iterdir()) == ["d", "moved", "out"]


@pytest.mark.parametrize(
    "place",
    [
        "/",
        "/usr",
        "/usr/bin",
        "/etc",
        "/etc/passwd",
        "/dev",
        "/opt",
    ],
)
def test_the_system_is_read_only(root: Path, place: str) -> None:
    line = f"if [ -d {place} ]; then : > {place}/made; else echo x >> {place}; fi"
    result = run(root, line)
    assert result.exit_code != 0
    assert "Read-only file system" in result.stderr
    assert denied(result) == ["write"]


def test_no_setting_of_the_system_is_writable_even_for_who_is_root_outside(root: Path) -> None:
    assert run(root, "find /proc/sys /proc/sysrq-trigger -type f -writable 2>/dev/null | head").stdout == ""
    assert run(root, "echo x > /proc/sys/kernel/core_pattern").exit_code != 0


def test_no_right_is_left_and_none_is_to_be_had(root: Path) -> None:
    result = run(root, "grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status | cut -f2 | sort -u")
    assert result.stdout.split() == ["0" * 16, "1", "2"]
    for line in (
        "unshare --user true",
        "unshare --net true",
        "unshare --mount true",
        "mount -t tmpfs x /tmp",
    ):
        assert run(root, line).exit_code != 0


def test_the_keys_of_the_callers_login_are_not_there(root: Path) -> None:
    code = "import ctypes, platform; libc = ctypes.CDLL(None, use_errno=True)\n"
    code += "number = {'x86_64': 250, 'aarch64': 219}[platform.machine()]\n"
    code += "print(libc.syscall(number, 0, -3, 0), ctypes.get_errno())"
    session = bubblewrap(root).create_session(session_id="t")
    session.write_file("/tmp/keys.py", code)
    assert session.run_command("python /tmp/keys.py").stdout == "-1 1\n"


def test_other_processes_are_not_seen(root: Path) -> None:
    result = run(root, "cat /proc/[0-9]*/comm | sort | uniq")
    assert set(result.stdout.split()) <= {"bwrap", "sh", "bash", "cat", "sort", "uniq"}


def test_there_is_no_network_and_the_result_says_so(root: Path, only_bwrap: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert run(root, f"exec 3<>/dev/tcp/127.0.0.1/{port}").exit_code != 0
        connected = run(root, f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected", net=True)
        assert (connected.stdout, denied(connected)) == ("connected\n", [])
    for line in ("exec 3<>/dev/tcp/192.0.2.7/80", "getent hosts example.com"):
        result = run(root, line)
        assert result.exit_code != 0
        assert denied(result) == ["network"]
        assert "no network" in result.denials[0].rule and "--net" in result.denials[0].allow


def test_what_uses_no_network_is_not_said_to_be_denied(root: Path) -> None:
    server = "import socket as s; a = s.create_server(('127.0.0.1', 0)); s.create_connection(a.getsockname())"
    result = run(root, f'python -c "{server}" && echo fine')
    assert (result.stdout, result.denials) == ("fine\n", ())


def test_tmp_is_new_for_each_command_and_limited(root: Path) -> None:
    session = bubblewrap(root, limits=SMALL).create_session(session_id="t")
    assert session.run_command("echo x > /tmp/x; ls /tmp; ls -A /var/tmp").stdout == "x\nx\n"
    assert session.run_command("ls -A /tmp").stdout == ""
    for place in ("/tmp", "/dev/shm"):
        result = session.run_command(f"head -c 5000000 /dev/zero > {place}/large")
        assert result.exit_code != 0 and denied(result) == ["disk"]


def test_a_file_put_into_tmp_is_there_for_every_command(root: Path) -> None:
    session = bubblewrap(root).create_session(session_id="t")
    session.write_file("/tmp/ksadk-run-code-1.py", "print(1 + 1)")
    for _ in range(2):
        assert session.run_command("python /tmp/ksadk-run-code-1.py; rm /tmp/*.py").stdout == "2\n"
    assert session.read_file("/tmp/ksadk-run-code-1.py") == b"print(1 + 1)"


def test_memory_is_limited(root: Path) -> None:
    result = run(root, "python -c 'bytearray(800_000_000)'", limits=SMALL)
    assert result.exit_code != 0 and denied(result) == ["memory"]
    assert "256 MiB" in result.denials[0].rule


def test_files_are_limited(root: Path) -> None:
    result = run(root, "head -c 8000000 /dev/zero > large", limits=SMALL)
    assert result.exit_code != 0 and denied(result) == ["file_size"]
    assert (root / "large").stat().st_size <= SMALL.file_bytes


FORKS = """
import os, time
made = 0
try:
    while made < 1000:
        if os.fork() == 0:
            time.sleep(60)
        made += 1
except OSError:
    pass
print(made)
"""


def test_a_fork_bomb_meets_the_limit_of_processes(root: Path) -> None:
    if not processes_are_limited():
        pytest.skip("the system holds root to no number of processes outside of a cgroup of ours")
    session = bubblewrap(root, limits=SMALL).create_session(session_id="t")
    session.write_file("/tmp/forks.py", FORKS)
    result = session.run_command("python /tmp/forks.py")
    assert 10 < int(result.stdout) <= SMALL.processes
    assert result.left_processes


def test_a_fork_bomb_is_over_at_the_deadline(root: Path) -> None:
    began = time.monotonic()
    result = run(root, ":(){ :|:& };: ; sleep 60", timeout=1, limits=SMALL)
    assert result.timed_out and time.monotonic() - began < 15


@pytest.mark.parametrize("name", [".git/config", ".git/hooks/new", "agentengine.yaml"])
def test_protected_paths_are_read_only(filled: Path, name: str) -> None:
    before = tree(filled)
    result = run(filled, f"echo changed > {name}")
    assert result.exit_code != 0 and denied(result) == ["write"]
    assert tree(filled) == before


def test_protected_paths_behind_links_are_read_only_where_they_lead(root: Path) -> None:
    (root / "real/hooks").mkdir(parents=True)
    (root / "real/config").write_text("as it was")
    (root / ".git").symlink_to("real")
    assert run(root, "echo x > real/config; echo x > real/hooks/new").exit_code != 0
    assert (root / "real/config").read_text() == "as it was"
    assert list((root / "real/hooks").iterdir()) == []


def test_a_protected_path_that_leads_outside_opens_nothing(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (root / ".git").mkdir()
    (root / ".git/config").symlink_to(tmp_path / "secret")
    (root / "agentengine.yaml").symlink_to("/oldroot/etc/passwd")
    assert run(root, "cat .git/config agentengine.yaml").stdout == ""


def test_what_is_private_is_not_there_and_takes_nothing(filled: Path) -> None:
    result = run(filled, "ls -A .agentengine; cat .agentengine/ui/secret; echo x > .agentengine/new")
    assert result.stdout == "" and result.exit_code != 0
    assert (filled / ".agentengine/ui/secret").read_text() == ".agentengine/ui/secret as it was"


def test_hidden_files_and_directories_cannot_be_read_or_written(filled: Path) -> None:
    hidden = (".env", "src", "src/a.py", "absent/file")
    result = run(filled, "cat .env src/a.py; ls src; echo x > .env; echo x > src/new", hidden=hidden)
    assert result.stdout == "" and result.exit_code != 0
    assert (filled / ".env").read_text() == ".env as it was"
    assert sorted(path.name for path in (filled / "src").iterdir()) == ["a.py"]
    assert not (filled / "absent").exists()


def test_a_mount_that_does_not_hold_is_found_before_the_command_starts(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = bubblewrap(filled, hidden=(".env",))
    session = backend.create_session(session_id="t")
    monkeypatch.setattr(mounts, "_deny", lambda place, directory: ())
    with pytest.raises(SandboxError, match=r"exposed /workspace/\.agentengine"):
        session.run_command("touch started")
    assert not (filled / "started").exists()


@pytest.mark.parametrize("line", ["true", "false", "ls -laR", "git status"])
def test_a_command_that_changes_nothing_leaves_the_workspace_as_it_was(filled: Path, line: str) -> None:
    before = tree(filled)
    run(filled, line)
    assert tree(filled) == before


def test_an_empty_workspace_stays_empty(root: Path) -> None:
    run(root, "true")
    assert list(root.iterdir()) == []


CODE = """
import sys
from ksadk.sandbox import create_sandbox_backend
backend = create_sandbox_backend("bubblewrap", workspace_root=sys.argv[1])
backend.create_session(session_id="t").run_command(sys.argv[2])
"""


@pytest.fixture
def killed(filled: Path) -> Iterator[tuple[Path, str]]:
    """A workspace in which a command ran whose program was killed, and a word of that command."""
    bubblewrap(filled)
    mark = f"ksadk-{os.urandom(8).hex()}"
    line = f"trap '' TERM HUP; setsid sleep 600 & sleep 600; : {mark}"
    with subprocess.Popen([sys.executable, "-c", CODE, str(filled), line]) as process:
        try:
            wait_for(mark, True)
        finally:
            process.send_signal(signal.SIGKILL)
    yield filled, mark
    processes.signal_all(still_there(mark), signal.SIGKILL)


def still_there(mark: str) -> list[int]:
    return [found.pid for found in processes.processes() if mark in processes.command_of(found.pid)]


def wait_for(mark: str, there: bool) -> None:
    end = time.monotonic() + 20
    while bool(still_there(mark)) != there:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_sandbox_whose_program_is_killed_dies_and_leaves_the_workspace_as_it_was(
    killed: tuple[Path, str],
) -> None:
    root, mark = killed
    wait_for(mark, False)
    assert set(tree(root)) == {
        ".agentengine", ".agentengine/ui", ".agentengine/ui/secret", ".env", ".git", ".git/HEAD",
        ".git/config", ".git/hooks", "agentengine.yaml", "dangling", "src", "src/a.py",
    }  # fmt: skip
    assert (root / ".git/config").read_text() == ".git/config as it was"


def test_a_link_to_this_machines_files_is_dead(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (root / "link").symlink_to(tmp_path / "secret")
    assert run(root, "cat link").exit_code != 0


@pytest.mark.parametrize("path", ["/etc/made", "/usr/made", ".git/hooks/made", ".agentengine/made"])
def test_a_session_writes_no_file_that_a_command_could_not(filled: Path, path: str) -> None:
    session = bubblewrap(filled).create_session(session_id="t")
    with pytest.raises(SandboxError):
        session.write_file(path, "x")


def test_files_over_the_limit_are_not_carried(root: Path) -> None:
    session = bubblewrap(root).create_session(session_id="t")
    with pytest.raises(SandboxError, match="more than 16 MiB"):
        session.write_file("large", bytes(16 * MIB + 1))
    session.write_file("large", bytes(16 * MIB))
    assert session.read_file("large") == bytes(16 * MIB)
    session.run_command("echo >> large")
    with pytest.raises(SandboxError, match="more than 16 MiB"):
        session.read_file("large")


def test_the_whole_machine_is_no_workspace(root: Path) -> None:
    for place in (Path("/"), root / "absent"):
        with pytest.raises(SandboxError, match="no directory"):
            bubblewrap(place).create_session(session_id="t")


def test_a_session_that_was_ended_runs_nothing(root: Path) -> None:
    session = bubblewrap(root).create_session(session_id="t")
    session.kill()
    with pytest.raises(SandboxError, match="ended"):
        session.run_command("touch made")
    assert list(root.iterdir()) == []


def test_no_cgroup_and_no_process_is_left(root: Path) -> None:
    run(root, "sleep 600 & true")
    run(root, "sleep 600", timeout=0.3)
    assert list(Path("/sys/fs/cgroup").glob(f"**/ksadk-{os.getpid()}-*")) == []
    assert processes.below(os.getpid()) == []
