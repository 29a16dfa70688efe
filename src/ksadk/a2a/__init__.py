"""A2A 1.0. The names here are served when they are asked for, so that importing the package is free."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ksadk.a2a.card import JSONRPC_PATH, PROTOCOL_VERSION, REST_PATH, build_agent_card
    from ksadk.a2a.check import Finding, check_card
    from ksadk.a2a.client_errors import A2ARunError, AgentError
    from ksadk.a2a.hosted.app_routes import A2AConfig, add_a2a_protocol_routes
    from ksadk.a2a.hosted.bootstrap import AgentEngineA2ABootstrap
    from ksadk.a2a.hosted.contexts import A2AOwnerContextBuilder
    from ksadk.a2a.hosted.identity import A2AIngressIdentity
    from ksadk.a2a.hosted.metadata import RuntimeA2AMetadata
    from ksadk.a2a.hosted.verifiers import GatewayIdentityVerifier, GatewayProbeVerifier
    from ksadk.a2a.project import Project, detect_project
    from ksadk.a2a.runners.asking import ask, ask_async
    from ksadk.a2a.runners.base import (
        Artifact,
        AuthRequired,
        Call,
        Completed,
        DataPart,
        Event,
        Failed,
        InputRequired,
        RawPart,
        Rejected,
        Reply,
        RunnerError,
        Status,
        Text,
        TextPart,
        Thinking,
        UrlPart,
    )
    from ksadk.a2a.runners.callable import agent
    from ksadk.a2a.runners.detect import load_runner
    from ksadk.a2a.runners.runtime_types import (
        CancelResult,
        ResumePayload,
        RuntimeAdapter,
        RuntimeEvent,
        StartRequest,
    )
    from ksadk.a2a.runners.task_run import canceled
    from ksadk.a2a.space.client import A2ASpaceClient
    from ksadk.a2a.space.control_plane import A2AControlPlaneClient
    from ksadk.a2a.space.dispatcher import A2AEventDispatcher, A2AEventSink
    from ksadk.a2a.space.errors import A2AControlPlaneError, A2ASpaceError
    from ksadk.a2a.space.events import TaskEvent
    from ksadk.a2a.space.models import SpaceAgent
    from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox
    from ksadk.a2a.space.tasks import SpaceTask
    from ksadk.a2a.space.tokens import WorkloadTokens
    from ksadk.a2a.stores.base import default_owner_resolver
    from ksadk.a2a.stores.contexts import A2AContextIdentity, SQLiteA2AContextStore
    from ksadk.a2a.stores.opening import build_a2a_task_store
    from ksadk.a2a.stores.resume import (
        A2AResumeState,
        InMemoryA2AResumeStateStore,
        ResumeTarget,
        RunHandle,
        SQLiteA2AResumeStateStore,
    )
    from ksadk.a2a.stream import (
        A2AStreamEvent,
        stream_a2a_agent,
        stream_a2a_agent_events,
        stream_a2a_agent_to_writer,
    )

_HOME = {
    "A2AConfig": "hosted.app_routes",
    "add_a2a_protocol_routes": "hosted.app_routes",
    "AgentEngineA2ABootstrap": "hosted.bootstrap",
    "A2AOwnerContextBuilder": "hosted.contexts",
    "A2AIngressIdentity": "hosted.identity",
    "RuntimeA2AMetadata": "hosted.metadata",
    "GatewayIdentityVerifier": "hosted.verifiers",
    "GatewayProbeVerifier": "hosted.verifiers",
    "StartRequest": "runners.runtime_types",
    "ResumePayload": "runners.runtime_types",
    "CancelResult": "runners.runtime_types",
    "RuntimeAdapter": "runners.runtime_types",
    "RuntimeEvent": "runners.runtime_types",
    "JSONRPC_PATH": "card",
    "PROTOCOL_VERSION": "card",
    "REST_PATH": "card",
    "build_agent_card": "card",
    "Finding": "check",
    "check_card": "check",
    "Project": "project",
    "detect_project": "project",
    "A2ARunError": "client_errors",
    "AgentError": "client_errors",
    "A2AStreamEvent": "stream",
    "stream_a2a_agent": "stream",
    "stream_a2a_agent_events": "stream",
    "stream_a2a_agent_to_writer": "stream",
    "Artifact": "runners.base",
    "AuthRequired": "runners.base",
    "Call": "runners.base",
    "Completed": "runners.base",
    "DataPart": "runners.base",
    "Event": "runners.base",
    "Failed": "runners.base",
    "InputRequired": "runners.base",
    "RawPart": "runners.base",
    "Rejected": "runners.base",
    "Reply": "runners.base",
    "RunnerError": "runners.base",
    "Status": "runners.base",
    "Text": "runners.base",
    "TextPart": "runners.base",
    "Thinking": "runners.base",
    "UrlPart": "runners.base",
    "ask": "runners.asking",
    "ask_async": "runners.asking",
    "agent": "runners.callable",
    "load_runner": "runners.detect",
    "canceled": "runners.task_run",
    "A2AContextIdentity": "stores.contexts",
    "A2AResumeState": "stores.resume",
    "InMemoryA2AResumeStateStore": "stores.resume",
    "ResumeTarget": "stores.resume",
    "RunHandle": "stores.resume",
    "SQLiteA2AContextStore": "stores.contexts",
    "SQLiteA2AResumeStateStore": "stores.resume",
    "A2ASpaceClient": "space.client",
    "A2AControlPlaneClient": "space.control_plane",
    "A2AControlPlaneError": "space.errors",
    "A2AEventDispatcher": "space.dispatcher",
    "A2AEventSink": "space.dispatcher",
    "SQLiteA2AEventOutbox": "space.outbox",
    "A2ASpaceError": "space.errors",
    "SpaceAgent": "space.models",
    "SpaceTask": "space.tasks",
    "TaskEvent": "space.events",
    "WorkloadTokens": "space.tokens",
    "build_a2a_task_store": "stores.opening",
    "default_owner_resolver": "stores.base",
}

__all__ = [
    "JSONRPC_PATH",
    "PROTOCOL_VERSION",
    "REST_PATH",
    "A2AConfig",
    "A2AContextIdentity",
    "A2AControlPlaneClient",
    "A2AControlPlaneError",
    "A2AEventDispatcher",
    "A2AEventSink",
    "A2AIngressIdentity",
    "A2AOwnerContextBuilder",
    "A2AResumeState",
    "A2ARunError",
    "A2ASpaceClient",
    "A2ASpaceError",
    "A2AStreamEvent",
    "AgentEngineA2ABootstrap",
    "AgentError",
    "Artifact",
    "AuthRequired",
    "Call",
    "CancelResult",
    "Completed",
    "DataPart",
    "Event",
    "Failed",
    "Finding",
    "GatewayIdentityVerifier",
    "GatewayProbeVerifier",
    "InMemoryA2AResumeStateStore",
    "InputRequired",
    "Project",
    "RawPart",
    "Rejected",
    "Reply",
    "ResumePayload",
    "ResumeTarget",
    "RunHandle",
    "RunnerError",
    "RuntimeA2AMetadata",
    "RuntimeAdapter",
    "RuntimeEvent",
    "SQLiteA2AContextStore",
    "SQLiteA2AEventOutbox",
    "SQLiteA2AResumeStateStore",
    "SpaceAgent",
    "SpaceTask",
    "StartRequest",
    "Status",
    "TaskEvent",
    "Text",
    "TextPart",
    "Thinking",
    "UrlPart",
    "WorkloadTokens",
    "add_a2a_protocol_routes",
    "agent",
    "ask",
    "ask_async",
    "build_a2a_task_store",
    "build_agent_card",
    "canceled",
    "check_card",
    "default_owner_resolver",
    "detect_project",
    "load_runner",
    "stream_a2a_agent",
    "stream_a2a_agent_events",
    "stream_a2a_agent_to_writer",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
