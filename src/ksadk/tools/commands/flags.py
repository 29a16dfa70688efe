"""Which flags of a program are known to be harmless: all others are asked about.

A table's text lists them: `-abc` letters that may be bundled, `-n=` a letter with a value, `-j?` one whose
value may be joined to it, `-#` digits, `--name`, `--name=`, `--name?`, and `%name`, `%name=` for long names
behind one dash. `>` in place of `=` marks a value that is a file to write.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from ksadk.tools.commands.words import UNKNOWN, Word


class Value(NamedTuple):
    """The value of a flag; `written` where it is a file to write."""

    flag: str
    word: Word
    written: bool


class Reading(NamedTuple):
    """Arguments, sorted. `problem` says what is not known to be harmless; `rest` is where operands begin."""

    operands: list[Word]
    values: list[Value]
    problem: str = ""
    rest: int = 0


class Table(NamedTuple):
    """A table's text, read: flags alone, flags with a value and its mark, and whether digits are a flag."""

    plain: frozenset[str]
    valued: dict[str, str]
    digits: bool


@functools.cache
def read_table(text: str) -> Table:
    """The table that is written in a text."""
    plain: set[str] = set()
    valued: dict[str, str] = {}
    for token in text.split():
        name, kind = (token[:-1], token[-1]) if token[-1] in "=>?" else (token, "")
        if name.startswith("%"):
            name = "-" + name[1:]
        elif not name.startswith("--") and not kind:
            plain.update(f"-{letter}" for letter in name[1:])
            continue
        if kind:
            valued[name] = kind
        else:
            plain.add(name)
    return Table(frozenset(plain), valued, "-#" in plain)


def read_flags(text: str, words: tuple[Word, ...], *, first_operand_ends: bool = False) -> Reading:
    """The arguments of a program whose harmless flags are `text`."""
    table = read_table(text)
    operands: list[Word] = []
    values: list[Value] = []
    number = 0
    while number < len(words):
        word = words[number]
        number += 1
        if word.text == "--" and word.known:
            operands.extend(words[number:])
            break
        if not word.may_be_flag or word.text == "-":
            operands.append(word)
            if first_operand_ends:
                return Reading(operands, values, rest=number - 1)
            continue
        following = words[number] if number < len(words) else None
        taken = _flag(table, word, following, values)
        if taken is None:
            shown = word.text.replace(UNKNOWN, "...")[:60]
            return Reading(operands, values, f"{shown} is not known to be harmless", number)
        number += taken
    return Reading(operands, values, rest=number)


def _flag(table: Table, word: Word, following: Word | None, values: list[Value]) -> int | None:
    """How many of the following words the flag takes; None where it is not in the table."""
    text = word.text
    name, joined, value = text.partition("=")
    if word.splits or UNKNOWN in name or not text.startswith("-"):
        return None
    if (table.digits and text[1:].isdigit()) or (text in table.plain and len(text) > 2):
        return 0
    kind = table.valued.get(name, "")
    if kind and len(name) > 2:
        if joined:
            values.append(Value(name, word._replace(text=value), kind == ">"))
            return 0
        if kind == "?":
            values.append(Value(name, word._replace(text=""), False))
            return 0
        return _separate(name, kind, following, values)
    return None if text.startswith("--") else _bundle(table, word, following, values)


def _bundle(table: Table, word: Word, following: Word | None, values: list[Value]) -> int | None:
    for at, letter in enumerate(word.text[1:], 2):
        name = f"-{letter}"
        kind = table.valued.get(name, "")
        if kind:
            value = word.text[at:]
            if not value and kind != "?":
                return _separate(name, kind, following, values)
            values.append(Value(name, word._replace(text=value), kind == ">"))
            return 0
        if name not in table.plain:
            return None
    return 0


def _separate(name: str, kind: str, following: Word | None, values: list[Value]) -> int | None:
    if following is None or following.splits:
        return None
    values.append(Value(name, following, kind == ">"))
    return 1
