"""What a shell line is made of: words, redirections, simple commands."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN = "\0"
"""Stands in a word's text for what only the run itself can tell, such as the value of a variable."""


class NotProven(Exception):
    """What keeps a line from being read with certainty, in words for a person."""


class Unbalanced(NotProven):
    """A quote that is not closed."""


class Word(NamedTuple):
    """One word, its quotes and escapes undone. `start` and `end` are bytes of the line.

    `known` where the text is exactly what the program is given. `splits` where it may become several words,
    or none. `glob` where it holds unquoted * ? or [.
    """

    text: str
    start: int
    end: int
    known: bool = True
    splits: bool = False
    glob: bool = False

    @property
    def may_be_flag(self) -> bool:
        """Whether the program may be given a word that begins with a dash."""
        return self.splits or self.text.startswith(("-", UNKNOWN)) or (self.glob and self.text[0] in "*?[")


class Redirect(NamedTuple):
    """One redirection. `body` is the text of a here-document; `target` is then its delimiter."""

    operator: str
    target: Word
    body: Word | None = None


class Assignment(NamedTuple):
    """`name=value`. No value: an array, or what `for` and `read` set."""

    name: str
    value: Word | None


class Command(NamedTuple):
    """One simple command. Without words it is only assignments, or the redirections of a compound command."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...]
    redirects: list[Redirect]
    start: int
    end: int


class Script(NamedTuple):
    """What was read of a line: every simple command in it, however deep.

    `functions` are those that are surely defined, with the byte behind which they are; `values` what
    variables are set to.
    """

    source: str
    commands: list[Command]
    functions: dict[str, int]
    values: dict[str, list[str]]

    def text(self, command: Command) -> str:
        """A command as it is written."""
        return shown(self.source[command.start : command.end])


def as_bytes(line: str) -> str:
    """The line with one character for each byte of its UTF-8, which is what bash goes by."""
    try:
        return line.encode("utf-8").decode("latin-1")
    except UnicodeEncodeError:
        raise NotProven("it holds half of a surrogate pair") from None


def shown(text: str) -> str:
    """The opposite of `as_bytes`."""
    if text.isascii():
        return text
    return text.encode("latin-1").decode("utf-8", "replace")
