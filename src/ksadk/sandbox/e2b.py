"""Sandboxes of E2B, in its cloud or one's own, through its SDK."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any

from ksadk.sandbox.base import (
    WORKSPACE_DIRECTORY,
    SandboxCommandResult,
    SandboxError,
    SandboxInputFile,
    SandboxSpec,
    check_command,
    command_timeout,
    sandbox_spec_from_env,
)
from ksadk.sandbox.e2b_command import Command
from ksadk.sandbox.e2b_service import NOT_FOUND, Service, names
from ksadk.sandbox.environment import check_variables
from ksadk.sandbox.observing import Observer, OnOutput
from ksadk.settings import Settings

READY_FILE = "/tmp/.ksadk-sandbox-ready"  # in the sandbox, which is one session's own
MAX_RETRY_SECONDS = 1.0

_SHORTEST_SECRET = 8
"""From here on a secret is looked for inside a value; a shorter one is the whole value."""

_NOT_IN_FORMS = re.compile(r'["\\\x00-\x1f]')
"""What a path cannot have as the name of a file in an upload of several."""


class E2BSandboxBackend:
    """Starts sandboxes of E2B.

    spec: what they are created as; the environment says it if left out. Without a template: `SandboxError`.
    sandbox_cls: a class with the methods of `e2b.Sandbox`, which has its own key; the SDK's if left out.
    """

    def __init__(
        self, spec: SandboxSpec | None = None, sandbox_cls: Any = None, *, settings: Settings | None = None
    ) -> None:
        self._settings = settings or Settings.from_env()
        self.spec = spec or sandbox_spec_from_env(self._settings)
        self._sandbox_cls = sandbox_cls
        if not self.spec.template_id:
            raise SandboxError(
                "an E2B sandbox is started from a template, and none is named",
                hint="Set KSADK_SANDBOX_TEMPLATE_ID to the id or the name of one.",
            )

    def create_session(
        self,
        *,
        session_id: str,
        env: Mapping[str, str] | None = None,
        input_files: Sequence[SandboxInputFile] | None = None,
    ) -> E2BSession:
        """Start a sandbox, wait until it is ready, and put the files into it. Where that fails it is ended.

        env: variables for all its commands, beside those of the spec; nothing else of ours goes in.
        """
        service = Service.of(self._sandbox_cls, self._settings)
        variables = checked(self.spec.env, self._settings) | checked(env, self._settings)
        entries = [{"path": file.target_path, "data": file.read()} for file in input_files or ()]
        with service.asked("no sandbox can be started"):
            sandbox = service.sandbox_cls.create(
                template=self.spec.template_id,
                timeout=self.spec.timeout,
                metadata={
                    **self.spec.metadata,
                    "runtime": "ksadk",
                    "sandbox_type": self.spec.sandbox_type.value,
                    "session_id": session_id,
                },
                envs=variables,
                allow_internet_access=self.spec.allow_internet_access,
                **service.options,
            )
        session = E2BSession(sandbox, service, self._settings)
        try:
            session.wait_until_ready()
            session.write_files(entries)
        except BaseException:
            with suppress(SandboxError):
                session.kill()
            raise
        return session


class E2BSession:
    """A sandbox of E2B. What a command leaves running in the background goes on until the sandbox ends."""

    def __init__(self, sandbox: Any, service: Service, settings: Settings) -> None:
        self._sandbox = sandbox
        self._service = service
        self._settings = settings
        self._directory = ""
        self._ended = False

    @property
    def sandbox_id(self) -> str:
        return str(self._sandbox.sandbox_id)

    def wait_until_ready(self) -> None:
        """Try until commands run and files are written. Raises `SandboxError` when the tries are over."""
        tries = self._settings.sandbox_startup_retry_attempts
        delay = self._settings.sandbox_startup_retry_delay
        for left in reversed(range(tries)):
            with self._service.asked("the sandbox did not get ready"):
                try:
                    self._sandbox.commands.run("true")
                    self._sandbox.files.write(READY_FILE, "")
                    return
                except Exception as error:
                    if not left or not names(error) & NOT_FOUND:
                        raise
            time.sleep(min(delay, MAX_RETRY_SECONDS))
            delay *= 2

    def write_file(self, path: str, data: bytes | str) -> None:
        """Write a file, with the directories above it. Raises `SandboxError`."""
        with self._asked(f"{path} cannot be written in the sandbox"):
            self._sandbox.files.write(path, data)
        self._enter(path)

    def write_files(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Write files, each `{path, data}`, in as few requests as can be. Raises `SandboxError`."""
        together = [dict(entry) for entry in entries if not _NOT_IN_FORMS.search(entry["path"])]
        if together:
            with self._asked(f"{len(together)} files cannot be written in the sandbox"):
                self._sandbox.files.write_files(together)
            for entry in together:
                self._enter(entry["path"])
        for apart in entries:
            if _NOT_IN_FORMS.search(apart["path"]):
                self.write_file(apart["path"], apart["data"])

    def read_file(self, path: str) -> bytes:
        """The bytes of a file. Raises `SandboxError`, `not_found` where there is none."""
        with self._asked(f"{path} cannot be read in the sandbox"):
            data = self._sandbox.files.read(path, format="bytes")
        return data.encode() if isinstance(data, str) else bytes(data)

    def run_command(
        self,
        command: str,
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        on_output: OnOutput | None = None,
    ) -> SandboxCommandResult:
        """Run a line of bash to its end, or to its `timeout`, at which all of its processes are killed.

        cwd: the directory to run in, relative to the workspace. If left out: the workspace where files were
            put into it, else the template's own.
        """
        line, seconds = check_command(command), command_timeout(timeout, self._settings)
        variables = checked(env, self._settings)
        directory = posixpath.join(self._directory, cwd or "")
        with ExitStack() as stack:
            observer = stack.enter_context(Observer(on_output)) if on_output else None
            running = Command(
                self._sandbox, line, seconds=seconds, envs=variables, cwd=directory, observer=observer
            )
            stack.enter_context(self._asked("the command cannot be run in the sandbox"))
            running.run()
            return running.result()

    def get_host(self, port: int) -> str:
        """The host name under which a port of the sandbox is reached from anywhere."""
        if not 0 < port < 65536:
            raise SandboxError(f"{port} is no port: these are 1 to 65535")
        with self._asked(f"port {port} of the sandbox cannot be reached"):
            return str(self._sandbox.get_host(port))

    def kill(self) -> None:
        """End it, and what runs in it. Raises `SandboxError` where that could not be asked for."""
        if not self._ended:
            with self._service.asked("the sandbox cannot be ended"):
                self._sandbox.kill()
            self._ended = True

    def _asked(self, failing: str) -> AbstractContextManager[None]:
        if self._ended:
            raise SandboxError(f"{failing}: it was ended", code="sandbox_ended")
        return self._service.asked(failing)

    def _enter(self, path: str) -> None:
        """There is a workspace from the first file in it on."""
        if path.startswith(WORKSPACE_DIRECTORY + "/"):
            self._directory = WORKSPACE_DIRECTORY


def attach(sandbox_id: str, *, sandbox_cls: Any = None, settings: Settings | None = None) -> E2BSession:
    """A session on a sandbox that runs. How long it lives stays as it is.

    Raises `SandboxError`: `sandbox_ended` where it does not run; a paused one is not woken.
    """
    settings = settings or Settings.from_env()
    service = Service.of(sandbox_cls, settings)
    with service.asked(f"the sandbox {sandbox_id} cannot be reached"):
        state = service.sandbox_cls.get_info(sandbox_id, **service.options).state
        if getattr(state, "value", state) != "running":
            raise SandboxError(f"the sandbox {sandbox_id} does not run", code="sandbox_ended")
        # A running sandbox's life is only ever made longer by this, so a second leaves it alone. Without it
        # the SDK asks for minutes.
        sandbox = service.sandbox_cls.connect(sandbox_id, timeout=1, **service.options)
    return E2BSession(sandbox, service, settings)


def kill_sandbox(sandbox_id: str, *, sandbox_cls: Any = None, settings: Settings | None = None) -> bool:
    """End a sandbox by its id; False where there is none. Raises `SandboxError` where it cannot be asked."""
    service = Service.of(sandbox_cls, settings or Settings.from_env())
    with service.asked(f"the sandbox {sandbox_id} cannot be ended"):
        return bool(service.sandbox_cls.kill(sandbox_id, **service.options))


def checked(variables: Mapping[str, str] | None, settings: Settings) -> dict[str, str]:
    """Variables that may go into a sandbox. `environment_refused` for those that change what programs load,
    and for every key and token that this program is configured with, by its name and by its value."""
    found = check_variables(variables)
    for variable in Settings.variables():
        if variable.secret and found:
            secret = str(getattr(settings, variable.field) or "")
            for name, value in found.items():
                if name in variable.names or _holds(value, secret):
                    raise SandboxError(
                        f"{name} is or holds {variable.names[0]}, and no key or token goes into a sandbox",
                        code="environment_refused",
                        variable=name,
                    )
    return found


def _holds(value: str, secret: str) -> bool:
    if len(secret) < _SHORTEST_SECRET:
        return bool(secret) and value == secret
    return secret in value
