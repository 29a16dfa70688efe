"""Edits change what they name and no other byte."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksadk.workspace import editing, matching, reading
from ksadk.workspace.editing import Edit
from ksadk.workspace.paths import WorkspaceError, locate
from ksadk.workspace.read_state import Content, ReadStates


class Desk:
    """A workspace with one session in it."""

    def __init__(self, base: Path) -> None:
        self.root = (base / "root").resolve()
        self.root.mkdir()
        self.states = ReadStates(base / "reads")

    def put(self, data: bytes, name: str = "f.txt") -> Path:
        path = self.root / name
        path.write_bytes(data)
        reading.read(self.root, self.states, name)
        return path

    def edit(self, old: str, new: str, name: str = "f.txt", **more: Any) -> dict[str, Any]:
        return editing.edit(self.root, self.states, name, Edit(old, new, **more))

    def fail(self, old: str, new: str, name: str = "f.txt", **more: Any) -> WorkspaceError:
        before = (self.root / name).read_bytes()
        with pytest.raises(WorkspaceError) as caught:
            self.edit(old, new, name, **more)
        assert (self.root / name).read_bytes() == before
        return caught.value


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        pytest.param(
            BOM + "hello\n中文\n".encode(), "hello", "hello2", BOM + "hello2\n中文\n".encode(), id="bom"
        ),
        pytest.param(
            BOM + b"import os\n", "import os\n", "import sys\n", BOM + b"import sys\n", id="first line"
        ),
        pytest.param(b"a\xef\xbb\xbfb", "a\ufeffb", "c", b"c", id="bom in the middle is data"),
        pytest.param(b"one\r\ntwo\r\nthree\r\n", "two", "2", b"one\r\n2\r\nthree\r\n", id="crlf kept"),
        pytest.param(b"a\r\nb\r\nc", "a\nb", "a\nX", b"a\r\nX\r\nc", id="lf snippet in crlf"),
        pytest.param(b"a\r\nb\r\nc", "a\nb\n", "a\nX\nY\n", b"a\r\nX\r\nY\r\nc", id="new lines get crlf"),
        pytest.param(b"a\nb\nc", "a\r\nb", "a\r\nX", b"a\nX\nc", id="crlf snippet in lf"),
        pytest.param(b"a\r\nb\nc\r\n", "b\nc", "B\nC", b"a\r\nB\nC\r\n", id="mixed kept"),
        pytest.param(b"a\r\nb\nc\n", "a\nb\nc", "a\nb\nZ", b"a\r\nb\nZ\n", id="mixed kept in the match"),
        pytest.param(
            b"x done", "done", "$& ok $$ \\1 \\g<0> \\n", b"x $& ok $$ \\1 \\g<0> \\n", id="literal"
        ),
        pytest.param(b"p = 1", "1", "/^[\"'(]+/", b"p = /^[\"'(]+/", id="quotes as given"),
        pytest.param(b"no newline at end", "end", "END", b"no newline at END", id="no last newline"),
        pytest.param(b"a\rb\n", "a\rb", "c", b"c\n", id="a lone cr is no line end"),
        pytest.param(b"a\r\nb\r\n", "\nb", "\nc", b"a\r\nc\r\n", id="a crlf is not cut at the start"),
        pytest.param(b"a\r\nb\r\n", "\nb", "c", b"ac\r\n", id="a crlf goes as a whole"),
        pytest.param(b"a\r\nb\nb", "a\nb", "x", b"x\nb", id="crlf to nothing"),
        pytest.param("x “q” y".encode(), "“q”", '"q"', b'x "q" y', id="curly to straight, exact"),
    ],
)
def test_an_edit_leaves_every_other_byte(desk: Desk, before: bytes, old: str, new: str, after: bytes) -> None:
    path = desk.put(before)
    result = desk.edit(old, new)
    assert path.read_bytes() == after
    assert result["ok"] is True
    assert result["replacements"] == 1
    assert result["used_quote_normalization"] is False
    assert result["size"] == len(after)


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("She said, “Hi.” ok", 'said, "Hi." ok', 'said, "Hi." fine', "She said, “Hi.” fine"),
        ("it’s “big”\r\nnow\r\n", 'it\'s "big"\nnow', 'it\'s "small"\nnow', "it’s “small”\r\nnow\r\n"),
        ('plain "text"', "plain “text”", "plain “words”", 'plain "words"'),
        ("‘a’ and ‘b’", "'a' and 'b'", "'a' or 'b', 'c'", "‘a’ or ‘b’, 'c'"),
    ],
)
def test_quotes_match_each_other_and_those_that_stay_are_kept(
    desk: Desk, before: str, old: str, new: str, after: str
) -> None:
    path = desk.put(before.encode())
    result = desk.edit(old, new)
    assert path.read_bytes().decode() == after
    assert result["used_quote_normalization"] is True


@pytest.mark.parametrize(
    ("before", "old", "new", "more", "code"),
    [
        (b"abcd", "", "X", {"replace_all": True}, "missing_old_text"),
        (b"abcd", " \n", "X", {}, "missing_old_text"),
        (b"abcd", "zzz", "X", {}, "snippet_not_found"),
        (b"ab\r\ncx\r\n", "ab\ncd", "X", {}, "snippet_not_found"),
        (b"ab\r\nc", "ab\r", "X", {}, "snippet_not_found"),
        (b"a\r\nb\na\r\nb", "a\nb", "X", {}, "ambiguous_edit"),
        (b"a a a", "a", "X", {}, "ambiguous_edit"),
        (b"a a a", "a", "X", {"expected": 2}, "ambiguous_edit"),
        (b"aaa", "aa", "X", {}, "ambiguous_edit"),
        (b"aaaa", "aa", "X", {}, "ambiguous_edit"),
        (b"abc", "b", "b", {}, "unchanged_edit"),
        ("“a”".encode(), '"a"', "'a'\ud800", {}, "invalid_text"),
        (b"abc", "b", "x\ud800", {}, "invalid_text"),
        (b"abc", "b", "x", {"expected": 0}, "invalid_edit"),
    ],
)
def test_an_edit_that_cannot_be_made_says_why_and_changes_nothing(
    desk: Desk, before: bytes, old: str, new: str, more: dict[str, Any], code: str
) -> None:
    desk.put(before)
    assert desk.fail(old, new, **more).code == code


def test_the_count_of_matches_is_of_those_apart_from_each_other(desk: Desk) -> None:
    path = desk.put(b"aaaa")
    error = desk.fail("aa", "b")
    assert (error.details["occurrences"], error.details["expected_replacements"]) == (2, 1)
    assert desk.edit("aa", "b", expected=2)["replacements"] == 2
    assert path.read_bytes() == b"bb"


def test_an_overlap_that_makes_the_place_unclear_is_reported(desk: Desk) -> None:
    path = desk.put(b"aaa")
    assert desk.fail("aa", "b").details["overlapping"] is True
    desk.edit("aa", "b", replace_all=True)
    assert path.read_bytes() == b"ba"


def test_replace_all_uses_the_same_matching(desk: Desk) -> None:
    path = desk.put(b"a\r\nb\r\na\r\nb\r\n")
    assert desk.edit("a\nb", "c\nd", replace_all=True)["replacements"] == 2
    assert path.read_bytes() == b"c\r\nd\r\nc\r\nd\r\n"


def test_matches_and_candidates_point_at_lines(desk: Desk) -> None:
    desk.put(b"import os\n\x0cdef start_server(port):\nx = 1\nx = 1\n")
    error = desk.fail("x = 1", "x = 2")
    assert [match["line"] for match in error.details["matches"]] == [3, 4]
    error = desk.fail("def start_servers(port):", "x")
    best = error.details["nearby_candidates"][0]
    assert best["line"] == 2
    assert "start_server(port)" in best["text"]
    assert 0.8 < best["score"] <= 1


def test_a_file_must_have_been_read_and_be_what_was_read(desk: Desk) -> None:
    path = desk.root / "f.txt"
    path.write_bytes(b"hello")
    assert desk.fail("hello", "bye").code == "file_not_read"
    reading.read(desk.root, desk.states, "f.txt")
    state = path.stat()
    path.write_bytes(b"hallo")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert desk.fail("hallo", "bye").code == "file_modified_since_read"


def test_a_touched_file_is_still_what_was_read(desk: Desk) -> None:
    path = desk.put(b"hello")
    os.utime(path, ns=(1, 1))
    assert desk.edit("hello", "bye")["ok"] is True


def test_a_partial_read_stands_for_the_whole_file(desk: Desk) -> None:
    path = desk.root / "f.txt"
    path.write_bytes(b"one\ntwo\nthree\n")
    reading.read(desk.root, desk.states, "f.txt", 1, 1)
    state = desk.states.get(locate(desk.root, "f.txt"))
    assert state is not None
    assert (state.partial, state.end_line, state.total_lines) == (True, 1, 3)
    desk.edit("three", "3")
    assert path.read_bytes() == b"one\ntwo\n3\n"


def test_an_edit_may_follow_an_edit(desk: Desk) -> None:
    path = desk.put(b"a b")
    desk.edit("a", "c")
    desk.edit("b", "d")
    assert path.read_bytes() == b"c d"


def test_a_read_only_file_is_refused(desk: Desk) -> None:
    path = desk.put(b"abc")
    path.chmod(0o444)
    assert desk.fail("b", "x").code == "read_only_file"
    path.chmod(0o644)


def test_a_link_stays_a_link_and_its_target_is_edited(desk: Desk) -> None:
    path = desk.put(b"abc", "real.txt")
    (desk.root / "l.txt").symlink_to("real.txt")
    desk.edit("b", "x", "l.txt")
    assert (desk.root / "l.txt").is_symlink()
    assert path.read_bytes() == b"axc"


@pytest.mark.parametrize("name", ["missing.txt", ".", "f.txt/x", "x" * 300, "a\0b", "../f.txt"])
def test_a_place_that_holds_no_file_to_edit_is_a_clear_error(desk: Desk, name: str) -> None:
    desk.put(b"abc")
    with pytest.raises(WorkspaceError):
        desk.edit("b", "x", name)


def test_several_edits_are_made_in_order_or_not_at_all(desk: Desk) -> None:
    path = desk.put(b"one two three")
    result = editing.multi_edit(
        desk.root, desk.states, "f.txt", editing.read_edits([
            {"old_text": "one", "new_text": "1"}, {"old_text": "1 two", "new_text": "1 2"},
        ]),
    )  # fmt: skip
    assert path.read_bytes() == b"1 2 three"
    assert (result["edit_count"], result["replacements"]) == (2, 2)
    assert [note["index"] for note in result["edits"]] == [0, 1]
    with pytest.raises(WorkspaceError) as caught:
        editing.multi_edit(desk.root, desk.states, "f.txt", [Edit("1", "X"), Edit("gone", "Y")])
    assert (caught.value.code, caught.value.details["failed_edit_index"]) == ("snippet_not_found", 1)
    assert path.read_bytes() == b"1 2 three"


@pytest.mark.parametrize(
    ("edits", "code", "index"),
    [
        (None, "invalid_edits", None),
        ("x", "invalid_edits", None),
        ([], "invalid_edits", None),
        (["x"], "invalid_edit", 0),
        ([{"old_text": "a", "new_text": "b"}, 3], "invalid_edit", 1),
        ([{"old_text": "a"}], "missing_new_text", 0),
        ([{"old_text": "a", "new_text": None}], "missing_new_text", 0),
        ([{"new_text": "a"}], "missing_old_text", 0),
        ([{"old_text": 1, "new_text": "a"}], "invalid_edit", 0),
        ([{"old_text": "a", "new_text": "b", "expected_replacements": True}], "invalid_edit", 0),
        ([{"old_text": "a", "new_text": "b", "approval": {}}], "invalid_edit", 0),
    ],
)
def test_edits_that_are_none_are_refused(edits: object, code: str, index: int | None) -> None:
    with pytest.raises(WorkspaceError) as caught:
        editing.read_edits(edits)
    assert caught.value.code == code
    assert caught.value.details.get("failed_edit_index") == index


def test_a_new_kind_of_line_end_is_warned_of(desk: Desk) -> None:
    desk.put(b"a\r\nb\r\n")
    assert "CRLF" in desk.edit("b", "b\nc")["warning"]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"def value_of(x): return x + 1\n" * 69_000, id="many lines"),
        pytest.param(b"word " * 400_000, id="one line"),
    ],
)
def test_a_missing_snippet_is_reported_soon_in_a_large_file(desk: Desk, data: bytes) -> None:
    desk.put(data)
    started = time.monotonic()
    error = desk.fail("def value_off(y): return y - 1\nword nothing", "x")
    assert error.code == "snippet_not_found"
    assert len(error.details["nearby_candidates"]) <= 5
    assert time.monotonic() - started < 3


PIECES = st.lists(
    st.sampled_from(["a", "b", " ", "\n", "\r\n", "\r", '"', "“", "'", "’", "\x0c", "中"]), max_size=12
)


@given(before=PIECES, middle=PIECES, after=PIECES, new=PIECES)
def test_an_exact_match_is_replaced_to_the_letter(
    before: list[str], middle: list[str], after: list[str], new: list[str]
) -> None:
    text, old = "".join([*before, *middle, *after]), "".join(middle)
    if not old or ("\r\n" in text and (old[0] == "\n" or old[-1] == "\r")):
        return  # what would cut a CRLF in two is no exact match
    found = matching.find(text, old)
    assert found.how == "exact"
    change = matching.replaced(text, found, old, "".join(new))
    assert change.made(text) == text.replace(old, "".join(new))


@given(text=PIECES.map("".join), snippet=PIECES.map("".join))
def test_a_loose_match_is_where_the_text_without_carriage_returns_has_it(text: str, snippet: str) -> None:
    if not snippet.strip():
        return
    found = matching.find(text, snippet)
    flat, wanted = text.replace("\r\n", "\n"), snippet.replace("\r\n", "\n")
    if found.how == "quotes":
        flat, wanted = matching.straight(flat), matching.straight(wanted)
    if not found.matches:
        assert matching.straight(wanted) not in matching.straight(flat)
        return
    assert len(found.matches) == (flat.count(wanted) if found.how != "exact" else text.count(snippet))
    for match in found.matches:
        there = text[match.start : match.end].replace("\r\n", "\n")
        assert (matching.straight(there) if found.how == "quotes" else there) == wanted
        assert text[match.start - 1 : match.start + 1] != "\r\n" or not match.start
        assert text[match.end - 1 : match.end + 1] != "\r\n"


@pytest.mark.parametrize("lines", [1, 63, 64, 65, 300])
def test_any_number_of_loose_matches_is_counted(lines: int) -> None:
    text = "one\r\ntwo\nthree\r\n" * lines
    old = "one\ntwo\nthree\n"
    found = matching.find(text, old)
    assert (len(found.matches), found.how, found.overlapping) == (lines, "line_endings", False)
    assert matching.replaced(text, found, old, old.replace("two", "2")).made(text) == text.replace("two", "2")


@pytest.mark.parametrize("size", [2, 65, 200])
def test_loose_matches_that_overlap_are_told(size: int) -> None:
    text = "a\r\n" * (2 * size - 1)
    assert matching.find(text, "a\na\n").overlapping is True
    assert matching.find(text + "a\r\n", "a\na\n").overlapping is False


@given(before=PIECES, middle=PIECES, after=PIECES)
def test_replacing_a_loose_match_by_itself_changes_nothing(
    before: list[str], middle: list[str], after: list[str]
) -> None:
    plain = str.maketrans("“’", "\"'")
    old = "".join(middle).replace("\r\n", "\n").translate(plain)
    text = "".join([*before, *middle, *after])
    if not old or "\r\r" in text or ("\r\n" in text and old[-1] == "\r"):
        return  # a CR before a CRLF: taking CRLF for LF makes another CRLF
    found = matching.find(text, old)
    assert found.matches
    assert matching.replaced(text, found, old, old).made(text) == text


@given(data=st.binary(max_size=300_000), cut=st.integers(0, 300_000), more=st.binary(max_size=70_000))
@settings(max_examples=20)
def test_the_hash_of_content_like_another_is_that_of_its_bytes(data: bytes, cut: int, more: bytes) -> None:
    content = Content(data)
    assert content.sha256 == hashlib.sha256(data).hexdigest()
    same = min(cut, len(data))
    for step in (same, len(data), len(data) // 2):
        changed = data[:step] + more
        assert Content(changed, content, step).sha256 == hashlib.sha256(changed).hexdigest()
