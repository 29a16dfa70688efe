"""What the Skill Service answers: the envelope `{Code, Message, RequestId, Data}`, or a reason why not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ksadk.skills.errors import SkillError, SkillServiceError
from ksadk.skills.models import count_of, in_snake_case
from ksadk.skills.pages import MAX_ITEMS

SHOWN = 300
"""How many characters of what the service says a message quotes."""

_SUCCESS = (None, 0, 200, "0", "200")
_DENIED = (401, 403, 407)


@dataclass(frozen=True)
class SkillSpace:
    """A space: where skills are listed."""

    space_id: str
    name: str = ""
    description: str = ""


@dataclass(frozen=True)
class SpaceListResponse:
    """All spaces. `warnings`: in words, what may be missing of them."""

    spaces: tuple[SkillSpace, ...] = ()
    warnings: tuple[str, ...] = ()


def opened(action: str, status: int, body: bytes, masked: Callable[[str], str]) -> Mapping[str, Any]:
    """The envelope of an answer that says yes. Raises `SkillServiceError` with the action, and the code,
    request id and message that the service gave; `masked` takes secrets out of them."""
    payload = _read(body)
    if isinstance(payload, dict):
        envelope = in_snake_case(payload)
        if status < 400 and _succeeded(envelope.get("code")):
            return payload
        raise _refusal(action, status, envelope, masked)
    if status >= 400:
        raise _refusal(action, status, {}, masked)
    what = "no JSON" if payload is None else f"not an object but {type(payload).__name__}"
    raise invalid_answer(action, f"what the Skill Service answered is {what}")


def spaces(payload: Mapping[str, Any]) -> tuple[list[SkillSpace], list[str], int | None]:
    """The spaces of a page of ListSkillSpaces, why others were left out, and how many there are in all."""
    data = in_snake_case(payload).get("data", {})
    named = in_snake_case(data) if isinstance(data, Mapping) else {}
    items: Any = next((named[key] for key in ("skill_spaces", "spaces", "items") if key in named), [])
    if not isinstance(data, Mapping) or not isinstance(items, list):
        raise SkillError("the spaces are not a list")
    if len(items) > MAX_ITEMS:
        raise SkillError(f"there are more than {MAX_ITEMS:,} spaces in one answer")
    found, refused = [], []
    for number, item in enumerate(items):
        fields = in_snake_case(item) if isinstance(item, Mapping) else {}
        space_id = fields.get("skill_space_id", fields.get("space_id"))
        if not isinstance(space_id, str) or not space_id.strip():
            refused.append(f"item {number} has no SkillSpaceId")
            continue
        name = fields.get("skill_space_name", fields.get("space_name", ""))
        found.append(SkillSpace(space_id.strip(), str(name), str(fields.get("description", ""))))
    return found, refused, count_of(named.get("total_count"))


def download_url(payload: Mapping[str, Any]) -> str:
    """The DownloadUrl of an answer; empty where there is none."""
    data = in_snake_case(payload).get("data")
    url = in_snake_case(data).get("download_url") if isinstance(data, Mapping) else None
    return url.strip() if isinstance(url, str) else ""


def invalid_answer(action: str, why: str) -> SkillServiceError:
    """The error of an answer that is not what it must be."""
    return SkillServiceError(
        f"{action}: {why}",
        code="invalid_skill_service_answer",
        hint="Is KSADK_SKILL_SERVICE_URL the address of a Skill Service?",
        action=action,
    )


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _succeeded(code: Any) -> bool:
    return not isinstance(code, bool) and code in _SUCCESS


def _refusal(
    action: str, status: int, envelope: Mapping[str, Any], masked: Callable[[str], str]
) -> SkillServiceError:
    code, words, request_id = (_words(envelope.get(key), masked) for key in ("code", "message", "request_id"))
    said = " ".join(part for part in (code, words) if part)
    if status >= 400:
        said = f"HTTP {status}" + (f": {said}" if said else "")
    said = said or "with no Code of success"
    told = f"{action}: the Skill Service answered {said}" + (f" (request {request_id})" if request_id else "")
    details = {"action": action, "service_code": code, "request_id": request_id}
    if status in _DENIED:
        return SkillServiceError(
            told,
            code="skill_service_unauthenticated",
            hint="KSADK_SKILL_SERVICE_TOKEN, or for a signed gateway the access and secret key, do not count"
            " there.",
            **details,
        )
    unavailable = status >= 500 or status == 429
    return SkillServiceError(
        told, code="skill_service_unavailable" if unavailable else "skill_service_refused", **details
    )


def _words(value: Any, masked: Callable[[str], str]) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        return ""
    return re.sub(r"\s+", " ", masked(str(value))).strip()[:SHOWN]
