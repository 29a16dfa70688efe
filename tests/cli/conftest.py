"""What the tests of the command line share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from agentengine_cli.main import run


class Done(NamedTuple):
    """How a command line ended, and what it wrote."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs a command line in this process, with no terminal: `command("tools", "list")`."""

    def call(*arguments: str) -> Done:
        capsys.readouterr()
        status = run(list(arguments))
        return Done(status, *capsys.readouterr())

    return call
