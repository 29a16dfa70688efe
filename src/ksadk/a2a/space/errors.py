"""What goes wrong in a Space, one error for each thing; none holds a token, a permit or a credential."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import httpx

from ksadk.errors import CODES, KsadkError

EgressCode = Literal[
    "A2A_EGRESS_TRANSPORT_REQUIRED",
    "A2A_VPC_EGRESS_DIALER_REQUIRED",
    "A2A_CREDENTIAL_INJECTION_CONFLICT",
    "A2A_EGRESS_REFUSED",
    "A2A_EGRESS_LIMIT_EXCEEDED",
    "A2A_EGRESS_ADDRESS_REFUSED",
    "A2A_EGRESS_REDIRECT_REFUSED",
    "A2A_EGRESS_TIMEOUT",
    "A2A_PLATFORM_TOKEN_REFUSED",
]
RemoteTaskCode = Literal[
    "A2A_REMOTE_TASK_NOT_BOUND", "A2A_REMOTE_BINDING_CONFLICT", "A2A_CONTEXT_MAPPING_NOT_FOUND"
]

UNAVAILABLE = "A2A_CONTROL_PLANE_UNAVAILABLE"
INVALID_RESPONSE = "A2A_CONTROL_PLANE_INVALID_RESPONSE"
CONTROL_PLANE_ERROR = "A2A_CONTROL_PLANE_ERROR"
VERSION_CHANGED = "A2A_TARGET_VERSION_CHANGED"

_OTHER_TOKENS = "Are the tokens in KSADK_A2A_TOKEN_DIR, or the public service's keys, those of who was asked?"


class A2ASpaceError(KsadkError):
    """Something in a Space cannot be done."""


class SpaceNotConfigured(A2ASpaceError):
    """No Space, or not that one, is configured here."""

    code = "space_not_configured"


class InvalidId(A2ASpaceError, ValueError):
    """An id that is no id: ids are opaque, of 1 to 256 printable characters."""

    code = "A2A_INVALID_ID"


class InvalidMessage(A2ASpaceError, ValueError):
    """A message that breaks a rule; nothing was asked of anybody."""

    code = "A2A_INVALID_MESSAGE"


class AgentNotCallable(A2ASpaceError):
    """The Space lists the agent and says that it must not be called. `blocked_reason` is the Space's."""

    code = "A2A_AGENT_NOT_CALLABLE"

    def __init__(self, agent_id: str, blocked_reason: str) -> None:
        super().__init__(
            f"the agent {agent_id} cannot be called: {blocked_reason or 'the Space gave no reason'}",
            hint="Discover the Space's agents again once that is settled.",
            agent_id=agent_id,
            blocked_reason=blocked_reason,
        )
        self.blocked_reason = blocked_reason


class RemoteTaskError(A2ASpaceError):
    """The platform's task and the agent's do not fit each other."""

    def __init__(
        self, message: str, *, code: RemoteTaskCode, hint: str | None = None, **details: Any
    ) -> None:
        super().__init__(message, code=code, hint=hint, **details)


class WorkloadTokenError(A2ASpaceError, RuntimeError):
    """A workload token that is not there, that others could have written or read, or that does not count."""

    code = "A2A_WORKLOAD_TOKEN_UNUSABLE"


class GatewayOriginRefused(A2ASpaceError, PermissionError):
    """A hosted agent's address that the gateway token and the permit are not shown to."""

    code = "A2A_GATEWAY_ORIGIN_REFUSED"


class A2APublicEgressDisabled(A2ASpaceError, PermissionError):
    """Public external agents may not be called; no credential was asked for."""

    code = "A2A_PUBLIC_EGRESS_DISABLED"


class A2AEgressError(A2ASpaceError):
    """An external agent is not called, or its answer is not taken."""

    def __init__(self, message: str, *, code: EgressCode, hint: str | None = None, **details: Any) -> None:
        super().__init__(message, code=code, hint=hint, **details)


class RedirectRefused(A2AEgressError, httpx.RemoteProtocolError):
    """An external agent sends elsewhere instead of answering."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="A2A_EGRESS_REDIRECT_REFUSED")


class A2AControlPlaneError(A2ASpaceError):
    """The control plane refused, failed, or could not be understood.

    code: the number that it gave, else the HTTP status: 503 where it cannot be reached, 502 where its answer
        is unusable.
    error_code: its own name of the error, such as `A2A_TARGET_VERSION_CHANGED`.
    retryable: whether the same request may succeed later.
    field, details: what of the request it is about.
    """

    def __init__(
        self,
        code: int,
        message: str,
        error_code: str = CONTROL_PLANE_ERROR,
        retryable: bool = False,
        field: str = "",
        details: Mapping[str, Any] | None = None,
        request_id: str = "",
        action: str = "",
        *,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint or (_OTHER_TOKENS if code == 401 else None))
        self.details = dict(details or {})
        self.code = code  # type: ignore[assignment]  # the platform's contract: here it is a number
        self.error_code = error_code
        self.retryable = retryable
        self.field = field
        self.request_id = request_id
        self.action = action

    def __str__(self) -> str:
        said = f"{self.action}: {self.message}" if self.action else self.message
        return f"{said} [{self.error_code}]" + (f" (request {self.request_id})" if self.request_id else "")

    @property
    def error_type(self) -> str:
        """The control plane's name where it is one of A2A's in `CODES`: of what is decided here, such as
        `denied_by_rule`, it can say nothing. Else one that tells whether it is about credentials."""
        known = self.error_code in CODES and self.error_code.startswith("A2A_")
        if known and self.error_code != CONTROL_PLANE_ERROR:
            return self.error_code
        refused = int(self.code) in (401, 403)
        return "A2A_CONTROL_PLANE_DENIED" if refused else CONTROL_PLANE_ERROR

    def result_fields(self) -> dict[str, Any]:
        """The control plane's details stand under `details`, where they take no other field's place."""
        return {
            "control_plane_code": self.code, "error_code": self.error_code, "retryable": self.retryable,
            "field": self.field, "details": self.details, "request_id": self.request_id,
            "action": self.action,
        }  # fmt: skip
