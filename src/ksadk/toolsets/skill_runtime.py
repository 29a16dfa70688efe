"""Where skills run: the runtime that is chosen, made of one of the sandboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ksadk.settings import Settings, read_backend

if TYPE_CHECKING:
    from ksadk.skills.runtime.base import Sandboxes, SkillRuntimeBackend
    from ksadk.skills.runtime.workflow import Follow, WorkflowRuntime

RUNTIMES = ("disabled", "local_process", "bubblewrap", "e2b")


def chosen_runtime(settings: Settings | None = None) -> str:
    """The runtime's name: what is set for skills, else for the sandbox if that is not turned off, else e2b
    where a template is, else disabled. An unknown name stays as it is. Starts nothing."""
    settings = settings or Settings.from_env()
    named = settings.skill_runtime_backend
    if not named and settings.sandbox_backend != "none":
        named = settings.sandbox_backend
    if not named and runtime_template(settings):
        named = "e2b"
    return "disabled" if named in {"", "none"} else named


def runtime_template(settings: Settings) -> str:
    """The E2B template that skills run in; empty where none is bound."""
    return settings.skill_runtime_template_id or settings.sandbox_template_id


def runtime_enabled(settings: Settings | None = None) -> bool:
    """Whether the chosen runtime can be started, as far as that is known without starting it."""
    settings = settings or Settings.from_env()
    name = chosen_runtime(settings)
    if name == "bubblewrap":
        from ksadk.sandbox.verdicts import known

        verdict = known()
        return verdict is None or verdict.works
    return name in RUNTIMES and name != "disabled"


def create_skill_runtime_backend(name: str | None = None) -> SkillRuntimeBackend:
    """The runtime of that name (disabled, local_process, bubblewrap or e2b), else the chosen one.

    One that is disabled raises `skill_runtime_disabled` when it is to run something. Raises
    `SkillRuntimeError`, a `ValueError`, for an unknown name.
    """
    from ksadk.skills.runtime.base import DisabledRuntime

    return workflow_runtime(name) or DisabledRuntime()


def workflow_runtime(name: str | None = None) -> WorkflowRuntime | None:
    """The same; None where it is disabled."""
    from ksadk.skills.errors import SkillRuntimeError
    from ksadk.skills.runtime.workflow import WorkflowRuntime
    from ksadk.toolsets.skill_choice import choose_skills
    from ksadk.toolsets.skill_sandboxes import BubblewrapSandboxes, E2BSandboxes, LocalSandboxes

    settings = Settings.from_env()
    chosen = read_backend(name) if name else chosen_runtime(settings)
    if chosen in ("disabled", "none"):
        return None
    if chosen not in RUNTIMES:
        raise SkillRuntimeError(
            f"there is no skill runtime {chosen!r}",
            hint=f"Set KSADK_SKILL_RUNTIME_BACKEND to {', '.join(RUNTIMES)}.",
            execution_context=f"skill-runtime/{chosen}",
        )
    if chosen == "e2b" and settings.skill_runtime_template_id:
        from ksadk.skills.runtime.template_agent import TemplateAgentRuntime

        return TemplateAgentRuntime(E2BSandboxes(settings), choose_skills, settings=settings)
    sandboxes: Sandboxes
    if chosen == "e2b":
        sandboxes = E2BSandboxes(settings)
    else:
        sandboxes = BubblewrapSandboxes() if chosen == "bubblewrap" else LocalSandboxes()
    return WorkflowRuntime(sandboxes, choose_skills, _follow(settings, sandboxes), settings=settings)


def _follow(settings: Settings, sandboxes: Sandboxes) -> Follow | None:
    from ksadk.skills.runtime.model_loop import Model

    model = Model.of(settings)
    if model is None:
        return None
    from ksadk.toolsets.skill_model import Following

    return Following(model, sandboxes.name)
