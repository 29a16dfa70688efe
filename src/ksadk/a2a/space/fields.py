"""Reads the fields of what comes over a Space's wire; each reader says in words what a field is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from ksadk.a2a.space.ids import MAX_ID, is_id


class InvalidPayload(ValueError):
    """A field is missing, or is of another type. The words name it, and hold nothing of its value."""


def object_of(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidPayload(f"{what} is no object")
    return value


def text(item: Mapping[str, Any], key: str, *, default: str | None = None) -> str:
    value = item.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (not value and default is None):
        raise InvalidPayload(f"{key} is no text")
    return value


def header_text(item: Mapping[str, Any], key: str) -> str:
    value = text(item, key)
    if not value.isascii() or not value.isprintable() or " " in value:
        raise InvalidPayload(f"{key} holds what no header can")
    return value


def identifier(item: Mapping[str, Any], key: str) -> str:
    value = item.get(key)
    if not is_id(value):
        raise InvalidPayload(f"{key} is no id of 1 to {MAX_ID} printable characters")
    return str(value)


def flag(item: Mapping[str, Any], key: str, *, default: bool | None = None) -> bool:
    value = item.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, bool):
        raise InvalidPayload(f"{key} is neither true nor false")
    return value


def one_of(item: Mapping[str, Any], key: str, words: Any) -> Any:
    value = item.get(key)
    if value not in get_args(words):
        raise InvalidPayload(f"{key} is none of {', '.join(get_args(words))}")
    return value


def texts(value: Any, key: str) -> dict[str, str]:
    if value is None:
        return {}
    item = object_of(value, key)
    if not all(isinstance(text, str) for text in item.values()):
        raise InvalidPayload(f"a value of {key} is no text")
    return item
