"""How a command calls a tool: one gateway, the person at this terminal to ask, and the shared options."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer
from typer.core import TyperOption

from agentengine_cli import output
from agentengine_cli.base import APPROVAL_MODE, Command
from ksadk.errors import KsadkError
from ksadk.project_files import find_config
from ksadk.runtime_context import tool_execution_scope, workspace_root_scope
from ksadk.sessions import project_dir
from ksadk.settings import Settings
from ksadk.tools import rule_files
from ksadk.tools.gateway import ToolGateway, gateway_scope
from ksadk.tools.registry import Tool, find
from ksadk.toolsets.selection import load_builtin_tools

if TYPE_CHECKING:
    from ksadk.tools.approvals import ApprovalRequest, Decision

POLL_SECONDS = 0.2
MAX_INPUT_BYTES = 64 * 1024 * 1024
"""How much of a file or of stdin an option takes."""


@dataclass(frozen=True)
class CallOptions:
    """The options that every command that calls a tool has."""

    yes: bool = False
    no_input: bool = False
    approval: str = ""
    wait: float = 0
    session: str = ""
    root: str = ""
    audit_args: bool = False
    log_all: bool = False


_NO_OPTIONS = CallOptions()
_options: ContextVar[CallOptions] = ContextVar("call_options", default=_NO_OPTIONS)


def options() -> CallOptions:
    """The options of the command that runs now."""
    return _options.get()


class CallCommand(Command):
    """A command that calls a tool: adds the options of `CallOptions`, which `run_tool` reads."""

    asks = True

    def shared_options(self) -> list[TyperOption]:
        about_asking = [
            _flag("--yes", "yes", "Approve what this command names, and nothing else."),
            _flag("--no-input", "no_input", "Ask nobody, also at a terminal."),
            _value("--approval", "approval", "ID", "Run the request that was approved under this id."),
            _value("--wait-approval", "wait", "TIME", "Wait for somebody to approve elsewhere (10m, 90s)."),
        ]
        for option in about_asking:
            option.hidden = not self.asks
        return [
            *about_asking,
            _value("--session", "session", "NAME", "The session that read state belongs to."),
            _value("--root", "root", "DIR", "The workspace; .agentengine/ui/workspace if not given."),
            _flag("--audit-args", "audit_args", "Keep the arguments in the decision log, not only a digest."),
            _flag("--log-all", "log_all", "Keep this call in the decision log, also if its risk is low."),
            *super().shared_options(),
        ]


class ReadCommand(CallCommand):
    """A command that calls a low-risk tool: nobody is asked unless a rule says so, and the help is short."""

    asks = False


def run_tool(name: str, arguments: dict[str, Any]) -> Any:
    """Call a built-in tool as the person at this terminal would: the result, whatever the outcome.

    With `--approval ID` and no arguments, the stored call runs with its stored ones.
    """
    tool = builtin_tool(name)
    chosen = options()
    with call_scope(name) as gateway:
        if not chosen.approval:
            return gateway.call(tool, (), arguments)
        if arguments:
            from ksadk.tools.approvals import StoredApproval

            return gateway.call(tool, (), arguments, StoredApproval(chosen.approval))
        stored = gateway.store.get(chosen.approval)
        if stored.tool_name != name:
            raise KsadkError(
                f"{chosen.approval} is for {stored.tool_name}, not {name}", code="approval_mismatch"
            )
        return gateway.run_approved(chosen.approval)


def builtin_tool(name: str) -> Tool:
    """The built-in tool of that name; `unknown_tool` says which names are near."""
    load_builtin_tools()
    return find(name)


@contextmanager
def call_scope(named: str) -> Iterator[ToolGateway]:
    """The gateway, session and workspace of a command that names one tool."""
    from agentengine_cli.terminal import session_key

    chosen = options()
    if chosen.yes and Settings.from_env().inside_tool:
        raise KsadkError(
            "--yes is refused in what a tool started",
            code="approval_inside_tool",
            hint="A person has to approve: run it in a terminal of your own.",
        )
    key = "" if Settings.from_env().inside_tool else session_key()
    gateway = ToolGateway(
        ask=_Asker(named, chosen),
        session_key=key,
        approval_mode=APPROVAL_MODE,
        audit_args=chosen.audit_args or None,
        log_all=chosen.log_all or None,
    )
    with ExitStack() as stack:
        stack.enter_context(workspace_scope(chosen.root))
        if chosen.session:
            stack.enter_context(tool_execution_scope(chosen.session))
        _tell_of_bad_rules(named)
        yield stack.enter_context(gateway_scope(gateway))


@contextmanager
def workspace_scope(root: str) -> Iterator[None]:
    """The workspace of a command: `--root`, else that of a trusted project, else the default."""
    chosen = _directory(root) if root else None
    if chosen is None and find_config(project_dir()) is not None:
        from ksadk.tools.trust import trusted_workspace

        chosen = trusted_workspace(project_dir())
    if chosen is None:
        yield
    else:
        with workspace_root_scope(chosen):
            yield


def _tell_of_bad_rules(tool_name: str) -> None:
    """Say on stderr which rules that may be about a tool cannot be used, and what holds instead."""
    if not rule_files.any_file():
        return
    import fnmatch

    from ksadk.tools.rule_reader import RuleFile

    for file, _ in rule_files.rule_files():
        for entry in file.entries if isinstance(file, RuleFile) else ():
            if entry.problem and fnmatch.fnmatchcase(tool_name, entry.tool or "*"):
                instead = {"deny": "it denies every call", "ask": "it asks about every call"}
                words = instead.get(entry.verdict or "", "it allows nothing")
                output.say(f"warning: {entry.file}:{entry.line}: {entry.problem}; until it is mended {words}")


def typed_value(value: str, schema: dict[str, Any]) -> Any:
    """Text where the tool takes text; otherwise the JSON value, if it is one."""
    import json

    kinds = {option.get("type") for option in schema.get("anyOf", [schema])}
    if "string" in kinds and not (value == "null" and "null" in kinds):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value  # the gateway says what is wrong with it


def read_text(value: str) -> str:
    """The text of an option: itself, the content of FILE for `@FILE`, or stdin for `-`; `@@x` is `@x`."""
    if value == "-":
        return _decoded(_all_of(sys.stdin.buffer, "stdin"), "stdin")
    if value.startswith("@@"):
        return value[1:]
    if value.startswith("@"):
        path = Path(value[1:])
        try:
            with path.open("rb") as stream:
                return _decoded(_all_of(stream, str(path)), str(path))
        except OSError as error:
            raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from error
    return value


def _all_of(stream: BinaryIO, source: str) -> bytes:
    data = stream.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise typer.BadParameter(f"{source} holds more than {MAX_INPUT_BYTES:,} bytes")
    return data


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{source} is not UTF-8 (byte {error.start})") from error


class _Asker:
    """Answers for a command: `--yes`, the prompt, whoever answers elsewhere, or nobody."""

    def __init__(self, named: str, chosen: CallOptions) -> None:
        self._named = named
        self._options = chosen
        self._prompt: Any = None

    def __call__(self, request: ApprovalRequest, note: str = "") -> Decision:
        from agentengine_cli.terminal import at_terminal
        from ksadk.tools.approvals import Decision

        if self._options.yes and request.tool_name == self._named:
            return Decision("approve", by="--yes", seen=False)
        if not self._options.no_input and at_terminal():
            from agentengine_cli.approval import Prompt

            self._prompt = self._prompt or Prompt()
            decision: Decision = self._prompt(request, note)
            return decision
        return self._wait(request) if self._options.wait else Decision("nobody")

    def _wait(self, request: ApprovalRequest) -> Decision:
        from ksadk.tools.approvals import Decision

        output.say(f"waiting for approval: agentengine approvals approve {request.id}")
        store = ToolGateway().store
        until = time.monotonic() + self._options.wait
        while time.monotonic() < until:
            kept = store.get(request.id)
            if kept.state != "pending":
                return Decision("deny" if kept.state == "denied" else "approve", by=kept.decided_by)
            if kept.expired(store.now()):
                break
            time.sleep(POLL_SECONDS)
        return Decision("expired")


def _directory(text: str) -> Path:
    try:
        path = Path(text).expanduser().resolve()
        found = path.is_dir()
    except (OSError, RuntimeError) as error:
        raise typer.BadParameter(f"{text} cannot be used: {error}", param_hint="--root") from error
    if not found:
        raise typer.BadParameter(f"{text} is not a directory", param_hint="--root")
    return path


def seconds_of(text: str) -> float:
    """A time such as 10m, 90s, 1h or 45 (seconds), in seconds."""
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:].lower())
    number = text if unit is None else text[:-1]
    try:
        value = float(number) * (unit or 1)
    except ValueError:
        value = -1
    if not 0 < value < 1e9:
        raise typer.BadParameter(f"{text!r} is not a time such as 10m or 90s")
    return value


def _flag(declaration: str, field: str, help: str) -> TyperOption:
    return TyperOption(
        param_decls=[declaration], is_flag=True, expose_value=False, callback=_keeper(field), help=help
    )


def _value(declaration: str, field: str, metavar: str, help: str) -> TyperOption:
    return TyperOption(
        param_decls=[declaration], metavar=metavar, expose_value=False, callback=_keeper(field), help=help
    )


def _keeper(field: str) -> Any:
    def keep(_ctx: Any, _param: Any, value: Any) -> None:
        if value == "":  # a variable of a script that is not set; the default would be another place
            raise typer.BadParameter("it is empty")
        if value:
            chosen: dict[str, Any] = {field: seconds_of(value) if field == "wait" else value}
            _options.set(replace(_options.get(), **chosen))

    return keep
