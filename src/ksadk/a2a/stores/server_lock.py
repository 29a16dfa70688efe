"""One server for one file of tasks: a second one would take the first one's running tasks for left over."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from ksadk.a2a.stores.keeping import StoreError

_held: set[Path] = set()
"""What this process holds: the system's locks are between processes."""


class ServerLock:
    """Held until it is released, or the process ends in whatever way. Processes that an agent forks do not
    hold it on, which a lock of `flock` would have them do."""

    def __init__(self, tasks: Path) -> None:
        """Take the lock of a file of tasks; raises `StoreError` when a server has it."""
        self._path = Path(f"{tasks.resolve()}.lock")
        in_use = StoreError(
            f"another server keeps its tasks in {tasks}",
            code="task_store_in_use",
            hint="End it, or name another database: --task-store-dsn sqlite+aiosqlite:///OTHER.db",
        )
        if self._path in _held:
            raise in_use
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._descriptor: int | None = descriptor
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise in_use from error
        except OSError as error:
            raise StoreError(f"{self._path} cannot be locked: {error.strerror}") from error
        _held.add(self._path)

    def release(self) -> None:
        """Let another server have the file; once released, it does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _held.discard(self._path)
            os.close(descriptor)
