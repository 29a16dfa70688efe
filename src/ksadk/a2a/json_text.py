"""JSON from a stranger: read strictly, with the line and column of everything in it.

The standard library reads the JSON. Where things are is asked of the YAML reader afterwards (JSON is YAML),
which is given the text with the contents of its strings blanked out, so that only the structure counts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64

Path = tuple[str | int, ...]
"""Where a value is: the keys and indexes that lead to it."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BLANK_BEFORE_COLON = re.compile(r'"(\s+):')
_CONSTANT = re.compile(r"NaN|-?Infinity")
_PLAIN_KEY = re.compile(r"[\w$+-]+")
# YAML takes a key of 1024 characters at most.
_LONGEST_STRING = 1000


@dataclass(frozen=True)
class Position:
    """A place in a text; lines and columns are counted from 1."""

    line: int
    column: int


class JsonError(ValueError):
    """Text that is not JSON, or that is more than this reader takes."""

    def __init__(self, message: str, position: Position | None = None, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.fix = fix


class Members(dict[str, Any]):
    """A JSON object that remembers its members as they were written, a repeated key included."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.keys_written = [key for key, _ in pairs]


def decode(data: bytes) -> str:
    """The text of UTF-8 bytes. `JsonError` tells where they are not UTF-8."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise JsonError("the file is UTF-16, not UTF-8", Position(1, 1), "Save it as UTF-8.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise JsonError(
            f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8",
            _position(before, len(before)),
            "Save the file as UTF-8.",
        ) from error


def read(text: str) -> Any:
    """The value of a JSON text (RFC 8259, without NaN), at most 64 levels deep; its objects are `Members`."""
    try:
        value = json.loads(text, object_pairs_hook=Members, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        where = Position(error.lineno, error.colno)
        raise JsonError(f"not JSON: {what}", where, _advice(error.msg, text, error.pos)) from error
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        # What is left: NaN and Infinity, and numbers with more digits than Python converts.
        found = _CONSTANT.search(_masked(text))
        raise JsonError(f"not JSON: {error}", _position(text, found.start()) if found else None) from error
    if _deeper_than(MAX_DEPTH, value):
        raise _too_deep()
    return value


def locate(text: str, value: Any) -> dict[Path, Position]:
    """The position of each member (of its key) and item in `value`, which `read` made of `text`.

    Of a key that is written more than once the last, whose value counts. Empty when the YAML reader cannot
    follow.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        root = YAML(pure=True).compose(_masked(text))
    except YAMLError:
        return {}
    places: dict[Path, Position] = {(): _of(root)}
    todo: list[tuple[Path, Any, Any]] = [((), value, root)]
    while todo:
        path, part, node = todo.pop()
        if isinstance(part, Members):
            last = {key: index for index, key in enumerate(part.keys_written)}
            for index, (key_node, value_node) in enumerate(node.value):
                here = (*path, part.keys_written[index])
                if index == last[part.keys_written[index]]:
                    places[here] = _of(key_node)
                    todo.append((here, part[part.keys_written[index]], value_node))
        elif isinstance(part, list):
            for index, (item, item_node) in enumerate(zip(part, node.value, strict=True)):
                places[(*path, index)] = _of(item_node)
                todo.append(((*path, index), item, item_node))
    return places


def pointer(path: Path) -> str:
    """The path as a JSON Pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def place(pointer: str) -> str:
    """A JSON Pointer as people write a path: `/skills/1/description` is `skills[1].description`."""
    words = ""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if key.isdecimal():
            words += f"[{key}]"
        elif _PLAIN_KEY.fullmatch(key):
            words += f".{key}"
        else:
            words += f"[{json.dumps(key, ensure_ascii=False)}]"
    return words.removeprefix(".")


def _masked(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        return '"' + "_" * min(len(match[0]) - 2, _LONGEST_STRING) + '"'

    structure = _STRING.sub(blank, text).replace("\t", " ").replace("\r", " ")
    # YAML wants the colon on its key's line; moving the blanks behind it keeps every line number.
    return _BLANK_BEFORE_COLON.sub(r'":\1', structure)


def _of(node: Any) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)


def _position(text: str, offset: int) -> Position:
    line_start = text.rfind("\n", 0, offset) + 1
    return Position(text.count("\n", 0, offset) + 1, offset - line_start + 1)


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def _too_deep() -> JsonError:
    return JsonError(f"nested more than {MAX_DEPTH} levels deep", None, "No Agent Card needs that depth.")


def _deeper_than(limit: int, value: Any) -> bool:
    level = [value]
    for _ in range(limit + 1):
        level = [
            child
            for part in level
            if isinstance(part, dict | list)
            for child in (part.values() if isinstance(part, dict) else part)
        ]
        if not level:
            return False
    return True


def _advice(message: str, text: str, offset: int) -> str:
    before, after = text[:offset].rstrip(), text[offset:]
    if not text.strip():
        return "The text is empty."
    for start, advice in (
        ("'", "JSON takes double quotes only."),
        (("//", "/*", "#"), "JSON has no comments."),
    ):
        if after.startswith(start):
            return advice
    if before.endswith(",") or after.startswith(","):
        return "Remove the comma that nothing follows."
    if not after.strip():
        return "The text ends before its last bracket or quote is closed."
    if message.startswith("Extra data"):
        return "Remove what follows the end of the JSON value."
    if message.startswith("Invalid control character"):
        return "Write a line break in a text as \\n and a tab as \\t."
    if "',' delimiter" in message and after[0] in '"{[':
        return "Put a comma before it."
    if "property name" in message:
        return "Put the name in double quotes."
    return ""
