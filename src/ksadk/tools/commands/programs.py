"""The table of the programs that are known, each with the flags that are known to be harmless.

It stands in `programs.txt`. Operands are files that are read (`read`, `archive`) or written (`write`), the
project's code (`code`), not taken (`none`), at most one (`one`), of no matter (`any`, `shell`), or judged in
a way of their own. What is in no table is asked about.
"""

from __future__ import annotations

import re
from pathlib import Path

_VERSION_FLAGS = frozenset({"--version", "--help", "-V", "-version"})
_SHORT_VERSION = frozenset({"node", "npm", "pnpm", "yarn", "php", "ruby"})

_LINE = re.compile(
    r"(.+?) +(-|any|shell|read|archive|write|code|none|one|tar|sed|make|cmake|pip|cargo|gorun|date|pager|find"
    r"|g-read|g-look|g-edit|g-tree)(?: +(.*))?"
)


def _read_table() -> dict[str, tuple[str, str]]:
    text = Path(__file__).with_name("programs.txt").read_text("utf-8")
    shared, table = "", {}
    for line in re.sub(r"\n +", " ", text).splitlines():
        found = _LINE.fullmatch(line)
        if found is None or line.startswith("#"):
            continue
        names, kind, flags = found[1], found[2], found[3] or ""
        if names == "@shown":
            shared = flags
        for name in names.split(","):
            table[name] = (kind, flags)
    return {name: (kind, flags.replace("@shown", shared)) for name, (kind, flags) in table.items()}


PROGRAMS = _read_table()
"""The kind of operands and the harmless flags of each, by its name, or by its name and subcommand."""

WITH_SUBCOMMANDS = frozenset(name.split()[0] for name in PROGRAMS if " " in name)


def asks_for_version(name: str, flag: str) -> bool:
    """Whether a program with this one argument only prints what it is."""
    return flag in _VERSION_FLAGS or (flag == "-v" and name in _SHORT_VERSION)
