"""Skills in sandboxes of E2B: verified files go in, artifacts come back, and the sandbox is always ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, calls, says
from e2b_server import E2BServer
from e2b_server.service import KEY
from skill_dirs import loaded, write_skill

from ksadk.errors import KsadkError
from ksadk.settings import Settings
from ksadk.skills.runtime.base import Sandbox, SkillRuntimeResult
from ksadk.skills.runtime.template_agent import TemplateAgentRuntime, reported
from ksadk.skills.runtime.workflow import Workflow, WorkflowRuntime
from ksadk.toolsets.selection import load_builtin_tools
from ksadk.toolsets.skill_choice import Chosen
from ksadk.toolsets.skill_runtime import workflow_runtime
from ksadk.toolsets.skill_sandboxes import E2BSandboxes

Run = Callable[..., SkillRuntimeResult]


@pytest.fixture
def run(e2b: E2BServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs skills with these scripts in the service's sandboxes."""
    monkeypatch.setenv("KSADK_SKILL_WORKDIR", str(tmp_path / "runs"))
    monkeypatch.setenv("KSADK_SANDBOX_TEMPLATE_ID", "tmpl-1")

    def run(*scripts: str, files: dict[str, str] | None = None, **how: Any) -> SkillRuntimeResult:
        place = tmp_path / f"skills-{time.monotonic_ns()}"
        skills = [loaded(write_skill(place, f"demo-{n}", text, files)) for n, text in enumerate(scripts)]
        backend = workflow_runtime("e2b")
        assert backend is not None
        return backend.run(Workflow("count this", skills, "s", **{"timeout": 60, **how}))

    return run


def test_files_go_in_with_their_modes_and_artifacts_come_back(
    run: Run, e2b: E2BServer, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("hello\n")
    result = run(
        '"$KSADK_SKILL_ROOT_DIR/tool.sh"; cat input/in.txt; echo "$KSADK_WORKFLOW_PROMPT" >&2\n'
        'mkdir "$KSADK_SKILL_OUTPUT_DIR/sub"; echo a > "$KSADK_SKILL_OUTPUT_DIR/sub/a"\n'
        'echo "artifact=$KSADK_SKILL_OUTPUT_DIR/sub/a"\n',
        files={"tool.sh": "#!/bin/sh\necho tool\n"},
        inputs=[tmp_path / "in.txt"],
    )
    assert result.ok, result
    assert result.stdout.splitlines()[:2] == ["tool", "hello"]
    assert result.stderr == "count this\n"
    assert [Path(file).read_text() for file in result.output_files] == ["a\n"]
    assert Path(result.output_files[0]).is_relative_to(tmp_path / "runs")
    assert result.runtime_id.startswith("i")
    assert e2b.sandboxes == {}


def test_no_secret_goes_in(run: Run, e2b: E2BServer, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"SECRET_TOKEN": "tok-1", "KSADK_SKILL_SERVICE_TOKEN": "tok-2", "KSYUN_SECRET_KEY": "tok-3"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    result = run("env; cat /proc/self/environ")
    assert "KSADK_SKILL_ROOT_DIR" in result.stdout
    for secret in (*secrets.values(), KEY):
        assert secret not in result.stdout


@pytest.mark.parametrize("script", ["exit 3", "sleep 30", "kill -9 $$"])
def test_the_sandbox_is_ended_however_a_skill_ends(script: str, run: Run, e2b: E2BServer) -> None:
    result = run(
        f'echo part > "$KSADK_SKILL_OUTPUT_DIR/part"; {script}', timeout=3 if script == "sleep 30" else 60
    )
    assert not result.ok
    assert e2b.sandboxes == {}
    assert result.timed_out is (script == "sleep 30")
    assert [Path(file).name for file in result.output_files] == ["part"]


def test_the_sandbox_is_ended_at_ctrl_c(run: Run, e2b: E2BServer) -> None:
    def interrupted(step: str) -> None:
        if step.startswith("running"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("true", on_step=interrupted)
    assert any(line.startswith("POST") and "sandboxes" in line for line in e2b.seen)
    assert e2b.sandboxes == {}


def test_a_sandbox_that_cannot_be_ended_is_told_and_the_result_is_kept(run: Run, e2b: E2BServer) -> None:
    def fail_from_now_on(step: str) -> None:
        if step.startswith("running"):
            e2b.fault = (500, "out of order")

    result = run('echo a > "$KSADK_SKILL_OUTPUT_DIR/a"', on_step=fail_from_now_on)
    assert result.ok, result
    assert [Path(file).name for file in result.output_files] == ["a"]
    assert result.runtime_id in result.warnings[0] and "may still run" in result.warnings[0]


def test_an_error_of_the_service_is_said_without_the_key(run: Run, e2b: E2BServer) -> None:
    e2b.fault = (500, f"{KEY} is not welcome")
    with pytest.raises(KsadkError) as raised:
        run("true")
    assert KEY not in str(raised.value)


def test_a_sandbox_that_dies_meanwhile_is_a_result(run: Run, e2b: E2BServer) -> None:
    def die(step: str) -> None:
        if step.startswith("running"):
            for sandbox_id in list(e2b.sandboxes):
                e2b.end(sandbox_id)

    result = run("true", on_step=die)
    assert (result.ok, result.status, result.error_type) == (False, "failed", "sandbox_ended")
    assert KEY not in str(result)


def test_what_comes_back_is_only_regular_files(run: Run) -> None:
    result = run(
        'cd "$KSADK_SKILL_OUTPUT_DIR"; ln -s /etc/passwd link; mkfifo pipe\n'
        "echo a > good; mkdir -p deep/er; echo b > deep/er/b"
    )
    assert [Path(file).name for file in result.output_files] == ["b", "good"]
    assert {item["path"] for item in result.left_out} == {"link", "pipe"}


def test_too_much_output_is_left_where_it_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ksadk.skills.runtime.transfer.MAX_TOTAL_BYTES", 0)
    monkeypatch.setattr("ksadk.skills.runtime.transfer._OVERHEAD_BYTES", 1024 * 1024)
    result = run('head -c 3000000 /dev/zero > "$KSADK_SKILL_OUTPUT_DIR/big"')
    assert result.output_files == ()
    assert "in all" in result.left_out[0]["reason"]


def test_skills_share_where_they_work_and_each_has_its_own_files(run: Run) -> None:
    result = run("echo first > note", "cat note; basename $KSADK_SKILL_ROOT_DIR")
    assert result.stdout == "first\ndemo-1\n"


def test_a_model_runs_commands_there_and_their_output_comes_back(
    run: Run, e2b: E2BServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pydantic_ai")
    load_builtin_tools()
    server = ChatServer([
        calls(("run_command", {"command": "cat skill-*/advice/SKILL.md > output/copy"})), says("done"),
    ])  # fmt: skip
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)
    backend = workflow_runtime("e2b")
    assert backend is not None
    with server:
        skill = loaded(write_skill(tmp_path / "advice-skills", "advice"))
        result = backend.run(Workflow("p", [skill], "s", timeout=60))
    assert server.offered() == ["run_command", "run_code"]
    assert result.ok, result
    assert "Do advice." in Path(result.output_files[0]).read_text()
    assert e2b.sandboxes == {}


AGENT = """
import json, os, sys
assert sys.argv[1] == "--request-file"
request = json.load(open(sys.argv[2]))
skills = os.environ["KSADK_LOCAL_SKILLS_DIR"]
for name in request["skill_names"]:
    assert "Do " in open(os.path.join(skills, name, "SKILL.md")).read()
out = os.environ["KSADK_SKILL_OUTPUT_DIR"]
open(os.path.join(out, "made.txt"), "w").write(request["workflow_prompt"])
open("/tmp/env.json", "w").write(json.dumps(dict(os.environ)))
open(os.path.join(out, "env.json"), "w").write(json.dumps(dict(os.environ)))
print("workflow=" + request["workflow_prompt"])
print("selected_skills=" + os.environ["KSADK_SELECTED_SKILL_NAMES"])
print("workflow_result=" + json.dumps({"status": "ok", "output_files": [os.path.join(out, "made.txt")]}))
"""


class WithAgent:
    """Sandboxes whose template has the agent; that of the tests' service has nothing of its own."""

    def __init__(self, settings: Settings, agent: str) -> None:
        self._real = E2BSandboxes(settings)
        self._agent = agent
        self.name, self.isolated, self.shared = "e2b", True, False
        self.check, self.inside, self.words = self._real.check, self._real.inside, self._real.words

    def start(self, directory: Path, *, session_id: str, seconds: float) -> Sandbox:
        sandbox = self._real.start(directory, session_id=session_id, seconds=seconds)
        sandbox.write_file("/tmp/agent.py", self._agent)
        return sandbox


@pytest.fixture
def agent(e2b: E2BServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a skill by the agent of a template."""
    monkeypatch.setenv("KSADK_SKILL_WORKDIR", str(tmp_path / "runs"))
    monkeypatch.setenv("KSADK_SKILL_RUNTIME_TEMPLATE_ID", "tmpl-1")
    monkeypatch.setattr("ksadk.skills.runtime.template_agent.AGENT", "/tmp/agent.py")
    monkeypatch.setattr("ksadk.skills.runtime.template_agent.PYTHON", "python3")

    def run(source: str = AGENT, names: Sequence[str] = ("advice",), **how: Any) -> SkillRuntimeResult:
        settings = Settings.from_env()
        skill = loaded(write_skill(tmp_path / f"skills-{time.monotonic_ns()}", "advice"))
        backend = TemplateAgentRuntime(WithAgent(settings, source), lambda *_: Chosen(), settings=settings)
        skills = [replace(skill, name=name) for name in names]
        return backend.run(Workflow("count this", skills, "s", **{"timeout": 60, **how}))

    return run


def test_a_templates_own_agent_is_given_pinned_skills_and_no_key(
    agent: Run, e2b: E2BServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SKILL_SERVICE_ACCESS_KEY", "ak-0123456789")
    monkeypatch.setenv("KSADK_SKILL_SERVICE_SECRET_KEY", "sk-0123456789")
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "ss-1,ss-2")
    result = agent()
    assert result.ok, result
    assert [Path(file).name for file in result.output_files] == ["made.txt", "env.json"]
    assert Path(result.output_files[0]).read_text() == "count this"
    seen = json.loads(Path(result.output_files[1]).read_text())
    assert seen["KSADK_SKILL_SPACE_IDS"] == "ss-1,ss-2"
    assert seen["SKILL_SPACE_ID"] == "ss-1"
    assert seen["KSADK_SELECTED_SKILL_NAMES"] == "advice"
    assert not {"ak-0123456789", "sk-0123456789", KEY} & set(seen.values())
    assert e2b.sandboxes == {}


@pytest.mark.parametrize("name", ["../../../../../out", "a/b", ".", "one\ntwo"])
def test_a_name_from_a_service_leads_no_file_out_of_the_run(name: str, agent: Run, tmp_path: Path) -> None:
    list_them = "import os; print(os.listdir(os.environ['KSADK_LOCAL_SKILLS_DIR'])); "
    said = "print('workflow_result={}')"
    result = agent(list_them + said, names=[name, name + name])
    assert (result.status, result.stdout.count("'skill-")) == ("ok", 2)
    assert not (tmp_path / "out").exists()
    assert not list((tmp_path / "runs").rglob("SKILL.md"))


AGENTS = {
    "fails": ("import sys; print('broken', file=sys.stderr); sys.exit(2)", None, "failed"),
    "says nothing": ("print('hello')", "invalid_skill_runtime_result", "failed"),
    "says what is no JSON": ("print('workflow_result={')", "invalid_skill_runtime_result", "failed"),
    "found no skill": ("""print('workflow_result={"status": "no_skills"}')""", None, "no_skills"),
    "never ends": ("import time; time.sleep(60)", "TimeoutExpired", "failed"),
}


@pytest.mark.parametrize("case", AGENTS)
def test_what_becomes_of_a_templates_agent_is_said(case: str, agent: Run, e2b: E2BServer) -> None:
    source, error_type, status = AGENTS[case]
    result = agent(source, timeout=3 if case == "never ends" else 60)
    assert (result.error_type, result.status) == (error_type, status)
    assert result.ok is (case == "found no skill")
    assert e2b.sandboxes == {}


def test_the_last_result_that_an_agent_prints_counts() -> None:
    assert reported('workflow_result={"a": 1}\nx\nworkflow_result={"a": 2}\n') == {"a": 2}
    assert reported("x") is None
    assert reported("workflow_result=[1]") is None


def test_a_template_for_skills_chooses_its_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_TEMPLATE_ID", "t")
    assert type(workflow_runtime()) is WorkflowRuntime
    monkeypatch.setenv("KSADK_SKILL_RUNTIME_TEMPLATE_ID", "t")
    assert type(workflow_runtime()) is TemplateAgentRuntime
