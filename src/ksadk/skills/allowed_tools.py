"""`allowed-tools`: what a skill's author lets it use. It narrows what is allowed, and never widens it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

_GRANT = re.compile(
    r"[\s,]*+([^\W\d][\w.:/*-]*+|\*)"  # the tool
    r"(?:\((\s*+[^\s()](?:[^()]++|\([^()]*+\))*+)\))?+"  # its pattern, which may have parentheses itself
    r"(?=[\s,]|\Z)"
)
_END = re.compile(r"[\s,]*")
_PERMISSION_LETTERS = "allowedtools"
_SAME = {"Cf": "", "Pd": "-"}
_LINE = re.compile("[^\r\n\x85\u2028\u2029]+")  # as YAML parts them
_RESTRICTION = re.compile(
    r"[ \t?'\"-]*+allowed[-_]?tools?\b"
    r"|(?![ \t]*+#).*allow(?:ed)?[-_ ]?tools?['\"]?[ \t]*+[:=]"
)


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
            place = 0
            while match := _GRANT.match(text, place):
                grants.append(Grant(match[1], match[2] and match[2].strip()))
                place = match.end()
            if not _END.fullmatch(text, place):
                return cls.nothing()
        return cls(tuple(dict.fromkeys(grants)))

    @classmethod
    def nothing(cls) -> Self:
        """What stands in the place of a restriction that cannot be read."""
        return cls(valid=False)

    def __str__(self) -> str:
        return " ".join(map(str, self.grants))


def is_permission_key(key: str) -> bool:
    """Whether a key is `allowed-tools`, or so near to it that its author must have meant a restriction."""
    letters = "".join(filter(str.isalpha, _plain(key)))
    if letters == _PERMISSION_LETTERS:
        return True
    if "tool" not in letters and not letters.startswith("all") and "allow" not in letters:
        return False
    import difflib

    return difflib.SequenceMatcher(None, letters[:64], _PERMISSION_LETTERS).ratio() >= 0.8


def restriction_in(text: str) -> int | None:
    """The place of the first line that looks like `allowed-tools`, though YAML made no key of it; comments
    aside. It begins with that, with or without a colon, or has it before a colon."""
    if text.isascii() and "tool" not in text.lower():
        return None
    lines = _LINE.finditer(text)
    return next((line.start() for line in lines if _RESTRICTION.match(_plain(line[0]))), None)


def _plain(text: str) -> str:
    """A text in which what looks the same is the same: of full width, with other hyphens, or unseen."""
    if not text.isascii():
        # Each by itself: to put many marks in order takes the square of their number.
        chars = (part for char in text for part in unicodedata.normalize("NFKC", char))
        text = "".join(_SAME.get(unicodedata.category(char), char) for char in chars)
    return text.casefold()
