"""What `execute_skills` does: find the skills, show what would run, and run exactly that."""

from __future__ import annotations

import hashlib
import json
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ksadk.errors import KsadkError
from ksadk.runtime_context import get_current_session_id
from ksadk.settings import Settings
from ksadk.skills.models import ContentHash
from ksadk.skills.publishing import contract_of
from ksadk.skills.runtime.base import disabled, normalize_skill_names
from ksadk.skills.runtime.environment import skill_environment
from ksadk.skills.runtime.run_directories import read_input
from ksadk.skills.runtime.workflow import Workflow, WorkflowRuntime, check_prompt, nothing_to_run
from ksadk.tools.registry import Plan
from ksadk.toolsets.sandbox_scope import on_output
from ksadk.toolsets.skill_choice import Chosen, choose_skills
from ksadk.toolsets.skill_runtime import chosen_runtime, workflow_runtime
from ksadk.toolsets.skill_scope import SkillRunChoices, skill_run_choices

if TYPE_CHECKING:
    from ksadk.skills.loader import LocalSkill

_MAX_SCRIPTS = 20
_planned: ContextVar[tuple[str, str] | None] = ContextVar("ksadk_skills_planned", default=None)
"""The call that was planned last, and the digest of what it was shown to run."""


@dataclass(frozen=True)
class Ready:
    """A workflow that can be run."""

    runtime: WorkflowRuntime
    name: str
    chosen: Chosen
    prompt: str
    seconds: int
    choices: SkillRunChoices
    settings: Settings

    def digest(self) -> str:
        """Of all that an approval is bound to: skills, prompt, input files, and where it runs."""
        bound = {
            "skills": [
                (skill.name, skill.space_id, skill.version, skill.digest) for skill in self.chosen.skills
            ],
            "prompt": self.prompt,
            "runtime": self.runtime.sandboxes.words(),
            "model": self._model(),
            "seconds": self.seconds,
            "variables": sorted(skill_environment(self.settings)),
            "inputs": [(file.name, ContentHash.of(read_input(file)).hex) for file in self.choices.inputs],
        }
        return hashlib.sha256(json.dumps(bound, sort_keys=True).encode()).hexdigest()

    def details(self) -> list[tuple[str, str]]:
        """What whoever is asked should know."""
        found = [("skills", self.chosen.why)]
        for skill in self.chosen.skills:
            found += _about(skill)
        if not all(skill.entry_point for skill in self.chosen.skills):
            found.append(("model", self._model() or "none: skills without a script are left out"))
        found.append(("runtime", self.runtime.sandboxes.words()))
        found.append(("time", f"{self.seconds} s"))
        variables = sorted(skill_environment(self.settings))
        found += [("variables", ", ".join(variables))] if variables else []
        found += [("input", str(file)) for file in self.choices.inputs]
        found += [("warning", warning) for warning in self.chosen.warnings]
        return found

    def _model(self) -> str:
        from ksadk.skills.runtime.model_loop import Model

        model = Model.of(self.settings)
        return f"{model.name} at {model.base_url}" if model else ""


def plan_execute(workflow_prompt: str, skill_names: list[str] | str | None = None) -> Plan:
    """What `execute_skills` would do; raises what makes that impossible."""
    ready = _ready(workflow_prompt, skill_names)
    digest = ready.digest()
    _planned.set((_call(workflow_prompt, skill_names), digest))
    names = ", ".join(skill.name for skill in ready.chosen.skills) or "no skill"
    return Plan(
        summary=f"Run a workflow with {names}", where=f"skill-runtime/{ready.name}", content_digest=digest,
        details=tuple(ready.details()),
    )  # fmt: skip


def execute(workflow_prompt: str, skill_names: list[str] | str | None = None) -> dict[str, Any]:
    """The result of `execute_skills`."""
    planned = _planned.get()
    _planned.set(None)
    ready = _ready(workflow_prompt, skill_names)
    call = _call(workflow_prompt, skill_names)
    if planned is not None and planned[0] == call and planned[1] != ready.digest():
        raise KsadkError(
            "a skill, or something else that the workflow runs with, has changed since it was shown",
            code="approval_stale",
            hint="Call again, so that the present content is shown.",
        )
    choices = ready.choices
    result = ready.runtime.run(Workflow(
        workflow_prompt, ready.chosen.skills, get_current_session_id(""), {}, choices.inputs, ready.seconds,
        ready.chosen.warnings, on_output(), choices.on_step,
    ))  # fmt: skip
    return {**result.to_dict(), "execution_context": f"skill-runtime/{ready.name}"}


def _call(prompt: str, names: list[str] | str | None) -> str:
    return json.dumps([prompt, normalize_skill_names(names)])


def _ready(prompt: str, names: list[str] | str | None) -> Ready:
    """Everything that is needed, or an error that says what is missing."""
    from ksadk.skills.runtime.model_loop import missing_library

    check_prompt(prompt)
    settings, choices = Settings.from_env(), skill_run_choices()
    runtime = workflow_runtime()
    if runtime is None:
        raise disabled()
    runtime.sandboxes.check()
    chosen = choose_skills(prompt, normalize_skill_names(names))
    missing = nothing_to_run(chosen.skills, follows=runtime.follows)
    if missing is None and runtime.follows and not all(skill.entry_point for skill in chosen.skills):
        missing = missing_library()
    if missing is not None:
        raise missing
    seconds = choices.timeout or settings.skill_runtime_timeout
    return Ready(runtime, chosen_runtime(settings), chosen, prompt, seconds, choices, settings)  # fmt: skip


def _about(skill: LocalSkill) -> list[tuple[str, str]]:
    """A skill's identity, its scripts, and the points of a public skill contract that it states."""
    scripts = skill.script_files
    shown = ", ".join(scripts[:_MAX_SCRIPTS]) or "none"
    more = f", and {len(scripts) - _MAX_SCRIPTS} more" if len(scripts) > _MAX_SCRIPTS else ""
    version = f" {skill.version}" if skill.version else ""
    found = [
        ("skill", f"{skill.name}{version}, of {skill.space_id}"),
        ("digest", skill.digest),
        ("scripts", shown + more),
        ("runs", skill.entry_point or "nothing of its own: a model follows its instructions"),
    ]
    found += [(f"contract {point}", text) for point, text in contract_of(skill).stated.items()]
    if skill.allowed_tools is not None:
        found.append(("allowed tools", str(skill.allowed_tools) or "none"))
    return found
