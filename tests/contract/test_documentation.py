"""Every example in the documentation runs, and prints what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
PAGES = [*READMES, *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROGRAM = Path(sys.executable).parent


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text("utf-8")) if kind == language]


def sessions(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that the page shows."""
    return [
        (command.rstrip("\n"), shown)
        for command, shown in re.findall(r"^\$ (.*?\n)((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
    ]


def as_shown(shown: str, printed: str) -> bool:
    """Whether the output is the one that the page shows; a line `...` stands for any lines.

    A page that shows nothing below a command leaves its output out.
    """
    pattern = "".join(
        r"(?:.*\n)*" if line == "...\n" else re.escape(line) for line in shown.splitlines(keepends=True)
    )
    return re.fullmatch(pattern, printed) is not None


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory to run in, with what a repository checkout has beside the code."""
    here = tmp_path / "checkout"
    here.mkdir()
    if (ROOT / "examples").exists():
        shutil.copytree(ROOT / "examples", here / "examples")
    return here


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "console")], ids=lambda p: p.name)
def test_a_console_example_prints_what_the_page_shows(page: Path, checkout: Path) -> None:
    environ = {**os.environ, "PATH": f"{PROGRAM}{os.pathsep}{os.environ['PATH']}"}
    for block in blocks(page, "console"):
        for command, shown in sessions(block):
            ended = subprocess.run(
                ["bash", "-c", command],
                cwd=checkout,
                env=environ,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=60,
            )
            told = f"$ {command}\n{ended.stdout}{ended.stderr}"
            assert "Traceback" not in ended.stderr, told
            wanted = re.search(r"# exits with (\d+)$", command)
            assert ended.returncode == (int(wanted[1]) if wanted else 0), told
            assert not shown or as_shown(shown, ended.stdout), told


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.name)
def test_a_python_example_runs(page: Path, checkout: Path) -> None:
    for block in blocks(page, "python"):
        ended = subprocess.run(
            [sys.executable, "-c", block],
            cwd=checkout,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        assert ended.returncode == 0, f"{block}\n{ended.stderr}"


def test_a_page_that_shows_something_else_is_noticed() -> None:
    assert as_shown("a\n...\nz\n", "a\nb\nc\nz\n")
    assert not as_shown("a\n", "a\nb\n")
    assert not as_shown("a\n...\nz\n", "a\nb\n")


@pytest.mark.parametrize("readme", READMES, ids=lambda page: page.name)
def test_every_page_that_a_readme_names_exists(readme: Path) -> None:
    named = re.findall(r"\]\(([^)#:]+)[^)]*\)", readme.read_text("utf-8"))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_readmes_have_the_same_headings_examples_and_links() -> None:
    english, chinese = (page.read_text("utf-8") for page in READMES)
    for text in (r"^#+ ", r"^```\w*$", r"^\$ .*$", r"\]\((docs/[^)]+|CONTRIBUTING.md)\)"):
        assert re.findall(text, english, re.MULTILINE) == re.findall(text, chinese, re.MULTILINE)
    assert blocks(READMES[0], "console") == blocks(READMES[1], "console")
