"""What every sandbox is: its protocols, what a command's run came to, and what a new one is asked to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ksadk.errors import KsadkError
from ksadk.sandbox.observing import OnOutput
from ksadk.settings import Settings

_COMMAND_SECONDS = 600
"""How long one command may run where `KSADK_SANDBOX_TIMEOUT` does not say it."""

SANDBOX_LIFETIME_SECONDS = 900
"""How long an E2B sandbox lives where `KSADK_SANDBOX_TIMEOUT` does not say it."""

TIMEOUT_EXIT_CODE = 124
CANNOT_RUN_EXIT_CODE = 126
OUTPUT_LIMIT_EXIT_CODE = 137

MAX_LEFT = 50
"""How many of the processes that were left a result names."""

WORKSPACE_DIRECTORY = "/workspace"
"""Where an isolated sandbox has the workspace."""


class SandboxError(KsadkError, RuntimeError):
    """There is no sandbox to run in, or it failed. That a command failed is a result, not this."""

    code = "SandboxError"


class SandboxType(StrEnum):
    """What a remote sandbox is made for."""

    AIO = "aio"
    CODE = "code"
    BROWSER = "browser"
    PRIVATE = "private"

    @classmethod
    def from_value(cls, value: SandboxType | str | None) -> SandboxType:
        """The type of a word in any case; `thread`, like no word at all, is `aio`. Raises `SandboxError`."""
        word = str(value or cls.AIO).strip().lower()
        if word == "thread":
            return cls.AIO
        try:
            return cls(word)
        except ValueError:
            raise SandboxError(
                f"{value!r} is no type of sandbox", hint=f"Use {', '.join(cls)} or thread."
            ) from None


@dataclass(frozen=True)
class SandboxInputFile:
    """A file of this machine, and the path that a new sandbox has its bytes at."""

    source: str | Path
    target_path: str

    def read(self) -> bytes:
        """Its bytes. Raises `SandboxError`."""
        try:
            return Path(self.source).read_bytes()
        except OSError as error:
            raise SandboxError(
                f"{self.source} cannot be read, so it is not put into the sandbox: {error.strerror}"
            ) from error


@dataclass(frozen=True)
class LeftProcess:
    """A process that still ran when its command's shell had ended, or when its time was over.

    `pid` as this machine counts, 0 where that is not known; `killed` False where the system refused to.
    """

    pid: int
    command: str
    killed: bool = True


@dataclass(frozen=True)
class Denial:
    """Something that the sandbox did not let a command do, so that what was blocked does not look broken.

    what: network, write, memory, processes, cpu, file_size, disk, time or output.
    rule: the sentence that forbids it.
    allow: what would allow it.
    """

    what: str
    rule: str
    allow: str


@dataclass(frozen=True)
class SandboxCommandResult:
    """What a command printed, and how it ended.

    stdout, stderr: text; bytes that are no UTF-8 became U+FFFD, and `encoding_errors` counts these.
    exit_code: the shell's, 128 + n where signal n ended it; 124 where the time was over (`timed_out`), 126
        where the directory to run in is not there, 137 where it printed too much (`output_limit_exceeded`).
    stdout_bytes, stderr_bytes: how much was printed. Where that is more than is kept, `..._truncated` is
        True, and the text is the beginning, a line that says how much is missing, and the end.
    left_processes: what still ran at the end, and was killed; the first 50.
    """

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool = False
    encoding_errors: int = 0
    left_processes: tuple[LeftProcess, ...] = ()
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    output_limit_exceeded: bool = False
    denials: tuple[Denial, ...] = ()
    duration_seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the command succeeded, in time."""
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True)
class SandboxSpec:
    """What a remote sandbox is created as. `timeout` is its lifetime in seconds."""

    template_id: str
    sandbox_type: SandboxType = SandboxType.AIO
    timeout: int = SANDBOX_LIFETIME_SECONDS
    allow_internet_access: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)


class SandboxSession(Protocol):
    """A sandbox that commands are run in. Its methods may be called from any thread."""

    @property
    def sandbox_id(self) -> str:
        """Tells it from every other."""

    def write_file(self, path: str, data: bytes | str) -> None:
        """Write a file, with the directories above it. Raises `SandboxError`."""

    def read_file(self, path: str) -> bytes:
        """The bytes of a file. Raises `SandboxError`."""

    def run_command(
        self,
        command: str,
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        on_output: OnOutput | None = None,
    ) -> SandboxCommandResult:
        """Run a line of bash to its end.

        timeout: seconds; as configured if left out.
        env: further variables. One that changes what programs load is refused (`environment_refused`).
        cwd: the directory to run in; the workspace if left out.
        on_output: is given what it prints, as it prints it, from another thread. One that is slow or raises
            misses something; the command never waits for it.

        A command that fails is a result. Raises `SandboxError` where there was no running it.
        """

    def get_host(self, port: int) -> str:
        """The host name under which a port of the sandbox is reached. Raises `SandboxError` if it is not."""

    def kill(self) -> None:
        """End it, and what runs in it. A second call does nothing."""


class SandboxBackend(Protocol):
    """Starts sandboxes of one kind."""

    def create_session(
        self,
        *,
        session_id: str,
        env: Mapping[str, str] | None = None,
        input_files: Sequence[SandboxInputFile] | None = None,
    ) -> SandboxSession:
        """Start one. `env` are variables for all its commands. Raises `SandboxError`."""


def check_command(command: str) -> str:
    """A line for bash. Raises `SandboxError` for one that no process can be given."""
    if "\0" in command:
        raise SandboxError("the command holds a NUL character")
    try:
        command.encode()
    except UnicodeEncodeError as error:
        raise SandboxError(f"the command is no text: {error}") from error
    return command


def command_timeout(timeout: float | None = None, settings: Settings | None = None) -> float:
    """The seconds that a command may run: what was asked for, else what is configured."""
    if timeout is not None:
        if not timeout > 0:
            raise SandboxError(f"a timeout of {timeout} seconds is no time to run in")
        return float(timeout)
    return float(longest_command(settings))


def longest_command(settings: Settings | None = None) -> int:
    """The seconds that a command may run, as configured."""
    return (settings or Settings.from_env()).sandbox_timeout or _COMMAND_SECONDS


def sandbox_spec_from_env(settings: Settings | None = None) -> SandboxSpec:
    """What the environment says of a remote sandbox. The template's id is empty where none is set."""
    settings = settings or Settings.from_env()
    return SandboxSpec(
        template_id=settings.sandbox_template_id,
        sandbox_type=SandboxType.from_value(settings.sandbox_type),
        timeout=settings.sandbox_timeout or SANDBOX_LIFETIME_SECONDS,
        allow_internet_access=settings.sandbox_allow_internet_access,
    )
