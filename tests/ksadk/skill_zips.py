"""Archives for the tests of packages: well-made ones, and ones that no well-behaved program writes."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

from ksadk.skills.models import ContentHash, SkillRef

SKILL_MD = b"---\nname: demo\ndescription: Shows something.\n---\nDo it.\n"

REGULAR = stat.S_IFREG | 0o644


def member(name: str, mode: int = REGULAR) -> zipfile.ZipInfo:
    """A member of any name, as it stands."""
    info = zipfile.ZipInfo("x", (2020, 2, 2, 2, 2, 2))
    info.filename = name
    info.create_system = 3
    info.external_attr = mode << 16
    return info


def zipped(
    files: Mapping[str, bytes], *more: tuple[zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    """A zip of files, and of members that are given whole."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for info, data in [*((member(name), data) for name, data in files.items()), *more]:
            archive.writestr(info, data, method)
    return written.getvalue()


def skill(*more: tuple[zipfile.ZipInfo, bytes], **files: bytes) -> bytes:
    """A zip with a SKILL.md, and further members."""
    return zipped({"SKILL.md": SKILL_MD, **files}, *more)


def ref_of(data: bytes, skill_id: str = "s-1", name: str = "demo") -> SkillRef:
    """The listing of an archive."""
    return SkillRef(skill_id, name, "v1", "1.0", content_hash=str(ContentHash.of(data)), space_id="ss-1")


def patched(data: bytes, mark: bytes, offset: int, layout: str, value: int) -> bytes:
    """A zip with one field changed in every record that begins with `mark`."""
    found = bytearray(data)
    at = data.find(mark)
    while at >= 0:
        struct.pack_into(layout, found, at + offset, value)
        at = data.find(mark, at + 4)
    return bytes(found)


def snapshot(top: Path) -> dict[str, bytes | str | None]:
    """All that is below a directory: the bytes of files, where links lead, None for the rest."""
    return {
        str(path.relative_to(top)): str(path.readlink())
        if path.is_symlink()
        else (path.read_bytes() if path.is_file() else None)
        for path in sorted(top.rglob("*"))
    }
