"""Where skills run: the runtime that is chosen, made of one of the sandboxes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksadk.settings import Settings, read_backend
from ksadk.toolsets.skill_choice import choose_skills

if TYPE_CHECKING:
    from ksadk.sandbox import E2BSandboxBackend
    from ksadk.skills.runtime.base import Sandbox, Sandboxes, SkillRuntimeBackend
    from ksadk.skills.runtime.workflow import Follow, WorkflowRuntime

RUNTIMES = ("disabled", "local_process", "bubblewrap", "e2b")

_LATE_SECONDS = 180
"""How much longer than its workflow a remote sandbox lives, so that what was made can be fetched."""


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


@dataclass(frozen=True)
class LocalSandboxes:
    """Processes of this machine, with the user's rights."""

    name: str = "local_process"
    isolated: bool = False
    shared: bool = True

    def check(self) -> None:
        """Nothing is needed."""

    def start(self, directory: Path, *, session_id: str, seconds: float) -> Sandbox:  # noqa: ARG002
        """A sandbox that is known as `local:<session>`."""
        from ksadk.sandbox import LocalProcessSandboxBackend

        session = LocalProcessSandboxBackend(directory).create_session(session_id=session_id)
        session.sandbox_id = f"local:{session_id}"
        return session

    def inside(self, directory: Path) -> str:
        """The directory itself."""
        return str(directory.resolve())

    def words(self) -> str:
        """For whoever is asked."""
        return "processes of this machine with your rights and its network, which is no isolation"


@dataclass(frozen=True)
class BubblewrapSandboxes:
    """Isolated from this machine, and without a network."""

    name: str = "bubblewrap"
    isolated: bool = True
    shared: bool = True

    def check(self) -> None:
        """Raises `SandboxError`, with what to do, where bubblewrap does not work here."""
        from ksadk.sandbox.probe import probe

        probe().bubblewrap()

    def start(self, directory: Path, *, session_id: str, seconds: float) -> Sandbox:  # noqa: ARG002
        """A sandbox whose workspace is the run's directory."""
        from ksadk.sandbox import BubblewrapSandboxBackend

        return BubblewrapSandboxBackend(directory).create_session(session_id=session_id)

    def inside(self, directory: Path) -> str:  # noqa: ARG002  # all are at the same place
        """The workspace."""
        from ksadk.sandbox.base import WORKSPACE_DIRECTORY

        return WORKSPACE_DIRECTORY

    def words(self) -> str:
        """For whoever is asked."""
        return "an isolated sandbox of this machine, without network, in a directory of its own"


class E2BSandboxes:
    """Isolated, and somewhere else."""

    name = "e2b"
    isolated = True
    shared = False

    def __init__(self, settings: Settings, sandbox_cls: Any = None) -> None:
        self._settings = settings
        self._sandbox_cls = sandbox_cls

    def check(self) -> None:
        """Raises `SandboxError` where there is no template, no key or no SDK."""
        from ksadk.sandbox.e2b_service import Service

        self._backend(0)
        Service.of(self._sandbox_cls, self._settings)

    def start(self, directory: Path, *, session_id: str, seconds: float) -> Sandbox:  # noqa: ARG002
        """A new sandbox of the template for skills, else of that for commands."""
        return self._backend(seconds).create_session(session_id=session_id)

    def _backend(self, seconds: float) -> E2BSandboxBackend:
        from ksadk.sandbox import E2BSandboxBackend, sandbox_spec_from_env

        spec = sandbox_spec_from_env(self._settings)
        lifetime = max(spec.timeout, int(seconds) + _LATE_SECONDS)
        spec = replace(spec, template_id=runtime_template(self._settings), timeout=lifetime)
        return E2BSandboxBackend(spec, self._sandbox_cls, settings=self._settings)

    def inside(self, directory: Path) -> str:  # noqa: ARG002
        """The workspace."""
        from ksadk.sandbox.base import WORKSPACE_DIRECTORY

        return WORKSPACE_DIRECTORY

    def words(self) -> str:
        """For whoever is asked."""
        network = "with" if self._settings.sandbox_allow_internet_access else "without"
        return f"a new sandbox of E2B, {network} network, from template {runtime_template(self._settings)}"
