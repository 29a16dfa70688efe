"""How long it takes to list 2,000 skills of this machine.

Cold, every SKILL.md is read: against reading and parsing the same files with the same library. Warm, an index
tells: the whole program against the whole program listing tools. The median of the ratios of pairs counts.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from ksadk.skills.index_cache import RACY_NS
from ksadk.skills.local import Source, find_local_skills

SKILLS = 2_000
PAIRS = 15
AGENTENGINE = str(Path(sys.executable).parent / "agentengine")
SKILL_MD = (
    """---
name: skill-{number:04}
description: Extracts text and tables from PDF files, fills and merges them. Use for PDFs {number}.
license: Apache-2.0
allowed-tools: Bash(git:*) Read
metadata:
  author: example-org
  version: "1.0"
  tags: pdf, forms
---

# Steps

"""
    + "Read the file, then do with it what was asked for.\n" * 30
)


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, "skills")
        make_skills(root)
        environment = {
            **os.environ, "HOME": directory, "KSADK_LOCAL_SKILLS_DIR": str(root),
            "XDG_STATE_HOME": str(Path(directory, "state")),
        }  # fmt: skip
        cache = Path(directory, "cache")
        held = [
            holds("list, cold / read and parse", lambda: cold(root, cache), lambda: read_and_parse(root), 2),
            warm_holds(environment),
        ]
    return 0 if all(held) else 1


def make_skills(root: Path) -> None:
    for number in range(SKILLS):
        skill = root / f"skill-{number:04}"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text(SKILL_MD.format(number=number))
    time.sleep(RACY_NS / 1e9 + 0.5)  # so that an index may be believed


def cold(root: Path, cache: Path) -> None:
    """With no index, which is written."""
    shutil.rmtree(cache, ignore_errors=True)
    found = find_local_skills((Source(root, "configured"),), cache=cache)
    assert (len(found.skills), found.refused, found.warnings) == (SKILLS, (), ())


def read_and_parse(root: Path) -> None:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for skill in sorted(root.iterdir()):
        text = (skill / "SKILL.md").read_text(encoding="utf-8")
        assert yaml.load(text.split("---\n", 2)[1], Loader=loader)["name"] == skill.name


def warm_holds(environment: dict[str, str]) -> bool:
    """The whole program with an index, against the whole program listing tools."""

    def listing(*words: str) -> Callable[[], None]:
        command = [AGENTENGINE, *words]
        return lambda: subprocess.run(
            command, env=environment, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        ) and None  # fmt: skip

    skills = listing("skills", "list")
    skills()
    return holds("skills list, warm / tools list, whole programs", skills, listing("tools", "list"), 2)


def holds(name: str, call: Callable[[], None], reference: Callable[[], None], limit: float) -> bool:
    timed(call)
    timed(reference)
    pairs = [(timed(call), timed(reference)) for _ in range(PAIRS)]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    ours, theirs = (1000 * statistics.median(times) for times in zip(*pairs, strict=True))
    verdict = "ok" if ratio <= limit else "MISSED"
    print(
        f"{ratio:5.2f} (at most {limit})  {verdict:6}  {name}  [{ours:.0f} ms / {theirs:.0f} ms]", flush=True
    )
    return ratio <= limit


def timed(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
