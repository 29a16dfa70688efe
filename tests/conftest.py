"""What every test stands on: a directory of its own, and an environment that says nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
from support import Run

from ksadk.settings import Settings

# On a busy machine an example may take any time; tests that are about time measure it themselves.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")

# Where the tests are run in the background, shells let this be ignored, by every program that they start too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def clean_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of ours is set, state and configuration are the test's own, and so is the directory."""
    for variable in Settings.variables():
        for name in variable.names:
            monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    work = tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.chdir(work)


@pytest.fixture
def only_bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the programs that sandboxes are made with there is none but bwrap."""
    directory = tmp_path / "only"
    directory.mkdir()
    program = shutil.which("bwrap")
    if program is not None:
        (directory / "bwrap").symlink_to(program)
    monkeypatch.setenv("PATH", str(directory))


@pytest.fixture
def agentengine() -> Run:
    """Runs the real program in a process of its own: `agentengine("tools", "list", stdin="...")`."""

    def run(*arguments: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "agentengine_cli", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, **environ},
            timeout=60,
            check=False,
        )

    return run
