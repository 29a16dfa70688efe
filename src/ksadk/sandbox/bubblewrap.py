"""The isolated sandbox of this machine: each command in namespaces of its own, with the workspace inside."""

from __future__ import annotations

import posixpath
import secrets
import shlex
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from ksadk.sandbox import isolated
from ksadk.sandbox.base import (
    WORKSPACE_DIRECTORY,
    SandboxCommandResult,
    SandboxError,
    SandboxInputFile,
    check_command,
    command_timeout,
)
from ksadk.sandbox.environment import check_variables
from ksadk.sandbox.isolated import Bubblewrap, NotStarted, Place
from ksadk.sandbox.limits import MIB, Limits
from ksadk.sandbox.observing import Observer, OnOutput
from ksadk.sandbox.output import HEAD_BYTES, TAIL_BYTES
from ksadk.sandbox.probe import probe
from ksadk.sandbox.running import OUTPUT_LIMIT_BYTES, Runs

MAX_FILE_BYTES = 16 * MIB
"""Of a file that is written or read through a session."""

_TEMPORARY = "/tmp"
_CARRIED = "/tmp/.ksadk-file"
_FILE_SECONDS = 60.0


class BubblewrapSandboxBackend:
    """Runs commands of a workspace in bubblewrap.

    workspace_root: the directory that is `/workspace` inside.
    net: whether commands have this machine's network; else they have none.
    limits: what one command may use.
    hidden: files and directories of the workspace that are kept from commands.
    original: what the workspace is a copy of; the Python environment is that one's.
    output_limit: bytes that a command may print.
    """

    def __init__(
        self,
        workspace_root: str | Path,
        *,
        net: bool = False,
        limits: Limits | None = None,
        hidden: Sequence[str | Path] = (),
        original: Path | None = None,
        output_limit: int = OUTPUT_LIMIT_BYTES,
    ) -> None:
        self.workspace_root = Path(workspace_root)
        self.net = net
        self.limits = limits or Limits()
        self.hidden = tuple(Path(path) for path in hidden)
        self.original = original
        self.output_limit = output_limit

    def create_session(
        self,
        *,
        session_id: str,  # noqa: ARG002  # the protocol's
        env: Mapping[str, str] | None = None,
        input_files: Sequence[SandboxInputFile] | None = None,
    ) -> BubblewrapSession:
        """A session in the workspace. Raises `SandboxError`, with its cause and what to do, where bubblewrap
        does not work here: nothing is ever run without it instead."""
        root = self.workspace_root.resolve()
        if not root.is_dir() or root == Path("/"):
            raise SandboxError(f"{root} is no directory to make a workspace of")
        bubblewrap = probe().bubblewrap()
        place = Place(root, self.net, self.limits, self.hidden, self.original)
        session = BubblewrapSession(bubblewrap, place, check_variables(env), self.output_limit)
        for file in input_files or ():
            session.write_file(file.target_path, file.read())
        return session


class BubblewrapSession:
    """Commands in bubblewrap: each in a new sandbox, all with the same workspace. /tmp is new each time, but
    for the files that were written there through the session."""

    def __init__(
        self, bubblewrap: Bubblewrap, place: Place, env: Mapping[str, str], output_limit: int
    ) -> None:
        self.sandbox_id = f"bubblewrap-{secrets.token_hex(8)}"
        self.workspace_root = place.root
        self._bubblewrap = bubblewrap
        self._place = place
        self._env = env
        self._output_limit = output_limit
        self._lock = threading.Lock()
        self._runs = Runs()
        self._files: dict[str, bytes] = {}

    def run_command(
        self,
        command: str,
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        on_output: OnOutput | None = None,
    ) -> SandboxCommandResult:
        """As `SandboxSession`. `cwd` may be relative to the workspace."""
        variables = {**self._env, **check_variables(env)}
        line, seconds = check_command(command), command_timeout(timeout)
        with ExitStack() as stack:
            observer = stack.enter_context(Observer(on_output)) if on_output else None
            done = self._start(line, seconds, variables, _absolute(cwd), self._files, observer=observer)
            return done.result()

    def write_file(self, path: str, data: bytes | str) -> None:
        """Write a file from inside, so that what a command may not write, this may not either."""
        content = data.encode() if isinstance(data, str) else bytes(data)
        if len(content) > MAX_FILE_BYTES:
            raise SandboxError(f"{path} has more than {MAX_FILE_BYTES // MIB} MiB")
        place = _absolute(path)
        if posixpath.dirname(place) == _TEMPORARY:  # which is new for each command
            with self._lock:
                if sum(map(len, self._files.values())) + len(content) > self._place.limits.tmp_bytes:
                    raise SandboxError("/tmp is full", hint="Write below /workspace.")
                self._files = {**self._files, place: content}
            return
        where = shlex.quote(place)
        line = f'mkdir -p -- "$(dirname -- {where})" && cat {_CARRIED} > {where}'
        result = self._run(line, _FILE_SECONDS, {}, WORKSPACE_DIRECTORY, {_CARRIED: content})
        if result.exit_code != 0:
            raise SandboxError(f"{path} cannot be written: {result.stderr.strip()}")

    def read_file(self, path: str) -> bytes:
        """The bytes of a file, read from inside."""
        place = _absolute(path)
        if place in self._files:
            return self._files[place]
        done = self._start(
            f"exec cat -- {shlex.quote(place)}", _FILE_SECONDS, {}, WORKSPACE_DIRECTORY, {},
            keep=(MAX_FILE_BYTES, 1),
        )  # fmt: skip
        content, result = done.stdout(), done.result()
        if result.exit_code != 0:
            raise SandboxError(f"{path} cannot be read: {result.stderr.strip()}")
        if result.stdout_bytes > MAX_FILE_BYTES:
            raise SandboxError(f"{path} has more than {MAX_FILE_BYTES // MIB} MiB")
        return content

    def remove_file(self, path: str) -> None:
        """Forget a file that was put into /tmp."""
        with self._lock:
            self._files = {name: data for name, data in self._files.items() if name != _absolute(path)}

    def get_host(self, port: int) -> str:
        """A port of a sandbox is reached where it has this machine's network."""
        if not self._place.net:
            raise SandboxError(
                f"port {port} of the sandbox cannot be reached: it has no network", hint="Use net=True."
            )
        return f"127.0.0.1:{port}"

    def kill(self) -> None:
        """End the commands that run now; the files that were put into /tmp are forgotten."""
        self._runs.end()
        with self._lock:
            self._files = {}

    def _run(
        self, command: str, timeout: float, env: Mapping[str, str], cwd: str, files: Mapping[str, bytes]
    ) -> SandboxCommandResult:
        return self._start(command, timeout, env, cwd, files).result()

    def _start(
        self,
        command: str,
        timeout: float,
        env: Mapping[str, str],
        cwd: str,
        files: Mapping[str, bytes],
        *,
        keep: tuple[int, int] = (HEAD_BYTES, TAIL_BYTES),
        observer: Observer | None = None,
    ) -> isolated.Done:
        try:
            return isolated.run(
                self._bubblewrap, self._place, command, timeout=timeout, env=env, cwd=cwd, files=files,
                watch=self._runs.holding, output_limit=self._output_limit, keep=keep, observer=observer,
            )  # fmt: skip
        except NotStarted as error:
            if self._runs.ended:
                raise SandboxError("the sandbox was ended", code="sandbox_ended") from error
            probe(fresh=True).bubblewrap()  # raises, with the cause, where nothing works any more
            raise SandboxError(f"a sandbox for {self.workspace_root} cannot be set up: {error}") from error


def _absolute(path: str | None) -> str:
    """A path of the sandbox, relative ones from the workspace. Raises `SandboxError` for what is none."""
    if path and "\0" in path:
        raise SandboxError(f"{path!r} is no path")
    return posixpath.normpath(posixpath.join(WORKSPACE_DIRECTORY, path or ""))
