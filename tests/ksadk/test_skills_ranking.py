"""A query finds the skill that is meant: by name, alias, tag, and words of what it is about, CJK included."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksadk.skills.ranking import SkillIndex


@dataclass(frozen=True)
class Skill:
    name: str
    description: str = ""
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


SKILLS = (
    Skill("baoyu-diagram", "Draws architecture and flow charts as SVG.", ("flowchart",), ("svg", "chart")),
    Skill("diagram", "Draws simple pictures."),
    Skill("pdf-tools", "Fills forms, merges and splits PDF files.", ("acrobat",), ("documents",)),
    Skill("invoices", "Reads invoices.", examples=("What did we pay to ACME in March?",)),
    Skill("liuchengtu", "根据描述绘制流程图和时序图。", ("流程图",), ("绘图",)),
    Skill("baobiao", "读取表格并生成销售报表。", tags=("数据",), examples=("做一个季度报表",)),
    Skill("ocr", "Reads text from scanned images.", tags=("vision", "data science")),
    Skill("slide-maker", "Makes presentations. Reads data from tables."),
)


def found(query: str, limit: int = 10) -> list[tuple[str, int, str]]:
    return [(SKILLS[hit.position].name, hit.score, hit.reason) for hit in INDEX.search(query, limit)]


INDEX = SkillIndex(SKILLS)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("diagram", ("diagram", 100, "exact_name")),
        ("PDF Tools", ("pdf-tools", 100, "exact_name")),
        ("pdf_tools", ("pdf-tools", 100, "exact_name")),
        ("ＰＤＦ－ｔｏｏｌｓ", ("pdf-tools", 100, "exact_name")),
        ("pdf", ("pdf-tools", 90, "name")),
        ("tools pdf", ("pdf-tools", 90, "name")),
        ("use slide-maker for this", ("slide-maker", 90, "name")),
        ("invoice", ("invoices", 90, "name")),
        ("acrobat", ("pdf-tools", 80, "alias")),
        ("流程图", ("liuchengtu", 80, "alias")),
        ("svg", ("baoyu-diagram", 65, "tag")),
        ("Data Science", ("ocr", 65, "tag")),
        ("chart svg", ("baoyu-diagram", 65, "tag")),
        ("数据", ("baobiao", 65, "tag")),
        ("merge forms", ("pdf-tools", 40, "metadata")),
        ("read text from an image", ("ocr", 50, "metadata")),
        ("what did we pay in march", ("invoices", 55, "metadata")),
        ("时序", ("liuchengtu", 30, "metadata")),
        ("帮我生成季度报表", ("baobiao", 55, "metadata")),
        ("present", ("slide-maker", 30, "metadata")),
    ],
)
def test_what_is_meant_comes_first(query: str, first: tuple[str, int, str]) -> None:
    assert found(query)[0] == first


def test_every_kind_of_match_is_ranked_in_one_list() -> None:
    assert found("chart") == [("baoyu-diagram", 80, "alias")]
    assert found("diagram") == [("diagram", 100, "exact_name"), ("baoyu-diagram", 90, "name")]
    assert [name for name, *_ in found("reads")] == ["invoices", "ocr", "slide-maker"]


def test_of_equal_overlaps_the_rarer_word_comes_first() -> None:
    index = SkillIndex([Skill(f"s{n}", "common words") for n in range(5)] + [Skill("z", "rare words")])
    assert index.search("common rare", 1)[0].position == 5


def test_the_order_does_not_depend_on_the_order_of_the_skills() -> None:
    backwards = SkillIndex(SKILLS[::-1])
    for query in ("reads", "data chart", "图", "diagram"):
        names = [SKILLS[::-1][hit.position].name for hit in backwards.search(query, 10)]
        assert names == [name for name, *_ in found(query)]


@pytest.mark.parametrize("query", ["", " ", "?", "the", "e", "zzz", "\ud800", "___", "\x1b[2J", "-", "\n"])
def test_a_query_that_says_nothing_finds_nothing(query: str) -> None:
    assert found(query) == []


def test_the_limit_holds_and_none_comes_twice() -> None:
    names = [name for name, *_ in found("reads data 图 diagram pdf", 3)]
    assert len(names) == len(set(names)) == 3


def test_skills_of_one_name_are_all_found() -> None:
    index = SkillIndex([Skill("a-b", "one"), Skill("A_B", "two")])
    assert {hit.position for hit in index.search("a b", 5)} == {0, 1}


@given(st.text(max_size=50), st.lists(st.text(max_size=20), max_size=5), st.integers(1, 3))
def test_no_text_breaks_it(query: str, texts: list[str], limit: int) -> None:
    words = tuple(texts)
    skills = [Skill(text, query, words, words, words) for text in texts]
    hits = SkillIndex(skills).search(query, limit)
    assert len(hits) == len({hit.position for hit in hits}) <= limit
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize("query", ["a" * 3_000_000, "\ufdfa" * 1_000_000, "图" * 1_000_000, "a b " * 500_000])
def test_a_huge_query_takes_no_time(query: str) -> None:
    begun = time.process_time()
    assert len(INDEX.search(query, 10)) <= len(SKILLS)
    assert time.process_time() - begun < 0.2


def test_a_huge_text_of_a_skill_is_read_in_part() -> None:
    index = SkillIndex([Skill("x", "first " + "y" * 5_000_000 + " last")])
    assert [len(index.search(word, 1)) for word in ("first", "last")] == [1, 0]
