"""What the control plane answers: the envelope `{Code, Message, RequestId, Action, Data}`, or an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ksadk.a2a.client_errors import AgentError
from ksadk.a2a.space.errors import (
    CONTROL_PLANE_ERROR,
    INVALID_RESPONSE,
    UNAVAILABLE,
    A2AControlPlaneError,
)
from ksadk.a2a.space.fields import InvalidPayload, flag, object_of, text
from ksadk.a2a.wire import parse_json

T = TypeVar("T")

_SHOWN = 300
"""How many characters of the control plane's message an error quotes."""


def opened(
    action: str, status: int, body: bytes, *, success: tuple[int | str | None, ...] = (0,)
) -> dict[str, Any]:
    """The Data of an answer that says yes, by its Code; `A2AControlPlaneError` for any other. Secrets are
    taken out of the body before."""
    if 300 <= status < 400:
        raise invalid(action, f"HTTP {status} and a redirect, which is not followed")
    try:
        envelope = parse_json(body)
    except AgentError as error:
        if status >= 500:
            raise unavailable(action, f"the control plane answered HTTP {status}", status) from error
        raise invalid(action, f"HTTP {status} and no JSON") from error
    if not isinstance(envelope, dict):
        raise invalid(action, "no JSON object")
    code = envelope.get("Code")
    if status < 400 and not isinstance(code, bool) and code in success:
        code = 0
    if code is None and status >= 400:
        code = status
    if not isinstance(code, int) or isinstance(code, bool):
        raise invalid(action, "an answer whose Code is no number")
    data = envelope.get("Data")
    if data is None and (code or status >= 400):
        data = {}
    if not isinstance(data, dict):
        raise invalid(action, "an answer whose Data is no object")
    if code == 0 and status < 400:
        return data
    raise understood(action, data, lambda found: _refusal(action, status, code or status, envelope, found))


def understood(action: str, data: Mapping[str, Any], read: Callable[[Mapping[str, Any]], T]) -> T:
    """What `read` makes of the Data of an answer; a field that is not what it must be is an error."""
    try:
        return read(data)
    except InvalidPayload as error:
        raise invalid(action, f"an answer that cannot be used: {error}") from error


def unavailable(action: str, why: str, code: int = 503) -> A2AControlPlaneError:
    """The error where the control plane is not there, which may pass."""
    return A2AControlPlaneError(
        code, why, UNAVAILABLE, True, action=action,
        hint="Does it run, and is KSADK_A2A_CONTROL_PLANE_URL its address?",
    )  # fmt: skip


def invalid(action: str, what: str) -> A2AControlPlaneError:
    """The error of an answer that is not what it must be."""
    return A2AControlPlaneError(
        502, f"the control plane answered {what}", INVALID_RESPONSE, action=action,
        hint="Is KSADK_A2A_CONTROL_PLANE_URL the address of a Space control plane?",
    )  # fmt: skip


def _refusal(
    action: str, status: int, code: int, envelope: Mapping[str, Any], data: Mapping[str, Any]
) -> A2AControlPlaneError:
    details = data.get("Details")
    return A2AControlPlaneError(
        code,
        _words(envelope.get("Message")) or f"the control plane refused with HTTP {status} and no reason",
        _words(text(data, "ErrorCode", default="")) or CONTROL_PLANE_ERROR,
        flag(data, "Retryable", default=status >= 500),
        _words(text(data, "Field", default="")),
        {} if details is None else object_of(details, "Details"),
        _words(envelope.get("RequestId")),
        action,
    )


def _words(value: Any) -> str:
    """A stranger's text on one line, of a length that can be read."""
    line = " ".join(value.split()) if isinstance(value, str) else ""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line[:_SHOWN])
