"""The fields of a SKILL.md, held against the Agent Skills specification."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ksadk.skills.allowed_tools import AllowedTools, is_permission_key, restriction_in
from ksadk.skills.findings import Findings
from ksadk.skills.repairs import is_text
from ksadk.skills.yaml_nodes import Node

TEXT_FIELDS = frozenset({"name", "description", "license", "compatibility"})
FIELDS = TEXT_FIELDS | {"metadata", "allowed-tools"}

MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_COMPATIBILITY_CHARS = 500

_PORTABLE_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_UNUSABLE_NAME = re.compile(
    r"[\x00-\x1f\x7f-\x9f/\\,\u2028\u2029\ud800-\udfff]|\A\s|\s\Z|\.\.?\Z|.{257}"
    r"|[\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]",  # not seen, or turning what is seen around
    re.DOTALL,
)
_COMMENT = re.compile(r"[ \t]+#")


@dataclass(frozen=True)
class Frontmatter:
    """The fields. `name` is empty where none is given; `others` are texts of fields that are not known.

    allowed_tools: None where the author restricts nothing.
    """

    name: str = ""
    description: str = ""
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    allowed_tools: AllowedTools | None = None
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What `metadata`, or else the top, says in a list."""
    others: Mapping[str, str] = field(default_factory=dict)

    def told(self, key: str) -> str:
        """What `metadata`, or else a field at the top, says under a key."""
        return self.metadata.get(key) or self.others.get(key, "")

    def words(self, key: str) -> tuple[str, ...]:
        """The same as a list: one of YAML, the lines of a text, or the parts between its commas."""
        if key in self.lists:
            return self.lists[key]
        text = self.told(key)
        parts = text.splitlines() if "\n" in text.strip() else text.split(",")
        return tuple(dict.fromkeys(word for part in parts if (word := part.strip(" \t-"))))


def read_fields(
    root: Node,
    text: str,
    place: Callable[[int], int],
    findings: Findings,
    *,
    unsure: frozenset[str] = frozenset(),
    directory: str = "",
    below: int | None = None,
) -> Frontmatter:
    """The fields of a mapping, which was read from `text`.

    place: what is at an index of `text`, as an index of what the findings are about.
    unsure: keys whose values were only guessed at.
    directory: the name that the specification wants the skill to have; any if empty.
    below: where permissions stand that are no part of the fields any more.
    """
    return _Fields(root, text, place, findings).read(unsure, directory, below)


def tell_comment(findings: Findings, end: int, key: str) -> None:
    """A value without quotes ends where ` #` begins a comment, which authors do not always know.

    end: where the value ends, as an index of what the findings are about.
    """
    if cut := _COMMENT.match(findings.text, end):
        findings.warning(
            cut.end() - 1, "comment", f"text after # is a YAML comment, and no part of {key}",
            f"if it belongs to {key}, put all of it in quotes",
        )  # fmt: skip


class _Fields:
    def __init__(self, root: Node, text: str, place: Callable[[int], int], findings: Findings) -> None:
        assert isinstance(root.value, dict)
        self.nodes: dict[str, Node] = root.value
        self.keys = dict(zip(self.nodes, root.keys, strict=True))
        self.text = text
        self.place = place
        self.findings = findings

    def read(self, unsure: frozenset[str], directory: str, below: int | None) -> Frontmatter:
        texts = {key: self._text(key) for key in TEXT_FIELDS}
        self._name(texts["name"], directory)
        self._description(texts["description"])
        self._compatibility(texts["compatibility"])
        lists: dict[str, tuple[str, ...]] = {}
        others = self._others(lists)
        return Frontmatter(
            **texts, metadata=self._metadata(lists), allowed_tools=self._permissions(unsure, below),
            lists=lists, others=others,
        )  # fmt: skip

    def _at(self, key: str) -> int:
        """Where a field's value is; of a field that is not there, where the frontmatter begins."""
        node = self.nodes.get(key)
        return self.place(node.start if node else 0)

    def _text(self, key: str) -> str:
        node = self.nodes.get(key)
        if node is None:
            return ""
        if not is_text(node):
            self._refuse(key, "field_is_not_text", f"{key} is not text", "write it in quotes")
            return ""
        self._comment(key, node)
        return str(node.value).strip()

    def _refuse(self, key: str, code: str, message: str, fix: str) -> None:
        self.findings.error(self._at(key), code, message, fix, refuses=True)

    def _comment(self, key: str, node: Node) -> None:
        if node.plain and node.value and _COMMENT.match(self.text, node.end):
            tell_comment(self.findings, self.place(node.end), key)

    def _name(self, name: str, directory: str) -> None:
        if not name and _UNUSABLE_NAME.search(directory):
            why = f"it has no name, and that of its directory, {_shown(directory)}, cannot be one"
            self._refuse("name", "invalid_name", why, _name_like(directory))
            return
        if not name:
            fix = f"name: {directory}" if directory else "give it that of its directory"
            self.findings.error(self._at("name"), "name_missing", "it has no name", fix)
            return
        if _UNUSABLE_NAME.search(name):
            self._refuse("name", "invalid_name", f"{_shown(name)} cannot be a name", _name_like(name))
            return
        if directory and name != directory and _folded(name) != _folded(directory):
            self.findings.error(
                self._at("name"), "name_is_not_the_directorys",
                f"the name {name} is not that of its directory, {_shown(directory)}",
                f"{_name_like(directory)}, or rename the directory",
            )  # fmt: skip
        if len(name) > MAX_NAME_CHARS:
            self._name_error(name, f"the name has {len(name)} characters, and {MAX_NAME_CHARS} are the most")
        elif not _PORTABLE_NAME.fullmatch(name):
            self._unportable_name(name)

    def _unportable_name(self, name: str) -> None:
        """The specification can be read so that letters of any script may be in a name."""
        folded = _folded(name)
        letters = "".join("a" if c.isalnum() and not c.isascii() else c for c in folded)
        if folded == folded.lower() and _PORTABLE_NAME.fullmatch(letters):
            message = f"the name {name} is not portable: some hosts take only a to z, digits and hyphens"
            self.findings.warning(self._at("name"), "name_not_portable", message, _name_like(name))
        else:
            self._name_error(
                name, f"the name {name} is not of lower-case letters, digits and single hyphens between them"
            )

    def _name_error(self, name: str, message: str) -> None:
        self.findings.error(self._at("name"), "invalid_name", message, _name_like(name))

    def _description(self, description: str) -> None:
        if not description:
            self._refuse(
                "description", "description_missing", "there is no description",
                "description: What it does, and when to use it.",
            )  # fmt: skip
        self._length("description", description, MAX_DESCRIPTION_CHARS)

    def _compatibility(self, text: str) -> None:
        if "compatibility" in self.nodes and not text:
            self.findings.error(
                self._at("compatibility"), "compatibility_empty", "compatibility is empty", "leave it out"
            )
        self._length("compatibility", text, MAX_COMPATIBILITY_CHARS)

    def _length(self, key: str, text: str, most: int) -> None:
        if len(text) > most:
            self.findings.error(
                self._at(key),
                f"{key}_too_long",
                f"{key} has {len(text):,} characters, and {most:,} are the most",
            )

    def _metadata(self, lists: dict[str, tuple[str, ...]]) -> dict[str, str]:
        node = self.nodes.get("metadata")
        if node is None or node.value == "":
            return {}
        if not isinstance(node.value, dict):
            self.findings.error(
                self._at("metadata"), "metadata_is_no_mapping", "metadata is no mapping, and is left out",
                "write key: value on indented lines below it",
            )  # fmt: skip
            return {}
        metadata = {}
        for key, value in node.value.items():
            if is_text(value):
                self._comment(f"metadata {key}", value)
                metadata[key] = str(value.value).strip()
                continue
            if (words := _words(value)) is not None:
                lists[key] = words
            metadata[key] = ", ".join(lists.get(key, ())) or json.dumps(_plain(value), ensure_ascii=False)
            self.findings.warning(
                self.place(value.start), "metadata_is_not_text",
                f"the specification has only text in metadata, which {_shown(key)} is not",
                f'{_shown(key)}: "{", ".join(lists.get(key, ("...",)))[:MAX_NAME_CHARS]}"',
            )  # fmt: skip
        return metadata

    def _others(self, lists: dict[str, tuple[str, ...]]) -> dict[str, str]:
        others = {}
        for key, node in self.nodes.items():
            if key in FIELDS or is_permission_key(key):
                continue
            self.findings.warning(
                self.place(self.keys[key]), "unknown_field", f"{_shown(key)} is no field that is known",
                "move it below metadata",
            )  # fmt: skip
            if isinstance(node.value, str):
                others[key] = node.value.strip()
            elif (words := _words(node)) is not None:
                lists[key] = words
        return others

    def _permissions(self, unsure: frozenset[str], below: int | None) -> AllowedTools | None:
        """What is allowed; what cannot be read for sure allows nothing."""
        key = "allowed-tools"
        node = self.nodes.get(key)
        others = (place for other, place in self.keys.items() if other != key and is_permission_key(other))
        near = next(others, None)
        if node is not None and key not in unsure and near is None:
            self._comment(key, node)
            value = [item.value for item in node.value] if isinstance(node.value, list) else node.value
            inner = node.value if isinstance(node.value, list) else []
            allowed = AllowedTools.parse(value)
            null = node.plain and str(node.value).lower() == "null"
            if allowed.valid and not null and not any(item.strange for item in [node, *inner]):
                return allowed
        if near is None:
            near = self._near_permissions() if node is None else node.start
        place = below if near is None else self.place(near)
        if place is None:
            return None
        self.findings.error(
            place, "allowed_tools_unreadable",
            "what looks like allowed-tools cannot be read for sure, so the skill is allowed no tool at all",
            "on a line of its own: allowed-tools: Read Bash(git:*)",
        )  # fmt: skip
        return AllowedTools.nothing()

    def _near_permissions(self) -> int | None:
        """The place of something that is not `allowed-tools`, but was meant to be."""
        for key, place in _keys_below(self.nodes.values()):
            if is_permission_key(key):
                return place
        return restriction_in(self.text)


def _keys_below(nodes: Iterable[Node]) -> Iterator[tuple[str, int]]:
    """Every key in nodes, however deep, with its place."""
    for node in nodes:
        if isinstance(node.value, dict):
            yield from zip(node.value, node.keys, strict=True)
            yield from _keys_below(node.value.values())
        elif isinstance(node.value, list):
            yield from _keys_below(node.value)


def _words(node: Node) -> tuple[str, ...] | None:
    """The texts of a list of texts."""
    if not isinstance(node.value, list) or not all(is_text(item) for item in node.value):
        return None
    return tuple(dict.fromkeys(text for item in node.value if (text := item.value.strip())))


def _plain(node: Node) -> object:
    """A node as JSON can show it."""
    if isinstance(node.value, dict):
        return {key: _plain(value) for key, value in node.value.items()}
    return [_plain(item) for item in node.value] if isinstance(node.value, list) else node.value


def _name_like(name: str) -> str:
    """A line with a name that can be used, made of one that cannot."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()[:MAX_NAME_CHARS]
    words = re.findall(r"[a-z0-9]+", plain.lower()) or ["pdf", "processing"]
    return f"name: {'-'.join(words)}"


def _folded(name: str) -> str:
    """A name as the specification's validator compares it."""
    return unicodedata.normalize("NFKC", name)


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:80])
