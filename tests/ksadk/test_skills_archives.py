"""An archive that could do harm is refused before anything is written, and a whole one is kept whole."""

from __future__ import annotations

import io
import os
import random
import shutil
import stat
import struct
import subprocess
import tempfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from skill_zips import REGULAR, SKILL_MD, member, patched, ref_of, skill, snapshot, zipped

from ksadk.skills.archives import Archive
from ksadk.skills.errors import SkillPackageError
from ksadk.skills.package_store import PackageStore
from ksadk.skills.zip_reader import expand, members_of

UNSAFE, TOO_LARGE, INVALID = "unsafe_skill_package", "skill_package_too_large", "invalid_skill_package"

MIB = 1024 * 1024
LOCAL, CENTRAL, END = b"PK\3\4", b"PK\1\2", b"PK\5\6"

NAMES = [
    "../../x", "a/../../x", "..", "a/..", "/x", "//x", "..\\x", "a\\b", "\\x", "C:x", "C:/x", "c:\\x", "a:b",
    "\\\\server\\share\\x", ".", "./x", "a/./x", "a//x", "a\nb", "a\x1b[2Jb", "a\x7fb", "a\x85b", "a\u202eb",
    "a\u200bb", "a\u2028b", "con", "CON", "nul.txt", "a/Aux", "com1", "LPT9.md", "com¹", "conin$", "a.", "a ",
    "a./x", "a /x", 'a"b', "a?b", "a*b", "a<b", "a|b", "a\u034f", "\u3164", "\u2800", "a\u00a0", "a\u3000",
]  # fmt: skip
"""Names that no member may have."""

TWINS = [
    ("a", "a"), ("a", "A"), ("dir/a", "DIR/a"), ("dir/a", "Dir/b"), ("caf\u00e9", "cafe\u0301"), ("a", "a/b"),
    ("a/b", "a"), ("A/b", "a"), ("stra\u00dfe", "STRASSE"), ("\u212b", "\u00e5"),
]  # fmt: skip
"""Two names that are one on some machine."""

KINDS = {
    "a symbolic link": stat.S_IFLNK | 0o777,
    "a device": stat.S_IFCHR | 0o600,
    "a disk": stat.S_IFBLK | 0o600,
    "a FIFO": stat.S_IFIFO | 0o600,
    "a socket": stat.S_IFSOCK | 0o600,
    "of a kind that is none": 0o170000,
    "a directory without its slash": stat.S_IFDIR | 0o755,
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a cache and something beside it that must not be touched."""
    (tmp_path / "precious").write_text("precious")
    return tmp_path


def refusal(place: Path, data: bytes) -> str:
    """The code that an archive is refused with; nothing of it is left in the cache, or outside."""
    store = PackageStore(place / "cache")
    store._cache.check("nothing", lambda held: None)  # so that the cache itself is there
    before = snapshot(place)
    with pytest.raises(SkillPackageError) as caught:
        store.store_archive(ref_of(data), data)
    after = snapshot(place)
    after.pop("cache/lock", None)
    assert after == before
    assert store.get_cached(ref_of(data)) is None
    return caught.value.code


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_leads_elsewhere_or_is_odd_is_refused(name: str, place: Path) -> None:
    assert refusal(place, skill((member(name), b"x"))) == UNSAFE


def test_a_name_that_is_no_text_or_has_a_zero_byte_is_refused(place: Path) -> None:
    archive = skill((member("XXXX"), b"x"))
    assert refusal(place, archive.replace(b"XXXX", b"X\xff\xfeX")) == UNSAFE
    assert refusal(place, archive.replace(b"XXXX", b"a\0/b")) == UNSAFE
    assert refusal(place, archive.replace(b"XXXX", b"\xed\xa0\x80X")) == UNSAFE


@pytest.mark.parametrize("names", TWINS)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_names_that_are_one_on_some_machine_are_refused(names: tuple[str, str], place: Path) -> None:
    assert refusal(place, skill(*((member(name), b"x") for name in names))) == UNSAFE


@pytest.mark.parametrize("mode", KINDS.values(), ids=KINDS)
def test_what_is_no_file_is_refused(mode: int, place: Path) -> None:
    assert refusal(place, skill((member("s", mode), b"/tmp"))) == UNSAFE


def test_a_file_through_a_link_is_refused(place: Path) -> None:
    link = member("s", KINDS["a symbolic link"]), str(place).encode()
    assert refusal(place, skill(link, (member("s/precious"), b"gone"))) == UNSAFE


def test_a_link_that_says_it_was_made_on_windows_is_refused(place: Path) -> None:
    link = member("s", KINDS["a symbolic link"])
    link.create_system = 0
    assert refusal(place, skill((link, b"/etc/passwd"))) == UNSAFE


def test_what_is_said_to_be_a_file_and_a_directory_is_refused(place: Path) -> None:
    dos = member("s")
    dos.external_attr |= 0x10
    assert refusal(place, skill((dos, b"x"))) == UNSAFE
    assert refusal(place, skill((member("s/"), b""))) == UNSAFE
    assert refusal(place, skill((member("s/", stat.S_IFDIR | 0o755), b"x"))) == INVALID


def test_too_much_is_refused(place: Path) -> None:
    many = {f"f{number}": b"" for number in range(2000)}
    assert refusal(place, skill(**many)) == TOO_LARGE
    assert refusal(place, skill(**{f"f{number}": b"" for number in range(20_000)})) == TOO_LARGE
    implied = {"/".join([f"d{number}", *"abcdefgh", "f"]): b"" for number in range(300)}
    assert refusal(place, skill(**implied)) == TOO_LARGE
    assert refusal(place, skill(**{"/".join(["d"] * 17): b""})) == TOO_LARGE
    assert refusal(place, skill(**{"n" * 256: b""})) == TOO_LARGE
    assert refusal(place, skill(**{"/".join(["n" * 200] * 6): b""})) == TOO_LARGE
    assert refusal(place, skill(**{"f": random.Random(1).randbytes(20 * MIB)})) == TOO_LARGE


def test_a_bomb_is_refused_whatever_it_declares(place: Path) -> None:
    bomb = skill(zeros=bytes(101 * MIB))
    assert refusal(place, bomb) == TOO_LARGE
    by_ratio = skill(zeros=bytes(11 * MIB))
    assert refusal(place, by_ratio) == TOO_LARGE
    declared = zipped({"SKILL.md": bytes(5 * MIB)})
    for mark, offset in ((LOCAL, 22), (CENTRAL, 24)):
        declared = patched(declared, mark, offset, "<I", 1000)
    assert refusal(place, declared) == TOO_LARGE


def test_what_a_bomb_expands_to_is_never_held_in_memory() -> None:
    declared = zipped({"SKILL.md": bytes(5 * MIB)})
    for mark, offset in ((LOCAL, 22), (CENTRAL, 24)):
        declared = patched(declared, mark, offset, "<I", 1000)
    tracemalloc.start()
    try:
        with pytest.raises(SkillPackageError):
            list(Archive.read(declared).files())
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("fault", ["bytes after the end", "no end"])
def test_compressed_bytes_that_do_not_end_where_they_say_are_refused(fault: str, place: Path) -> None:
    body = b"some text " * 100
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = packer.compress(body) + packer.flush(zlib.Z_FINISH if "after" in fault else zlib.Z_SYNC_FLUSH)
    packed += b"more" * ("after" in fault)
    data = zipped({"SKILL.md": packed}, method=zipfile.ZIP_STORED)  # and then said to be compressed
    for mark, method, crc, size in ((LOCAL, 8, 14, 22), (CENTRAL, 10, 16, 24)):
        data = patched(data, mark, method, "<H", zipfile.ZIP_DEFLATED)
        data = patched(data, mark, crc, "<I", zlib.crc32(body))
        data = patched(data, mark, size, "<I", len(body))
    assert refusal(place, data) == INVALID


def test_what_is_under_the_limits_is_taken(place: Path) -> None:
    data = skill(
        **{"/".join(["n" * 60] * 16): b"", "zeros": bytes(10 * MIB - 100)},
        **{f"f{n}": b"" for n in range(1900)},
    )
    package = PackageStore(place / "cache").store_archive(ref_of(data), data)
    assert sum(path.is_file() for path in package.root_dir.rglob("*")) == 1903


BROKEN = {
    "encrypted": (UNSAFE, [(LOCAL, 6, 1), (CENTRAL, 8, 1)]),
    "strongly encrypted": (UNSAFE, [(LOCAL, 6, 1 << 6), (CENTRAL, 8, 1 << 6)]),
    "a patch": (INVALID, [(LOCAL, 6, 1 << 5), (CENTRAL, 8, 1 << 5)]),
    "packed in an unknown way": (INVALID, [(LOCAL, 8, 99), (CENTRAL, 10, 99)]),
    "of another method in one place": (INVALID, [(LOCAL, 8, 0)]),
    "encrypted in one place": (INVALID, [(LOCAL, 6, 1)]),
    "of another size in one place": (INVALID, [(LOCAL, 22, 3)]),
    "of another size in both": (INVALID, [(LOCAL, 22, 3000), (CENTRAL, 24, 3000)]),
    "of another checksum in one place": (INVALID, [(LOCAL, 14, 3)]),
    "of another checksum in both": (INVALID, [(LOCAL, 14, 3), (CENTRAL, 16, 3)]),
    "of another name in one place": (INVALID, [(LOCAL, 30, 0x4141)]),
    "on another disk": (INVALID, [(CENTRAL, 34, 1)]),
    "elsewhere": (INVALID, [(CENTRAL, 42, 5)]),
    "beyond the end": (INVALID, [(CENTRAL, 42, 60000)]),
    "part of several": (INVALID, [(END, 4, 1)]),
    "a directory of one entry less": (INVALID, [(END, 8, 1), (END, 10, 1)]),
    "a directory of one entry more": (INVALID, [(END, 8, 3), (END, 10, 3)]),
    "a directory that is elsewhere": (INVALID, [(END, 16, 3)]),
    "a directory of another size": (INVALID, [(END, 12, 3)]),
    "of a newer form of zip": (INVALID, [(LOCAL, 4, 64), (CENTRAL, 6, 64)]),
}  # fmt: skip


@pytest.mark.parametrize(("code", "changes"), BROKEN.values(), ids=BROKEN)
def test_a_zip_that_can_be_read_in_two_ways_or_not_at_all_is_refused(
    code: str, changes: list[tuple[bytes, int, int]], place: Path
) -> None:
    data = skill(f=b"some text that is there")
    for mark, offset, value in changes:
        data = patched(data, mark, offset, "<H", value)
    assert refusal(place, data) == code


def test_members_that_share_bytes_are_refused(place: Path) -> None:
    first, second = skill(), skill(f=SKILL_MD)
    one = first[first.index(CENTRAL) : first.index(END)]
    end = bytearray(first[first.index(END) :])
    end[8:12] = b"\2\0\2\0"
    end[12:16] = (2 * len(one)).to_bytes(4, "little")
    assert refusal(place, first[: first.index(CENTRAL)] + one + one + bytes(end)) == INVALID
    assert refusal(place, b"#!/bin/sh\n" + second) == INVALID
    assert refusal(place, second + b"more") == INVALID
    assert refusal(place, second + second) == INVALID


def moved(data: bytes, at: int, more: bytes) -> bytes:
    """A zip with bytes put in before a place, and every offset behind that set right."""
    data = data[:at] + more + data[at:]
    place = data.find(CENTRAL)
    while (place := data.find(CENTRAL, place)) >= 0:
        start = int.from_bytes(data[place + 42 : place + 46], "little")
        data = put(data, place + 42, start + len(more) * (start >= at))
        place += 4
    return put(data, data.index(END) + 16, data.index(CENTRAL))


def put(data: bytes, at: int, number: int) -> bytes:
    return data[:at] + number.to_bytes(4, "little") + data[at + 4 :]


@pytest.mark.parametrize("more", [b"#!/bin/sh\n", b"PK\7\x08" + bytes(12), bytes(12)])
def test_bytes_that_belong_to_no_member_are_refused(more: bytes, place: Path) -> None:
    data = skill(f=b"some text")
    for at in (0, data.index(LOCAL, 1), data.index(CENTRAL)):
        assert refusal(place, moved(data, at, more)) == INVALID
    hidden = skill(f=b"other text")
    assert refusal(place, moved(data, data.index(CENTRAL), hidden[: hidden.index(CENTRAL)])) == INVALID


def test_another_name_in_extra_fields_is_refused(place: Path) -> None:
    for other, taken in ((b"name", True), (b"../x", False)):
        info = member("name")
        info.extra = struct.pack("<2HBI", 0x7075, 5 + len(other), 1, zlib.crc32(b"name")) + other
        data = skill((info, b"x"))
        if taken:
            assert len(Archive.read(data).members) == 2
        else:
            assert refusal(place, data) == INVALID


def test_every_truncation_is_refused() -> None:
    data = skill(f=b"some text")
    for length in range(len(data)):
        with pytest.raises(SkillPackageError):
            list(Archive.read(data[:length]).files())


def test_an_archive_without_one_skill_is_refused(place: Path) -> None:
    for files in ({}, {"skill.md": b"x"}, {"a/b/SKILL.md": b"x"}, {"a/SKILL.md": b"x", "b/SKILL.md": b"x"}):
        assert refusal(place, zipped(files)) == INVALID
    assert refusal(place, b"") == INVALID
    assert refusal(place, b"<html>Not found</html>") == INVALID


def test_a_zip_of_macos_is_read_without_its_clutter(place: Path) -> None:
    files = {
        "demo/": b"", "demo/SKILL.md": SKILL_MD, "__MACOSX/._demo": b"x", "__MACOSX/demo/._SKILL.md": b"x",
        "demo/.DS_Store": b"x", "demo/._notes": b"x", "demo/cafXX.md": b"x", "._SKILL.md": b"x",
    }  # fmt: skip
    directory = member("demo/", stat.S_IFDIR | 0o755), b""
    data = zipped({name: body for name, body in files.items() if body}, directory)
    data = data.replace(b"cafXX", "café".encode())  # as Finder writes it: UTF-8, and no flag that says so
    package = PackageStore(place / "cache").store_archive(ref_of(data), data)
    assert package.root_dir == package.extract_dir / "demo"
    assert sorted(snapshot(package.extract_dir)) == ["demo", "demo/SKILL.md", "demo/café.md"]


def test_what_is_never_packed_is_not_unpacked_either(place: Path) -> None:
    left_out = [".git/config", "a/.GIT/hooks/post-checkout", ".hg/hgrc", "scripts/__pycache__/x.pyc"]
    data = skill(*((member(name), b"x") for name in left_out))
    package = PackageStore(place / "cache").store_archive(ref_of(data), data)
    assert sorted(snapshot(package.extract_dir)) == ["SKILL.md"]


def test_what_macos_adds_is_checked_all_the_same(place: Path) -> None:
    assert refusal(place, skill((member("__MACOSX/../../x"), b"x"))) == UNSAFE
    assert refusal(place, skill((member("._x", KINDS["a symbolic link"]), b"/etc"))) == UNSAFE


def test_of_permissions_only_the_executable_bit_is_kept(place: Path) -> None:
    modes = {"run": 0o755, "private": 0o600, "set": 0o6755, "all": 0o777, "none": 0, "group": 0o610}
    data = skill(
        *((member(name, stat.S_IFREG | mode), b"x") for name, mode in modes.items()),
        (member("plain", 0), b"x"),
    )
    package = PackageStore(place / "cache").store_archive(ref_of(data), data)
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in package.root_dir.iterdir()}
    executable = {"run", "set", "all"}
    assert found == {name: 0o755 if name in executable else 0o644 for name in [*modes, "plain", "SKILL.md"]}


@pytest.mark.parametrize("options", [["-r"], ["-r", "-0"], ["-r", "-fd"], ["-r", "-9", "-X"], ["-r", "-D"]])
@pytest.mark.parametrize("streamed", [False, True])
def test_what_the_zip_program_makes_is_read(options: list[str], streamed: bool, place: Path) -> None:
    if shutil.which("zip") is None:
        pytest.skip("there is no zip program")
    source = place / "source"
    (source / "demo/scripts").mkdir(parents=True)
    (source / "demo/SKILL.md").write_bytes(SKILL_MD * 50)
    (source / "demo/scripts/run.sh").write_text("echo\n")
    (source / "demo/scripts/run.sh").chmod(0o755)
    (source / "demo/图.md").write_text("图")
    command = ["zip", "-q", *options, "-" if streamed else "../made.zip", "demo"]
    written = subprocess.run(command, cwd=source, check=True, stdout=subprocess.PIPE).stdout
    data = written if streamed else (place / "made.zip").read_bytes()
    package = PackageStore(place / "cache").store_archive(ref_of(data), data)
    assert snapshot(package.extract_dir) == snapshot(source)
    assert os.access(package.root_dir / "scripts/run.sh", os.X_OK)


names = st.one_of(
    st.sampled_from([*NAMES, "SKILL.md", "a", "A", "a/b", "__MACOSX/a", "._a"]), st.text(max_size=6)
)
kinds = st.sampled_from([REGULAR, 0, stat.S_IFREG | 0o755, stat.S_IFDIR | 0o755, *KINDS.values()])


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.filterwarnings("ignore:Duplicate name")
@given(members=st.lists(st.tuples(names, kinds, st.binary(max_size=20)), max_size=6))
def test_whatever_the_members_are_nothing_is_written_outside_and_what_is_taken_is_all_there(
    members: list[tuple[str, int, bytes]],
) -> None:
    try:
        data = skill(*((member(name, mode), body) for name, mode, body in members))
    except (UnicodeEncodeError, IndexError):  # a name that cannot be written at all
        return
    check_that_all_or_nothing_is_there(data)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.integers(0, 30),
)
@example(changes=[(0, 0)], cut=0)
def test_whatever_bytes_are_changed_only_a_refusal_is_raised(
    changes: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(skill(f=b"some text " * 20, **{"dir/g": b"more"}))
    for position, value in changes:
        data[position % len(data)] = value
    check_that_all_or_nothing_is_there(bytes(data[: len(data) - cut]))


def check_that_all_or_nothing_is_there(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "precious").write_text("precious")
        store = PackageStore(place / "cache")
        try:
            package = store.store_archive(ref_of(data), data)
        except SkillPackageError as error:
            assert error.code in (UNSAFE, TOO_LARGE, INVALID)
            assert set(snapshot(place)) <= {"precious", "cache", "cache/lock"}
            return
        assert {path.name for path in place.iterdir()} == {"precious", "cache"}
        there = {name: body for name, body in snapshot(package.extract_dir).items() if body is not None}
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert there.items() <= {name: archive.read(name) for name in archive.namelist()}.items()
        assert store.get_cached(ref_of(data)) is not None


def test_the_reader_agrees_with_pythons(place: Path) -> None:
    chance = random.Random(7)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        files = {f"f{number}": chance.randbytes(number * 37) + b"x" * number * 50 for number in range(50)}
        data = zipped(files, method=method)
        assert {found.name: expand(data, found) for found in members_of(data)} == files
