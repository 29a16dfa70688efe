"""Tools that run commands and code, in a sandbox and nowhere else.

This release has no sandbox: `sandbox_status` says so, and the other two end before anyone is asked.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ksadk.errors import KsadkError
from ksadk.settings import Settings
from ksadk.tools.registry import builtin

AVAILABLE_BACKENDS: frozenset[str] = frozenset()
"""The backends that this release can start."""

ISOLATED_BACKENDS: frozenset[str] = frozenset({"e2b", "bubblewrap"})
COMMAND_TIMEOUT_SECONDS: int = 600

LANGUAGES: dict[str, str] = {
    "python": "python", "py": "python", "python3": "python",
    "javascript": "javascript", "js": "javascript", "node": "javascript", "nodejs": "javascript",
    "bash": "bash", "sh": "bash", "shell": "bash",
}  # fmt: skip
"""What each accepted name of a language stands for."""


def backend(settings: Settings | None = None) -> str:
    """The backend that is configured: the one that is named, else e2b where a template is, else none."""
    settings = settings or Settings.from_env()
    return settings.sandbox_backend or ("e2b" if settings.sandbox_template_id else "none")


def enabled() -> bool:
    """Whether the configured backend can be started."""
    return backend() in AVAILABLE_BACKENDS


def get_sandbox_tools() -> list[Any]:
    """sandbox_status, run_command and run_code, as agent frameworks take them."""
    from ksadk.toolsets.frameworks import as_tools

    return as_tools([sandbox_status, run_command, run_code])


@builtin(group="sandbox", boundary="isolated_sandbox", enabled=enabled, backend=backend)
def sandbox_status() -> dict[str, Any]:
    """Report the sandbox that commands and code run in, and its boundary. Nothing is run.

    `enabled` false means that run_command and run_code cannot work; `boundary` says why.
    """
    settings = Settings.from_env()
    name = backend(settings)
    return {
        "ok": True,
        "backend": name,
        "enabled": name in AVAILABLE_BACKENDS,
        "isolated": name in AVAILABLE_BACKENDS & ISOLATED_BACKENDS,
        "template_bound": bool(settings.sandbox_template_id),
        "template_id": settings.sandbox_template_id or None,
        "timeout_seconds": settings.sandbox_timeout or COMMAND_TIMEOUT_SECONDS,
        "ttl_seconds": settings.sandbox_ttl_seconds,
        "idle_ttl_seconds": settings.sandbox_idle_ttl_seconds,
        "max_sessions": settings.sandbox_max_sessions,
        "sandbox_id": None,
        "created_at": None,
        "last_used_at": None,
        "expires_at": None,
        "idle_seconds": None,
        "boundary": _boundary(name),
    }


def _refuse_command(
    command: str,
    cwd: str | None = None,  # noqa: ARG001  # called with the tool's own arguments, as its plan
    timeout: int | None = None,  # noqa: ARG001
    env: dict[str, str] | None = None,  # noqa: ARG001
    background: bool = False,
) -> NoReturn:
    if background:
        raise KsadkError(
            "commands are not run in the background",
            code="background_not_supported",
            hint="Leave background out; the command runs to its end.",
        )
    if not command.strip():
        raise KsadkError("command is empty", code="command_required", hint="Pass a shell command.")
    raise _no_sandbox()


@builtin(
    group="sandbox", boundary="isolated_sandbox", risk="high", side_effects=("sandbox_command_execution",),
    plan=_refuse_command, enabled=enabled, large_fields=("stdout", "stderr"), backend=backend,
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

    Returns stdout, stderr and exit_code. `ok` is true when the command exited with 0 in time.
    """
    _refuse_command(command, cwd, timeout, env, background)


def _refuse_code(
    code: str,
    language: str = "python",
    timeout: int | None = None,  # noqa: ARG001  # called with the tool's own arguments, as its plan
    env: dict[str, str] | None = None,  # noqa: ARG001
) -> NoReturn:
    if language.strip().lower() not in LANGUAGES:
        raise KsadkError(
            f"language {language!r} is not supported",
            code="unsupported_language",
            hint="Use python, javascript or bash.",
            language=language,
        )
    if not code.strip():
        raise KsadkError("code is empty", code="code_required", hint="Pass the source text to run.")
    raise _no_sandbox()


@builtin(
    group="sandbox", boundary="isolated_sandbox", risk="high", side_effects=("sandbox_code_execution",),
    plan=_refuse_code, enabled=enabled, large_fields=("stdout", "stderr"), backend=backend,
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

    Returns stdout, stderr and exit_code. `ok` is true when the code exited with 0 in time.
    """
    _refuse_code(code, language, timeout, env)


def _boundary(name: str) -> str:
    if name == "none":
        return "No sandbox is configured: run_command and run_code run nothing, and no host shell is exposed."
    return (
        f"The sandbox backend {name} is not available in this release: run_command and run_code run nothing, "
        "and no host shell is exposed."
    )


def _no_sandbox() -> KsadkError:
    name = backend()
    missing = "no sandbox is configured" if name == "none" else f"the sandbox backend {name} is not available"
    return KsadkError(
        f"{missing}, so nothing was run",
        code="SandboxError",
        hint="This release has no sandbox backend. Workspace tools read and change files without one.",
        backend=f"sandbox/{name}",
    )
