"""A skill's directory as an archive: the same files make the same bytes, on every machine."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path

from ksadk.skills.archives import Archive
from ksadk.skills.digests import contents
from ksadk.skills.errors import SkillPackageError
from ksadk.skills.findings import SKILL_MD
from ksadk.skills.limits import MAX_ARCHIVE_BYTES, too_large
from ksadk.skills.member_names import check_name
from ksadk.skills.trees import TreeFile

_TIME = (1980, 1, 1, 0, 0, 0)
_MADE_ON_UNIX = 3


def pack(directory: Path) -> bytes:
    """A zip of a skill's directory, with SKILL.md at its top.

    The files are stored, not compressed: what compression makes of them changes from one release of its
    library to the next. Directories are not written, and with that empty ones are left out.
    Raises `SkillPackageError` as `contents` does, and for all that an archive is refused for.
    """
    files = [entry.plain() for entry in contents(directory) if isinstance(entry, TreeFile)]
    if not any(file.path == SKILL_MD for file in files):
        raise SkillPackageError(f"{directory} has no {SKILL_MD}, so it is no skill")
    if sum(len(file.data) for file in files) > MAX_ARCHIVE_BYTES:
        raise too_large(f"its files are over {MAX_ARCHIVE_BYTES} bytes, which an archive may have")
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(files, key=lambda file: file.path):
            archive.writestr(_info(file), file.data)
    data = written.getvalue()
    Archive.read(data)
    return data


def _info(file: TreeFile) -> zipfile.ZipInfo:
    check_name(file.path)  # as reading the archive would, but before it is written
    info = zipfile.ZipInfo(file.path, _TIME)
    info.create_system = _MADE_ON_UNIX
    info.external_attr = (stat.S_IFREG | file.mode) << 16
    return info
