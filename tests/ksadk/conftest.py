"""What the tests of the SDK share."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorder import Recorder
from search_engines import EACH

from ksadk.workspace.engines import Engine
from ksadk.workspace.read_state import ReadStates


@pytest.fixture
def risky(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty workspace."""
    path = (tmp_path / "root").resolve()
    path.mkdir()
    return path


@pytest.fixture
def states(tmp_path: Path) -> ReadStates:
    """What a session has read, kept outside of the workspace."""
    return ReadStates.of_session(tmp_path / "reads", "", "default")


@pytest.fixture(params=EACH)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine of search; the test is skipped for ripgrep where that is not installed."""
    chosen: Engine = request.param
    return chosen
