"""Skills of this machine: one that is broken hides no other, and only what changed is read again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import unprivileged

from ksadk.settings import Settings
from ksadk.skills import index_cache, loader
from ksadk.skills.local import MAX_DEPTH, LocalSkills, Source, find_local_skills, sources


def write(directory: Path, description: str = "Does it.", **fields: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    fields = {"name": directory.name, "description": description, **fields}
    lines = "".join(f"{key}: {value}\n" for key, value in fields.items())
    (directory / "SKILL.md").write_text(f"---\n{lines}---\nDo it.\n", "utf-8")
    return directory


def found(root: Path, cache: Path | None = None) -> LocalSkills:
    return find_local_skills((Source(root, "user"),), cache=cache)


def test_one_bad_skill_hides_no_other_and_nothing_is_silent(tmp_path: Path) -> None:
    write(tmp_path / "good", metadata="{version: 1.10, tags: 'a, b'}")
    write(tmp_path / "colon", "Use when: x")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/SKILL.md").write_text("---\nname: bad\n---\n")
    (tmp_path / "README.md").write_text("no skill")
    result = found(tmp_path)
    assert [(skill.name, skill.description) for skill in result.skills] == [
        ("colon", "Use when: x"), ("good", "Does it."),
    ]  # fmt: skip
    assert (result.skills[1].version, result.skills[1].tags, result.repaired) == ("1.10", ("a", "b"), 1)
    assert list(map(str, result.refused)) == [f"{tmp_path}/bad: SKILL.md:2:1: there is no description"]


def test_skills_may_be_in_groups_but_not_in_each_other_nor_endlessly_deep(tmp_path: Path) -> None:
    write(tmp_path / "group/one")
    write(tmp_path / "group/one/inner")
    write(tmp_path.joinpath(*"abcd"[:MAX_DEPTH]))
    write(tmp_path.joinpath(*"wxyz", "deep"))
    write(tmp_path / "node_modules/x")
    assert [skill.name for skill in found(tmp_path).skills] == ["d", "one"]


def test_a_source_may_itself_be_a_skill(tmp_path: Path) -> None:
    assert [skill.name for skill in found(write(tmp_path / "one")).skills] == ["one"]


def test_what_cannot_be_read_without_harm_is_refused_and_said(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside/linked")
    root = tmp_path / "skills"
    for name in ("fifo", "file-link", "lower", "huge", "loop"):
        (root / name).mkdir(parents=True)
    os.mkfifo(root / "fifo/SKILL.md")
    (root / "file-link/SKILL.md").symlink_to(outside / "SKILL.md")
    (root / "lower/skill.md").write_text("---\ndescription: d\n---\n")
    with (root / "huge/SKILL.md").open("wb") as file:
        file.truncate(1 << 40)
    (root / "loop/again").symlink_to(root)
    (root / "linked").symlink_to(outside)
    write(root / "good")
    result = found(root)
    assert [skill.name for skill in result.skills] == ["good"]
    assert {refused.directory.name: refused.why for refused in result.refused} == {
        "fifo": "SKILL.md is no file",
        "file-link": "SKILL.md is a link",
        "lower": "skill.md has to be named SKILL.md",
        "huge": "SKILL.md:1:1: larger than 1 MiB",
        "linked": "it is a link, and skills behind links are not taken",
    }


FIND = """
import sys
from pathlib import Path
from ksadk.skills.local import Source, find_local_skills
found = find_local_skills([Source(Path(sys.argv[1]), "user")], cache=None)
print(*[skill.name for skill in found.skills], *found.refused, *found.warnings, sep="\\n")
"""


def test_a_directory_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    write(tmp_path / "good")
    (tmp_path / "closed").mkdir(mode=0)
    (tmp_path / "unlisted").mkdir(mode=0o100)
    command = [*unprivileged(), sys.executable, "-c", FIND, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [
        "good",
        f"{tmp_path}/closed: SKILL.md cannot be looked at: Permission denied",
        f"{tmp_path}/unlisted cannot be read: Permission denied",
    ]


def test_there_is_an_end_to_the_directories_that_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ksadk.skills.local.MAX_DIRECTORIES", 3)
    for name in "abcd":
        write(tmp_path / name)
    result = found(tmp_path)
    assert [skill.name for skill in result.skills] == ["a", "b"]
    assert result.warnings == (f"{tmp_path}: only the first 3 directories were looked at",)


def test_the_first_of_a_name_counts_and_the_others_are_said_to_be_hidden(tmp_path: Path) -> None:
    first, second = write(tmp_path / "project/demo", "first"), write(tmp_path / "user/demo", "second")
    third = write(tmp_path / "user/x/Demo", "third")
    places = (Source(tmp_path / "project", "project"), Source(tmp_path / "user", "user"))
    result = find_local_skills(places, cache=None)
    assert [(skill.description, skill.source) for skill in result.skills] == [("first", "project")]
    assert result.warnings == tuple(
        f"{hidden} is hidden: {first} is the skill demo" for hidden in (second, third)
    )


class Surroundings:
    """A home, a project and a configured directory, each with a skill."""

    def __init__(self, tmp_path: Path) -> None:
        self.project = tmp_path / "project"
        self.configured = tmp_path / "configured"
        write(self.configured / "c")
        write(self.project / ".agents/skills/p")
        write(self.project / "skills/q")
        write(Path("~/.agents/skills/u").expanduser())

    def names(self, *, trusted: bool, **settings: Any) -> tuple[list[str], tuple[str, ...]]:
        places = sources(Settings(**settings), project=self.project, project_trusted=trusted)
        result = find_local_skills(places, cache=None)
        return [skill.name for skill in result.skills], result.warnings


def test_sources_are_what_is_configured_then_the_project_then_the_user(tmp_path: Path) -> None:
    around = Surroundings(tmp_path)
    assert around.names(trusted=True, local_skills_dir=around.configured) == (["c", "p", "q", "u"], ())


def test_the_skills_of_a_project_wait_for_trust_and_that_is_said(tmp_path: Path) -> None:
    around = Surroundings(tmp_path)
    names, warnings = around.names(trusted=False)
    assert names == ["u"]
    assert [warning.split(" was left out: the project is not trusted")[0] for warning in warnings] == [
        str(around.project / ".agents/skills"), str(around.project / "skills"),
    ]  # fmt: skip


def test_a_projects_skills_that_were_asked_for_need_no_trust(tmp_path: Path) -> None:
    around = Surroundings(tmp_path)
    names, warnings = around.names(trusted=False, local_skills_dir=around.project / "skills")
    assert names == ["q", "u"]
    assert len(warnings) == 1


def test_a_project_that_is_trusted_takes_no_skills_from_elsewhere(tmp_path: Path) -> None:
    around = Surroundings(tmp_path)
    project = tmp_path / "other"
    project.mkdir()
    (project / "skills").symlink_to(around.configured)
    places = sources(Settings(), project=project, project_trusted=True)
    result = find_local_skills(places, cache=None)
    assert [skill.name for skill in result.skills] == ["u"]
    assert result.warnings == (f"{project}/skills was left out: a link leads out of the project",)


@pytest.mark.parametrize("trusted", [False, True])
def test_no_project_takes_the_users_own_skills_away(tmp_path: Path, trusted: bool) -> None:
    write(Path("~/.agents/skills/u").expanduser())
    (tmp_path / "link").mkdir()
    (tmp_path / "link/skills").symlink_to(Path("~/.agents/skills").expanduser())
    for project in (Path("~").expanduser(), tmp_path / "link"):
        places = sources(Settings(), project=project, project_trusted=trusted)
        result = find_local_skills(places, cache=None)
        assert ([(skill.name, skill.source) for skill in result.skills], result.warnings) == (
            [("u", "user")],
            (),
        )


def test_where_a_link_leads_out_of_a_project_nothing_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: seen.append(str(path)) or scandir(path))
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project/skills").symlink_to(tmp_path / "elsewhere")
    places = sources(Settings(), project=tmp_path / "project", project_trusted=False)
    assert len(find_local_skills(places, cache=None).warnings) == 1
    assert seen == []


def test_a_configured_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    places = sources(Settings(local_skills_dir=tmp_path / "no"), project=tmp_path, project_trusted=True)
    assert find_local_skills(places, cache=None).warnings == (
        f"{tmp_path}/no cannot be read: No such file or directory",
    )


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the skills whose files were read."""
    names: list[str] = []
    really = loader.read_skill_md

    def read_skill_md(directory: str) -> bytes:
        names.append(Path(directory).name)
        return really(directory)

    monkeypatch.setattr(loader, "read_skill_md", read_skill_md)
    return names


@pytest.fixture
def indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: list[str]) -> tuple[Path, Path]:
    """Three skills, one of them broken, that were listed long after they were written; and the cache."""
    root, cache = tmp_path / "skills", tmp_path / "cache"
    write(root / "one", metadata="{tags: 'a, b'}")
    write(root / "two", "Use when: x")
    (root / "three").mkdir()
    (root / "three/SKILL.md").write_text("---\nname: three\n---\n")
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 3 * index_cache.RACY_NS)
    found(root, cache)
    read.clear()
    return root, cache


def test_what_did_not_change_is_not_read_again_and_told_the_same(
    indexed: tuple[Path, Path], read: list[str]
) -> None:
    root, cache = indexed
    again = found(root, cache)
    assert read == []
    assert again == found(root)
    assert (len(again.skills), len(again.refused), again.repaired) == (2, 1, 1)


CHANGES: dict[str, Callable[[Path], Any]] = {
    "its content": lambda root: write(root / "one", "Another."),
    "as many bytes, and its times put back": lambda root: same_size_and_times(root / "one/SKILL.md"),
    "another file in its place": lambda root: (
        (root / "one/SKILL.md").rename(root / "x") and write(root / "one")
    ),
}


def same_size_and_times(path: Path) -> None:
    status = path.stat()
    path.write_text(path.read_text().replace("Does it.", "Did all."))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", CHANGES)
def test_a_skill_that_changed_is_read_again(indexed: tuple[Path, Path], read: list[str], change: str) -> None:
    root, cache = indexed
    CHANGES[change](root)
    result = found(root, cache)
    assert read == ["one"]
    assert result == found(root)


def test_skills_that_come_and_go_are_noticed(indexed: tuple[Path, Path], read: list[str]) -> None:
    root, cache = indexed
    write(root / "four")
    (root / "one/SKILL.md").unlink()
    assert [skill.name for skill in found(root, cache).skills] == ["four", "two"]
    assert read == ["four"]


def test_a_skill_that_was_written_just_now_is_read_again_since_it_may_change_in_the_same_moment(
    tmp_path: Path, read: list[str]
) -> None:
    write(tmp_path / "skills/one")
    for _ in range(2):
        found(tmp_path / "skills", tmp_path / "cache")
    assert read == ["one", "one"]


HOSTILE: dict[str, Callable[[Path], Any]] = {
    "no JSON": lambda file: file.write_text("{"),
    "endless nesting": lambda file: file.write_text("[" * 100_000),
    "not even bytes of text": lambda file: file.write_bytes(b"\xff\x00"),
    "a list": lambda file: file.write_text("[]"),
    "other skills": lambda file: changed(file, lambda document: document.update(skills=[])),
    "another version": lambda file: changed(file, lambda document: document.update(version=0)),
    "another source": lambda file: changed(file, lambda document: document.update(source="/")),
    "no time": lambda file: changed(file, lambda document: document.update(written="1")),
    "records that are none": lambda file: changed(file, each_record(lambda record: record.clear())),
    "names that are none": lambda file: changed(file, each_record(lambda record: record.__setitem__(0, 1))),
    "tags that are none": lambda file: changed(file, each_record(lambda record: record.__setitem__(4, [1]))),
    "findings that are none": lambda file: changed(
        file, each_record(lambda record: record.__setitem__(6, [[1]]))
    ),
    "what others may write": lambda file: file.chmod(0o666),
    "a link": lambda file: (
        file.rename(file.with_name("x")).samefile(file.with_name("x")) and file.symlink_to("x")
    ),
    "a FIFO": lambda file: (file.unlink(), os.mkfifo(file)),
    "a directory": lambda file: (file.unlink(), file.mkdir()),
}


def changed(file: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def each_record(change: Callable[[list[Any]], Any]) -> Callable[[dict[str, Any]], None]:
    def every(document: dict[str, Any]) -> None:
        for _, record in document["skills"].values():
            change(record)

    return every


@pytest.mark.parametrize("harm", HOSTILE)
def test_an_index_that_is_not_what_was_written_is_not_believed(
    indexed: tuple[Path, Path], read: list[str], harm: str
) -> None:
    root, cache = indexed
    (file,) = cache.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    HOSTILE[harm](file)
    result = found(root, cache)
    assert sorted(read) == ["one", "three", "two"]
    assert result == found(root)


def test_permissions_are_in_no_index(indexed: tuple[Path, Path]) -> None:
    root, cache = indexed
    write(root / "one", **{"allowed-tools": "SecretTool"})
    found(root, cache)
    (file,) = cache.iterdir()
    assert "SecretTool" not in file.read_text()


def test_without_a_place_for_the_index_everything_is_still_found(tmp_path: Path) -> None:
    write(tmp_path / "skills/one")
    (tmp_path / "file").touch()
    assert len(found(tmp_path / "skills", tmp_path / "file/cache").skills) == 1
