"""The same files make the same archive, which every reader takes, and nothing else is in it."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from skill_zips import SKILL_MD, ref_of, snapshot

from ksadk.skills.archives import Archive
from ksadk.skills.digests import tree_digest
from ksadk.skills.errors import SkillPackageError
from ksadk.skills.models import ContentHash
from ksadk.skills.package_store import PackageStore
from ksadk.skills.packing import pack


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A skill."""
    directory = tmp_path / "demo"
    (directory / "scripts").mkdir(parents=True)
    (directory / "SKILL.md").write_bytes(SKILL_MD)
    (directory / "scripts/run.sh").write_text("echo\n")
    (directory / "scripts/run.sh").chmod(0o755)
    (directory / "图.md").write_text("图")
    return directory


def code_of(source: Path) -> str:
    with pytest.raises(SkillPackageError) as caught:
        pack(source)
    return caught.value.code


def test_the_bytes_are_always_the_same(source: Path) -> None:
    """By a hash that was written down: with another one, all that was published would change."""
    assert (
        str(ContentHash.of(pack(source)))
        == "sha256:679d75d16b19a4bb70681c88dfc1c0670bbf2872d484bee0dc64fa59d84b8eea"
    )


def test_neither_times_nor_permissions_nor_the_order_of_writing_count(source: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "other"
    (other / "scripts").mkdir(parents=True, mode=0o700)
    (other / "empty").mkdir()
    for name in ("图.md", "scripts/run.sh", "SKILL.md"):
        shutil.copyfile(source / name, other / name)
        (other / name).chmod(0o700 if name == "scripts/run.sh" else 0o600)
        os.utime(other / name, (1, 1))
    assert pack(other) == pack(source)
    script = (
        "import sys; from pathlib import Path; from ksadk.skills.packing import pack\n"
        "sys.stdout.buffer.write(pack(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", script, str(source)]
    environ = {
        **os.environ,
        "TZ": "Asia/Shanghai",
        "LC_ALL": "C",
        "PYTHONHASHSEED": "7",
        "SOURCE_DATE_EPOCH": "9",
    }
    assert subprocess.run(command, capture_output=True, check=True, env=environ, umask=0o077).stdout == pack(
        source
    )


def test_what_is_packed_is_what_is_unpacked(source: Path, tmp_path: Path) -> None:
    data = pack(source)
    package = PackageStore(tmp_path / "cache").store_archive(ref_of(data), data)
    assert snapshot(package.root_dir) == snapshot(source)
    assert tree_digest(package.root_dir) == tree_digest(source)
    assert pack(package.root_dir) == data


def test_other_programs_read_it(source: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(pack(source))) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "SKILL.md": SKILL_MD, "scripts/run.sh": b"echo\n", "图.md": "图".encode()
        }  # fmt: skip
    if shutil.which("unzip") is None:
        pytest.skip("there is no unzip program")
    (tmp_path / "made.zip").write_bytes(pack(source))
    subprocess.run(["unzip", "-q", "made.zip", "-d", "out"], cwd=tmp_path, check=True)
    assert tree_digest(tmp_path / "out") == tree_digest(source)


def test_what_is_no_part_of_a_skill_is_left_out(source: Path) -> None:
    before = pack(source)
    for name in (
        ".git/config",
        "scripts/__pycache__/x.pyc",
        ".DS_Store",
        "._SKILL.md",
        "__MACOSX/x",
        ".svn/x",
    ):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("secret")
    (source / ".git/link").symlink_to("/etc/passwd")
    assert pack(source) == before


REFUSED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a link to a secret": (
        "unsafe_skill_package",
        lambda top: (top / "key").symlink_to(top.parent / "id_rsa"),
    ),
    "a link inside": ("unsafe_skill_package", lambda top: (top / "more.md").symlink_to("SKILL.md")),
    "a link to a directory": ("unsafe_skill_package", lambda top: (top / "more").symlink_to(top.parent)),
    "a link that leads nowhere": ("unsafe_skill_package", lambda top: (top / "more").symlink_to("absent")),
    "a link for SKILL.md": (
        "unsafe_skill_package",
        lambda top: ((top / "SKILL.md").rename(top / "x"), (top / "SKILL.md").symlink_to("x")),
    ),
    "a FIFO": ("unsafe_skill_package", lambda top: os.mkfifo(top / "pipe")),
    "case twins": ("unsafe_skill_package", lambda top: (top / "skill.MD").touch()),
    "a name of Windows": ("unsafe_skill_package", lambda top: (top / "aux.md").touch()),
    "a drive": ("unsafe_skill_package", lambda top: (top / "C:x").touch()),
    "a line end in a name": ("unsafe_skill_package", lambda top: (top / "a\nb").touch()),
    "a name that is no text": ("unsafe_skill_package", lambda top: (top / "a\udcff").touch()),
    "too many files": (
        "skill_package_too_large",
        lambda top: [(top / f"f{number}").touch() for number in range(2000)],
    ),
    "too much": ("skill_package_too_large", lambda top: (top / "x").write_bytes(bytes(20 << 20))),
    "far too much": (
        "skill_package_too_large",
        lambda top: ((top / "x").touch(), os.truncate(top / "x", 1 << 40)),
    ),
    "too deep": (
        "skill_package_too_large",
        lambda top: (
            (top / "/".join("d" * 16)).mkdir(parents=True),
            (top / "/".join("d" * 16) / "f").touch(),
        ),
    ),
    "no SKILL.md": ("invalid_skill_package", lambda top: (top / "SKILL.md").unlink()),
    "nothing": ("not_found", shutil.rmtree),
}


@pytest.mark.parametrize(("code", "change"), REFUSED.values(), ids=REFUSED)
def test_what_no_reader_would_take_is_not_packed(
    source: Path, code: str, change: Callable[[Path], object]
) -> None:
    (source.parent / "id_rsa").write_text("secret")
    change(source)
    assert code_of(source) == code


PARTS = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=5
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(
    files=st.dictionaries(
        st.lists(PARTS, min_size=1, max_size=3).map("/".join), st.binary(max_size=50), max_size=5
    )
)
def test_what_is_packed_is_always_taken(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        top = Path(directory) / "demo"
        top.mkdir()
        (top / "SKILL.md").write_bytes(SKILL_MD)
        for path, body in files.items():
            try:
                (top / path).parent.mkdir(parents=True, exist_ok=True)
                (top / path).write_bytes(body)
            except OSError:  # `..`, a file where a directory is to be
                continue
        try:
            data = pack(top)
        except SkillPackageError as error:
            assert error.code == "unsafe_skill_package"
            return
        taken = {file.path: file.data for file in Archive.read(data).files()}
        assert taken["SKILL.md"] == (top / "SKILL.md").read_bytes()
        assert taken == {path: (top / path).read_bytes() for path in taken}
        package = PackageStore(Path(directory) / "cache").store_archive(ref_of(data), data)
        assert tree_digest(package.root_dir) == tree_digest(top)
