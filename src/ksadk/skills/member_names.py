"""Which paths a package may have: those that mean the same file, inside of it, on every machine."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from ksadk.skills.errors import SkillPackageError
from ksadk.skills.limits import MAX_DEPTH, MAX_NAME_BYTES, MAX_PATH_BYTES, too_large

_REFUSED = set('\\:<>"|?*')
"""Separators and drives of Windows, and what it takes in no name."""
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])[ .]*(\..*)?", re.IGNORECASE)
_SHOWS_NOTHING = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_LEFT_OUT = frozenset({"__macosx", ".ds_store", ".git", ".hg", ".svn", "__pycache__"})


def check_name(path: str) -> None:
    """Raise `SkillPackageError` unless a path, with slashes and none at its end, may be in a package."""
    parts = path.split("/")
    if len(parts) > MAX_DEPTH:
        raise too_large(f"{path[:100]!r} is {len(parts)} names deep, and {MAX_DEPTH} are the most")
    why = next((why for part in parts if (why := _fault(part))), "")
    if why:
        raise SkillPackageError(f"the path {path[:200]!r} {why}", code="unsafe_skill_package")
    encoded = [len(part.encode()) for part in parts]
    if max(encoded) > MAX_NAME_BYTES or sum(encoded) + len(parts) - 1 > MAX_PATH_BYTES:
        raise too_large(
            f"{path[:100]!r} is longer than {MAX_NAME_BYTES} bytes a name or {MAX_PATH_BYTES} in all"
        )


def check_twins(files: Iterable[str], directories: Iterable[str]) -> None:
    """Raise `SkillPackageError` where two paths are one on some machine: by case, by the form of Unicode, or
    as a file and a directory. Directories may be named again; a file's directories need not be named."""
    spelled: dict[str, tuple[str, bool]] = {}
    for path, is_file in [*((path, True) for path in files), *((path, False) for path in directories)]:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            entry = "/".join(parts[:depth]), is_file and depth == len(parts)
            before = spelled.setdefault(_folded(entry[0]), entry)
            if before is not entry and (entry[1] or before != entry):
                raise _twins(entry, before)


def is_clutter(path: str) -> bool:
    """Whether a path in an archive is no part of the skill, as `is_left_out` says of its names."""
    return any(map(is_left_out, path.split("/")))


def is_left_out(name: str) -> bool:
    """Whether a name in a skill's directory is no part of the skill: version control, which runs programs
    that its files name, caches, and what macOS adds."""
    return name.startswith("._") or name.lower() in _LEFT_OUT


def _fault(part: str) -> str:
    if part in ("", ".", ".."):
        return "leads elsewhere" if part == ".." else "has an empty name in it"
    found = next((char for char in part if char in _REFUSED), "")
    if found:
        return f"has {found!r} in it"
    if not part.isascii() or not part.isprintable():
        found = next(
            (char for char in part if unicodedata.category(char) in _SHOWS_NOTHING or char in _BLANK), ""
        )
        if found:
            return f"has the character U+{ord(found):04X} in it, which shows nothing"
    if part[-1] == "." or part[-1].isspace():
        return "has a name that ends in a space or a dot"
    return "has a name that Windows keeps for a device" if _RESERVED.fullmatch(part) else ""


def _twins(one: tuple[str, bool], other: tuple[str, bool]) -> SkillPackageError:
    (path, is_file), (before, was_file) = one, other
    if path != before:
        why = f"and {before[:200]!r} are the same on some machines"
    else:
        why = "is there twice" if is_file == was_file else "is a file and a directory"
    return SkillPackageError(f"the path {path[:200]!r} {why}", code="unsafe_skill_package")


def _folded(path: str) -> str:
    """What is equal for names that a file system may take for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())
