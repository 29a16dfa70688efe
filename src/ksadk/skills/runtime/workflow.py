"""A workflow: the skills that have an entry point are run in a sandbox, the others followed by a model."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ksadk.errors import KsadkError
from ksadk.masking import masker
from ksadk.runtime_context import get_current_account_id
from ksadk.settings import Settings
from ksadk.skills.errors import SkillRuntimeError
from ksadk.skills.models import LOCAL_SPACE
from ksadk.skills.runtime import transfer
from ksadk.skills.runtime.artifacts import Artifacts, announced, collect
from ksadk.skills.runtime.base import (
    DEFAULT_TIMEOUT_SECONDS,
    NO_ENTRY_POINT_ERROR,
    TIMEOUT_ERROR,
    OnOutput,
    Sandbox,
    Sandboxes,
    SkillOutcome,
    SkillRuntimeResult,
    Status,
    normalize_skill_names,
)
from ksadk.skills.runtime.environment import skill_environment
from ksadk.skills.runtime.run_directories import RunDirectory, run_directory

if TYPE_CHECKING:
    from ksadk.skills.loader import LocalSkill

MAX_PROMPT_BYTES = 100_000
"""A variable, which the prompt is given in, holds no more than 128 KiB."""


_NO_SCRIPT = "it has no scripts/run-workflow.sh, and no model is configured"


class Loaded(Protocol):
    """Skills that were found, their files verified, and what was noticed."""

    @property
    def skills(self) -> Sequence[LocalSkill]: ...
    @property
    def warnings(self) -> Sequence[str]: ...


Load = Callable[[str, Sequence[str] | None], Loaded]
"""Finds the skills for a prompt, or those of the names."""


@dataclass(frozen=True)
class Workflow:
    """What is to be done, and with what.

    env: further variables. inputs: files for `input/`. timeout: seconds for all of it.
    on_output: is given what is printed. on_step: is told what happens now, in a few words.
    """

    prompt: str
    skills: Sequence[LocalSkill]
    session_id: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    inputs: Sequence[str | Path] = ()
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    warnings: Sequence[str] = ()
    on_output: OnOutput | None = None
    on_step: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class Followed:
    """What a model made of skills' instructions. `error_type` None where it came to an end of its own.
    `warnings` tell what it was not let do."""

    text: str
    error_type: str | None = None
    error_message: str | None = None
    hint: str | None = None
    warnings: Sequence[str] = ()


class Follow(Protocol):
    """Lets a model follow the instructions of skills."""

    def __call__(
        self, work: Workflow, skills: Sequence[tuple[LocalSkill, Path]], run: RunDirectory, deadline: float
    ) -> Followed:
        """`skills` are with the directories of their files in the run's; `deadline` as `time.monotonic`
        counts. An error is returned, not raised."""


class WorkflowRuntime:
    """Runs workflows in the sandboxes of one backend.

    load: finds skills by name or for a prompt.
    follow: what lets a model follow a skill without an entry point; None where no model is set.
    """

    def __init__(
        self, sandboxes: Sandboxes, load: Load, follow: Follow | None = None, *, settings: Settings
    ) -> None:
        self.sandboxes = sandboxes
        self._load = load
        self._follow = follow
        self._settings = settings

    @property
    def follows(self) -> bool:
        """Whether skills without an entry point are followed by a model."""
        return self._follow is not None

    def run_workflow(
        self,
        workflow_prompt: str,
        *,
        skill_space_ids: Sequence[str],
        session_id: str,
        skill_names: Sequence[str] | str | None = None,
        env: Mapping[str, str] | None = None,
        input_files: Sequence[str | Path] | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> SkillRuntimeResult:
        """As `SkillRuntimeBackend` says. Of other spaces than `skill_space_ids` no skill is taken, but for
        this machine's own."""
        found = self._load(workflow_prompt, normalize_skill_names(skill_names) or None)
        spaces = {LOCAL_SPACE, *skill_space_ids}
        return self.run(Workflow(
            workflow_prompt, [skill for skill in found.skills if skill.space_id in spaces], session_id,
            env or {}, input_files or (), timeout, found.warnings,
        ))  # fmt: skip

    def run(self, work: Workflow) -> SkillRuntimeResult:
        """Run a workflow with the skills that were loaded for it. Raises `SkillRuntimeError` where nothing
        can be run, `environment_refused` and the sandbox's own errors among them."""
        check_prompt(work.prompt)
        missing = nothing_to_run(work.skills, follows=self.follows)
        if missing is not None:
            return SkillRuntimeResult(
                status=missing.details["status"], error_type=missing.code, error_message=missing.message,
                hint=missing.hint, warnings=tuple(work.warnings),
                skills=[_outcome(skill, "skipped", _NO_SCRIPT) for skill in work.skills],
            )  # fmt: skip
        account = get_current_account_id()
        with run_directory(self._settings, account=account, session=work.session_id) as run:
            run.add_inputs(work.inputs)
            running = _Running(work, run, self.sandboxes, self._settings)
            running.scripts()
            running.instructions(self._follow)
            return running.result()


def nothing_to_run(skills: Sequence[LocalSkill], *, follows: bool) -> SkillRuntimeError | None:
    """Why nothing of these skills can be run; None where something can."""
    if not skills:
        return SkillRuntimeError(
            "no skill fits the prompt, so nothing was run",
            code="no_skills", status="no_skills",
            hint="Name the skills to use; `agentengine skills list`, or the tool list_skills, gives them.",
        )  # fmt: skip
    if follows or any(skill.entry_point for skill in skills):
        return None
    names = ", ".join(skill.name for skill in skills)
    return SkillRuntimeError(
        f"there is nothing to run: {names} has no scripts/run-workflow.sh, and no model is configured",
        code=NO_ENTRY_POINT_ERROR,
        hint="Follow the instructions that `agentengine skills load`, or the tool load_skill, gives, or set"
        " OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL_NAME so that a model follows them here.",
        status="skipped",
    )


def check_prompt(prompt: str) -> None:
    """Raise where a prompt is none, or is too long to be given to a script."""
    if not prompt.strip():
        raise SkillRuntimeError(
            "the workflow has no prompt",
            code="workflow_prompt_required",
            hint="Say what the skills should do.",
        )
    if len(prompt.encode("utf-8", "replace")) > MAX_PROMPT_BYTES or "\0" in prompt:
        raise SkillRuntimeError(
            f"a workflow's prompt has at most {MAX_PROMPT_BYTES:,} bytes, and no NUL",
            code="invalid_arguments",
            hint="Give the text as an input file.",
        )


def ended(sandbox: Sandbox) -> list[str]:
    """End a sandbox; returns what is to be said where that cannot be done."""
    try:
        sandbox.kill()
    except KsadkError as error:
        return [f"the sandbox {sandbox.sandbox_id} may still run: {error.message}"]
    return []


class _Running:
    """One run, and what has come of it so far."""

    def __init__(self, work: Workflow, run: RunDirectory, sandboxes: Sandboxes, settings: Settings) -> None:
        self._work = work
        self._run = run
        self._sandboxes = sandboxes
        self._settings = settings
        self._began = time.monotonic()
        self._deadline = self._began + work.timeout
        self._outcomes: dict[str, SkillOutcome] = {}
        self._stdout: list[str] = []
        self._stderr: list[str] = []
        self._error_type: str | None = None
        self._error_message: str | None = None
        self._hint: str | None = None
        self._runtime_id = ""
        self._left_out = Artifacts()
        self._warnings = list(work.warnings)

    def scripts(self) -> None:
        """Run the skills that have an entry point, one after the other, up to the first that fails."""
        scripted = [skill for skill in self._work.skills if skill.entry_point]
        if not scripted:
            return
        env = skill_environment(self._settings, self._work.env)
        with self._sandbox() as sandbox:
            for skill in scripted:
                self._work.on_step(f"running {skill.name}")
                try:
                    self._script(sandbox, skill, env)
                except KsadkError as error:
                    self._fail(skill, error.code, error.message, error.hint)
                if self._error_type or self._outcomes[skill.name].status != "ok":
                    break
            if not self._sandboxes.shared:
                self._fetch(sandbox)

    @contextmanager
    def _sandbox(self) -> Iterator[Sandbox]:
        self._work.on_step(f"starting {self._sandboxes.name}")
        sandbox = self._sandboxes.start(
            self._run.path, session_id=self._work.session_id, seconds=self._work.timeout
        )
        self._runtime_id = sandbox.sandbox_id
        try:
            if not self._sandboxes.shared:
                transfer.send(sandbox, self._run.path, self._inside(self._run.path))
            yield sandbox
        finally:
            self._warnings += ended(sandbox)

    def _script(self, sandbox: Sandbox, skill: LocalSkill, env: Mapping[str, str]) -> None:
        place = self._run.add_skill(skill.name, skill.root_dir)
        inside = self._inside(place)
        if not self._sandboxes.shared:
            transfer.send(sandbox, place, inside)
        documented = {
            "KSADK_WORKFLOW_PROMPT": self._work.prompt,
            "KSADK_SKILL_WORKDIR": self._inside(self._run.work),
            "KSADK_SKILL_OUTPUT_DIR": self._inside(self._run.output),
            "KSADK_SKILL_ROOT_DIR": inside,
        }
        done = sandbox.run_command(
            f'exec bash "$KSADK_SKILL_ROOT_DIR/{skill.entry_point}"',
            timeout=max(self._deadline - time.monotonic(), 0.01), env={**env, **documented},
            cwd=documented["KSADK_SKILL_WORKDIR"], on_output=self._work.on_output,
        )  # fmt: skip
        self._stdout.append(done.stdout)
        self._stderr.append(done.stderr)
        if done.timed_out:
            self._fail(skill, TIMEOUT_ERROR, f"{skill.name} was ended when its time was over", None)
        status: Status = "ok" if done.exit_code == 0 and not done.timed_out else "failed"
        reason = "" if status == "ok" else self._error_message or f"it ended with {done.exit_code}"
        self._outcomes[skill.name] = _outcome(skill, status, reason, done.exit_code)

    def _fetch(self, sandbox: Sandbox) -> None:
        try:
            self._left_out = transfer.fetch(sandbox, self._inside(self._run.output), self._run.output)
        except KsadkError as error:
            self._left_out.leave_out("output", f"cannot be fetched: {self._shown(error.message)}")

    def instructions(self, follow: Follow | None) -> None:
        """Let the model follow the skills that have no entry point, if those that have one succeeded."""
        rest = [skill for skill in self._work.skills if not skill.entry_point]
        if not rest or any(outcome.status != "ok" for outcome in self._outcomes.values()):
            return
        if follow is None:
            self._outcomes |= {skill.name: _outcome(skill, "skipped", _NO_SCRIPT) for skill in rest}
            return
        placed = [(skill, self._run.add_skill(skill.name, skill.root_dir)) for skill in rest]
        try:
            followed = follow(self._work, placed, self._run, self._deadline)
        except KsadkError as error:
            followed = Followed("", error.code, error.message, error.hint)
        self._stdout.append(followed.text)
        self._warnings += followed.warnings
        for skill in rest:
            if followed.error_type:
                self._fail(skill, followed.error_type, followed.error_message or "", followed.hint)
            else:
                self._outcomes[skill.name] = _outcome(skill, "ok", "", 0)

    def result(self) -> SkillRuntimeResult:
        """What the run came to."""
        stdout = "".join(self._stdout)
        places = self._inside(self._run.output), self._inside(self._run.work)
        self._run.reopen()
        found = collect(self._run.output, announced(stdout), places)
        for skill in self._work.skills:
            if skill.name not in self._outcomes:
                self._outcomes[skill.name] = _outcome(skill, "skipped", "one before it failed")
        outcomes = [self._outcomes[skill.name] for skill in self._work.skills]
        return SkillRuntimeResult(
            runtime_id=self._runtime_id,
            exit_code=_exit_code(outcomes),
            stdout=stdout,
            stderr="".join(self._stderr),
            duration_ms=round((time.monotonic() - self._began) * 1000),
            timed_out=self._error_type == TIMEOUT_ERROR,
            error_type=self._error_type,
            error_message=self._error_message,
            hint=self._hint,
            output_files=tuple(str(self._run.output / path) for path in found.files),
            status=_status(outcomes),
            skills=tuple(outcomes),
            output_dir=str(self._run.output) if found.files else "",
            left_out=(*self._left_out.left_out, *found.left_out),
            warnings=tuple(self._warnings),
        )

    def _fail(self, skill: LocalSkill, code: str, message: str, hint: str | None) -> None:
        self._error_type, self._hint = code, hint
        self._error_message = self._shown(message)
        self._outcomes[skill.name] = _outcome(skill, "failed", self._error_message)

    def _shown(self, message: str) -> str:
        return masker(self._settings.given())(message)

    def _inside(self, path: Path) -> str:
        """The path that commands see a file of the run at."""
        relative = path.relative_to(self._run.path).as_posix()
        return posixpath.normpath(posixpath.join(self._sandboxes.inside(self._run.path), relative))


def _outcome(skill: LocalSkill, status: Status, reason: str, exit_code: int | None = None) -> SkillOutcome:
    return SkillOutcome(skill.name, skill.version, skill.digest, status, exit_code, reason)


def _exit_code(outcomes: Sequence[SkillOutcome]) -> int | None:
    ended = [outcome for outcome in outcomes if outcome.exit_code is not None]
    failed = [outcome for outcome in ended if outcome.exit_code != 0]
    return failed[0].exit_code if failed else ended[-1].exit_code if ended else None


def _status(outcomes: Sequence[SkillOutcome]) -> Status:
    found = {outcome.status for outcome in outcomes}
    return "failed" if "failed" in found else "ok" if "ok" in found else "skipped"
