"""How commands run, in every sandbox of this machine: real processes, real time, real memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sandboxes import EACH, make, meeting

from ksadk.sandbox import processes
from ksadk.sandbox.base import SandboxCommandResult, SandboxError, SandboxInputFile, SandboxSession
from ksadk.sandbox.running import OUTPUT_LIMIT_BYTES, Running

MIB = 1024 * 1024
Start = Callable[..., SandboxSession]


@pytest.fixture(params=EACH)
def start(request: pytest.FixtureRequest, root: Path) -> Start:
    """Starts a session of each sandbox in `root`."""

    def started(**options: object) -> SandboxSession:
        return make(request.param, root, **options).create_session(session_id="test")

    return started


def still_there(mark: str) -> list[int]:
    """The processes of this machine that have a word in their command."""
    return [found.pid for found in processes.processes() if mark in processes.command_of(found.pid)]


def timed(session: SandboxSession, line: str, timeout: float) -> tuple[SandboxCommandResult, float]:
    began = time.monotonic()
    result = session.run_command(line, timeout=timeout)
    return result, time.monotonic() - began


def test_a_command_gives_what_it_printed_and_how_it_ended(start: Start) -> None:
    result = start().run_command("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert not result.ok and not result.timed_out and result.left_processes == ()
    assert (result.stdout_bytes, result.stderr_bytes, result.stdout_truncated) == (4, 4, False)


def test_a_signal_that_ended_the_shell_is_in_the_exit_code(start: Start) -> None:
    assert start().run_command("kill -KILL $$").exit_code == 137


def test_lines_are_bash(start: Start) -> None:
    assert start().run_command("a=(1 2 3); [[ ${a[2]} == 3 ]] && echo <(true)").exit_code == 0


@pytest.mark.parametrize(
    "line",
    [
        "sh -c 'python3 -c \"while 1: pass\" {mark}'",
        "sh -c 'trap \"\" TERM; sleep 60 {mark} & wait; sleep 60'",
        "(trap '' TERM INT HUP; while :; do sleep 1; done; : {mark}) & wait",
        "setsid sh -c 'sleep 60; : {mark}' & wait",
        "nohup setsid -f sh -c 'trap \"\" TERM; sleep 60; : {mark}' >/dev/null 2>&1; sleep 60",
    ],
    ids=[
        "a grandchild that works",
        "one that ignores TERM",
        "a shell that does",
        "another session",
        "a daemon",
    ],
)
def test_at_the_deadline_the_whole_tree_dies(start: Start, line: str) -> None:
    mark = f"ksadk-{os.urandom(8).hex()}"
    result, seconds = timed(start(), line.replace("{mark}", mark), 1)
    assert (result.exit_code, result.timed_out, result.ok) == (124, True, False)
    assert seconds < 30
    assert still_there(mark) == []
    assert result.left_processes and all(left.killed for left in result.left_processes)


def test_what_was_printed_before_the_deadline_is_kept(start: Start) -> None:
    assert start().run_command("echo before; sleep 60", timeout=0.5).stdout == "before\n"


@pytest.mark.parametrize(
    "line",
    [
        "sleep {n} & echo done",
        "(setsid sleep {n} &) ; sleep 0.1; echo done",
        "trap '' TERM; sleep {n} & echo done",
    ],
    ids=["a child", "another session's", "one that ignores TERM"],
)
def test_a_background_process_neither_holds_the_call_nor_outlives_it(start: Start, line: str) -> None:
    number = str(10_000 + int.from_bytes(os.urandom(2)))
    result, seconds = timed(start(), line.replace("{n}", number), 60)
    assert (result.stdout, result.exit_code) == ("done\n", 0)
    assert seconds < 30
    assert [left.killed for left in result.left_processes] == [True]
    assert still_there(f"sleep {number}") == []


def test_output_without_end_is_cut_off_at_the_limit(start: Start) -> None:
    result, seconds = timed(start(output_limit=50 * MIB), "yes", 60)
    assert result.output_limit_exceeded and not result.timed_out and result.exit_code == 137
    assert 50 * MIB < result.stdout_bytes < 60 * MIB
    assert seconds < 30


GROWTH = """
import resource, subprocess, sys, time
from ksadk.sandbox import create_sandbox_backend as make
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
name, root = sys.argv[1:]
line = "yes"
if name == "naive":
    before = peak()
    subprocess.run(f"{line} | head -c 300000000", shell=True, capture_output=True)
    print(peak() - before, 0, 0)
else:
    backend = make(name, workspace_root=root)
    vars(backend).update(output_limit=1 << 60)
    session = backend.create_session(session_id="t")
    session.run_command(line, timeout=0.2)
    before, began = peak(), time.monotonic()
    result = session.run_command(line, timeout=2)
    assert result.timed_out
    print(peak() - before, result.stdout_bytes // 1024 // 1024, time.monotonic() - began)
"""
"""How many MiB of memory endless output takes, how much of it there was, and the seconds."""


def growth(name: str, root: Path) -> tuple[float, ...]:
    arguments = [sys.executable, "-c", GROWTH, name, str(root)]
    return tuple(map(float, subprocess.run(arguments, capture_output=True, check=True).stdout.split()))


@pytest.mark.parametrize("name", EACH)
def test_output_without_end_takes_no_memory_and_moves_no_deadline(name: str, root: Path) -> None:
    make(name, root)
    grown, printed, seconds = growth(name, root)
    assert grown < 50 and printed > 100
    assert seconds < 20


def test_a_reader_that_keeps_all_is_caught_by_the_same_measure(root: Path) -> None:
    assert growth("naive", root)[0] > 50


def test_a_runner_that_kills_its_child_only_is_caught_by_the_same_measure(root: Path) -> None:
    number = str(10_000 + int.from_bytes(os.urandom(2)))
    line = f"sleep {number} & sleep {number}; true"
    process = subprocess.Popen(["bash", "-c", line], stdout=subprocess.DEVNULL)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.kill()
    process.wait()
    left = still_there(f"sleep {number}")
    processes.signal_all(left, 9)
    assert left


def test_of_a_large_output_both_ends_are_kept_and_what_is_missing_is_said(
    start: Start,
) -> None:
    result = start().run_command("seq 1 3000000")
    assert result.stdout_truncated and not result.stderr_truncated
    assert result.stdout_bytes == sum(len(f"{n}\n") for n in (range(1, 3_000_001)))
    assert result.stdout.startswith("1\n2\n3\n")
    first, _, last = result.stdout.partition("\n[... ")
    missing = int(last.split()[0])
    assert "\n2999999\n3000000\n" in last
    assert last.endswith(
        f"[{result.stdout_bytes} bytes of output in all; {missing} in the middle are left out]\n"
    )
    end = last.partition("...]\n")[2].rpartition("\n[")[0]
    assert len(first) + missing + len(end) == result.stdout_bytes


def test_bytes_that_are_no_utf_8_are_replaced_and_counted(start: Start) -> None:
    result = start().run_command(r"printf '\xf0ok\xb4'; printf '\xef\xbf\xbd\xff' >&2")
    assert (result.stdout, result.stderr) == ("\ufffdok\ufffd", "\ufffd\ufffd")
    assert result.encoding_errors == 3


PRINTS = "python3 -c 'import sys; print(\"中文\", sys.stdout.encoding)'; locale charmap"


def test_text_is_utf_8_whatever_the_locale(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "zh_CN.GBK")
    monkeypatch.setenv("LC_ALL", "zh_CN.GBK")
    result = start().run_command(PRINTS)
    assert result.stdout == "中文 utf-8\nUTF-8\n"


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("cat; echo $?", "0\n"),
        ("read x; echo $?", "1\n"),
        ("read x </dev/tty || echo none", "none\n"),
        ("python3 -c 'input()' || echo none", "none\n"),
        ("GIT_CONFIG_NOSYSTEM=1 git clone -q https://127.0.0.1:9/p || echo none", "none\n"),
        (
            "git init -q . && git -c user.name=a -c user.email=b commit --allow-empty || echo none",
            "none\n",
        ),
        ("ssh -o ConnectTimeout=1 nobody@127.0.0.1 -p 9 || echo none", "none\n"),
    ],
    ids=["cat", "read", "a terminal", "input()", "git's password", "git's editor", "ssh's password"],
)
def test_nothing_waits_for_an_answer(start: Start, line: str, printed: str) -> None:
    result = start().run_command(line, timeout=30)
    assert (result.stdout, result.timed_out) == (printed, False)


def test_from_a_terminal_nothing_reads_the_terminal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pexpect

    code = (
        "import sys; from ksadk.sandbox.local_process import LocalProcessSandboxBackend as B\n"
        "session = B(sys.argv[1]).create_session(session_id='t')\n"
        "r = session.run_command('read x </dev/tty; echo $?', timeout=20)\n"
        "print('answer', r.stdout.strip(), r.timed_out)"
    )
    child = pexpect.spawn(sys.executable, ["-c", code, str(root)], encoding="utf-8", timeout=30)
    child.sendline("typed")
    child.expect("answer 1 False")
    child.close()


def test_a_command_gets_few_variables_and_no_secret(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGENT_SECRET", "OPENAI_API_KEY", "E2B_API_KEY", "PYTHONPATH", "LD_LIBRARY_PATH", "KSADK_X"):
        monkeypatch.setenv(name, "a-secret")
    monkeypatch.setenv("KSADK_SAFE_NAME", "passed")
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    printed = start().run_command("env; cat /proc/self/environ | tr '\\0' '\\n'").stdout
    assert "a-secret" not in printed
    assert "KSADK_SAFE_NAME=passed\n" in printed and "TZ=Asia/Shanghai\n" in printed


def test_a_caller_sets_variables_for_a_session_and_for_a_command(root: Path) -> None:
    for name in EACH:
        session = make(name, root).create_session(session_id="t", env={"A": "1", "B": "1"})
        assert session.run_command("echo $A$B$C", env={"B": "2", "C": "3"}).stdout == "123\n"


def test_a_variable_that_loads_programs_is_refused(start: Start) -> None:
    with pytest.raises(SandboxError, match="LD_PRELOAD") as caught:
        start().run_command("true", env={"LD_PRELOAD": "/tmp/x.so"})
    assert (caught.value.code, caught.value.kind) == ("environment_refused", "denied")


def test_a_directory_outside_of_the_workspace_is_exit_126(start: Start, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "link").symlink_to("/")
    session = start()
    assert session.run_command("basename $PWD", cwd="sub").stdout == "sub\n"
    for cwd in ("nowhere", "../nothing", "link/nothing"):
        assert session.run_command("pwd", cwd=cwd).exit_code == 126


def test_local_commands_do_not_leave_the_workspace_by_their_directory(root: Path) -> None:
    (root / "link").symlink_to("/")
    session = make("local_process", root).create_session(session_id="t")
    for cwd in ("..", "/", "link", "/tmp", "a\0b"):
        result = session.run_command("pwd", cwd=cwd)
        assert (result.exit_code, result.stdout) == (126, "")


def test_the_configured_time_holds_for_every_command(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_TIMEOUT", "1")
    session = start()
    began = time.monotonic()
    assert session.run_command("sleep 60").timed_out
    assert time.monotonic() - began < 30


def test_files_are_put_in_and_read(start: Start, root: Path) -> None:
    session = start()
    session.write_file("sub/new.bin", b"\x00\xff")
    assert (root / "sub/new.bin").read_bytes() == b"\x00\xff" == session.read_file("sub/new.bin")
    session.write_file("text.txt", "中文")
    assert session.run_command("cat text.txt").stdout == "中文"
    for path in ("absent", "../secret", "sub"):
        with pytest.raises(SandboxError):
            session.read_file(path)


def test_a_file_is_not_written_outside_through_a_link(start: Start, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "link").symlink_to(outside)
    with pytest.raises(SandboxError):
        start().write_file("link/file", "x")
    assert list(outside.iterdir()) == []


def test_input_files_are_there_when_a_session_begins(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"bytes")
    for name in EACH:
        files = [SandboxInputFile(source, f"in/{name}")]
        session = make(name, root).create_session(session_id="t", input_files=files)
        assert session.run_command(f"cat in/{name}").stdout == "bytes"
    with pytest.raises(SandboxError, match="cannot be read"):
        make("local_process", root).create_session(
            session_id="t", input_files=[SandboxInputFile("absent", "x")]
        )


def test_ending_a_session_ends_what_runs_in_it(start: Start) -> None:
    session = start()
    threading.Timer(0.5, session.kill).start()
    result, seconds = timed(session, "sleep 61; echo never", 60)
    assert result.exit_code != 0 and "never" not in result.stdout and not result.timed_out
    assert seconds < 30
    session.kill()
    with pytest.raises(SandboxError) as ended:
        session.run_command("true")
    assert ended.value.code == "sandbox_ended"


def test_an_interrupt_ends_the_command(root: Path) -> None:
    number = str(10_000 + int.from_bytes(os.urandom(2)))
    code = (
        "import sys; from ksadk.sandbox import create_sandbox_backend as make\n"
        "backend = make(sys.argv[1], workspace_root=sys.argv[2])\n"
        "backend.create_session(session_id='t').run_command(sys.argv[3])"
    )
    for name in EACH:
        arguments = [sys.executable, "-c", code, name, str(root), f"trap '' INT; sleep {number}; true"]
        with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as process:
            wait_for(lambda: still_there(f"sleep {number}"))
            process.send_signal(2)
            process.wait(20)
        assert still_there(f"sleep {number}") == []


def test_commands_run_side_by_side(start: Start) -> None:
    session = start()
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(session.run_command, meeting(3)))
    assert [result.stdout for result in results] == ["0\n", "1\n", "2\n"]


def test_no_descriptor_is_left_open(start: Start) -> None:
    session = start()
    session.run_command("true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for line in ("true", "sleep 60 & true", "exit 3"):
        session.run_command(line)
    session.run_command("sleep 60", timeout=0.2)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"], ids=["NUL", "a surrogate"])
def test_what_no_process_can_be_given_is_an_error(start: Start, command: str) -> None:
    with pytest.raises(SandboxError):
        start().run_command(command)


def test_a_program_that_is_not_there_is_an_error(root: Path) -> None:
    with pytest.raises(SandboxError, match="cannot be started"):
        Running(["/nowhere/program"], {}, lambda *_: ())


def test_the_pod_is_used_only_where_that_is_allowed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = make("local_process", root, backend_name="pod_process")
    with pytest.raises(SandboxError, match="not allowed"):
        backend.create_session(session_id="t")
    monkeypatch.setenv("KSADK_ALLOW_POD_PROCESS_TOOLS", "1")
    assert backend.create_session(session_id="t").run_command("echo pod").stdout == "pod\n"


def test_the_limit_of_output_is_above_what_a_build_prints() -> None:
    assert OUTPUT_LIMIT_BYTES > 200_000_000


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
