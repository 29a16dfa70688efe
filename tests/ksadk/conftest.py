"""What the tests of the SDK share."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorder import Recorder


@pytest.fixture
def risky(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)
