"""Skills that have an entry point are run: in a directory of their own, with few variables, to an end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from skill_dirs import loaded, write_skill

from ksadk.errors import KsadkError
from ksadk.runtime_context import PlatformInvocationContext, platform_invocation_scope
from ksadk.settings import Settings
from ksadk.skills.errors import SkillRuntimeError
from ksadk.skills.runtime import run_directories
from ksadk.skills.runtime.base import SkillRuntimeResult, normalize_skill_names
from ksadk.skills.runtime.workflow import Workflow, WorkflowRuntime
from ksadk.toolsets.skill_choice import Chosen
from ksadk.toolsets.skill_runtime import (
    chosen_runtime,
    create_skill_runtime_backend,
    runtime_enabled,
)
from ksadk.toolsets.skill_sandboxes import BubblewrapSandboxes, LocalSandboxes

Run = Callable[..., SkillRuntimeResult]


def runtime(sandboxes: Any, *skills: Path) -> WorkflowRuntime:
    """A runtime whose skills are these."""
    found = {skill.name: skill for skill in skills}
    return WorkflowRuntime(
        sandboxes,
        lambda prompt, names: Chosen([loaded(found[name]) for name in names or found]),
        settings=Settings.from_env(),
    )


@pytest.fixture(params=[LocalSandboxes, BubblewrapSandboxes], ids=lambda kind: kind.name)
def sandboxes(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("KSADK_SKILL_WORKDIR", str(tmp_path / "runs"))
    return request.param()


@pytest.fixture
def run(sandboxes: Any, tmp_path: Path) -> Run:
    """Runs one skill whose entry point is a script."""

    def run(script: str, **how: Any) -> SkillRuntimeResult:
        files = how.pop("files", None)
        skill = write_skill(tmp_path / f"skills-{time.monotonic_ns()}", "demo", script, files)
        given = {"skill_space_ids": [], "session_id": "s", "timeout": 30, **how}
        return runtime(sandboxes, skill).run_workflow("count this", **given)

    return run


def test_a_script_is_told_its_prompt_and_its_directories_and_its_artifacts_come_back(run: Run) -> None:
    result = run(
        'cat "$KSADK_SKILL_ROOT_DIR/data.txt"; echo "$KSADK_WORKFLOW_PROMPT"\n'
        'pwd; echo "$KSADK_SKILL_WORKDIR"\n'
        'cd "$KSADK_SKILL_OUTPUT_DIR"; mkdir sub; echo a > sub/a; echo b > b\n'
        'echo "artifact=$KSADK_SKILL_OUTPUT_DIR/sub/a"; echo oops >&2\n',
        files={"data.txt": "data\n"},
    )
    assert result.ok, result
    assert (result.exit_code, result.error_type, result.timed_out, result.status) == (0, None, False, "ok")
    data, prompt, here, work, artifact = result.stdout.splitlines()
    assert (data, prompt, here) == ("data", "count this", work)
    assert artifact.startswith("artifact=")
    assert result.stderr == "oops\n"
    assert [Path(file).relative_to(result.output_dir).as_posix() for file in result.output_files] == [
        "sub/a",
        "b",
    ]
    assert [Path(file).read_text() for file in result.output_files] == ["a\n", "b\n"]
    assert result.left_out == ()


def test_the_result_says_ok_and_what_became_of_each_skill(run: Run) -> None:
    shown = run("true").to_dict()
    assert shown["ok"] is True
    assert shown["output_files"] == []
    assert "hint" not in shown and "left_out" not in shown
    assert [(skill["name"], skill["status"], skill["exit_code"]) for skill in shown["skills"]] == [
        ("demo", "ok", 0)
    ]
    assert shown["skills"][0]["digest"].startswith("sha256:")
    failed = run("echo why >&2; exit 3").to_dict()
    assert (failed["ok"], failed["exit_code"], failed["stderr"], failed["status"]) == (
        False,
        3,
        "why\n",
        "failed",
    )


@pytest.mark.parametrize(
    "name", ["SECRET_TOKEN", "OPENAI_API_KEY", "KSYUN_SECRET_KEY", "E2B_API_KEY", "HOSTS_OWN"]
)
def test_a_script_sees_no_variable_of_this_program_but_the_few_that_are_let_through(
    name: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "s3cr3t-value")
    result = run("env; cat /proc/self/environ | tr '\\0' '\\n'")
    assert result.ok
    assert "s3cr3t-value" not in result.stdout
    assert "KSADK_SKILL_ROOT_DIR=" in result.stdout  # what a runner that passes everything on would add to


def test_a_runner_that_passes_its_environment_on_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    monkeypatch.setenv("SECRET_TOKEN", "s3cr3t-value")
    naive = subprocess.run(["bash", "-c", "env"], capture_output=True, text=True, check=True)
    assert "s3cr3t-value" in naive.stdout


def test_a_variable_is_let_through_by_its_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPORT_STYLE", "short")
    monkeypatch.setenv("KSADK_SKILL_ENV_ALLOWLIST", "REPORT_STYLE,NOT_SET")
    assert run('echo "$REPORT_STYLE"').stdout == "short\n"


@pytest.mark.parametrize(
    ("name", "value"), [("OPENAI_API_KEY", "sk-1234567890"), ("COPY_OF_IT", "Bearer sk-1234567890")]
)
def test_no_list_lets_a_key_of_ours_through(
    name: str, value: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1234567890")
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("KSADK_SKILL_ENV_ALLOWLIST", name)
    with pytest.raises(SkillRuntimeError, match="OPENAI_API_KEY") as raised:
        run("env")
    assert raised.value.code == "environment_refused"
    assert "sk-1234567890" not in str(raised.value)


def test_a_caller_passes_no_key_of_ours_either(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SKILL_SERVICE_TOKEN", "tok-1234567890")
    assert run('echo "$STYLE"', env={"STYLE": "short"}).stdout == "short\n"
    with pytest.raises(SkillRuntimeError, match="KSADK_SKILL_SERVICE_TOKEN"):
        run("env", env={"AUTHORIZATION": "Bearer tok-1234567890"})


def test_a_second_run_has_nothing_of_the_first(run: Run) -> None:
    first = run(
        'echo 1 > "$KSADK_SKILL_OUTPUT_DIR/first"; echo x > left; echo 1 > "$KSADK_SKILL_ROOT_DIR/made"'
    )
    second = run('ls; ls "$KSADK_SKILL_ROOT_DIR"; echo 2 > "$KSADK_SKILL_OUTPUT_DIR/second"')
    assert [Path(file).name for file in first.output_files] == ["first"]
    assert [Path(file).name for file in second.output_files] == ["second"]
    assert second.stdout == "input\nSKILL.md\nscripts\n"
    assert Path(first.output_files[0]).read_text() == "1\n"


def test_at_the_end_of_its_time_all_that_a_workflow_started_is_ended_and_what_it_made_is_kept(
    run: Run,
) -> None:
    seconds = f"31{os.getpid() % 1000}.5"
    began = time.monotonic()
    result = run(
        'echo begun; echo part > "$KSADK_SKILL_OUTPUT_DIR/part"\n'
        f"(sleep {seconds} & sleep {seconds}) & sleep {seconds}",
        timeout=3,  # of which it needs as much as a busy machine takes to begin
    )
    assert time.monotonic() - began < 15
    assert (result.ok, result.timed_out, result.error_type) == (False, True, "TimeoutExpired")
    assert (result.stdout, result.exit_code, result.status) == ("begun\n", 124, "failed")
    assert [Path(file).name for file in result.output_files] == ["part"]
    assert not [pid for pid in processes() if seconds in pid]


def processes() -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return found


_OUT = '"$KSADK_SKILL_OUTPUT_DIR"'
_NO_FILE = "was announced, and is no file of the output directory"
REFUSED = {
    "link": ('ln -s /etc/passwd "$KSADK_SKILL_OUTPUT_DIR/x"', "is a link"),
    "directory link": ('ln -s / "$KSADK_SKILL_OUTPUT_DIR/x"', "is a link"),
    "FIFO": ('mkfifo "$KSADK_SKILL_OUTPUT_DIR/x"', "is no regular file"),
    "hard link": ('echo a > y; ln y "$KSADK_SKILL_OUTPUT_DIR/x"', "is a hard link"),
    "no directory": (f"rmdir {_OUT}; ln -s / {_OUT}", "is no directory any more"),
    "announced outside": ("echo artifact=/etc/passwd", _NO_FILE),
    "announced above": ("echo artifact=../../x", _NO_FILE),
    "announced nothing": ("echo artifact=", _NO_FILE),
    "name": ("touch \"$KSADK_SKILL_OUTPUT_DIR/$(printf 'a\\xff')\"", "has a name that is no text"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_only_regular_files_of_the_output_directory_are_artifacts(case: str, run: Run) -> None:
    script, reason = REFUSED[case]
    result = run(script)
    assert result.output_files == ()
    assert [item["reason"] for item in result.left_out] == [reason]


def test_there_are_limits_of_number_and_size(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ksadk.skills.runtime.artifacts.MAX_FILES", 2)
    monkeypatch.setattr("ksadk.skills.runtime.artifacts.MAX_FILE_BYTES", 1024 * 1024)
    result = run(
        'cd "$KSADK_SKILL_OUTPUT_DIR"; head -c 2000000 /dev/zero > 0; for n in 1 2 3; do echo > $n; done'
    )
    assert [Path(file).name for file in result.output_files] == ["1", "2"]
    assert {item["path"]: item["reason"] for item in result.left_out} == {
        "0": "has more than 1 MiB", "3": "is one more than 2 files",
    }  # fmt: skip


def test_input_files_are_where_scripts_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("hello\n")
    assert run("cat input/text.txt", input_files=[tmp_path / "text.txt"]).stdout == "hello\n"


def test_skills_are_run_one_after_the_other_up_to_the_first_that_fails(
    sandboxes: Any, tmp_path: Path
) -> None:
    scripts = {"a": "echo a > note", "b": "cat note; exit 4", "c": "echo never"}
    skills = [write_skill(tmp_path / "skills", name, script) for name, script in scripts.items()]
    result = runtime(sandboxes, *skills).run_workflow("p", skill_space_ids=[], session_id="s", timeout=30)
    assert [(skill.name, skill.status, skill.exit_code) for skill in result.skills] == [
        ("a", "ok", 0), ("b", "failed", 4), ("c", "skipped", None),
    ]  # fmt: skip
    assert (result.stdout, result.exit_code, result.ok) == ("a\n", 4, False)


def test_one_skill_cannot_prepare_the_files_of_the_next(sandboxes: Any, tmp_path: Path) -> None:
    evil = (
        'for d in ../skill-*; do echo "echo evil" > "$d/next/scripts/run-workflow.sh"; done 2>/dev/null; true'
    )
    skills = [
        write_skill(tmp_path / "skills", "first", evil),
        write_skill(tmp_path / "skills", "next", "echo honest"),
    ]
    result = runtime(sandboxes, *skills).run_workflow("p", skill_space_ids=[], session_id="s", timeout=30)
    assert result.stdout == "honest\n"


def test_a_script_changes_its_own_copy_and_never_the_skill(sandboxes: Any, tmp_path: Path) -> None:
    skill = write_skill(
        tmp_path / "skills", "demo", 'echo "echo changed" > "$KSADK_SKILL_ROOT_DIR/scripts/run-workflow.sh"'
    )
    before = loaded(skill).digest
    backend = runtime(sandboxes, skill)
    for _ in range(2):
        assert backend.run_workflow("p", skill_space_ids=[], session_id="s", timeout=30).stdout == ""
    assert loaded(skill).digest == before


def test_a_skill_of_another_space_is_not_taken(sandboxes: Any, tmp_path: Path) -> None:
    from dataclasses import replace

    skill = replace(loaded(write_skill(tmp_path / "skills", "demo", "true")), space_id="theirs")
    backend = WorkflowRuntime(sandboxes, lambda *_: Chosen([skill]), settings=Settings.from_env())
    assert backend.run_workflow("p", skill_space_ids=["theirs"], session_id="s", timeout=30).ok
    none = backend.run_workflow("p", skill_space_ids=["ours"], session_id="s", timeout=30)
    assert (none.ok, none.status, none.error_type) == (False, "no_skills", "no_skills")


def test_a_skill_without_a_script_says_what_to_do(sandboxes: Any, tmp_path: Path) -> None:
    skill = write_skill(tmp_path / "skills", "advice")
    result = runtime(sandboxes, skill).run_workflow("p", skill_space_ids=[], session_id="s", timeout=30)
    assert (result.ok, result.status, result.error_type) == (False, "skipped", "skill_has_no_entry_point")
    assert result.hint is not None and "load_skill" in result.hint and "OPENAI_MODEL_NAME" in result.hint


@pytest.mark.parametrize("name", ["missing", "a-directory", "a-fifo"])
def test_an_input_that_is_no_file_is_refused_and_not_waited_for(name: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "a-directory").mkdir()
    os.mkfifo(tmp_path / "a-fifo")
    with pytest.raises(SkillRuntimeError) as raised:
        run("true", input_files=[tmp_path / name])
    assert raised.value.code == "skill_input_unusable"
    assert name in raised.value.message


@pytest.mark.parametrize(
    ("prompt", "code"),
    [(" ", "workflow_prompt_required"), ("x" * 200_000, "invalid_arguments"), ("a\0b", "invalid_arguments")],
)
def test_a_prompt_that_no_script_can_be_given_is_refused(
    prompt: str, code: str, sandboxes: Any, tmp_path: Path
) -> None:
    skill = write_skill(tmp_path / "skills", "demo", "true")
    with pytest.raises(SkillRuntimeError) as raised:
        runtime(sandboxes, skill).run_workflow(prompt, skill_space_ids=[], session_id="s")
    assert raised.value.code == code


def test_output_and_steps_are_told_while_it_runs(sandboxes: Any, tmp_path: Path) -> None:
    script = 'echo one; until [ -e "$KSADK_SKILL_OUTPUT_DIR/go" ]; do sleep 0.02; done; echo two'
    skill = loaded(write_skill(tmp_path / "skills", "demo", script))
    seen: list[tuple[str, bytes]] = []
    steps: list[str] = []

    def observe(stream: str, data: bytes) -> None:
        seen.append((stream, data))
        [output] = (tmp_path / "runs").glob("*/*/*/output")
        (output / "go").touch()

    backend = WorkflowRuntime(sandboxes, lambda *_: Chosen(), settings=Settings.from_env())
    result = backend.run(Workflow("p", [skill], timeout=30, on_step=steps.append, on_output=observe))
    assert (result.ok, seen) == (True, [("stdout", b"one\n"), ("stdout", b"two\n")])
    assert steps == [f"starting {sandboxes.name}", "running demo"]


def test_what_has_no_artifact_leaves_nothing_and_the_rest_leaves_its_output(run: Run, tmp_path: Path) -> None:
    run("echo x > work; mkdir locked; chmod 0 locked")
    assert not [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    result = run('echo x > left; echo a > "$KSADK_SKILL_OUTPUT_DIR/a"')
    kept = [path.name for path in Path(result.output_dir).parent.iterdir()]
    assert kept == ["output"]


def test_sessions_and_accounts_have_directories_of_their_own(run: Run) -> None:
    script = 'echo > "$KSADK_SKILL_OUTPUT_DIR/a"'
    first, second = run(script, session_id="one"), run(script, session_id="two")
    with platform_invocation_scope(PlatformInvocationContext(account_id="acme")):
        third = run(script, session_id="one")
    places = {Path(result.output_dir).parents[1] for result in (first, second, third)}
    assert len(places) == 3
    assert all(place.stat().st_mode & 0o777 == 0o700 for place in places)
    assert not any("acme" in str(place) or "one" in str(place) for place in places)


def test_old_runs_are_deleted_and_those_in_use_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(skill_workdir=tmp_path / "runs")
    used = threading.Event()
    with run_directories.run_directory(settings, account="", session="s") as held:
        (held.output / "artifact").write_text("x")
        monkeypatch.setattr(run_directories, "KEPT_SECONDS", -1)
        with run_directories.run_directory(settings, account="", session="s") as other:
            (other.output / "artifact").write_text("y")
            assert held.output.is_dir()
        used.set()
    with run_directories.run_directory(settings, account="", session="s"):
        assert not held.path.exists()
        assert not other.path.exists()


def test_artifacts_are_kept_until_they_are_old_or_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(skill_workdir=tmp_path / "runs")
    monkeypatch.setattr(run_directories, "KEPT_RUNS", 2)
    made = []
    for number in range(4):
        with run_directories.run_directory(settings, account="", session="s") as run:
            (run.output / "artifact").write_text(str(number))
        made.append(run.path)
        run.path.with_name(run.path.name + ".lock").rename(run.path.with_name(f"{number}.lock"))
        run.path.rename(run.path.with_name(str(number)))
    with run_directories.run_directory(settings, account="", session="s") as last:
        assert sorted(path.name for path in last.path.parent.iterdir() if path.name.isdigit()) == ["2", "3"]


def test_a_directory_that_anybody_could_have_put_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "ksadk-skill-workflow").symlink_to(tmp_path / "elsewhere")
    base = tmp_path / "ksadk-skill-workflow"
    for prepare, why in (
        (lambda: None, "is no directory, or a link"),
        (lambda: (base.unlink(), base.mkdir(), base.chmod(0o777)), "can be written to by others"),
    ):
        prepare()
        with (
            pytest.raises(SkillRuntimeError, match=why) as raised,
            run_directories.run_directory(Settings(), account="", session="s"),
        ):
            pass
        assert raised.value.code == "skill_workdir_unusable"
    base.chmod(0o700)
    with run_directories.run_directory(Settings(), account="", session="s") as run:
        assert run.path.is_relative_to(base)


_RUNTIME = "KSADK_SKILL_RUNTIME_BACKEND"
CHOICES: dict[str, tuple[dict[str, str], str, bool]] = {
    "nothing is set": ({}, "disabled", False),
    "the runtime's own": ({_RUNTIME: "local", "KSADK_SANDBOX_BACKEND": "e2b"}, "local_process", True),
    "the runtime is off": ({_RUNTIME: "off", "KSADK_SANDBOX_BACKEND": "e2b"}, "disabled", False),
    "the sandbox's": ({"KSADK_SANDBOX_BACKEND": "bwrap"}, "bubblewrap", True),
    "the sandbox is off": ({"KSADK_SANDBOX_BACKEND": "none", "KSADK_SANDBOX_TEMPLATE_ID": "t"}, "e2b", True),
    "a template": ({"KSADK_SANDBOX_TEMPLATE_ID": "t"}, "e2b", True),
    "a template of its own": ({"KSADK_SKILL_RUNTIME_TEMPLATE_ID": "t"}, "e2b", True),
    "an unknown word": ({_RUNTIME: "docker"}, "docker", False),
}  # fmt: skip


@pytest.mark.parametrize("case", CHOICES)
def test_the_runtime_is_chosen_in_the_documented_order(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environ, name, enabled = CHOICES[case]
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    assert (chosen_runtime(), runtime_enabled()) == (name, enabled)


def test_a_disabled_runtime_names_the_one_that_needs_nothing() -> None:
    backend = create_skill_runtime_backend()
    with pytest.raises(SkillRuntimeError, match="no skill runtime is set") as raised:
        backend.run_workflow("p", skill_space_ids=[], session_id="s")
    assert raised.value.code == "skill_runtime_disabled"
    assert raised.value.hint is not None and "bubblewrap" in raised.value.hint


@pytest.mark.parametrize("name", ["docker", "pod_process"])
def test_an_unknown_runtime_is_a_value_error(name: str) -> None:
    with pytest.raises(ValueError, match="no skill runtime") as raised:
        create_skill_runtime_backend(name)
    assert isinstance(raised.value, KsadkError)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (None, []),
        ("a, b,a", ["a", "b"]),
        (["Word-Count", "word-count", " "], ["Word-Count"]),
        (["a,b", "c"], ["a", "b", "c"]),
    ],
)
def test_names_are_split_at_commas_and_count_once(given: Any, names: list[str]) -> None:
    assert normalize_skill_names(given) == names
