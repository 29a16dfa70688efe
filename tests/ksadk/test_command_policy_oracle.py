"""Nothing that bash runs is hidden from the policy: bash itself says what it runs."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from command_lines import lines_of
from shell_oracle import commands_run

from ksadk.tools.command_policy import Judgement, judge_command
from ksadk.tools.commands.grammar import check_agreement, likely_commands
from ksadk.tools.commands.words import NotProven, Script, as_bytes

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to ask")

LINES = 1_000

HIDING, HARMLESS, TEMPLATES, SOUP = map(lines_of, ("hiding", "harmless", "templates", "soup"))


def tricky_lines(seed: int) -> list[str]:
    """Lines from templates whose holes hold a hidden `zap` or something harmless, and lines of random
    tokens."""
    chance = random.Random(seed)
    lines = []
    while len(lines) < LINES:
        if chance.random() < 0.2:
            line = "".join(chance.choice(SOUP) for _ in range(chance.randint(2, 12)))
        else:
            line = chance.choice(TEMPLATES)
            for hole in ("{0}", "{1}"):
                filling = chance.choice(HIDING if chance.random() < 0.4 else HARMLESS)
                line = line.replace(hole, filling)
        lines.append(line)
    return lines


def mutated_lines(seed: int) -> list[str]:
    """Everyday lines with one to three slips: tokens put in, characters left out, ends of other lines."""
    chance = random.Random(seed)
    everyday = [line for line in lines_of("allowed") if "/" not in line]
    lines = []
    while len(lines) < LINES:
        line = chance.choice(everyday)
        for _ in range(chance.randint(1, 3)):
            at, other = chance.randint(0, len(line)), chance.choice(everyday)
            line = chance.choice(
                [
                    line[:at] + chance.choice([*SOUP, *";&|()<>{}$`'\"\\\n\t #=![]*?\r"]) + line[at:],
                    line[:at] + line[at + chance.randint(1, 3) :],
                    line[:at] + other[chance.randint(0, len(other)) :],
                ]
            )
        if line.strip():
            lines.append(line)
    return lines


def tells_of(judged: Judgement, run: list[str]) -> bool:
    """Whether a part of the judgement is the command that bash ran, with just these words if it says so."""
    return any(
        part.argv and part.argv[0] == run[0] and (not part.fixed or list(part.argv) == run)
        for part in judged.parts
    )


@pytest.mark.parametrize(
    "lines",
    [tricky_lines(7), tricky_lines(52_711), mutated_lines(11)],
    ids=["tricky", "tricky again", "everyday with slips"],
)
def test_of_an_allowed_line_bash_runs_nothing_but_what_the_policy_saw(
    lines: list[str], tmp_path: Path
) -> None:
    given = [line for line in lines if line.strip()]
    hidden = []
    allowed = 0
    for line, ran in zip(given, commands_run(given, tmp_path), strict=True):
        judged = judge_command(line)
        if judged.decision == "allow":
            allowed += 1
            hidden += [(line, words) for words in ran if not tells_of(judged, words)]
    assert hidden == []
    assert allowed > 100


def naive_judgement(line: str) -> bool:
    """Whether a policy that trusts the grammar alone would let a line through: no error, and no `zap`."""
    source = as_bytes(line)
    try:
        check_agreement(Script(source, [], {}, {}))
    except NotProven as problem:
        if "does not take it" in str(problem):
            return False
    return not any("zap" in each.replace("\\", "").replace("'", "") for each in likely_commands(source))


def test_a_policy_that_trusts_the_grammar_alone_is_caught(tmp_path: Path) -> None:
    lines = [line for line in tricky_lines(31) if line.strip()]
    missed = [
        line
        for line, ran in zip(lines, commands_run(lines, tmp_path), strict=True)
        if any(words[0] == "zap" for words in ran) and naive_judgement(line)
    ]
    assert len(missed) > 5
    assert [line for line in missed if judge_command(line).decision == "allow"] == []
