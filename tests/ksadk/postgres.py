"""A PostgreSQL server of the test's own, where one is installed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def _program(name: str) -> str | None:
    beside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(beside[-1]) if beside else None)


@contextmanager
def running() -> Iterator[str]:
    """The DSN of an empty database; the test is skipped where there is no PostgreSQL."""
    initdb, postgres = _program("initdb"), _program("postgres")
    pytest.importorskip("asyncpg")
    if initdb is None or postgres is None:
        assert not os.environ.get("CI"), ".ci/run installs it"
        pytest.skip("PostgreSQL is not installed")
    # It does not run as root; and the path of its socket may only be short.
    other: dict[str, Any] = {"user": "nobody"} if os.getuid() == 0 else {}
    with (
        tempfile.TemporaryDirectory(prefix="pg-") as directory,
        socket.create_server(("127.0.0.1", 0)) as free,
    ):
        if other:
            shutil.chown(directory, **other)
        data = f"{directory}/data"
        subprocess.run(
            [initdb, "-D", data, "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", "-N"],
            check=True, capture_output=True, cwd=directory, **other,
        )  # fmt: skip
        port = free.getsockname()[1]
        free.close()
        server = subprocess.Popen(
            [postgres, "-D", data, "-p", str(port), "-k", directory, "-c", "fsync=off"],
            stderr=subprocess.PIPE, text=True, cwd=directory, **other,
        )  # fmt: skip
        try:
            assert server.stderr is not None
            assert any("ready to accept connections" in line for line in server.stderr), "it did not start"
            yield f"postgresql+asyncpg://tester@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)  # whoever is connected is cut off
            server.communicate(timeout=20)
