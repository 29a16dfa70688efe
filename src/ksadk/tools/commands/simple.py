"""Reads one simple command of a shell line: its words, assignments and redirections."""

from __future__ import annotations

import re
from typing import NamedTuple

from ksadk.tools.commands.quoting import Quoting
from ksadk.tools.commands.words import UNKNOWN, Assignment, Command, NotProven, Redirect, Word

END = r"(?=[ \t\n;&|()<>]|\Z)"
RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|for|do|done|while|until|case|esac|select|function|coproc|\{|\}|!|\[\[)" + END
)
_BLANK = re.compile(r"(?:[ \t]|(?<=[ \t])\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_REDIRECT = re.compile(r"[0-9]*(?:&>>|&>|>>|>\||>&|<<<|<<-|<<|<>|<&|<|>)")
_MAX_DIGITS = 3
_BEGIN_REDIRECT = frozenset("<>&0123456789")
_DELIMITER = re.compile(r"[ \t]*(?:'([A-Za-z0-9_]+)'|\"([A-Za-z0-9_]+)\"|([A-Za-z0-9_]+))" + END)
_AFTER_TIME = re.compile(r"[ \t]+(?:-p[ \t]+)?(?![A-Za-z_]\w*\+?=|time\b|!)[A-Za-z0-9_./\"'-]")
_IN_BODY = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})")
_BODY_STRANGE = re.compile(
    r"`|\$(?![A-Za-z_]|\{[A-Za-z_][A-Za-z0-9_]*\}|[ \n0-9.,;)\"'/]|\Z)|\\(?!\$|\\[^\n])"
)


class _Pending(NamedTuple):
    """A here-document whose body has not been reached: its redirections, and the place of its own."""

    redirects: list[Redirect]
    number: int
    literal: bool
    tabs: bool


class Simple(Quoting):
    """The part of the reader that reads simple commands."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.commands: list[Command] = []
        self.values: dict[str, list[str]] = {}
        self.pending: _Pending | None = None
        self.substitutions = 0

    def within_lines(self, text: str) -> None:
        if self.pending is not None and "\n" in text:
            raise NotProven("a quoted text of several lines stands between a here-document and its body")

    def skip_blanks(self) -> None:
        if self.char() not in (" ", "\t", "\\"):
            return
        found = _BLANK.match(self.source, self.at, self.limit)
        if found is not None:
            self.at = found.end()

    def skip_lines(self) -> None:
        """Skip blanks, comments and line ends, and read the body that a line end begins."""
        while True:
            self.skip_blanks()
            char = self.char()
            if char == "#":
                found = _COMMENT.match(self.source, self.at, self.limit)
                assert found is not None
                self.at = found.end()
            elif char == "\n":
                self.at += 1
                if self.pending is not None:
                    self._body(self.pending)
            else:
                return

    def simple(self) -> None:
        begun = self.at
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirects: list[Redirect] = []
        while True:
            end = self.at
            self.skip_blanks()
            char = self.char()
            if self.redirect(redirects):
                continue
            if char in ("", "\n", ";", "&", "|", ")", "#"):
                break
            if char == "(":
                raise NotProven("a parenthesis stands behind a word")
            if not words and self._assignment(assignments):
                continue
            words.append(self.word())
        if end == begun:
            raise NotProven("a command is missing")
        self._check_time(words)
        self.commands.append(Command(tuple(words), tuple(assignments), redirects, begun, end))

    def _check_time(self, words: list[Word]) -> None:
        first = words[0] if words else None
        if first is None or first.text != "time" or first.end - first.start != 4:
            return
        if _AFTER_TIME.match(self.source, first.end, self.limit) is None or (
            len(words) > 1 and RESERVED.fullmatch(words[1].text)
        ):
            raise NotProven("time stands before more than a plain command")

    def _assignment(self, assignments: list[Assignment]) -> bool:
        found = _ASSIGNMENT.match(self.source, self.at, self.limit)
        if found is None:
            if _SUBSCRIPT.match(self.source, self.at, self.limit):
                raise NotProven("a subscript may run what is in a variable")
            return False
        self.at = found.end()
        char = self.char()
        if char == "(":
            self._array()
            assignments.append(Assignment(found[1], None))
            return True
        value = Word("", self.at, self.at)
        if char and char not in " \t\n;&|)<>":
            value = self.word()
        elif char in ("<", ">") and self.source.startswith("(", self.at + 1):
            raise NotProven("a process substitution is joined to a word")
        assignments.append(Assignment(found[1], value))
        self.set_value(found[1], value)
        return True

    def _array(self) -> None:
        self.at += 1
        while True:
            self.skip_lines()
            if self.char() == ")":
                self.at += 1
                return
            if self.char() == "[":
                raise NotProven("a subscript may run what is in a variable")
            self.word()

    def set_value(self, name: str, value: Word) -> None:
        if value.known:
            self.values.setdefault(name, []).append(value.text)

    # Redirections

    def redirect(self, redirects: list[Redirect]) -> bool:
        if self.char() not in _BEGIN_REDIRECT:
            return False
        found = _REDIRECT.match(self.source, self.at, self.limit)
        if found is None:
            return False
        operator = found[0].lstrip("0123456789")
        if len(found[0]) - len(operator) > _MAX_DIGITS:
            raise NotProven("a redirection has a large number, which may be a word")
        if operator in ("<", ">") and self.source.startswith("(", found.end()):
            if operator != found[0]:
                raise NotProven("a process substitution is joined to a word")
            return False
        self.at = found.end()
        if operator in ("<<", "<<-"):
            self._here(operator, redirects)
            return True
        self.skip_blanks()
        target = self.word()
        joined = operator in (">&", "<&") and target.text.startswith("-") and target.text != "-"
        if joined or (operator == "<&" and not (target.text == "-" or target.text.isdigit())):
            raise NotProven("a redirection is unusual")
        redirects.append(Redirect(operator, target))
        return True

    def _here(self, operator: str, redirects: list[Redirect]) -> None:
        found = _DELIMITER.match(self.source, self.at, self.limit)
        if found is None or self.pending is not None or self.substitutions:
            raise NotProven("a here-document is unusual")
        quoted = found[1] or found[2]
        delimiter = Word(quoted or found[3], self.at, found.end())
        self.at = found.end()
        redirects.append(Redirect("<<", delimiter))
        self.pending = _Pending(redirects, len(redirects) - 1, bool(quoted), operator == "<<-")

    def _body(self, pending: _Pending) -> None:
        self.pending = None
        delimiter = pending.redirects[pending.number].target
        begun, lines = self.at, list[str]()
        while self.at < self.limit:
            end = self.source.find("\n", self.at, self.limit)
            end = self.limit if end < 0 else end
            line = self.source[self.at : end]
            line = line.lstrip("\t") if pending.tabs else line
            self.at = min(end + 1, self.limit)
            if line == delimiter.text:
                break
            lines.append(line + "\n")
        else:
            raise NotProven("a here-document is not ended")
        text = "".join(lines)
        known = pending.literal or "$" not in text
        if not pending.literal:
            if _BODY_STRANGE.search(text):
                raise NotProven("a here-document holds more than text and variables")
            text = _IN_BODY.sub(UNKNOWN, text)
        body = Word(text, begun, self.at, known)
        pending.redirects[pending.number] = Redirect("<<", delimiter, body)
