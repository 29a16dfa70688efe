"""There is a man page for each command, and the formatters take each without a complaint."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from agentengine_cli.main import app

MAN = Path(__file__).resolve().parents[2] / "man"
PAGES = sorted(MAN.glob("*.1"))
ENVIRON = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANPAGER": "cat", "MAN_KEEP_FORMATTING": ""}


def names(command: Any, name: str) -> Iterator[str]:
    yield name
    context = typer.Context(command)
    for below in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from names(command.get_command(context, below), f"{name}-{below}")


def rendered(page: Path) -> str:
    done = subprocess.run(
        ["man", "--warnings", "-l", str(page)], env=ENVIRON, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return re.sub(".\b", "", done.stdout)


def test_every_command_has_its_page_and_no_page_is_left_over() -> None:
    wanted = set(names(typer.main.get_command(app), "agentengine"))
    assert {page.stem for page in PAGES} == wanted


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_formats_each_page_without_a_warning() -> None:
    for page in PAGES:
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-rCHECKSTYLE=3", str(page)],
            env=ENVIRON, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), page.name


def test_the_files_of_the_user_are_named() -> None:
    from ksadk.tools.decision_log import DecisionLog
    from ksadk.tools.gateway import ToolGateway
    from ksadk.tools.rule_files import FILE_NAME
    from ksadk.tools.trust import trust

    store = ToolGateway().store
    trust(str(Path.cwd()), "agentengine.yaml", "")
    DecisionLog(store).append({})
    made = {path for path in store.path.parent.rglob("*") if path.is_file() and path.suffix != ".lock"}
    files = (MAN / "agentengine.1").read_text().partition(".SH FILES")[2].partition(".SH ")[0]
    named = {Path(name).name for name in re.findall(r"/agentengine/(\S+)\\fR", files)}
    assert named == {FILE_NAME, *(path.name for path in made)}


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_the_page_of_tools_call_says_what_the_command_takes() -> None:
    text = rendered(MAN / "agentengine-tools-call.1")
    for words in (
        "agentengine-tools-call - call a tool through the gateway",
        "agentengine tools call [OPTIONS] [name] [KEY=VALUE]...",
        "--approval ID",
        "EXAMPLES",
        "agentengine tools call read_workspace_file path=README.md --root .",
        "agentengine-tools(1)",
    ):
        assert words in text


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_the_examples_keep_what_a_shell_reads() -> None:
    text = rendered(MAN / "agentengine-approvals-deny.1")
    assert '--reason "wrong file"' in text
    source = (MAN / "agentengine-approvals-deny.1").read_text("utf-8")
    assert "‐" not in rendered(MAN / "agentengine.1").replace("\u2010\n", "")  # hyphens that cannot be copied
    assert "\\-\\-reason" in source


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_whatis_finds_each_page_by_its_name_line() -> None:
    if shutil.which("lexgrog") is None:
        pytest.skip("lexgrog is not installed")
    done = subprocess.run(["lexgrog", *map(str, PAGES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert len(done.stdout.splitlines()) == len(PAGES)
