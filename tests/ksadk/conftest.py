"""What the tests of the SDK share."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorder import Recorder
from search_engines import EACH

from ksadk.workspace.engines import Engine


@pytest.fixture
def risky(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


@pytest.fixture(params=EACH)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine of search; the test is skipped for ripgrep where that is not installed."""
    chosen: Engine = request.param
    return chosen
