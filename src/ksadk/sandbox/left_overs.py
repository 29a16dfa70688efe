"""Ending what a program that was killed has left of its sandboxes."""

from __future__ import annotations

from pathlib import Path

from ksadk.sandbox import processes
from ksadk.sandbox.records import MARK, Facts, records_directory
from ksadk.sandbox.trees import remove_tree

_GRACE_SECONDS = 1.0


def copies_directory() -> Path:
    """Where copies of workspaces are."""
    return records_directory() / "copies"


def end_commands(facts: Facts) -> None:
    """End what runs in a sandbox, its program's or not, and a remote sandbox itself. Raises `SandboxError`
    where that cannot be done now."""
    if facts.mark:
        marked = f"{MARK}={facts.mark}".encode()
        processes.end(lambda: processes.carrying(marked), _GRACE_SECONDS)
    if facts.backend == "e2b":
        from ksadk.sandbox.e2b import kill_sandbox

        kill_sandbox(facts.sandbox_id)


def end_left_over(facts: Facts) -> None:
    """End a sandbox whose program is gone: what runs in it, and its copy of a workspace. Raises as
    `end_commands` does."""
    end_commands(facts)
    directory = Path(facts.directory)
    if facts.directory and directory.parent == copies_directory():
        remove_tree(directory)
