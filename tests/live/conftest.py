"""Tests against services of others: collected only where there is a key for them."""

from __future__ import annotations

import os

KEYS = {"test_e2b.py": ("E2B_API_KEY", "KSADK_SANDBOX_TEMPLATE_ID")}

collect_ignore = [file for file, names in KEYS.items() if not all(map(os.environ.get, names))]


def pytest_report_header() -> list[str]:
    return [f"tests/live/{file} is not run: it needs {' and '.join(KEYS[file])}" for file in collect_ignore]
