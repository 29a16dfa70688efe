"""A sandbox: a bubblewrap with processes, files and a network of its own, and envd in it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

ENVD = Path(__file__).with_name("envd.py")
SECONDS_TO_START = 30
TMP_BYTES = 64 * 1024 * 1024


class Vm:
    """Lives until `end`, or until this program is gone."""

    def __init__(self, directory: Path, envs: dict[str, str], internet: bool) -> None:
        directory.mkdir()
        self.socket = directory / "envd"
        self._process = subprocess.Popen(
            _bubblewrap(directory, envs, internet), env={}, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )  # its own variables can be read inside
        end = time.monotonic() + SECONDS_TO_START
        while not self.socket.exists():
            if self._process.poll() is not None:
                assert self._process.stderr is not None
                raise RuntimeError(f"no sandbox: {self._process.stderr.read().decode()}")
            assert time.monotonic() < end, "envd does not start"
            time.sleep(0.005)

    def connect(self) -> socket.socket:
        """A connection to its envd."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.socket))
        return connection

    def end(self) -> None:
        self._process.kill()  # envd's standard input ends with it, and all of its processes with that
        self._process.communicate()


def _bubblewrap(directory: Path, envs: dict[str, str], internet: bool) -> list[str]:
    bwrap = shutil.which("bwrap")
    assert bwrap, "these tests need bubblewrap"
    python = Path(sys.base_prefix)
    binds = ["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]
    for name in ("bin", "sbin", "lib", "lib64"):
        if Path("/", name).is_symlink():
            binds += ["--symlink", f"usr/{name}", f"/{name}"]
        elif Path("/", name).is_dir():
            binds += ["--ro-bind", f"/{name}", f"/{name}"]
    if not python.is_relative_to("/usr"):
        binds += ["--ro-bind", str(python), str(python)]
    return [
        bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
        *(() if internet else ("--unshare-net",)),
        "--uid", "1000", "--gid", "1000", "--hostname", "e2b", "--new-session",
        *binds, "--proc", "/proc", "--dev", "/dev", "--size", str(TMP_BYTES), "--tmpfs", "/tmp",
        "--bind", str(directory), "/envd", "--ro-bind", str(ENVD), "/envd.py",
        "--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin",
        "--setenv", "E2B_ENVS", json.dumps(envs),
        str(python / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"),
        "-I", "/envd.py", "/envd/envd",
    ]  # fmt: skip
