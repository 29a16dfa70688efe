"""The sandbox tools with a network. They are in no default set, and rules name them by names of their own.

A rule that denies or asks about `run_command` is about its twin too; one that allows it is not.
"""

from __future__ import annotations

from typing import Any

from ksadk.tools.registry import Plan, builtin
from ksadk.toolsets.sandbox import backend, enabled, isolated, line_of


def _plan_command(
    command: str,
    cwd: str | None = None,
    timeout: int | None = None,
    env: dict[str, str] | None = None,
) -> Plan:
    from ksadk.toolsets import sandbox_runs

    return sandbox_runs.plan_command(sandbox_runs.Ask(timeout, env, net=True), command, cwd, False)


@builtin(
    group="network", boundary="isolated_sandbox", risk="high",
    side_effects=("sandbox_command_execution", "network_access"), scopes=("public_network",),
    plan=_plan_command, enabled=enabled, large_fields=("stdout", "stderr"), line=line_of, isolated=isolated,
    backend=backend, compat_alias_for="run_command",
)  # fmt: skip
def run_command_with_network(
    command: str,
    cwd: str | None = None,
    timeout: int | None = None,
    env: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Run a shell command in the isolated sandbox, which has a network for it, to its end.

    cwd: the directory to run in; the workspace if left out.
    timeout: seconds, 600 at most.
    env: further environment variables.

    Returns what run_command returns.
    """
    from ksadk.toolsets import sandbox_runs

    return sandbox_runs.run_command(sandbox_runs.Ask(timeout, env, net=True), command, cwd, False)


def _plan_code(
    code: str,
    language: str = "python",
    timeout: int | None = None,
    env: dict[str, str] | None = None,
) -> Plan:
    from ksadk.toolsets import sandbox_runs

    return sandbox_runs.plan_code(sandbox_runs.Ask(timeout, env, net=True), code, language)


@builtin(
    group="network", boundary="isolated_sandbox", risk="high",
    side_effects=("sandbox_code_execution", "network_access"), scopes=("public_network",),
    plan=_plan_code, enabled=enabled, large_fields=("stdout", "stderr"), line=line_of, isolated=isolated,
    backend=backend, compat_alias_for="run_code",
)  # fmt: skip
def run_code_with_network(
    code: str,
    language: str = "python",
    timeout: int | None = None,
    env: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Run a piece of code in the isolated sandbox, which has a network for it.

    language: python, javascript or bash.
    timeout: seconds, 600 at most.
    env: further environment variables.

    Returns what run_code returns.
    """
    from ksadk.toolsets import sandbox_runs

    return sandbox_runs.run_code(sandbox_runs.Ask(timeout, env, net=True), code, language)
