"""The sandbox tools, through the gateway, with real commands in each kind of sandbox."""

from __future__ import annotations

import contextvars
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2b_server import E2BServer
from sandboxes import bubblewrap, meeting

from ksadk.runtime_context import (
    PlatformInvocationContext,
    platform_invocation_scope,
    tool_execution_scope,
    workspace_root_scope,
)
from ksadk.sandbox import records
from ksadk.sandbox.registry import GLOBAL_SANDBOX_REGISTRY, SandboxRegistry, bind_sandbox_registry
from ksadk.tools.gateway import ToolGateway, gateway_scope
from ksadk.tools.rules import Rule
from ksadk.toolsets import describe_agentengine_tools
from ksadk.toolsets.sandbox import run_code, run_command, sandbox_status
from ksadk.toolsets.sandbox_changes import apply_sandbox_changes, sandbox_changes
from ksadk.toolsets.sandbox_network import run_command_with_network
from ksadk.toolsets.sandbox_runs import Ask
from ksadk.toolsets.sandbox_scope import SandboxChoices, sandbox_scope
from ksadk.toolsets.sandboxes import kill_sandbox, list_sandboxes

YES = {"approved": True}


@pytest.fixture(autouse=True)
def sandboxes() -> Iterator[SandboxRegistry]:
    registry = SandboxRegistry()
    with bind_sandbox_registry(registry):
        yield registry
    registry.close()


@pytest.fixture(autouse=True)
def workspace(root: Path) -> Iterator[Path]:
    with workspace_root_scope(root):
        yield root


@pytest.fixture
def isolated(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    bubblewrap(root)
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "bubblewrap")


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "local")


@pytest.fixture
def e2b(
    e2b: E2BServer, sandboxes: SandboxRegistry, monkeypatch: pytest.MonkeyPatch, root: Path
) -> Iterator[E2BServer]:
    bubblewrap(root)  # which the service's sandboxes are
    monkeypatch.setenv("KSADK_SANDBOX_TEMPLATE_ID", "base")
    yield e2b
    sandboxes.clear()  # while the service can still be asked to


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    request.getfixturevalue(name)
    return {"isolated": "bubblewrap", "local": "local_process", "e2b": "e2b"}[name]


# What a command comes to


@pytest.mark.parametrize("kind", ["isolated", "local", "e2b"], indirect=True)
def test_a_command_has_its_output_and_its_exit_code(kind: str) -> None:
    result = run_command("echo out; echo err >&2; exit 3")
    assert (result["ok"], result["exit_code"], result["timed_out"]) == (False, 3, False)
    assert (result["stdout"], result["stderr"]) == ("out\n", "err\n")
    assert (result["backend"], result["command"]) == (f"sandbox/{kind}", "echo out; echo err >&2; exit 3")
    assert result["sandbox_id"]
    assert {"stdout_truncated", "stdout_original_chars", "stdout_preview_chars"} <= set(result)
    assert run_command("true")["ok"] is True


@pytest.mark.parametrize("kind", ["isolated", "local", "e2b"], indirect=True)
def test_a_command_ends_at_its_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    result = run_command("echo begun; sleep 30", timeout=1)
    assert (result["ok"], result["exit_code"], result["timed_out"]) == (False, 124, True)
    assert result["stdout"] == "begun\n"
    monkeypatch.setenv("KSADK_SANDBOX_TIMEOUT", "1")
    assert run_command("sleep 30")["timed_out"] is True
    assert run_command("sleep 30", timeout=20)["timed_out"] is True, "a model has no more than is configured"
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("kind", ["isolated", "local", "e2b"], indirect=True)
def test_files_of_the_workspace_are_there(kind: str, root: Path) -> None:
    (root / "d").mkdir()
    (root / "d/f").write_text("content")
    assert run_command("cat d/f")["stdout"] == "content"
    assert run_command("cat f", cwd="d")["stdout"] == "content"


def test_a_result_counts_the_files_that_did_not_go_in(
    e2b: E2BServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "not_in_sandbox" not in run_command("true")
    (root / ".git").mkdir()
    (root / "link").symlink_to("small")
    (root / "large").write_text("x" * 50)
    (root / "small").write_text("x")
    monkeypatch.setenv("KSADK_SANDBOX_SYNC_MAX_FILE_BYTES", "20")
    with tool_execution_scope("another"):
        assert run_command("ls")["not_in_sandbox"] == {"too_large": 1, "link": 1}


@pytest.mark.parametrize("kind", ["isolated", "local"], indirect=True)
def test_a_command_changes_the_workspace_and_one_that_does_nothing_leaves_it_as_it_is(
    kind: str, root: Path
) -> None:
    (root / "f").write_text("old")
    os.utime(root / "f", ns=(1, 2))
    before = [(path.name, path.stat()) for path in root.iterdir()]
    run_command("true")
    assert [(path.name, path.stat()) for path in root.iterdir()] == before
    run_command("echo new > g")
    assert (root / "g").read_text() == "new\n"


def test_a_large_output_is_cut_and_kept_in_a_file_of_its_own(isolated: None) -> None:
    results = [run_command("seq 20000") for _ in range(2)]
    paths = [result["persisted_outputs"]["stdout"]["path"] for result in results]
    assert len(set(paths)) == 2
    for result, path in zip(results, paths, strict=True):
        assert result["stdout_truncated"] is True
        assert len(result["stdout"]) == result["stdout_preview_chars"] == 8000
        assert Path(path).read_text() == "".join(f"{number}\n" for number in range(1, 20001))
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


def test_what_is_blocked_says_so(isolated: None) -> None:
    result = run_command("exec 3<>/dev/tcp/192.0.2.1/80")
    assert result["exit_code"] != 0
    assert [
        (denial["what"], bool(denial["rule"]), bool(denial["allow"])) for denial in result["denials"]
    ] == [("network", True, True)]
    assert run_command("false")["denials"] == []


# Code


@pytest.mark.parametrize("kind", ["isolated", "e2b"], indirect=True)
@pytest.mark.parametrize(
    ("language", "code", "printed", "meant", "suffix"),
    [
        ("python", "import math; print(math.sqrt(16))", "4.0\n", "python", ".py"),
        ("Py", "print('ü')", "ü\n", "python", ".py"),
        ("bash", "for i in 1 2; do echo $i; done", "1\n2\n", "bash", ".sh"),
        ("shell", "echo hi", "hi\n", "bash", ".sh"),
        ("javascript", "console.log(6 * 7)", "42\n", "javascript", ".js"),
        ("node", "console.log(process.argv.length)", "2\n", "javascript", ".js"),
    ],
)
def test_code_runs_in_its_language(
    kind: str, language: str, code: str, printed: str, meant: str, suffix: str
) -> None:
    if meant == "javascript" and run_command("node --version")["exit_code"] == 127:
        pytest.skip("node is not installed")
    result = run_code(code, language=language)
    assert (result["ok"], result["stdout"], result["language"]) == (True, printed, meant)
    assert (result["execution_model"], result["boundary"]) == ("snippet_runner", "isolated_sandbox")
    assert result["path"].startswith("/tmp/ksadk-run-code-") and result["path"].endswith(suffix)
    assert result["path"] in result["command"]


def test_many_pieces_of_code_do_not_pile_up(isolated: None) -> None:
    for number in range(30):
        assert run_code(f"print({number})")["stdout"] == f"{number}\n"
    assert run_command("ls /tmp")["stdout"] == ""


@pytest.mark.parametrize("backend", ["local", "pod"])
def test_code_runs_in_no_sandbox_that_is_none(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", backend)
    monkeypatch.setenv("KSADK_ALLOW_POD_PROCESS_TOOLS", "1")
    result = run_code("print(1)", approval=YES)
    assert (result["ok"], result["error_type"]) == (False, "isolated_sandbox_required")
    assert result["backend"] == f"sandbox/{backend}_process"


# What is refused before anyone is asked


@pytest.mark.parametrize(
    ("call", "arguments", "code"),
    [
        (run_command, {"command": "ls", "background": True}, "background_not_supported"),
        (run_command, {"command": "ls", "timeout": 0}, "invalid_arguments"),
        (run_command, {"command": "ls", "env": {"LD_PRELOAD": "/tmp/x"}}, "environment_refused"),
        (run_command, {"command": "ls", "env": {"BASH_ENV": "x"}}, "environment_refused"),
        (run_code, {"code": "1", "env": {"PYTHONSTARTUP": "x"}}, "environment_refused"),
        (run_code, {"code": "\ud800"}, "invalid_arguments"),
        (run_command, {"command": "rm -rf build"}, "command_rejected"),
        (run_command, {"command": "echo hi; sudo id"}, "command_rejected"),
        (run_command, {"command": "cd x && git push --force"}, "command_rejected"),
        (run_command, {"command": "echo 'a"}, "invalid_command"),
        (run_code, {"code": "sudo id", "language": "sh"}, "command_rejected"),
        (run_command_with_network, {"command": "curl http://169.254.169.254/"}, "command_rejected"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or ascii(value),
)
@pytest.mark.parametrize("approval", [None, YES])
@pytest.mark.parametrize("mode", ["off", "strict"])
def test_what_cannot_run_ends_before_anyone_is_asked(
    isolated: None,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    approval: dict[str, bool] | None,
    call: Any,
    arguments: dict[str, Any],
    code: str,
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", mode)
    result = call(**arguments, approval=approval)
    assert (result["ok"], result.get("error_type")) == (False, code)
    assert GLOBAL_SANDBOX_REGISTRY.entries() == []


def test_a_refusal_says_what_by_which_rule_and_what_would_allow_it(isolated: None) -> None:
    result = run_command("make && git push")
    assert result["decision"] == "reject"
    assert [part["command"] for part in result["parts"]] == ["make", "git push"]
    [denial] = result["denials"]
    assert denial["what"] == "git push"
    assert "command policy" in denial["rule"]
    assert "rules add allow run_command --exact --argv 'git push'" in denial["allow"]


def test_a_refusal_that_no_rule_lifts_says_so(isolated: None) -> None:
    [denial] = run_command("x=rm; $x -rf /; git push $y")["denials"][-1:]
    assert denial["allow"] == "nothing"


def test_only_a_rule_of_ones_own_of_exactly_the_words_lifts_a_refusal(isolated: None, root: Path) -> None:
    exact = Rule("allow", "run_command", argv=("rm", "-rf", "build"), exact=True)
    for rules, runs in (
        ([exact], True),
        ([Rule("allow", "run_command", argv=("rm",))], False),
        ([Rule("allow", "run_command")], False),
        ([Rule("allow", "run_command", argv=("rm", "-rf", "build"), exact=True, own=False)], False),
        ([exact, Rule("deny", "run_command", argv=("rm",))], False),
    ):
        (root / "build").mkdir(exist_ok=True)
        with gateway_scope(ToolGateway(rules=rules, approval_mode="strict")):
            result = run_command("rm -rf build")
        assert (result.get("exit_code") == 0, (root / "build").exists()) == (runs, not runs)


@pytest.mark.parametrize(("backend", "asked"), [("bubblewrap", False), ("local", True)])
def test_a_line_that_is_not_proven_runs_unasked_only_where_it_is_isolated(
    monkeypatch: pytest.MonkeyPatch, isolated: None, backend: str, asked: bool
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", backend)
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "off")
    assert run_command("git log $(echo -1)").get("approval_required", False) is asked
    assert run_command("echo plain")["ok"] is True


def test_what_the_parts_do_is_in_the_question(isolated: None) -> None:
    asked = []

    def ask(request: Any, note: str = "") -> Any:
        from ksadk.tools.approvals import Decision

        asked.append(request)
        return Decision("deny", by="test")

    with gateway_scope(ToolGateway(ask=ask, approval_mode="strict", rules=[])):
        result = run_command("git status && make test")
        run_command_with_network("make fetch")
    assert result["type"] == "approval_rejected"
    first, second = (request.plan for request in asked)
    assert [text for label, text in first.details if label == "runs"] == [
        "git status: only reads the repository", "make test: runs code or tools of the project",
    ]  # fmt: skip
    assert "without network" in first.where
    assert "with a network" in second.where
    assert "network" in dict(second.details)
    assert asked[1].side_effects == ("sandbox_command_execution", "network_access")


def test_an_approval_is_for_the_sandbox_that_was_shown(
    isolated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "strict")
    request = run_command("echo hi")["approval_request"]
    answer = {"approved": True, "id": request["id"]}
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "local")
    assert run_command("echo hi", approval=answer)["error_type"] == "approval_stale"
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "bubblewrap")
    with sandbox_scope(SandboxChoices(on_copy=True)):
        assert run_command("echo hi", approval=answer)["error_type"] == "approval_stale"
    assert run_command("echo hi", approval=answer)["stdout"] == "hi\n"


def test_a_rule_that_allows_a_command_does_not_allow_it_a_network(isolated: None) -> None:
    with gateway_scope(ToolGateway(rules=[Rule("allow", "run_command")], approval_mode="strict")):
        assert run_command("true")["ok"] is True
        assert run_command_with_network("true")["approval_required"] is True
    with gateway_scope(ToolGateway(rules=[Rule("deny", "run_command")], approval_mode="strict")):
        assert run_command_with_network("true")["error_type"] == "denied_by_rule"


# Which sandbox


def test_a_session_has_one_sandbox_and_another_session_another(isolated: None) -> None:
    with tool_execution_scope("one"):
        first = run_command("true")["sandbox_id"]
        assert run_code("1")["sandbox_id"] == first
        assert sandbox_status()["sandbox_id"] == first
    with tool_execution_scope("two"):
        assert sandbox_status()["sandbox_id"] is None
        assert run_command("true")["sandbox_id"] != first


def test_accounts_share_no_sandbox_even_in_a_session_of_one_name(
    isolated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_SESSION_ID", "shared")
    found = {}
    for account in ("", "a", "b"):
        with platform_invocation_scope(PlatformInvocationContext(account_id=account)):
            found[account] = run_command("true")["sandbox_id"]
            assert [item["sandbox_id"] for item in list_sandboxes()["sandboxes"]] == [found[account]]
    assert len(set(found.values())) == 3
    with platform_invocation_scope(PlatformInvocationContext(account_id="a")):
        assert kill_sandbox(found["b"])["error_type"] == "no_such_sandbox"
        assert kill_sandbox(found["a"])["ok"] is True
        assert sandbox_status()["sandbox_id"] is None


def test_without_a_session_the_key_is_this_processes_and_nobody_elses() -> None:
    first, second = Ask(None, None).where().key(), Ask(None, None).where().key()
    assert first == second
    assert f"ksadk-process:{os.getpid()}:" in first


def test_the_key_holds_what_sets_a_sandbox_apart(root: Path, tmp_path: Path) -> None:
    keys = set()
    for account in ("", "a"):
        with platform_invocation_scope(PlatformInvocationContext(account_id=account)):
            for choices in (SandboxChoices(), SandboxChoices(on_copy=True), SandboxChoices(memory_bytes=1)):
                for place in (root, tmp_path):
                    with sandbox_scope(choices), workspace_root_scope(place):
                        keys |= {Ask(None, None).where().key(), Ask(None, None, net=True).where().key()}
    assert len(keys) == 2 * 3 * 2 * 2


def test_threads_of_a_session_run_in_one_sandbox_at_once(isolated: None) -> None:
    results: list[dict[str, Any]] = []
    with tool_execution_scope("threads"):
        threads = [
            threading.Thread(
                target=contextvars.copy_context().run,
                args=(lambda line=line: results.append(run_command(line, timeout=60)),),
            )
            for line in meeting(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {result["exit_code"] for result in results} == {0}
    assert len({result["sandbox_id"] for result in results}) == 1


# Protected places


def unread(root: Path, script: str, **how: Any) -> dict[str, Any]:
    """Run a script that the command policy does not look into, as it does into a line."""
    (root / "script").write_text(script)
    result: dict[str, Any] = run_command("bash script", approval=YES, **how)
    assert "exit_code" in result, result
    return result


def test_hooks_that_a_command_makes_are_moved_out_and_reported(isolated: None, root: Path) -> None:
    result = unread(root, "git init -q . && echo evil > .git/hooks/post-checkout; echo done")
    assert result["stdout"] == "done\n"
    found = {item["path"]: item for item in result["protected_path_changed"]}
    assert set(found) == {".git/hooks", ".git/config"}
    assert Path(found[".git/hooks"]["moved_to"], "post-checkout").read_text() == "evil\n"
    assert not (root / ".git/hooks").exists()
    assert ".git/hooks" in result["warning"]


@pytest.mark.parametrize("kind", ["isolated", "local"], indirect=True)
def test_a_repository_that_is_put_aside_gets_its_configuration_back(kind: str, root: Path) -> None:
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/config").write_text("mine")
    result = unread(root, "mv .git .g; mkdir .git; echo evil > .git/config; touch .git/x")
    assert (root / ".git/config").read_text() == "mine"
    assert ".git/config" in [item["path"] for item in result["protected_path_changed"]]


def test_commands_at_once_leave_what_was_there_before_the_first(isolated: None, root: Path) -> None:
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/config").write_text("mine")
    (root / "script").write_text("mv .git .g$$; mkdir .git; echo evil > .git/config; echo > ksadk.yaml; true")
    results: list[dict[str, Any]] = []

    def run() -> None:
        results.append(run_command("bash script"))

    threads = [threading.Thread(target=contextvars.copy_context().run, args=(run,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 6
    # One that begins while another's changes are still there may find nothing to protect, and does not run.
    assert {result.get("error_type") for result in results if "exit_code" not in result} <= {"SandboxError"}
    assert (root / ".git/config").read_text() == "mine"
    assert (root / ".git/hooks").is_dir()
    assert not (root / "ksadk.yaml").exists()


def test_a_command_that_runs_out_of_time_is_checked_too(isolated: None, root: Path) -> None:
    result = unread(root, "echo a > ksadk.yaml; sleep 30", timeout=1)
    assert result["timed_out"] is True
    assert [item["path"] for item in result["protected_path_changed"]] == ["ksadk.yaml"]
    assert not (root / "ksadk.yaml").exists()


# Status


STATUS = {
    "ok", "backend", "enabled", "isolated", "template_bound", "template_id", "timeout_seconds", "ttl_seconds",
    "idle_ttl_seconds", "max_sessions", "sandbox_id", "created_at", "last_used_at", "expires_at",
    "idle_seconds", "boundary", "probe", "left_over",
}  # fmt: skip


def fake_bwrap(directory: Path, script: str) -> str:
    """A PATH on which bwrap is that script of a shell."""
    directory.mkdir()
    (directory / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "bwrap").chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


def test_status_and_lists_start_nothing_and_the_first_call_finds_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    said = "bwrap: setting up uid map: Permission denied"
    monkeypatch.setenv(
        "PATH", fake_bwrap(tmp_path / "bin", f"echo x >> {started}\necho '{said}' >&2; exit 1")
    )
    status = sandbox_status()
    assert set(status) == STATUS
    assert (status["backend"], status["enabled"], status["probe"]) == ("bubblewrap", True, "pending")
    assert {item["enabled"] for item in describe_agentengine_tools("sandbox")} == {True}
    assert not started.exists()
    results = [run_command("echo never"), run_command("echo never", approval=YES), run_code("1")]
    tries = started.read_text().count("x")
    for result in results:
        assert (result["ok"], result["error_type"]) == (False, "SandboxError")
        assert "Permission denied" in result["error_message"] and result["hint"]
    assert started.read_text().count("x") == tries, "one diagnosis, not one for each call"
    status = sandbox_status()
    assert (status["backend"], status["enabled"], status["isolated"]) == ("none", False, False)
    assert "Permission denied" in status["boundary"]
    assert {item["enabled"] for item in describe_agentengine_tools("sandbox")} == {False}


@pytest.mark.parametrize(
    ("variables", "backend", "enabled", "isolated_is"),
    [
        ({"KSADK_SANDBOX_BACKEND": "none"}, "none", False, False),
        ({"KSADK_SANDBOX_BACKEND": "docker"}, "docker", False, False),
        ({"KSADK_SANDBOX_BACKEND": "local"}, "local_process", True, False),
        ({"KSADK_SANDBOX_BACKEND": "pod"}, "pod_process", False, False),
        (
            {"KSADK_SANDBOX_BACKEND": "pod", "KSADK_ALLOW_POD_PROCESS_TOOLS": "1"},
            "pod_process", True, False,
        ),
        ({"KSADK_SANDBOX_BACKEND": "e2b"}, "e2b", True, True),
        ({"KSADK_SANDBOX_TEMPLATE_ID": "t"}, "e2b", True, True),
    ],
    ids=lambda value: getattr(value, "__name__", None) or ascii(value),
)  # fmt: skip
def test_status_says_which_backend_and_what_it_keeps_apart(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    backend: str,
    enabled: bool,
    isolated_is: bool,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    status = sandbox_status()
    assert (status["backend"], status["enabled"], status["isolated"]) == (backend, enabled, isolated_is)
    assert ("no host shell is exposed" in status["boundary"]) == (
        backend not in ("local_process", "pod_process")
    )


def test_status_tells_of_the_sandbox_that_is_alive(isolated: None) -> None:
    before = time.time()
    sandbox_id = run_command("true")["sandbox_id"]
    status = sandbox_status()
    assert status["sandbox_id"] == sandbox_id
    assert before <= status["created_at"] <= status["last_used_at"] <= time.time()
    assert status["expires_at"] == pytest.approx(status["last_used_at"] + 300)
    assert 0 <= status["idle_seconds"] < 5


# Copies, here and somewhere else


@pytest.fixture
def files(root: Path) -> Path:
    (root / "f.txt").write_text("a\nb\n")
    (root / "gone.txt").write_text("x\n")
    (root / "d").mkdir()
    (root / "d/same").write_text("same\n")
    (root / ".agentengine").mkdir()
    (root / ".agentengine/secret").write_text("private")
    return root


CHANGE = (
    "sed -i s/b/B/ f.txt; mkdir -p new; printf 'x\\n' > new/n.sh; chmod +x new/n.sh; rm gone.txt;"
    " touch d/same; ln -s / link; cat .agentengine/secret; printf '\\0\\377' > binary"
)
CHANGED = [
    ("binary", "new"), ("f.txt", "changed"), ("gone.txt", "deleted"), ("new/n.sh", "new"),
]  # fmt: skip


@pytest.fixture
def on_copy(request: pytest.FixtureRequest, files: Path) -> Iterator[str]:
    """A sandbox on a copy of `files`, of either kind."""
    request.getfixturevalue(request.param)
    with sandbox_scope(SandboxChoices(on_copy=True)):
        yield request.param


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("on_copy", ["isolated", "e2b"], indirect=True)
def test_changes_stay_in_the_copy_until_they_are_taken_over(on_copy: str, files: Path) -> None:
    before = content(files)
    result = run_command(CHANGE)
    assert "private" not in result["stdout"]
    assert content(files) == before
    shown = sandbox_changes()
    assert [(item["path"], item["change"]) for item in shown["changes"]] == CHANGED
    assert "-b\n+B\n" in shown["diff"] and "Binary file binary" in shown["diff"]
    if on_copy == "isolated":
        assert shown["left_out"] == [{"path": "link", "reason": "is a link"}]
    assert content(files) == before
    applied = apply_sandbox_changes(approval=YES)
    assert [(item["path"], item["change"]) for item in applied["applied"]] == CHANGED
    assert content(files) == {
        "f.txt": b"a\nB\n", "d/same": b"same\n", "new/n.sh": b"x\n", "binary": b"\0\xff",
        ".agentengine/secret": b"private",
    }  # fmt: skip
    if on_copy == "isolated":
        assert os.access(files / "new/n.sh", os.X_OK)
    assert sandbox_changes()["changes"] == []


@pytest.mark.parametrize("on_copy", ["isolated", "e2b"], indirect=True)
def test_a_command_that_changes_nothing_has_no_changes(on_copy: str, files: Path) -> None:
    run_command("cat f.txt; touch d/same")
    assert sandbox_changes()["changes"] == []


@pytest.mark.parametrize("on_copy", ["isolated", "e2b"], indirect=True)
def test_a_file_that_changed_in_the_workspace_meanwhile_is_not_overwritten(on_copy: str, files: Path) -> None:
    run_command("echo theirs > f.txt; echo new > n; rm gone.txt")
    (files / "f.txt").write_text("mine\n")
    (files / "n").write_text("mine too\n")
    (files / "gone.txt").write_text("needed\n")
    before = content(files)
    result = apply_sandbox_changes(approval=YES)
    assert (result["ok"], result["error_type"]) == (False, "file_modified_since_read")
    assert set(result["paths"]) == {"f.txt", "gone.txt", "n"}
    assert content(files) == before
    assert {item["path"] for item in sandbox_changes()["changes"] if item["stale"]} == {
        "f.txt",
        "gone.txt",
        "n",
    }


@pytest.mark.parametrize("on_copy", ["isolated", "e2b"], indirect=True)
def test_files_can_be_taken_over_one_by_one(on_copy: str, files: Path) -> None:
    run_command("echo 1 > one; echo 2 > two")
    assert apply_sandbox_changes(paths=["three"], approval=YES)["error_type"] == "not_found"
    assert apply_sandbox_changes(paths=["two"], approval=YES)["ok"] is True
    assert ((files / "one").exists(), (files / "two").read_text()) == (False, "2\n")
    assert [item["path"] for item in sandbox_changes()["changes"]] == ["one"]


@pytest.mark.parametrize("on_copy", ["isolated"], indirect=True)
def test_a_name_that_is_no_text_stays_behind_and_one_of_several_lines_is_quoted(
    on_copy: str, files: Path
) -> None:
    run_command("printf x > $'caf\\xe9'; printf 'y\\n' > $'a\\n+++ b'", approval=YES)
    shown = sandbox_changes()
    assert [item["path"] for item in shown["changes"]] == ["a\n+++ b"]
    assert [item["path"] for item in shown["left_out"]] == ["caf\udce9"]
    assert shown["diff"].splitlines()[:2] == [r'--- "a/a\n+++ b"', r'+++ "b/a\n+++ b"']
    assert apply_sandbox_changes(approval=YES)["ok"] is True
    assert (files / "a\n+++ b").read_text() == "y\n"


@pytest.mark.parametrize("on_copy", ["isolated", "e2b"], indirect=True)
def test_protected_places_are_never_taken_over(on_copy: str, files: Path) -> None:
    unread(
        files,
        "echo evil > ksadk.yaml; mkdir -p sub/.git/hooks .git; echo x > .git/config;"
        " echo x > sub/.git/hooks/h; mkdir -p .AgentEngine bare/refs bare/objects;"
        " echo x > .AgentEngine/y; echo x > bare/HEAD;"
        " touch bare/refs/a bare/objects/b; echo fine > fine",
    )
    shown = sandbox_changes()
    names = {item["path"] for item in shown["changes"]}
    assert "fine" in names and not names & {"ksadk.yaml", ".git/config", "sub/.git/hooks/h", ".AgentEngine/y"}
    assert "ksadk.yaml" in {item["path"] for item in shown["left_out"]}
    apply_sandbox_changes(approval=YES)
    assert not (files / "ksadk.yaml").exists()
    assert not (files / "bare/HEAD").exists(), "together these would be a directory of git"
    assert apply_sandbox_changes(paths=["fine"], approval=YES)["ok"] is True
    assert (files / "fine").exists()


@pytest.mark.parametrize("on_copy", ["isolated", "e2b"], indirect=True)
def test_taking_over_is_asked_about_with_its_diff_and_ruled_by_paths(on_copy: str, files: Path) -> None:
    run_command("echo z > f.txt")
    with gateway_scope(ToolGateway(approval_mode="strict", rules=[])) as gateway:
        request = gateway.store.get(apply_sandbox_changes()["approval_request"]["id"])
        assert "+z\n" in request.plan.diff
        run_command("echo y > f.txt", approval=YES)
        stale = apply_sandbox_changes(approval={"approved": True, "id": request.id})
        assert stale["error_type"] == "approval_stale"
    deny = Rule("deny", "apply_sandbox_changes", where=_where("path", "*.txt"))
    with gateway_scope(ToolGateway(rules=[deny])):
        assert apply_sandbox_changes()["error_type"] == "denied_by_rule"
    assert (files / "f.txt").read_text() == "a\nb\n"


def _where(name: str, pattern: str) -> Any:
    from ksadk.tools.rule_conditions import read_condition

    return {name: read_condition(name, pattern)}


def test_a_copy_goes_with_its_sandbox(isolated: None, files: Path, sandboxes: SandboxRegistry) -> None:
    with sandbox_scope(SandboxChoices(on_copy=True)):
        run_command("chmod 000 d; mkdir -p deep; true")
    copies = records.records_directory() / "copies"
    assert len(list(copies.iterdir())) == 1
    sandboxes.clear()
    assert list(copies.iterdir()) == []
    assert list(records.recorded()) == []


def test_without_a_copy_there_is_nothing_to_take_over(isolated: None) -> None:
    run_command("echo x > f")
    assert sandbox_changes()["error_type"] == "no_sandbox_changes"
    assert apply_sandbox_changes(approval=YES)["error_type"] == "no_sandbox_changes"


def test_a_copy_needs_isolation(local: None) -> None:
    with sandbox_scope(SandboxChoices(on_copy=True)):
        assert run_command("true")["error_type"] == "isolated_sandbox_required"


def test_a_sandbox_that_has_ended_somewhere_else_is_replaced_by_the_next_call(e2b: E2BServer) -> None:
    first = run_command("true")["sandbox_id"]
    e2b.end(first)
    assert run_command("true")["error_type"] == "sandbox_ended"
    again = run_command("echo back")
    assert (again["stdout"], again["sandbox_id"] != first) == ("back\n", True)
