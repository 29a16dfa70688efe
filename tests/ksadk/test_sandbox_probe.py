"""Whether bubblewrap works: found out once, remembered, and said with its cause and what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sandboxes import bubblewrap

from ksadk.runtime_context import workspace_root_scope
from ksadk.sandbox import verdicts
from ksadk.sandbox.base import SandboxCommandResult, SandboxError
from ksadk.sandbox.choice import chosen_backend, create_sandbox_backend
from ksadk.sandbox.diagnosis import diagnose
from ksadk.sandbox.escapes import ATTEMPTS, Trial, attempt, probe_escapes
from ksadk.sandbox.isolated import Bubblewrap
from ksadk.sandbox.local_process import LocalProcessSandboxBackend
from ksadk.sandbox.probe import probe
from ksadk.sandbox.registry import GLOBAL_SANDBOX_REGISTRY
from ksadk.sandbox.verdicts import known
from ksadk.toolsets import tool_dispatcher
from ksadk.toolsets.sandbox import run_command
from ksadk.toolsets.sandbox_scope import SandboxChoices, sandbox_scope

UBUNTU = "bwrap: setting up uid map: Permission denied"
LOOPBACK = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted"
NO_NAMESPACES = "bwrap: Creating new namespace failed: Operation not permitted"

Fake = Callable[[str], Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Makes a `bwrap` of a shell script, which writes down that it was called, and is the only one there."""
    directory = tmp_path / "bin"
    directory.mkdir()
    real = shutil.which("bwrap")

    def made(script: str) -> Path:
        program = directory / "bwrap"
        head = f'#!/bin/sh\nREAL={real}\ncase $1 in --help) exec "$REAL" --help ;; esac\n'
        program.write_text(f"{head}echo called >> {directory}/calls\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
        return directory / "calls"

    return made


def calls(file: Path) -> int:
    return file.read_text().count("called") if file.exists() else 0


def test_what_works_is_found_out_once_and_remembered(root: Path, fake: Fake) -> None:
    bubblewrap(root)
    counted = fake('exec "$REAL" "$@"')
    assert known() is None and calls(counted) == 0
    assert chosen_backend() == "bubblewrap" and calls(counted) == 0
    assert probe().works and calls(counted) == 1
    for _ in range(3):
        assert known() == probe() and chosen_backend() == "bubblewrap"
    assert calls(counted) == 1
    assert probe(fresh=True).works and calls(counted) == 2


def test_another_bwrap_is_found_out_about_anew(root: Path, fake: Fake) -> None:
    bubblewrap(root)
    fake('exec "$REAL" "$@"')
    assert probe().works
    fake(f"echo '{UBUNTU}' >&2; exit 1")
    assert known() is None and not probe().works


def test_a_list_of_tools_looks_for_bwrap_once_and_again_when_one_is_installed(
    root: Path, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    looks: list[None] = []
    look = verdicts.find_bwrap
    monkeypatch.setattr(verdicts, "find_bwrap", lambda: looks.append(None) or look())

    def runs_commands() -> bool:
        tools = {tool["name"]: tool for tool in tool_dispatcher("list")["tools"]}
        return bool(tools["run_command"]["enabled"])

    assert not runs_commands()
    once = len(looks)
    assert 1 <= once <= 2
    assert not runs_commands() and len(looks) == once
    shutil.copy(fake("exit 0").parent / "bwrap", empty)
    monkeypatch.setenv("PATH", str(empty))
    assert runs_commands()


def test_ubuntus_apparmor_is_named_with_what_to_write(root: Path, fake: Fake) -> None:
    counted = fake(f"echo '{UBUNTU}' >&2; exit 1")
    errors = []
    for _ in range(3):
        with pytest.raises(SandboxError) as caught:
            create_sandbox_backend("bubblewrap", workspace_root=root).create_session(session_id="t")
        errors.append((caught.value.message, caught.value.hint, caught.value.details["cause"]))
    assert len(set(errors)) == 1
    message, hint, cause = errors[0]
    assert cause in ("apparmor", "container")  # tests may run in one
    assert UBUNTU in message and hint
    assert calls(counted) == 2, "with and without --disable-userns, and then it is known"
    assert list(root.iterdir()) == [], "nothing is run without a sandbox instead"


def test_a_bwrap_that_cannot_do_without_the_network_is_found_by_its_own_flags(root: Path, fake: Fake) -> None:
    bubblewrap(root)
    fake(
        f'for a; do [ "$a" = --unshare-net ] && {{ echo "{LOOPBACK}" >&2; exit 1; }}; done; exec "$REAL" "$@"'
    )
    verdict = probe()
    assert not verdict.works and verdict.diagnosis is not None
    assert LOOPBACK in verdict.diagnosis.message


def test_where_the_kernel_cannot_forbid_namespaces_the_filter_does(root: Path, fake: Fake) -> None:
    bubblewrap(root)
    fake('for a; do [ "$a" = --disable-userns ] && { echo no >&2; exit 1; }; done; exec "$REAL" "$@"')
    verdict = probe()
    assert verdict.works and not verdict.disable_userns
    session = create_sandbox_backend("bubblewrap", workspace_root=root).create_session(session_id="t")
    assert session.run_command("unshare --user true").exit_code != 0


def test_a_bwrap_that_starts_and_isolates_nothing_does_not_work(root: Path, fake: Fake) -> None:
    bubblewrap(root)
    fake('while [ "$1" != -- ]; do shift; done; shift; cd /; exec "$@"')
    verdict = probe()
    assert not verdict.works and verdict.diagnosis is not None
    with pytest.raises(SandboxError):
        create_sandbox_backend("bubblewrap", workspace_root=root).create_session(session_id="t")


def test_a_bwrap_that_never_gets_ready_is_given_up(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ksadk.sandbox.isolated.SETUP_SECONDS", 0.3)
    fake("exec sleep 60")
    verdict = probe()
    assert not verdict.works and verdict.diagnosis is not None
    assert "in time" in verdict.diagnosis.message


def test_where_there_is_no_bwrap_the_searched_path_is_said(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/nowhere")
    with pytest.raises(SandboxError) as caught:
        create_sandbox_backend(workspace_root=root)
    assert caught.value.details["cause"] == "not_installed"
    assert f"not on PATH (searched: {tmp_path}, /nowhere)" in caught.value.message
    assert "apt install bubblewrap" in (caught.value.hint or "")
    assert chosen_backend() == "none"


@pytest.mark.parametrize(("system", "name"), [("darwin", "macOS"), ("win32", "Windows")])
def test_elsewhere_than_on_linux_e2b_is_what_is_said(
    root: Path, monkeypatch: pytest.MonkeyPatch, system: str, name: str
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    with pytest.raises(SandboxError) as caught:
        create_sandbox_backend("bubblewrap", workspace_root=root).create_session(session_id="t")
    assert caught.value.details["cause"] == "platform"
    assert f"not available on {name}" in caught.value.message and "e2b" in (caught.value.hint or "")


def test_what_does_not_work_is_asked_for_again_after_a_while(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = fake("exit 1")
    assert not probe().works
    before = calls(counted)
    assert not probe().works and calls(counted) == before
    monkeypatch.setattr(verdicts, "_AGAIN_SECONDS", 0)
    assert known() is None
    assert not probe().works and calls(counted) > before


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"key": 1}', '{"key": [], "at": "x", "verdict": {"works": true}}']
)
def test_a_broken_memory_is_no_memory(root: Path, text: str) -> None:
    bubblewrap(root)
    verdicts.verdict_file().write_text(text)
    assert known() is None and probe().works


def test_a_state_directory_that_cannot_be_written_costs_only_the_memory(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bubblewrap(root)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert probe().works and known() is None


SYSTEMS = [
    ({}, UBUNTU, "apparmor", "/etc/apparmor.d/bwrap"),
    ({}, LOOPBACK, "apparmor", "apparmor_parser -r"),
    (
        {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
        NO_NAMESPACES,
        "apparmor",
        "profile bwrap",
    ),
    (
        {"/proc/sys/kernel/unprivileged_userns_clone": "0"},
        NO_NAMESPACES,
        "no_user_namespaces",
        "userns_clone=1",
    ),
    (
        {"/proc/sys/user/max_user_namespaces": "0"},
        NO_NAMESPACES,
        "no_user_namespaces",
        "max_user_namespaces=",
    ),
    ({"/.dockerenv": ""}, NO_NAMESPACES, "container", "seccomp=unconfined"),
    ({"/.dockerenv": ""}, UBUNTU, "apparmor", "/etc/apparmor.d/bwrap"),
    ({"/.dockerenv": ""}, LOOPBACK, "apparmor", "/etc/apparmor.d/bwrap"),
    ({"/run/.containerenv": ""}, "bwrap: Can't mount proc on /newroot/proc", "container", "systempaths"),
    ({}, "something else", "unknown", "--unshare-all"),
    ({}, "", "unknown", "to see it fail"),
]


@pytest.mark.parametrize(
    ("files", "said", "cause", "fix"), SYSTEMS, ids=[f"{n}-{s[2]}" for n, s in enumerate(SYSTEMS)]
)
def test_each_cause_is_told_from_the_system_and_has_its_fix(
    tmp_path: Path, files: dict[str, str], said: str, cause: str, fix: str
) -> None:
    for name, text in files.items():
        path = tmp_path / "system" / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = diagnose("/usr/bin/bwrap", said, tmp_path / "system")
    assert found.cause == cause
    assert fix in found.fix and "e2b" in found.fix


def test_the_profile_that_is_shown_is_one_that_a_shell_writes(tmp_path: Path) -> None:
    shown = diagnose("/usr/bin/bwrap", UBUNTU, tmp_path).fix
    line = (
        shown.split("load it:\n", 1)[1]
        .split("\n  sudo", 1)[0]
        .replace("sudo tee /etc/apparmor.d/bwrap", "cat")
    )
    written = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout
    assert "abi <abi/4.0>," in written.splitlines()
    assert "profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }" in written.splitlines()


@pytest.mark.parametrize("setting", ["none", "docker"])
def test_a_backend_that_is_none_runs_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", setting)
    with pytest.raises(SandboxError):
        create_sandbox_backend(workspace_root=root)


def test_a_template_chooses_e2b_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_TEMPLATE_ID", "template")
    assert chosen_backend() == "e2b"
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "local")
    assert chosen_backend() == "local_process"


def test_every_promise_holds(root: Path) -> None:
    bubblewrap(root)
    attempts = probe_escapes()
    assert {attempt.name: attempt.measured for attempt in attempts if not attempt.holds} == {}
    assert len(attempts) == 14


def dropping(flag: str, words: int = 1) -> str:
    """A bwrap that forgets a flag, and what belongs to it."""
    return (
        "skip=0 first=1\nfor word; do\n  [ $first = 1 ] && set --\n  first=0\n"
        f'  [ "$word" = {flag} ] && skip={words}\n'
        '  if [ $skip -gt 0 ]; then skip=$((skip - 1)); else set -- "$@" "$word"; fi\ndone\nexec "$REAL" "$@"'
    )


@pytest.mark.parametrize(
    "script",
    [
        dropping("--unshare-net"),
        dropping("--uid", 2),
        dropping("--hostname", 2),
        dropping("--remount-ro", 2),
        'exec "$REAL" --bind /home /home "$@"',
    ],
    ids=["the network", "the user", "the name", "a writable root", "a home"],
)
def test_a_bwrap_that_leaves_a_wall_out_does_not_work(root: Path, fake: Fake, script: str) -> None:
    bubblewrap(root)
    fake(script)
    assert not probe().works


class Naive(Trial):
    """The same attempts without a sandbox, in the directory of the workspace."""

    def run(self, line: str, timeout: float = 20.0) -> SandboxCommandResult:
        session = LocalProcessSandboxBackend(self.root).create_session(session_id="t")
        return session.run_command(line.replace("python ", "python3 "), timeout=timeout)


@pytest.mark.parametrize(
    "name", ["network", "read files", "see processes", "rights", "memory", "protected paths"]
)
def test_an_attempt_succeeds_where_there_is_no_sandbox(tmp_path: Path, name: str) -> None:
    trial = Naive(Bubblewrap("no bwrap"), tmp_path)
    promised, found = ATTEMPTS[name]
    assert not attempt(name, promised, found, trial).holds


def environment_of(directory: Path) -> Path:
    (directory / "pyvenv.cfg").touch()
    return directory / "bin"


@pytest.mark.parametrize(
    "hostile",
    [
        lambda root: root / "bin",
        lambda root: environment_of(root.parent / "environment"),
        lambda root: Path(os.path.relpath(root / "bin")),
    ],
    ids=["in the workspace", "in an environment of Python", "relative"],
)
def test_no_program_is_run_from_where_a_command_may_have_put_it(
    root: Path, hostile: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bubblewrap(root)
    (root.parent / "environment").mkdir()
    directory = hostile(root)
    directory.mkdir()
    for name in ("bwrap", "cp", "mv", "rm", "chmod", "slirp4netns", "nsenter", "ip"):
        (directory / name).write_text(f"#!/bin/sh\ntouch {root.parent}/ran\n")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    with workspace_root_scope(root), sandbox_scope(SandboxChoices(on_copy=True, net=True)):
        assert run_command("true", approval={"approved": True})["ok"]
        GLOBAL_SANDBOX_REGISTRY.clear()
    assert not (root.parent / "ran").exists()
