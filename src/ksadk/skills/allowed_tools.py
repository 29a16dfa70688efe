"""`allowed-tools`: what a skill's author lets it use. It narrows what is allowed, and never widens it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

_TOOL = re.compile(r"[^\W\d][\w.:/*-]*|\*")
_PERMISSION_LETTERS = "allowedtools"


@dataclass(frozen=True)
class Grant:
    """One tool, and the pattern of what it may do: `Bash(npm run *)`. Without a pattern, all of it."""

    tool: str
    pattern: str | None = None

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"


@dataclass(frozen=True)
class AllowedTools:
    """The grants in the order in which they are written. What is not `valid` has none: it allows nothing."""

    grants: tuple[Grant, ...] = ()
    valid: bool = True

    @classmethod
    def parse(cls, value: object) -> Self:
        """Of a text whose grants are parted by blanks or commas, or of a list of such texts.

        What is in parentheses stays whole. One grant that cannot be read makes the whole invalid: what its
        author meant to forbid is not known.
        """
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            return cls.nothing()
        grants = []
        for text in texts:
            words = _words(text)
            if words is None:
                return cls.nothing()
            for word in words:
                tool, opened, rest = word.partition("(")
                pattern = rest[:-1].strip() if opened else None
                if not _TOOL.fullmatch(tool) or pattern == "":
                    return cls.nothing()
                grants.append(Grant(tool, pattern))
        return cls(tuple(dict.fromkeys(grants)))

    @classmethod
    def nothing(cls) -> Self:
        """What stands in the place of a restriction that cannot be read."""
        return cls(valid=False)

    def __str__(self) -> str:
        return " ".join(map(str, self.grants))


def is_permission_key(key: str) -> bool:
    """Whether a key is `allowed-tools`, or so near to it that its author must have meant a restriction."""
    letters = "".join(filter(str.isalpha, key)).casefold()
    if letters == _PERMISSION_LETTERS:
        return True
    if "tool" not in letters and not letters.startswith("all") and "allow" not in letters:
        return False
    import difflib

    return difflib.SequenceMatcher(None, letters[:64], _PERMISSION_LETTERS).ratio() >= 0.8


def _words(text: str) -> list[str] | None:
    """The words, each with its parentheses; None where those are not closed, or a word goes on after them."""
    words: list[str] = []
    word, depth = "", 0
    for character in text:
        if depth == 0 and (character.isspace() or character == ","):
            words.append(word)
            word = ""
            continue
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0 or word.endswith(")"):
            return None
        word += character
    return None if depth else [word for word in [*words, word] if word]
