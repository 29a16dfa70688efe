"""The sandboxes of this machine, for tests that run the same in each."""

from __future__ import annotations

from pathlib import Path

import pytest

from ksadk.sandbox.bubblewrap import BubblewrapSandboxBackend
from ksadk.sandbox.local_process import LocalProcessSandboxBackend
from ksadk.sandbox.probe import probe

Backend = BubblewrapSandboxBackend | LocalProcessSandboxBackend


def bubblewrap(root: Path, **options: object) -> BubblewrapSandboxBackend:
    """The isolated one; the test is skipped where this machine does not let it work, with the reason."""
    verdict = probe()
    if verdict.diagnosis is not None:
        pytest.skip(verdict.diagnosis.message)
    return BubblewrapSandboxBackend(root, **options)  # type: ignore[arg-type]


def make(name: str, root: Path, **options: object) -> Backend:
    """One of both, by its name."""
    if name == "bubblewrap":
        return bubblewrap(root, **options)
    return LocalProcessSandboxBackend(root, **options)  # type: ignore[arg-type]


def meeting(count: int, directory: str = ".") -> list[str]:
    """Lines that end once all of them run at the same time, and print their numbers."""
    wait = f"until [ $(ls {directory}/met-* | wc -l) = {count} ]; do sleep 0.05; done"
    return [f"touch {directory}/met-{number}; {wait}; echo {number}" for number in range(count)]


EACH = ("local_process", "bubblewrap")
