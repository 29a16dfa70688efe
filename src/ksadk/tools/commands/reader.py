"""Reads a shell line as bash does, as far as that is certain.

It takes the part of the language that everyday lines are written in. Whatever else stands in a line raises
`NotProven`: what is accepted is a list of shapes, so that a shape nobody thought of is never let through.
"""

from __future__ import annotations

import re

from ksadk.tools.commands.simple import RESERVED, Simple
from ksadk.tools.commands.words import Assignment, Command, NotProven, Redirect, Script, Word, as_bytes

MAX_DEPTH = 30
"""Commands inside commands."""

_STRANGE = re.compile(r"[^\t\n\x20-\x7e\x80-\xff]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FUNCTION = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)[ \t]*\([ \t]*\)[ \t\n]*(?=[{(])")


def read_script(line: str) -> Script:
    """Every simple command of a line; `NotProven` where a part of it cannot be read with certainty."""
    source = as_bytes(line)
    strange = _STRANGE.search(source)
    if strange is not None:
        raise NotProven(f"it holds the control character {strange[0]!r}")
    return _Reader(source).script()


class _Reader(Simple):
    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._functions: dict[str, int] = {}
        self._depth = 0

    def script(self) -> Script:
        self._list(("",), empty=True)
        if self.pending is not None:
            raise NotProven("a here-document has no body")
        return Script(self.source, self.commands, self._functions, self.values)

    def substitution(self, end: str) -> None:
        if self.pending is not None:
            raise NotProven("a substitution stands between a here-document and its body")
        self.substitutions += 1
        self._list((end,))
        self.substitutions -= 1

    # Lists

    def _list(self, stops: tuple[str, ...], *, empty: bool = False) -> str:
        """Read commands up to one of `stops` where a command could begin, and past it; returns it."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NotProven("it is nested too deeply")
        chained = False
        while True:
            self.skip_lines()
            stop = self._stop(stops)
            if stop is not None:
                if chained or not empty:
                    raise NotProven("a command is missing")
                self._depth -= 1
                return stop
            self._pipeline(surely=self._depth == 1 and not chained)
            empty = True
            chained = self._separator(stops)

    def _stop(self, stops: tuple[str, ...]) -> str | None:
        if self.at >= self.limit:
            if "" in stops:
                return ""
            raise NotProven("it ends inside a command")
        for stop in (")", ";;"):
            if stop in stops and self.source.startswith(stop, self.at):
                self.at += len(stop)
                return stop
        reserved = RESERVED.match(self.source, self.at, self.limit)
        if reserved is not None and reserved[0] in stops:
            self.at = reserved.end()
            return reserved[0]
        return None

    def _separator(self, stops: tuple[str, ...]) -> bool:
        """Read what ends a pipeline; returns whether it is && or ||, behind which a command must follow."""
        self.skip_blanks()
        if self.source.startswith(("&&", "||"), self.at):
            self.at += 2
            return True
        char = self.char()
        if char in (";", "&") and not self.source.startswith(";;", self.at):
            self.at += 1
        elif char not in ("", "\n", "#", ")") and not (char == ";" and ";;" in stops):
            raise NotProven("two commands are not parted")
        return False

    def _pipeline(self, *, surely: bool) -> None:
        reserved = RESERVED.match(self.source, self.at, self.limit)
        if reserved is not None and reserved[0] == "!":
            self.at = reserved.end()
            self.skip_blanks()
            surely = False
        self._command(surely=surely)
        self.skip_blanks()
        while self.char() == "|" and not self.source.startswith("||", self.at):
            self.at += 2 if self.source.startswith("|&", self.at) else 1
            self.skip_lines()
            self._command(surely=False)
            self.skip_blanks()

    # Commands

    def _command(self, *, surely: bool) -> None:
        begun = self.at
        reserved = RESERVED.match(self.source, begun, self.limit)
        if reserved is not None:
            self.at = reserved.end()
            self._compound(reserved[0], begun)
        elif self.char() == "(":
            self._subshell()
        else:
            function = _FUNCTION.match(self.source, begun, self.limit)
            if function is None:
                self.simple()
                return
            self._function(function, surely=surely)
            return
        self._redirects_of_compound()

    def _subshell(self) -> None:
        if self.source.startswith("((", self.at):
            raise NotProven("arithmetic may run what is in a variable")
        self.at += 1
        self._list((")",))

    def _compound(self, reserved: str, begun: int) -> None:
        if reserved == "{":
            self._list(("}",))
        elif reserved == "if":
            self._list(("then",))
            while (stop := self._list(("elif", "else", "fi"))) == "elif":
                self._list(("then",))
            if stop == "else":
                self._list(("fi",))
        elif reserved in ("while", "until"):
            self._list(("do",))
            self._list(("done",))
        elif reserved == "for":
            self._for(begun)
        elif reserved == "case":
            self._case()
        elif reserved == "[[":
            self._test(begun)
        else:
            raise NotProven(f"{reserved} stands where its meaning is uncertain")

    def _for(self, begun: int) -> None:
        self.skip_blanks()
        name = _NAME.match(self.source, self.at, self.limit)
        if name is None:
            raise NotProven("for has no plain variable")
        self.at = name.end()
        self.skip_blanks()
        self._expect("in")
        while True:
            self.skip_blanks()
            if self.char() in ("", "\n", ";"):
                break
            self.set_value(name[0], self.word())
        self.commands.append(Command((), (Assignment(name[0], None),), [], begun, self.at))
        if self.char() == ";":
            self.at += 1
        self.skip_lines()
        self._expect("do")
        self._list(("done",))

    def _expect(self, word: str) -> None:
        if not self.source.startswith(word, self.at) or self.source[self.at + len(word) :][:1] not in " \t\n":
            raise NotProven(f"{word} is missing")
        self.at += len(word)

    def _case(self) -> None:
        self.skip_blanks()
        self.word()
        self.skip_lines()
        self._expect("in")
        while True:
            self.skip_lines()
            if self._stop(("esac",)) is not None:
                return
            if self.char() == "(":
                self.at += 1
            self._patterns()
            if self._list((";;", "esac"), empty=True) == "esac":
                return

    def _patterns(self) -> None:
        while True:
            self.skip_blanks()
            self.word()
            self.skip_blanks()
            end = self.char()
            self.at += 1
            if end == ")":
                return
            if end != "|":
                raise NotProven("a pattern of case is unusual")

    def _test(self, begun: int) -> None:
        words = [Word("[[", begun, self.at)]
        while True:
            self.skip_blanks()
            operator = next((o for o in ("&&", "||", "(", ")", "<", ">") if self._starts(o)), None)
            if operator is not None:
                words.append(Word(operator, self.at, self.at + len(operator)))
                self.at += len(operator)
            elif self.char() in ("", "\n", ";", "&", "|"):
                raise NotProven("[[ ]] is unusual")
            else:
                words.append(self.word())
                if words[-1].text == "]]":
                    break
        self.commands.append(Command(tuple(words), (), [], begun, self.at))

    def _starts(self, text: str) -> bool:
        return self.source.startswith(text, self.at)

    def _function(self, found: re.Match[str], *, surely: bool) -> None:
        self.at = found.end()
        if self.char() == "(":
            self._subshell()
        else:
            self._expect("{")
            self._list(("}",))
        self._redirects_of_compound()
        self.skip_blanks()
        if surely and self.char() in ("", "\n", ";"):
            self._functions.setdefault(found[1], self.at)

    def _redirects_of_compound(self) -> None:
        begun, redirects = self.at, list[Redirect]()
        while True:
            self.skip_blanks()
            if not self.redirect(redirects):
                break
        if redirects:
            self.commands.append(Command((), (), redirects, begun, self.at))
