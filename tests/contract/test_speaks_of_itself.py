"""What is checked in speaks of the project alone: no machine's paths, no registry's hosts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Put together here so that this file does not find itself.
PATHS = [f"/{name}/" for name in ("work", "root", "private", "Users")]
HOSTS = [
    ".".join(parts)
    for parts in (("pypi", "org"), ("files", "pythonhosted", "org"), ("registry", "npmjs", "org"))
]
OWN = Path(__file__).name


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git repository")
    names = listed.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file() and Path(name).name != OWN]


@pytest.mark.parametrize("words", [*PATHS, *HOSTS])
def test_no_file_that_is_checked_in_holds(words: str) -> None:
    pattern = re.compile(rb"(?<![\w.~])" + re.escape(words.encode()), re.IGNORECASE if "." in words else 0)
    assert [str(file.relative_to(ROOT)) for file in tracked() if pattern.search(file.read_bytes())] == []
