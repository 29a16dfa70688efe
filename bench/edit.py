"""What one edit of a file of 1 MB costs, against plain calls that write the same bytes as safely.

Each edit and its reference run in turn, in one directory; what counts is the median of the pairs. An edit may
take 1.5 times what the reference takes, and 3 ms. Text that is not ASCII has to be decoded on top of that:
what its edit costs is printed, and has no limit.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ksadk.runtime_context import workspace_root_scope
from ksadk.tools.registry import find
from ksadk.toolsets.workspace import edit_workspace_file, read_workspace_file

PAIRS = 101
SIZE = 1 << 20
TIMES, PLUS_MS = 1.5, 3.0
NO_LIMIT = float("inf")
LIMITS = {"LF": PLUS_MS, "CRLF": PLUS_MS, "Chinese": NO_LIMIT}
LINES = {
    "LF": "a line of text that is neither long nor short\n",
    "CRLF": "a line of text that is neither long nor short\r\n",
    "Chinese": "一行不长也不短的文字，用来测量编辑所需的时间\n",
}

Edit = Callable[..., dict[str, Any]]


def main() -> int:
    function: Edit = find("edit_workspace_file").func
    with tempfile.TemporaryDirectory() as directory:
        for name in ("AGENTENGINE_UI_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            os.environ[name] = str(Path(directory) / name.lower())
        root = Path(directory).resolve() / "root"
        root.mkdir()
        with workspace_root_scope(root):
            missed = [name for name, line in LINES.items() if not holds(root, name, line, function)]
            through = statistics.median(ours for ours, _ in measured(root, LINES["LF"], edit_workspace_file))
    print(f"the same edit (LF) called through the gateway: {1000 * through:.2f} ms")
    return 1 if missed else 0


def holds(root: Path, name: str, line: str, edit: Edit) -> bool:
    """Print the figures of one kind of text; returns whether its limit holds."""
    pairs = measured(root, line, edit)
    over = statistics.median(1000 * (ours - TIMES * theirs) for ours, theirs in pairs)
    ours = 1000 * statistics.median(first for first, _ in pairs)
    theirs = 1000 * statistics.median(second for _, second in pairs)
    limit = LIMITS[name]
    verdict = "no limit" if limit == NO_LIMIT else "ok" if over <= limit else "MISSED"
    print(
        f"{over:5.2f} ms (at most {limit})  {verdict:8}  one edit of 1 MB of {name}, above {TIMES} times "
        f"write, fsync, rename, fsync  [{ours:.2f} ms / {theirs:.2f} ms]",
        flush=True,
    )
    return over <= limit


def measured(root: Path, line: str, edit: Edit) -> list[tuple[float, float]]:
    """Seconds that edits of two lines in the middle took, and those of the reference after each."""
    lines = SIZE // len(line.encode())
    ending = "\r\n" if line.endswith("\r\n") else "\n"
    words = ["first line here\nsecond line here", "another line here\na further line here"]
    middle = words[0].replace("\n", ending) + ending
    (root / "f.txt").write_bytes((line * (lines // 2) + middle + line * (lines // 2)).encode())
    read_workspace_file("f.txt", max_chars=1_000)
    pairs = []
    for _ in range(PAIRS + 1):
        begun = time.perf_counter()
        result = edit(path="f.txt", old_text=words[0], new_text=words[1])
        ours = time.perf_counter() - begun
        if not result["ok"]:
            raise SystemExit(f"the edit failed: {result}")
        words.reverse()
        pairs.append((ours, plain(root, (root / "f.txt").read_bytes())))
    return pairs[1:]


def plain(root: Path, data: bytes) -> float:
    """Seconds for write, fsync, rename, fsync of the directory."""
    begun = time.perf_counter()
    descriptor = os.open(root / "plain.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(descriptor, data)
    os.fsync(descriptor)
    os.close(descriptor)
    os.rename(root / "plain.tmp", root / "plain.txt")  # noqa: PTH104  # the calls themselves are what is timed
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
