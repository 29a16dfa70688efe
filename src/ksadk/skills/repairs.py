"""Errors that authors make in frontmatter, and what they meant: a value that YAML wants in quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ksadk.skills.allowed_tools import restriction_in
from ksadk.skills.findings import Edit
from ksadk.skills.yaml_nodes import Node, NotYaml, read_nodes

_ENTRY = re.compile(
    r"(?P<indent> *)(?P<key>[^\s#:'\"\[\]{}&*!|>%@`,?-][^:\r\n]*+):(?:[ \t]+(?P<value>\S.*)|[ \t]*)"
)
_COMMENT = re.compile(r"(?<![ \t])[ \t]++#.*")
_COMMENT_LINES = re.compile(r"[\r\n][ \t]*#")
_FIELD_LINES = re.compile(
    r"[\r\n][ \t]*(?:name|description|license|compatibility|metadata|allowed-tools)[ \t]*:"
)
_FIRST_LINE = re.compile(r"\A[^\r\n]*+")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
_MAX_REPAIRS = 32


class Repair(NamedTuple):
    """The edit that puts one key's value in quotes."""

    key: str
    edit: Edit


class _Entry(NamedTuple):
    """A key with its value, which may go on over further lines, by their places in the text."""

    key: str
    start: int
    value: int | None
    end: int


def quotings(text: str, *, texts: frozenset[str]) -> list[Repair]:
    """What has to be quoted so that each entry of a mapping can be read by itself.

    texts: keys whose values are text, so that one that begins with `[`, `{`, `&`, `*` or `!` was meant as it
        is written.
    """
    return list(_quotings(text, 0, len(text), 0, texts))[:_MAX_REPAIRS]


def apply(text: str, edits: list[Edit]) -> str:
    """A text with the edits made."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def place_before(index: int, edits: list[Edit]) -> int:
    """Where what is at a place of the edited text was before; what was put in was at its edit's start."""
    moved = 0
    for edit in sorted(edits):
        if index < edit.start + moved:
            break
        if index < edit.start + moved + len(edit.text):
            return edit.start
        moved += len(edit.text) - (edit.end - edit.start)
    return index - moved


def quoted(value: str) -> str:
    """A value in quotes in which nothing else has to change but, at most, single quotes that are doubled."""
    if '"' in value or "\\" in value:
        return "'" + value.replace("'", "''") + "'"
    return f'"{value}"'


def _quotings(text: str, start: int, end: int, depth: int, texts: frozenset[str]) -> Iterator[Repair]:
    for entry in _entries(text, start, end):
        if _reads(text[entry.start : entry.end], texts):
            continue
        if entry.value is not None:
            edit = _quoting(text, entry.value, entry.end)
            further = _FIRST_LINE.sub("", text[edit.start : edit.end], count=1)
            if _FIELD_LINES.search(text, edit.start, edit.end) or restriction_in(further) is not None:
                continue  # not a long value, but fields that are not written as they have to be
            fixed = text[entry.start : edit.start] + edit.text + text[edit.end : entry.end]
            if _reads(fixed, texts):
                yield Repair(entry.key, edit)
        elif depth < 2:
            below = text.find("\n", entry.start, entry.end) + 1
            if below:
                yield from _quotings(text, below, entry.end, depth + 1, frozenset())


def _entries(text: str, start: int, end: int) -> list[_Entry]:
    """The entries of the outermost mapping between two places."""
    found: list[tuple[int, re.Match[str]]] = []
    indent: int | None = None
    place = start
    for line in _LINE.findall(text, start, end):
        match = _ENTRY.match(line)
        if match and indent is None:
            indent = len(match["indent"])
        if match and len(match["indent"]) == indent:
            found.append((place, match))
        place += len(line)
    ends = [*(place for place, _ in found[1:]), end]
    return [
        _Entry(
            match["key"].rstrip(),
            place,
            None if match["value"] is None else place + match.start("value"),
            until,
        )
        for (place, match), until in zip(found, ends, strict=False)
    ]


def _quoting(text: str, start: int, end: int) -> Edit:
    """Puts a value in quotes, over its lines where it has several; a comment after it is left out."""
    value = _COMMENT_LINES.split(text[start:end], maxsplit=1)[0].rstrip()
    if "\n" not in value and "\r" not in value:
        value = _COMMENT.sub("", value, count=1)
    return Edit(start, start + len(value), quoted(value))


def _reads(chunk: str, texts: frozenset[str]) -> bool:
    """Whether one entry is YAML by itself, and text where it has to be."""
    try:
        root = read_nodes(chunk)
    except NotYaml:
        return False
    if root is None or not isinstance(root.value, dict) or len(root.value) != 1:
        return False
    ((key, value),) = root.value.items()
    return key not in texts or is_text(value)


def is_text(node: Node) -> bool:
    """Whether a value is text, and wholly what is written."""
    return isinstance(node.value, str) and not node.strange
