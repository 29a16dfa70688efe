"""Commands as processes of this machine, or of this pod: bounded and timed, and not isolated."""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from ksadk.sandbox import processes
from ksadk.sandbox.base import (
    CANNOT_RUN_EXIT_CODE,
    LeftProcess,
    SandboxCommandResult,
    SandboxError,
    SandboxInputFile,
    check_command,
    command_timeout,
)
from ksadk.sandbox.environment import allowed, check_variables, for_command
from ksadk.sandbox.observing import Observer, OnOutput
from ksadk.sandbox.processes import MARK
from ksadk.sandbox.running import GRACE_SECONDS, OUTPUT_LIMIT_BYTES, Running, Runs, Why
from ksadk.settings import Settings


class LocalProcessSandboxBackend:
    """Runs commands in a workspace on this machine, with the user's rights: there is no isolation.

    workspace_root: the directory that commands run in, and that files are read and written in.
    backend_name: `local_process`, or `pod_process`, which `KSADK_ALLOW_POD_PROCESS_TOOLS` must allow.
    """

    def __init__(
        self,
        workspace_root: str | Path,
        backend_name: str = "local_process",
        *,
        output_limit: int = OUTPUT_LIMIT_BYTES,
    ) -> None:
        self.workspace_root = Path(workspace_root)
        self.backend_name = backend_name
        self.output_limit = output_limit

    def create_session(
        self,
        *,
        session_id: str,  # noqa: ARG002  # the protocol's
        env: Mapping[str, str] | None = None,
        input_files: Sequence[SandboxInputFile] | None = None,
    ) -> LocalProcessSession:
        """A session in the workspace. Raises `SandboxError` where the backend is not allowed, or an input
        file cannot be put there."""
        if self.backend_name == "pod_process" and not Settings.from_env().allow_pod_process_tools:
            raise SandboxError(
                "pod_process runs commands in this pod, with its files and network, and is not allowed",
                hint="Set KSADK_ALLOW_POD_PROCESS_TOOLS=1 if everyone who can start commands may do that.",
            )
        root = self.workspace_root.resolve()
        if not root.is_dir():
            raise SandboxError(f"the workspace {root} is not a directory")
        session = LocalProcessSession(root, self.backend_name, check_variables(env), self.output_limit)
        for file in input_files or ():
            session.write_file(file.target_path, file.read())
        return session


class LocalProcessSession:
    """Commands in a workspace of this machine."""

    def __init__(self, root: Path, backend_name: str, env: Mapping[str, str], output_limit: int) -> None:
        self.workspace_root = root
        self.sandbox_id = f"{backend_name}-{secrets.token_hex(8)}"
        self._env = env
        self._output_limit = output_limit
        self._runs = Runs()

    def run_command(
        self,
        command: str,
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        on_output: OnOutput | None = None,
    ) -> SandboxCommandResult:
        """As `SandboxSession`; a directory outside of the workspace is exit code 126."""
        variables = check_variables(env)
        deadline = time.monotonic() + command_timeout(timeout)
        directory = self._directory(cwd)
        if directory is None:
            return SandboxCommandResult("", f"{cwd}: no directory of the workspace\n", CANNOT_RUN_EXIT_CODE)
        mark = secrets.token_hex(16)
        inherited = allowed(Settings.from_env().given())
        with ExitStack() as stack:
            observer = stack.enter_context(Observer(on_output)) if on_output else None
            running = stack.enter_context(
                Running(
                    [bash(), "-c", check_command(command)],
                    for_command(inherited, self._env, variables, {MARK: mark}),
                    functools.partial(_finish, mark, processes.now() if processes.HAS_PROC else 0),
                    cwd=directory,
                    limit=self._output_limit,
                    observer=observer,
                )
            )
            stack.enter_context(self._runs.holding(running))
            return running.wait(deadline).result()

    def write_file(self, path: str, data: bytes | str) -> None:
        """Write a file of the workspace. Raises `SandboxError` for one outside."""
        real = self._inside(path)
        try:
            real.parent.mkdir(parents=True, exist_ok=True)
            real.write_bytes(data.encode() if isinstance(data, str) else data)
        except OSError as error:
            raise SandboxError(f"{path} cannot be written: {error.strerror}") from error

    def read_file(self, path: str) -> bytes:
        """The bytes of a file of the workspace. Raises `SandboxError` for one outside."""
        try:
            return self._inside(path).read_bytes()
        except OSError as error:
            raise SandboxError(f"{path} cannot be read: {error.strerror}") from error

    def get_host(self, port: int) -> str:
        """The ports are this machine's own."""
        return f"127.0.0.1:{port}"

    def kill(self) -> None:
        """End the commands that run now; nothing else is there to end."""
        self._runs.end()

    def _directory(self, cwd: str | None) -> Path | None:
        """The directory to run in, or None where it is outside of the workspace, or none."""
        if not cwd:
            return self.workspace_root
        try:
            found = self._inside(cwd)
        except SandboxError:
            return None
        return found if found.is_dir() else None

    def _inside(self, path: str) -> Path:
        try:
            real = (self.workspace_root / path).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise SandboxError(f"{path!r} is no path: {error}") from error
        if not real.is_relative_to(self.workspace_root):
            raise SandboxError(f"{path} is outside of the workspace {self.workspace_root}")
        return real


def _finish(mark: str, since: int, running: Running, why: Why) -> tuple[LeftProcess, ...]:
    left = processes.end(lambda: processes.of_command(running.process.pid, mark, since), GRACE_SECONDS)
    if not running.exited(0 if why == "ended" else GRACE_SECONDS):
        running.process.kill()
    return left


@functools.cache
def bash() -> str:
    """The shell that commands are for. Raises `SandboxError` where it is not installed."""
    for path in ("/bin/bash", "/usr/bin/bash"):
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("bash")
    if found is None:
        raise SandboxError("bash is not installed, which commands are run by", hint="Install bash.")
    return found
