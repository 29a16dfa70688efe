"""Which sandbox there is: the one that is named, else the one that this machine and its settings allow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksadk.runtime_context import get_current_workspace_root
from ksadk.sandbox.verdicts import find_bwrap, known, unavailable
from ksadk.sessions import make_session_dir, resolve_local_session_dir
from ksadk.settings import Settings, read_backend

if TYPE_CHECKING:
    from ksadk.sandbox.base import SandboxBackend, SandboxError

BACKENDS = ("none", "local_process", "pod_process", "bubblewrap", "e2b")
ISOLATED = frozenset({"bubblewrap", "e2b"})


def chosen_backend(settings: Settings | None = None) -> str:
    """The backend's name: what is set, else e2b where a template is, else bubblewrap where a bwrap is that is
    not known to fail, else none. Starts nothing: the first command finds out."""
    settings = settings or Settings.from_env()
    if settings.sandbox_backend:
        return settings.sandbox_backend
    if settings.sandbox_template_id:
        return "e2b"
    verdict = known()
    works = find_bwrap() is not None if verdict is None else verdict.works
    return "bubblewrap" if works else "none"


def create_sandbox_backend(
    backend: str | None = None,
    *,
    sandbox_cls: Any = None,
    workspace_root: str | Path | None = None,
    net: bool = False,
) -> SandboxBackend:
    """What starts sandboxes: of the backend that is named, else of the one that is chosen.

    sandbox_cls: E2B's `Sandbox`, or what stands for it.
    workspace_root: the workspace; the tools' own if left out.
    net: whether commands have a network, where the backend has a say in that.

    Raises `SandboxError` where there is none: nothing is run without a sandbox instead.
    """
    from ksadk.sandbox.base import SandboxError  # what a list of tools need not wait for

    name = read_backend(backend) if backend else chosen_backend()
    if name == "e2b":
        from ksadk.sandbox.e2b import E2BSandboxBackend  # a heavy library

        return E2BSandboxBackend(sandbox_cls=sandbox_cls)
    if name == "none":
        raise _none()
    if name not in BACKENDS:
        raise SandboxError(
            f"there is no sandbox backend {name!r}",
            hint=f"Set KSADK_SANDBOX_BACKEND to {', '.join(BACKENDS)}.",
            backend=f"sandbox/{name}",
        )
    root = _workspace_root() if workspace_root is None else Path(workspace_root)
    if name == "bubblewrap":
        from ksadk.sandbox.bubblewrap import BubblewrapSandboxBackend

        return BubblewrapSandboxBackend(root, net=net)
    from ksadk.sandbox.local_process import LocalProcessSandboxBackend

    return LocalProcessSandboxBackend(root, name)


def _none() -> SandboxError:
    """Why there is no sandbox: nothing was chosen because bubblewrap does not work, or it was turned off."""
    from ksadk.sandbox.base import SandboxError

    if not Settings.from_env().sandbox_backend:
        from ksadk.sandbox.probe import probe

        verdict = probe()
        if not verdict.works:
            return unavailable(verdict)
    return SandboxError(
        "the sandbox is turned off, so nothing was run",
        hint="Set KSADK_SANDBOX_BACKEND=bubblewrap (this machine) or e2b.",
        backend="sandbox/none",
    )


def _workspace_root() -> Path:
    chosen = get_current_workspace_root()
    if chosen is not None:
        return Path(chosen)
    root = resolve_local_session_dir() / "workspace"
    make_session_dir(root)
    return root
