"""A2A 1.0. The names here are served when they are asked for, so that importing the package is free."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ksadk.a2a.card import JSONRPC_PATH, PROTOCOL_VERSION, REST_PATH, build_agent_card
    from ksadk.a2a.check import Finding, check_card
    from ksadk.a2a.project import Project, detect_project

_HOME = {
    "JSONRPC_PATH": "card",
    "PROTOCOL_VERSION": "card",
    "REST_PATH": "card",
    "build_agent_card": "card",
    "Finding": "check",
    "check_card": "check",
    "Project": "project",
    "detect_project": "project",
}

__all__ = [
    "JSONRPC_PATH",
    "PROTOCOL_VERSION",
    "REST_PATH",
    "Finding",
    "Project",
    "build_agent_card",
    "check_card",
    "detect_project",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
