"""Reads one word of a shell line: quotes, escapes, variables and substitutions.

What is accepted is a list of shapes; everything else raises `NotProven`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from ksadk.tools.commands.words import UNKNOWN, NotProven, Unbalanced, Word

ENDS = " \t\n;&|()<>"
_END = r"(?=[ \t\n;&|)<>]|\Z)"
_FAST = re.compile(r"[A-Za-z0-9_./:@%+,^=\-\x80-\xff]+" + _END)
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,^=\-~!*?\[\]{}#\x80-\xff]+")
_SINGLE = re.compile(r"'([^']*)'")
_IN_DOUBLE = re.compile(r'[^"\\$`]+')
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!_-])")
_NUMERIC = ("$#", "$?", "$$", "$!")
_SUBSCRIPT = r"(?:\[(?:[@*]|[0-9]+)\])?"
_PARAMETER = re.compile(
    r"\$\{(?:"
    rf"#?(?:[A-Za-z_][A-Za-z0-9_]*{_SUBSCRIPT}|[0-9]+|[@*#?])"
    rf"|(?:[A-Za-z_][A-Za-z0-9_]*{_SUBSCRIPT}|[0-9]+|[@*])"
    r"(?:(?::?[-+?]|##?|%%?|//?|\^\^?|,,?)[A-Za-z0-9_./:@%+,=*?-]*|:[0-9]+(?::[0-9]+)?)"
    r")\}"
)
_ARITHMETIC = re.compile(r"\$\(\((?:[0-9 +\-*/%<>=!&|^~?:]|\$[#?])*\)\)")
_BACKTICKS = re.compile(r"`([^`\\$\"'\n#]*)`")
_LITERAL_DOLLAR = re.compile(r"\$(?=[ \t\n;&|)/.,:%+=~^\]]|\Z)")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\[\\'\"ntrabefv]|\\x[0-9A-Fa-f]{2}|\\[0-7]{3})*)'")
_ANSI_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|[0-7]{3}|.)", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


class _Pieces:
    """A word while it is read. `bare` has q for each quoted character, so that quoted braces are none."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.bare: list[str] = []
        self.known = True
        self.splits = False

    def plain(self, text: str) -> None:
        self.text.append(text)
        self.bare.append(text)

    def quoted(self, text: str) -> None:
        self.text.append(text)
        self.bare.append("q")

    def unknown(self, *, splits: bool, text: str = UNKNOWN) -> None:
        self.quoted(text)
        self.known = False
        self.splits |= splits

    def word(self, start: int, end: int) -> Word:
        bare = "".join(self.bare)
        rest = bare.partition("{")[2]
        braces = "," in rest or ".." in rest
        glob = "*" in bare or "?" in bare or "]" in bare.partition("[")[2]
        known = self.known and not braces and not glob and not bare.startswith("~")
        return Word("".join(self.text), start, end, known, self.splits or braces, glob)


class Quoting(ABC):
    """The part of the reader that reads words. `source[at:limit]` is what is left of the line."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.limit = len(source)

    @abstractmethod
    def substitution(self, end: str) -> None:
        """Read the commands of a substitution up to `end`, and past it."""

    @abstractmethod
    def within_lines(self, text: str) -> None:
        """Raise where a quoted text may not hold line ends."""

    def char(self) -> str:
        return self.source[self.at] if self.at < self.limit else ""

    def word(self) -> Word:
        """The word that begins here."""
        begun = self.at
        fast = _FAST.match(self.source, begun, self.limit)
        if fast is not None:
            self.at = fast.end()
            return Word(fast[0], begun, self.at)
        if self.char() == "#":
            raise NotProven("a comment stands where none is expected")
        pieces = _Pieces()
        while (char := self.char()) and char not in ENDS:
            self._piece(char, pieces)
        if self.at == begun:
            self._process_substitution(pieces)
        elif char in ("<", ">"):
            self._check_joined(begun)
        return pieces.word(begun, self.at)

    def _check_joined(self, begun: int) -> None:
        if self.source.startswith("(", self.at + 1):
            raise NotProven("a process substitution is joined to a word")
        if self.source.startswith("{", begun):
            raise NotProven("a redirection may set a variable")

    def _piece(self, char: str, pieces: _Pieces) -> None:
        plain = _PLAIN.match(self.source, self.at, self.limit)
        if plain is not None:
            pieces.plain(plain[0])
            self.at = plain.end()
        elif char == "'":
            pieces.quoted(self._quoted(_SINGLE))
        elif char == '"':
            self._double(pieces)
        elif char == "\\":
            self._escape(pieces)
        elif char == "$":
            self._dollar(pieces, double=False)
        elif char == "`":
            self._backticks(pieces, double=False)
        else:
            raise NotProven(f"{char!r} stands in a word")

    def _quoted(self, shape: re.Pattern[str]) -> str:
        found = shape.match(self.source, self.at, self.limit)
        if found is None:
            raise Unbalanced("a quote is not closed")
        self.at = found.end()
        self.within_lines(found[1])
        return found[1]

    def _escape(self, pieces: _Pieces) -> None:
        escaped = self.source[self.at + 1 : self.limit][:1]
        if escaped in ("", "\n"):
            raise NotProven("a backslash ends a line inside a word")
        pieces.quoted(escaped)
        self.at += 2

    def _double(self, pieces: _Pieces) -> None:
        self.at += 1
        pieces.quoted("")
        while (char := self.char()) != '"':
            plain = _IN_DOUBLE.match(self.source, self.at, self.limit)
            if plain is not None:
                self.within_lines(plain[0])
                pieces.quoted(plain[0])
                self.at = plain.end()
            elif char == "\\":
                escaped = self.source[self.at + 1 : self.limit][:1]
                if escaped in ("", "\n"):
                    raise (NotProven if escaped else Unbalanced)("a backslash ends a line inside quotes")
                pieces.quoted(escaped if escaped in '$`"\\' else "\\" + escaped)
                self.at += 2
            elif char == "$":
                self._dollar(pieces, double=True)
            elif char == "`":
                self._backticks(pieces, double=True)
            else:
                raise Unbalanced("a quote is not closed")
        self.at += 1

    def _dollar(self, pieces: _Pieces, *, double: bool) -> None:
        source, at = self.source, self.at
        found = _VARIABLE.match(source, at, self.limit)
        if found is not None:
            if found[0] in _NUMERIC:
                pieces.unknown(splits=False, text="0")
            else:
                pieces.unknown(splits=not double or found[0] == "$@")
            self.at = found.end()
        elif source.startswith("$((", at):
            found = _ARITHMETIC.match(source, at, self.limit)
            if found is None:
                raise NotProven("arithmetic may run what is in a variable")
            pieces.unknown(splits=False, text="0")
            self.at = found.end()
        elif source.startswith("$(", at):
            self.at += 2
            self.substitution(")")
            number = source[at : self.at] == "$(nproc)"
            pieces.unknown(splits=not double and not number, text="0" if number else UNKNOWN)
        elif source.startswith("${", at):
            found = _PARAMETER.match(source, at, self.limit)
            if found is None:
                raise NotProven("the braces of a variable hold more than a plain text")
            pieces.unknown(splits=not double or "@" in found[0])
            self.at = found.end()
        else:
            self._other_dollar(pieces, double=double)

    def _other_dollar(self, pieces: _Pieces, *, double: bool) -> None:
        following = self.source[self.at + 1 : self.limit][:1]
        if following == "'" and not double:
            pieces.quoted(_ansi(self._ansi_quoted()))
        elif (following == '"' and double) or _LITERAL_DOLLAR.match(self.source, self.at, self.limit):
            pieces.quoted("$")
            self.at += 1
        else:
            raise NotProven("a dollar sign stands before something unusual")

    def _ansi_quoted(self) -> str:
        found = _ANSI.match(self.source, self.at, self.limit)
        if found is None:
            raise NotProven("$'...' holds an unusual escape")
        self.at = found.end()
        self.within_lines(found[1])
        return found[1]

    def _backticks(self, pieces: _Pieces, *, double: bool) -> None:
        found = _BACKTICKS.match(self.source, self.at, self.limit)
        if found is None:
            raise NotProven("backticks hold more than plain words")
        limit, self.limit = self.limit, found.end() - 1
        self.at += 1
        self.substitution("")
        self.limit = limit
        self.at = found.end()
        pieces.unknown(splits=not double)

    def _process_substitution(self, pieces: _Pieces) -> None:
        if not self.source.startswith(("<(", ">("), self.at):
            raise NotProven("a word is missing")
        self.at += 2
        self.substitution(")")
        pieces.quoted("/dev/fd/0")
        pieces.known = False
        if self.char() not in ("", *ENDS):
            raise NotProven("a process substitution is joined to a word")


def _ansi(text: str) -> str:
    def letter(found: re.Match[str]) -> str:
        escape = found[1]
        if escape[0] == "x" or len(escape) == 3:
            code = int(escape[1:], 16) if escape[0] == "x" else int(escape, 8)
            if not 0 < code < 128:
                raise NotProven("$'...' holds an unusual escape")
            return chr(code)
        return _ANSI_LETTERS.get(escape, escape)

    return _ANSI_ESCAPE.sub(letter, text)
