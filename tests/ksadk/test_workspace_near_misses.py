"""A snippet that is not there is never put somewhere else, and says why, in bounded time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksadk.workspace import editing, folding, reading
from ksadk.workspace.differences import near_miss
from ksadk.workspace.editing import Edit
from ksadk.workspace.paths import WorkspaceError
from ksadk.workspace.read_state import ReadStates

ONLY_BLANKS = "differs only in whitespace: "


@pytest.mark.parametrize(
    ("text", "snippet", "kinds", "line", "column", "message"),
    [
        pytest.param(
            "def f():\n\treturn 1\n", "def f():\n    return 1\n", ["whitespace"], 2, 1,
            ONLY_BLANKS + "the file has a tab, you sent 4 spaces", id="tab",
        ),
        pytest.param(
            "x\r\n  foo(1)\r\n", "    foo(1)", ["whitespace"], 2, 1,
            ONLY_BLANKS + "the file has 2 spaces, you sent 4 spaces", id="spaces",
        ),
        pytest.param(
            "a b  \nc\n", "a b\nc", ["whitespace"], 1, 4,
            ONLY_BLANKS + "the file has 2 spaces at the end of the line, you sent none", id="trailing",
        ),
        pytest.param(
            "x\n\n\ny\n", "x\n\ny", ["whitespace"], 3, 1,
            ONLY_BLANKS + "the file has a line break, you sent none", id="blank lines",
        ),
        pytest.param(
            "foo\xa0bar", "foo bar", ["whitespace"], 1, 4,
            ONLY_BLANKS + "the file has a no-break space (U+00A0), you sent a space", id="no-break space",
        ),
        pytest.param(
            "foo\u200bbar", "foobar", ["whitespace"], 1, 4,
            ONLY_BLANKS + "the file has a zero width space (U+200B), you sent none", id="zero width",
        ),
        pytest.param(
            "one\nHello World\n", "hello world", ["case"], 2, 1,
            "differs only in letter case: the file has 'H', you sent 'h'", id="case",
        ),
        pytest.param(
            "un café.", "un cafe\u0301.", ["unicode"], 1, 7,
            "differs only in Unicode characters that look alike: the file has 'é' (U+00E9),"
            " you sent 'e\u0301' (U+0065 U+0301)", id="normal form",
        ),
        pytest.param(
            "a — b", "a - b", ["unicode"], 1, 3,
            "differs only in Unicode characters that look alike: the file has '—' (U+2014), you sent '-'",
            id="dash",
        ),
        pytest.param(
            "if x:\n\tFoo()\n", "if x:\n  foo()", ["whitespace", "case"], 2, 1,
            "differs only in whitespace and letter case: the file has a tab, you sent 2 spaces", id="two",
        ),
        pytest.param(
            "zero\none\ntwo\n", "2 | one\n3 | two\n", ["line_numbers"], 2, 1,
            "old_text begins its lines with numbers ('2 | '), which are not part of the file", id="numbers",
        ),
        pytest.param(
            'x = "a"\ny\n', 'x = \\"a\\"', ["escapes"], 1, 1,
            'old_text is escaped: it has \\", two characters, where the file has one', id="escaped quote",
        ),
        pytest.param(
            "a\nb\n", "a\\nb", ["escapes"], 1, 1,
            "old_text is escaped: it has \\n, two characters, where the file has one", id="escaped break",
        ),
        pytest.param(
            's = "a\\nb"\n', '"a\nb"', ["escapes"], 1, 5,
            "the file has a backslash and an n where old_text has a line break", id="escape in the file",
        ),
        pytest.param(
            "".join(f"line number {n}\n" for n in range(9)), "line nunber 4", ["text"], 5, 8,
            "the file has 'number 4', you sent 'nunber 4'", id="a letter",
        ),
        pytest.param(
            "a = 1\nb = 2\n", "a = 1\nb = 2\nc = 3\n", ["text"], 3, 1,
            "the file has the end of the file, you sent 'c = 3'", id="more than the file",
        ),
        pytest.param(
            "def f():\n    x = 1\n    y = 2\n", "def f():\n    x = 1\n    z = 2\n", ["text"], 3, 5,
            "the file has 'y = 2', you sent 'z = 2'", id="a later line",
        ),
    ],
)  # fmt: skip
def test_a_near_miss_says_where_and_in_what_it_differs(
    text: str, snippet: str, kinds: list[str], line: int, column: int, message: str
) -> None:
    difference = near_miss(text, snippet).difference
    assert difference == {"kinds": kinds, "line": line, "column": column, "message": message}


def test_what_is_like_nothing_in_the_file_has_no_difference() -> None:
    assert near_miss("abc\n", "zzzzz") == ([], None)
    assert near_miss("", "zzzzz") == ([], None)


def test_candidates_are_shown_as_the_file_has_them_and_long_lines_in_part() -> None:
    [first, *_] = near_miss("x\r\nsay “hello” now\r\ny\r\n", 'say "hello" then').candidates
    assert (first["line"], first["text"], first["snippet"]) == (
        2,
        "say “hello” now",
        "x\nsay “hello” now\ny",
    )
    far = "word " * 5_000 + "needle = thread" + " word" * 5_000
    [first, *_] = near_miss(far, "needle = threat").candidates
    assert (first["line"], "needle = thread" in first["text"], len(first["text"]) < 600) == (1, True, True)


def test_of_lines_that_are_the_same_the_one_with_the_same_lines_after_it_comes_first() -> None:
    text = "def f():\n    pass\n\n\ndef f():\n    return 1\n"
    miss = near_miss(text, "def f():\n    return 1\n    # end")
    assert [place["line"] for place in miss.candidates][:1] == [5]


def test_nothing_is_ever_written_where_only_something_like_it_stands(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    states = ReadStates(tmp_path / "reads")
    (root / "f").write_bytes(b"def f():\r\n\treturn 1\r\n")
    reading.read(root, states, "f")
    for old in ("def f():\n    return 1", "DEF f():", "1 | def f():", "def f():\\n", "def g():"):
        for edit in (Edit(old, "X"), Edit(old, "X", replace_all=True)):
            with pytest.raises(WorkspaceError) as caught:
                editing.edit(root, states, "f", edit)
            assert caught.value.code == "snippet_not_found"
            assert caught.value.details["difference"]["line"] in (1, 2)
    assert (root / "f").read_bytes() == b"def f():\r\n\treturn 1\r\n"


MIB = 1 << 20
HOSTILE = {
    "the same line": ("def value_of(x): return x + 1\n" * 69_000, "def value_off(y): return y - 1\nword"),
    "one line of words": ("word " * 400_000, "wurd nothing"),
    "one line of a letter": ("x" * 2 * MIB, "xxxxy" * 10),
    "empty lines": ("\n" * 2 * MIB, "a b c"),
    "short lines": ("a\n" * MIB, "a b"),
    "blanks": (" " * 2 * MIB, "a b"),
    "a long snippet": ("abc def ghi\n" * 170_000, "abc def ghj\n" * 87_000),
    "a long snippet of a letter": ("a" * 2 * MIB, "a" * MIB + "b"),
    "a long snippet with other blanks": ("abc\tdef ghi\n" * 170_000, "abc def ghi\n" * 87_000),
    "marks on a letter": ("a" + "\u0301\u0323" * (MIB // 2), "zzz qqq"),
    "curly quotes": ("“’" * (MIB // 3), "\"' b"),
    "full width": ("ＡＢＣ" * (MIB // 5), "abd"),
    "escapes": ("\\n" * MIB, "\\n\\t" * 200_000 + "x"),
    "line numbers": ("a\n" * MIB, "1 | b\n" * 100_000),
    "carriage returns": ("\r" * MIB + "\r\n" * (MIB // 2), "\r\n\r" * 1000 + "x"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_two_megabytes_of_anything_are_explained_soon(name: str) -> None:
    text, snippet = HOSTILE[name]
    taken = []
    for _ in range(2):  # the better of two: the machine may be busy
        started = time.process_time()
        miss = near_miss(text, snippet)
        taken.append(time.process_time() - started)
    assert len(miss.candidates) <= 5
    assert min(taken) < 1


@pytest.mark.parametrize("name", ["the same line", "a long snippet", "escapes", "curly quotes"])
def test_the_time_grows_as_the_text_does(name: str) -> None:
    text, snippet = HOSTILE[name]

    def seconds(parts: int) -> float:
        taken = []
        for _ in range(3):
            started = time.process_time()
            near_miss(text[: len(text) // parts], snippet[: len(snippet) // parts])
            taken.append(time.process_time() - started)
        return min(taken)

    assert seconds(1) < 8 * seconds(4) + 0.05  # of four times as much; the square would be sixteen times


PARTS = st.lists(
    st.sampled_from(
        ["a", "B", " ", "\t", "\n", "\r\n", "\r", "\\n", '"', "“", "é", "e\u0301", "—", "1 | ", "Ａ"]
    ),
    max_size=20,
).map("".join)


@given(text=PARTS, snippet=PARTS)
def test_any_near_miss_points_into_the_text(text: str, snippet: str) -> None:
    if not snippet.strip():
        return
    miss = near_miss(text, snippet)
    lines = text.replace("\r\n", "\n").split("\n")
    for place in miss.candidates:
        assert 1 <= place["line"] <= len(lines)
        assert 0 < place["score"] <= 1
    if miss.difference is not None:
        line, column = miss.difference["line"], miss.difference["column"]
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1


@given(text=PARTS, other=PARTS)
def test_folding_parts_is_folding_the_whole_where_no_mark_is_cut_off(text: str, other: str) -> None:
    if other.startswith("\u0301"):
        return
    assert folding.fold(text + other) == folding.fold(text) + folding.fold(other)
