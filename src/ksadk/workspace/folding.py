"""Text without what people do not see or mind: blanks, letter case, and the form of Unicode characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

BLANKS = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a" + (
    "\u200b\u200c\u200d\u2028\u2029\u202f\u205f\u2060\u3000\ufeff\xad"
)
"""What takes room or none, and no ink."""

KINDS = {"whitespace": "whitespace", "case": "letter case", "unicode": "Unicode characters that look alike"}
"""In what texts may differ and still be folded to the same, with the words for it."""

_QUOTES = dict.fromkeys("\u2018\u2019\u201a\u201b", "'") | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
_ALIKE = {
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63",
    "'": "\u2032\u02bc\u00b4`",
    '"': "\u2033\u00ab\u00bb",
    "...": "\u2026",
    "a": "\u0430\u03b1", "c": "\u0441", "e": "\u0435", "i": "\u0456", "o": "\u043e\u03bf",
    "p": "\u0440\u03c1", "s": "\u0455", "x": "\u0445", "y": "\u0443",
    "A": "\u0410\u0391", "B": "\u0412\u0392", "C": "\u0421",
    "E": "\u0415\u0395", "H": "\u041d\u0397", "I": "\u0406\u0399", "K": "\u041a\u039a", "M": "\u041c\u039c",
    "O": "\u041e\u039f", "P": "\u0420\u03a1", "T": "\u0422\u03a4", "X": "\u0425\u03a7",
}  # fmt: skip
_PLAIN = {alike: plain for plain, several in _ALIKE.items() for alike in several} | {
    chr(0xFF00 + code): chr(0x20 + code) for code in range(1, 0x5F)
}
_PIECE = re.compile(r"(?s).{1,192}[^\x00-\x7f]{0,64}")
"""So long are the pieces that are composed: putting a long run of marks in order takes the square of it."""


def straight(text: str) -> str:
    """The text with straight quotes for curly ones, each one character as before."""
    for curly, plain in _QUOTES.items():
        text = text.replace(curly, plain)
    return text


def fold(text: str, but: str | None = None) -> str:
    """The text with every kind of difference taken out of it, except the one that `but` names; straight and
    curly quotes are the same in any case."""
    text = straight(text)
    for kind, change in _CHANGES.items():
        if kind != but:
            text = change(text)
    return text


def _unified(text: str) -> str:
    if "`" in text:
        text = text.replace("`", "'")
    if text.isascii():
        return text
    text = "".join(unicodedata.normalize("NFC", piece) for piece in _PIECE.findall(text))
    return "".join(_PLAIN.get(character, character) for character in text) if _ODD.search(text) else text


def _without_blanks(text: str) -> str:
    return "".join(_RUNS.split(text)) if _RUNS.search(text) else text


_ODD = re.compile("[" + "".join(map(re.escape, _PLAIN)) + "]")
_RUNS = re.compile("[" + re.escape(BLANKS) + "]+")
_CHANGES: dict[str, Callable[[str], str]] = {
    "unicode": _unified,
    "case": str.casefold,
    "whitespace": _without_blanks,
}
