"""Tools that run commands and code, in a sandbox and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ksadk.settings import Settings
from ksadk.tools.registry import Plan, builtin

if TYPE_CHECKING:
    from ksadk.sandbox.verdicts import Verdict

LANGUAGES: dict[str, str] = {
    "python": "python", "py": "python", "python3": "python",
    "javascript": "javascript", "js": "javascript", "node": "javascript", "nodejs": "javascript",
    "bash": "bash", "sh": "bash", "shell": "bash",
}  # fmt: skip
"""What each accepted name of a language stands for."""


def backend(settings: Settings | None = None) -> str:
    """The backend that is named, else the one that this machine and its settings allow. Starts nothing."""
    from ksadk.sandbox.choice import chosen_backend
    from ksadk.toolsets.sandbox_scope import sandbox_choices

    return sandbox_choices().backend or chosen_backend(settings)


def enabled(settings: Settings | None = None) -> bool:
    """Whether the backend can be started, as far as that is known without starting it."""
    settings = settings or Settings.from_env()
    name = backend(settings)
    if name == "bubblewrap":
        verdict = _verdict() if settings.sandbox_backend else None  # one that does not work is not chosen
        return verdict is None or verdict.works
    return name in ("local_process", "e2b") or (name == "pod_process" and settings.allow_pod_process_tools)


def isolated(settings: Settings | None = None) -> bool:
    """Whether what is run is kept from this machine."""
    from ksadk.sandbox.choice import ISOLATED

    return backend(settings) in ISOLATED and enabled(settings)


def get_sandbox_tools() -> list[Any]:
    """sandbox_status, run_command and run_code, as agent frameworks take them."""
    from ksadk.toolsets.frameworks import as_tools

    return as_tools([sandbox_status, run_command, run_code])


def line_of(arguments: Mapping[str, Any]) -> str | None:
    """The line of shell that a call of run_command, or of run_code, runs; None where it runs none."""
    line = arguments.get("command")
    if line is None and LANGUAGES.get(str(arguments.get("language", "")).strip().lower()) == "bash":
        line = arguments.get("code")
    return line if isinstance(line, str) and line.strip() else None


@builtin(group="sandbox", boundary="isolated_sandbox", enabled=enabled, backend=backend)
def sandbox_status() -> dict[str, Any]:
    """Report the sandbox that commands and code run in, and its boundary. Nothing is run.

    `enabled` false means that run_command and run_code cannot work; `boundary` says why. `probe` is pending
    until the first command has found out whether the sandbox works here.
    """
    from ksadk.sandbox.base import longest_command
    from ksadk.toolsets import sandbox_runs

    settings = Settings.from_env()
    name = backend(settings)
    works = enabled(settings)
    return {
        "ok": True,
        "backend": name,
        "enabled": works,
        "isolated": isolated(settings),
        "template_bound": bool(settings.sandbox_template_id),
        "template_id": settings.sandbox_template_id or None,
        "timeout_seconds": longest_command(settings),
        "ttl_seconds": settings.sandbox_ttl_seconds,
        "idle_ttl_seconds": settings.sandbox_idle_ttl_seconds,
        "max_sessions": settings.sandbox_max_sessions,
        **sandbox_runs.current(),
        "probe": _probe(name),
        "boundary": _boundary(name, works),
    }


def _plan_command(
    command: str,
    cwd: str | None = None,
    timeout: int | None = None,
    env: dict[str, str] | None = None,
    background: bool = False,
) -> Plan:
    from ksadk.toolsets import sandbox_runs

    return sandbox_runs.plan_command(sandbox_runs.Ask(timeout, env), command, cwd, background)


@builtin(
    group="sandbox", boundary="isolated_sandbox", risk="high", side_effects=("sandbox_command_execution",),
    plan=_plan_command, enabled=enabled, large_fields=("stdout", "stderr"), line=line_of, isolated=isolated,
    backend=backend,
)  # fmt: skip
def run_command(
    command: str,
    cwd: str | None = None,
    timeout: int | None = None,
    env: dict[str, str] | None = None,
    background: bool = False,
) -> dict[str, Any]:
    """Run a shell command in the isolated sandbox, to its end.

    cwd: the directory to run in; the workspace if left out.
    timeout: seconds, 600 at most.
    env: further environment variables.
    background: not supported; leave it out.

    Returns stdout, stderr and exit_code. `ok` is true when the command exited with 0 in time. `denials` says
    what the sandbox did not let it do, by which rule, and what would allow it.
    """
    from ksadk.toolsets import sandbox_runs

    return sandbox_runs.run_command(sandbox_runs.Ask(timeout, env), command, cwd, background)


def _plan_code(
    code: str,
    language: str = "python",
    timeout: int | None = None,
    env: dict[str, str] | None = None,
) -> Plan:
    from ksadk.toolsets import sandbox_runs

    return sandbox_runs.plan_code(sandbox_runs.Ask(timeout, env), code, language)


@builtin(
    group="sandbox", boundary="isolated_sandbox", risk="high", side_effects=("sandbox_code_execution",),
    plan=_plan_code, enabled=enabled, large_fields=("stdout", "stderr"), line=line_of, isolated=isolated,
    backend=backend,
)  # fmt: skip
def run_code(
    code: str,
    language: str = "python",
    timeout: int | None = None,
    env: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Run a piece of code in the isolated sandbox. For shell commands use run_command.

    language: python, javascript or bash.
    timeout: seconds, 600 at most.
    env: further environment variables.

    Returns stdout, stderr and exit_code. `ok` is true when the code exited with 0 in time. `denials` says
    what the sandbox did not let it do, by which rule, and what would allow it.
    """
    from ksadk.toolsets import sandbox_runs

    return sandbox_runs.run_code(sandbox_runs.Ask(timeout, env), code, language)


def _verdict() -> Verdict | None:
    from ksadk.sandbox.verdicts import known

    return known()


def _probe(name: str) -> str:
    """Whether bubblewrap was found to work here: passed, failed or pending; of another one not_needed."""
    if name != "bubblewrap":
        return "not_needed"
    verdict = _verdict()
    return "pending" if verdict is None else "passed" if verdict.works else "failed"


_NOTHING = "run_command and run_code run nothing, and no host shell is exposed"


def _boundary(name: str, works: bool) -> str:
    from ksadk.sandbox.choice import BACKENDS, ISOLATED

    if name == "none":
        verdict = None if Settings.from_env().sandbox_backend else _verdict()
        why = f" ({verdict.diagnosis.message})" if verdict is not None and verdict.diagnosis else ""
        return f"No sandbox is configured{why}: {_NOTHING}."
    if name not in BACKENDS:
        return f"There is no sandbox backend {name}: {_NOTHING}."
    if name in ISOLATED:
        verdict = _verdict() if name == "bubblewrap" and not works else None
        if verdict is not None and verdict.diagnosis is not None:
            return f"The sandbox does not work here, so nothing is run: {verdict.diagnosis.message}."
        return f"Commands and code run only through the sandbox backend {name}; no host shell is exposed."
    shared = "this machine's" if name == "local_process" else "the pod's"
    allowed = "" if works else " It is not allowed here: KSADK_ALLOW_POD_PROCESS_TOOLS is not set."
    return (
        f"Not isolated: with {name}, commands share {shared} file system and network, with the rights of this"
        f" program. run_code does not run.{allowed}"
    )
