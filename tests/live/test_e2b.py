"""E2B itself. Needs E2B_API_KEY and KSADK_SANDBOX_TEMPLATE_ID; takes a sandbox of the account for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ksadk.sandbox import E2BSandboxBackend, SandboxSpec
from ksadk.sandbox.e2b import E2BSession, attach
from ksadk.settings import Settings

KEY, TEMPLATE = os.environ["E2B_API_KEY"], os.environ["KSADK_SANDBOX_TEMPLATE_ID"]
SETTINGS = Settings(e2b_api_key=KEY, sandbox_startup_retry_delay=0.2)


@pytest.fixture(scope="module")
def session() -> Iterator[E2BSession]:
    spec = SandboxSpec(TEMPLATE, timeout=120, allow_internet_access=False)
    session = E2BSandboxBackend(spec, settings=SETTINGS).create_session(session_id="live-test")
    yield session
    session.kill()


def test_a_command_runs_and_its_exit_code_is_a_result(session: E2BSession) -> None:
    result = session.run_command("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)


def test_a_command_is_ended_with_its_time(session: E2BSession) -> None:
    result = session.run_command("echo before; (setsid sleep 41 &); sleep 42", timeout=2)
    assert (result.stdout, result.exit_code, result.timed_out) == ("before\n", 124, True)
    assert "sleep 4" not in session.run_command("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout


def test_a_file_comes_back_byte_for_byte(session: E2BSession) -> None:
    session.write_file("/workspace/a b/é", bytes(range(256)))
    assert session.read_file("/workspace/a b/é") == bytes(range(256))
    assert session.run_command("pwd").stdout == "/workspace\n"


def test_no_key_is_inside(session: E2BSession) -> None:
    assert KEY not in session.run_command("env; cat /proc/[0-9]*/environ 2>/dev/null").stdout


def test_one_can_attach(session: E2BSession) -> None:
    assert attach(session.sandbox_id, settings=SETTINGS).run_command("echo here").stdout == "here\n"
