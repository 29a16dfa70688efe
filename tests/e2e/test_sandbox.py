"""Commands in the sandbox of this machine, from real terminals and in real projects."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import QUESTION, Run, Spawn, ended

from ksadk.sandbox import records
from ksadk.sandbox.probe import probe


@pytest.fixture(autouse=True)
def working() -> None:
    verdict = probe()
    if verdict.diagnosis is not None:
        pytest.skip(verdict.diagnosis.message)


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A port of this machine, and what came to it."""
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(5)
                    came.append(connection.recv(100))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1], came
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_a_command_is_nobody_sees_nothing_and_reaches_nothing(
    agentengine: Run, listener: tuple[int, list[bytes]], only_bwrap: None
) -> None:
    port, came = listener
    line = f"id -u; hostname; ls /root; exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3"
    done = agentengine("sandbox", "run", "--yes", "--", "bash", "-c", line)
    assert done.stdout == "1000\nsandbox\n"
    assert done.returncode == 1
    assert "No such file" in done.stderr and "refused" in done.stderr
    assert came == []
    done = agentengine("sandbox", "run", "--yes", "--net", "--", "bash", "-c", line)
    assert (done.returncode, done.stdout) == (0, "1000\nsandbox\n"), done.stderr
    assert came == [b"hello\n"]


def test_the_tests_of_a_project_run_in_its_own_environment(agentengine: Run) -> None:
    project = Path("project")
    (project / "src/thing").mkdir(parents=True)
    (project / "src/thing/__init__.py").write_text("VALUE = 42\n")
    (project / "test_thing.py").write_text(
        "import sys, thing\n\n\ndef test_value():\n    assert thing.VALUE == 42\n\n\n"
        "def test_environment():\n    assert sys.prefix.endswith('.venv')\n"
    )
    venv = project / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    [packages] = venv.glob("lib/python*/site-packages")
    # As `pip install -e . pytest` would leave it: pytest's script, an editable install, and the packages.
    (packages / "thing.pth").write_text(f"{project.absolute() / 'src'}\n")
    installed = Path(pytest.__file__).parent.parent
    for name in ("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments"):
        subprocess.run(["cp", "-r", str(installed / name), str(packages)], check=True)
    script = venv / "bin/pytest"
    lines = (f"#!{venv.absolute()}/bin/python", "import sys, pytest", "sys.exit(pytest.console_main())")
    script.write_text("\n".join(lines))
    script.chmod(0o755)
    for options in ([], ["--diff"]):
        done = agentengine("sandbox", "run", "--yes", "--root", "project", *options, "--", "pytest", "-q")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "2 passed" in done.stdout
    (project / "src/thing/__init__.py").write_text("VALUE = 41\n")
    done = agentengine("sandbox", "run", "--yes", "--root", "project", "--", "pytest", "-q")
    assert (done.returncode, "1 failed, 1 passed" in done.stdout) == (1, True)


def test_a_bwrap_that_apparmor_stops_is_told_with_what_to_do(agentengine: Run, tmp_path: Path) -> None:
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "bwrap").write_text(
        "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
    )
    (fake / "bwrap").chmod(0o755)
    path = f"{fake}:{os.environ['PATH']}"
    done = agentengine("sandbox", "status", "--probe", PATH=path)
    assert done.returncode == 8
    assert "Permission denied" in done.stderr and "hint:" in done.stderr
    Path("made").unlink(missing_ok=True)
    done = agentengine("sandbox", "run", "--yes", "--root", ".", "--", "touch", "made", PATH=path)
    assert done.returncode == 125
    assert "nothing was run" in done.stderr
    assert not Path("made").exists()


def test_the_prompt_shows_what_each_part_does_and_runs_on_yes(terminal: Spawn, only_bwrap: None) -> None:
    Path("f.txt").write_text("one\n")
    child = terminal("sandbox", "run", "--root", ".", "--net", "--", "bash", "-c", "cat f.txt && touch made")
    child.expect(QUESTION)
    assert child.before is not None
    for words in ("cat f.txt: only reads", "touch made", "network_access", "this machine's own", "high"):
        assert words in child.before
    assert not Path("made").exists()
    child.send("y")
    status, printed = ended(child)
    assert status == 0
    assert "one" in printed
    assert Path("made").exists()


def test_no_at_the_prompt_runs_nothing_and_is_125(terminal: Spawn) -> None:
    child = terminal("sandbox", "run", "--root", ".", "--", "touch", "made")
    child.expect(QUESTION)
    child.send("n")
    status, printed = ended(child)
    assert (status, "[approval_rejected]" in printed) == (125, True)
    assert not Path("made").exists()


@pytest.mark.parametrize(("key", "after"), [("y", "ONE\n"), ("n", "one\n")])
def test_the_changes_of_a_copy_are_shown_and_asked_about(terminal: Spawn, key: str, after: str) -> None:
    Path("f.txt").write_text("one\n")
    child = terminal(
        "sandbox",
        "run",
        "--root",
        ".",
        "--yes",
        "--diff",
        "--",
        "sed",
        "-i",
        "s/one/ONE/",
        "f.txt",
        NO_COLOR="1",
    )
    child.expect(QUESTION)
    assert child.before is not None
    assert "+ONE" in child.before and "apply_sandbox_changes" in child.before
    assert Path("f.txt").read_text() == "one\n"
    child.send(key)
    assert ended(child)[0] == 0
    assert Path("f.txt").read_text() == after
    assert list(records.recorded()) == []


SECONDS = str(100_000 + os.getpid())
"""How long commands here sleep: by this they are known from those of other tests."""


def sleepers() -> list[int]:
    """The processes of this test's commands."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", SECONDS.encode()]:
                found.append(int(entry.name))
    return found


def started(*options: str) -> subprocess.Popen[bytes]:
    """A program whose command sleeps by now."""
    run = [sys.executable, "-m", "agentengine_cli", "sandbox", "run", "--root", ".", "--yes", *options]
    program = subprocess.Popen(
        [*run, "--", "sleep", SECONDS],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 30
    while not sleepers():
        assert program.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    return program


def check_gone() -> None:
    """No command sleeps any more, soon."""
    until = time.monotonic() + 10
    while sleepers() and time.monotonic() < until:
        time.sleep(0.02)
    assert sleepers() == []


def check_nothing_left() -> None:
    """Neither a record nor a copy is left."""
    assert list(records.recorded()) == []
    copies = records.records_directory() / "copies"
    assert not copies.exists() or list(copies.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("options", [[], ["--diff"]])
def test_a_program_that_is_asked_to_end_leaves_nothing(options: list[str], number: signal.Signals) -> None:
    program = started(*options)
    program.send_signal(number)
    assert program.wait(20) == 128 + number
    check_gone()
    check_nothing_left()


@pytest.mark.parametrize("backend", ["bubblewrap", "local_process"])
def test_what_a_killed_program_left_is_gone_with_the_next_start(
    agentengine: Run, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", backend)
    program = started(*(["--diff"] if backend == "bubblewrap" else []))
    program.kill()
    program.wait(20)
    if backend == "bubblewrap":
        check_gone()  # the system ended it with its program
    else:
        assert sleepers() != []
    assert "left_over" in agentengine("sandbox", "list").stdout
    done = agentengine("sandbox", "run", "--root", ".", "--yes", "--", "true")
    assert done.returncode == 0, done.stderr
    check_gone()
    check_nothing_left()


def test_a_sandbox_that_another_program_uses_can_be_ended(agentengine: Run) -> None:
    program = started()
    [(facts, lives)] = records.recorded()
    assert lives
    assert agentengine("sandbox", "kill", facts.sandbox_id).returncode == 0
    program.wait(20)
    check_gone()
    check_nothing_left()


def test_nothing_in_a_sandbox_approves(agentengine: Run) -> None:
    run = ("sandbox", "run", "--yes", "--root", ".", "--")
    done = agentengine(*run, "env", SECRET_TOKEN="hush")
    assert "KSADK_INSIDE_TOOL=1\n" in done.stdout and "hush" not in done.stdout
    done = agentengine(*run, "true", KSADK_INSIDE_TOOL="1")
    assert (done.returncode, "[approval_inside_tool]" in done.stderr) == (125, True)


def test_output_is_shown_while_the_command_runs(terminal: Spawn) -> None:
    child = terminal("sandbox", "run", "--yes", "--", "bash", "-c", "echo begun; sleep 60")
    child.expect("begun")  # which times out before the command ends
    child.sendintr()
    assert ended(child)[0] in (125, 130)


def test_the_status_is_the_commands_own_though_nobody_reads_its_output() -> None:
    line = (
        f"{sys.executable} -m agentengine_cli sandbox run --yes -- bash -c 'seq 200000; exit 7' | head -n 1"
    )
    done = subprocess.run(
        ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (7, "1\n")
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
