"""Ids of Spaces, agents, versions and tasks: opaque, whoever made them."""

from __future__ import annotations

from typing import Any

from ksadk.a2a.space.errors import InvalidId

MAX_ID = 256
"""Characters."""


def is_id(value: Any) -> bool:
    """Whether a value can be an id: 1 to 256 printable characters, not only blanks."""
    return isinstance(value, str) and value.isprintable() and bool(value.strip()) and len(value) <= MAX_ID


def checked_id(value: str, what: str) -> str:
    """An id as it was given; `InvalidId` says what it should have been the id of."""
    if not is_id(value):
        shown = ascii(value[:40]) if isinstance(value, str) else type(value).__name__
        raise InvalidId(f"{shown} is no id of {what}: 1 to {MAX_ID} printable characters are expected")
    return value
