"""Skills of this machine and of spaces are loaded as verified copies, and nothing is left out silently."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from ksadk.errors import CODES
from ksadk.runtime_context import PlatformInvocationContext, platform_invocation_scope
from ksadk.skills.errors import SkillError, SkillServiceError
from ksadk.skills.lock_file import LOCK_NAME, Locked, SkillLock
from ksadk.skills.runtime.loader import SkillLoadResult, load_skills
from ksadk.skills.serving.app import SkillService
from ksadk.skills.serving.directory import ServedDirectory

TOKEN = "a-token-of-32-characters-or-more"


def write_skill(place: Path, name: str, about: str = "Does it.", body: str = "Do it.", **more: str) -> Path:
    directory = place / name
    (directory / "scripts").mkdir(parents=True)
    lines = "".join(f"  {key}: {value}\n" for key, value in more.items())
    metadata = f"metadata:\n{lines}" if lines else ""
    (directory / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {about}\n{metadata}---\n{body}\n")
    script = directory / "scripts" / "run-workflow.sh"
    script.write_text("echo done\n")
    script.chmod(0o755)
    return directory


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "skills"
    place.mkdir()
    monkeypatch.setenv("KSADK_LOCAL_SKILLS_DIR", str(place))
    monkeypatch.setenv("KSADK_SKILL_CACHE_DIR", str(tmp_path / "cache"))
    return place


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that a Skill Service serves: each directory in it is a space."""
    place = tmp_path / "served"
    place.mkdir()
    monkeypatch.setenv("KSADK_SKILL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("KSADK_SKILL_SERVICE_URL", "http://localhost:9")
    monkeypatch.setenv("KSADK_SKILL_SERVICE_TOKEN", TOKEN)
    return place


def service(
    place: Path, change: Callable[[str, dict[str, Any]], None] = lambda _name, _data: None
) -> httpx.BaseTransport:
    """The real service, without a socket; `change` may change the Data of an answer."""
    client = TestClient(SkillService(ServedDirectory(place), token=TOKEN).app)

    def answer(request: httpx.Request) -> httpx.Response:
        response = client.get(str(request.url), headers=dict(request.headers))
        if request.url.path == "/package":
            return httpx.Response(response.status_code, content=response.content)
        body = response.json()
        change(request.url.path, body.get("Data") or {})
        return httpx.Response(response.status_code, json=body)

    return httpx.MockTransport(answer)


def names(result: SkillLoadResult) -> list[str]:
    return [skill.name for skill in result.skills]


def refused(**asked: Any) -> SkillError:
    with pytest.raises(SkillError) as caught:
        load_skills(**asked)
    assert caught.value.code in CODES
    return caught.value


def test_with_nothing_configured_there_is_nothing() -> None:
    assert load_skills() == SkillLoadResult()


def test_a_local_skill_is_loaded_as_a_copy_that_later_changes_do_not_reach(local: Path) -> None:
    directory = write_skill(local, "a", version='"1.10"')
    [skill] = load_skills().skills
    assert (skill.name, skill.version, skill.space_id, skill.ref) == ("a", "1.10", "local", None)
    assert skill.digest.startswith("sha256:")
    assert skill.entry_point == "scripts/run-workflow.sh"
    (directory / "scripts" / "run-workflow.sh").write_text("echo evil\n")
    assert (skill.root_dir / "scripts" / "run-workflow.sh").read_text() == "echo done\n"
    [changed] = load_skills().skills
    assert changed.digest != skill.digest
    assert changed.root_dir != skill.root_dir


def test_what_is_kept_is_a_hit(local: Path) -> None:
    write_skill(local, "a")
    assert [load_skills(skill_names="a").skills[0].cache_hit for _ in range(2)] == [False, True]


def test_a_skill_that_cannot_be_read_hides_no_other_and_is_told(local: Path) -> None:
    write_skill(local, "good")
    bad = write_skill(local, "bad")
    (bad / "SKILL.md").write_text("---\nname: bad\n---\n")
    result = load_skills()
    assert names(result) == ["good"]
    assert any("bad" in warning and "description" in warning for warning in result.warnings)


def test_of_this_machine_then_each_space_then_the_public_ones_the_first_of_a_name_counts(
    local: Path, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(local, "one", "Local.")
    for space, *found in (("first", "ONE", "two"), ("second", "two", "three"), ("public", "three", "four")):
        for name in found:
            write_skill(served / space, name.lower(), f"Of {space}.")
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "first,second")
    monkeypatch.setenv("KSADK_PUBLIC_SKILL_SPACE_IDS", "public")
    result = load_skills(service_transport=service(served))
    assert [(skill.name, skill.space_id) for skill in result.skills] == [
        ("one", "local"), ("two", "first"), ("three", "second"), ("four", "public"),
    ]  # fmt: skip
    assert sum("hidden" in warning for warning in result.warnings) == 3
    assert result.skills[0].description == "Local."


def test_a_remote_skill_is_verified_and_kept(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_skill(served / "s", "a")
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "s")
    [skill] = load_skills(service_transport=service(served)).skills
    assert skill.ref is not None
    assert skill.digest == skill.ref.content_hash
    assert (skill.root_dir / "scripts" / "run-workflow.sh").stat().st_mode & 0o100
    [again] = load_skills(skill_names=["A"], service_transport=service(served)).skills
    assert (again.cache_hit, again.name) == (True, "a")


def test_no_service_is_asked_for_what_this_machine_has(
    local: Path, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(local, "a")
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "s")

    def asked(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    result = load_skills(skill_names="a", service_transport=httpx.MockTransport(asked))
    assert (names(result), result.warnings) == (["a"], ())


def test_a_space_that_fails_keeps_the_others_and_is_told(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(served / "good", "a")
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "lost,good")
    result = load_skills(service_transport=service(served))
    assert names(result) == ["a"]
    assert any("lost" in warning for warning in result.warnings)


def test_a_service_that_cannot_be_asked_keeps_the_local_skills(
    local: Path, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(local, "a")
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "s")
    monkeypatch.setenv("KSADK_SKILL_SERVICE_URL", "https://aicp.api.ksyun.com")
    result = load_skills()
    assert names(result) == ["a"]
    assert any("KSADK_SKILL_SERVICE_ACCESS_KEY" in warning for warning in result.warnings)
    assert refused(skill_names="a", space_ids=["s"]).code == "skill_service_unauthenticated"


def tampered(path: str, data: dict[str, Any]) -> None:
    for item in data.get("Skills", []):
        item["ContentHash"] = "sha256:" + "0" * 64


def without_hash(path: str, data: dict[str, Any]) -> None:
    for item in data.get("Skills", []):
        del item["ContentHash"]


def with_odd_hash(path: str, data: dict[str, Any]) -> None:
    for item in data.get("Skills", []):
        item["ContentHash"] = "md5:1"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (tampered, "content_hash_mismatch"),
        (without_hash, "content_hash_missing"),
        (with_odd_hash, "invalid_content_hash"),
    ],
)
@pytest.mark.parametrize("named", [None, "a"])
def test_a_package_that_is_not_the_listed_one_is_refused_unless_that_is_allowed(
    served: Path, monkeypatch: pytest.MonkeyPatch, change: Any, code: str, named: str | None
) -> None:
    write_skill(served / "s", "a")
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "s")
    error = refused(skill_names=named, service_transport=service(served, change))
    assert error.code == code
    assert list((served.parent / "cache").rglob("SKILL.md")) == []
    monkeypatch.setenv("KSADK_SKILL_ALLOW_HASH_MISMATCH", "1")
    result = load_skills(skill_names=named, service_transport=service(served, change))
    assert names(result) == ["a"]
    assert any(warning.startswith(f"{code}:") for warning in result.warnings)
    assert "unverified-" in str(result.skills[0].root_dir)


def test_a_package_that_breaks_a_rule_is_left_out_and_told_or_refused_where_it_was_named(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(served / "s", "a")
    write_skill(served / "s", "b")
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "s")

    def gone(path: str, data: dict[str, Any]) -> None:
        if "DownloadUrl" in data and data["DownloadUrl"].partition("SkillId=s%2F")[2][:1] == "a":
            data["DownloadUrl"] += "x"

    result = load_skills(service_transport=service(served, gone))
    assert names(result) == ["b"]
    assert any("the skill a was left out" in warning for warning in result.warnings)
    assert isinstance(refused(skill_names="a", service_transport=service(served, gone)), SkillError)


def test_a_listing_cannot_give_a_skill_another_name_than_its_own(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(served / "s", "deploy")
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "s")

    def renamed(path: str, data: dict[str, Any]) -> None:
        for item in data.get("Skills", []):
            item["Name"] = "harmless"

    result = load_skills(service_transport=service(served, renamed))
    assert names(result) == ["harmless"]
    assert any("harmless calls itself 'deploy'" in warning for warning in result.warnings)


@pytest.mark.parametrize("name", ["diagarm", "Diagrams", "x"])
def test_a_name_that_is_not_there_is_refused_with_those_that_are_near(local: Path, name: str) -> None:
    write_skill(local, "diagram")
    write_skill(local, "other")
    error = refused(skill_names=["other", name])
    assert error.code == "skill_not_found"
    assert error.details["available_skills"] == ["diagram", "other"]
    assert "'diagram'" in (error.hint or "") or name == "x"


def test_names_are_taken_whatever_their_case_and_each_once(local: Path) -> None:
    write_skill(local, "diagram")
    write_skill(local, "other")
    assert names(load_skills(skill_names=" DIAGRAM, diagram")) == ["diagram"]
    assert names(load_skills(skill_names=["other", "diagram,OTHER"])) == ["other", "diagram"]


def test_the_selected_names_count_where_none_is_given(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_skill(local, "a")
    write_skill(local, "b")
    monkeypatch.setenv("KSADK_SELECTED_SKILL_NAMES", "b")
    assert names(load_skills()) == ["b"]
    assert names(load_skills(skill_names="a")) == ["a"]


def test_of_too_many_skills_those_that_fit_the_prompt_are_loaded(
    local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        write_skill(local, f"s{number}", "Draws." if number in (2, 5) else "Counts.")
    assert len(load_skills(prompt="draw").skills) == 6
    monkeypatch.setenv("KSADK_SKILL_MANIFEST_LIMIT", "3")
    result = load_skills(prompt="draws")
    assert names(result) == ["s2", "s5"]
    assert "2 of 6 skills" in result.warnings[-1]
    assert names(load_skills()) == ["s0", "s1", "s2"]
    assert names(load_skills(skill_names="s4")) == ["s4"]


def test_a_skill_that_differs_from_the_lock_is_refused_with_the_difference(local: Path) -> None:
    write_skill(local, "a")
    write_skill(local, "b")
    found = {skill.name: Locked(skill.version, skill.digest) for skill in load_skills().skills}
    SkillLock(found).write(Path(LOCK_NAME))
    assert names(load_skills()) == ["a", "b"]
    (local / "a" / "SKILL.md").write_text("---\nname: a\ndescription: Other.\n---\n")
    error = refused(skill_names="a")
    assert (error.code, found["a"].digest in error.message) == ("skill_lock_mismatch", True)
    result = load_skills()
    assert names(result) == ["b"]
    assert any(found["a"].digest in warning for warning in result.warnings)
    assert names(load_skills(locked=False)) == ["a", "b"]


def test_a_lock_file_that_is_broken_lets_nothing_be_loaded(local: Path) -> None:
    write_skill(local, "a")
    Path(LOCK_NAME).write_text("{")
    assert refused(skill_names="a").code == "invalid_lock_file"


def test_each_account_has_its_own_copies(local: Path) -> None:
    write_skill(local, "a")
    roots = {load_skills().skills[0].root_dir}
    for account in ("one", "two"):
        with platform_invocation_scope(PlatformInvocationContext(account_id=account)):
            [skill] = load_skills().skills
            assert not skill.cache_hit
            roots.add(skill.root_dir)
    assert len(roots) == 3


def test_a_projects_own_skills_count_only_where_it_is_trusted(tmp_path: Path) -> None:
    write_skill(Path(".agents/skills").absolute(), "a")
    result = load_skills()
    assert names(result) == []
    assert any("not trusted" in warning for warning in result.warnings)
    assert names(load_skills(project_trusted=True)) == ["a"]


def test_only_the_spaces_that_are_named_count(
    local: Path, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(local, "a")
    write_skill(served / "s", "b")
    write_skill(served / "t", "c")
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "s,t")
    transport = service(served)
    assert names(load_skills(space_ids=["local"])) == ["a"]
    assert names(load_skills(space_ids=["t"], service_transport=transport)) == ["c"]
    assert names(load_skills(space_ids=["t", "local"], service_transport=transport)) == ["a", "c"]
    assert refused(skill_names="a", space_ids=["t"], service_transport=transport).code == "skill_not_found"


def test_no_secret_is_in_what_is_told(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "s")

    def echo(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"Code": 7, "Message": f"no {request.headers['authorization']}"})

    with pytest.raises(SkillServiceError) as caught:
        load_skills(service_transport=httpx.MockTransport(echo))
    assert "answered 7" in str(caught.value)
    assert TOKEN not in repr(caught.value.to_result())
