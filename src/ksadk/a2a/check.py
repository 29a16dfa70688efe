"""Whether a text is an Agent Card that A2A 1.0 clients can use, and on which lines it is not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ksadk.a2a import json_text
from ksadk.a2a.card_fields import Issue, Severity, field_issues, parse_issues, shown
from ksadk.a2a.card_rules import rule_issues
from ksadk.a2a.json_text import JsonError, Members, Path, Position

MAX_FINDINGS = 200

_BOM = "\ufeff"


@dataclass(frozen=True)
class Finding:
    """One thing about a card. Line and column are counted from 1, and None where no place can be told.

    `pointer` is the JSON Pointer (RFC 6901) of the value; that of a missing field says where it belongs.
    """

    severity: Severity
    line: int | None
    column: int | None
    pointer: str
    message: str
    fix: str

    @property
    def place(self) -> str:
        """The pointer as people write it, `skills[1].description`, cut when long; empty for the card."""
        return shown(json_text.place(self.pointer), 200)

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON shows it."""
        return asdict(self)


def check_card(card: str | bytes | Mapping[str, Any]) -> list[Finding]:
    """What is wrong with a card (errors) or may trouble its callers (warnings), in the order of its lines.

    The card is JSON text, or a value that JSON text can be made of, whose findings have no lines. An empty
    list is a card without blemish. It takes any input of up to 1 MiB and raises nothing; of more than 200
    findings the first 200 are given.
    """
    try:
        findings = _check(card if isinstance(card, str | bytes) else _as_text(card))
    except JsonError as error:
        where = error.position
        line, column = (where.line, where.column) if where else (None, None)
        findings = [Finding("error", line, column, "", error.message, error.fix)]
    if not isinstance(card, str | bytes):
        findings = [replace(found, line=None, column=None) for found in findings]
    return findings


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_as_dict)
    except (TypeError, ValueError, RecursionError) as error:
        words = shown(str(error), 200)
        raise JsonError(
            f"no JSON can be made of the card: {words}", fix="Give a dict, or JSON text."
        ) from error


def _as_dict(value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"it holds a value of type {type(value).__name__}")
    return dict(value)


def _check(text: str | bytes) -> list[Finding]:
    if len(text) > json_text.MAX_BYTES:
        raise JsonError("larger than 1 MiB, which no client would read", None, "Make the card smaller.")
    text = json_text.decode(text) if isinstance(text, bytes) else text
    issues: list[Issue] = []
    if text.startswith(_BOM):
        text = text[1:]
        message = "the text begins with a byte order mark, which JSON forbids"
        issues.append(Issue("error", (), message, "Save the file as UTF-8 without a mark."))
    card = json_text.read(text)
    if not isinstance(card, Members):
        raise JsonError("an Agent Card is a JSON object", Position(1, 1), "Put the fields in { }.")
    found = itertools.chain(_text_issues(card), field_issues(card), rule_issues(card))
    issues += itertools.islice(found, MAX_FINDINGS)
    if not any(issue.severity == "error" for issue in issues):
        issues += parse_issues(card)
    places = json_text.locate(text, card) if issues else {}
    findings = [_finding(issue, places) for issue in dict.fromkeys(issues)]
    return sorted(findings, key=lambda finding: (finding.line or 0, finding.column or 0))


def _finding(issue: Issue, places: dict[Path, Position]) -> Finding:
    path = issue.path
    while path and path not in places:
        path = path[:-1]
    where = places.get(path)
    line, column = (where.line, where.column) if where else (None, None)
    pointer = json_text.pointer(issue.path).encode("utf-8", "backslashreplace").decode("utf-8")
    return Finding(issue.severity, line, column, pointer, issue.message, issue.fix)


def _text_issues(card: Members) -> Iterator[Issue]:
    """What JSON lets pass and no two readers agree on: repeated keys, and halves of characters."""
    todo: list[tuple[Path, Any]] = [((), card)]
    while todo:
        path, value = todo.pop()
        children: Iterable[tuple[str | int, Any]] = ()
        if isinstance(value, Members):
            yield from _key_issues(value, path)
            children = value.items()
        elif isinstance(value, list):
            children = enumerate(value)
        elif isinstance(value, str) and not _is_unicode(value):
            yield Issue("error", path, "the text holds half of a character", "Write both halves, or none.")
        todo += [((*path, key), child) for key, child in children]


def _key_issues(members: Members, path: Path) -> Iterator[Issue]:
    seen: set[str] = set()
    for key in members.keys_written:
        if key in seen:
            message = f"{shown(key)} is written more than once, and readers differ in which one they take"
            yield Issue("error", (*path, key), message, "Keep one of them.")
        elif not _is_unicode(key):
            yield Issue(
                "error", (*path, key), "the key holds half of a character", "Write both halves, or none."
            )
        seen.add(key)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)
