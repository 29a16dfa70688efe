"""Small languages inside arguments: the scripts of sed and awk, and which of them only transform text."""

from __future__ import annotations

import re

_ADDRESS = r"(?:[0-9]+|\$|/(?:[^/\\\n]|\\.)*/I?)"
_RANGE = rf"(?:{_ADDRESS}(?:,[+~]?{_ADDRESS}|,[+~][0-9]+)?!?)?[ ]*"
_FIELD = r"(?:(?!(?P=d))[^\\\n]|\\[^\n])*(?P=d)"
_SUBSTITUTE_SED = re.compile(rf"{_RANGE}s(?P<d>[/|#,:@!%]){_FIELD}{_FIELD}[gpiI0-9]*")
_TRANSLATE_SED = re.compile(_RANGE + r"y/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/")
_SIMPLE_SED = re.compile(rf"{_RANGE}(?:[pdqQ=lnNhHgGxDP]|q[0-9]+)")
_TEXT_SED = re.compile(rf"{_RANGE}[aic]\\?[^\n]*")

_AWK_STRANGE = re.compile(
    r"system|getline|@|\|&|(?<!\|)(?:\||\|{3,})(?!\|)|close|fflush|/inet|\\\n|>>"
    r"|>(?![ ]*=|[ ]*[0-9.]+[ ]*(?:[){;&|]|\Z))"
)


def sed_only_transforms(script: str) -> bool:
    """Whether a sed script neither runs programs nor reads or writes files of its own."""
    rest = script.strip()
    if _TEXT_SED.fullmatch(rest):
        return True
    while rest:
        found = _SUBSTITUTE_SED.match(rest) or _TRANSLATE_SED.match(rest) or _SIMPLE_SED.match(rest)
        if found is None:
            return False
        rest = rest[found.end() :]
        if rest and not re.match(r"[ ]*[;\n]", rest):
            return not rest.strip()
        rest = rest.lstrip(" ;\n")
    return True


def awk_only_transforms(program: str) -> bool:
    """Whether an awk program neither runs programs nor writes files."""
    return _AWK_STRANGE.search(program) is None
