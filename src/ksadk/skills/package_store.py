"""Where skills that were verified are kept, so that what is read and run is what was verified.

Each is in a directory whose name is a hash, never an id that a service chose. An archive is kept beside what
was unpacked from it: at each use its bytes are held against their hash, and the files against the archive. A
copy of a local skill is held against the hash that its name is made of.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ksadk.runtime_context import get_current_account_id
from ksadk.settings import Settings
from ksadk.skills import trees
from ksadk.skills.archives import Archive
from ksadk.skills.cache_directory import CacheDirectory, hold_cache
from ksadk.skills.digests import Listing, contents, tree_digest
from ksadk.skills.errors import SkillError, SkillPackageError
from ksadk.skills.limits import MAX_ARCHIVE_BYTES, too_large
from ksadk.skills.models import LOCAL_SPACE, ContentHash, SkillRef

CACHE_NAME = "ksadk-skill-cache"

_ARCHIVE, _EXTRACTED = "archive.zip", "extracted"
_TRIES = 3
_MOST_KNOWN = 64

_known: dict[str, tuple[str, Listing]] = {}
"""Where the skill is in the archive of a hash, and what is unpacked from it. That is found out once in a
process: to expand an archive takes several times as long as to hash what is in it."""


@dataclass(frozen=True)
class SkillPackage:
    """A verified skill on disk.

    archive_path: None for the copy of a local skill.
    root_dir: the skill's own directory, with SKILL.md; `extract_dir` or in it.
    cache_hit: whether it was there already.
    digest: the hash of its archive; of a local skill, its tree digest.
    warnings: each begins with a code: `content_hash_missing`, `content_hash_mismatch`, `invalid_content_hash`
        or `skill_cache_tampered`.
    """

    ref: SkillRef
    archive_path: Path | None
    extract_dir: Path
    root_dir: Path
    cache_hit: bool
    digest: str
    warnings: tuple[str, ...] = ()


def cache_dir(settings: Settings) -> Path:
    """The directory for a `PackageStore`, made if it is not there: `KSADK_SKILL_CACHE_DIR`, else
    `ksadk-skill-cache` in the system's directory for temporary files. An account has its own in it.

    Where another user has a `ksadk-skill-cache` there, the name ends in this user's number. Raises
    `SkillPackageError`: `skill_cache_unsafe` where somebody else could change what is kept, or `io_error`.
    """
    base = _base(settings)
    places = [base]
    account = get_current_account_id()
    if account:
        name = hashlib.sha256(account.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        places += [base / "accounts", base / "accounts" / name]
    for place in places:
        try:
            os.close(hold_cache(place))
        except OSError as error:
            raise SkillPackageError(f"the skill cache {place}: {error.strerror}", code="io_error") from error
    return places[-1]


def _base(settings: Settings) -> Path:
    if settings.skill_cache_dir is not None:
        return Path(os.path.realpath(settings.skill_cache_dir))
    import tempfile

    base = Path(os.path.realpath(tempfile.gettempdir())) / CACHE_NAME
    try:
        anothers = base.lstat().st_uid != os.geteuid()
    except OSError:
        anothers = False
    return base.with_name(f"{CACHE_NAME}-{os.geteuid()}") if anothers else base


class PackageStore:
    """The skills in one directory, which several processes may use at once."""

    def __init__(self, cache_dir: Path) -> None:
        self._cache = CacheDirectory(Path(cache_dir).absolute())

    def fetch(
        self, ref: SkillRef, download: Callable[[SkillRef], bytes], *, allow_mismatch: bool = False
    ) -> SkillPackage:
        """The package that is kept, else what `download` gets, as `store_archive` takes it.

        Raises as that does, what `download` raises, and `skill_cache_tampered` where the kept one was changed
        and cannot be got anew.
        """
        fault = _unverifiable(ref)
        if fault and not allow_mismatch:
            raise _not_taken(ref, *fault)
        cached = self.get_cached(ref)
        if cached is not None:
            return cached
        try:
            data = download(ref)
        except SkillError as error:
            expected = _listed_hash(ref)
            if expected and os.path.lexists(self._place(_verified_key(ref, expected))):
                raise SkillPackageError(
                    f"{_changed(ref.name)}, and it cannot be got anew: {error.message}",
                    code="skill_cache_tampered",
                    hint=error.hint,
                ) from error
            raise
        return self.store_archive(ref, data, allow_mismatch=allow_mismatch)

    def get_cached(self, ref: SkillRef) -> SkillPackage | None:
        """The package that is kept, when all of it is still what was verified. Never one whose listing has no
        hash that can be read. One that was changed is not touched: `store_archive` moves it aside."""
        expected = _listed_hash(ref)
        if expected is None:
            return None
        key = _verified_key(ref, expected)
        root = self._cache.check(key, lambda held: _holds(held, expected))
        return None if root is None else self._package(ref, key, expected, root, cache_hit=True)

    def store_archive(self, ref: SkillRef, data: bytes, *, allow_mismatch: bool = False) -> SkillPackage:
        """Verify an archive, unpack it and keep it.

        allow_mismatch: take one whose hash is wrong or missing too, apart from the others and with a warning.
        Raises `SkillPackageError` with nothing written: `content_hash_missing`, `content_hash_mismatch`,
        `invalid_content_hash`, as `Archive.read` does, or as `CacheDirectory.publish` does.
        """
        if len(data) > MAX_ARCHIVE_BYTES:
            raise too_large(f"its archive is over {MAX_ARCHIVE_BYTES} bytes")
        actual = ContentHash.of(data)
        fault = _fault(ref, actual)
        if fault and not allow_mismatch:
            raise _not_taken(ref, *fault)
        key = ("unverified-" if fault else "") + _verified_key(ref, actual)
        archive = Archive.read(data)

        def fill(held: int) -> None:
            trees.write_file(held, _ARCHIVE, data, 0o600)
            os.mkdir(_EXTRACTED, 0o755, dir_fd=held)
            with trees.below(held, _EXTRACTED) as extracted:
                trees.write(extracted, archive.files(), archive.directories)

        aside = self._cache.publish(key, fill, lambda held: _holds(held, actual))
        package = self._package(ref, key, actual, archive.root, cache_hit=False)
        return replace(package, warnings=_warnings(ref.name, fault, aside))

    def pin(self, directory: Path) -> SkillPackage:
        """A copy of a local skill that stays as it is, whatever becomes of the directory.

        Raises `SkillPackageError` as `contents` and `CacheDirectory.publish` do, and `skill_changing` where
        the files change while they are copied.
        """
        directory = Path(os.path.abspath(directory))  # noqa: PTH100  # a link keeps its name, `..` has none
        for _ in range(_TRIES - 1):
            try:
                return self._pin(directory, tree_digest(directory))
            except SkillPackageError as error:
                if error.code != "skill_changing":
                    raise
        return self._pin(directory, tree_digest(directory))

    def _pin(self, directory: Path, digest: str) -> SkillPackage:
        name = directory.name or "skill"
        key = "local-" + _hash_of(name, digest)
        ref = SkillRef(skill_id=name, name=name, space_id=LOCAL_SPACE)
        where = self._place(key) / _EXTRACTED
        package = SkillPackage(ref, None, where, where / name, True, digest)

        def check(held: int) -> str | None:
            with trees.below(held, _EXTRACTED) as extracted:
                if (_names(held), _names(extracted)) != ([_EXTRACTED], [name]):
                    return None
                with trees.below(extracted, name) as copy:
                    return name if Listing.of(trees.walk(copy)).digest() == digest else None

        def fill(held: int) -> None:
            os.mkdir(_EXTRACTED, 0o755, dir_fd=held)
            with trees.below(held, _EXTRACTED) as extracted:
                os.mkdir(name, 0o755, dir_fd=extracted)
                with trees.below(extracted, name) as copy:
                    trees.write(copy, _files(contents(directory)))
                os.fsync(extracted)
            if check(held) is None:
                raise SkillPackageError(f"{directory} changes while it is copied", code="skill_changing")

        if self._cache.check(key, check) is not None:
            return package
        aside = self._cache.publish(key, fill, check)
        return replace(package, cache_hit=False, warnings=_warnings(name, None, aside))

    def _place(self, key: str) -> Path:
        return self._cache.path / key

    def _package(
        self, ref: SkillRef, key: str, digest: ContentHash, root: str, *, cache_hit: bool
    ) -> SkillPackage:
        place = self._place(key)
        extracted = place / _EXTRACTED
        return SkillPackage(ref, place / _ARCHIVE, extracted, extracted / root, cache_hit, str(digest))


def _holds(held: int, expected: ContentHash) -> str | None:
    """Where the skill is in what a held directory has, which is the archive of a hash and just what is
    unpacked from that; None where it is not."""
    if _names(held) != [_ARCHIVE, _EXTRACTED]:
        return None
    data = trees.read_file(held, _ARCHIVE, MAX_ARCHIVE_BYTES)
    if ContentHash.of(data) != expected:
        return None
    with trees.below(held, _EXTRACTED) as extracted:
        entries = trees.walk(extracted)
        if expected.hex in _known:
            root, listing = _known[expected.hex]
            return root if Listing.of(entries) == listing else None
        archive = Archive.read(data)
        listing = Listing.of(archive.agreeing(entries))
    if listing.files.keys() != {member.name for member in archive.members}:
        return None
    if listing.directories != archive.directories:
        return None
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[expected.hex] = archive.root, listing
    return archive.root


def _names(held: int) -> list[str]:
    return sorted(os.listdir(held))  # of a descriptor


def _listed_hash(ref: SkillRef) -> ContentHash | None:
    """The hash that a skill is verified by; None where its listing has none, or one that cannot be read."""
    try:
        return ContentHash.parse(ref.content_hash or "")
    except SkillError:
        return None


def _unverifiable(ref: SkillRef) -> tuple[str, str] | None:
    """The code of why a skill cannot be verified whatever its archive is, and that in words."""
    if not ref.content_hash:
        return "content_hash_missing", "its listing has no hash to verify it by"
    if _listed_hash(ref) is None:
        return "invalid_content_hash", f"its listing has {ref.content_hash[:100]!r} for a hash"
    return None


def _fault(ref: SkillRef, actual: ContentHash) -> tuple[str, str] | None:
    """The same of a skill with its archive."""
    if _listed_hash(ref) == actual:
        return None
    mismatch = "content_hash_mismatch", f"its archive is {actual}, and its listing says {ref.content_hash}"
    return _unverifiable(ref) or mismatch


def _not_taken(ref: SkillRef, code: str, why: str) -> SkillPackageError:
    return SkillPackageError(
        f"the skill {ref.name!r} is not taken: {why}",
        code=code,
        hint="Have it published again. KSADK_SKILL_ALLOW_HASH_MISMATCH=1 takes it unverified.",
    )


def _verified_key(ref: SkillRef, content: ContentHash) -> str:
    return _hash_of(ref.space_id, ref.skill_id, ref.version_id or ref.version, content.hex)


def _hash_of(*words: str) -> str:
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def _changed(name: str) -> str:
    return f"the kept copy of the skill {name!r} was changed after it was verified"


def _warnings(name: str, fault: tuple[str, str] | None, aside: Path | None) -> tuple[str, ...]:
    told = []
    if fault:
        told.append(f"{fault[0]}: the skill {name!r} is not verified: {fault[1]}")
    if aside:
        told.append(
            f"skill_cache_tampered: {_changed(name)}; it is now {aside}, and a fresh one in its place"
        )
    return tuple(told)


def _files(entries: Iterable[trees.TreeFile | trees.TreeDirectory]) -> Iterator[trees.TreeFile]:
    return (entry.plain() for entry in entries if isinstance(entry, trees.TreeFile))
