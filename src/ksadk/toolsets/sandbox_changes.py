"""Tools that take over what commands changed in a copy of the workspace. They are in no default set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ksadk.tools.registry import Plan, Target, builtin


@builtin(group="changes", boundary="isolated_sandbox", large_fields=("diff",))
def sandbox_changes() -> dict[str, Any]:
    """Show what commands have changed in the sandbox's copy of the workspace. Nothing is taken over.

    `changes` is a list of {path, change, stale}; change is new, changed or deleted, and stale says that the
    workspace's own file has changed meanwhile. `left_out` says what cannot be taken over, and why.
    """
    from ksadk.toolsets import sandbox_applying

    return sandbox_applying.show()


def _plan(paths: list[str] | None = None) -> Plan:
    from ksadk.toolsets import sandbox_applying

    return sandbox_applying.plan(paths)


def _targets(arguments: Mapping[str, Any]) -> Mapping[str, Target]:
    from ksadk.toolsets import sandbox_applying

    return sandbox_applying.targets(arguments["paths"])


@builtin(
    group="changes", boundary="workspace_root", risk="medium", side_effects=("workspace_edit",), plan=_plan,
    targets=_targets,
)  # fmt: skip
def apply_sandbox_changes(paths: list[str] | None = None) -> dict[str, Any]:
    """Take over into the workspace what commands have changed in the sandbox's copy of it: all or nothing.

    paths: the files to take over; all that have changed if left out.
    """
    from ksadk.toolsets import sandbox_applying

    return sandbox_applying.apply(paths)
