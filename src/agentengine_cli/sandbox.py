"""`agentengine sandbox`: run commands and code where they can do no harm, and look after sandboxes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentengine_cli import output, sandbox_shown, workspace_shown
from agentengine_cli.base import new_group
from agentengine_cli.calls import (
    CallCommand,
    ReadCommand,
    builtin_tool,
    call_scope,
    options,
    read_text,
    run_tool,
    seconds_of,
)
from agentengine_cli.live import shown_live

if TYPE_CHECKING:
    from ksadk.sandbox.registry import SandboxRegistry

OURS = 125
"""The exit status of everything that is not the command's own."""

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_LANGUAGES = {".py": "python", ".js": "javascript", ".mjs": "javascript", ".sh": "bash", ".bash": "bash"}

app = new_group("Run commands and code in a sandbox.")


class RunCommand(CallCommand):
    """A command whose exit status is that of what it runs: what is ours is 125, whatever it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        output.only_status.set(OURS)
        return super().parse_args(ctx, args)


@app.command("run", cls=RunCommand, context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[--] COMMAND [ARG]...", help="What to run.")
    ] = None,
    code: Annotated[str, typer.Option("--code", metavar="FILE|-", help="Run a file's code instead.")] = "",
    language: Annotated[
        str,
        typer.Option("--language", help="python, javascript or bash; the file's name tells if unset."),
    ] = "",
    net: Annotated[bool, typer.Option("--net", help="Let it reach the network.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="90s, 5m; 600s if unset.")] = "",
    memory: Annotated[
        str,
        typer.Option("--memory", metavar="SIZE", help="What a process may use: 512M; 2G if unset."),
    ] = "",
    diff: Annotated[
        bool,
        typer.Option("--diff", help="Run on a copy; ask before its changes are taken over."),
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the copy, or the remote sandbox.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen; run nothing, ask nobody.")
    ] = False,
) -> None:
    """Run a command in the sandbox, on the workspace, once it is approved.

    Its output is shown as it comes. Its exit status is this command's; 124: its time was over; 125: all
    else (refused, nobody to ask, no sandbox).

    \b
    Examples:
      agentengine sandbox run --root . -- pytest -q
      agentengine sandbox run --root . --diff -- ruff format .
      agentengine sandbox run --code script.py --yes
    """
    from ksadk.sandbox.registry import SandboxRegistry, bind_sandbox_registry
    from ksadk.toolsets.sandbox_scope import SandboxChoices, sandbox_scope

    tool, arguments = _asked(command or [], code, language)
    tool = f"{tool}_with_network" if net else tool
    if arguments and timeout:
        arguments["timeout"] = _seconds(timeout)
    choices = SandboxChoices(net=net, memory_bytes=_bytes(memory) if memory else None, on_copy=diff)
    registry = SandboxRegistry()
    with bind_sandbox_registry(registry), sandbox_scope(choices):
        if dry_run:
            with call_scope(tool) as gateway:
                plan = gateway.preview(builtin_tool(tool), arguments)
            output.show_result(plan, workspace_shown.plan)
            return
        try:
            with ended_by_signals():
                result = _run(tool, arguments, diff)
                if keep:
                    result |= {"kept": _keep(registry)}
        finally:
            registry.close()
    sandbox_shown.end(result)


@app.command("status", cls=ReadCommand)
def status(
    probe: Annotated[
        bool, typer.Option("--probe", help="Try to break out of this machine's sandbox; takes seconds.")
    ] = False,
) -> None:
    """Show which sandbox there is, and its boundary. Nothing is started, but with --probe.

    With --probe the exit status is 1 where a promise of the sandbox does not hold.

    \b
    Examples:
      agentengine sandbox status
      agentengine sandbox status --probe
    """
    if not probe:
        output.show_result(run_tool("sandbox_status", {}), sandbox_shown.status)
        return
    tried = run_tool("probe_sandbox", {})
    result = run_tool("sandbox_status", {}) | tried  # in this order: the probe is known now
    if "checks" in result and not output.json_wanted.get():
        output.write(sandbox_shown.status({**result, "checks": None}) + "\n")
        output.write(sandbox_shown.checks(result))
    output.show_result(result, str if "checks" not in result else lambda _: "")


@app.command("list", cls=ReadCommand)
def list_sandboxes() -> None:
    """List sandboxes that are in use, kept, or left over by a program that was killed.

    \b
    Example:
      agentengine sandbox list
    """
    output.show_result(run_tool("list_sandboxes", {}), sandbox_shown.listing)


@app.command("kill", cls=ReadCommand)
def kill(
    sandbox_id: Annotated[str, typer.Argument(help="The id, as `sandbox list` shows it.")],
) -> None:
    """End a sandbox, and delete the copy of the workspace that goes with it.

    \b
    Example:
      agentengine sandbox kill copy-1f2e3d4c5b6a7980
    """
    output.show_result(
        run_tool("kill_sandbox", {"sandbox_id": sandbox_id}), lambda result: f"ended {result['sandbox_id']}\n"
    )


def _asked(command: list[str], code: str, language: str) -> tuple[str, dict[str, Any]]:
    """The tool, and its arguments; none where a stored call is to run."""
    if code and command:
        raise typer.BadParameter("give a command or --code, not both", param_hint="--code")
    if language and not code:
        raise typer.BadParameter("is for --code", param_hint="--language")
    if code:
        suffix = "" if code == "-" else code[code.rfind(".") :].lower()
        text = read_text("-" if code == "-" else f"@{code}")
        return "run_code", {"code": text, "language": language or _LANGUAGES.get(suffix, "python")}
    if command:
        return "run_command", {"command": shlex.join(command)}
    if options().approval:
        from ksadk.tools.gateway import ToolGateway

        stored = ToolGateway().store.get(options().approval).tool_name
        return stored.removesuffix("_with_network"), {}
    raise typer.BadParameter("what shall be run? Give a command, or --code FILE", param_hint="COMMAND")


def _run(tool: str, arguments: dict[str, Any], diff: bool) -> dict[str, Any]:
    """Run it, and with `diff` see to what it changed in its copy, which --yes does not approve."""
    with nullcontext() if output.json_wanted.get() else shown_live():
        result: dict[str, Any] = run_tool(tool, arguments)
    if "exit_code" not in result:
        return result
    if not output.json_wanted.get():
        output.forget_persisted(result)
    if not diff:
        return result
    with call_scope(tool) as gateway:
        changed = gateway.call(builtin_tool("sandbox_changes"), (), {})
        if not changed["ok"]:
            return result | {"apply_error": changed}
        result |= {key: changed[key] for key in ("changes", "left_out", "diff")}
        if not changed["changes"]:
            return result | {"applied": []}
        applied = gateway.call(builtin_tool("apply_sandbox_changes"), (), {})
        if applied.get("approval_required") is True:  # nobody can approve it once the copy is gone
            gateway.store.expire(applied["approval_request"]["id"])
    return result | ({"applied": applied["applied"]} if applied["ok"] else {"apply_error": applied})


def _keep(registry: SandboxRegistry) -> list[str]:
    """Let what can be kept outlive this program; returns the ids."""
    from ksadk.sandbox.changes import TrackedSession
    from ksadk.sandbox.copies import WorkspaceCopy

    kept = []
    for entry in registry.entries():
        session = entry.session
        if isinstance(session, TrackedSession) and isinstance(session.workspace, WorkspaceCopy):
            session.workspace.keep()
            kept.append(session.workspace.copy_id)
        elif entry.backend_name == "e2b" and registry.keep(entry.key) is not None:
            kept.append(entry.sandbox_id)
    return kept


def _seconds(text: str) -> int:
    from ksadk.sandbox.base import longest_command

    most = longest_command()
    seconds = math.ceil(seconds_of(text))
    if seconds > most:
        raise typer.BadParameter(
            f"a command may run {most} seconds, which KSADK_SANDBOX_TIMEOUT sets", param_hint="--timeout"
        )
    return seconds


def _bytes(text: str) -> int:
    """A size such as 512M or 2G, in bytes."""
    number, unit = (text[:-1], _UNITS.get(text[-1:].lower())) if text[-1:].isalpha() else (text, 1)
    if unit is None or not number.isdecimal() or not 0 < int(number) * unit < 1 << 50:
        raise typer.BadParameter(f"{text!r} is not a size such as 512M or 2G", param_hint="--memory")
    return int(number) * unit


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """A signal that asks this program to end ends it as Ctrl-C does: with its sandboxes."""
    import signal

    def end(number: int, _frame: Any) -> None:
        raise SystemExit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, end) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
