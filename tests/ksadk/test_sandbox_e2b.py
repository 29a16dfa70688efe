"""Sandboxes of E2B: the real SDK, over loopback, against a service whose sandboxes are bubblewraps."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from e2b_server import E2BServer
from e2b_server.service import KEY

from ksadk.sandbox import SandboxError, SandboxInputFile, SandboxSpec, SandboxType
from ksadk.sandbox.e2b import E2BSandboxBackend, E2BSession, attach, kill_sandbox

Refusal = Callable[[], object]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[E2BServer]:
    # The path of a socket is in it, which may only be short.
    with tempfile.TemporaryDirectory(prefix="e2b-") as directory, E2BServer(Path(directory)) as server:
        for name, value in {**server.environ, "E2B_API_KEY": KEY}.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def session(service: E2BServer) -> E2BSession:
    return started()


def started(**wanted: Any) -> E2BSession:
    return E2BSandboxBackend(SandboxSpec("base")).create_session(session_id="s1", **wanted)


def refusal(call: Refusal) -> SandboxError:
    with pytest.raises(SandboxError) as caught:
        call()
    return caught.value


# Starting one


def test_a_sandbox_is_created_as_the_environment_says(
    service: E2BServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_TEMPLATE_ID", "tmpl-1")
    session = E2BSandboxBackend().create_session(session_id="account:session", env={"A": "1"})
    request = service.sandboxes[session.sandbox_id].request
    wanted = {
        "templateID": "tmpl-1",
        "timeout": 900,
        "metadata": {"runtime": "ksadk", "sandbox_type": "aio", "session_id": "account:session"},
        "envVars": {"A": "1"},
        "allow_internet_access": True,
    }
    assert {name: request[name] for name in wanted} == wanted


def test_a_sandbox_is_created_as_a_spec_says(service: E2BServer) -> None:
    spec = SandboxSpec("base", SandboxType.CODE, 60, False, {"team": "a"}, {"B": "2"})
    session = E2BSandboxBackend(spec).create_session(session_id="s")
    request = service.sandboxes[session.sandbox_id].request
    assert request["timeout"] == 60
    assert request["metadata"] == {"team": "a", "runtime": "ksadk", "sandbox_type": "code", "session_id": "s"}
    assert request["envVars"] == {"B": "2"}
    assert request["allow_internet_access"] is False


def test_without_a_template_there_is_no_backend() -> None:
    error = refusal(E2BSandboxBackend)
    assert error.code == "SandboxError"
    assert "KSADK_SANDBOX_TEMPLATE_ID" in (error.hint or "")


def test_without_a_key_nothing_is_asked(service: E2BServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("E2B_API_KEY")
    error = refusal(started)
    assert (error.code, error.hint) == ("sandbox_unauthenticated", "Set E2B_API_KEY.")
    assert service.seen == []


def test_without_the_sdk_it_is_said_how_to_install_it(
    service: E2BServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "e2b", None)
    error = refusal(started)
    assert (error.code, error.hint) == ("extra_not_installed", "pip install 'agentengine-cli[e2b]'")


def test_a_key_that_is_refused_is_in_no_error(service: E2BServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E2B_API_KEY", wrong := "e2b_" + "f" * 40)
    error = refusal(started)  # the service's answer quotes the key
    assert error.code == "sandbox_unauthenticated"
    assert wrong not in "".join(traceback.format_exception(error))


def test_the_key_of_an_env_file_is_enough(service: E2BServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from ksadk.settings import environment_below

    monkeypatch.delenv("E2B_API_KEY")
    with environment_below({"E2B_API_KEY": KEY}, ".env"):
        assert started().run_command("echo here").stdout == "here\n"


def test_a_sandbox_that_is_not_ready_is_tried_again_and_waited_for_longer_each_time(
    service: E2BServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_STARTUP_RETRY_DELAY", "0.05")
    service.unready = 3
    began = time.monotonic()
    session = started()
    assert time.monotonic() - began >= 0.05 + 0.1 + 0.2
    assert session.read_file("/tmp/.ksadk-sandbox-ready") == b""


def test_a_sandbox_that_never_gets_ready_is_ended(
    service: E2BServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_STARTUP_RETRY_DELAY", "0.01")
    monkeypatch.setenv("KSADK_SANDBOX_STARTUP_RETRY_ATTEMPTS", "4")
    service.unready = 100
    error = refusal(started)
    assert "did not get ready" in error.message
    assert service.seen.count("POST /process.Process/Start") == 4
    assert service.sandboxes == {}


def test_files_go_in_at_the_start_in_one_request(service: E2BServer, tmp_path: Path) -> None:
    contents = {f"/workspace/d{i % 7}/f{i}": bytes([i % 256, 13, 10, 0]) * i for i in range(300)}
    inputs = []
    for number, (target, data) in enumerate(contents.items()):
        (source := tmp_path / str(number)).write_bytes(data)
        inputs.append(SandboxInputFile(source, target))
    session = started(input_files=inputs)
    uploads = [seen for seen in service.seen if seen.startswith("POST /files")]
    assert len(uploads) == 2  # the other one is what tells that it is ready
    assert session.run_command("pwd; find . -type f | wc -l").stdout == "/workspace\n300\n"
    assert session.read_file("/workspace/d5/f299") == contents["/workspace/d5/f299"]


def test_an_input_that_cannot_be_read_starts_nothing(service: E2BServer, tmp_path: Path) -> None:
    error = refusal(lambda: started(input_files=[SandboxInputFile(tmp_path / "no", "/workspace/no")]))
    assert "No such file" in error.message
    assert service.seen == []


def test_an_input_that_cannot_be_written_ends_the_sandbox(service: E2BServer, tmp_path: Path) -> None:
    (source := tmp_path / "big").write_bytes(bytes(70 * 1024 * 1024))
    error = refusal(lambda: started(input_files=[SandboxInputFile(source, "/tmp/big")]))
    assert error.code == "no_space"
    assert service.sandboxes == {}


# Keys


@pytest.mark.parametrize("name", ["LD_PRELOAD", "BASH_ENV", "PYTHONSTARTUP", "E2B_API_KEY", "OPENAI_API_KEY"])
def test_variables_that_load_code_or_are_keys_do_not_go_in(session: E2BSession, name: str) -> None:
    for call in (
        lambda: started(env={name: "x"}),
        lambda: session.run_command("env", env={name: "x"}),
    ):
        assert refusal(call).code == "environment_refused"


@pytest.mark.parametrize("value", [KEY, f"Bearer {KEY}"])
def test_a_key_does_not_go_in_under_another_name(service: E2BServer, value: str) -> None:
    spec = SandboxSpec("base", env={"HARMLESS": value})
    error = refusal(lambda: E2BSandboxBackend(spec).create_session(session_id="s"))
    assert error.code == "environment_refused"
    assert KEY not in error.message
    assert service.seen == []


def test_nothing_of_our_environment_is_in_a_sandbox(
    session: E2BSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SKILL_SERVICE_TOKEN", "skill-token-1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-secret-1")
    printed = session.run_command("env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline").stdout
    for secret in (KEY, "skill-token-1", "aws-secret-1"):
        assert secret not in printed


# Running commands


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
    session: E2BSession, line: str, stdout: str, stderr: str | None, code: int, errors: int
) -> None:
    result = session.run_command(line)
    assert (result.stdout, result.exit_code, result.encoding_errors) == (stdout, code, errors)
    assert stderr is None or result.stderr == stderr
    assert not result.timed_out
    assert result.ok == (code == 0)


def test_a_command_has_the_variables_and_the_directory_that_it_was_given(session: E2BSession) -> None:
    session.write_file("/workspace/sub/file", "text")
    line = "pwd; echo $A"
    assert session.run_command(line, env={"A": "b c"}, cwd="sub").stdout == "/workspace/sub\nb c\n"
    assert session.run_command(line, cwd="/tmp").stdout == "/tmp\n\n"


def test_a_directory_that_is_not_there_is_126(session: E2BSession) -> None:
    result = session.run_command("echo no", cwd="/nowhere")
    assert (result.exit_code, result.stdout) == (126, "")
    assert "/nowhere" in result.stderr


def test_the_configured_time_ends_a_command_with_all_that_it_started(
    session: E2BSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_TIMEOUT", "1")
    session = started()
    began = time.monotonic()
    result = session.run_command("echo before; (setsid sleep 41 &) ; sleep 42; echo after")
    assert time.monotonic() - began < 5
    assert (result.stdout, result.exit_code, result.timed_out, result.ok) == ("before\n", 124, True, False)
    assert {"sleep 41"} <= {process.command for process in result.left_processes}
    running = session.run_command("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert "sleep 4" not in running


def test_a_command_within_its_own_time_is_not_cut(
    session: E2BSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_TIMEOUT", "1")
    assert session.run_command("sleep 1.5; echo done", timeout=30).stdout == "done\n"


def test_ctrl_c_ends_the_command_at_once(session: E2BSession) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            session.run_command("sleep 43")
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 5
    assert "sleep 43" not in session.run_command("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout


def test_what_runs_in_the_background_goes_on(session: E2BSession) -> None:
    began = time.monotonic()
    session.run_command("(sleep 0.3; echo later > /tmp/later) > /dev/null 2>&1 &")
    assert time.monotonic() - began < 0.3
    assert session.run_command("sleep 1; cat /tmp/later").stdout == "later\n"


def test_200_mb_of_output_do_not_fill_the_memory(session: E2BSession) -> None:
    session.run_command("true")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = memory("VmRSS")
    result = session.run_command("head -c 200000000 /dev/zero | tr '\\0' a; echo; echo end")
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


def test_a_character_that_comes_in_two_pieces_is_whole_or_counted(session: E2BSession) -> None:
    result = session.run_command("printf a; printf 'é%.0s' $(seq 50000)")
    lost = result.stdout.count("\ufffd")
    assert result.encoding_errors == lost
    if not lost:
        assert result.stdout == "a" + "é" * 50000


def test_commands_run_at_the_same_time(session: E2BSession) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(session.run_command, [f"sleep 1; echo {n}" for n in range(4)]))
    assert [result.stdout for result in results] == ["0\n", "1\n", "2\n", "3\n"]
    assert time.monotonic() - began < 3.5


@pytest.mark.parametrize("allowed", [True, False])
def test_a_sandbox_reaches_the_internet_only_when_it_may(service: E2BServer, allowed: bool) -> None:
    spec = SandboxSpec("base", allow_internet_access=allowed)
    session = E2BSandboxBackend(spec).create_session(session_id="s")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = session.run_command(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    assert result.ok == allowed


# Files


@pytest.mark.parametrize(
    "path",
    ["/tmp/plain", "/workspace/new/dir/f", "/tmp/a b é 漢", '/tmp/"quoted"', "/tmp/back\\slash", "/tmp/%22"],
)
def test_files_come_back_byte_for_byte_under_any_name(session: E2BSession, path: str) -> None:
    data = bytes(range(256)) + b"\r\n--boundary\r\n\n"
    session.write_file(path, data)
    assert session.read_file(path) == data
    session.write_files([{"path": path, "data": b"again"}, {"path": "/tmp/other", "data": b""}])
    assert (session.read_file(path), session.read_file("/tmp/other")) == (b"again", b"")


def test_text_is_written_as_utf_8(session: E2BSession) -> None:
    session.write_file("/tmp/text", "é")
    assert session.read_file("/tmp/text") == "é".encode()


# Errors


def test_what_goes_wrong_has_a_code(session: E2BSession) -> None:
    assert refusal(lambda: session.read_file("/tmp/none")).code == "not_found"
    assert refusal(lambda: session.write_file("/tmp/big", bytes(70 * 1024 * 1024))).code == "no_space"
    assert refusal(lambda: session.read_file("/tmp")).code == "SandboxError"
    assert refusal(lambda: session.get_host(0)).code == "SandboxError"


def test_an_unknown_template_is_named(service: E2BServer) -> None:
    backend = E2BSandboxBackend(SandboxSpec("nosuch"))
    assert "nosuch" in refusal(lambda: backend.create_session(session_id="s")).message


def test_a_sandbox_that_is_gone_has_ended(service: E2BServer, session: E2BSession) -> None:
    service.end(session.sandbox_id)
    calls: list[Refusal] = [
        lambda: session.run_command("true"),
        lambda: session.read_file("/tmp/x"),
        lambda: session.write_file("/tmp/x", b""),
    ]
    assert [refusal(call).code for call in calls] == ["sandbox_ended"] * 3
    session.kill()  # what was to be is


def test_a_sandbox_that_ends_while_a_command_runs_is_an_error(
    service: E2BServer, session: E2BSession
) -> None:
    timer = threading.Timer(0.5, service.end, (session.sandbox_id,))
    timer.start()
    began = time.monotonic()
    error = refusal(lambda: session.run_command("sleep 30"))
    assert time.monotonic() - began < 10
    assert error.code in {"sandbox_ended", "sandbox_unreachable", "SandboxError"}


def test_a_sandbox_lives_as_long_as_it_was_asked_to(service: E2BServer) -> None:
    session = E2BSandboxBackend(SandboxSpec("base", timeout=2)).create_session(session_id="s")
    assert session.run_command("true").ok
    time.sleep(2)
    assert refusal(lambda: session.run_command("true")).code == "sandbox_ended"


def test_a_service_that_refuses_more_requests_is_busy(service: E2BServer) -> None:
    service.fault = (429, "slow down")
    assert refusal(started).code == "sandbox_busy"


def test_a_service_that_is_not_there_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv("E2B_API_URL", url)
    monkeypatch.setenv("E2B_API_KEY", KEY)
    assert refusal(started).code == "sandbox_unreachable"


# Its life


def test_attaching_leaves_the_life_of_a_sandbox_as_it_is(service: E2BServer) -> None:
    spec = SandboxSpec("base", timeout=60)
    first = E2BSandboxBackend(spec).create_session(session_id="s")
    first.run_command("echo kept > /tmp/file")
    end = service.sandboxes[first.sandbox_id].end_at
    second = attach(first.sandbox_id)
    assert second.run_command("cat /tmp/file").stdout == "kept\n"
    assert service.sandboxes[first.sandbox_id].end_at == end
    assert refusal(lambda: attach("inone")).code == "sandbox_ended"


def test_killing_ends_it_once(service: E2BServer, session: E2BSession) -> None:
    session.kill()
    assert service.sandboxes == {}
    asked = len(service.seen)
    session.kill()
    assert refusal(lambda: session.run_command("true")).code == "sandbox_ended"
    assert len(service.seen) == asked


def test_a_sandbox_of_another_program_is_ended_by_its_id(service: E2BServer, session: E2BSession) -> None:
    assert kill_sandbox(session.sandbox_id) is True
    assert service.sandboxes == {}
    assert kill_sandbox(session.sandbox_id) is False


def test_a_kill_that_could_not_be_asked_for_is_an_error_and_can_be_tried_again(
    service: E2BServer, session: E2BSession
) -> None:
    service.fault = (500, "broken")
    assert "broken" in refusal(session.kill).message
    service.fault = None
    session.kill()
    assert service.sandboxes == {}


def test_a_port_has_a_host_name(session: E2BSession) -> None:
    assert session.get_host(8080) == f"8080-{session.sandbox_id}.e2b.test"


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
