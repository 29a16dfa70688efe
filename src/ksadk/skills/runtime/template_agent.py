"""A workflow that an E2B template's own agent carries out, with the skills that were verified here."""

from __future__ import annotations

import json
import posixpath
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ksadk.errors import KsadkError
from ksadk.masking import masker
from ksadk.runtime_context import get_current_account_id
from ksadk.skills.runtime import transfer
from ksadk.skills.runtime.artifacts import announced, collect
from ksadk.skills.runtime.base import TIMEOUT_ERROR, Sandbox, SkillOutcome, SkillRuntimeResult, Status
from ksadk.skills.runtime.environment import skill_environment
from ksadk.skills.runtime.run_directories import RunDirectory, run_directory
from ksadk.skills.runtime.workflow import Workflow, WorkflowRuntime, check_prompt, ended

if TYPE_CHECKING:
    from ksadk.skills.loader import LocalSkill

AGENT = "/home/ksadk/agent.py"
PYTHON = "python"
REQUEST_FILE = "/tmp/ksadk-workflow-request.json"  # in the sandbox, which is one workflow's own

_RESULT = "workflow_result="


class TemplateAgentRuntime(WorkflowRuntime):
    """Runs workflows by the agent in the template of `KSADK_SKILL_RUNTIME_TEMPLATE_ID`.

    It is given the files of the skills, pinned, and no key of a Skill Service: there is nothing to fetch.
    """

    @property
    def follows(self) -> bool:
        """The agent follows instructions itself."""
        return True

    def run(self, work: Workflow) -> SkillRuntimeResult:
        """See `WorkflowRuntime.run`."""
        check_prompt(work.prompt)
        env = skill_environment(self._settings, work.env)
        warnings = list(work.warnings)
        account = get_current_account_id()
        began = time.monotonic()
        with run_directory(self._settings, account=account, session=work.session_id) as run:
            run.add_inputs(work.inputs)
            skills = run.path / "skills"
            skills.mkdir()
            for skill in work.skills:
                place = run.add_skill(skill.name, skill.root_dir)
                # A Skill Service may give a name that is no directory's, or that leads elsewhere.
                place.rename(skills / (skill.name if place.name == skill.name else place.parent.name))
            work.on_step(f"starting {self.sandboxes.name}")
            sandbox = self.sandboxes.start(run.path, session_id=work.session_id, seconds=work.timeout)
            try:
                result = self._in_sandbox(work, run, sandbox, env)
            except KsadkError as error:
                result = SkillRuntimeResult(
                    error_type=error.code, hint=error.hint, status="failed",
                    error_message=masker(self._settings.given())(error.message),
                )  # fmt: skip
            finally:
                warnings += ended(sandbox)
            return replace(
                result,
                runtime_id=sandbox.sandbox_id,
                duration_ms=round((time.monotonic() - began) * 1000),
                warnings=tuple(warnings),
            )

    def _in_sandbox(
        self, work: Workflow, run: RunDirectory, sandbox: Sandbox, env: dict[str, str]
    ) -> SkillRuntimeResult:
        base = self.sandboxes.inside(run.path)
        transfer.send(sandbox, run.path, base)
        names = [skill.name for skill in work.skills]
        request = {"workflow_prompt": work.prompt, "skill_names": names}
        sandbox.write_file(REQUEST_FILE, json.dumps(request, ensure_ascii=False))
        work.on_step(f"the template's agent works with {', '.join(names) or 'no skill'}")
        output = posixpath.join(base, run.output.name)
        done = sandbox.run_command(
            self._line(names, base), timeout=work.timeout, cwd=posixpath.join(base, run.work.name),
            env={**env, "KSADK_SKILL_WORKDIR": posixpath.join(base, run.work.name),
                 "KSADK_SKILL_OUTPUT_DIR": output},
            on_output=work.on_output,
        )  # fmt: skip
        left_out = transfer.fetch(sandbox, output, run.output)
        said = reported(done.stdout)
        told = [*_files_of(said), *announced(done.stdout)]
        found = collect(run.output, told, (output, posixpath.join(base, run.work.name)))
        failed = done.exit_code != 0 or done.timed_out
        outcomes = [_outcome(skill, failed, done.exit_code) for skill in work.skills]
        result = SkillRuntimeResult(
            exit_code=done.exit_code, stdout=done.stdout, stderr=done.stderr, timed_out=done.timed_out,
            output_files=tuple(str(run.output / path) for path in found.files),
            output_dir=str(run.output) if found.files else "", skills=tuple(outcomes),
            left_out=(*left_out.left_out, *found.left_out), status=_status(said, failed),
        )  # fmt: skip
        if done.timed_out:
            message = "the template's agent was ended when the workflow's time was over"
            return replace(result, error_type=TIMEOUT_ERROR, error_message=message)
        if said is None and not failed:
            return replace(
                result,
                error_type="invalid_skill_runtime_result",
                error_message=f"the template's agent printed no line {_RESULT}<json>",
                status="failed",
            )
        return result

    def _line(self, names: Sequence[str], base: str) -> str:
        """The command: its variables say which skills there are, and hold no secret."""
        spaces = self._settings.skill_space_ids
        variables = {
            "KSADK_LOCAL_SKILLS_DIR": posixpath.join(base, "skills"),
            "KSADK_SKILL_SPACE_IDS": ",".join(spaces),
            "SKILL_SPACE_ID": spaces[0] if spaces else "",
            "KSADK_PUBLIC_SKILL_SPACE_IDS": ",".join(self._settings.public_skill_space_ids),
            "KSADK_SELECTED_SKILL_NAMES": ",".join(names),
        }
        given = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items() if value)
        return f"env {given} {PYTHON} -u {AGENT} --request-file {REQUEST_FILE}"


def reported(stdout: str) -> dict[str, Any] | None:
    """What the last line `workflow_result=<json>` says; None where there is none."""
    for line in reversed(stdout.splitlines()):
        if line.startswith(_RESULT):
            try:
                said = json.loads(line.removeprefix(_RESULT))
            except (ValueError, RecursionError):
                return None
            return said if isinstance(said, dict) else None
    return None


def _files_of(said: dict[str, Any] | None) -> Iterator[str]:
    files = (said or {}).get("output_files")
    for file in files if isinstance(files, list) else ():
        name = file.get("path") if isinstance(file, dict) else file
        if isinstance(name, str):
            yield name


def _status(said: dict[str, Any] | None, failed: bool) -> Status:
    if failed:
        return "failed"
    word = (said or {}).get("status")
    known: dict[str, Status] = {"failed": "failed", "skipped": "skipped", "no_skills": "no_skills"}
    return known.get(word, "ok") if isinstance(word, str) else "ok"


def _outcome(skill: LocalSkill, failed: bool, exit_code: int) -> SkillOutcome:
    status: Status = "failed" if failed else "ok"
    return SkillOutcome(skill.name, skill.version, skill.digest, status, exit_code)
