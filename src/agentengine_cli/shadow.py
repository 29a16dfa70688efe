"""Whether the imported `ksadk` is this program's own. Another distribution owns a package of that name.

It imports the standard library only: a foreign `ksadk` may be what keeps the rest from being imported.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

OURS = "agentengine-cli"
FIX = (
    "Install agentengine-cli into an environment of its own, or uninstall the other distribution and then "
    "install agentengine-cli again (pip install --force-reinstall --no-deps)."
)
_OWNS_KSADK = re.compile(r"^\"?ksadk[/\\]", re.MULTILINE)


class Foreign(NamedTuple):
    """Another distribution with a package `ksadk`."""

    name: str
    version: str
    place: Path


def imported_from() -> Path | None:
    """The directory of the package `ksadk` that is, or would be, imported."""
    spec = find_spec("ksadk")
    return Path(spec.origin).resolve().parent if spec and spec.origin else None


def is_beside_us(place: Path | None) -> bool:
    """Whether a package stands where this program's own is."""
    return place == Path(__file__).resolve().parent.parent / "ksadk"


def foreign_distributions() -> Iterator[Foreign]:
    """Every other installed distribution that has a package `ksadk`."""
    for found in distributions():
        name = found.metadata["Name"] or ""
        record = found.read_text("RECORD") or found.read_text("installed-files.txt") or ""
        if _normal(name) != OURS and _OWNS_KSADK.search(record):
            yield Foreign(name, found.version, Path(str(found.locate_file("ksadk"))).resolve())


def overwritten() -> list[str]:
    """The files of our `ksadk` that are not as they were installed; empty in a checkout."""
    ours = next((found for found in distributions(name=OURS) if _has_ksadk(found)), None)
    changed = []
    for file in (ours.files if ours else None) or []:
        if file.hash is None or file.parts[0] != "ksadk":
            continue
        path = Path(str(file.locate()))
        data = path.read_bytes() if path.is_file() else b""
        digest = base64.urlsafe_b64encode(hashlib.new(file.hash.mode, data).digest()).rstrip(b"=").decode()
        if digest != file.hash.value:
            changed.append(str(file))
    return changed


def explanation() -> str | None:
    """What is wrong with the imported `ksadk`, or None where it is our own."""
    place = imported_from()
    others = [f"{other.name} {other.version}" for other in foreign_distributions() if other.place == place]
    named = f", which {' and '.join(others)} installed" if others else ""
    if not is_beside_us(place):
        return f"the package ksadk in {place} is not this program's{named}"
    changed = overwritten()
    if changed:
        return f"{len(changed)} files of the package ksadk in {place} are not as installed{named}"
    if others:
        return f"the package ksadk in {place} is this program's and that of {' and '.join(others)} at once"
    return None


def _has_ksadk(found: Distribution) -> bool:
    return bool(_OWNS_KSADK.search(found.read_text("RECORD") or ""))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
