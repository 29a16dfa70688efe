"""What judging a line of shell costs, against a single parse of the same line by tree-sitter."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import tree_sitter_bash
from tree_sitter import Language, Parser

from ksadk.tools.command_policy import MAX_LINE, judge_command

LINE = (
    "git log --oneline -n 20 --author=me | grep -v '^merge' | head -5 && "
    "find . -name '*.py' -newer setup.py | xargs grep -n \"def main\" | sort | uniq -c | sort -rn > out.txt; "
    "pytest -q tests -k 'a and b'"
)
BLOCK = """
for f in src/*.py; do
  if [ -f "$f" ]; then
    count=$(wc -l < "$f")
    echo "$f has $count lines" | tee -a report.txt
  fi
done
git log --oneline -n 5 | head -3 && pytest -q -k "a and b" 2>&1 | tail -5
grep -rn 'def main' src | sort | uniq -c > counts.txt
"""


def main() -> int:
    script = BLOCK * (MAX_LINE // len(BLOCK))
    missed = [
        report(f"a line of {len(LINE)} characters", LINE, 101, limit=1.0, most=15),
        report(f"a script of {len(script) / 1024:.1f} KB", script, 11, limit=100.0, most=15),
    ]
    assert judge_command(script + BLOCK).decision == "ask"  # it is longer than what is judged
    return 1 if any(missed) else 0


def report(what: str, line: str, rounds: int, *, limit: float, most: float) -> bool:
    """Print the time in milliseconds, and its ratio to the parse alone; returns whether a limit is missed."""
    assert judge_command(line).decision == "allow"
    parser, source = Parser(Language(tree_sitter_bash.language())), line.encode()
    judged, parsed = in_turn(lambda: judge_command(line), lambda: parser.parse(source), rounds)
    missed = judged > limit or judged / parsed > most
    print(
        f"{what}: {judged:.2f} ms (limit {limit} ms), {judged / parsed:.1f} times a parse by tree-sitter "
        f"({parsed:.3f} ms, limit {most}){'  MISSED' if missed else ''}"
    )
    return missed


def in_turn(one: Callable[[], Any], other: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """The median CPU time of each in milliseconds, taken in turn so that both share the machine's moods."""
    times: tuple[list[float], list[float]] = ([], [])
    for call in (one, other):
        call()
    for _ in range(rounds):
        for call, taken in zip((one, other), times, strict=True):
            begun = time.process_time()
            call()
            taken.append(1000 * (time.process_time() - begun))
    return statistics.median(times[0]), statistics.median(times[1])


if __name__ == "__main__":
    sys.exit(main())
