"""The Agent Card of A2A 1.0, made as a plain dict.

The keys are those of the protobuf message `AgentCard` (the A2A specification, section 4.4), in its order.
Nothing of the A2A SDK is imported: a card is made in a few milliseconds, and tests hold it against the SDK.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ksadk.a2a.urls import split_http_url
from ksadk.errors import KsadkError
from ksadk.hosts import reach

PROTOCOL_VERSION = "1.0"
"""The protocol's version as a card carries it: major.minor, never a patch."""
CARD_PATH = "/.well-known/agent-card.json"
JSONRPC_PATH = "/a2a/jsonrpc"
REST_PATH = "/a2a/v1"
DEFAULT_MODES = ("text/plain",)

MEDIA_TYPE = re.compile(
    r"[\w!#$&^.+*-]+/[\w!#$&^.+*-]+(\s*;\s*[\w!#$&^.+-]+=(\"[^\"]*\"|[^\s;\"]+))*", re.ASCII
)

# What follows the scheme of a URL (its host and port, whose colons are its own), or a colon that separates.
_COLON = re.compile(r"://(\[[\w:.%]{2,80}\]|[^\s:/?#]*)(:[0-9]{1,5}(?![^\s:/?#]))?|:", re.ASCII)

_SKILL_KEYS = (
    "id", "name", "description", "tags", "examples", "inputModes", "outputModes", "securityRequirements",
)  # fmt: skip


class CardError(KsadkError, ValueError):
    """A value that no valid Agent Card can hold."""

    code = "invalid_card"


def build_agent_card(
    *,
    name: str,
    base_url: str,
    description: str = "",
    version: str = "1.0.0",
    skills: str | Mapping[str, Any] | Iterable[str | Mapping[str, Any]] | None = None,
    streaming: bool = True,
    provider: Mapping[str, str] | None = None,
    documentation_url: str | None = None,
    icon_url: str | None = None,
    input_modes: Sequence[str] | None = None,
    output_modes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The card of an agent that is served below `base_url` over JSON-RPC and HTTP+JSON.

    `version` is the agent's own. A skill is a dict with the keys of the specification's AgentSkill, of
    which `id` is enough, or a string as `parse_skill` takes; one alone needs no list, and without any the
    card offers one skill, `general`. `provider` has `organization` and `url`. Optional fields are there only
    when they are given. A value that would make the card invalid is a `CardError` (`invalid_card`, or
    `invalid_url`).
    """
    name = _text(name, "the agent's name")
    base = check_base_url(base_url)
    card: dict[str, Any] = {
        "name": name,
        "description": _text(description or f"{name} agent powered by ksadk", "the description"),
        "supportedInterfaces": [
            {"url": base + path, "protocolBinding": binding, "protocolVersion": PROTOCOL_VERSION}
            for path, binding in ((JSONRPC_PATH, "JSONRPC"), (REST_PATH, "HTTP+JSON"))
        ],
    }
    if provider is not None:
        card["provider"] = _provider(provider)
    card["version"] = _text(version, "the agent's version")
    if documentation_url is not None:
        card["documentationUrl"] = check_url(documentation_url, "the documentation URL")
    card["capabilities"] = {"streaming": streaming, "pushNotifications": False}
    card["defaultInputModes"] = _modes(input_modes or DEFAULT_MODES, "input mode")
    card["defaultOutputModes"] = _modes(output_modes or DEFAULT_MODES, "output mode")
    card["skills"] = _skills(skills or ["general"])
    if icon_url is not None:
        card["iconUrl"] = check_url(icon_url, "the icon's URL")
    return card


def check_base_url(url: str) -> str:
    """The URL without its last slash, once it is known that a caller can use what is put below it."""
    check_url(url, "the base URL")
    parts = split_http_url(url)
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        raise CardError(
            f"the base URL {_shown(url)} cannot be used: a query or fragment cannot have a path after it",
            code="invalid_url",
            hint="Leave out everything from the ? or # on.",
        )
    if reach(parts.hostname or "") == "unspecified":
        raise CardError(
            f"the base URL {_shown(url)} cannot be used: {parts.hostname} is to listen on, not to call",
            code="invalid_url",
            hint="Give the address that callers use, such as https://agent.example.com.",
        )
    return url.rstrip("/")


def check_url(url: str, what: str) -> str:
    """The URL as given, when it is an absolute http(s) one; `what` names it in the error."""
    _text(url, what)
    try:
        split_http_url(url)
    except ValueError as error:
        raise CardError(
            f"{what} {_shown(url)} cannot be used: {error}",
            code="invalid_url",
            hint="Give an absolute URL such as https://agent.example.com.",
        ) from error
    return url


def parse_skill(text: str) -> dict[str, Any]:
    """A skill from `id`, or from `id:Name:Description:tag,tag`.

    Parts at the end may be left out and parts in the middle left empty; they get their defaults. The colons
    of a URL's scheme, host and port separate nothing. Others may be in a description that has tags after it.
    """
    cuts = [found.start() for found in _COLON.finditer(text) if found[0] == ":"]
    skill_id, *parts = (text[start + 1 : end] for start, end in pairwise([-1, *cuts, len(text)]))
    name, *rest = parts or [""]
    tags = rest.pop() if len(rest) > 1 else ""
    given = {
        "id": skill_id.strip(),
        "name": name.strip(),
        "description": ":".join(rest).strip(),
        "tags": [tag.strip() for tag in tags.split(",") if tag.strip()],
    }
    return complete_skill(given)


def complete_skill(given: Mapping[str, Any]) -> dict[str, Any]:
    """A skill with every field that the specification requires, in its order."""
    for key in given:
        if key not in _SKILL_KEYS:
            raise CardError(f"a skill has no field {_shown(str(key))}", hint=_did_you_mean(str(key)))
    skill_id = _text(given.get("id") or "", "a skill's id")
    skill: dict[str, Any] = {
        "id": skill_id,
        "name": _text(given.get("name") or title(skill_id), f"the name of skill {skill_id}"),
        "description": _text(
            given.get("description") or f"Skill: {skill_id}", f"the description of skill {skill_id}"
        ),
        "tags": _texts(given.get("tags") or [skill_id], f"a tag of skill {skill_id}"),
    }
    if given.get("examples"):
        skill["examples"] = _texts(given["examples"], f"an example of skill {skill_id}")
    for key in ("inputModes", "outputModes"):
        if given.get(key):
            skill[key] = _modes(given[key], f"{key} of skill {skill_id}")
    if given.get("securityRequirements"):
        skill["securityRequirements"] = given["securityRequirements"]
    return skill


def title(identifier: str) -> str:
    """`my-skill` as `My Skill`; letters that are already capital stay so."""
    words = [word for word in re.split(r"[-_\s]+", identifier) if word]
    return " ".join(word[0].upper() + word[1:] for word in words) or identifier


def _skills(skills: str | Mapping[str, Any] | Iterable[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(skills, str | Mapping):
        skills = [skills]
    if not isinstance(skills, Iterable):
        raise CardError("the skills are not a list")
    cards = [_skill(skill) for skill in skills]
    seen: set[str] = set()
    for skill in cards:
        if skill["id"] in seen:
            raise CardError(f"two skills have the id {_shown(skill['id'])}", hint="Give each its own id.")
        seen.add(skill["id"])
    return cards


def _skill(skill: Any) -> dict[str, Any]:
    if isinstance(skill, str):
        return parse_skill(skill)
    if not isinstance(skill, Mapping):
        raise CardError(f"a skill is text or a dict of fields, not a value of type {type(skill).__name__}")
    return complete_skill(skill)


def _provider(provider: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(provider, Mapping) or set(provider) != {"organization", "url"}:
        raise CardError("a provider has exactly the fields organization and url")
    return {
        "organization": _text(provider["organization"], "the provider's organization"),
        "url": check_url(provider["url"], "the provider's URL"),
    }


def _modes(modes: Sequence[str], what: str) -> list[str]:
    for mode in _texts(modes, what):
        if not MEDIA_TYPE.fullmatch(mode):
            raise CardError(
                f"the {what} {_shown(mode)} is not a media type",
                hint="A media type looks like text/plain or application/json.",
            )
    return list(modes)


def _texts(values: Any, what: str) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise CardError(f"{what}: a list of texts is expected")
    return [_text(value, what) for value in values]


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise CardError(f"{what} is not text")
    if not value.strip():
        raise CardError(f"{what} is empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CardError(f"{what} {_shown(value)} is not valid Unicode text") from error
    return value


def _shown(text: str) -> str:
    return ascii(text) if not text.isprintable() else f"'{text}'"


def _did_you_mean(key: str) -> str:
    import difflib

    folded = {name.lower(): name for name in _SKILL_KEYS}
    near = difflib.get_close_matches(key.lower().replace("_", ""), folded, 1)
    return f"Did you mean {folded[near[0]]}?" if near else "The fields are " + ", ".join(_SKILL_KEYS) + "."
