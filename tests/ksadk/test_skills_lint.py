"""Skills are checked line by line; what is repaired is sure, and nothing else of a file changes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ksadk.errors import KsadkError
from ksadk.skills import lint as linting
from ksadk.skills.errors import SkillError
from ksadk.skills.lint import Linted, lint
from ksadk.skills.loader import load_local_skill
from ksadk.skills.publishing import Contract, contract_of, flaws

BROKEN = (
    b"\xef\xbb\xbf---\r\nname: demo # the name\r\ndescription: Use when: x\r\nallowed-tools: Read\r\n---\r\n"
    b"\r\nDo  it. \r\nmore\r\n"
)
MENDED = (
    b'---\r\nname: demo # the name\r\ndescription: "Use when: x"\r\nallowed-tools: Read\r\n---\r\n'
    b"\r\nDo  it. \r\nmore\r\n"
)


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    directory = tmp_path / "demo"
    directory.mkdir()
    (directory / "SKILL.md").write_bytes(b"---\nname: demo\ndescription: Does it.\n---\n\nDo it.\n")
    return directory


def only(path: Path, *, fix: bool = False, publish: bool = False) -> Linted:
    (linted,) = lint(path, fix=fix, publish=publish)
    return linted


def told(linted: Linted) -> list[str]:
    return [f"{found.line}:{found.column} {found.severity} {found.code}" for found in linted.findings]


@pytest.mark.parametrize("path", ["demo", "demo/SKILL.md", "."])
def test_a_skill_is_named_by_its_directory_its_file_or_a_directory_of_skills(
    skill: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(skill.parent)
    linted = only(Path(path))
    assert linted.path.samefile(skill / "SKILL.md")
    assert (told(linted), linted.errors) == ([], 0)


def test_a_repair_changes_no_other_byte_and_keeps_the_mode(skill: Path) -> None:
    path = skill / "SKILL.md"
    path.write_bytes(BROKEN)
    path.chmod(0o640)
    assert told(only(skill)) == [
        "1:1 warning byte_order_mark", "2:12 warning comment", "3:14 warning quotes_missing",
    ]  # fmt: skip
    assert path.read_bytes() == BROKEN
    linted = only(skill, fix=True)
    assert (linted.fixed, told(linted)) == (2, ["2:12 warning comment"])
    assert path.read_bytes() == MENDED
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(skill.iterdir()) == [path]


def test_what_needs_no_repair_is_not_written(skill: Path) -> None:
    before = (skill / "SKILL.md").stat()
    assert only(skill, fix=True).fixed == 0
    assert (skill / "SKILL.md").stat().st_ino == before.st_ino


def test_permissions_are_never_guessed_at(skill: Path) -> None:
    path = skill / "SKILL.md"
    text = b"---\nname: demo\ndescription: a: b\nallowed-tools: Bash(git: *)\n---\nDo it.\n"
    path.write_bytes(text)
    linted = only(skill, fix=True)
    assert path.read_bytes() == text.replace(b"a: b", b'"a: b"')
    assert told(linted) == ["4:16 error allowed_tools_unreadable"]
    assert not load_local_skill(skill).allowed_tools.grants  # type: ignore[union-attr]


def test_a_file_that_changes_meanwhile_is_let_be(skill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = skill / "SKILL.md"
    path.write_bytes(BROKEN)
    really = linting.apply

    def apply(text: str, edits: list[linting.Edit]) -> str:
        path.write_bytes(BROKEN + b"of another")
        return really(text, edits)

    monkeypatch.setattr(linting, "apply", apply)
    with pytest.raises(KsadkError, match="changed meanwhile"):
        lint(skill, fix=True)
    assert path.read_bytes() == BROKEN + b"of another"
    assert list(skill.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root repairs the files of others")
def test_a_repair_leaves_a_file_to_its_owner(skill: Path) -> None:
    (skill / "SKILL.md").write_bytes(BROKEN)
    os.chown(skill / "SKILL.md", 12345, 23456)
    assert lint(skill, fix=True)[0].fixed
    status = (skill / "SKILL.md").stat()
    assert (status.st_uid, status.st_gid) == (12345, 23456)


def test_of_very_many_files_that_are_not_there_some_are_told_at_once(skill: Path) -> None:
    text = (skill / "SKILL.md").read_text() + "".join(f"[](x{n})" for n in range(80_000))
    (skill / "SKILL.md").write_text(text)
    began = time.process_time()
    codes = [found.code for found in lint(skill)[0].findings]
    assert (codes.count("missing_file"), codes.count("more")) == (100, 1)
    assert time.process_time() - began < 5


def test_a_file_with_several_names_is_let_be(skill: Path) -> None:
    (skill / "SKILL.md").write_bytes(BROKEN)
    (skill / "other").hardlink_to(skill / "SKILL.md")
    with pytest.raises(KsadkError, match="several names"):
        lint(skill, fix=True)


def test_nothing_behind_a_link_is_repaired(skill: Path) -> None:
    (skill / "SKILL.md").write_bytes(BROKEN)
    (skill.parent / "skills").mkdir()
    (skill.parent / "skills/demo").symlink_to(skill)
    assert told(only(skill.parent / "skills", fix=True)) == ["1:1 error unreadable"]
    assert (skill / "SKILL.md").read_bytes() == BROKEN


def test_every_skill_is_looked_at_also_those_that_cannot_be_read(skill: Path) -> None:
    for name in ("fifo", "lower", "no-utf8"):
        (skill.parent / name).mkdir()
    os.mkfifo(skill.parent / "fifo/SKILL.md")
    (skill.parent / "lower/Skill.md").touch()
    (skill.parent / "no-utf8/SKILL.md").write_bytes(b"---\nname: \xff")
    linted = {found.path.parent.name: told(found) for found in lint(skill.parent)}
    assert linted == {
        "demo": [], "fifo": ["1:1 error unreadable"], "lower": ["1:1 error unreadable"],
        "no-utf8": ["2:7 error not_utf8"],
    }  # fmt: skip


@pytest.mark.parametrize("path", [".", "absent", "absent/SKILL.md"])
def test_where_there_is_no_skill_that_is_an_error(path: str) -> None:
    with pytest.raises(SkillError, match=r"SKILL\.md|cannot be read"):
        lint(Path(path))


def test_instructions_are_held_against_what_is_recommended(skill: Path) -> None:
    (skill / "references").mkdir()
    (skill / "references/there.md").touch()
    body = (
        "See [a](references/there.md#part), [b](https://example.com/x.md), [c](#top), [d](/etc/x) and\n"
        '[e](references/gone.md "title"), [f](../other/SKILL.md).\n\n```\n[g](scripts/gone.py)\n```\n'
    )
    (skill / "SKILL.md").write_text(f"---\nname: demo\ndescription: d\n---\n\n{body}" + "x\n" * 500)
    assert told(only(skill)) == [
        "1:1 warning long_instructions", "7:5 warning missing_file", "7:38 warning missing_file",
    ]  # fmt: skip
    (skill / "SKILL.md").write_text("---\nname: demo\ndescription: d\n---\n")
    assert told(only(skill)) == ["1:1 warning no_instructions"]


PUBLIC = """---
name: demo
description: Draws a diagram of a text.
metadata:
  inputs: "text (required): what is drawn"
  limits: 10 s, 1 MiB, no network
---

# Draws

## Outputs

A file `diagram.svg`; on failure `error: ...` and exit status 1.

## Dependencies
None.
## Execution ##
In a sandbox.

### Environment variables

DRAW_FONT

```
## Limits
not a heading
```
"""


def test_the_seven_points_of_a_public_skill_are_read_from_metadata_and_headings(skill: Path) -> None:
    (skill / "SKILL.md").write_text(PUBLIC)
    contract = contract_of(load_local_skill(skill))
    assert contract.stated == {
        "purpose": "demo: Draws a diagram of a text.",
        "inputs": "text (required): what is drawn",
        "outputs": "A file `diagram.svg`; on failure `error: ...` and exit status 1.",
        "dependencies": "None.",
        "execution": contract.execution,
        "environment": "DRAW_FONT\n\n```\n## Limits\nnot a heading\n```",
        "limits": "10 s, 1 MiB, no network",
    }
    assert (contract.execution or "").startswith("In a sandbox.\n\n### Environment variables")
    assert (contract.missing, flaws(contract), told(only(skill, publish=True))) == ((), {}, [])


def test_headings_of_blanks_take_no_time(skill: Path) -> None:
    (skill / "SKILL.md").write_text("---\nname: demo\ndescription: d\n---\n# x" + " #" * 400_000 + "y\n")
    begun = time.process_time()
    assert not flaws(contract_of(load_local_skill(skill))).keys() - set(Contract.__dataclass_fields__)
    assert time.process_time() - begun < 3


def test_headings_may_be_chinese(skill: Path) -> None:
    titles = {"输入": "甲", "输出": "乙", "依赖": "无", "执行": "沙箱", "环境变量": "无", "限制": "10 秒"}
    body = "".join(f"## {title}\n{text}\n" for title, text in titles.items())
    (skill / "SKILL.md").write_text(f"---\nname: demo\ndescription: d\n---\n{body}", "utf-8")
    assert flaws(contract_of(load_local_skill(skill))) == {}


def test_to_publish_a_skill_it_has_to_state_every_point(skill: Path) -> None:
    points = ("inputs", "outputs", "dependencies", "execution", "environment", "limits")
    assert told(only(skill, publish=True)) == [f"1:1 error contract_{point}" for point in points]
    assert told(only(skill)) == []


@pytest.mark.parametrize(
    ("contract", "flawed"),
    [
        (Contract("p", "i", "o", "d", "anywhere", "none", "l"), "execution"),
        (Contract("p", "i", "o", "d", "local", "API_KEY=abc", "l"), "environment"),
    ],
)
def test_a_point_that_says_the_wrong_thing_is_told(contract: Contract, flawed: str) -> None:
    assert list(flaws(contract)) == [flawed]
