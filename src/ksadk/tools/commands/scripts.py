"""Small languages inside arguments: the scripts of sed and awk, and which of them only transform text."""

from __future__ import annotations

import ast
import re
import sys
from typing import Literal

_ADDRESS = r"(?:[0-9]+|\$|/(?:[^/\\\n]|\\.)*/I?)"
_RANGE = rf"(?:{_ADDRESS}(?:,[+~]?{_ADDRESS}|,[+~][0-9]+)?!?)?[ ]*"
_FIELD = r"(?:(?!(?P=d))[^\\\n]|\\[^\n])*(?P=d)"
_SUBSTITUTE_SED = re.compile(rf"{_RANGE}s(?P<d>[/|#,:@!%]){_FIELD}{_FIELD}[gpiI0-9]*")
_TRANSLATE_SED = re.compile(_RANGE + r"y/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/")
_SIMPLE_SED = re.compile(rf"{_RANGE}(?:[pdqQ=lnNhHgGxDP]|q[0-9]+)")
_GROUP_SED = re.compile(_RANGE + r"\{[ ]*")
_TEXT_SED = re.compile(rf"{_RANGE}[aic]\\?[^\n]*")

_AWK_STRANGE = re.compile(
    r"system|getline|@|\|&|(?<!\|)(?:\||\|{3,})(?!\|)|close|fflush|/inet|\\\n|>>"
    r"|>(?![ ]*=|[ ]*[0-9.]+[ ]*(?:[){;&|]|\Z))"
)
_AWK_TOKEN = re.compile(
    r"(?P<blank>[ \t]+|#[^\n]*)|\"(?:[^\"\\\n]|\\.)*\"|(?P<value>[A-Za-z_]\w*|[0-9.]+|\])|.", re.DOTALL
)
_AWK_PATTERN = re.compile(r"/(?P<body>(?:[^/\\\n]|\\.)*)/")
_AWK_BEFORE_PATTERN = frozenset({"", "{", "}", "(", ",", ";", "\n", "!", "~", "&", "|"})
"""What a regular expression alone, and no division, can stand behind."""
_AWK_WORDS = frozenset({"in", "print", "printf", "return", "else", "do", "delete", "exit", "case", "length"})
_AWK_BRACKETS = re.compile(r"\\.|\[\^?\]?[^\]]*\]")

_CALLED = frozenset(
    {
        "print",
        "len",
        "str",
        "int",
        "float",
        "repr",
        "sorted",
        "sum",
        "min",
        "max",
        "abs",
        "round",
        "range",
        "list",
    }
)
_QUIET = frozenset(
    {
        "sys",
        "os",
        "platform",
        "json",
        "math",
        "re",
        "string",
        "datetime",
        "time",
        "random",
        "sysconfig",
        "ssl",
    }
)
"""Modules of Python's own whose import does nothing that shows."""
_COMPUTING = (
    ast.Module, ast.Expr, ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator,
    ast.unaryop, ast.boolop, ast.cmpop, ast.IfExp, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Subscript,
    ast.Slice, ast.Name, ast.Load, ast.Attribute, ast.JoinedStr, ast.FormattedValue, ast.alias,
)  # fmt: skip


def sed_only_transforms(script: str) -> bool:
    """Whether a sed script neither runs programs nor reads or writes files of its own."""
    rest = script.strip()
    if _TEXT_SED.fullmatch(rest):
        return True
    while rest:
        group = _GROUP_SED.match(rest)
        if group is not None:
            rest = rest[group.end() :]
            continue
        found = _SUBSTITUTE_SED.match(rest) or _TRANSLATE_SED.match(rest) or _SIMPLE_SED.match(rest)
        if found is None:
            return False
        rest = rest[found.end() :]
        if rest and not re.match(r"[ ]*[;\n}]", rest):
            return not rest.strip()
        rest = rest.lstrip(" ;\n}")
    return True


def awk_only_transforms(program: str) -> bool:
    """Whether an awk program neither runs programs nor writes files."""
    return _AWK_STRANGE.search(_without_patterns(program)) is None


def _without_patterns(program: str) -> str:
    """An awk program without its regular expressions, up to the first slash that may be either that or a
    division."""
    kept, at, before = "", 0, ""
    while (found := _AWK_TOKEN.match(program, at)) is not None:
        at, text = found.end(), found[0]
        if text == "/" and before in _AWK_BEFORE_PATTERN:
            pattern = _AWK_PATTERN.match(program, found.start())
            if pattern is None or "[" in _AWK_BRACKETS.sub("", pattern["body"]):
                return kept + program[found.start() :]
            at, text, before = pattern.end(), "", "]"  # a value
        elif text == "/" and (before not in ("]", "0")):
            return kept + program[found.start() :]
        elif found["value"]:
            before = text if text in _AWK_WORDS else "0"
        elif not found["blank"]:
            before = text
        kept += text
    return kept


def python_does(code: str) -> Literal["computes", "imports"] | None:
    """What a Python program does: it `computes` and prints, or `imports` modules, too, which may be the
    project's; None where it may do more. It calls a few builtins only, and gives nothing a new name."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            if any(alias.asname or alias.name in _CALLED for alias in node.names):
                return None
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _CALLED or node.keywords:
                return None
        elif not isinstance(node, _COMPUTING):
            return None
    if imported & sys.stdlib_module_names - _QUIET:
        return None
    return "imports" if imported else "computes"
