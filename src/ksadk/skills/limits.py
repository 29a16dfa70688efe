"""How large a skill may be: as an archive that comes, a directory that is packed, and one that is copied."""

from __future__ import annotations

from ksadk.skills.errors import SkillPackageError

MIB = 1024 * 1024
MAX_ARCHIVE_BYTES = 20 * MIB
MAX_EXPANDED_BYTES = 100 * MIB
"""Of all files together."""
MAX_MEMBERS = 2000
"""Files and directories together."""
MAX_RATIO = 100
"""How many times as large as the archive its files may be, once they are more than `RATIO_FREE_BYTES`."""
RATIO_FREE_BYTES = 10 * MIB
MAX_DEPTH = 16
"""Names in a path."""
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 1024


def too_large(why: str) -> SkillPackageError:
    """The error of a package that is over a limit."""
    return SkillPackageError(f"the skill is too large: {why}", code="skill_package_too_large")
