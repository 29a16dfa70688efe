"""The sandboxes that skills run in, each as the skill runtime takes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksadk.settings import Settings
from ksadk.toolsets.skill_runtime import runtime_template

if TYPE_CHECKING:
    from ksadk.sandbox import E2BSandboxBackend
    from ksadk.skills.runtime.base import Sandbox

_LATE_SECONDS = 180
"""How much longer than its workflow a remote sandbox lives, so that what was made can be fetched."""


@dataclass(frozen=True)
class LocalSandboxes:
    """Processes of this machine, with the user's rights."""

    name: str = "local_process"
    isolated: bool = False
    shared: bool = True

    def check(self) -> None:
        """Nothing is needed."""

    def start(self, directory: Path, *, session_id: str, seconds: float) -> Sandbox:  # noqa: ARG002
        """A sandbox that is known as `local:<session>`."""
        from ksadk.sandbox import LocalProcessSandboxBackend

        session = LocalProcessSandboxBackend(directory).create_session(session_id=session_id)
        session.sandbox_id = f"local:{session_id}"
        return session

    def inside(self, directory: Path) -> str:
        """The directory itself."""
        return str(directory.resolve())

    def words(self) -> str:
        """For whoever is asked."""
        return "processes of this machine with your rights and its network, which is no isolation"


@dataclass(frozen=True)
class BubblewrapSandboxes:
    """Isolated from this machine, and without a network."""

    name: str = "bubblewrap"
    isolated: bool = True
    shared: bool = True

    def check(self) -> None:
        """Raises `SandboxError`, with what to do, where bubblewrap does not work here."""
        from ksadk.sandbox.probe import probe

        probe().bubblewrap()

    def start(self, directory: Path, *, session_id: str, seconds: float) -> Sandbox:  # noqa: ARG002
        """A sandbox whose workspace is the run's directory."""
        from ksadk.sandbox import BubblewrapSandboxBackend

        return BubblewrapSandboxBackend(directory).create_session(session_id=session_id)

    def inside(self, directory: Path) -> str:  # noqa: ARG002  # all are at the same place
        """The workspace."""
        from ksadk.sandbox.base import WORKSPACE_DIRECTORY

        return WORKSPACE_DIRECTORY

    def words(self) -> str:
        """For whoever is asked."""
        return "an isolated sandbox of this machine, without network, in a directory of its own"


class E2BSandboxes:
    """Isolated, and somewhere else."""

    name = "e2b"
    isolated = True
    shared = False

    def __init__(self, settings: Settings, sandbox_cls: Any = None) -> None:
        self._settings = settings
        self._sandbox_cls = sandbox_cls

    def check(self) -> None:
        """Raises `SandboxError` where there is no template, no key or no SDK."""
        from ksadk.sandbox.e2b_service import Service

        self._backend(0)
        Service.of(self._sandbox_cls, self._settings)

    def start(self, directory: Path, *, session_id: str, seconds: float) -> Sandbox:  # noqa: ARG002
        """A new sandbox of the template for skills, else of that for commands."""
        return self._backend(seconds).create_session(session_id=session_id)

    def _backend(self, seconds: float) -> E2BSandboxBackend:
        from ksadk.sandbox import E2BSandboxBackend, sandbox_spec_from_env

        spec = sandbox_spec_from_env(self._settings)
        lifetime = max(spec.timeout, int(seconds) + _LATE_SECONDS)
        spec = replace(spec, template_id=runtime_template(self._settings), timeout=lifetime)
        return E2BSandboxBackend(spec, self._sandbox_cls, settings=self._settings)

    def inside(self, directory: Path) -> str:  # noqa: ARG002
        """The workspace."""
        from ksadk.sandbox.base import WORKSPACE_DIRECTORY

        return WORKSPACE_DIRECTORY

    def words(self) -> str:
        """For whoever is asked."""
        network = "with" if self._settings.sandbox_allow_internet_access else "without"
        return f"a new sandbox of E2B, {network} network, from template {runtime_template(self._settings)}"
