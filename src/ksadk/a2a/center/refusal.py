"""A request that is answered with an error, in the wire's terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NOT_FOUND = {
    "agent": "A2A_AGENT_NOT_FOUND", "space": "A2A_SPACE_NOT_FOUND", "task": "A2A_TASK_NOT_FOUND"
}  # fmt: skip


class Refusal(Exception):
    """Answered as `Code` (the HTTP status), `Message` and Data `{ErrorCode, Retryable, Field, Details}`."""

    def __init__(
        self,
        status: int,
        error_code: str,
        message: str,
        *,
        retryable: bool = False,
        field: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message
        self.retryable = retryable
        self.field = field
        self.details = dict(details or {})

    @property
    def data(self) -> dict[str, Any]:
        """The Data of the answer."""
        return {
            "ErrorCode": self.error_code, "Retryable": self.retryable, "Field": self.field,
            "Details": self.details,
        }  # fmt: skip


def invalid(field: str, message: str) -> Refusal:
    """A field of the request that is not what it must be."""
    return Refusal(400, "A2A_INVALID_REQUEST", message, field=field)


def not_found(what: str, field: str, value: str) -> Refusal:
    """Somebody else's is answered like one that there is not."""
    return Refusal(404, _NOT_FOUND[what.lower()], f"there is no {what} {value[:256]!r}", field=field)


def version_changed(current_version_id: str) -> Refusal:
    """The agent has another version than the one that was asked for."""
    return Refusal(
        409, "A2A_TARGET_VERSION_CHANGED", "the agent has another version now", retryable=True,
        field="ExpectedVersionId", details={"CurrentVersionId": current_version_id},
    )  # fmt: skip
