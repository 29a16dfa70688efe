"""What a Skill Service says of skills, as values. Keys are taken in PascalCase and in snake_case."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ksadk.skills.errors import SkillError
from ksadk.skills.pages import MAX_ITEMS

LOCAL_SPACE = "local"
"""The space of skills that are on this machine."""

PUBLIC_SPACE = "public"
"""The space of the skills that the service itself offers."""

SUCCESS = "0"
"""What a service's answer has as its code where it has none, or went well."""

_HALVES = re.compile("[\ud800-\udfff]")
"""Halves of characters, which JSON can escape and nothing can write."""

_HEX = re.compile(r"[0-9a-f]{64}")
_ACTIVE = frozenset({"", "active", "available", "enabled"})
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class ContentHash:
    """A SHA-256: `sha256:` and 64 hexadecimal digits in lower case."""

    hex: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of `sha256:<hex>`, or of the digits alone, in any case. Raises `SkillError`."""
        algorithm, colon, digits = text.strip().lower().rpartition(":")
        if (colon and algorithm != "sha256") or not _HEX.fullmatch(digits):
            raise SkillError(f"{text[:100]!r} is no SHA-256", code="invalid_content_hash")
        return cls(digits)

    @classmethod
    def of(cls, data: bytes) -> Self:
        """The hash of some bytes."""
        return cls(hashlib.sha256(data).hexdigest())

    def __str__(self) -> str:
        return f"sha256:{self.hex}"


@dataclass(frozen=True)
class SkillRef:
    """One version of a skill, as its space lists it.

    content_hash: of the archive's bytes, as listed; None where the listing has none. It is not parsed here:
        a hash that cannot be read must fail the download, not the listing.
    """

    skill_id: str
    name: str
    version_id: str = ""
    version: str = ""
    description: str = ""
    status: str = ""
    content_hash: str | None = None
    archive_uri: str = ""
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    input_schema: Mapping[str, Any] = field(default_factory=dict, hash=False)
    runtime_requirements: Mapping[str, Any] = field(default_factory=dict, hash=False)
    space_id: str = ""
    space_name: str = ""

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any], *, space_id: str = "", space_name: str = "") -> Self:
        """Of an item of a listing. Raises `SkillError` where it has no name, or fields that are no text."""
        if not isinstance(payload, Mapping):
            raise SkillError(f"a skill in the listing is not an object but {type(payload).__name__}")
        named = in_snake_case(payload)
        fields: dict[str, Any] = {
            key: _text(named, key)
            for key in ("skill_id", "name", "version_id", "version", "description", "status", "archive_uri")
        }
        if not fields["name"]:
            raise SkillError("a skill in the listing has no Name")
        fields |= {key: _words(named, key) for key in ("aliases", "tags", "examples")}
        fields |= {key: _object(named, key) for key in ("input_schema", "runtime_requirements")}
        space = _text(named, "space_id") or _text(named, "skill_space_id") or space_id
        return cls(
            **fields, content_hash=_text(named, "content_hash") or None, space_id=space, space_name=space_name
        )

    @property
    def cache_key(self) -> str:
        """The id and the version, for messages. Names of directories are made of hashes instead."""
        version = self.version_id or self.version
        return re.sub(r"[/:]", "_", f"{self.skill_id}__{version}")

    @property
    def is_active(self) -> bool:
        """Whether it may be used."""
        return self.status.strip().lower() in _ACTIVE


@dataclass(frozen=True)
class SkillListResponse:
    """A page of skills of one space, or what a whole space has.

    refused: why items of the listing were left out: one bad item never hides the others.
    warnings: what may be missing of a whole space, each beginning with its word: `pagination_repeated`,
        `directory_changed`, `directory_incomplete` or `page_budget_exhausted`.
    """

    code: str = SUCCESS
    message: str = ""
    request_id: str = ""
    space_id: str = ""
    space_name: str = ""
    skills: tuple[SkillRef, ...] = ()
    total_count: int | None = None
    refused: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any], *, space_id: str = "", space_name: str = "") -> Self:
        """Of the whole answer of the service, `{Code, Message, RequestId, Data}`. Raises `SkillError`."""
        envelope = in_snake_case(payload)
        data = envelope.get("data", {})
        if not isinstance(data, Mapping):
            raise SkillError(f"Data is not an object but {type(data).__name__}")
        named = in_snake_case(data)
        space_id = _text(named, "skill_space_id") or _text(named, "space_id") or space_id
        space_name = _text(named, "skill_space_name") or _text(named, "space_name") or space_name
        items = named.get("skills", named.get("items"))
        if not isinstance(items, list | type(None)):
            raise SkillError(f"Skills is not a list but {type(items).__name__}")
        if len(items or ()) > MAX_ITEMS:
            raise SkillError(f"Skills has more than {MAX_ITEMS:,} items")
        skills, refused = [], []
        for number, item in enumerate(items or []):
            try:
                skills.append(SkillRef.from_payload(item, space_id=space_id, space_name=space_name))
            except SkillError as error:
                refused.append(f"item {number}: {error.message}")
        return cls(
            _text(envelope, "code") or SUCCESS, _text(envelope, "message"), _text(envelope, "request_id"),
            space_id, space_name, tuple(skills), count_of(named.get("total_count")), tuple(refused),
        )  # fmt: skip

    def active_skills(self) -> Iterator[SkillRef]:
        """Those that may be used."""
        return (skill for skill in self.skills if skill.is_active)


def in_snake_case(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The keys in snake_case; where a key is there in both forms, the one in PascalCase counts."""
    found: dict[str, Any] = {}
    for key, value in payload.items():
        snake = _WORD_STARTS.sub("_", key).lower()
        if value is not None and (snake not in found or key != snake):
            found[snake] = value
    return found


def count_of(value: object) -> int | None:
    """A TotalCount; None of what is no number of items."""
    return value if type(value) is int and 0 <= value < 1_000_000_000 else None


def _text(named: Mapping[str, Any], key: str) -> str:
    value = named.get(key, "")
    if isinstance(value, str):
        if not _HALVES.search(value):
            return value.strip()
        raise SkillError(f"{key} has a character that no text has")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise SkillError(f"{key} is not text but {type(value).__name__}")


def _words(named: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = named.get(key, ())
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise SkillError(f"{key} is not a list but {type(value).__name__}")
    texts = (item.strip() for item in items if isinstance(item, str) and not _HALVES.search(item))
    return tuple(dict.fromkeys(filter(None, texts)))


def _object(named: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = named.get(key, {})
    if not isinstance(value, Mapping):
        raise SkillError(f"{key} is not an object but {type(value).__name__}")
    return dict(value)
