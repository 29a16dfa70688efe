"""Which encoding a file is in: as the caller says, or as the file itself says, never a guess."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from ksadk.workspace.paths import WorkspaceError

UTF8 = "utf-8"
_SUPPORTED = re.compile(
    r"utf-8|utf-(16|32)(-[lb]e)?|ascii|gb2312|gbk|gb18030|big5|shift_jis|euc_jp|euc_kr|johab"
    r"|cp\d+|iso8859-\d+|koi8-[rtu]|kz1048|mac-\w+|hp-roman8|ptcp154|tis-620"
)
"""By the names that Python gives them. Left out is what is no text encoding, and what writes a character by
the ones beside it (iso2022, hz, utf-7, HKSCS, JIS X 0213): there an edit would change bytes outside of it."""

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF16_LE, "utf-16-le"),  # UTF-32's begins with it too, and is tried before
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARK_OF = {name: mark for mark, name in _MARKS}
_MARKED = {"utf-8-sig": UTF8, "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
"""Encodings whose name says that a byte order mark belongs to them, and what such a file is written in."""

_CANDIDATES = ("gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1252", "cp1251")
_WIDE_CANDIDATES = ("utf-16-le", "utf-16-be")
"""For bytes with NULs, which no text in one of the others has."""

_PYTHON_SUFFIXES = (".py", ".pyi", ".pyw")
_DECLARATION = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#|\r?$)")
_NAME_IT = (
    "Name one such as utf-8, gb18030, big5, shift_jis, euc_jp, euc_kr, cp1252, cp1251, latin-1 or utf-16-le."
)


class Charset(NamedTuple):
    """An encoding by Python's name for it, and the bytes of the mark that the file begins with."""

    name: str
    mark: bytes = b""


def of_file(data: bytes, shown: str, encoding: str | None = None) -> Charset:
    """The encoding of a file: the one named; else of its byte order mark; else, in a Python source, the one
    that it declares (PEP 263); else UTF-8, which the bytes may not be.

    Raises `unsupported_encoding`.
    """
    if encoding is not None:
        return _named(data, shown, encoding)
    for mark, name in _MARKS:
        if data.startswith(mark):
            return Charset(name, mark)
    return Charset(declared(data, shown) or UTF8)


def of_new_file(content: str, shown: str, encoding: str | None = None) -> Charset:
    """The encoding of a text that shall be a whole file, so that `of_file` finds it again."""
    if encoding is None:
        head = "\n".join(content.split("\n", 2)[:2])
        return Charset(declared(head.encode("utf-8", "replace"), shown) or UTF8)
    name = supported(encoding, shown)
    if name in _MARKED:
        name = _MARKED[name]
        return Charset(name, _MARK_OF[name])
    return Charset(name)


def declared(data: bytes, shown: str) -> str | None:
    """The encoding that a Python source declares in its first two lines, as PEP 263 has it."""
    if not shown.lower().endswith(_PYTHON_SUFFIXES):
        return None
    end = data.find(b"\n", data.find(b"\n") + 1)
    for line in data[: end if end >= 0 else None].split(b"\n", 2)[:2]:
        found = _DECLARATION.match(line)
        if found:
            name = supported(_as_python_reads(found[1].decode("ascii", "replace")), shown)
            name = _MARKED.get(name, name)
            if "#".encode(name) != b"#":
                raise _unsupported(name, shown, "is not one that a Python source can declare")
            return name
        if not _BLANK.match(line):
            break
    return None


def supported(encoding: str, shown: str) -> str:
    """Python's name of an encoding; raises `unsupported_encoding` for what is none, or none for editing."""
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise _unsupported(encoding, shown, "is not an encoding that is known here") from None
    if name not in _MARKED and not _SUPPORTED.fullmatch(name):
        raise _unsupported(encoding, shown, "is not an encoding in which single places can be edited")
    return name


def candidates(data: bytes) -> list[str]:
    """Encodings in which the bytes are text: what to try, not what they are."""
    names = _WIDE_CANDIDATES if b"\0" in data else _CANDIDATES
    return [name for name in names if decoded(data, name) is not None]


def decoded(data: bytes, name: str) -> str | None:
    """The bytes as text, where they are that and the text gives the same bytes back; else None."""
    try:
        text = data.decode(name)
        return text if name == UTF8 or text.encode(name) == data else None
    except UnicodeError:
        return None


def _named(data: bytes, shown: str, encoding: str) -> Charset:
    name = supported(encoding, shown)
    for mark, marked in _MARKS:
        if data.startswith(mark) and (marked == name or marked.startswith(name + "-") or name == "utf-8-sig"):
            return Charset(marked, mark)
    if name in ("utf-16", "utf-32"):
        raise _unsupported(
            encoding, shown, "needs a byte order mark, and there is none", f"Say {name}-le or {name}-be."
        )
    return Charset(_MARKED.get(name, name))


def _as_python_reads(name: str) -> str:
    """A declared name without what editors add to it, such as `utf-8-unix`."""
    plain = name.lower().replace("_", "-")
    for known in (UTF8, "latin-1", "iso-8859-1", "iso-latin-1"):
        if plain.startswith(known + "-") and plain != "utf-8-sig":
            return known
    return name


def _unsupported(encoding: str, shown: str, why: str, hint: str = _NAME_IT) -> WorkspaceError:
    return WorkspaceError(
        f"{shown}: {encoding!r} {why}", code="unsupported_encoding", hint=hint, path=shown, encoding=encoding
    )
