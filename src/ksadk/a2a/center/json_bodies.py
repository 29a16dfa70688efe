"""The JSON of requests to a center, and of what it writes."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from ksadk.a2a.center.refusal import Refusal


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a request's body is. `Refusal` 400 where it is none, or holds what JSON in UTF-8
    cannot: NaN, a number beyond all floats, half of a surrogate pair."""
    try:
        value = json.loads(body, parse_constant=_no_number)
        written(value)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "A2A_INVALID_REQUEST", "the request is no JSON") from error
    if not isinstance(value, dict):
        raise Refusal(400, "A2A_INVALID_REQUEST", "the request is no JSON object")
    return value


def written(value: Any) -> bytes:
    """A value as JSON; `ValueError` where it cannot be."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"JSON has no number {text}")
