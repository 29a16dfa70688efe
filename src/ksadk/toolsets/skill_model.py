"""What a model may do while it follows a skill: the gateway's own tools, in the run's directory.

Each call is judged, asked about and written down like any other. A skill's `allowed-tools` takes tools away,
and commands; it gives none.
"""

from __future__ import annotations

import fnmatch
import math
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ksadk.errors import CODES, KsadkError
from ksadk.runtime_context import workspace_root_scope
from ksadk.skills.runtime.model_loop import Instructions, Model, ModelTool, follow_instructions
from ksadk.skills.runtime.run_directories import RunDirectory
from ksadk.skills.runtime.workflow import Followed, Workflow
from ksadk.tools.registry import Tool, find
from ksadk.toolsets.model_calls import call_for_model
from ksadk.toolsets.sandbox_scope import SandboxChoices, sandbox_scope

if TYPE_CHECKING:
    from ksadk.skills.allowed_tools import AllowedTools, Grant
    from ksadk.skills.loader import LocalSkill

_FILES = (
    "list_workspace_files", "read_workspace_file", "search_workspace_files", "write_workspace_file",
    "edit_workspace_file",
)  # fmt: skip
OFFERED: Mapping[str, tuple[str, ...]] = {
    "bubblewrap": (*_FILES, "run_command", "run_code"),
    "local_process": (*_FILES, "run_command"),  # which runs no code that is not a command
    "e2b": ("run_command", "run_code"),  # the files are there, and not here
}
"""The tools that a model has in each runtime, if no skill takes any away."""

_MEANT: Mapping[str, tuple[str, ...]] = {
    "read": ("read_workspace_file", "list_workspace_files"),
    "glob": ("list_workspace_files",), "ls": ("list_workspace_files",),
    "grep": ("search_workspace_files",),
    "write": ("write_workspace_file",),
    "edit": ("edit_workspace_file",), "multiedit": ("edit_workspace_file",),
    "bash": ("run_command", "run_code"), "shell": ("run_command", "run_code"),
}  # fmt: skip
"""Our tools by the names that skills use for theirs."""

_COMMANDS = ("run_command", "run_code")


class Following:
    """Lets a model follow skills in a run's directory, with commands in the sandbox of a runtime."""

    def __init__(self, model: Model, runtime: str) -> None:
        self._model = model
        self._runtime = runtime

    def __call__(
        self, work: Workflow, skills: Sequence[tuple[LocalSkill, Path]], run: RunDirectory, deadline: float
    ) -> Followed:
        """See `Follow`."""
        allowed = [skill.allowed_tools for skill, _ in skills if skill.allowed_tools is not None]
        names = [name for name in OFFERED[self._runtime] if all(_offers(each, name) for each in allowed)]
        work.on_step(f"the model {self._model.name} follows {', '.join(skill.name for skill, _ in skills)}")
        calls = _Calls(work, allowed, deadline)
        tools = [calls.tool(find(name)) for name in names]
        texts = [
            Instructions(skill.name, skill.body, place.relative_to(run.path).as_posix())
            for skill, place in skills
        ]
        with _working_in(run, self._runtime):
            followed = follow_instructions(self._model, work.prompt, texts, tools, deadline=deadline)
        if work.on_output is not None and followed.text:
            work.on_output("stdout", followed.text.encode("utf-8", "replace"))
        return replace(followed, warnings=calls.warnings())


@contextmanager
def _working_in(run: RunDirectory, runtime: str) -> Iterator[None]:
    """Let the tools work in a run's directory; what remote commands made in `output` is there afterwards."""
    from ksadk.sandbox.registry import SandboxRegistry, bind_sandbox_registry

    registry = SandboxRegistry()
    with ExitStack() as stack:
        stack.callback(registry.close)
        stack.enter_context(bind_sandbox_registry(registry))
        stack.enter_context(workspace_root_scope(run.path.resolve()))
        stack.enter_context(sandbox_scope(SandboxChoices(backend=runtime)))
        if runtime != "e2b":
            yield
            return
        held = run.output / ".ksadk"  # only files are sent: without one there would be no directory
        held.touch()
        try:
            yield
        finally:
            held.unlink()
        _take_output(run)


def _take_output(run: RunDirectory) -> None:
    from ksadk.toolsets.sandbox_runs import changed_in_sandbox

    try:
        _, _, changes = changed_in_sandbox()
    except KsadkError as error:
        if error.code != "no_sandbox_changes":  # the model ran no command
            raise
        return
    for change in changes.files:
        parts = PurePosixPath(change.path).parts
        if parts[0] == run.output.name and ".." not in parts and change.after is not None:
            place = run.path / change.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(change.after)


@dataclass
class _Calls:
    """The calls that a model makes: what they are held to, and how many were not let through."""

    work: Workflow
    allowed: Sequence[AllowedTools]
    deadline: float
    made: int = 0
    refused: list[str] = field(default_factory=list)

    def tool(self, tool: Tool) -> ModelTool:
        """A tool as the model is given it."""

        def call(arguments: dict[str, Any]) -> Any:
            self.made += 1
            self.work.on_step(f"{tool.name}: {_shown(arguments)}")
            return self._told(tool, self._called(tool, dict(arguments)))

        return ModelTool(tool.name, tool.description, tool.parameters.json_schema, call)

    def warnings(self) -> tuple[str, ...]:
        """That calls were refused, whatever the model says of its success."""
        if not self.refused:
            return ()
        names = ", ".join(dict.fromkeys(self.refused))
        return (f"{len(self.refused)} of {self.made} tool calls of the model were refused: {names}",)

    def _called(self, tool: Tool, given: dict[str, Any]) -> Any:
        if tool.name in _COMMANDS:
            if not all(_lets(each, tool.name, given) for each in self.allowed):
                return _refused(self.allowed).to_result()
            left = max(1, math.ceil(self.deadline - time.monotonic()))
            asked = given.get("timeout")
            given["timeout"] = min(asked, left) if isinstance(asked, int) and asked > 0 else left
        return call_for_model(tool, given)

    def _told(self, tool: Tool, result: Any) -> Any:
        """A result, once whoever looks on has been told that the call was not made, or failed."""
        if isinstance(result, dict) and not result.get("ok", True):
            code = result.get("error_type") or result.get("type", "")
            if code in CODES and CODES[code].kind in ("approval", "denied"):
                self.refused.append(tool.name)
            why = result.get("error_message") or str(result.get("type", "")).replace("_", " ")
            if why:
                self.work.on_step(f"{tool.name} failed: {why}")
        return result


def _shown(arguments: Mapping[str, Any]) -> str:
    text = next((value for value in arguments.values() if isinstance(value, str)), "")
    return text if len(text) <= 200 else text[:197] + "..."


def _refused(allowed: Sequence[AllowedTools]) -> KsadkError:
    return KsadkError(
        "the skill's allowed-tools does not let this command run",
        code="not_allowed_by_skill",
        hint=f"It allows: {'; '.join(map(str, allowed))}. Nothing widens that.",
    )


def _offers(allowed: AllowedTools, name: str) -> bool:
    """Whether a restriction leaves a tool at all. A pattern is understood for commands only."""
    grants = list(_grants(allowed, name))
    if name == "run_command":
        return bool(grants)
    return any(grant.pattern is None for grant in grants)


def _lets(allowed: AllowedTools, name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a restriction lets a command or a piece of code run."""
    grants = list(_grants(allowed, name))
    if any(grant.pattern is None for grant in grants):
        return True
    patterns = [grant.pattern for grant in grants if grant.pattern]
    line = arguments.get("command")
    if name != "run_command" or not isinstance(line, str) or arguments.get("env"):
        return False  # variables decide what a command does: those in its line are judged with it
    return _all_match(line, patterns)


def _grants(allowed: AllowedTools, name: str) -> Iterator[Grant]:
    for grant in allowed.grants:
        if grant.tool == "*" or grant.tool == name or name in _MEANT.get(grant.tool.casefold(), ()):
            yield grant


def _all_match(line: str, patterns: Sequence[str]) -> bool:
    """Whether every command of a line is one of the patterns; not, where that cannot be told for certain.

    What changes nothing outside of the shell (`cd`, `echo`) is free, and so is what only starts another
    command, which is judged in its place. A redirection to a file is neither.
    """
    from ksadk.tools.command_policy import judge_command

    judged = judge_command(line)
    if not judged.proven or not judged.parts:
        return False
    for part in judged.parts:
        if part.around.reason != "harmless":
            return False
        if part.finding.reason in ("harmless", "wrapper"):
            continue
        if not part.fixed or not any(_matches(part.argv, pattern) for pattern in patterns):
            return False
    return True


def _matches(argv: tuple[str, ...], pattern: str) -> bool:
    """`git:*` is every command that begins with these words; other patterns have * for any text."""
    if pattern.endswith(":*"):
        words = tuple(pattern.removesuffix(":*").split())
        return argv[: len(words)] == words
    if fnmatch.fnmatchcase(shlex.join(argv), pattern):
        return True
    return " " not in argv[0] and fnmatch.fnmatchcase(" ".join(argv), pattern)
