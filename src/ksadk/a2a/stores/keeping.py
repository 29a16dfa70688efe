"""What all stores have in common: how long they keep, and the error where they cannot."""

from __future__ import annotations

from typing import Literal

from ksadk.errors import KsadkError

Durability = Literal["normal", "full"]
"""What a task outlives once its `save` has returned: `normal` a killed server, `full` a power cut too."""


class StoreError(KsadkError):
    """Tasks cannot be kept or read. What was to be saved was not."""

    code = "task_store_unavailable"
    kept = "tasks"
    """What the store is of, in words."""
