"""What the A2A specification, section 4.4, asks of an Agent Card beyond the types of its fields.

A rule looks only at values of the right type; the others are reported by `card_fields`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from ksadk.a2a.card import MEDIA_TYPE
from ksadk.a2a.card_fields import Issue, shown
from ksadk.a2a.json_text import Members, Path
from ksadk.a2a.urls import split_http_url
from ksadk.hosts import reach

T = TypeVar("T")

_BINDINGS = ("JSONRPC", "GRPC", "HTTP+JSON")
_VERSION = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")

# Addresses that carry calls or credentials; the others are pages for people.
_CALLED_URLS = (
    "supportedInterfaces/*/url",
    "securitySchemes/*/openIdConnectSecurityScheme/openIdConnectUrl",
    "securitySchemes/*/oauth2SecurityScheme/oauth2MetadataUrl",
    "securitySchemes/*/oauth2SecurityScheme/flows/*/authorizationUrl",
    "securitySchemes/*/oauth2SecurityScheme/flows/*/deviceAuthorizationUrl",
    "securitySchemes/*/oauth2SecurityScheme/flows/*/tokenUrl",
    "securitySchemes/*/oauth2SecurityScheme/flows/*/refreshUrl",
)
_PAGE_URLS = ("provider/url", "documentationUrl", "iconUrl")
_MODES = ("defaultInputModes/*", "defaultOutputModes/*", "skills/*/inputModes/*", "skills/*/outputModes/*")
_NAMES = (
    "name", "version", "supportedInterfaces/*/protocolBinding",
    "skills/*/id", "skills/*/name", "skills/*/tags/*",
)  # fmt: skip


def rule_issues(card: Members) -> Iterator[Issue]:
    """Every rule that the card breaks, and what callers may stumble over."""
    for rule in (_urls, _interfaces, _modes, _names, _skills, _requirements, _api_keys, _extensions):
        yield from rule(card)


def _find(value: Any, pattern: str, kind: type[T]) -> Iterator[tuple[Path, T]]:
    """The values of a type at a path, in which `*` stands for every key or index."""
    found: list[tuple[Path, Any]] = [((), value)]
    for step in pattern.split("/"):
        found = [
            ((*path, key), child)
            for path, part in found
            for key, child in _children(part)
            if step in {"*", key}
        ]
    return ((path, part) for path, part in found if isinstance(part, kind))


def _children(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return iter(value.items())
    return iter(enumerate(value)) if isinstance(value, list) else iter(())


def _urls(card: Members) -> Iterator[Issue]:
    for pattern in (*_CALLED_URLS, *_PAGE_URLS):
        for path, url in _find(card, pattern, str):
            if url:
                yield from _url_issues(path, url, is_called=pattern in _CALLED_URLS)


def _url_issues(path: Path, url: str, *, is_called: bool) -> Iterator[Issue]:
    try:
        parts = split_http_url(url)
    except ValueError as error:
        fix = "Give an absolute URL such as https://agent.example.com/a2a/jsonrpc."
        yield Issue(
            "error", path, f"{path[-1]} '{shown(url)}' is no usable URL: {shown(str(error), 200)}", fix
        )
        return
    host = shown(parts.hostname or "")
    who = reach(parts.hostname or "")
    if who == "unspecified":
        message = f"nobody can reach {host}: it is an address to listen on"
        yield Issue("error", path, message, "Give the address that callers use.")
    elif who == "public":
        if is_called and parts.scheme == "http":
            message = f"'{shown(url)}' is called without encryption"
            yield Issue("warning", path, message, "Use https, as production requires.")
    else:
        place = {"loopback": "the same machine", "link-local": "the same link", "private": "the same network"}
        message = f"{host} can be reached from {place[who]} only"
        yield Issue("warning", path, message, "Give a public address before you publish the card.")


def _interfaces(card: Members) -> Iterator[Issue]:
    seen: dict[tuple[str, ...], str | int] = {}
    for path, interface in _find(card, "supportedInterfaces/*", dict):
        key = tuple(
            str(interface.get(name)) for name in ("url", "protocolBinding", "protocolVersion", "tenant")
        )
        if key in seen:
            first = f"supportedInterfaces[{seen[key]}]"
            yield Issue("warning", path, f"the same interface as {first}", "Remove one of them.")
        seen.setdefault(key, path[-1])
    for path, binding in _find(card, "supportedInterfaces/*/protocolBinding", str):
        if binding and binding not in _BINDINGS:
            near = difflib.get_close_matches(binding.upper().replace("-", ""), _BINDINGS, 1)
            fix = f"Did you mean {near[0]}?" if near else "Known bindings: " + ", ".join(_BINDINGS) + "."
            message = f"few clients know the protocolBinding '{shown(binding)}'"
            yield Issue("warning", path, message, fix)
    for path, version in _find(card, "supportedInterfaces/*/protocolVersion", str):
        if version and not _VERSION.fullmatch(version):
            short = _VERSION.match(version)
            fix = f"Write {short[0]}." if short else "Write 1.0."
            message = f"protocolVersion '{shown(version)}' is not of the form major.minor"
            yield Issue("error", path, message, fix)


def _modes(card: Members) -> Iterator[Issue]:
    for pattern in _MODES:
        for path, mode in _find(card, pattern, str):
            if not MEDIA_TYPE.fullmatch(mode):
                message = f"'{shown(mode)}' is not a media type"
                fix = "Write text/plain." if mode.strip() == "text" else (
                    "A media type looks like text/plain or application/json."
                )  # fmt: skip
                yield Issue("error", path, message, fix)


def _names(card: Members) -> Iterator[Issue]:
    for pattern in _NAMES:
        for path, name in _find(card, pattern, str):
            if not name.strip() and name:
                yield Issue("error", path, f"{path[-1]} is blank", "Write something that can be seen.")
            elif name != name.strip():
                message = f"'{shown(name)}' has blanks around it"
                yield Issue("warning", path, message, f"Write '{shown(name.strip())}'.")
    for path, tag in _find(card, "skills/*/tags/*", str):
        if not tag:
            yield Issue("error", path, "a tag is empty", "Remove it, or say what it is.")


def _skills(card: Members) -> Iterator[Issue]:
    first: dict[str, Path] = {}
    for path, skill_id in _find(card, "skills/*/id", str):
        if skill_id in first and skill_id:
            message = f"the id '{shown(skill_id)}' is that of skills[{first[skill_id][1]}] too"
            yield Issue("error", path, message, "Give each skill an id of its own.")
        first.setdefault(skill_id, path)


def _requirements(card: Members) -> Iterator[Issue]:
    declared = {str(path[-1]) for path, _ in _find(card, "securitySchemes/*", dict)}
    for owner in ("securityRequirements/*/schemes", "skills/*/securityRequirements/*/schemes"):
        for path, schemes in _find(card, owner, dict):
            for name in schemes:
                if name not in declared:
                    near = difflib.get_close_matches(name[:100], declared, 1)
                    fix = f"Did you mean {shown(near[0])}?" if near else "Declare it in securitySchemes."
                    message = f"securitySchemes has no scheme '{shown(name)}'"
                    yield Issue("error", (*path, name), message, fix)


def _api_keys(card: Members) -> Iterator[Issue]:
    for path, place in _find(card, "securitySchemes/*/apiKeySecurityScheme/location", str):
        if place and place not in {"query", "header", "cookie"}:
            message = f"an API key cannot be in '{shown(place)}'"
            yield Issue("error", path, message, "Write query, header or cookie.")


def _extensions(card: Members) -> Iterator[Issue]:
    for path, extension in _find(card, "capabilities/extensions/*", dict):
        if not extension.get("uri"):
            yield Issue("error", path, "an extension without uri cannot be told from others", "Give its uri.")
