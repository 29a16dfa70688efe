"""YAML as nodes that know their place. Every scalar is text; what could be read in two ways is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

MAX_DEPTH = 16
MAX_NODES = 10_000

_TOO_DEEP = "nested too deeply"
_PLAIN_WORDS = (
    (re.compile("mapping values are not allowed"), "a value without quotes has a colon and a blank in it"),
    (re.compile("found unexpected end of stream"), "a quote is not closed"),
    (re.compile("maximum nesting depth"), _TOO_DEEP),
)  # fmt: skip


class NotYaml(ValueError):
    """A text that is no YAML, or not only one reading of it. `index` is a character's place in the text.

    meant: YAML that is not taken, and no slip of an author who did not mean any.
    """

    def __init__(self, message: str, index: int, *, meant: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.index = index
        self.meant = meant


class Node(NamedTuple):
    """A value: text, a list of nodes, or a mapping of nodes by key; from `start` to `end` in the text.

    plain: text that is in no quotes and no block.
    strange: with an anchor or a tag, which are no part of what the author wants to say.
    """

    value: str | list[Any] | dict[str, Any]
    start: int
    end: int
    plain: bool = False
    strange: bool = False
    keys: tuple[int, ...] = ()
    """Where each key of a mapping begins."""


def read_nodes(text: str) -> Node | None:
    """The one document in a text, or None of a text without any. Raises `NotYaml`.

    Not by recursion, with bounds, and without aliases: a few lines of those become gigabytes.
    """
    import yaml

    try:
        return _root(getattr(yaml, "CBaseLoader", yaml.BaseLoader)(text).get_event, text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        index = mark.index if mark else 0
        problem = error.problem or error.context or "it cannot be read"
        words = _in_words(problem, text, index)
        raise NotYaml(words, index, meant=words == _TOO_DEEP) from error
    except yaml.reader.ReaderError as error:
        raise NotYaml("a control character", _first_refused(text)) from error
    except UnicodeEncodeError as error:
        raise NotYaml("a character that no text has", error.start) from error


def _root(next_event: Callable[[], Any], text: str) -> Node | None:
    """The node that a parser's events make."""
    root: list[Node] = []
    members = root
    above: list[tuple[Any, list[Node]]] = []
    nodes = documents = 0
    while (kind := type(event := next_event()).__name__) != "StreamEndEvent":
        if kind == "ScalarEvent":
            members.append(
                Node(
                    event.value, event.start_mark.index, event.end_mark.index,
                    not event.style, _is_strange(event),
                )
            )  # fmt: skip
            nodes += 1
            if nodes > MAX_NODES:
                raise NotYaml("more values than are read", event.start_mark.index, meant=True)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            if len(above) >= MAX_DEPTH:
                raise NotYaml(_TOO_DEEP, event.start_mark.index, meant=True)
            above.append((event, members))
            members = []
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            (start, around), inner = above.pop(), members
            value, keys = (inner, ()) if kind == "SequenceEndEvent" else _mapping(inner)
            members = around
            members.append(
                Node(value, start.start_mark.index, event.end_mark.index, False, _is_strange(start), keys)
            )
        elif kind == "AliasEvent":
            index = event.start_mark.index
            raise NotYaml("an alias (*), which is not taken", index, meant=f"&{event.anchor}" in text[:index])
        elif kind == "DocumentStartEvent":
            documents += 1
            if documents > 1:
                raise NotYaml("a second document begins", event.start_mark.index)
    return root[0] if root else None


def _is_strange(event: Any) -> bool:
    return event.anchor is not None or event.tag not in (None, "tag:yaml.org,2002:str")


def _mapping(members: list[Node]) -> tuple[dict[str, Node], tuple[int, ...]]:
    """The values by key, and where each key begins."""
    values: dict[str, Node] = {}
    for key, value in zip(members[::2], members[1::2], strict=True):
        if not isinstance(key.value, str):
            raise NotYaml("a key that is not text", key.start)
        if key.value in values:
            raise NotYaml(f"{key.value[:60]} is given twice", key.start)
        values[key.value] = value
    return values, tuple(key.start for key in members[::2])


def _in_words(problem: str, text: str, index: int) -> str:
    at = text[index : index + 1]
    if "cannot start any token" in problem and at:
        return "a tab, where only blanks are taken" if at == "\t" else f"a value begins with {at}"
    for pattern, words in _PLAIN_WORDS:
        if pattern.search(problem):
            return words
    return problem


def _first_refused(text: str) -> int:
    """The place of the first character that YAML does not take: a byte's place, which libyaml tells, is no
    place in a text."""
    found = re.search("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    return found.start() if found else 0
