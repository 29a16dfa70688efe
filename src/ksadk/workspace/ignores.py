"""Ignore files, read as ripgrep reads them, so that a search without it leaves out the same files.

The patterns are of bytes. They are matched in linear time, whatever an ignore file holds.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

KINDS = (".rgignore", ".ignore", ".gitignore")
"""The names of ignore files, the strongest first: what a `.ignore` says counts before any `.gitignore`."""

MAX_IGNORE_BYTES = 4 * 1024 * 1024

_BLANKS = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_GROUP = 64
"""How many rules are tried at once. Most paths fit none of them."""

_EVERYTHING = b".*"
_ANY_DIRECTORIES = b"(?:/?|.*/)"
_BETWEEN = b"(?:/|/.*/)"
_BELOW = b"/.*"


class _Unreadable(Exception):
    """A line that is no pattern; ripgrep passes over it too."""


@dataclass(frozen=True)
class Rule:
    """One line of an ignore file. `pattern` is matched against a whole path from the file's directory."""

    pattern: bytes
    only_directories: bool
    keep: bool

    @classmethod
    def read(cls, line: str) -> Rule | None:
        """The rule of a line; None for a blank, a comment, and what is no pattern."""
        if line.startswith("#"):
            return None
        line = line if line.endswith("\\ ") else line.rstrip(_BLANKS)
        if not line:
            return None
        keep = anchored = False
        if line.startswith(("\\!", "\\#")):
            line = line[1:]
        else:
            keep = line.startswith("!")
            line = line[keep:]
            anchored = line.startswith("/")
            line = line[anchored:]
        only_directories = line.endswith("/")
        if only_directories:
            line = line[:-1].removesuffix("\\")
        if not anchored and "/" not in line and line != "**":
            line = f"**/{line}"
        if line.endswith("/**"):
            line += "/*"  # what is inside, not the directory itself
        glob = _Translator(line)
        try:
            pattern = glob.pattern()
        except _Unreadable:
            return None
        # Where releases of ripgrep differ, what any of them leaves out is left out: in some of them a dot
        # matches no line end in a name, or such braces make no pattern.
        if keep:
            return None if glob.odd_braces else cls(b"(?-s:%b)" % pattern, only_directories, keep)
        return cls(b"(?s:%b)" % pattern, only_directories, keep)


@dataclass(frozen=True)
class RuleFile:
    """The rules of one ignore file, in order."""

    rules: tuple[Rule, ...]

    @classmethod
    def read(cls, data: bytes, check: Callable[[], None] = lambda: None) -> RuleFile | None:
        """The rules in an ignore file up to the first line that is not UTF-8; None where there are none.

        `check` is called for each line, of which there may be many; it may raise to end this.
        """
        rules = []
        lines = data.split(b"\n")
        if lines[0].startswith(BOM_UTF8):  # only newer releases of ripgrep take it away: both readings hold
            plain = lines[0].removeprefix(BOM_UTF8)
            lines[:0] = [] if plain.startswith(b"!") else [plain]
        for line in lines:
            check()
            try:
                rule = Rule.read(line.decode())
            except UnicodeDecodeError:
                break
            if rule is not None:
                rules.append(rule)
        return cls(tuple(rules)) if rules else None

    def verdict(self, path: bytes, is_directory: bool, check: Callable[[], None]) -> bool | None:
        """Whether the rules ignore a path from their directory; None where they say nothing.

        The last rule that fits decides.
        """
        for group in reversed(self._groups):
            check()
            if group.may_fit(path):
                for rule, fits in group.backwards():
                    check()
                    if (is_directory or not rule.only_directories) and fits(path):
                        return not rule.keep
        return None

    @cached_property
    def _groups(self) -> list[_Group]:
        return [_Group(self.rules[start : start + _GROUP]) for start in range(0, len(self.rules), _GROUP)]


@dataclass(frozen=True)
class _Group:
    """Some rules, compiled when they are first needed."""

    rules: tuple[Rule, ...]
    _compiled: dict[int, Callable[[bytes], object]] = field(default_factory=dict)

    @cached_property
    def may_fit(self) -> Callable[[bytes], object]:
        """False only for what no rule fits."""
        every = b"|".join(b"(?:%b)" % rule.pattern for rule in self.rules)
        return _compiled(every) or bool

    def backwards(self) -> Iterator[tuple[Rule, Callable[[bytes], object]]]:
        for index in reversed(range(len(self.rules))):
            if index not in self._compiled:
                self._compiled[index] = _compiled(self.rules[index].pattern) or _never
            yield self.rules[index], self._compiled[index]


@dataclass(frozen=True)
class Scope:
    """The ignore files that hold in a directory: of each kind, the nearest first, with its depth."""

    files: tuple[tuple[tuple[int, RuleFile], ...], ...] = ((),) * len(KINDS)

    def inside(self, depth: int, read: Callable[[str], RuleFile | None]) -> Scope:
        """The scope in a directory that is `depth` names below the root; `read` gives its files by name."""
        found = [read(name) for name in KINDS]
        if not any(found):
            return self
        return Scope(
            tuple(
                above if rules is None else ((depth, rules), *above)
                for rules, above in zip(found, self.files, strict=True)
            )
        )

    def ignores(self, names: tuple[str, ...], is_directory: bool, check: Callable[[], None]) -> bool:
        """Whether a path from the root is ignored by its own name; those of its directories do not count."""
        for kind in self.files:
            for depth, rules in kind:
                path = "/".join(names[depth:]).encode("utf-8", "surrogateescape")
                said = rules.verdict(path, is_directory, check)
                if said is not None:
                    return said
        return False

    def __bool__(self) -> bool:
        return any(self.files)

    @property
    def may_overrule(self) -> bool:
        """Whether a rule here may keep what a weaker file, nearer to a path, ignores."""
        return any(rule.keep for kind in self.files[:-1] for _, file in kind for rule in file.rules)


def _never(path: bytes) -> bool:  # noqa: ARG001  # what a pattern that is too large for the engine matches
    return False


def _compiled(pattern: bytes) -> Callable[[bytes], object] | None:
    """A matcher of whole paths; None for a pattern that is too large."""
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    try:
        # Not through the module's cache, which would keep patterns of workspaces that are long gone.
        matcher: Callable[[bytes], object] = re2._Regexp(pattern, options).fullmatch
    except re2.error:
        return None
    return matcher


class _Translator:
    """Reads one glob, and writes it as a regular expression of bytes."""

    def __init__(self, glob: str) -> None:
        self._glob = glob
        self._at = 0
        self.odd_braces = False
        """Whether there are braces in braces, or one is closed that is not open."""
        self._open: list[list[list[bytes]]] = [[[]]]
        """The braces that are open, each with its alternatives so far; the first is the whole pattern."""

    def pattern(self) -> bytes:
        while self._at < len(self._glob):
            self._read(self._next())
        if len(self._open) > 1:
            raise _Unreadable
        return _EVERYTHING if self._tokens == [_ANY_DIRECTORIES] else b"".join(self._tokens)

    @property
    def _tokens(self) -> list[bytes]:
        return self._open[-1][-1]

    def _read(self, char: str) -> None:
        if char == "?":
            self._tokens.append(b"[^/]")
        elif char == "*":
            self._star()
        elif char == "[":
            self._tokens.append(self._set())
        elif char == "{":
            self.odd_braces |= len(self._open) > 1
            self._open.append([[]])
        elif char == "}":
            self._close()
        elif char == "," and len(self._open) > 1:
            self._open[-1].append([])
        else:
            self._tokens.append(_literal(self._next() if char == "\\" else char))

    def _close(self) -> None:
        if len(self._open) == 1:
            self.odd_braces = True
            self._tokens.append(b"")
            return
        branches = [b"".join(tokens) for tokens in self._open.pop()]
        branches = [branch for branch in branches if branch]
        self._tokens.append(b"(?:%b)" % b"|".join(branches) if branches else b"")

    def _star(self) -> None:
        before = self._glob[self._at - 2] if self._at > 1 else ""
        if self._peek() != "*":
            self._tokens.append(b"[^/]*")
            return
        self._at += 1
        after, starts = self._peek(), not self._tokens
        in_braces = len(self._open) > 1
        begins = starts or before == "/" or (in_braces and before in ("{", ","))
        ends = after in ("", "/") or (not starts and in_braces and after in (",", "}"))
        if not begins or not ends:
            self._tokens.append(b"[^/]*")  # two stars inside a name are one
            return
        self._at += after == "/"
        if starts:
            self._tokens.append(_ANY_DIRECTORIES)
        elif self._tokens[-1] not in (_ANY_DIRECTORIES, _BELOW):
            self._tokens.pop()  # the slash
            self._tokens.append(_BETWEEN if after == "/" else _BELOW)

    def _set(self) -> bytes:
        negated = self._peek() in ("!", "^")
        self._at += negated
        ranges: list[list[str]] = []
        in_range = False
        while (char := self._next()) != "]" or not ranges:
            if in_range:
                if char < ranges[-1][0]:
                    raise _Unreadable
                ranges[-1][1] = char
                in_range = False
            elif char == "-" and ranges:
                in_range = True
            else:
                ranges.append([char, char])
        if in_range:
            ranges.append(["-", "-"])
        inside = b"".join(
            _literal(low) if low == high else b"%b-%b" % (_literal(low), _literal(high))
            for low, high in ranges
        )
        return b"[%b%b]" % (b"^" if negated else b"", inside)

    def _peek(self) -> str:
        return self._glob[self._at : self._at + 1]

    def _next(self) -> str:
        char = self._peek()
        if not char:
            raise _Unreadable
        self._at += 1
        return char


def _literal(char: str) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in char.encode())
