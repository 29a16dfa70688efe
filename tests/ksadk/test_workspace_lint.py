"""The light check: places as readers of the file count them, and an answer to any file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksadk.toolsets import workspace as w
from ksadk.workspace import linting

DEEP = "is nested too deeply to be parsed"


@pytest.fixture
def root() -> Path:
    return w.workspace_root()


@pytest.mark.parametrize(
    ("name", "data", "first"),
    [
        ("a.py", b"\xef\xbb\xbfx = 1\n", None),
        ("a.py", b"\xef\xbb\xbfx = (\n", (1, 5, "'(' was never closed")),
        ("a.py", b"# coding: gbk\nx = '\xd6\xd0'\ny = (\n", (3, 5, "'(' was never closed")),
        ("a.py", b"\xef\xbb\xbf# coding: utf-8\n", None),
        ("a.py", b"\xef\xbb\xbf# coding: gbk\n", (1, 1, "mark says utf-8, the declaration gbk")),
        ("a.py", b"\x0cx = (\n", (1, 6, "'(' was never closed")),
        ("a.py", b"x = 1\ry = (\n", (1, 11, "'(' was never closed")),
        ("a.py", b"x = 1\ry = 2\r\nz = (\r\n", (2, 5, "'(' was never closed")),
        ("a.py", b"x = 1\n y = 2\n", (2, 1, "unexpected indent")),
        ("a.py", b"x\0", (1, 2, "a NUL character")),
        ("a.py", b"'\\d'\n", None),
        ("a.py", b"(" * 50_000, (1, 201, "too many nested parentheses")),
        ("a.py", b"-" * 200_000 + b"1", (1, 1, DEEP)),
        ("a.py", b"a" + b".a" * 100_000, (1, 1, "too long to be parsed")),
        ("a.py", b"x\nimport " + b"a." * 1_000_000 + b"a", (2, 8, "too long to be parsed")),
        ("a.py", b"import " + b"a \\\n." * 300_000 + b"a", (1, 8, "too long to be parsed")),
        ("a.py", b"x" + b".a" * 500 + b"\n" + b"a" * 1_000_000, None),
        ("a.json", b"\xef\xbb\xbf{}", None),
        ("a.json", '\ufeff{"a": "中"}'.encode("utf-16-le"), None),
        ("a.json", b'{"a": 1,}', (1, 9, "property name")),
        ("a.json", b'{\n  "a": 1\n  "b": 2}', (3, 3, "Expecting ',' delimiter")),
        ("a.json", b'{"a": "NaN",\n "b\\"": NaN}', (2, 9, "NaN is not JSON")),
        ("a.json", b"[1, -Infinity]", (1, 5, "-Infinity is not JSON")),
        ("a.json", b"[" * 100_000, (1, 1, DEEP)),
        ("a.json", b'{"a":' * 100_000, (1, 1, DEEP)),
        ("a.json", b"1" * 5_000, None),
        ("a.json", b"", (1, 1, "Expecting value")),
    ],
)
def test_errors_are_where_readers_of_the_file_find_them(
    root: Path, name: str, data: bytes, first: tuple[int, int, str] | None
) -> None:
    (root / name).write_bytes(data)
    result = w.lint_workspace_file(name)
    assert result["ok"] is (first is None)
    if first is not None:
        issue = result["issues"][0]
        assert (issue["line"], issue["column"]) == first[:2]
        assert first[2] in issue["message"]


@pytest.mark.parametrize(
    ("name", "data", "ok", "found"),
    [
        ("a.py", b"x = 1 \n", True, []),
        ("a.json", b"1 \n", True, []),
        ("a.md", b"ok\ntrailing \n", True, [("warning", 2, 9)]),
        ("a.txt", b"one\ntwo\0\n", False, [("error", 2, 4)]),
        ("a.txt", b"one\r\ntwo\r\n", True, []),
        ("a.txt", b"x \n" * 30, True, [("warning", line, 2) for line in range(1, 21)]),
    ],
)
def test_nuls_and_blanks_at_line_ends_are_found_where_there_is_no_parser(
    root: Path, name: str, data: bytes, ok: bool, found: list[tuple[str, int, int]]
) -> None:
    (root / name).write_bytes(data)
    result = w.lint_workspace_file(name)
    assert (result["ok"], result["lint_model"]) == (ok, "built_in_lightweight")
    parsed = name.endswith((".py", ".json"))
    assert result["checked"] == (["syntax"] if parsed else ["nul", "trailing_blanks"])
    assert [(issue["severity"], issue["line"], issue["column"]) for issue in result["issues"]] == found


def test_an_unknown_language_is_refused(root: Path) -> None:
    (root / "f").touch()
    assert w.lint_workspace_file("f", "cobol")["error_type"] == "unsupported_language"


def test_a_file_in_another_encoding_is_checked_in_that(root: Path) -> None:
    (root / "a.json").write_bytes('{"中": }'.encode("gbk"))
    assert w.lint_workspace_file("a.json")["error_type"] == "not_utf8"
    result = w.lint_workspace_file("a.json", encoding="gbk")
    assert (result["encoding"], result["issues"][0]["column"]) == ("gbk", 7)


PARTS = st.lists(
    st.sampled_from(
        ["x", "=", "(", ")", "[", "{", ":", ",", '"', "\\", "1", "NaN", "\n", "\r", "\r\n", "\0", "中"]
    )
).map("".join)


@given(text=PARTS)
def test_any_text_gets_an_answer_with_places_in_it(text: str) -> None:
    for check in (linting._python, linting._json, linting._plain):
        for issue in check(text):
            lines = text.split("\n")
            assert 1 <= issue.line <= len(lines) + 1
            assert issue.column >= 1
