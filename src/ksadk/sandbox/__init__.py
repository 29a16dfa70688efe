"""Sandboxes. The names here are served when they are asked for, so that importing the package is free."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ksadk.sandbox.base import (
        Denial,
        LeftProcess,
        SandboxBackend,
        SandboxCommandResult,
        SandboxError,
        SandboxInputFile,
        SandboxSession,
        SandboxSpec,
        SandboxType,
        sandbox_spec_from_env,
    )
    from ksadk.sandbox.bubblewrap import BubblewrapSandboxBackend
    from ksadk.sandbox.choice import create_sandbox_backend
    from ksadk.sandbox.e2b import E2BSandboxBackend
    from ksadk.sandbox.local_process import LocalProcessSandboxBackend

_HOME = {
    "Denial": "base",
    "LeftProcess": "base",
    "SandboxBackend": "base",
    "SandboxCommandResult": "base",
    "SandboxError": "base",
    "SandboxInputFile": "base",
    "SandboxSession": "base",
    "SandboxSpec": "base",
    "SandboxType": "base",
    "sandbox_spec_from_env": "base",
    "BubblewrapSandboxBackend": "bubblewrap",
    "E2BSandboxBackend": "e2b",
    "LocalProcessSandboxBackend": "local_process",
    "create_sandbox_backend": "choice",
}

__all__ = [
    "BubblewrapSandboxBackend",
    "Denial",
    "E2BSandboxBackend",
    "LeftProcess",
    "LocalProcessSandboxBackend",
    "SandboxBackend",
    "SandboxCommandResult",
    "SandboxError",
    "SandboxInputFile",
    "SandboxSession",
    "SandboxSpec",
    "SandboxType",
    "create_sandbox_backend",
    "sandbox_spec_from_env",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
