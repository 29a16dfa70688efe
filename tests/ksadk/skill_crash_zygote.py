"""A warm process whose children keep a skill, and are killed after any system call that they make.

Each line of stdin is an order, `{"job", "root", "kill"}`, and is answered by lines: what the child did, if it
came to that, and whether it was killed. `kill` is the number of a call and `before` or `after`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from crash_zygote import Calls
from skill_zips import SKILL_MD, ref_of, zipped

from ksadk.skills import trees
from ksadk.skills.archives import Archive
from ksadk.skills.models import ContentHash
from ksadk.skills.package_store import PackageStore, _verified_key

DATA = zipped({"demo/SKILL.md": SKILL_MD, "demo/scripts/run.sh": b"echo\n"})
REF = ref_of(DATA)


def store(root: Path) -> None:
    PackageStore(root / "cache").store_archive(REF, DATA)


def pin(root: Path) -> None:
    PackageStore(root / "cache").pin(root / "demo")


def store_naively(root: Path) -> None:
    """Unpacks where the skill is looked for."""
    place = root / "cache" / _verified_key(REF, ContentHash.of(DATA))
    (place / "extracted").mkdir(parents=True, exist_ok=True)
    (place / "archive.zip").write_bytes(DATA)
    held = os.open(place / "extracted", trees.DIRECTORY)
    archive = Archive.read(DATA)
    trees.write(held, archive.files(), archive.directories)


JOBS = {job.__name__: job for job in (store, pin, store_naively)}
_fork = os.fork


def _run(order: dict[str, Any]) -> None:
    child = _fork()
    if child == 0:
        calls = Calls(order)
        calls.count()
        JOBS[order["job"]](Path(order["root"]))
        sys.__stdout__.write(json.dumps({"names": calls.names}) + "\n")  # type: ignore[union-attr]
        sys.__stdout__.flush()  # type: ignore[union-attr]
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(json.dumps({"killed": os.WIFSIGNALED(status)}), flush=True)


if __name__ == "__main__":
    for line in sys.stdin:
        _run(json.loads(line))
