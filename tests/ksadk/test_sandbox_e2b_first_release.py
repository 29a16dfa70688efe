"""What holds with the SDK that is installed holds with the first one that is supported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FIRST = Path(sys.prefix) / "e2b-2.24.0"
TESTS = Path(__file__).with_name("test_sandbox_e2b.py")
RUN = """
import sys
import e2b, pytest
print(e2b.__file__)
sys.exit(pytest.main(["-p", "no:cacheprovider", "-p", "no:xdist", *sys.argv[1:]]))
"""


def test_every_test_of_e2b_passes_with_the_first_release(tmp_path: Path) -> None:
    if not FIRST.is_dir():
        assert not os.environ.get("CI"), "make test installs this release"
        pytest.skip("e2b 2.24.0 is not installed beside the tests; `make test` does that")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        [sys.executable, "-c", RUN, f"--basetemp={tmp_path / 'nested'}", str(TESTS)],
        env=environ | {"PYTHONPATH": str(FIRST)}, cwd=TESTS.parents[2], capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert str(FIRST) in ran.stdout
    assert re.search(r"^[1-9][0-9]* passed in", ran.stdout, re.MULTILINE), ran.stdout
