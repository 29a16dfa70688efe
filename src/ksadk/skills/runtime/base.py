"""What runs skills: its protocol, what a run came to, and what it needs of a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from ksadk.skills.errors import SkillRuntimeError

Status = Literal["ok", "failed", "skipped", "no_skills"]
OnOutput = Callable[[Literal["stdout", "stderr"], bytes], None]
"""Is given what a command prints, as it is printed."""

DEFAULT_TIMEOUT_SECONDS = 900

TIMEOUT_ERROR = "TimeoutExpired"
NO_ENTRY_POINT_ERROR = "skill_has_no_entry_point"


@dataclass(frozen=True)
class SkillOutcome:
    """What became of one skill in a run; `reason` says why it failed or was skipped."""

    name: str
    version: str
    digest: str
    status: Status
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class SkillRuntimeResult:
    """What a workflow came to.

    runtime_id: the sandbox that it ran in.
    exit_code: of the first skill that failed, else of the last; None where nothing was run.
    stdout, stderr: text; where there was too much, the beginning and the end of it.
    error_type: `TimeoutExpired` where the time was over; None where the run itself did not fail.
    output_files: the artifacts, as absolute paths on this machine.
    status: ok, failed, skipped (nothing could be run) or no_skills; `skills` says it of each.
    output_dir: the directory that the artifacts are in; empty where there are none.
    left_out: files that are no artifacts, and why: `{path, reason}`.
    warnings: what went otherwise than expected, but did not fail the run.
    """

    runtime_id: str = ""
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    duration_ms: int = 0
    timed_out: bool = False
    error_type: str | None = None
    error_message: str | None = None
    output_files: Sequence[str] = ()
    status: Status = "ok"
    skills: Sequence[SkillOutcome] = ()
    output_dir: str = ""
    left_out: Sequence[Mapping[str, str]] = ()
    warnings: Sequence[str] = ()
    hint: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it ended with 0, without an error, and in time."""
        return self.exit_code == 0 and self.error_type is None and not self.timed_out

    def to_dict(self) -> dict[str, Any]:
        """As a tool's result. What is only there where something is to be said of it is left out if empty."""
        fields = asdict(self)
        for name in ("left_out", "warnings", "output_files", "skills"):
            fields[name] = list(fields[name])
        kept = {
            name: value
            for name, value in fields.items()
            if value or name not in ("left_out", "hint", "output_dir")
        }
        return {"ok": self.ok, **kept}


class SkillRuntimeBackend(Protocol):
    """Runs workflows with skills."""

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
        """Run a workflow to its end.

        workflow_prompt: what the skills are to do, in the user's own words.
        skill_space_ids: the spaces that skills may come from, beside this machine's own.
        session_id: runs of different sessions share no directory.
        skill_names: exact names; those that are chosen for the prompt if left out.
        env: further variables for the skills' scripts.
        input_files: files that are put into `input/` where scripts run.
        timeout: seconds for all of it; then everything that it started is ended.

        A skill that fails is a result. Raises `SkillRuntimeError` where there is no running it.
        """


class CommandResult(Protocol):
    """How a command ended, and what it printed."""

    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...
    @property
    def exit_code(self) -> int: ...
    @property
    def timed_out(self) -> bool: ...


class Sandbox(Protocol):
    """What a workflow's commands run in."""

    @property
    def sandbox_id(self) -> str: ...

    def run_command(
        self,
        command: str,
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        on_output: OnOutput | None = None,
    ) -> CommandResult:
        """Run a line of bash to its end."""

    def write_file(self, path: str, data: bytes | str) -> None:
        """Write a file."""

    def read_file(self, path: str) -> bytes:
        """The bytes of a file."""

    def kill(self) -> None:
        """End it, and what runs in it."""


class Sandboxes(Protocol):
    """Starts the sandboxes that workflows run in.

    name: of the backend. `isolated`: whether what runs is kept from this machine.
    shared: whether a sandbox has the run's own directory; if not, files are sent there and back.
    """

    @property
    def name(self) -> str: ...
    @property
    def isolated(self) -> bool: ...
    @property
    def shared(self) -> bool: ...

    def check(self) -> None:
        """Raise what keeps any from being started, as far as that is known here."""

    def start(self, directory: Path, *, session_id: str, seconds: float) -> Sandbox:
        """A sandbox for a run's directory, to live for `seconds` at least."""

    def inside(self, directory: Path) -> str:
        """The path that commands see a run's directory at."""

    def words(self) -> str:
        """Where things run, and whether there is a network, for whoever is asked."""


class DisabledRuntime:
    """What there is where no runtime is set."""

    def run_workflow(
        self,
        workflow_prompt: str,  # noqa: ARG002  # the protocol's
        *,
        skill_space_ids: Sequence[str],  # noqa: ARG002
        session_id: str,  # noqa: ARG002
        skill_names: Sequence[str] | str | None = None,  # noqa: ARG002
        env: Mapping[str, str] | None = None,  # noqa: ARG002
        input_files: Sequence[str | Path] | None = None,  # noqa: ARG002
        timeout: float = DEFAULT_TIMEOUT_SECONDS,  # noqa: ARG002
    ) -> SkillRuntimeResult:
        """Raises `skill_runtime_disabled`."""
        raise disabled()


def disabled() -> SkillRuntimeError:
    """What is said where no runtime is set."""
    return SkillRuntimeError(
        "no skill runtime is set, so nothing was run",
        hint="Set KSADK_SKILL_RUNTIME_BACKEND=bubblewrap (isolated, on this machine), e2b or local_process.",
        execution_context="skill-runtime/disabled",
    )


def normalize_skill_names(names: Iterable[str] | str | None) -> list[str]:
    """Names one by one: text is split at commas; each counts once, whatever its case."""
    given = [names] if isinstance(names, str) else list(names or ())
    found: dict[str, str] = {}
    for text in given:
        for name in map(str.strip, text.split(",")):
            if name:
                found.setdefault(name.casefold(), name)
    return list(found.values())
