"""Shell lines that tests judge, from text files: a line each, with signs for what cannot stand in a line."""

from __future__ import annotations

from pathlib import Path

_SIGNS = str.maketrans({"⏎": "\n", "⇥": "\t", "␍": "\r", "␠": " "})


def lines_of(name: str) -> list[str]:
    """The lines of a file; its first line tells what they are."""
    path = Path(__file__).parent / "ksadk" / "command_lines" / f"{name}.txt"
    _, *lines = path.read_text("utf-8").splitlines()
    return [line.translate(_SIGNS) for line in lines if line]
