"""What holds with the SDK that is installed holds with the first one that is supported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FIRST = Path(sys.prefix) / "e2b-2.24.0"
TESTS = [Path(__file__).with_name(f"test_sandbox_e2b{part}.py") for part in ("", "_commands")]


def test_every_test_of_e2b_passes_with_the_first_release(tmp_path: Path) -> None:
    if not FIRST.is_dir():
        assert not os.environ.get("CI"), "make test installs this release"
        pytest.skip("e2b 2.24.0 is not installed beside the tests; `make test` does that")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ["PYTHONPATH"] = str(FIRST)
    found = _python(environ, "-c", "import e2b; print(e2b.__file__)")
    assert found.stdout.startswith(str(FIRST)), found.stdout + found.stderr
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={tmp_path / 'nested'}"]
    ran = _python(environ, "-m", "pytest", *options, *map(str, TESTS))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^[1-9][0-9]* passed in", ran.stdout, re.MULTILINE), ran.stdout


def _python(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=environ, cwd=TESTS[0].parents[2], capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
