"""The engines of search, for tests that ask both."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ksadk.workspace.engines import PythonEngine, RipgrepEngine

_RG = shutil.which("rg")
PYTHON = PythonEngine()
RIPGREP = RipgrepEngine(Path(_RG or "rg").resolve())
needs_ripgrep = pytest.mark.skipif(_RG is None, reason="ripgrep is not installed")
EACH = [pytest.param(PYTHON, id="python"), pytest.param(RIPGREP, id="rg", marks=needs_ripgrep)]
INSTALLED = [PYTHON, RIPGREP] if _RG else [PYTHON]
