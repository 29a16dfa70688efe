"""A lock file says which skills a project loads; whatever is not as it says is told with the difference."""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skill_zips import SKILL_MD
from starlette.testclient import TestClient

from ksadk.skills.errors import SkillError
from ksadk.skills.lock_file import LOCK_NAME, Difference, Locked, SkillLock
from ksadk.skills.locking import current_lock
from ksadk.skills.models import ContentHash
from ksadk.skills.packing import pack
from ksadk.skills.serving.app import SkillService
from ksadk.skills.serving.directory import ServedDirectory

A, B = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
LOCK = SkillLock({"beta": Locked("2.0", B), "alpha": Locked("", A), "图": Locked("1", A)})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / LOCK_NAME


def refused(path: Path) -> str:
    with pytest.raises(SkillError) as caught:
        SkillLock.read(path)
    assert caught.value.code == "invalid_lock_file"
    assert str(path) in caught.value.message
    return caught.value.message


def test_what_is_written_is_read(path: Path) -> None:
    assert SkillLock.read(path) is None
    LOCK.write(path)
    assert SkillLock.read(path) == LOCK
    assert [file.name for file in path.parent.glob("*lock*")] == [LOCK_NAME]
    assert path.stat().st_mode & 0o777 == 0o644


def test_the_same_skills_make_the_same_bytes_in_lines_that_can_be_reviewed(path: Path) -> None:
    SkillLock(dict(reversed(LOCK.skills.items()))).write(path)
    first = path.read_bytes()
    LOCK.write(path)
    assert path.read_bytes() == first
    assert (
        first.decode()
        == f"""\
{{
  "version": 1,
  "skills": {{
    "alpha": {{
      "version": "",
      "digest": "{A}"
    }},
    "beta": {{
      "version": "2.0",
      "digest": "{B}"
    }},
    "图": {{
      "version": "1",
      "digest": "{A}"
    }}
  }}
}}
"""
    )


def test_a_skill_that_is_as_it_was_locked_passes() -> None:
    LOCK.check("beta", "2.0", B)
    LOCK.check("alpha", "", A)


@pytest.mark.parametrize(
    ("name", "version", "digest", "words"),
    [
        ("beta", "2.0", A, f"'beta' is in skills.lock with version 2.0 ({B}), and is now version 2.0 ({A})"),
        ("beta", "2.1", B, f"'beta' is in skills.lock with version 2.0 ({B}), and is now version 2.1 ({B})"),
        ("gamma", "1", A, f"'gamma' is not in skills.lock: it is version 1 ({A})"),
        ("alpha", "", B, f"'alpha' is in skills.lock with {A}, and is now {B}"),
    ],
)
def test_a_skill_that_differs_is_refused_with_the_difference(
    name: str, version: str, digest: str, words: str
) -> None:
    with pytest.raises(SkillError) as caught:
        LOCK.check(name, version, digest)
    assert caught.value.code == "skill_lock_mismatch"
    assert caught.value.message == f"the skill {words}"


def test_of_an_endless_version_only_the_beginning_is_told() -> None:
    assert len(str(Difference("a", Locked("1" * 10_000, A), None))) < 300


def test_an_empty_lock_lets_nothing_through() -> None:
    with pytest.raises(SkillError):
        SkillLock({}).check("alpha", "", A)


def test_the_differences_are_told_by_name() -> None:
    found = SkillLock({"alpha": Locked("", B), "beta": Locked("2.0", B), "gamma": Locked("1", A)})
    assert list(LOCK.differences(found)) == [
        Difference("alpha", Locked("", A), Locked("", B)),
        Difference("gamma", None, Locked("1", A)),
        Difference("图", Locked("1", A), None),
    ]
    assert list(LOCK.differences(LOCK)) == []
    assert (
        str(Difference("图", Locked("1", A), None))
        == f"the skill '图' is in skills.lock with version 1 ({A}), and not there"
    )


BROKEN = [
    "", "{", "[]", "null", "1", '"x"', "{}", '{"version": 1}', '{"version": 2, "skills": {}}',
    '{"version": true, "skills": {}}', '{"version": 1, "skills": []}', '{"version": 1, "skills": {"a": 1}}',
    '{"version": 1, "skills": {"a": {"version": "1"}}}',
    f'{{"version": 1, "skills": {{"a": {{"version": 1, "digest": "{A}"}}}}}}',
    '{"version": 1, "skills": {"a": {"version": "1", "digest": "x"}}}',
    '{"version": 1, "skills": {"a": {"version": "1", "digest": null}}}',
    '{"version": 1, "version": 1, "skills": {}}',
    "<<<<<<< HEAD\n{}", "[" * 100_000,
    f'{{"version": 1, "skills": {{"\\ud800": {{"version": "", "digest": "{A}"}}}}}}',
    f'{{"version": 1, "skills": {{"a": {{"version": "\\ud800", "digest": "{A}"}}}}}}',
]  # fmt: skip


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_is_an_error_and_never_an_empty_lock(path: Path, text: str) -> None:
    path.write_text(text)
    refused(path)


@given(data=st.binary(max_size=200))
def test_whatever_the_bytes_are_only_that_error_is_raised(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.lock"
    path.write_bytes(data)
    refused(path)


def test_what_is_no_file_is_an_error_at_once(path: Path) -> None:
    os.mkfifo(path)
    refused(path)
    path.unlink()
    path.mkdir()
    refused(path)
    path.rmdir()
    path.symlink_to("nowhere")
    refused(path)
    path.unlink()
    path.write_bytes(b" " * (1 << 21))
    refused(path)
    path.write_bytes(json.dumps({"version": 1, "skills": {}}).encode("utf-16"))
    refused(path)


def test_a_write_that_fails_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LOCK.write(path)
    before = path.read_bytes()
    with pytest.raises(UnicodeEncodeError):
        SkillLock({"\udc80": Locked("", A)}).write(path)
    with pytest.raises(FileNotFoundError):
        LOCK.write(path.parent / "absent" / LOCK_NAME)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.glob("*lock*")] == [LOCK_NAME]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The skill `demo` in the space `ss`, of a Skill Service."""
    token = "a-token-of-32-characters-or-more"
    monkeypatch.setenv("KSADK_SKILL_SERVICE_URL", "http://localhost:9")
    monkeypatch.setenv("KSADK_SKILL_SERVICE_TOKEN", token)
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "ss")
    monkeypatch.setenv("KSADK_SKILL_CACHE_DIR", str(tmp_path / "cache"))
    demo = tmp_path / "served/ss/demo"
    demo.mkdir(parents=True)
    (demo / "SKILL.md").write_bytes(SKILL_MD)
    return demo


def transport(top: Path) -> httpx.MockTransport:
    """To a real service of a directory, without a socket."""
    client = TestClient(SkillService(ServedDirectory(top), token=os.environ["KSADK_SKILL_SERVICE_TOKEN"]).app)

    def answer(request: httpx.Request) -> httpx.Response:
        response = client.get(str(request.url), headers=dict(request.headers))
        return httpx.Response(response.status_code, content=response.content)

    return httpx.MockTransport(answer)


def test_a_skill_of_a_service_is_locked_by_the_hash_of_its_archive(served: Path, path: Path) -> None:
    content = str(ContentHash.of(pack(served)))
    lock, warnings = current_lock(service_transport=transport(served.parents[1]))
    assert {name: locked.digest for name, locked in lock.skills.items()} == {"demo": content}
    assert warnings == ()
    (served / "SKILL.md").write_bytes(SKILL_MD + b"Twice.\n")
    changed, _ = current_lock(["demo"], service_transport=transport(served.parents[1]))
    [difference] = lock.differences(changed)
    assert (difference.name, difference.locked) == ("demo", lock.skills["demo"])


def test_no_lock_is_made_that_leaves_out_a_skill_that_cannot_be_loaded(
    served: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    local = tmp_path / "local/other"
    local.mkdir(parents=True)
    (local / "SKILL.md").write_text("---\nname: other\ndescription: Does it.\n---\nDo it.\n")
    monkeypatch.setenv("KSADK_LOCAL_SKILLS_DIR", str(local.parent))
    lock, _ = current_lock(service_transport=transport(served.parents[1]))
    assert sorted(lock.skills) == ["demo", "other"]
    (local / "key").symlink_to("/etc/passwd")
    with pytest.raises(SkillError) as caught:
        current_lock(service_transport=transport(served.parents[1]))
    assert caught.value.code == "unsafe_skill_package"
