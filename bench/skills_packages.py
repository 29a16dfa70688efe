"""What verifying a kept skill at each use costs, against hashing its files with plain calls.

Each measurement and its reference run in turn; what counts is the median of the ratios of the pairs.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from ksadk.skills import package_store
from ksadk.skills.digests import tree_digest
from ksadk.skills.loader import load_local_skill
from ksadk.skills.models import ContentHash, SkillRef
from ksadk.skills.package_store import PackageStore
from ksadk.skills.packing import pack

PAIRS = 101
LIMIT = 3.0
FILES = 40
WORDS_PER_FILE = 2_000
SKILL_MD = "---\nname: bench\ndescription: Is measured.\n---\nDo it.\n"

Call = Callable[[], object]


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        top = Path(directory)
        source = top / "bench"
        make_skill(source)
        store = PackageStore(top / "cache")
        stored, packed = deflated(source), pack(source)
        calls: dict[str, tuple[Call, float | None]] = {
            "tree digest of a local skill": (lambda: tree_digest(source), None),
            "cached load of a local skill": (lambda: load_local_skill(store.pin(source).root_dir), LIMIT),
            "cached load of an archive": (cached(store, stored), LIMIT),
            "cached load of what `skills pack` makes": (cached(store, packed), LIMIT),
            "the same, the first of a process": (first(cached(store, packed)), LIMIT),
            "cached load of a compressed archive, the first of a process": (
                first(cached(store, stored)),
                None,
            ),
        }
        held = [holds(name, call, source, limit) for name, (call, limit) in calls.items()]
        return 0 if all(held) else 1


def make_skill(source: Path) -> None:
    """Files of about 13 KB of words."""
    chance = random.Random(5)
    words = [f"word{number}" for number in range(500)]
    (source / "references").mkdir(parents=True)
    (source / "SKILL.md").write_text(SKILL_MD)
    for number in range(FILES):
        text = " ".join(chance.choices(words, k=WORDS_PER_FILE))
        (source / f"references/r{number}.md").write_text(text)


def deflated(source: Path) -> bytes:
    """The archive that most programs make."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(source.rglob("*")):
            archive.write(path, path.relative_to(source))
    return written.getvalue()


def cached(store: PackageStore, data: bytes) -> Call:
    """A load of a skill that is kept already."""
    ref = SkillRef("bench", "bench", "v1", content_hash=str(ContentHash.of(data)))
    store.store_archive(ref, data)

    def load() -> None:
        package = store.get_cached(ref)
        assert package is not None
        load_local_skill(package.root_dir, default_name=ref.name)

    return load


def first(load: Call) -> Call:
    """The same in a process that has not seen the archive before."""

    def call() -> None:
        package_store._known.clear()
        load()

    return call


def hashed(source: Path) -> None:
    for directory, _, names in os.walk(source):
        for name in names:
            with open(os.path.join(directory, name), "rb") as file:  # noqa: PTH118, PTH123  # to be fast
                hashlib.sha256(file.read()).hexdigest()


def holds(name: str, call: Call, source: Path, limit: float | None) -> bool:
    timed(call)
    pairs = [(timed(call), timed(lambda: hashed(source))) for _ in range(PAIRS)]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    ours, theirs = (1000 * statistics.median(times) for times in zip(*pairs, strict=True))
    verdict = "" if limit is None else "ok" if ratio <= limit else "MISSED"
    most = "" if limit is None else f"(at most {limit})"
    print(f"{ratio:5.2f} {most:14} {verdict:6}  {name}  [{ours:.2f} ms / {theirs:.2f} ms]", flush=True)
    return limit is None or ratio <= limit


def timed(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
