"""Serving in another process: in the project's own Python, and once more whenever its source changes."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from agentengine_cli import output

LOOK_EVERY = 0.5
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "venv"}
_SUFFIXES = (".py", ".yaml", ".toml", ".json")


def project_python(project: Path) -> Path | None:
    """The interpreter of the project's own virtual environment, unless it is this one."""
    for name in (".venv", "venv"):
        environment = project / name
        python = environment / "bin" / "python"
        if (environment / "pyvenv.cfg").is_file() and python.exists():
            return None if environment.resolve() == Path(sys.prefix).resolve() else python
    return None


def enter(python: Path, arguments: list[str]) -> None:
    """Go on as the project's interpreter, if it has this program; else say what to run, and return."""
    asked = subprocess.run(
        [python, "-c", "import agentengine_cli"], capture_output=True, stdin=subprocess.DEVNULL, check=False
    )
    command = [str(python), "-m", "agentengine_cli", *arguments]
    if asked.returncode == 0:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(command[0], command)
    install = shlex.join([str(python), "-m", "pip", "install", installed_from()])
    output.say(
        f"note: the project has a Python of its own, without agentengine; what is installed only there cannot"
        f" be imported here. To serve with it:\n  {install}\n  {shlex.join(command)}"
    )


def installed_from() -> str:
    """What to give pip for this program: the directory or file that it was installed from, else its name."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    name = "agentengine-cli"
    try:
        told = distribution(name).read_text("direct_url.json")
    except PackageNotFoundError:
        return name
    url = urlsplit(json.loads(told)["url"] if told else "")
    place = url2pathname(url.path)
    return place if url.scheme == "file" and Path(place).exists() else name


def serve_again(directory: Path, arguments: list[str]) -> int:
    """Serve in a child process, and start it anew when a source file has changed. Returns its status once it
    was ended by a signal to this process."""
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stopped.append(number))
    while True:
        seen = dict(_sources(directory))
        child = subprocess.Popen(
            [sys.executable, "-m", "agentengine_cli", *arguments], start_new_session=True
        )
        while not stopped and dict(_sources(directory)) == seen:
            time.sleep(LOOK_EVERY)
        if child.poll() is None:
            child.terminate()
        status = child.wait()
        if stopped:
            return status
        output.say("the source has changed: serving it again")


def _sources(directory: Path) -> Iterator[tuple[str, int]]:
    """The files of a project that an agent is made of, and when they were written."""
    for place, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if name not in _SKIPPED and not name.startswith(".")]
        for name in files:
            if name.endswith(_SUFFIXES):
                path = os.path.join(place, name)  # noqa: PTH118  # many times a minute
                try:
                    yield path, os.stat(path).st_mtime_ns  # noqa: PTH116
                except FileNotFoundError:
                    continue
