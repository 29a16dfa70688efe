"""An Agent Card against its protobuf: unknown, ill-typed, missing and pre-1.0 fields.

What is known and required is read from the A2A SDK's descriptors (`google.api.field_behavior`), so that it
follows the SDK. Nothing here is a list of fields, except for those that are gone.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from a2a.types import AgentCard
from google.api import field_behavior_pb2  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError

from ksadk.a2a.json_text import Members, Path

Severity = Literal["error", "warning"]

_LONGEST_NAME_SHOWN = 60


# What came before 1.0, by message and field, and what stands in its place now.
_GONE: dict[tuple[str, str], str] = {
    ("AgentCard", "url"): (
        "Put it in supportedInterfaces: "
        '[{"url": ..., "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}].'
    ),
    ("AgentCard", "preferredTransport"): "The first of supportedInterfaces is the preferred one.",
    ("AgentCard", "additionalInterfaces"): (
        "Put its entries in supportedInterfaces, with protocolBinding in place of transport, "
        "and with protocolVersion."
    ),
    ("AgentCard", "protocolVersion"): "Give protocolVersion in each of supportedInterfaces.",
    ("AgentCard", "protocolVersions"): "Give protocolVersion in each of supportedInterfaces.",
    ("AgentCard", "supportsAuthenticatedExtendedCard"): "Set capabilities.extendedAgentCard.",
    ("AgentCard", "supportsExtendedAgentCard"): "Set capabilities.extendedAgentCard.",
    ("AgentCard", "authentication"): "Use securitySchemes and securityRequirements.",
    ("AgentCard", "security"): (
        'Use securityRequirements: [{"schemes": {"name-of-a-scheme": {"list": ["scope"]}}}].'
    ),
    ("AgentSkill", "security"): (
        'Use securityRequirements: [{"schemes": {"name-of-a-scheme": {"list": ["scope"]}}}].'
    ),
    ("AgentCapabilities", "stateTransitionHistory"): "Leave it out; 1.0 has nothing in its place.",
    ("AgentInterface", "transport"): "Use protocolBinding.",
}
_SCHEME_OF_TYPE = {
    "apiKey": "apiKeySecurityScheme",
    "http": "httpAuthSecurityScheme",
    "oauth2": "oauth2SecurityScheme",
    "openIdConnect": "openIdConnectSecurityScheme",
    "mutualTLS": "mtlsSecurityScheme",
}


class Issue(NamedTuple):
    """What is wrong (or doubtful) at a path of the card, and what to do about it."""

    severity: Severity
    path: Path
    message: str
    fix: str


def field_issues(card: Members) -> Iterator[Issue]:
    """Every difference that can be told between a card and the SDK's `AgentCard`."""
    # The C implementation's descriptor has a type of its own, with the same attributes.
    return _message_issues(AgentCard.DESCRIPTOR, card, ())  # type: ignore[arg-type]


def parse_issues(card: Members) -> Iterator[Issue]:
    """The SDK's own word on a card in which nothing else was found."""
    try:
        ParseDict(card, AgentCard())
    except (ParseError, OverflowError) as error:
        yield Issue("error", (), f"the SDK does not take the card: {shown(str(error), 200)}", "")


def _message_issues(kind: Descriptor, value: Members, path: Path) -> Iterator[Issue]:
    if kind.full_name == "google.protobuf.Struct":
        return
    if kind.name == "SecurityScheme" and "type" in value:
        yield _scheme_issue(value["type"], path)
        return
    fields = {field.json_name: field for field in kind.fields}
    for key, part in value.items():
        field = fields.get(key)
        if field is None:
            yield _unknown(kind, fields, key, (*path, key))
        elif part is not None:  # in ProtoJSON null is absence
            yield from _field_issues(field, part, (*path, key))
    for name, field in fields.items():
        # Protobuf cannot tell an empty text or list from none.
        if _is_required(field) and value.get(name) in (None, "", []):
            yield _missing(field, name in value, (*path, name))
    yield from _choice_issues(kind, value, path)


def _field_issues(field: FieldDescriptor, value: Any, path: Path) -> Iterator[Issue]:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        if not isinstance(value, dict):
            yield _wrong("an object", value, path)
            return
        for key, part in value.items():
            yield from _value_issues(entry.fields_by_name["value"], part, (*path, key))
    elif field.is_repeated:
        if not isinstance(value, list):
            yield _wrong("a list", value, path)
            return
        for index, part in enumerate(value):
            yield from _value_issues(field, part, (*path, index))
    else:
        yield from _value_issues(field, value, path)


def _value_issues(field: FieldDescriptor, value: Any, path: Path) -> Iterator[Issue]:
    if field.message_type is not None:
        if isinstance(value, Members):
            yield from _message_issues(field.message_type, value, path)
        elif field.message_type.name == "StringList" and isinstance(value, list):
            yield Issue("error", path, "the scopes are a plain list", 'Write {"list": [...]} around it.')
        else:
            yield _wrong("an object", value, path)
    elif field.type == FieldDescriptor.TYPE_BOOL:
        if not isinstance(value, bool):
            yield _wrong("true or false", value, path)
    elif not isinstance(value, str):
        yield _wrong("a text", value, path)


def _unknown(kind: Descriptor, fields: dict[str, FieldDescriptor], key: str, path: Path) -> Issue:
    if fix := _GONE.get((kind.name, key)):
        return Issue("error", path, f"{key} was removed in A2A 1.0", fix)
    if kind.name == "SecurityRequirement":
        fix = 'Write {"schemes": {"' + shown(key) + '": {"list": [...]}}}.'
        return Issue("error", path, f"the scheme {shown(key)} is named outside schemes", fix)
    for name, field in fields.items():
        if field.name == key:
            message = f"{key} is not written as JSON writes it (the A2A specification, section 5.5)"
            return Issue("error", path, message, f"Write {name}.")
    folded = {name.lower(): name for name in fields}
    near = difflib.get_close_matches(key.lower()[:_LONGEST_NAME_SHOWN], folded, 1)
    fix = f"Did you mean {folded[near[0]]}?" if near else "The fields are " + ", ".join(fields) + "."
    return Issue("error", path, f"{kind.name} has no field {shown(key)}", fix)


def _scheme_issue(given: Any, path: Path) -> Issue:
    name = _SCHEME_OF_TYPE.get(given) if isinstance(given, str) else None
    fix = f'Write {{"{name}": {{...}}}} in place of type.' if name else (
        "Name it by one of " + ", ".join(_SCHEME_OF_TYPE.values()) + "."
    )  # fmt: skip
    return Issue("error", (*path, "type"), "a scheme told by its type is older than A2A 1.0", fix)


def _choice_issues(kind: Descriptor, value: Members, path: Path) -> Iterator[Issue]:
    for choice in kind.oneofs:
        names = [field.json_name for field in choice.fields]
        given = [name for name in names if value.get(name) is not None]
        if len(names) > 1 and len(given) != 1:
            said = "has " + " and ".join(given) if given else "has none of " + ", ".join(names)
            yield Issue("error", path, f"{kind.name} {said}", "Give exactly one.")


def _is_required(field: FieldDescriptor) -> bool:
    behavior = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return field_behavior_pb2.REQUIRED in behavior


def _missing(field: FieldDescriptor, is_there: bool, path: Path) -> Issue:
    state = "empty" if is_there else "missing"
    is_list = field.is_repeated and not (field.message_type and field.message_type.GetOptions().map_entry)
    fix = "Give at least one." if is_list else f"Give {path[-1]}."
    return Issue("error", path, f"{path[-1]} is {state}, and is required", fix)


def _wrong(expected: str, value: Any, path: Path) -> Issue:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    found = next((word for kind, word in names.items() if isinstance(value, kind)), "a number")
    return Issue("error", path, f"{_leaf(path)} is {found}, not {expected}", f"Write {expected}.")


def _leaf(path: Path) -> str:
    step = path[-1]
    return f"{path[-2]}[{step}]" if isinstance(step, int) else shown(step)


def shown(text: str, limit: int = _LONGEST_NAME_SHOWN) -> str:
    """A stranger's text on one line: control characters escaped, the middle of a long one left out."""
    if len(text) > limit:
        text = f"{text[: limit // 2]}...{text[-limit // 2 :]}"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
