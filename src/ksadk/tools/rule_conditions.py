"""What a rule asks of an argument: a path glob, a domain, a regular expression, a value, or one of several.

Allowing and tightening are not mirror images. A condition of an allow rule must hold for everything that a
call acts on, by every name that it has; one of a deny or ask rule holds as soon as one name of one thing
fits. Where that cannot be told, the condition of an allow rule does not hold, and that of the others does.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import os
import posixpath
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from ksadk.hosts import address_of
from ksadk.workspace.globs import name_matches, path_matches

MAX_PATTERN = 1_000
MAX_TEXT = 10_000
"""Characters of an argument that a regular expression is held against."""


class BadRule(ValueError):
    """What is wrong with a rule, in words for a person."""


_DOMAIN = re.compile(r"(?:\*|(?:\*\.)?[^\s*/@:?#\[\]\\]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")


_WILD = re.compile(r"[*?[]")
_ESCAPED = re.compile(r"\[([*?[])\]")


@dataclass(frozen=True)
class Subject:
    """What a condition is held against: the things that a call acts on, each with its names.

    `kind` is `path` where files are named relative to a `root`, `text_path` where an argument is called path
    and no root is known, `url`, or `value` for any other argument, whose only name is its value.
    """

    kind: str
    items: tuple[tuple[Any, ...], ...]
    root: str = ""


def alternatives(condition: Condition) -> list[Condition]:
    """Conditions of which one must hold: those that a list is held against as it is, and the rest as one."""
    if not isinstance(condition, AnyOf):
        return [condition]
    members = [part for member in condition.conditions for part in alternatives(member)]
    rest = tuple(member for member in members if not member.whole)
    return [*(member for member in members if member.whole), *([AnyOf(rest)] if rest else [])]


class Condition(Protocol):
    """One condition of a rule."""

    @property
    def whole(self) -> bool:
        """Whether a list is compared as it is, and not item by item."""

    def fits(self, name: Any, subject: Subject, tightening: bool) -> bool:
        """Whether one name of one thing fits."""


def holds(condition: Condition, subject: Subject, tightening: bool) -> bool:
    """Whether a condition holds: for all names of all things, or where it is `tightening`, for any."""
    results = [condition.fits(name, subject, tightening) for item in subject.items for name in item]
    return any(results) if tightening else bool(results) and all(results)


def read_condition(argument: str, written: Any) -> Condition:
    """The condition that is written in a rule; `ValueError` says what is wrong with it."""
    if isinstance(written, list):
        raise BadRule(f"{argument}: a list is written {{any: [...]}} or {{equals: [...]}}")
    if not isinstance(written, Mapping):
        return _read_plain(argument, written)
    if len(written) != 1:
        raise BadRule(f"{argument}: a condition has exactly one of {', '.join(_KINDS)}")
    kind, value = next(iter(written.items()))
    if kind not in _KINDS:
        raise BadRule(f"{argument}: {kind!r} is none of {', '.join(_KINDS)}")
    if kind == "equals":
        return Equals(value)
    if kind == "any":
        if not isinstance(value, list) or not value:
            raise BadRule(f"{argument}: any takes a list of conditions")
        return AnyOf(tuple(read_condition(argument, item) for item in value))
    if not isinstance(value, str) or not value:
        raise BadRule(f"{argument}: {kind} takes a text in quotes")
    if kind == "regex":
        return Regex(value, _compiled(argument, value))
    if kind == "domain":
        return Domain(_checked_domain(argument, value))
    return Glob(_checked_glob(argument, value))


def _compiled(argument: str, pattern: str) -> Any:
    """The pattern as RE2 takes it: it matches in time that grows with the text, whatever the pattern."""
    import re2

    if len(pattern) > MAX_PATTERN:
        raise BadRule(f"{argument}: a regular expression has at most {MAX_PATTERN:,} characters")
    options = re2.Options()
    options.dot_nl = True
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        words = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise BadRule(f"{argument}: the regular expression {pattern!r} cannot be used: {words}") from error


def _read_plain(argument: str, value: Any) -> Condition:
    if argument in ("path", "url") and not isinstance(value, str):
        raise BadRule(f"{argument}: a text is expected, in quotes where it is a number")
    if isinstance(value, str) and argument == "path":
        return Plain(value, glob=_checked_glob(argument, value))
    if isinstance(value, str) and argument == "url":
        return Plain(value, domain=_checked_domain(argument, value))
    return Plain(value)


_KINDS = ("glob", "domain", "regex", "equals", "any")


@dataclass(frozen=True)
class Plain:
    """A value alone: a glob for paths, a domain for URLs, equality for everything else."""

    value: Any
    glob: str | None = None
    domain: str | None = None
    whole = False

    def fits(self, name: Any, subject: Subject, tightening: bool) -> bool:
        if subject.kind in ("path", "text_path") and self.glob is not None:
            return glob_fits(self.glob, name, subject, tightening)
        if subject.kind == "url" and self.domain is not None:
            return domain_fits(self.domain, name, tightening)
        if same(self.value, name):
            return True
        return tightening and not isinstance(self.value, str) and name == json.dumps(self.value)


@dataclass(frozen=True)
class Equals:
    value: Any

    @property
    def whole(self) -> bool:
        return isinstance(self.value, list)

    def fits(self, name: Any, subject: Subject, tightening: bool) -> bool:  # noqa: ARG002  # as any condition
        return same(self.value, name)


@dataclass(frozen=True)
class Glob:
    pattern: str
    whole = False

    def fits(self, name: Any, subject: Subject, tightening: bool) -> bool:
        if subject.kind in ("path", "text_path"):
            return glob_fits(self.pattern, name, subject, tightening)
        return isinstance(name, str) and fnmatch.fnmatchcase(name, self.pattern)


@dataclass(frozen=True)
class Domain:
    pattern: str
    whole = False

    def fits(self, name: Any, subject: Subject, tightening: bool) -> bool:  # noqa: ARG002  # as any condition
        return domain_fits(self.pattern, name, tightening)


@dataclass(frozen=True)
class Regex:
    pattern: str
    compiled: Any = field(compare=False)
    whole = False

    def fits(self, name: Any, subject: Subject, tightening: bool) -> bool:  # noqa: ARG002  # as any condition
        if not isinstance(name, str) or len(name) > MAX_TEXT:
            return tightening
        try:
            return self.compiled.fullmatch(name) is not None
        except UnicodeEncodeError:  # half of a surrogate pair
            return tightening


@dataclass(frozen=True)
class AnyOf:
    conditions: tuple[Condition, ...]

    whole = False

    def fits(self, name: Any, subject: Subject, tightening: bool) -> bool:
        return any(condition.fits(name, subject, tightening) for condition in self.conditions)


def same(wanted: Any, value: Any) -> bool:
    """Whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(wanted, bool) or isinstance(value, bool):
        return wanted is value
    if isinstance(wanted, Mapping) and isinstance(value, Mapping):
        return wanted.keys() == value.keys() and all(same(wanted[key], value[key]) for key in wanted)
    if isinstance(wanted, (list, tuple)) and isinstance(value, (list, tuple)):
        return len(wanted) == len(value) and all(map(same, wanted, value))
    return bool(wanted == value)


def text_size(value: Any) -> int:
    """About how many characters a JSON value has."""
    if isinstance(value, str):
        return len(value) + 1
    if isinstance(value, Mapping):
        return sum(text_size(key) + text_size(member) for key, member in value.items())
    return sum(map(text_size, value)) if isinstance(value, list) else 1


def glob_fits(pattern: str, name: Any, subject: Subject, tightening: bool) -> bool:
    """Whether a path fits a glob. A pattern that begins with / is about the whole path on this machine.

    A pattern without a slash means a file in the root itself; one that tightens means that name anywhere, and
    takes capitals for small letters, as some file systems do, and a whole path with its links followed too.
    """
    if not isinstance(name, str):
        return tightening
    absolute = pattern.startswith("/")
    if subject.kind == "path" and absolute:
        if not subject.root:
            return tightening
        name = posixpath.join(subject.root, name) if name != "." else subject.root
    if _text_fits(pattern, name, tightening):
        return True
    return tightening and absolute and any(_text_fits(led, name, True) for led in _where_it_leads(pattern))


def _text_fits(pattern: str, name: str, tightening: bool) -> bool:
    if tightening:
        pattern, name = _folded(pattern), _folded(name)
        if "/" not in pattern and name_matches(pattern, name.rpartition("/")[2]):
            return True
    names = name.split("/") if name != "." else ["."]
    return path_matches(_segments(pattern, tightening), names)


def _where_it_leads(pattern: str) -> set[str]:
    """An absolute pattern with the links followed that stand before its first wildcard: all of them, and
    all but the last name, which may be the link that a call is about."""
    plain = [_ESCAPED.sub(r"\1", part) for part in pattern.split("/")]
    literal = next(
        (at for at, part in enumerate(pattern.split("/")) if _WILD.search(_ESCAPED.sub("", part))), len(plain)
    )
    rest = pattern.split("/")[literal:]
    before, last = "/".join(plain[: literal - 1]) or "/", plain[literal - 1]
    places = {
        os.path.realpath("/".join(plain[:literal]) or "/"),
        posixpath.join(os.path.realpath(before), last),
    }
    escaped = {_WILD.sub(r"[\g<0>]", place.rstrip("/")) for place in places}
    return {"/".join((place, *rest)) for place in escaped} - {pattern}


@functools.lru_cache(maxsize=1024)
def _segments(pattern: str, tightening: bool) -> tuple[str, ...]:
    parts = tuple(pattern.split("/"))
    if not tightening and parts[-1] == "**":
        return (*parts, "*")  # what is inside a directory, not the directory itself
    return parts


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    import unicodedata

    return unicodedata.normalize("NFC", text).casefold()


def clean_path(path: str) -> str:
    """A path with slashes, and without `.` and inner `..`; one that is absolute stays so."""
    cleaned = posixpath.normpath(path.replace("\\", "/") or ".")
    return cleaned[1:] if cleaned.startswith("//") else cleaned


def _checked_glob(argument: str, pattern: str) -> str:
    """The pattern, its ~ expanded and a / at its end read as everything below."""
    if not pattern or len(pattern) > MAX_PATTERN or "\0" in pattern:
        raise BadRule(f"{argument}: a path pattern has 1 to {MAX_PATTERN:,} characters")
    if "\\" in pattern:
        raise BadRule(f"{argument}: a path pattern has /, not \\, between names")
    if pattern == "~" or pattern.startswith("~/"):
        pattern = os.path.expanduser(pattern)  # noqa: PTH111  # text in, text out
        if pattern.startswith("~"):
            raise BadRule(f"{argument}: there is no home directory for ~ to stand for")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadRule(f"{argument}: no path has .. left in it; name the directory from the root")
    if pattern.endswith("/"):
        parts.append("**")
    return ("/" if pattern.startswith("/") else "") + "/".join(parts) if parts else "."


def _checked_domain(argument: str, pattern: str) -> str:
    if not _DOMAIN.fullmatch(pattern):
        raise BadRule(
            f"{argument}: {pattern!r} is no domain such as example.com or *.example.com; "
            "write {regex: ...} or {equals: ...} for more of a URL"
        )
    return pattern.lower()


def domain_fits(pattern: str, url: Any, tightening: bool) -> bool:
    """Whether the host of a URL fits a domain: `example.com`, `*.example.com` (what is below it), `*`.

    A port in the pattern must be the URL's; without one any port fits. A URL that programs could read in
    different ways has several hosts: all must fit, or where the rule tightens, any.
    """
    hosts = hosts_of(url) if isinstance(url, str) else None
    if not hosts:
        return tightening
    results = [_host_fits(pattern, host, port) for host, port in hosts]
    return any(results) if tightening else all(results)


def _host_fits(pattern: str, host: str, port: int | None) -> bool:
    wanted, colon, number = pattern.rpartition(":")
    if not colon or not number.isdigit():
        wanted, number = pattern, ""
    if number and port != int(number):
        return False
    if wanted == "*":
        return True
    if wanted.startswith("*."):
        return any(host.endswith(f".{name}") for name in _names(wanted[2:]))
    return host in _names(wanted.strip("[]"))


def hosts_of(url: str) -> set[tuple[str, int | None]]:
    """The hosts and ports that programs may read in a URL; empty where one reading fails."""
    stripped = "".join(url.split())  # browsers leave out line ends and tabs
    readings = {url.strip(), stripped, stripped.replace("\\", "/")}
    hosts = set()
    for reading in readings:
        try:
            parts = urlsplit(reading)
            port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
            host = parts.hostname
        except ValueError:
            return set()
        if not host:
            return set()
        hosts |= {(name, port) for name in _names(host) | _names(unquote(host))}
    return hosts


def _names(host: str) -> set[str]:
    """A host in small letters, without the dot at its end, as DNS is asked for it, and an address also in its
    usual notation. The two editions of IDNA make different names of ß and three letters more."""
    host = host.lower().rstrip(".")
    names = {host}
    if not host.isascii():
        import idna

        encoded = []
        with suppress(UnicodeError):
            encoded.append(host.encode("idna"))
        with suppress(UnicodeError):
            encoded.append(idna.encode(host, uts46=True))
        names = {name.decode().lower().rstrip(".") for name in encoded} or names
    return names | {str(address) for address in map(address_of, names) if address is not None}
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host
