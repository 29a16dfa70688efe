"""How long the program takes to start, against references that start in the same run.

Each command and its reference run in turn; what counts is the median of the ratios of the pairs.
"""

from __future__ import annotations

import compileall
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS = 21
AGENTENGINE = str(Path(sys.executable).parent / "agentengine")
TWO_COMMANDS = """
import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def first(name: str = "x") -> None:
    "Do the first thing."


@app.command()
def second(name: str = "x") -> None:
    "Do the second thing."


app()
"""
CARD = [AGENTENGINE, "a2a", "card", ".", "--url", "https://agent.example.com", "--name", "research-agent"]
CARD_IMPORTS = "import typer; from a2a.types import AgentCard; import google.protobuf.json_format"


def main() -> int:
    # An installed package has its bytecode; a checkout that was never run, or may not write it, has none.
    compileall.compile_dir(str(Path(__file__).resolve().parent.parent / "src"), quiet=1)
    with tempfile.TemporaryDirectory() as directory:
        two = Path(directory) / "two.py"
        two.write_text(TWO_COMMANDS)
        plain = [sys.executable, str(two), "--help"]
        imports = [sys.executable, "-c", CARD_IMPORTS]
        nothing = [sys.executable, "-c", "pass"]
        print(f"python -c pass: {1000 * statistics.median(timed(nothing) for _ in range(PAIRS)):.1f} ms")
        missed = [
            name
            for name, command, reference, limit in (
                (
                    "agentengine --help / a two-command Typer program's help",
                    [AGENTENGINE, "--help"],
                    plain,
                    1.15,
                ),
                ("agentengine a2a card / importing Typer and the card's protobuf", CARD, imports, 0.8),
                (
                    "agentengine tools list / a two-command Typer program's help",
                    [AGENTENGINE, "tools", "list"],
                    plain,
                    1.5,
                ),
            )
            if not holds(name, command, reference, limit)
        ]
    return 1 if missed else 0


def holds(name: str, command: list[str], reference: list[str], limit: float) -> bool:
    timed(command)
    timed(reference)
    pairs = [(timed(command), timed(reference)) for _ in range(PAIRS)]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    ours = 1000 * statistics.median(first for first, _ in pairs)
    theirs = 1000 * statistics.median(second for _, second in pairs)
    verdict = "ok" if ratio <= limit else "MISSED"
    print(
        f"{ratio:5.2f} (at most {limit})  {verdict:6}  {name}  [{ours:.0f} ms / {theirs:.0f} ms]", flush=True
    )
    return ratio <= limit


def timed(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
