"""What goes wrong when a hosted runtime is put together."""

from __future__ import annotations

from typing import Literal, TypeVar

from ksadk.errors import KsadkError

BootstrapCode = Literal["A2A_INBOUND_DISABLED", "A2A_OUTBOUND_DISABLED", "A2A_BOOTSTRAP_INVALID"]
T = TypeVar("T")


class BootstrapError(KsadkError):
    """A runtime that is put together, or used, as it cannot be."""

    def __init__(
        self, message: str, *, code: BootstrapCode = "A2A_BOOTSTRAP_INVALID", hint: str | None = None
    ) -> None:
        super().__init__(message, code=code, hint=hint)


def needed(value: T | None, name: str, what_for: str) -> T:
    """The value, which is not optional for that."""
    if value is None:
        raise BootstrapError(f"{name} is missing, which {what_for} needs")
    return value
