"""What the tests of the SDK share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2b_sandboxes import started
from e2b_server import E2BServer
from e2b_server.service import KEY
from recorder import Recorder
from search_engines import EACH

from ksadk.sandbox.e2b import E2BSession
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


@pytest.fixture
def e2b(monkeypatch: pytest.MonkeyPatch) -> Iterator[E2BServer]:
    # The path of a socket is in it, which may only be short.
    with tempfile.TemporaryDirectory(prefix="e2b-") as directory, E2BServer(Path(directory)) as server:
        for name, value in {**server.environ, "E2B_API_KEY": KEY}.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def e2b_session(e2b: E2BServer) -> E2BSession:
    return started()
