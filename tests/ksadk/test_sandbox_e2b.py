"""Sandboxes of E2B: the real SDK, over loopback, against a service whose sandboxes are bubblewraps."""

from __future__ import annotations

import socket
import threading
import time
import traceback
from pathlib import Path

import pytest
from e2b_sandboxes import Refusal, refusal, started
from e2b_server import E2BServer
from e2b_server.service import KEY

from ksadk.sandbox import SandboxInputFile, SandboxSpec, SandboxType
from ksadk.sandbox.e2b import E2BSandboxBackend, E2BSession, attach, kill_sandbox

# Starting one


def test_a_sandbox_is_created_as_the_environment_says(
    e2b: E2BServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_TEMPLATE_ID", "tmpl-1")
    session = E2BSandboxBackend().create_session(session_id="account:session", env={"A": "1"})
    request = e2b.sandboxes[session.sandbox_id].request
    wanted = {
        "templateID": "tmpl-1",
        "timeout": 900,
        "metadata": {"runtime": "ksadk", "sandbox_type": "aio", "session_id": "account:session"},
        "envVars": {"A": "1"},
        "allow_internet_access": True,
    }
    assert {name: request[name] for name in wanted} == wanted


def test_a_sandbox_is_created_as_a_spec_says(e2b: E2BServer) -> None:
    spec = SandboxSpec("base", SandboxType.CODE, 60, False, {"team": "a"}, {"B": "2"})
    session = E2BSandboxBackend(spec).create_session(session_id="s")
    request = e2b.sandboxes[session.sandbox_id].request
    assert request["timeout"] == 60
    assert request["metadata"] == {"team": "a", "runtime": "ksadk", "sandbox_type": "code", "session_id": "s"}
    assert request["envVars"] == {"B": "2"}
    assert request["allow_internet_access"] is False


def test_without_a_template_there_is_no_backend() -> None:
    error = refusal(E2BSandboxBackend)
    assert error.code == "SandboxError"
    assert "KSADK_SANDBOX_TEMPLATE_ID" in (error.hint or "")


def test_without_a_key_nothing_is_asked(e2b: E2BServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("E2B_API_KEY")
    error = refusal(started)
    assert (error.code, error.hint) == ("sandbox_unauthenticated", "Set E2B_API_KEY.")
    assert e2b.seen == []


def test_without_the_sdk_it_is_said_how_to_install_it(
    e2b: E2BServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "e2b", None)
    error = refusal(started)
    assert (error.code, error.hint) == ("extra_not_installed", "pip install 'agentengine-cli[e2b]'")


def test_a_key_that_is_refused_is_in_no_error(e2b: E2BServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E2B_API_KEY", wrong := "e2b_" + "f" * 40)
    error = refusal(started)  # the service's answer quotes the key
    assert error.code == "sandbox_unauthenticated"
    assert wrong not in "".join(traceback.format_exception(error))


def test_the_key_of_an_env_file_is_enough(e2b: E2BServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from ksadk.settings import environment_below

    monkeypatch.delenv("E2B_API_KEY")
    with environment_below({"E2B_API_KEY": KEY}, ".env"):
        assert started().run_command("echo here").stdout == "here\n"


def test_a_sandbox_that_is_not_ready_is_tried_again_and_waited_for_longer_each_time(
    e2b: E2BServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_STARTUP_RETRY_DELAY", "0.05")
    e2b.unready = 3
    began = time.monotonic()
    session = started()
    assert time.monotonic() - began >= 0.05 + 0.1 + 0.2
    assert session.read_file("/tmp/.ksadk-sandbox-ready") == b""


def test_a_sandbox_that_never_gets_ready_is_ended(e2b: E2BServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_STARTUP_RETRY_DELAY", "0.01")
    monkeypatch.setenv("KSADK_SANDBOX_STARTUP_RETRY_ATTEMPTS", "4")
    e2b.unready = 100
    error = refusal(started)
    assert "did not get ready" in error.message
    assert e2b.seen.count("POST /process.Process/Start") == 4
    assert e2b.sandboxes == {}


def test_files_go_in_at_the_start_in_one_request(e2b: E2BServer, tmp_path: Path) -> None:
    contents = {f"/workspace/d{i % 7}/f{i}": bytes([i % 256, 13, 10, 0]) * i for i in range(300)}
    inputs = []
    for number, (target, data) in enumerate(contents.items()):
        (source := tmp_path / str(number)).write_bytes(data)
        inputs.append(SandboxInputFile(source, target))
    session = started(input_files=inputs)
    uploads = [seen for seen in e2b.seen if seen.startswith("POST /files")]
    assert len(uploads) == 2  # the other one is what tells that it is ready
    assert session.run_command("pwd; find . -type f | wc -l").stdout == "/workspace\n300\n"
    assert session.read_file("/workspace/d5/f299") == contents["/workspace/d5/f299"]


def test_an_input_that_cannot_be_read_starts_nothing(e2b: E2BServer, tmp_path: Path) -> None:
    error = refusal(lambda: started(input_files=[SandboxInputFile(tmp_path / "no", "/workspace/no")]))
    assert "No such file" in error.message
    assert e2b.seen == []


def test_an_input_that_cannot_be_written_ends_the_sandbox(e2b: E2BServer, tmp_path: Path) -> None:
    (source := tmp_path / "big").write_bytes(bytes(70 * 1024 * 1024))
    error = refusal(lambda: started(input_files=[SandboxInputFile(source, "/tmp/big")]))
    assert error.code == "no_space"
    assert e2b.sandboxes == {}


# Keys


@pytest.mark.parametrize("name", ["LD_PRELOAD", "BASH_ENV", "PYTHONSTARTUP", "E2B_API_KEY", "OPENAI_API_KEY"])
def test_variables_that_load_code_or_are_keys_do_not_go_in(e2b_session: E2BSession, name: str) -> None:
    for call in (
        lambda: started(env={name: "x"}),
        lambda: e2b_session.run_command("env", env={name: "x"}),
    ):
        assert refusal(call).code == "environment_refused"


@pytest.mark.parametrize("value", [KEY, f"Bearer {KEY}"])
def test_a_key_does_not_go_in_under_another_name(e2b: E2BServer, value: str) -> None:
    spec = SandboxSpec("base", env={"HARMLESS": value})
    error = refusal(lambda: E2BSandboxBackend(spec).create_session(session_id="s"))
    assert error.code == "environment_refused"
    assert KEY not in error.message
    assert e2b.seen == []


def test_nothing_of_our_environment_is_in_a_sandbox(
    e2b_session: E2BSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SKILL_SERVICE_TOKEN", "skill-token-1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-secret-1")
    printed = e2b_session.run_command("env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline").stdout
    for secret in (KEY, "skill-token-1", "aws-secret-1"):
        assert secret not in printed


# Errors


def test_what_goes_wrong_has_a_code(e2b_session: E2BSession) -> None:
    assert refusal(lambda: e2b_session.read_file("/tmp/none")).code == "not_found"
    assert refusal(lambda: e2b_session.write_file("/tmp/big", bytes(70 * 1024 * 1024))).code == "no_space"
    assert refusal(lambda: e2b_session.read_file("/tmp")).code == "SandboxError"
    assert refusal(lambda: e2b_session.get_host(0)).code == "SandboxError"


def test_an_unknown_template_is_named(e2b: E2BServer) -> None:
    backend = E2BSandboxBackend(SandboxSpec("nosuch"))
    assert "nosuch" in refusal(lambda: backend.create_session(session_id="s")).message


def test_a_sandbox_that_is_gone_has_ended(e2b: E2BServer, e2b_session: E2BSession) -> None:
    e2b.end(e2b_session.sandbox_id)
    calls: list[Refusal] = [
        lambda: e2b_session.run_command("true"),
        lambda: e2b_session.read_file("/tmp/x"),
        lambda: e2b_session.write_file("/tmp/x", b""),
    ]
    assert [refusal(call).code for call in calls] == ["sandbox_ended"] * 3
    e2b_session.kill()  # what was to be is


def test_a_sandbox_that_ends_while_a_command_runs_is_an_error(
    e2b: E2BServer, e2b_session: E2BSession
) -> None:
    timer = threading.Timer(0.5, e2b.end, (e2b_session.sandbox_id,))
    timer.start()
    began = time.monotonic()
    error = refusal(lambda: e2b_session.run_command("sleep 30"))
    assert time.monotonic() - began < 10
    assert error.code in {"sandbox_ended", "sandbox_unreachable", "SandboxError"}


def test_a_sandbox_lives_as_long_as_it_was_asked_to(e2b: E2BServer) -> None:
    began = time.monotonic()
    session = E2BSandboxBackend(SandboxSpec("base", timeout=5)).create_session(session_id="s")
    assert session.run_command("true").ok
    time.sleep(max(0, began + 6 - time.monotonic()))
    assert refusal(lambda: session.run_command("true")).code == "sandbox_ended"


def test_a_service_that_refuses_more_requests_is_busy(e2b: E2BServer) -> None:
    e2b.fault = (429, "slow down")
    assert refusal(started).code == "sandbox_busy"


def test_a_service_that_is_not_there_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv("E2B_API_URL", url)
    monkeypatch.setenv("E2B_API_KEY", KEY)
    assert refusal(started).code == "sandbox_unreachable"


# Its life


def test_attaching_leaves_the_life_of_a_sandbox_as_it_is(e2b: E2BServer) -> None:
    spec = SandboxSpec("base", timeout=60)
    first = E2BSandboxBackend(spec).create_session(session_id="s")
    first.run_command("echo kept > /tmp/file")
    end = e2b.sandboxes[first.sandbox_id].end_at
    second = attach(first.sandbox_id)
    assert second.run_command("cat /tmp/file").stdout == "kept\n"
    assert e2b.sandboxes[first.sandbox_id].end_at == end
    assert refusal(lambda: attach("inone")).code == "sandbox_ended"


def test_killing_ends_it_once(e2b: E2BServer, e2b_session: E2BSession) -> None:
    e2b_session.kill()
    assert e2b.sandboxes == {}
    asked = len(e2b.seen)
    e2b_session.kill()
    assert refusal(lambda: e2b_session.run_command("true")).code == "sandbox_ended"
    assert len(e2b.seen) == asked


def test_a_sandbox_of_another_program_is_ended_by_its_id(e2b: E2BServer, e2b_session: E2BSession) -> None:
    assert kill_sandbox(e2b_session.sandbox_id) is True
    assert e2b.sandboxes == {}
    assert kill_sandbox(e2b_session.sandbox_id) is False


def test_a_kill_that_could_not_be_asked_for_is_an_error_and_can_be_tried_again(
    e2b: E2BServer, e2b_session: E2BSession
) -> None:
    e2b.fault = (500, "broken")
    assert "broken" in refusal(e2b_session.kill).message
    e2b.fault = None
    e2b_session.kill()
    assert e2b.sandboxes == {}


def test_a_port_has_a_host_name(e2b_session: E2BSession) -> None:
    assert e2b_session.get_host(8080) == f"8080-{e2b_session.sandbox_id}.e2b.test"
