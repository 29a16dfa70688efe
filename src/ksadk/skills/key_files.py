"""Files with keys and passwords, which are in a skill's directory by mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from ksadk.skills.archives import Archive

_NAMES = (
    ".env", ".env.*", "*.env", ".netrc", ".pgpass", ".pypirc", ".git-credentials",
    "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx",
)  # fmt: skip
_MEANT_FOR_OTHERS = ("*.example", "*.sample", "*.template", "example.env", "sample.env")
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\r?\n[\w+/:, -]{16}")


def key_files(archive: bytes) -> Iterator[str]:
    """The paths in a skill's archive that hold keys or passwords by their names, or a private key by their
    bytes. Raises `SkillPackageError` as `Archive.read` does."""
    for file in Archive.read(archive).files():
        name = file.path.rpartition("/")[2].lower()
        if (_fits(name, _NAMES) and not _fits(name, _MEANT_FOR_OTHERS)) or _PRIVATE_KEY.search(file.data):
            yield file.path


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
