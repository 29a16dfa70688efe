"""Running a command or a piece of code in the sandbox of the account and session that calls."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import secrets
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ksadk.errors import KsadkError
from ksadk.runtime_context import (
    get_current_account_id,
    get_current_session_id,
    get_current_workspace_root,
)
from ksadk.sandbox.base import SandboxBackend, SandboxCommandResult, SandboxError, longest_command
from ksadk.sandbox.changes import Changes, TrackedSession
from ksadk.sandbox.choice import ISOLATED, create_sandbox_backend
from ksadk.sandbox.environment import check_variables
from ksadk.sandbox.guarding import Guard, guarded
from ksadk.sandbox.protected import Removed
from ksadk.sandbox.records import account_tag, recorded
from ksadk.sandbox.registry import GLOBAL_SANDBOX_REGISTRY, SandboxEntry
from ksadk.settings import Settings
from ksadk.tools.command_gate import details_of
from ksadk.tools.registry import Plan
from ksadk.toolsets.sandbox import LANGUAGES, backend, line_of
from ksadk.toolsets.sandbox_scope import SandboxChoices, on_output, sandbox_choices
from ksadk.toolsets.workspace import workspace_root

_PROGRAMS = {"python": ("python3", ".py"), "javascript": ("node", ".js"), "bash": ("bash", ".sh")}
_SNIPPET = "/tmp/ksadk-run-code-"


@dataclass(frozen=True)
class Ask:
    """What the four tools have in common: seconds, variables, and whether there is a network."""

    timeout: int | None
    env: dict[str, str] | None
    net: bool = False

    def seconds(self) -> int:
        """How long the command may run: what is asked for, and no more than is configured."""
        most = longest_command()
        if self.timeout is not None and self.timeout < 1:
            raise KsadkError(f"a timeout of {self.timeout} seconds is none", code="invalid_arguments")
        return most if self.timeout is None else min(self.timeout, most)

    def where(self) -> Where:
        """The sandbox that it is for."""
        choices = sandbox_choices()
        if self.net:
            choices = replace(choices, net=True)
        return Where(backend(), workspace_root(), choices)


@dataclass(frozen=True)
class Where:
    """A sandbox: its backend, the workspace that it is for, and what was decided about it."""

    backend: str
    root: Path
    choices: SandboxChoices

    @property
    def name(self) -> str:
        return f"sandbox/{self.backend}"

    @property
    def isolated(self) -> bool:
        return self.backend in ISOLATED

    def words(self) -> str:
        """For whoever is asked."""
        what = "a copy of " if self.choices.on_copy or self.backend == "e2b" else ""
        network = "with a network" if self.has_network() else "without network"
        boundary = f"{self.name}, {network}" if self.isolated else f"{self.name}, which is no isolation"
        return f"{boundary}, on {what}{self.root}"

    def has_network(self) -> bool:
        if self.backend == "e2b":
            return Settings.from_env().sandbox_allow_internet_access
        return self.choices.net or not self.isolated

    def details(self) -> list[tuple[str, str]]:
        """What a person should know beside that."""
        found = []
        if self.choices.net and self.backend == "bubblewrap":
            from ksadk.sandbox.network import network_words

            found.append(("network", network_words()))
        if self.choices.memory_bytes is not None:
            found.append(("memory", f"{self.choices.memory_bytes:,} bytes for each process"))
        if self.choices.on_copy:
            found.append(("changes", "stay in a copy until you approve them"))
        return found

    def digest(self) -> str:
        """Of all that an approval is bound to, beside the arguments."""
        text = repr((self.backend, str(self.root), self.has_network(), self.choices))
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    def starter(self) -> SandboxBackend:
        """What starts it. Raises `SandboxError` where there is none."""
        if self.choices.on_copy and self.backend == "bubblewrap":
            from ksadk.sandbox.copies import OnCopyBackend

            return OnCopyBackend(self.root, self._bubblewrap)
        if self.choices.on_copy and self.backend != "e2b":
            raise SandboxError(
                f"{self.backend} does not keep a command to a copy of the workspace",
                code="isolated_sandbox_required",
                hint="Use bubblewrap or e2b.",
            )
        if self.backend == "bubblewrap":
            return self._bubblewrap(self.root)
        starter = create_sandbox_backend(self.backend, workspace_root=self.root)
        if self.backend == "e2b":
            from ksadk.sandbox.sync import SyncingBackend

            return SyncingBackend(self.root, starter)
        return starter

    def _bubblewrap(self, root: Path) -> SandboxBackend:
        from ksadk.sandbox.bubblewrap import BubblewrapSandboxBackend
        from ksadk.sandbox.limits import Limits
        from ksadk.sandbox.probe import probe

        probe().bubblewrap()  # raises why it does not work, before anyone is asked
        memory = self.choices.memory_bytes
        limits = Limits() if memory is None else Limits(memory_bytes=memory)
        original = self.root if root != self.root else None
        return BubblewrapSandboxBackend(root, net=self.choices.net, limits=limits, original=original)

    def key(self) -> str:
        """What its registry knows it by: the account, the session, and what sets it apart from the usual
        sandbox of these."""
        account = get_current_account_id()
        whose = f"account:{account_tag(account)}:" if account else ""
        own = "" if get_current_workspace_root() is None else str(self.root)
        special = "" if (self.choices, own) == (SandboxChoices(), "") else f"#{self.digest()}"
        return whose + _session_key() + special


def _session_key() -> str:
    named = Settings.from_env().sandbox_session_id
    if named:
        return named
    session = get_current_session_id("")
    return f"ksadk-session:{session}" if session else _process_key(os.getpid())


@functools.lru_cache(maxsize=1)
def _process_key(pid: int) -> str:
    """Of callers that have no session: this process's, and nobody else's."""
    return f"ksadk-process:{pid}:{secrets.token_hex(16)}"


def current() -> dict[str, Any]:
    """What `sandbox_status` says of the caller's sandbox, if one is alive."""
    entry = GLOBAL_SANDBOX_REGISTRY.latest(_key_for_status())
    return {
        "sandbox_id": entry.sandbox_id if entry else None,
        "created_at": entry.created_at if entry else None,
        "last_used_at": entry.last_used_at if entry else None,
        "expires_at": entry.expires_at if entry else None,
        "idle_seconds": entry.idle_seconds() if entry else None,
        "left_over": sum(not (lives or facts.kept) for facts, lives in recorded()),
    }


def _key_for_status() -> str:
    root = Path(get_current_workspace_root() or "").resolve()  # as it is, since nothing shall be made here
    return Where(backend(), root, sandbox_choices()).key()


def plan_command(ask: Ask, command: str, cwd: str | None, background: bool) -> Plan:
    """What `run_command` would do; raises what makes that impossible."""
    if background:
        raise KsadkError(
            "commands are not run in the background", code="background_not_supported",
            hint="Leave background out; the command runs to its end.",
        )  # fmt: skip
    if not command.strip():
        raise KsadkError("command is empty", code="command_required", hint="Pass a shell command.")
    where, details = _ready(ask)
    if cwd:
        details.append(("directory", cwd))
    return Plan(
        summary=f"Run a command in {where.name}", where=where.words(), content_digest=where.digest(),
        details=(*details_of(command), *details),
    )  # fmt: skip


def plan_code(ask: Ask, code: str, language: str) -> Plan:
    """What `run_code` would do; raises what makes that impossible."""
    kind = LANGUAGES.get(language.strip().lower())
    if kind is None:
        raise KsadkError(
            f"language {language!r} is not supported", code="unsupported_language",
            hint="Use python, javascript or bash.", language=language,
        )  # fmt: skip
    if not code.strip():
        raise KsadkError("code is empty", code="code_required", hint="Pass the source text to run.")
    _encoded(code)
    where = ask.where()
    if where.backend in ("local_process", "pod_process"):
        raise SandboxError(
            f"code runs in an isolated sandbox only, and {where.backend} is none",
            code="isolated_sandbox_required", backend=where.name,
            hint="Set KSADK_SANDBOX_BACKEND=bubblewrap (this machine) or e2b.",
        )  # fmt: skip
    where, details = _ready(ask)
    judged = details_of(line_of({"code": code, "language": language}))
    return Plan(
        summary=f"Run {kind} code in {where.name}", where=where.words(), content_digest=where.digest(),
        details=(*judged, *details),
    )  # fmt: skip


def run_command(ask: Ask, command: str, cwd: str | None, background: bool) -> dict[str, Any]:
    """The result of `run_command`."""
    plan_command(ask, command, cwd, background)
    with _running(ask) as (where, entry, removed):
        done = entry.session.run_command(
            command, timeout=ask.seconds(), env=ask.env, cwd=cwd, on_output=on_output()
        )
    return _result(where, entry, command, done, removed)


def run_code(ask: Ask, code: str, language: str) -> dict[str, Any]:
    """The result of `run_code`."""
    plan_code(ask, code, language)
    kind = LANGUAGES[language.strip().lower()]
    program, suffix = _PROGRAMS[kind]
    path = f"{_SNIPPET}{secrets.token_hex(8)}{suffix}"
    command = f"{program} {shlex.quote(path)}"
    with _running(ask) as (where, entry, removed):
        session: Any = entry.session
        session.write_file(path, _encoded(code))
        try:
            done = session.run_command(command, timeout=ask.seconds(), env=ask.env, on_output=on_output())
        finally:
            if where.backend == "bubblewrap":  # which would put it into every later command's /tmp
                session.remove_file(path)
    return _result(where, entry, command, done, removed) | {
        "execution_model": "snippet_runner", "boundary": "isolated_sandbox", "language": kind, "path": path,
    }  # fmt: skip


def changed_in_sandbox() -> tuple[Where, str, Changes]:
    """What commands have changed in the caller's sandbox that works on a copy, and that sandbox's id;
    `no_sandbox_changes` where there is none."""
    where = Ask(None, None).where()
    for net in (where.choices.net, True):
        found = replace(where, choices=replace(where.choices, net=net))
        entry = GLOBAL_SANDBOX_REGISTRY.latest(found.key())
        if entry is not None and isinstance(entry.session, TrackedSession):
            return found, entry.sandbox_id, entry.session.changes()
    raise KsadkError(
        "no sandbox of this session works on a copy of the workspace, so there are no changes to take over",
        code="no_sandbox_changes",
        hint="A command in bubblewrap changes the workspace itself.",
    )


def _ready(ask: Ask) -> tuple[Where, list[tuple[str, str]]]:
    """The sandbox that a call is for, if it can be started. Raises what keeps it from that."""
    ask.seconds()
    check_variables(ask.env)
    where = ask.where()
    with _named(where):
        where.starter()
    return where, where.details()


@contextlib.contextmanager
def _named(where: Where) -> Iterator[None]:
    """An error about a sandbox says which."""
    try:
        yield
    except SandboxError as error:
        error.details.setdefault("backend", where.name)
        raise


@contextlib.contextmanager
def _running(ask: Ask) -> Iterator[tuple[Where, SandboxEntry, list[Removed]]]:
    """The caller's sandbox, in use. After the block the list holds what was wrong at protected places, which
    are then as they were."""
    where, settings = ask.where(), Settings.from_env()
    removed: list[Removed] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(_named(where))
        lease = GLOBAL_SANDBOX_REGISTRY.lease(
            key=where.key(), backend_name=where.backend, backend=where.starter(), isolated=where.isolated,
            ttl_seconds=settings.sandbox_ttl_seconds, idle_ttl_seconds=settings.sandbox_idle_ttl_seconds,
            max_sessions=settings.sandbox_max_sessions,
        )  # fmt: skip
        entry, _ = stack.enter_context(lease)
        guard: Guard | None = None
        if not isinstance(entry.session, TrackedSession):
            guard = stack.enter_context(guarded(where.root, settings.state_dir()))
        try:
            yield where, entry, removed
        except KsadkError as error:
            changed = guard.check() if guard is not None else []
            if changed:
                error.details["protected_path_changed"] = [item.to_result() for item in changed]
            if error.code == "sandbox_ended":
                with contextlib.suppress(KsadkError):
                    GLOBAL_SANDBOX_REGISTRY.kill(entry.key)
            raise
        finally:
            if guard is not None:
                removed += guard.check()


def _result(
    where: Where, entry: SandboxEntry, command: str, done: SandboxCommandResult, removed: list[Removed]
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ok": done.ok,
        "backend": where.name,
        "sandbox_id": entry.sandbox_id,
        "command": command,
        "stdout": done.stdout,
        "stderr": done.stderr,
        "exit_code": done.exit_code,
        "timed_out": done.timed_out,
        "duration_seconds": round(done.duration_seconds, 3),
        "denials": [asdict(denial) for denial in done.denials],
    }
    session = entry.session
    extras: dict[str, Any] = {
        "encoding_errors": done.encoding_errors,
        "left_processes": [asdict(process) for process in done.left_processes],
        "output_limit_exceeded": done.output_limit_exceeded,
        "protected_path_changed": [item.to_result() for item in removed],
        "not_in_sandbox": session.workspace.missing() if isinstance(session, TrackedSession) else {},
    }
    result |= {name: value for name, value in extras.items() if value}
    for stream in ("stdout", "stderr"):
        if getattr(done, f"{stream}_truncated"):
            result[f"{stream}_bytes"] = getattr(done, f"{stream}_bytes")
    if removed:
        result["warning"] = (
            f"The command changed {', '.join(item.path for item in removed)}: places that decide what other"
            " programs run. They are again as they were; what the command made of them was moved out."
        )
    return result


def _encoded(code: str) -> bytes:
    try:
        return code.encode()
    except UnicodeEncodeError as error:
        raise KsadkError(f"the code is no text: {error}", code="invalid_arguments") from error
