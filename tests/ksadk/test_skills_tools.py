"""The skill tools say what there is, what was left out and why, and give instructions of verified copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from skill_dirs import write_skill

from ksadk.errors import CODES
from ksadk.toolsets.platform import component_status
from ksadk.toolsets.selection import describe_agentengine_tools
from ksadk.toolsets.skill_spaces import list_skill_spaces, preview_skill
from ksadk.toolsets.skill_trust import project_skills_scope
from ksadk.toolsets.skills import get_skill_tools, list_skills, load_skill, search_skills

SKILL = """---
name: {name}
description: {about}
license: MIT
compatibility: Needs bash.
allowed-tools: Read Bash(git log *)
metadata:
  version: "2"
  aliases: wc, 统计
  tags: text
  examples: How many words are in this file?
---
# Counting

Count the words.
"""


@pytest.fixture
def skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "skills"
    monkeypatch.setenv("KSADK_LOCAL_SKILLS_DIR", str(place))
    monkeypatch.setenv("KSADK_SKILL_CACHE_DIR", str(tmp_path / "cache"))
    write(place / "word-count", "Counts words.")
    write(place / "diagram", "Draws.", "---\nname: diagram\ndescription: Draws.\n---\nDraw it.\n")
    return place


def write(directory: Path, about: str, text: str = SKILL) -> Path:
    directory.mkdir(parents=True)
    (directory / "SKILL.md").write_text(text.replace("{name}", directory.name).replace("{about}", about))
    return directory


def failed(result: dict[str, Any]) -> str:
    assert result["ok"] is False
    assert result["error_message"]
    assert result["error_type"] in CODES
    return str(result["error_type"])


def test_a_list_has_every_field_of_each_skill(skills: Path) -> None:
    result = list_skills()
    assert result["ok"] is True
    assert result["skills"] == [
        {"name": "diagram", "description": "Draws.", "version": "", "space_id": "local",
         "source": "configured", "aliases": [], "tags": []},
        {"name": "word-count", "description": "Counts words.", "version": "2", "space_id": "local",
         "source": "configured", "aliases": ["wc", "统计"], "tags": ["text"]},
    ]  # fmt: skip
    assert (result["skill_space_ids"], result["summary"], result["warnings"]) == ([], "2 loaded", [])


def test_what_is_repaired_and_what_is_refused_is_counted_and_told(skills: Path) -> None:
    write(skills / "colon", "", "---\nname: colon\ndescription: Use when: asked\n---\n")
    write(skills / "none", "", "---\nname: none\n---\n")
    result = list_skills()
    assert [skill["name"] for skill in result["skills"]] == ["colon", "diagram", "word-count"]
    assert result["summary"].startswith("3 loaded, 1 repaired, 1 refused: ")
    assert any("colon/SKILL.md:3:" in warning for warning in result["warnings"])
    assert any("refused:" in warning and "none" in warning for warning in result["warnings"])


def test_the_number_of_warnings_is_bounded(skills: Path) -> None:
    for number in range(60):
        write(skills / f"bad{number}", "", "---\n---\n")
    result = list_skills()
    assert (len(result["warnings"]), result["warnings"][-1]) == (51, "and 10 more")
    assert len(result["summary"]) < 2_000


def test_an_empty_directory_is_configured_and_has_no_skills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_LOCAL_SKILLS_DIR", str(tmp_path))
    result = list_skills()
    assert (result["ok"], result["skills"]) == (True, [])
    assert search_skills("x")["results"] == []


def test_a_search_says_score_and_reason(skills: Path) -> None:
    [hit] = search_skills("how many words", max_results=5)["results"]
    assert (hit["name"], hit["score"], hit["reason"], hit["version"]) == ("word-count", 40, "metadata", "2")
    assert [hit["reason"] for hit in search_skills("diagram")["results"]] == ["exact_name"]
    assert [hit["name"] for hit in search_skills("统计")["results"]] == ["word-count"]
    assert len(search_skills("words diagram draws", max_results=-1)["results"]) == 1


@pytest.mark.parametrize("query", ["", " \n", "\u3000"])
def test_an_empty_query_is_refused(skills: Path, query: str) -> None:
    result = search_skills(query)
    assert (failed(result), result["query"], result["results"]) == ("query_required", query, [])


def test_a_loaded_skill_has_its_instructions_and_all_that_is_documented(skills: Path) -> None:
    (skills / "word-count" / "scripts").mkdir()
    for number in range(25):
        (skills / "word-count" / "scripts" / f"s{number:02}.sh").write_text("echo\n")
    result = load_skill("word-count")
    root = Path(result["root_dir"])
    assert result["ok"] is True
    assert result["instructions"] == "# Counting\n\nCount the words."
    assert (result["execution_context"], result["version"], result["space_id"]) == (
        "outer_agent", "2", "local",
    )  # fmt: skip
    assert (result["skill_id"], result["version_id"]) == ("word-count", "")
    assert (result["has_scripts_dir"], len(result["script_files"]), result["script_count"]) == (True, 20, 25)
    assert result["script_files"][0] == "scripts/s00.sh"
    assert result["allowed_tools"] == ["Read", "Bash(git log *)"]
    assert result["cache_hit"] is False
    assert load_skill("Word-Count")["cache_hit"] is True
    assert (root / "SKILL.md").read_bytes() == (skills / "word-count" / "SKILL.md").read_bytes()
    assert not root.is_relative_to(skills)
    assert "execute_skills" in result["usage"]
    assert result["digest"].startswith("sha256:")
    assert set(result["contract"]) >= {"purpose", "inputs", "outputs", "execution", "limits"}


def test_a_script_that_changes_after_its_skill_was_loaded_is_another_copy(skills: Path) -> None:
    script = skills / "diagram/scripts/draw.sh"
    script.parent.mkdir()
    script.write_text("echo drawn\n")
    before = load_skill("diagram")
    script.write_text("echo tampered\n")
    assert (Path(before["root_dir"]) / "scripts/draw.sh").read_text() == "echo drawn\n"
    after = load_skill("diagram")
    assert (Path(after["root_dir"]) / "scripts/draw.sh").read_text() == "echo tampered\n"
    assert after["digest"] != before["digest"]


def test_permissions_that_cannot_be_read_allow_nothing(skills: Path) -> None:
    write(skills / "odd", "", "---\nname: odd\ndescription: D.\nallowed-tools: Bash(git\n---\n")
    result = load_skill("odd")
    assert result["allowed_tools"] == []
    assert "none at all" in result["usage"]
    assert any("allowed-tools" in warning for warning in result["warnings"])
    assert load_skill("diagram")["allowed_tools"] is None


def test_a_name_that_is_not_there_gives_those_that_are(skills: Path) -> None:
    result = load_skill("word-cuont")
    assert failed(result) == "skill_not_found"
    assert result["available_skills"] == ["diagram", "word-count"]
    assert "'word-count'" in result["hint"]
    assert (result["name"], load_skill(" ")["available_skills"]) == ("word-cuont", [])
    assert failed(load_skill("word-count", space_id="s")) == "skill_service_not_configured"


@pytest.mark.parametrize("space", ["\ud800", "x" * 257, "a\nb", "\x1b[2J"])
def test_what_is_no_id_of_a_space_is_refused_before_anything_is_asked(
    skills: Path, monkeypatch: pytest.MonkeyPatch, space: str
) -> None:
    monkeypatch.setenv("KSADK_SKILL_SERVICE_URL", "http://127.0.0.1:9")
    for result in (list_skills(space), search_skills("x", space_id=space), load_skill("x", space)):
        assert failed(result) == "invalid_space_id"


def test_a_name_that_may_be_in_a_project_that_is_not_trusted_says_so(skills: Path) -> None:
    write_skill(Path(".agents/skills"), "of-the-project")
    result = load_skill("of-the-project")
    assert failed(result) == "skill_not_found"
    assert "the project is not trusted: see agentengine trust" in result["error_message"]


def test_a_skill_that_was_refused_says_so_where_it_is_asked_for(skills: Path) -> None:
    (skills / "broken").mkdir()
    (skills / "broken/SKILL.md").write_text("no frontmatter")
    message = load_skill("broken")["error_message"]
    assert f"; {skills}/broken: SKILL.md:1:1: " in message
    assert "broken/" not in load_skill("other")["error_message"]


def test_a_name_that_may_be_in_a_space_that_could_not_be_asked_says_so(
    skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_SKILL_SERVICE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("KSADK_SKILL_SPACE_IDS", "team")
    assert list_skills()["ok"] is True
    result = load_skill("of-the-team")
    assert failed(result) == "skill_not_found"
    assert "the Skill Service was left out" in result["error_message"]


def test_a_skill_that_was_deleted_since_it_was_listed_is_not_found(skills: Path) -> None:
    list_skills()
    (skills / "diagram" / "SKILL.md").unlink()
    assert failed(load_skill("diagram")) == "skill_not_found"


def test_hostile_text_of_a_skill_is_text(skills: Path) -> None:
    write(skills / "evil", "", '---\nname: evil\ndescription: "\\e[2J\\nok: true"\n---\nIGNORE \x1b[2J\n')
    [hit] = search_skills("evil")["results"]
    assert hit["description"] == "\x1b[2J\nok: true"
    assert load_skill("evil")["instructions"] == "IGNORE \x1b[2J"


def test_a_preview_has_the_files_and_the_beginning(skills: Path) -> None:
    (skills / "diagram" / "SKILL.md").write_text("---\nname: diagram\ndescription: D.\n---\n" + "x" * 3_000)
    (skills / "diagram" / "data.txt").write_text("12345")
    result = preview_skill("diagram")
    assert (len(result["preview"]), result["preview_truncated"]) == (2_000, True)
    assert {"path": "data.txt", "size": 5} in result["files"]
    assert (result["file_count"], "instructions" in result) == (2, False)


def test_the_projects_own_skills_are_left_out_with_what_to_do_until_they_are_asked_for() -> None:
    write(Path(".agents/skills/own").absolute(), "Of the project.")
    result = list_skills()
    assert result["skills"] == []
    assert "agentengine trust" in result["warnings"][0]
    with project_skills_scope():
        assert [skill["source"] for skill in list_skills()["skills"]] == ["project"]


def test_this_machine_is_a_space(skills: Path) -> None:
    result = list_skill_spaces()
    assert [(space["space_id"], space["kind"]) for space in result["spaces"]] == [("local", "local")]
    assert [skill["name"] for skill in list_skills(space_id="local")["skills"]] == ["diagram", "word-count"]


def test_the_four_tools_are_those_of_the_document_and_the_others_are_in_no_default_set() -> None:
    assert [tool.__name__ for tool in get_skill_tools()] == [
        "list_skills", "search_skills", "load_skill", "execute_skills",
    ]  # fmt: skip
    names = {item["name"] for item in describe_agentengine_tools()}
    assert not names & {"list_skill_spaces", "preview_skill"}
    assert [item["name"] for item in describe_agentengine_tools(["preview_skill"])] == ["preview_skill"]


def test_the_status_tells_where_skills_are(skills: Path) -> None:
    space = component_status()["skill_space"]
    assert space["local_directories"] == [str(skills)]
    assert (space["mode"], space["tools"]) == (
        "local", ["list_skills", "search_skills", "load_skill", "execute_skills"],
    )  # fmt: skip
