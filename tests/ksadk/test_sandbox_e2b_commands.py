"""Commands and files in a sandbox of E2B, and the SDK's class that may be one's own."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from e2b_sandboxes import started
from e2b_server import E2BServer
from sandboxes import meeting

from ksadk.sandbox import SandboxSpec
from ksadk.sandbox.e2b import E2BSandboxBackend, E2BSession


@pytest.mark.parametrize(
    ("line", "stdout", "stderr", "code", "errors"),
    [
        ("echo out; echo err >&2", "out\n", "err\n", 0, 0),
        ("echo kept; echo too >&2; exit 3", "kept\n", "too\n", 3, 0),
        ("printf 'a\\nb'; nosuchprogram", "a\nb", None, 127, 0),
        ("printf '\\xff\\xc3\\xa9\\xfe'", "\ufffdé\ufffd", "", 0, 2),
        ("cat; echo end", "end\n", "", 0, 0),  # there is nothing to read
        ("kill -TERM $$", "", "", 143, 0),
        ("kill -SEGV $$", "", "", 139, 0),
        ("kill -KILL $$", "", "", 137, 0),
        ("id -u; hostname", "1000\ne2b\n", "", 0, 0),
    ],
)
def test_a_command_that_fails_is_a_result(
    e2b_session: E2BSession, line: str, stdout: str, stderr: str | None, code: int, errors: int
) -> None:
    result = e2b_session.run_command(line)
    assert (result.stdout, result.exit_code, result.encoding_errors) == (stdout, code, errors)
    assert stderr is None or result.stderr == stderr
    assert not result.timed_out
    assert result.ok == (code == 0)


def test_a_command_has_the_variables_and_the_directory_that_it_was_given(e2b_session: E2BSession) -> None:
    e2b_session.write_file("/workspace/sub/file", "text")
    line = "pwd; echo $A"
    assert e2b_session.run_command(line, env={"A": "b c"}, cwd="sub").stdout == "/workspace/sub\nb c\n"
    assert e2b_session.run_command(line, cwd="/tmp").stdout == "/tmp\n\n"


def test_a_directory_that_is_not_there_is_126(e2b_session: E2BSession) -> None:
    result = e2b_session.run_command("echo no", cwd="/nowhere")
    assert (result.exit_code, result.stdout) == (126, "")
    assert "/nowhere" in result.stderr


def test_the_configured_time_ends_a_command_with_all_that_it_started(
    e2b: E2BServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_TIMEOUT", "1")
    session = started()
    began = time.monotonic()
    result = session.run_command("echo before; (setsid sleep 41 &) ; sleep 42; echo after")
    assert time.monotonic() - began < 30
    assert (result.stdout, result.exit_code, result.timed_out, result.ok) == ("before\n", 124, True, False)
    assert {"sleep 41"} <= {process.command for process in result.left_processes}
    running = session.run_command("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert "sleep 4" not in running


def test_a_command_within_its_own_time_is_not_cut(
    e2b_session: E2BSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_TIMEOUT", "1")
    assert e2b_session.run_command("sleep 1.5; echo done", timeout=30).stdout == "done\n"


def test_ctrl_c_ends_the_command_at_once(e2b_session: E2BSession) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            e2b_session.run_command("sleep 43")
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 30
    assert "sleep 43" not in e2b_session.run_command("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout


def test_what_runs_in_the_background_goes_on(e2b_session: E2BSession) -> None:
    wait = "until [ -e /tmp/{} ]; do sleep 0.05; done"
    line = f"({wait.format('go')}; echo then > /tmp/new; mv /tmp/new /tmp/later) > /dev/null 2>&1 &"
    assert e2b_session.run_command(line).ok
    assert (
        e2b_session.run_command(f"touch /tmp/go; {wait.format('later')}; cat /tmp/later").stdout == "then\n"
    )


def test_200_mb_of_output_do_not_fill_the_memory(e2b_session: E2BSession) -> None:
    e2b_session.run_command("true")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = memory("VmRSS")
    result = e2b_session.run_command("head -c 200000000 /dev/zero | tr '\\0' a; echo; echo end")
    grown = memory("VmHWM") - before
    assert grown < 100 * 1024, f"{grown} KiB"
    assert result.stdout_truncated
    if result.output_limit_exceeded:  # of a release that keeps all that was printed
        assert (result.exit_code, result.stdout_bytes) == (137, pytest.approx(16 << 20, rel=0.01))
        assert len(result.left_processes) >= 2
    else:
        assert (result.exit_code, result.stdout_bytes) == (0, 200_000_005)
        assert "\nend\n" in result.stdout


def memory(name: str) -> int:
    """Of this process, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def test_a_character_that_comes_in_two_pieces_is_whole_or_counted(e2b_session: E2BSession) -> None:
    result = e2b_session.run_command("printf a; printf 'é%.0s' $(seq 50000)")
    lost = result.stdout.count("\ufffd")
    assert result.encoding_errors == lost
    if not lost:
        assert result.stdout == "a" + "é" * 50000


def test_commands_run_at_the_same_time(e2b_session: E2BSession) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(e2b_session.run_command, meeting(4, "/tmp")))
    assert [result.stdout for result in results] == ["0\n", "1\n", "2\n", "3\n"]


@pytest.mark.parametrize("allowed", [True, False])
def test_a_sandbox_reaches_the_internet_only_when_it_may(e2b: E2BServer, allowed: bool) -> None:
    spec = SandboxSpec("base", allow_internet_access=allowed)
    session = E2BSandboxBackend(spec).create_session(session_id="s")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = session.run_command(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    assert result.ok == allowed


@pytest.mark.parametrize(
    "path",
    ["/tmp/plain", "/workspace/new/dir/f", "/tmp/a b é 漢", '/tmp/"quoted"', "/tmp/back\\slash", "/tmp/%22"],
)
def test_files_come_back_byte_for_byte_under_any_name(e2b_session: E2BSession, path: str) -> None:
    data = bytes(range(256)) + b"\r\n--boundary\r\n\n"
    e2b_session.write_file(path, data)
    assert e2b_session.read_file(path) == data
    e2b_session.write_files([{"path": path, "data": b"again"}, {"path": "/tmp/other", "data": b""}])
    assert (e2b_session.read_file(path), e2b_session.read_file("/tmp/other")) == (b"again", b"")


def test_text_is_written_as_utf_8(e2b_session: E2BSession) -> None:
    e2b_session.write_file("/tmp/text", "é")
    assert e2b_session.read_file("/tmp/text") == "é".encode()


# A class of one's own


class CommandExitException(Exception):
    stdout, stderr, exit_code = "out", "err", 5


class Simple:
    """As little of `e2b.Sandbox` as will do."""

    sandbox_id = "mine"

    def __init__(self, **created: Any) -> None:
        self.created = created
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.commands = self.files = self

    @classmethod
    def create(cls, **wanted: Any) -> Simple:
        return cls(**wanted)

    def run(self, command: str, **options: Any) -> Any:
        self.calls.append((command, options))
        if command == "fail":
            raise CommandExitException
        self.stdout, self.stderr, self.exit_code = command, "", 0
        return self

    def write(self, path: str, data: str) -> None:
        self.calls.append((path, {"data": data}))


def test_a_class_of_ones_own_is_given_what_there_is_and_no_more() -> None:
    made: list[Simple] = []

    class Noted(Simple):
        @classmethod
        def create(cls, **wanted: Any) -> Simple:
            made.append(super().create(**wanted))
            return made[0]

    session = E2BSandboxBackend(SandboxSpec("t"), Noted).create_session(session_id="s")
    assert set(made[0].created) == {"template", "timeout", "metadata", "envs", "allow_internet_access"}
    assert made[0].calls == [("true", {}), ("/tmp/.ksadk-sandbox-ready", {"data": ""})]
    assert session.run_command("echo", timeout=5).stdout == "echo"
    assert made[0].calls[-1] == ("echo", {"timeout": 5.0})
    failed = session.run_command("fail", env={"A": "1"}, cwd="/d")
    assert (failed.stdout, failed.stderr, failed.exit_code) == ("out", "err", 5)
    assert made[0].calls[-1] == ("fail", {"timeout": 600.0, "envs": {"A": "1"}, "cwd": "/d"})
