"""`execute_skills`: whoever approves sees what would run, and exactly that runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from skill_dirs import write_skill

from ksadk.tools.approvals import Decision
from ksadk.tools.gateway import ToolGateway, gateway_scope
from ksadk.toolsets.skill_scope import SkillRunChoices, skill_run_scope
from ksadk.toolsets.skills import execute_skills

SCRIPT = 'echo ran; echo made > "$KSADK_SKILL_OUTPUT_DIR/made"'


@pytest.fixture(autouse=True)
def skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a skill that has a script, and one that has none; bubblewrap runs them."""
    place = tmp_path / "skills"
    write_skill(
        place,
        "demo",
        SCRIPT,
        {"scripts/more.sh": "true"},
        "metadata:\n  version: '2.1'\n  tags: counting, words\n",
    )
    write_skill(place, "advice")
    monkeypatch.setenv("KSADK_LOCAL_SKILLS_DIR", str(place))
    monkeypatch.setenv("KSADK_SKILL_RUNTIME_BACKEND", "bubblewrap")
    monkeypatch.setenv("KSADK_SKILL_WORKDIR", str(tmp_path / "runs"))
    monkeypatch.setenv("KSADK_SKILL_CACHE_DIR", str(tmp_path / "cache"))
    return place


class Person:
    """Somebody who is asked, and who says yes; `before` is done while they think."""

    def __init__(self, before: Any = None) -> None:
        self.seen: list[Any] = []
        self._before = before

    def __call__(self, request: Any, note: str = "") -> Decision:
        self.seen.append(request)
        if self._before is not None:
            self._before()
        return Decision("approve", by="test")


def call(person: Person | None = None, mode: str = "strict", **arguments: Any) -> dict[str, Any]:
    with gateway_scope(ToolGateway(ask=person, approval_mode=mode)):
        result: dict[str, Any] = execute_skills(
            **{"workflow_prompt": "count", "skill_names": "demo", **arguments}
        )
        return result


def test_a_model_that_cannot_be_asked_is_told_before_a_person_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "no-real-key")
    monkeypatch.setenv("OPENAI_MODEL_NAME", "model")
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    person = Person()
    assert call(person, skill_names="advice")["error_type"] == "extra_not_installed"
    assert person.seen == []
    assert call(person)["ok"], "a script needs no model"


def test_the_result_is_the_documented_one() -> None:
    result = call(mode="off")
    assert result["ok"] is True
    assert result["execution_context"] == "skill-runtime/bubblewrap"
    assert (result["exit_code"], result["stdout"], result["timed_out"]) == (0, "ran\n", False)
    assert [Path(file).name for file in result["output_files"]] == ["made"]
    assert isinstance(result["duration_ms"], int)


def test_whoever_is_asked_sees_skill_version_space_digest_scripts_and_where_it_runs() -> None:
    person = Person()
    assert call(person)["ok"] is True
    (request,) = person.seen
    assert request.arguments == {"workflow_prompt": "count", "skill_names": "demo"}
    assert request.risk_level == "high"
    assert request.plan.where == "skill-runtime/bubblewrap"
    details = dict(request.plan.details)
    assert details["skill"] == "demo 2.1, of local"
    assert details["digest"].startswith("sha256:")
    assert details["scripts"] == "scripts/more.sh, scripts/run-workflow.sh"
    assert "without network" in details["runtime"]
    assert details["time"] == "900 s"
    assert details["contract purpose"].endswith("Does demo.")


def test_without_approval_nothing_runs(tmp_path: Path) -> None:
    result = call()
    assert result["approval_required"] is True
    assert result["approval_request"]["side_effects"] == ["isolated_runtime_execution"]
    assert not list((tmp_path / "runs").rglob("made"))


def test_a_skill_that_changes_while_somebody_thinks_does_not_run(skills: Path, tmp_path: Path) -> None:
    script = skills / "demo" / "scripts" / "run-workflow.sh"
    result = call(Person(lambda: script.write_text("echo tampered")))
    assert (result["ok"], result["error_type"]) == (False, "approval_stale")
    assert not list((tmp_path / "runs").rglob("*"))


def test_a_skill_that_changes_after_the_last_look_does_not_run(
    skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ksadk.tools import consent

    real = consent.plan_call
    script = skills / "demo" / "scripts" / "run-workflow.sh"
    looks: list[int] = []

    def plan_then_change(tool: Any, arguments: Any) -> Any:
        plan = real(tool, arguments)
        looks.append(1)
        if len(looks) == 2:
            script.write_text("echo tampered")
        return plan

    monkeypatch.setattr(consent, "plan_call", plan_then_change)
    result = call(Person())
    assert len(looks) == 2
    assert (result["ok"], result["error_type"]) == (False, "approval_stale")


def test_a_script_that_changes_while_it_runs_changes_nothing(skills: Path) -> None:
    script = skills / "demo" / "scripts" / "run-workflow.sh"

    def change(step: str) -> None:
        if step.startswith("running"):
            script.write_text("echo tampered")

    with skill_run_scope(SkillRunChoices(on_step=change)):
        assert call(mode="off")["stdout"] == "ran\n"
    assert script.read_text() == "echo tampered"


def test_an_input_file_that_changes_while_somebody_thinks_makes_the_approval_stale(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a")
    with skill_run_scope(SkillRunChoices(inputs=(tmp_path / "in",))):
        assert call(Person())["ok"] is True
        result = call(Person(lambda: (tmp_path / "in").write_text("b")))
    assert result["error_type"] == "approval_stale"


def test_skills_are_named_by_the_caller_else_by_the_setting_else_the_best_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chosen(**arguments: Any) -> str:
        person = Person()
        call(person, **arguments)
        return dict(person.seen[0].plan.details)["skills"]

    assert chosen(skill_names=["demo"]) == "demo: named by the caller"
    assert chosen(skill_names=None, workflow_prompt="counting words").startswith(
        "demo: chosen for the prompt ("
    )
    monkeypatch.setenv("KSADK_SELECTED_SKILL_NAMES", "demo")
    assert chosen(skill_names=None) == "demo: named by KSADK_SELECTED_SKILL_NAMES"


E2B = {"KSADK_SKILL_RUNTIME_BACKEND": "e2b"}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "an empty prompt": ({"workflow_prompt": "  "}, {}, "workflow_prompt_required"),
    "a name that is not there": ({"skill_names": "demmo"}, {}, "skill_not_found"),
    "nothing that fits": ({"skill_names": None, "workflow_prompt": "zzz qqq"}, {}, "no_skills"),
    "no script and no model": ({"skill_names": "advice"}, {}, "skill_has_no_entry_point"),
    "no runtime": ({}, {"KSADK_SKILL_RUNTIME_BACKEND": "off"}, "skill_runtime_disabled"),
    "an unknown runtime": ({}, {"KSADK_SKILL_RUNTIME_BACKEND": "docker"}, "skill_runtime_disabled"),
    "no key of E2B": ({}, E2B | {"KSADK_SANDBOX_TEMPLATE_ID": "t"}, "sandbox_unauthenticated"),
    "no template of E2B": ({}, E2B, "SandboxError"),
    "a key on the list": ({}, {"KSADK_SKILL_ENV_ALLOWLIST": "E2B_API_KEY"}, "environment_refused"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_said_before_anybody_is_asked(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, environ, code = REFUSED[case]
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    person = Person()
    result = call(person, **arguments)
    assert (result["ok"], result["error_type"]) == (False, code)
    assert result["error_message"]
    assert person.seen == []


def test_no_skill_and_nothing_to_run_have_status_words() -> None:
    assert call(mode="off", skill_names=None, workflow_prompt="zzz qqq")["status"] == "no_skills"
    assert call(mode="off", skill_names="advice")["status"] == "skipped"


def test_what_is_long_is_trimmed_like_any_other_result(skills: Path) -> None:
    (skills / "demo" / "scripts" / "run-workflow.sh").write_text("head -c 200000 /dev/zero | tr '\\0' x")
    result = call(mode="off")
    assert result["stdout_truncated"] is True
    assert result["stdout_original_chars"] == 200_000
