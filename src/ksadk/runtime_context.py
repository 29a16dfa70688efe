"""Who is calling, and in which run: context variables, so each thread and task sees its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar


@dataclass(frozen=True)
class PlatformInvocationContext:
    """One request to a runner. `account_id` is the boundary that data and files are kept apart by.

    `tool_approval_mode`, when not empty, overrides `KSADK_TOOL_APPROVAL_MODE` for this request.
    """

    agent_id: str = ""
    user_id: str = ""
    session_id: str = ""
    history: list[Any] = field(default_factory=list)
    input_content: Any = None
    input_messages: list[Any] = field(default_factory=list)
    input_parts: list[Any] = field(default_factory=list)
    attachments: list[Any] = field(default_factory=list)
    attachment_results: list[Any] = field(default_factory=list)
    current_attachments: list[Any] = field(default_factory=list)
    current_attachment_results: list[Any] = field(default_factory=list)
    has_current_files: bool = False
    runner_type: str = ""
    account_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    model_options: dict[str, Any] | None = None
    kb_context: Any = None
    memory_context: Any = None
    tool_approval_mode: str = ""

    def to_payload(self) -> dict[str, Any]:
        """The fields by name, as a runner's payload carries them."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True)
class ToolExecutionContext:
    """The session and run that a tool call belongs to; `invocation_id` is one run's stable id."""

    session_id: str = ""
    run_id: str = ""
    invocation_id: str = ""


T = TypeVar("T")

_NO_INVOCATION = PlatformInvocationContext()
_NO_EXECUTION = ToolExecutionContext()
_invocation: ContextVar[PlatformInvocationContext | None] = ContextVar("ksadk_invocation", default=None)
_execution: ContextVar[ToolExecutionContext | None] = ContextVar("ksadk_execution", default=None)
_workspace_root: ContextVar[Path | None] = ContextVar("ksadk_workspace_root", default=None)
_project: ContextVar[Path | None] = ContextVar("ksadk_project", default=None)


def get_current_invocation_context() -> PlatformInvocationContext | None:
    """The current request's context, or None outside a request."""
    return _invocation.get()


def get_current_invocation_context_or_default() -> PlatformInvocationContext:
    """The current request's context, or an empty one outside a request."""
    return _invocation.get() or _NO_INVOCATION


def get_current_account_id(default: str = "") -> str:
    """The account that data, files and sandboxes belong to now."""
    return get_current_invocation_context_or_default().account_id or default


def get_current_user_id(default: str = "") -> str:
    """The user of the current request."""
    return get_current_invocation_context_or_default().user_id or default


def get_current_tool_execution_context() -> ToolExecutionContext | None:
    """The session and run of the current tool call, or None outside one."""
    return _execution.get()


def get_current_tool_execution_context_or_default() -> ToolExecutionContext:
    """The session and run of the current tool call, or an empty context outside one."""
    return _execution.get() or _NO_EXECUTION


def get_current_session_id(default: str = "default") -> str:
    """The session that read state and approvals belong to."""
    return (
        get_current_tool_execution_context_or_default().session_id
        or get_current_invocation_context_or_default().session_id
        or default
    )


def set_current_invocation_context(
    context: PlatformInvocationContext | None,
) -> Token[PlatformInvocationContext | None]:
    """Make `context` current; give the token to `reset_current_invocation_context`."""
    return _invocation.set(context)


def reset_current_invocation_context(token: Token[PlatformInvocationContext | None]) -> None:
    """Undo a set. A token from another thread or task is let be: there is nothing to undo here."""
    _reset(_invocation, token)


def set_current_tool_execution_context(
    context: ToolExecutionContext | None,
) -> Token[ToolExecutionContext | None]:
    """Make `context` current; give the token to `reset_current_tool_execution_context`."""
    return _execution.set(context)


def reset_current_tool_execution_context(token: Token[ToolExecutionContext | None]) -> None:
    """Undo a set. A token from another thread or task is let be: there is nothing to undo here."""
    _reset(_execution, token)


@contextmanager
def platform_invocation_scope(context: PlatformInvocationContext) -> Iterator[PlatformInvocationContext]:
    """Make `context` current inside a `with` block."""
    with scoped(_invocation, context):
        yield context


@contextmanager
def tool_execution_scope(
    session_id: str, run_id: str | None = None, invocation_id: str | None = None
) -> Iterator[ToolExecutionContext]:
    """Make a session and run current inside a `with` block."""
    context = ToolExecutionContext(session_id, run_id or "", invocation_id or "")
    with scoped(_execution, context):
        yield context


def get_current_workspace_root() -> Path | None:
    """The workspace root that a trusted caller chose, or None where the default holds."""
    return _workspace_root.get()


@contextmanager
def workspace_root_scope(root: Path) -> Iterator[Path]:
    """Let the workspace tools work in `root` inside a `with` block (what `--root` does)."""
    with scoped(_workspace_root, root):
        yield root


def get_current_project() -> Path | None:
    """The project that a trusted caller works for, or None where the environment says it."""
    return _project.get()


@contextmanager
def project_scope(directory: Path) -> Iterator[Path]:
    """Work for the project in `directory` inside a `with` block, whatever the current directory is."""
    with scoped(_project, directory):
        yield directory


@contextmanager
def scoped(variable: ContextVar[T], value: T) -> Iterator[T]:
    """Set a context variable inside a `with` block, which may end in another context than it began in."""
    token = variable.set(value)
    try:
        yield value
    finally:
        _reset(variable, token)


def _reset(variable: ContextVar[Any], token: Token[Any]) -> None:
    try:
        variable.reset(token)
    except ValueError:
        pass  # made in another context, or used already
